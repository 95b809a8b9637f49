//! The syntax of a parameter's type decides how the parameter is read and passed, and whether a model can supply it.
//! Traits decide what a type can do.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    GenericArgument, Path, PathArguments, Type, TypePath, TypeReference, spanned::Spanned as _,
};

use crate::{
    diagnostics::Errors,
    map_keys::can_be_key,
    model::{PassingMode, SpanRange},
    rewrite::{at, owned_lifetimes},
    types::{CONTAINERS, MAPS, arguments, only_argument, show, ungroup},
};

/// The owned type into which the parameter is deserialized, and how the value is passed. If a model cannot supply the
/// type, reports an error and returns `None`.
pub(crate) fn parameter(
    name: &str,
    ty: &Type,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<(TokenStream, PassingMode)> {
    match ungroup(ty) {
        Type::Reference(reference) => {
            let owned = lent(name, reference, krate, errors)?;
            let elem = owned_lifetimes(&reference.elem);
            Some((owned, PassingMode::Lent(elem)))
        }
        Type::Path(TypePath { qself: None, path, .. })
            if is_option_of_reference(path).is_some() =>
        {
            let reference = is_option_of_reference(path)?;
            let owned = lent(name, reference, krate, errors)?;
            let elem = owned_lifetimes(&reference.elem);
            let option = at(SpanRange::of(path), quote!(#krate::__private::Option));
            Some((quote!(#option<#owned>), PassingMode::LentOption(elem)))
        }
        Type::Path(TypePath { path, .. }) if path.is_ident("str") => {
            // rustc itself reports that a `str` has no size, so a second error would not help.
            errors.leave_to_rustc();
            None
        }
        Type::Slice(_) | Type::TraitObject(_) | Type::Infer(_) | Type::Never(_) => {
            errors.leave_to_rustc();
            None
        }
        other => {
            check_inside(name, other, errors).then(|| (owned_lifetimes(ty), PassingMode::Owned))
        }
    }
}

fn is_option_of_reference(path: &Path) -> Option<&TypeReference> {
    let last = path.segments.last()?;
    match only_argument(path).filter(|_| last.ident == "Option").map(ungroup)? {
        Type::Reference(reference) => Some(reference),
        _ => None,
    }
}

/// The owned type for a parameter that is a reference.
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
    // If rustc refuses `T`, the error must underline all of `&T`. So the first token has the span of `&`, and the last
    // token has the span of the last token of `T`.
    let first = reference.and_token.span();
    let last = elem.clone().into_iter().last().map_or(first, |token| token.span());
    let head = at(SpanRange(first, first), quote!(#krate::__private::OwnedForm<));
    let tail = quote::quote_spanned!(last=> >);
    ok.then(|| quote!(#head #elem #tail))
}

/// Reports a type that a model cannot supply. Returns whether there was no error.
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

/// Reports a trait object inside an unknown type such as `State<T>`. Trait objects have no size. Without this report,
/// rustc would report the missing size at each use of the type.
fn check_arguments_of_unknown(name: &str, path: &Path, errors: &mut Errors) -> bool {
    let mut ok = true;
    for argument in arguments(path) {
        let Type::TraitObject(object) = ungroup(argument) else { continue };
        let shown = show(object);
        // Concurrent calls share the value, so it needs `Send + Sync`.
        let marks = ["Send", "Sync"].into_iter().filter(|mark| {
            let mark = format!("+ {mark}");
            !shown.contains(&mark)
        });
        let whole = marks.fold(shown.clone(), |whole, mark| format!("{whole} + {mark}"));
        let last = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        errors.push(
            argument,
            format!(
                "`{shown}` in `{name}` has no size known while compiling\nhelp: take \
                 `{last}<Arc<{whole}>>`, and give the `Arc`"
            ),
        );
        ok = false;
    }
    ok
}

/// Reports a type that borrows. Without this report, rustc would only show an error about lifetimes, and traits cannot
/// add an explanation to such errors.
fn check_lifetimes(name: &str, path: &Path, errors: &mut Errors) -> bool {
    let Some(last) = path.segments.last() else { return true };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return true };
    let borrows = arguments.args.iter().any(|argument| {
        matches!(argument, GenericArgument::Lifetime(lifetime) if lifetime.ident != "static")
    });
    if borrows {
        let (shown, ty) = (show(path), &last.ident);
        errors.push(
            path,
            format!(
                "`{name}` cannot be `{shown}`: an argument is read from the model's JSON and has nothing to borrow \
                 from\nhelp: let `{ty}` own its data, such as `String` in place of `&str`; a type that \
                 owns what it reads, as `Cow` does, is written `{ty}<'static>`"
            ),
        );
    }
    !borrows
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
                "`{name}` cannot be an `Rc`: a call may run on another thread\nhelp: take the value \
                 itself, or an `Arc` of it; what calls share is taken as `State<T>`"
            ),
        );
        return false;
    }
    if word == "NonZero" {
        return arguments(path).all(|number| check_inside(name, number, errors));
    }
    if !CONTAINERS.contains(&word.as_str()) {
        return check_lifetimes(name, path, errors)
            && check_arguments_of_unknown(name, path, errors);
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
