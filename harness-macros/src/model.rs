//! A checked tool: `check` makes it, and `expand` writes it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::Expr;

use crate::docs::DocText;

/// A tool.
pub(crate) struct CheckedTool {
    /// The function.
    pub(crate) ident: Ident,
    pub(crate) name: String,
    pub(crate) description: ToolDescription,
    /// The title that people read.
    pub(crate) title: Option<String>,
    pub(crate) side_effects: Vec<&'static str>,
    pub(crate) idempotent: bool,
    /// The time limit, in milliseconds.
    pub(crate) timeout: Option<u64>,
    /// How many calls run at the same time.
    pub(crate) at_once: Option<Expr>,
    /// The function that reviews calls.
    pub(crate) review: Option<TokenStream>,
    /// The function that finds out what became of a call.
    pub(crate) reconcile: Option<TokenStream>,
    pub(crate) params: Vec<CheckedParam>,
    pub(crate) output: ReturnSpans,
    pub(crate) is_async: bool,
    pub(crate) is_method: bool,
}

/// The description for the model, and the place of the error if it is empty.
pub(crate) struct ToolDescription {
    pub(crate) text: DocText,
    pub(crate) span: Span,
}

/// A parameter.
pub(crate) struct CheckedParam {
    pub(crate) name: String,
    /// The owned type that is read.
    pub(crate) owned: TokenStream,
    /// Whether the spelling shows all of the type.
    pub(crate) is_known: bool,
    pub(crate) passed: PassingMode,
    pub(crate) description: DocText,
    pub(crate) default: Option<GivenValue>,
    /// The limits of the values, as calls on the constant that declares the parameter.
    pub(crate) limits: Vec<TokenStream>,
    pub(crate) examples: Vec<GivenValue>,
    /// Rules that only rustc can check.
    pub(crate) rules: Vec<ParamRule>,
}

/// How the value is passed to the function.
pub(crate) enum PassingMode {
    /// Moved.
    Owned,
    /// Lent, as this type.
    Lent(TokenStream),
    /// Lent, if it is there.
    LentOption(TokenStream),
}

/// A value in the attribute.
pub(crate) enum GivenValue {
    /// A literal, as an expression that makes JSON of it.
    Json(TokenStream),
    /// An expression of the parameter's type.
    Typed(TokenStream),
}

/// A rule for a parameter that rustc checks when the types are known.
pub(crate) struct ParamRule {
    /// The place of the error.
    pub(crate) place: SpanRange,
    pub(crate) condition: RuleCondition,
    pub(crate) message: String,
}

/// The first and the last wrong token.
#[derive(Clone, Copy)]
pub(crate) struct SpanRange(pub(crate) Span, pub(crate) Span);

impl SpanRange {
    pub(crate) fn of(tokens: impl ToTokens) -> Self {
        let mut tokens = tokens.to_token_stream().into_iter().map(|token| token.span());
        let first = tokens.next().unwrap_or_else(Span::call_site);
        Self(first, tokens.last().unwrap_or(first))
    }
}

/// The content of a rule.
pub(crate) enum RuleCondition {
    /// Whether the host supplies the parameter.
    Supplied(bool),
    /// The type accepts literals of this kind, with these integers in them.
    TakesLiteral { kind: TokenStream, integers: Vec<i128> },
    /// The type of the parameter, or this part of it, has no shared mutable value.
    IsNotShared(Option<TokenStream>),
    /// An expression.
    Holds(TokenStream),
}

/// The return type, by the spans of its parts: the types themselves are inferred.
pub(crate) enum ReturnSpans {
    /// A type that is not named `Result`.
    Plain(SpanRange),
    /// `Result<T, E>`, spelled out.
    Result(SpanRange, SpanRange),
    /// A type that traits have to examine.
    Asked(SpanRange),
}
