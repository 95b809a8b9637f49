//! `tools![a, module::b]`: makes a list of tools, and checks that no two tools have the same name.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{
    Attribute, Path,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

use crate::{diagnostics::Errors, expand, names};

pub(crate) fn expand(list: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut entries = entries(list, &mut errors);
    if entries.is_empty() {
        // Only an empty list needs the crate's path: otherwise the listed tools determine the type.
        return match (errors.is_empty(), expand::crate_path(None, "tool")) {
            (true, Ok(krate)) => quote!(#krate::__private::Vec::<#krate::__private::Tool>::new()),
            (true, Err(_)) => quote!(::std::vec::Vec::new()),
            (false, Ok(krate)) => {
                quote!({ #errors #krate::__private::Vec::<#krate::__private::Tool>::new() })
            }
            (false, Err(_)) => quote!({ #errors ::std::vec::Vec::new() }),
        };
    }
    for ListedTool { path, .. } in &mut entries {
        if let Some(last) = path.segments.last_mut()
            && names::is_refused(&last.ident)
        {
            last.ident = expand::refused(&last.ident);
        }
    }
    let (attributes, paths): (Vec<_>, Vec<_>) = entries
        .iter()
        .map(|ListedTool { attributes, path }| (quote!(#(#attributes)*), path))
        .unzip();
    // The spans make rustc underline only a type that is not a tool, instead of the whole list.
    let made = paths.iter().map(|path| {
        let method = crate::rewrite::at(crate::model::SpanRange::of(path), quote!(tool));
        quote!(<#path>::#method())
    });
    let unique = match paths.as_slice() {
        [first, _, ..] if attributes.iter().all(TokenStream::is_empty) => {
            // The rule is a method of the definition, so that the expansion needs no path of `harness`.
            quote!(const _: () = <#first>::TOOL.unique_in(&[#(<#paths>::TOOL),*]);)
        }
        _ => TokenStream::new(),
    };
    quote! {{
        #errors
        #unique
        <::std::vec::Vec<_> as ::core::convert::From<_>>::from([#(#attributes #made),*])
    }}
}

struct ListedTool {
    attributes: Vec<Attribute>,
    path: Path,
}

/// Splits the list. Entries that are no paths are reported and skipped.
fn entries(list: TokenStream, errors: &mut Errors) -> Vec<ListedTool> {
    let mut entries: Vec<ListedTool> = Vec::new();
    for tokens in split(list) {
        let parse = |input: ParseStream<'_>| {
            Ok(ListedTool {
                attributes: input.call(Attribute::parse_outer)?,
                path: Path::parse_mod_style(input)?,
            })
        };
        match parse.parse2(tokens.clone()) {
            Ok(mut entry) => {
                let shown = crate::types::show(&entry.path);
                for attribute in &entry.attributes {
                    if !attribute.path().is_ident("cfg") {
                        errors.push(
                            attribute,
                            "only `#[cfg(...)]` can stand before a tool in a list",
                        );
                    }
                }
                // Other attributes are removed, because they would cause another error.
                entry.attributes.retain(|attribute| attribute.path().is_ident("cfg"));
                let twice = entry.attributes.is_empty()
                    && entries.iter().any(|other| crate::types::show(&other.path) == shown);
                if let Some(path) = shown.strip_suffix("::TOOL") {
                    let fault = "list the tool by its name, without its definition";
                    errors.push(&entry.path, format!("{fault}\nhelp: `{path}`"));
                } else if let Some(owner) = owner(&entry.path) {
                    errors.push(
                        &entry.path,
                        format!(
                            "`{shown}` is a method of `{owner}`, which is a tool only together with \
                             its value\nhelp: add all tools of a value to the list: \
                             `tools![..].into_iter().chain(value.tools())`; `#[toolset]` on the `impl` block \
                             of `{owner}` makes `tools`"
                        ),
                    );
                } else if twice {
                    errors.push(&entry.path, format!("`{shown}` is listed twice"));
                } else {
                    entries.push(entry);
                }
            }
            Err(_) => errors.push(&tokens, explain(&tokens)),
        }
    }
    entries
}

/// The type to which a method belongs. The second last name of the path is a type if it begins with an upper-case
/// letter.
fn owner(path: &Path) -> Option<&syn::Ident> {
    let owner = &path.segments.iter().rev().nth(1)?.ident;
    owner.unraw().to_string().starts_with(char::is_uppercase).then_some(owner)
}

/// The error message for an entry that is not a path.
fn explain(tokens: &TokenStream) -> String {
    let all: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let help = "help: list each tool by the path of its function: `tools![calc, files::read]`";
    let is_dot = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == '.');
    match all.as_slice() {
        all if is_a_value(all) => {
            let whole = crate::types::show(tokens);
            let value = if whole.chars().count() <= SHOWN_VALUE { &whole } else { "made" };
            format!(
                "{A_VALUE}\nhelp: add it to the list: `tools![..].into_iter().chain([{value}])`"
            )
        }
        all if all.iter().any(is_dot) => {
            let value: TokenStream =
                all.iter().take_while(|token| !is_dot(token)).cloned().collect();
            let value = crate::types::show(value);
            format!(
                "the tools of a value cannot be listed one by one\nhelp: add all of them to the list: \
                 `tools![..].into_iter().chain({value}.tools())`"
            )
        }
        [.., TokenTree::Group(group)]
            if group.delimiter() == proc_macro2::Delimiter::Parenthesis =>
        {
            let path: TokenStream = all[..all.len() - 1].iter().cloned().collect();
            let path = crate::types::show(path);
            let call = "list the tool by its name, without a call";
            match path.strip_suffix("::tool") {
                Some(path) => format!("{call}\nhelp: `{path}`"),
                None => format!(
                    "{call}\nhelp: `{path}`; if it makes a `Tool`, add that to the list: \
                     `tools![..].into_iter().chain([{path}(..)])`"
                ),
            }
        }
        [TokenTree::Literal(literal)] => {
            let text = literal.to_string();
            let name = text.trim_matches('"');
            let name = if syn::parse_str::<syn::Ident>(name).is_ok() { name } else { "calc" };
            format!("list the tool by its function, not by a literal\nhelp: `{name}`")
        }
        [TokenTree::Punct(amp), rest @ ..] if amp.as_char() == '&' => {
            let path: TokenStream = rest.iter().cloned().collect();
            format!("list the tool by its name, without `&`\nhelp: `{}`", crate::types::show(path))
        }
        [TokenTree::Punct(comma)] if comma.as_char() == ',' => {
            format!("expected a tool before the comma\n{help}")
        }
        _ => format!("expected the path of a tool\n{help}"),
    }
}

const A_VALUE: &str =
    "a tool that is made by hand is a value, and this is a list of functions with `#[tool]`";

/// The maximum number of characters of an expression that an error message quotes.
const SHOWN_VALUE: usize = 60;

/// Whether an entry is an expression and not a function with `#[tool]`: a call of an associated function of a type, of
/// a method other than `tools`, or of a macro.
fn is_a_value(all: &[TokenTree]) -> bool {
    let [before @ .., TokenTree::Ident(name), TokenTree::Group(arguments)] = all else {
        return matches!(all, [.., TokenTree::Punct(mark), TokenTree::Group(_)] if mark.as_char() == '!');
    };
    let is_owned = |owner: &TokenTree| matches!(owner, TokenTree::Ident(owner) if owner.to_string().starts_with(char::is_uppercase));
    arguments.delimiter() == proc_macro2::Delimiter::Parenthesis
        && match before {
            [.., owner, TokenTree::Punct(_), TokenTree::Punct(colon)] if colon.as_char() == ':' => {
                is_owned(owner)
            }
            [.., TokenTree::Punct(dot)] => dot.as_char() == '.' && name != "tools",
            _ => false,
        }
}

/// Splits at commas. A comma without anything before it becomes an entry, so that it can be reported.
fn split(list: TokenStream) -> Vec<TokenStream> {
    let mut parts = Vec::new();
    let mut part = TokenStream::new();
    for token in list {
        match token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => {
                if part.is_empty() {
                    part.extend([TokenTree::Punct(comma)]);
                }
                parts.push(std::mem::take(&mut part));
            }
            token => part.extend([token]),
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
