//! Collects errors and reports them together, each at the narrowest wrong tokens. The first line of an
//! error is the fault, and a second one, `help:`, is the way out.

use std::fmt::Display;

use darling::FromMeta;
use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use strsim::osa_distance;
use syn::{Expr, Meta};

/// All errors, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Errors {
    found: Vec<syn::Error>,
    silent: bool,
    /// The attribute that an error about the whole attribute underlines. `None` for the attribute that has called the
    /// macro.
    attribute: Option<TokenStream>,
}

impl Errors {
    /// Errors about an attribute that another macro reads.
    pub(crate) fn at(attribute: impl ToTokens) -> Self {
        Self { attribute: Some(attribute.into_token_stream()), ..Self::default() }
    }

    /// Adds an error about the whole attribute.
    pub(crate) fn push_attribute(&mut self, message: impl Display) {
        match &self.attribute {
            Some(attribute) => self.found.push(syn::Error::new_spanned(attribute, message)),
            None => self.push_at(Span::call_site(), message),
        }
    }

    /// Adds errors that were found elsewhere.
    pub(crate) fn append(&mut self, other: Self) {
        self.found.extend(other.found);
        self.silent |= other.silent;
    }

    /// Adds an error that underlines all of these tokens.
    pub(crate) fn push(&mut self, at: impl ToTokens, message: impl Display) {
        self.found.push(syn::Error::new_spanned(at, message));
    }

    /// Adds an error at a place that has no tokens of its own.
    pub(crate) fn push_at(&mut self, at: Span, message: impl Display) {
        self.found.push(syn::Error::new(at, message));
    }

    /// Reads a key with its value. An error underlines all of its tokens.
    pub(crate) fn read<T: FromMeta>(&mut self, meta: &Meta) -> Option<T> {
        match meta {
            Meta::NameValue(written) => self.found_by_darling(&written.value, T::from_meta(meta)),
            Meta::Path(_) | Meta::List(_) if T::from_word().is_err() => {
                let key = meta.path().to_token_stream();
                self.push(&key, format!("expected `{key} = ...`"));
                None
            }
            Meta::Path(_) | Meta::List(_) => self.found_by_darling(meta, T::from_meta(meta)),
        }
    }

    /// Reads a value.
    pub(crate) fn value<T: FromMeta>(&mut self, value: &Expr) -> Option<T> {
        self.found_by_darling(value, T::from_expr(value))
    }

    fn found_by_darling<T>(&mut self, at: &impl ToTokens, read: darling::Result<T>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(err) => {
                for err in err {
                    self.push(at, err);
                }
                None
            }
        }
    }

    /// Adds the errors that were found while reading.
    pub(crate) fn handle<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|err| self.found.push(err)).ok()
    }

    /// Records that rustc reports a mistake itself, so that nothing is generated.
    pub(crate) fn leave_to_rustc(&mut self) {
        self.silent = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty() && !self.silent
    }
}

impl ToTokens for Errors {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.found.iter().map(syn::Error::to_compile_error));
    }
}

/// The candidate that was probably meant: at most a third of its letters differ, or one of the two
/// begins with the other.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    let ranked = candidates.into_iter().filter_map(|candidate| {
        let lower = candidate.to_lowercase();
        let distance = osa_distance(&word, &lower);
        let near = distance <= word.chars().count().max(lower.chars().count()) / 3;
        let begins = word.len().min(lower.len()) >= 2
            && (lower.starts_with(&word) || word.starts_with(&lower));
        (near || begins).then_some((distance, candidate))
    });
    ranked.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Returns `; did you mean ..?` with the candidate, to be appended to an error, or an empty text without a candidate.
pub(crate) fn did_you_mean(near: Option<&str>, quote: char) -> String {
    near.map(|near| format!("; did you mean {quote}{near}{quote}?")).unwrap_or_default()
}
