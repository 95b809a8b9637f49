//! The macros of the package `harness`, which documents their syntax. The macros only transform tokens. Traits in
//! `harness` decide what a type can do.

mod args;
mod check;
mod defaults;
mod deprecated;
mod diagnostics;
mod docs;
mod entries;
mod expand;
mod forms;
mod lengths;
mod literal;
mod map_keys;
mod model;
mod names;
mod output;
mod params;
mod ranges;
mod rewrite;
mod signature;
#[cfg(test)]
mod snapshots;
mod tool;
mod tools;
mod toolset;
mod types;
mod unread;
mod values;

use proc_macro::TokenStream;

/// Makes a tool of a function. See `harness::tool`.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(attribute.into(), item.into()).into()
}

/// Makes tools of the methods of an `impl` block. See `harness::toolset`.
#[proc_macro_attribute]
pub fn toolset(attribute: TokenStream, item: TokenStream) -> TokenStream {
    toolset::expand(attribute.into(), item.into()).into()
}

/// A list of tools. See `harness::tools`.
#[proc_macro]
pub fn tools(list: TokenStream) -> TokenStream {
    tools::expand(list.into()).into()
}

/// Adds items to the type beside a function. If the name of that type is already taken, rustc's error names the macro
/// that wrote the type. So this macro writes the type, and the name of the macro tells the user the remedy.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn a_taken_name_needs_handle_equals(items: TokenStream, ty: TokenStream) -> TokenStream {
    let mut written = TokenStream::from(rewrite::written_here(ty.into()));
    written.extend(items);
    written
}

/// Writes the definition of a deprecated tool.
#[doc(hidden)]
#[proc_macro_derive(Declare, attributes(declare))]
pub fn declare(item: TokenStream) -> TokenStream {
    deprecated::declare(item.into()).into()
}
