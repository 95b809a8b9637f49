//! The definition of a deprecated tool. It names the deprecated function without causing the `deprecated` lint.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;

/// The definition of a deprecated tool, as an `impl` for the type `handle`. A derive macro writes the definition,
/// because rustc does not lint the output of a derive macro. An `allow` attribute would have no effect under `forbid`.
pub(crate) fn declared(
    handle: &Ident,
    function: &Ident,
    definition: &TokenStream,
    krate: &TokenStream,
) -> TokenStream {
    let private = quote!(#krate::__private);
    quote! {
        const _: () = {
            #[derive(#private::Declare)]
            #[declare(#function impl #private::DeclaredTool for #handle {
                const TOOL: &'static #private::ToolDef = #definition;
            })]
            enum __Declare {}
        };
    }
}

/// The output of the derive macro `Declare`: the tokens after the function's name in the attribute `declare`. In these
/// tokens, each occurrence of the function's name gets the span of this macro, so that rustc does not lint the name.
pub(crate) fn declare(item: TokenStream) -> TokenStream {
    let written = item.into_iter().find_map(|token| match token {
        TokenTree::Group(group) => Some(group.stream().into_iter().nth(1)?),
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    });
    let Some(TokenTree::Group(written)) = written else { return TokenStream::new() };
    let mut written = written.stream().into_iter();
    let Some(TokenTree::Ident(function)) = written.next() else { return TokenStream::new() };
    as_own(written.collect(), &function)
}

fn as_own(tokens: TokenStream, name: &Ident) -> TokenStream {
    let own = |token| match token {
        TokenTree::Ident(mut ident) if ident == *name => {
            ident.set_span(Span::call_site().located_at(ident.span()));
            TokenTree::Ident(ident)
        }
        TokenTree::Group(group) => {
            let mut inside = Group::new(group.delimiter(), as_own(group.stream(), name));
            inside.set_span(group.span());
            TokenTree::Group(inside)
        }
        other => other,
    };
    tokens.into_iter().map(own).collect()
}
