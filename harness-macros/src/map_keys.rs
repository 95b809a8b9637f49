//! Checks the key types of maps. JSON keys are strings, and not every type can be read from a string.

use syn::{Type, TypePath};

use crate::types::{CONTAINERS, LISTS, MAPS, arguments, only_argument, plain, ungroup};

/// All map key types that the spelling of a type shows.
pub(crate) fn all_keys(ty: &Type) -> Vec<&Type> {
    match ungroup(ty) {
        Type::Reference(reference) => all_keys(&reference.elem),
        Type::Tuple(tuple) => tuple.elems.iter().flat_map(all_keys).collect(),
        Type::Path(TypePath { path, .. }) => {
            let is_map = path.segments.last().is_some_and(|l| MAPS.iter().any(|m| l.ident == m));
            let key = arguments(path).take(usize::from(is_map));
            key.chain(arguments(path).flat_map(all_keys)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether JSON can represent a key of this type. Lists and maps cannot be keys.
pub(crate) fn can_be_written_as_key(ty: &Type) -> bool {
    match ungroup(ty) {
        Type::Tuple(_) | Type::Array(_) | Type::Slice(_) => false,
        Type::Path(TypePath { path, .. }) => !path
            .segments
            .last()
            .is_some_and(|last| LISTS.iter().chain(&MAPS).any(|name| last.ident == name)),
        Type::Reference(reference) => can_be_written_as_key(&reference.elem),
        _ => true,
    }
}

/// All map key types in a type, except well-known types such as `String`.
pub(crate) fn keys(ty: &Type) -> Vec<&Type> {
    match ungroup(ty) {
        Type::Reference(reference) => keys(&reference.elem),
        Type::Slice(slice) => keys(&slice.elem),
        Type::Array(array) => keys(&array.elem),
        Type::Tuple(tuple) => tuple.elems.iter().flat_map(keys).collect(),
        Type::Path(TypePath { qself: None, path, .. }) => {
            let Some(last) = path.segments.last().map(|last| last.ident.to_string()) else {
                return Vec::new();
            };
            if !CONTAINERS.contains(&last.as_str()) {
                return Vec::new();
            }
            let is_map = MAPS.contains(&last.as_str());
            let key = arguments(path).take(usize::from(is_map)).map(wrapped);
            let unsaid = key.filter(|key| plain(key).is_none());
            unsaid.chain(arguments(path).flat_map(keys)).collect()
        }
        _ => Vec::new(),
    }
}

/// The type inside an `Option`, `Box` or `Arc`.
pub(crate) fn wrapped(ty: &Type) -> &Type {
    let Type::Path(TypePath { path, .. }) = ungroup(ty) else { return ty };
    let wraps = ["Option", "Box", "Arc"];
    match (path.segments.last(), only_argument(path)) {
        (Some(last), Some(inside)) if wraps.iter().any(|name| last.ident == name) => {
            match ungroup(inside) {
                // `Box<str>` itself is a valid key.
                Type::Path(inner) if inner.path.is_ident("str") => ty,
                _ => wrapped(inside),
            }
        }
        _ => ty,
    }
}

/// Whether keys of a JSON object can have this type: strings, and numbers and names that are written as strings.
pub(crate) fn can_be_key(ty: &Type) -> bool {
    match ungroup(ty) {
        Type::Path(TypePath { path, .. }) => {
            let last = path.segments.last().map(|segment| segment.ident.to_string());
            let last = last.unwrap_or_default();
            let wraps = ["Option", "Box", "Arc", "Rc", "Cow"].contains(&last.as_str());
            let lists = CONTAINERS.contains(&last.as_str()) && !wraps;
            let floats = path.is_ident("f32") || path.is_ident("f64");
            !lists && !floats && (!wraps || arguments(path).all(can_be_key))
        }
        Type::Reference(_) | Type::Macro(_) | Type::Verbatim(_) => true,
        _ => false,
    }
}
