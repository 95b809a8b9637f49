//! Snapshots of the expansions of some functions, so that reviewers see each change of an
//! expansion.

use insta::assert_snapshot;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::quote;

/// Formats tokens with one statement per line, so that a snapshot is readable without a formatter.
fn lay_out(tokens: TokenStream) -> String {
    fn write(tokens: TokenStream, indent: usize, out: &mut String) {
        for token in tokens {
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    out.push_str("{\n");
                    out.push_str(&"  ".repeat(indent + 1));
                    write(group.stream(), indent + 1, out);
                    let end = out.trim_end().len();
                    out.truncate(end);
                    out.push('\n');
                    out.push_str(&"  ".repeat(indent));
                    out.push_str("}\n");
                    out.push_str(&"  ".repeat(indent));
                }
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::Brace | Delimiter::None => ("", ""),
                    };
                    out.push_str(open);
                    write(group.stream(), indent, out);
                    let end = out.trim_end().len();
                    out.truncate(end);
                    out.push_str(close);
                    out.push(' ');
                }
                TokenTree::Punct(punct) => {
                    if matches!(punct.as_char(), ',' | ';' | '.' | ':' | '>' | '?') {
                        let end = out.trim_end_matches(' ').len();
                        out.truncate(end);
                    }
                    out.push(punct.as_char());
                    if punct.as_char() == ';' {
                        out.push('\n');
                        out.push_str(&"  ".repeat(indent));
                    } else if matches!(punct.as_char(), ',' | '=' | '>' | '|') {
                        out.push(' ');
                    }
                }
                TokenTree::Ident(_) | TokenTree::Literal(_) => {
                    out.push_str(&token.to_string());
                    out.push(' ');
                }
            }
        }
    }
    let mut out = String::new();
    write(tokens, 0, &mut out);
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn tool(attribute: TokenStream, item: TokenStream) -> String {
    lay_out(crate::tool::expand(attribute, item))
}

#[test]
fn a_function_and_its_companion() {
    assert_snapshot!(tool(
        quote!(side_effects = "read", crate = h),
        quote! {
            /// Finds text.
            pub fn find(
                /// Path
                path: String,
                /// Limit
                limit: Option<u32>,
                /// Whole words
                words: bool,
            ) -> String {
                body
            }
        }
    ));
}

#[test]
fn lent_parameters_defaults_and_a_result() {
    assert_snapshot!(tool(
        quote!(side_effects = ["read", "network"], idempotent, timeout = "2s", crate = h),
        quote! {
            /// Lists.
            async fn list(
                cx: &Context,
                /// Where
                #[param(default = ".", rename = "in")]
                place: &str,
                /// How many
                #[param(default = LIMIT, range(1..=100))]
                limit: u8,
            ) -> Result<Vec<Item>, Failure> {
                body
            }
        }
    ));
}

#[test]
fn a_function_that_is_reconciled() {
    assert_snapshot!(tool(
        quote!(side_effects = "write", reconcile = bank::was_paid, crate = h),
        quote! {
            /// Pays.
            fn pay(/** To whom */ to: &str, /** How much */ sum: Sum) {
                body
            }
        }
    ));
}

#[test]
fn a_function_with_a_review() {
    assert_snapshot!(tool(
        quote!(side_effects = "write", review = files::careful, crate = h),
        quote! {
            /// Saves.
            fn save() {
                body
            }
        }
    ));
}

#[test]
fn a_mistake_keeps_the_function() {
    assert_snapshot!(tool(
        quote!(side_effects = "raed", crate = h),
        quote! {
            /// Reads.
            fn read() -> String {
                a body that does not parse .
            }
        }
    ));
}

#[test]
fn a_method_and_the_list_of_its_value() {
    assert_snapshot!(lay_out(crate::toolset::expand(
        quote!(crate = h),
        quote! {
            impl Files {
                /// Reads.
                #[tool(side_effects = "read")]
                fn read(
                    &self,
                    /// Path
                    path: &Path,
                ) -> io::Result<String> {
                    body
                }
            }
        }
    )));
}

#[test]
fn a_deprecated_function_of_types_that_are_asked() {
    assert_snapshot!(tool(
        quote!(side_effects = "none", crate = h),
        quote! {
            /// Is old.
            #[deprecated]
            fn old(
                /// By name
                by_name: HashMap<Name, u8>,
                /// How many
                #[param(default = 3, range(LEAST..=9))]
                count: Small,
            ) -> u8 {
                body
            }
        }
    ));
}
