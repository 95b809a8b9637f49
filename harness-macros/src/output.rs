//! Checks the return type as far as its spelling shows it.

use proc_macro2::TokenStream;
use syn::{ReturnType, Type, TypePath};

use crate::{
    diagnostics::Errors,
    map_keys::{all_keys, can_be_written_as_key},
    model::{ReturnSpans, SpanRange},
    types::{arguments, plain, show, ungroup},
};

/// Checks the spelling of the return type, and returns the spans of its parts.
pub(crate) fn output(ty: &ReturnType, errors: &mut Errors) -> ReturnSpans {
    let ReturnType::Type(_, ty) = ty else {
        return ReturnSpans::Plain(SpanRange::of(TokenStream::new()));
    };
    for key in all_keys(ty).into_iter().filter(|key| !can_be_written_as_key(key)) {
        let shown = show(key);
        errors.push(
            key,
            format!(
                "JSON object keys are strings, so `{shown}` cannot be the key of a map that a tool \
                 returns\nhelp: return a list of entries: `Vec<({shown}, ..)>`"
            ),
        );
    }
    if let Some(bytes) = bytes(ty) {
        errors.push(
            bytes,
            "the model would read these bytes as a list of numbers\nhelp: return text \
             (`String::from_utf8_lossy(&bytes)`) or a file (`ToolContent::Document(Media::from_bytes(\"application/pdf\", \
             bytes))`); if they are numbers, return `Vec<u16>`",
        );
    }
    match ungroup(ty) {
        Type::Never(_) => {
            errors.push(
                ty,
                "a tool must return: the model waits for its answer\nhelp: return `()` if there is \
                 nothing to say",
            );
        }
        Type::Infer(_) => errors.leave_to_rustc(),
        Type::Path(TypePath { qself: None, path, .. }) => {
            let last = path.segments.last().map(|segment| segment.ident.to_string());
            let args: Vec<&Type> = arguments(path).collect();
            match (last.as_deref(), args.as_slice()) {
                (Some("Result"), [ok, ..]) if is_result(ok) => {
                    errors.push(
                        ok,
                        "a `Result` in a `Result`: the model would read the inner error as a value\n\
                         help: return one: `outer?`, or `outer.and_then(|inner| inner)`",
                    );
                }
                (Some("Option"), [inside]) if is_result(inside) => {
                    errors.push(
                        inside,
                        "a `Result` in an `Option`: the model would read its error as a value\n\
                         help: return the `Option` in the `Result`: `found.transpose()`",
                    );
                }
                (Some("Result"), [ok, err]) => {
                    return ReturnSpans::Result(SpanRange::of(ok), SpanRange::of(err));
                }
                (Some("String" | "bool" | "Vec" | "Value"), _) => {
                    return ReturnSpans::Plain(SpanRange::of(ty));
                }
                _ if plain(ty).is_some() => return ReturnSpans::Plain(SpanRange::of(ty)),
                _ => {}
            }
        }
        Type::Tuple(tuple) if tuple.elems.is_empty() => {
            return ReturnSpans::Plain(SpanRange::of(ty));
        }
        Type::Reference(_) => return ReturnSpans::Plain(SpanRange::of(ty)),
        _ => {}
    }
    ReturnSpans::Asked(SpanRange::of(ty))
}

/// The part of a return type that is spelled as bytes. Arrays of a fixed length do not count, because they are more
/// often lists of small numbers.
fn bytes(ty: &Type) -> Option<&Type> {
    let is_byte = |ty: &Type| matches!(ungroup(ty), Type::Path(byte) if byte.path.is_ident("u8"));
    match ungroup(ty) {
        Type::Slice(slice) => is_byte(&slice.elem).then_some(ty),
        Type::Reference(reference) => bytes(&reference.elem).map(|_| ty),
        Type::Path(TypePath { qself: None, path, .. }) => {
            let first = arguments(path).next()?;
            match path.segments.last()?.ident.to_string().as_str() {
                "Vec" => is_byte(first).then_some(ty),
                "Box" | "Arc" | "Cow" => bytes(first).map(|_| ty),
                "Option" | "Result" => bytes(first),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a type is spelled as a `Result`.
fn is_result(ty: &Type) -> bool {
    match ungroup(ty) {
        Type::Path(TypePath { qself: None, path, .. }) => {
            path.segments.last().is_some_and(|last| last.ident == "Result")
        }
        _ => false,
    }
}
