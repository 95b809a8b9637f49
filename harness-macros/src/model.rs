//! What is true of a tool once everything was checked: what `check` makes and `expand` writes.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::Expr;

use crate::docs::Text;

/// A tool.
pub(crate) struct Tool {
    /// The function.
    pub(crate) ident: Ident,
    pub(crate) name: String,
    pub(crate) description: Description,
    /// What people read in place of the name.
    pub(crate) title: Option<String>,
    pub(crate) side_effects: Vec<&'static str>,
    pub(crate) idempotent: bool,
    /// In milliseconds.
    pub(crate) timeout: Option<u64>,
    /// How many calls run at the same time.
    pub(crate) at_once: Option<Expr>,
    /// The function that reviews calls.
    pub(crate) review: Option<TokenStream>,
    /// The function that finds out what became of a call.
    pub(crate) reconcile: Option<TokenStream>,
    pub(crate) params: Vec<Param>,
    pub(crate) output: Output,
    pub(crate) is_async: bool,
    pub(crate) is_method: bool,
}

/// What the model is told, and where to say that it is nothing.
pub(crate) struct Description {
    pub(crate) text: Text,
    pub(crate) span: Span,
}

/// A parameter.
pub(crate) struct Param {
    pub(crate) name: String,
    /// The type as it is read and kept.
    pub(crate) owned: TokenStream,
    /// Whether the spelling of the type says all of it.
    pub(crate) is_known: bool,
    pub(crate) passed: Passed,
    pub(crate) description: Text,
    pub(crate) default: Option<Given>,
    /// What limits the values, as calls of the constant that declares the parameter.
    pub(crate) limits: Vec<TokenStream>,
    pub(crate) examples: Vec<Given>,
    /// What only the types and the constants can say.
    pub(crate) rules: Vec<Rule>,
}

/// How the function gets what was read.
pub(crate) enum Passed {
    /// Moved.
    Owned,
    /// Lent, as this type.
    Lent(TokenStream),
    /// Lent, if it is there.
    LentOption(TokenStream),
}

/// A value that is written in the attribute.
pub(crate) enum Given {
    /// A literal, as an expression that makes it JSON.
    Json(TokenStream),
    /// An expression of the parameter's type.
    Typed(TokenStream),
}

/// What must be true of a parameter, for rustc to say once the types are known.
pub(crate) struct Rule {
    /// Where it is said.
    pub(crate) place: Place,
    pub(crate) condition: Condition,
    pub(crate) message: String,
}

/// The first and the last token of what is wrong.
#[derive(Clone, Copy)]
pub(crate) struct Place(pub(crate) Span, pub(crate) Span);

impl Place {
    pub(crate) fn of(tokens: impl ToTokens) -> Self {
        let mut tokens = tokens.to_token_stream().into_iter().map(|token| token.span());
        let first = tokens.next().unwrap_or_else(Span::call_site);
        Self(first, tokens.last().unwrap_or(first))
    }
}

/// What must be true.
pub(crate) enum Condition {
    /// Whether the host supplies the parameter.
    Supplied(bool),
    /// The type takes literals of this kind, with these integers in them.
    TakesLiteral { kind: TokenStream, integers: Vec<i128> },
    /// The type of the parameter, or this part of it, shares nothing that changes.
    IsNotShared(Option<TokenStream>),
    /// An expression.
    Holds(TokenStream),
}

/// What the function returns, by the places of the types: the types themselves are inferred.
pub(crate) enum Output {
    /// A type that is no `Result` by its name.
    Plain(Place),
    /// `Result<T, E>`, spelled out.
    Result(Place, Place),
    /// A type that must be asked.
    Asked(Place),
}
