//! Rewrites tokens: changes their spans, makes lifetimes `'static`, or replaces `Self`.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use crate::model::SpanRange;

/// The same tokens with new spans. Tokens inside groups keep their spans.
pub(crate) fn at(SpanRange(first, last): SpanRange, tokens: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for token in &mut tokens {
        token.set_span(first);
    }
    // rustc underlines up to the end of the last group, which contains the arguments.
    let is_group = |token: &&mut TokenTree| matches!(token, TokenTree::Group(_));
    if let Some(group) = tokens.iter_mut().rev().find(is_group) {
        group.set_span(last);
    }
    tokens.into_iter().collect()
}

/// The same item, in which all tokens except the name have the span of the running macro. If the name is already taken,
/// rustc then names this macro in the error.
pub(crate) fn written_here(item: TokenStream) -> TokenStream {
    let here = |token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            TokenTree::Group(Group::new(Delimiter::None, written_here(group.stream())))
        }
        mut token => {
            let is_name =
                matches!(&token, TokenTree::Ident(word) if word != "enum" && word != "pub");
            if !is_name {
                token.set_span(Span::call_site());
            }
            token
        }
    };
    item.into_iter().map(here).collect()
}

/// The same type with `'static` for every lifetime, because deserialized values own their data.
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

/// The same tokens with the type, if there is one, in place of `Self`, because constants inside a method cannot use
/// `Self`.
pub(crate) fn replace_self(tokens: TokenStream, self_type: Option<&TokenStream>) -> TokenStream {
    let Some(self_type) = self_type else { return tokens };
    let mut out = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                let begins_a_path =
                    matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
                // rustc reports errors about the path at the position of `Self`.
                let here = |tokens| at(SpanRange::of(&ident), tokens);
                out.extend(if !begins_a_path {
                    self_type.clone()
                } else if is_bare_path(self_type) {
                    here(self_type.clone())
                } else {
                    let (open, close) = (here(quote!(<)), here(quote!(>)));
                    quote!(#open #self_type #close)
                });
            }
            TokenTree::Group(group) => {
                let inside = replace_self(group.stream(), Some(self_type));
                let mut replaced = Group::new(group.delimiter(), inside);
                replaced.set_span(group.span());
                out.extend([TokenTree::Group(replaced)]);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {
                out.extend([token]);
            }
        }
    }
    out
}

/// Whether a type is a path without generic arguments, so that `::` can directly follow the path.
fn is_bare_path(ty: &TokenStream) -> bool {
    ty.clone().into_iter().all(|token| match token {
        TokenTree::Ident(word) => word != "dyn",
        TokenTree::Punct(punct) => punct.as_char() == ':',
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    })
}
