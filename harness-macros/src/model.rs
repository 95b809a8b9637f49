//! The data of a checked tool. `check` makes this data, and `expand` writes the expansion from it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::Expr;

use crate::docs::DocText;

/// A checked tool.
pub(crate) struct CheckedTool {
    /// The name of the function.
    pub(crate) ident: Ident,
    pub(crate) name: String,
    pub(crate) description: ToolDescription,
    /// The title for people.
    pub(crate) title: Option<String>,
    pub(crate) side_effects: Vec<&'static str>,
    pub(crate) idempotent: bool,
    /// The time limit, in milliseconds.
    pub(crate) timeout: Option<u64>,
    /// The maximum number of concurrent calls.
    pub(crate) at_once: Option<Expr>,
    /// The path of the review function.
    pub(crate) review: Option<TokenStream>,
    /// The path of the reconcile function.
    pub(crate) reconcile: Option<TokenStream>,
    pub(crate) params: Vec<CheckedParam>,
    pub(crate) output: ReturnSpans,
    pub(crate) is_async: bool,
    pub(crate) is_method: bool,
}

/// The description for the model, and the place for the error if the description is empty.
pub(crate) struct ToolDescription {
    pub(crate) text: DocText,
    pub(crate) span: Span,
}

/// A checked parameter.
pub(crate) struct CheckedParam {
    pub(crate) name: String,
    /// The owned type that the arguments are deserialized into.
    pub(crate) owned: TokenStream,
    /// Whether the spelling shows the type completely.
    pub(crate) is_known: bool,
    pub(crate) passed: PassingMode,
    pub(crate) description: DocText,
    pub(crate) default: Option<GivenValue>,
    /// The limits of the value, as method calls on the constant that declares the parameter.
    pub(crate) limits: Vec<TokenStream>,
    pub(crate) examples: Vec<GivenValue>,
    /// Rules that only rustc can check.
    pub(crate) rules: Vec<ParamRule>,
}

/// How the value is passed to the function.
pub(crate) enum PassingMode {
    /// The value is moved.
    Owned,
    /// A reference to this type is passed.
    Lent(TokenStream),
    /// An optional reference to this type is passed.
    LentOption(TokenStream),
}

/// A default or an example in the attribute.
pub(crate) enum GivenValue {
    /// A literal, as an expression that builds its JSON.
    Json(TokenStream),
    /// An expression of the parameter's type.
    Typed(TokenStream),
}

/// A rule for a parameter. rustc checks the rule when the types are known.
pub(crate) struct ParamRule {
    /// The place where an error is reported.
    pub(crate) place: SpanRange,
    pub(crate) condition: RuleCondition,
    pub(crate) message: String,
}

/// The spans of the first and the last token of a place.
#[derive(Clone, Copy)]
pub(crate) struct SpanRange(pub(crate) Span, pub(crate) Span);

impl SpanRange {
    pub(crate) fn of(tokens: impl ToTokens) -> Self {
        let mut tokens = tokens.to_token_stream().into_iter().map(|token| token.span());
        let first = tokens.next().unwrap_or_else(Span::call_site);
        Self(first, tokens.last().unwrap_or(first))
    }
}

/// The condition of a rule.
pub(crate) enum RuleCondition {
    /// Whether the host, rather than the model, must supply the parameter.
    Supplied(bool),
    /// The type must accept literals of this kind that contain these integers.
    TakesLiteral { kind: TokenStream, integers: Vec<i128> },
    /// The type of the parameter, or the given part of it, must not contain shared mutable values.
    IsNotShared(Option<TokenStream>),
    /// This constant expression must be true.
    Holds(TokenStream),
}

/// The return type, as the spans of its parts. The types themselves are inferred.
pub(crate) enum ReturnSpans {
    /// A type whose name is not `Result`.
    Plain(SpanRange),
    /// `Result<T, E>`, spelled out.
    Result(SpanRange, SpanRange),
    /// A type that only traits can examine.
    Asked(SpanRange),
}
