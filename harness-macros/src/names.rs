//! Decides which names tools and parameters can have, and which names the companion of a function would shadow.

use proc_macro2::Ident;
use syn::ext::IdentExt as _;

/// The maximum length of a name that all vendors accept.
const LONGEST: usize = 64;

/// The fault of a name that some vendor refuses; `None` if all vendors accept the name. `also` contains additional
/// allowed characters.
pub(crate) fn fault_of_name(what: &str, name: &str, also: &str) -> Option<String> {
    let also_takes = |c: char| also.contains(c);
    let odd = |c: &char| !c.is_ascii_alphanumeric() && *c != '_' && *c != '-' && !also_takes(*c);
    if name.is_empty() {
        Some(format!("the {what} name is empty"))
    } else if let Some(odd) = name.chars().find(odd) {
        let also = if also.is_empty() { "`_` and `-`" } else { "`_`, `-` and `.`" };
        Some(format!(
            "{what} name `{name}` contains {odd:?}; providers take only ASCII letters, digits, \
             {also}"
        ))
    } else if name.chars().count() > LONGEST {
        let count = name.chars().count();
        Some(format!(
            "{what} name `{name}` is {count} characters long; providers take at most {LONGEST}"
        ))
    } else {
        None
    }
}

const PRIMITIVES: [&str; 18] = [
    "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64",
    "i128", "isize", "f32", "f64", "f16",
];

/// The item that a type with this name would shadow in every package.
fn what_it_always_hides(name: &str) -> Option<&'static str> {
    if PRIMITIVES.contains(&name) {
        Some("the primitive type")
    } else if ["Box", "Option", "Result", "String", "Vec"].contains(&name) {
        Some("the type of the standard library")
    } else if name == "tool" {
        Some("the module that `use harness::tool` brings along")
    } else if ["std", "core", "alloc"].contains(&name) {
        Some("the crate")
    } else {
        None
    }
}

/// The item that a type with this name would shadow in this package.
pub(crate) fn what_it_hides(name: &str) -> Option<&'static str> {
    what_it_always_hides(name).or_else(|| is_crate(name).then_some("the crate"))
}

/// Whether no tool of any package can have this name.
pub(crate) fn is_refused(ident: &Ident) -> bool {
    what_it_always_hides(&ident.unraw().to_string()).is_some()
}

/// Whether a type with this name would shadow another item.
pub(crate) fn is_shadowing(ident: &Ident) -> bool {
    what_it_hides(&ident.unraw().to_string()).is_some()
}

/// Whether this package can refer to a crate with this name.
fn is_crate(name: &str) -> bool {
    use proc_macro_crate::{FoundCrate, crate_name};
    let is = |package: &str| match crate_name(package) {
        Ok(FoundCrate::Name(found)) => found == name,
        // The package itself does not count, because a program is often named after its only tool.
        Ok(FoundCrate::Itself) | Err(_) => false,
    };
    is(name) || is(&name.replace('_', "-"))
}
