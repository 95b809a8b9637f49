//! Collects errors and reports all of them, each at the narrowest range of wrong tokens. The first line of an error is
//! the fault; the second line, `help:`, is the remedy.

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
    /// The attribute to underline for an error about a whole attribute. `None` means the attribute that called the
    /// macro.
    attribute: Option<TokenStream>,
}

impl Errors {
    /// Collects errors about an attribute that another macro reads.
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

    /// Adds the errors of another collection.
    pub(crate) fn append(&mut self, other: Self) {
        self.found.extend(other.found);
        self.silent |= other.silent;
    }

    /// Adds an error that underlines all of these tokens.
    pub(crate) fn push(&mut self, at: impl ToTokens, message: impl Display) {
        self.found.push(syn::Error::new_spanned(at, message));
    }

    /// Adds an error at a span that belongs to no tokens.
    pub(crate) fn push_at(&mut self, at: Span, message: impl Display) {
        self.found.push(syn::Error::new(at, message));
    }

    /// Reads a key with its value. An error underlines the whole value, or the key if the value is missing.
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

    /// Reads a value. An error underlines the whole value.
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

    /// Returns the value, or adds the error.
    pub(crate) fn handle<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|err| self.found.push(err)).ok()
    }

    /// Records that rustc itself reports a mistake. Then no tool is generated, and no error is added here.
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

/// The candidate that was probably meant. At most a third of the letters may differ, or one word must begin with the
/// other.
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

/// Returns `; did you mean ..?` with the candidate, for the end of an error. Empty without a candidate.
pub(crate) fn did_you_mean(near: Option<&str>, quote: char) -> String {
    near.map(|near| format!("; did you mean {quote}{near}{quote}?")).unwrap_or_default()
}
