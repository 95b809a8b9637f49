//! What can be told of a type from its spelling alone: forms that no model can fill in, and plain
//! spellings for which a better message is possible. What a type can do is for traits to judge.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    GenericArgument, Path, PathArguments, Type, TypePath, TypeReference, spanned::Spanned as _,
};

use crate::{
    diagnostics::Errors,
    keys::can_be_key,
    model::{Passed, Place},
    rewrite::{at, owned_lifetimes},
};

/// Looks through the invisible group that `macro_rules!` puts around a type, and parentheses.
pub(crate) fn ungroup(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungroup(&group.elem),
        Type::Paren(paren) => ungroup(&paren.elem),
        other => other,
    }
}

/// The type as one reads it, without the spaces between tokens.
pub(crate) fn show(ty: impl ToTokens) -> String {
    let text = ty.to_token_stream().to_string();
    let text = text.replace(" :: ", "::").replace(" < ", "<").replace(" >", ">");
    let text = text
        .replace("< ", "<")
        .replace(" ,", ",")
        .replace("& ", "&")
        .replace(" (", "(")
        .replace(":: ", "::")
        // The sign of a number.
        .replace("[- ", "[-")
        .replace(", - ", ", -")
        .replace("..- ", "..-")
        .replace("..= - ", "..=-")
        .replace("..=- ", "..=-");
    text.strip_prefix("- ").map_or_else(|| text.clone(), |number| format!("-{number}"))
}

/// A plain spelling.
#[derive(Clone, Copy)]
pub(crate) enum PlainType {
    Integer(i128, i128),
    /// With its greatest number.
    Float(f64),
    Text,
    Char,
    Bool,
    /// A container: nothing is known of its default, but no host supplies it.
    Other,
}

/// What the spelling says, for the names of the standard library; `Option` is looked through.
pub(crate) fn plain(ty: &Type) -> Option<PlainType> {
    Some(match ungroup(ty) {
        Type::Reference(reference) => plain(&reference.elem)?,
        Type::Tuple(_) | Type::Array(_) | Type::Slice(_) => PlainType::Other,
        Type::Path(TypePath { qself: None, path, .. }) => {
            let last = path.segments.last()?;
            match last.ident.to_string().as_str() {
                "Option" => plain(only_argument(path)?)?,
                "String" | "str" | "PathBuf" | "Path" => PlainType::Text,
                "bool" => PlainType::Bool,
                "char" => PlainType::Char,
                "f32" => PlainType::Float(f32::MAX.into()),
                "f64" => PlainType::Float(f64::MAX),
                "i8" => PlainType::Integer(i8::MIN.into(), i8::MAX.into()),
                "i16" => PlainType::Integer(i16::MIN.into(), i16::MAX.into()),
                "i32" => PlainType::Integer(i32::MIN.into(), i32::MAX.into()),
                "i64" | "isize" => PlainType::Integer(i64::MIN.into(), i64::MAX.into()),
                "u8" => PlainType::Integer(0, u8::MAX.into()),
                "u16" => PlainType::Integer(0, u16::MAX.into()),
                "u32" => PlainType::Integer(0, u32::MAX.into()),
                "u64" | "usize" => PlainType::Integer(0, u64::MAX.into()),
                // No parameter can be one; that is said elsewhere.
                "u128" | "i128" => PlainType::Integer(i128::MIN, i128::MAX),
                "Vec" | "VecDeque" | "HashMap" | "BTreeMap" | "HashSet" | "BTreeSet" => {
                    PlainType::Other
                }
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Whether the spelling says all of a type: plain types, and the containers of the standard library.
pub(crate) fn is_known(ty: &Type) -> bool {
    match ungroup(ty) {
        Type::Reference(reference) => is_known(&reference.elem),
        Type::Slice(slice) => is_known(&slice.elem),
        Type::Array(array) => is_known(&array.elem),
        Type::Tuple(tuple) => tuple.elems.iter().all(is_known),
        Type::Path(TypePath { qself: None, path, .. }) => {
            let is_container =
                path.segments.last().is_some_and(|last| CONTAINERS.iter().any(|n| last.ident == n));
            if is_container { arguments(path).all(is_known) } else { plain(ty).is_some() }
        }
        _ => false,
    }
}

/// Whether it is spelled as a number itself, and not as an `Option` of one.
pub(crate) fn is_number(ty: &Type) -> bool {
    matches!(plain(ty), Some(PlainType::Integer(..) | PlainType::Float(_)))
        && !names_of(ty).any(|name| name == "Option")
}

/// The names in a type, such as `Option` and `u8`.
pub(crate) fn names_of(ty: &Type) -> impl Iterator<Item = String> {
    fn all(tokens: TokenStream) -> Vec<String> {
        let names = tokens.into_iter().flat_map(|token| match token {
            TokenTree::Ident(ident) => vec![ident.to_string()],
            TokenTree::Group(group) => all(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => Vec::new(),
        });
        names.collect()
    }
    all(ty.to_token_stream()).into_iter()
}

/// The name and the only argument of `Option` or a list of the standard library.
pub(crate) fn container(path: &Path) -> Option<(&'static str, &Type)> {
    let last = path.segments.last()?;
    let lists = ["Option", "Vec", "VecDeque", "HashSet", "BTreeSet"];
    let name = lists.into_iter().find(|name| last.ident == name)?;
    Some((name, arguments(path).next()?))
}

pub(crate) fn arguments(path: &Path) -> impl Iterator<Item = &Type> {
    let last = path.segments.last().map(|segment| &segment.arguments);
    let args = match last {
        Some(PathArguments::AngleBracketed(args)) => Some(args.args.iter()),
        _ => None,
    };
    args.into_iter().flatten().filter_map(|arg| match arg {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

pub(crate) fn only_argument(path: &Path) -> Option<&Type> {
    let mut all = arguments(path);
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// How a parameter of this type is read and passed, or `None` if no model can fill it in, which is
/// then reported.
pub(crate) fn parameter(
    name: &str,
    ty: &Type,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<(TokenStream, Passed)> {
    match ungroup(ty) {
        Type::Reference(reference) => {
            let owned = lent(name, reference, krate, errors)?;
            let elem = owned_lifetimes(&reference.elem);
            Some((owned, Passed::Lent(elem)))
        }
        Type::Path(TypePath { qself: None, path, .. })
            if is_option_of_reference(path).is_some() =>
        {
            let reference = is_option_of_reference(path)?;
            let owned = lent(name, reference, krate, errors)?;
            let elem = owned_lifetimes(&reference.elem);
            let option = at(Place::of(path), quote!(#krate::__private::Option));
            Some((quote!(#option<#owned>), Passed::LentOption(elem)))
        }
        Type::Path(TypePath { path, .. }) if path.is_ident("str") => {
            // rustc says that a `str` has no size; more would be noise.
            errors.leave_to_rustc();
            None
        }
        Type::Slice(_) | Type::TraitObject(_) | Type::Infer(_) | Type::Never(_) => {
            errors.leave_to_rustc();
            None
        }
        other => check_inside(name, other, errors).then(|| (owned_lifetimes(ty), Passed::Owned)),
    }
}

fn is_option_of_reference(path: &Path) -> Option<&TypeReference> {
    let last = path.segments.last()?;
    match only_argument(path).filter(|_| last.ident == "Option").map(ungroup)? {
        Type::Reference(reference) => Some(reference),
        _ => None,
    }
}

/// The owned type behind a reference.
fn lent(
    name: &str,
    reference: &TypeReference,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<TokenStream> {
    if reference.mutability.is_some() {
        errors.push(
            reference,
            format!(
                "`{name}` cannot be `&mut`: what the tool writes there is lost after the call\n\
                 help: return the new value, or share it through `State<T>`"
            ),
        );
        return None;
    }
    if let Some(lifetime) =
        reference.lifetime.as_ref().filter(|lifetime| lifetime.ident == "static")
    {
        let elem = &reference.elem;
        errors.push(
            reference,
            format!(
                "`{name}` cannot be `&{lifetime}`: an argument lives only as long as its call\n\
                 help: take `&{}`, or own it",
                show(elem)
            ),
        );
        return None;
    }
    let elem = ungroup(&reference.elem);
    let ok = match elem {
        Type::Slice(slice) => check_inside(name, &slice.elem, errors),
        other => check_inside(name, other, errors),
    };
    let elem = owned_lifetimes(elem);
    // The whole of `&T` is underlined when `T` is not good: the first token has the span of `&`,
    // the last that of the last token of `T`.
    let first = reference.and_token.span();
    let last = elem.clone().into_iter().last().map_or(first, |token| token.span());
    let head = at(Place(first, first), quote!(#krate::__private::Owned<));
    let tail = quote::quote_spanned!(last=> >);
    ok.then(|| quote!(#head #elem #tail))
}

/// Containers of the standard library, whose arguments the model fills in as well. Of other
/// generic types, such as `State<T>`, nothing is known.
pub(crate) const CONTAINERS: [&str; 13] = [
    "Option", "Vec", "Box", "Arc", "Rc", "Cow", "VecDeque", "HashSet", "BTreeSet", "HashMap",
    "BTreeMap", "IndexMap", "IndexSet",
];

pub(crate) const LISTS: [&str; 5] = ["Vec", "VecDeque", "HashSet", "BTreeSet", "IndexSet"];

pub(crate) const MAPS: [&str; 3] = ["HashMap", "BTreeMap", "IndexMap"];

/// Reports what no model can fill in.
fn check_inside(name: &str, ty: &Type, errors: &mut Errors) -> bool {
    let (what, way_out) = match ungroup(ty) {
        Type::Path(TypePath { qself: None, path, .. }) => {
            return check_path(name, path, errors);
        }
        Type::Tuple(tuple) => {
            let mut ok = true;
            for elem in &tuple.elems {
                ok &= check_inside(name, elem, errors);
            }
            return ok;
        }
        Type::Array(array) => return check_inside(name, &array.elem, errors),
        Type::Slice(slice) => return check_inside(name, &slice.elem, errors),
        Type::ImplTrait(_) => {
            errors.push(
                ty,
                format!("the schema of `{name}` needs a concrete type; `impl Trait` has none"),
            );
            return false;
        }
        Type::TraitObject(_) => ("a trait object", "name the type itself, or an enum of the types"),
        Type::FnPtr(_) => ("a function", "take a name, and choose the function in the body"),
        Type::Ptr(_) => ("a raw pointer", "take the value itself"),
        Type::Never(_) | Type::Infer(_) => {
            errors.leave_to_rustc();
            return false;
        }
        Type::Reference(reference) => {
            let elem = &reference.elem;
            let owned = match ungroup(elem) {
                Type::Path(path) if path.path.is_ident("str") => "String".to_owned(),
                Type::Slice(slice) => format!("Vec<{}>", show(&slice.elem)),
                other => show(other),
            };
            errors.push(
                ty,
                format!(
                    "the reference in `{name}` has nothing to borrow from\nhelp: own it: `{owned}` \
                     in place of `{}`",
                    show(ty)
                ),
            );
            return false;
        }
        _ => return true,
    };
    errors.push(
        ty,
        format!("`{name}` cannot be {what}: a model writes JSON, nothing else\nhelp: {way_out}"),
    );
    false
}

fn check_path(name: &str, path: &Path, errors: &mut Errors) -> bool {
    let Some(last) = path.segments.last() else { return true };
    let word = last.ident.to_string();
    let is_own = path.segments.len() == 1
        || path.segments.iter().rev().nth(1).is_some_and(|module| module.ident == "primitive");
    let is_non_zero = word == "NonZeroU128" || word == "NonZeroI128";
    if is_own && (word == "u128" || word == "i128") || is_non_zero {
        let shorter = word.replace("128", "64");
        errors.push(
            path,
            format!(
                "`{name}` cannot be `{word}`: JSON numbers are read as 64 bits\nhelp: take \
                 `{shorter}`, or a `String` and parse it"
            ),
        );
        return false;
    }
    if word == "Rc" && only_argument(path).is_some() {
        errors.push(
            path,
            format!(
                "`{name}` cannot be an `Rc`: a call may run on another thread\nhelp: take `Arc`, \
                 or the value itself"
            ),
        );
        return false;
    }
    if word == "NonZero" {
        return arguments(path).all(|number| check_inside(name, number, errors));
    }
    if !CONTAINERS.contains(&word.as_str()) {
        return true;
    }
    let mut inside = arguments(path);
    let mut ok = true;
    if MAPS.contains(&word.as_str())
        && let Some(key) = inside.next()
        && !can_be_key(key)
    {
        errors.push(
            key,
            format!(
                "JSON object keys are strings, so `{}` cannot be the key of a map (parameter \
                 `{name}`)\nhelp: take a list of entries: `Vec<({}, ..)>`",
                show(key),
                show(key)
            ),
        );
        ok = false;
    }
    for arg in inside {
        ok &= check_inside(name, arg, errors);
    }
    ok
}
