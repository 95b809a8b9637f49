//! Rewrites tokens: at another place, with other lifetimes, without `Self`.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use crate::model::Place;

/// The same tokens at another place; what is inside of groups stays where it is.
pub(crate) fn at(Place(first, last): Place, tokens: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for token in &mut tokens {
        token.set_span(first);
    }
    // What rustc underlines goes up to the last group: that of the arguments.
    let is_group = |token: &&mut TokenTree| matches!(token, TokenTree::Group(_));
    if let Some(group) = tokens.iter_mut().rev().find(is_group) {
        group.set_span(last);
    }
    tokens.into_iter().collect()
}

/// The same type with `'static` for every lifetime: what is read owns its data.
pub(crate) fn owned_lifetimes(ty: impl ToTokens) -> TokenStream {
    let tokens = ty.to_token_stream();
    let mut out = TokenStream::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                out.extend([TokenTree::Punct(punct)]);
                if let Some(TokenTree::Ident(ident)) = tokens.next() {
                    out.extend([TokenTree::Ident(Ident::new("static", ident.span()))]);
                }
            }
            TokenTree::Group(group) => {
                let inside = owned_lifetimes(group.stream());
                let mut replaced = Group::new(group.delimiter(), inside);
                replaced.set_span(group.span());
                out.extend([TokenTree::Group(replaced)]);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {
                out.extend([token])
            }
        }
    }
    out
}

/// The same tokens with the type itself for `Self`, which constants inside a method cannot name.
pub(crate) fn replace_self(tokens: TokenStream, self_type: &TokenStream) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Ident(ident) if ident == "Self" => quote!(<#self_type>),
        TokenTree::Group(group) => {
            let inside = replace_self(group.stream(), self_type);
            let mut replaced = Group::new(group.delimiter(), inside);
            replaced.set_span(group.span());
            TokenTree::Group(replaced).into()
        }
        other => TokenStream::from(other),
    };
    tokens.into_iter().map(replace).collect()
}
