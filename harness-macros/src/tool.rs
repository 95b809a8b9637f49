//! `#[tool]`: parses the function, checks it, and writes the expansion. The function itself is
//! written even after errors.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote};

use crate::{
    args,
    check::{self, FunctionPlace},
    diagnostics::Errors,
    expand,
    signature::{self, AnnotatedItem, ToolFunction},
    unread,
};

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    match signature::read(&item) {
        AnnotatedItem::Function(function) => expand_function(attribute, *function, errors),
        // rustc itself refuses attributes on expressions. Further tokens would only cause further
        // errors.
        AnnotatedItem::Other("an expression", _) => item,
        AnnotatedItem::Other(kind, span) => {
            let help = match kind {
                "an `impl` block" => {
                    "\nhelp: put `#[toolset]` on the `impl` block and `#[tool(...)]` on each method"
                }
                "a trait" => "\nhelp: put it on the methods of an `impl` block with `#[toolset]`",
                "a module" => "\nhelp: put it on each function in the module",
                _ => "",
            };
            errors.push_at(span, format!("`#[tool]` goes on a function, not on {kind}{help}"));
            quote!(#item #errors)
        }
        AnnotatedItem::Unread(err) => expand_unread(attribute, item, err, errors),
    }
}

/// Expands a function that syn cannot parse. rustc has already reported the error. Code that refers
/// to the tool still compiles.
fn expand_unread(
    attribute: TokenStream,
    mut item: TokenStream,
    err: syn::Error,
    mut errors: Errors,
) -> TokenStream {
    let written = args::tool_args(attribute, &mut errors);
    if let Some((comment, rest)) = unread::comment_behind(&item) {
        errors.push(comment, unread::COMMENT_BEHIND);
        item = rest;
    } else if unread::is_from_macro(&item) {
        errors.handle::<()>(Err(err));
    }
    let companion = match unread::name(&item) {
        Some((name, false)) => {
            let krate = expand::crate_path(written.krate.as_ref(), "tool");
            let handle = written.handle.unwrap_or(name);
            krate.map(|krate| expand::stub(&handle, &unread::visibility(&item), &krate)).ok()
        }
        Some((_, true)) | None => None,
    };
    quote!(#item #errors #companion)
}

fn expand_function(
    attribute: TokenStream,
    mut function: ToolFunction,
    mut errors: Errors,
) -> TokenStream {
    let written = args::tool_args(attribute, &mut errors);
    let handle = written.handle.clone().unwrap_or_else(|| function.signature.ident.clone());
    let found = expand::crate_path(written.krate.as_ref(), "tool");
    // A wrong crate path is already reported. The checks continue with `::harness`.
    let krate = found.clone().unwrap_or_else(|_| quote!(::harness));
    if !function.has_body() && function.signature.receiver().is_none() {
        errors.push(
            function.signature.fn_token,
            "a tool needs a body: this is only a declaration\nhelp: put `#[tool]` on the function \
             that has one",
        );
    }
    let tool = check::check(written, &mut function, FunctionPlace::Free, &krate, &mut errors);
    let deprecated = function.attributes.iter().any(|a| a.path().is_ident("deprecated"));
    let visibility = function.visibility.clone();
    let has_receiver = function.signature.receiver().is_some();
    let companion = match (tool, found) {
        (_, Err(message)) => {
            // Without the path of the crate, nothing else can be generated.
            errors.push_at(Span::call_site(), message);
            TokenStream::new()
        }
        (Some(tool), Ok(krate)) => {
            expand::companion(&handle, &visibility, &tool, deprecated, &krate)
        }
        // In an `impl` block or a trait, a generated type would cause another error.
        (None, Ok(_)) if has_receiver || !function.has_body() => TokenStream::new(),
        (None, Ok(krate)) => expand::stub(&handle, &visibility, &krate),
    };
    let function = function.to_token_stream();
    quote!(#function #errors #companion)
}
