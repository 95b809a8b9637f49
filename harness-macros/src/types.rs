//! What the spelling of a type shows: well-known types, for which better error messages are possible, and the parts of
//! a type. Traits decide what a type can do.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, Path, PathArguments, Type, TypePath};

/// Removes parentheses and the invisible groups that `macro_rules!` puts around a type.
pub(crate) fn ungroup(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungroup(&group.elem),
        Type::Paren(paren) => ungroup(&paren.elem),
        other => other,
    }
}

/// The type as a person would write it, without spaces between the tokens.
pub(crate) fn show(ty: impl ToTokens) -> String {
    let text = ty.to_token_stream().to_string();
    let text = text.replace(" :: ", "::").replace(" < ", "<").replace(" >", ">");
    let text = text
        .replace("< ", "<")
        .replace(" ,", ",")
        .replace("& ", "&")
        .replace(" (", "(")
        .replace(":: ", "::")
        // A minus directly after these characters is the sign of a number.
        .replace("[- ", "[-")
        .replace(", - ", ", -")
        .replace("..- ", "..-")
        .replace("..= - ", "..=-")
        .replace("..=- ", "..=-");
    text.strip_prefix("- ").map_or_else(|| text.clone(), |number| format!("-{number}"))
}

/// A well-known type, recognized by its spelling. `Integer` has the type's minimum and maximum.
#[derive(Clone, Copy)]
pub(crate) enum PlainType {
    Integer(i128, i128),
    /// A float, with its greatest value.
    Float(f64),
    Text,
    Char,
    Bool,
    /// A container, whose value the model supplies.
    Other,
}

/// The well-known type of the standard library, also inside an `Option` or a reference. `None` for other types.
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
                // Parameters of these types are refused elsewhere.
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

/// Whether the spelling shows a type completely: well-known types, and containers of well-known types.
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

/// The parts of a type that its spelling does not show completely. Only traits can examine these parts. Tuples, arrays
/// and references are split into their parts.
pub(crate) fn parts(ty: &Type) -> Vec<&Type> {
    match ungroup(ty) {
        Type::Reference(reference) => parts(&reference.elem),
        Type::Slice(slice) => parts(&slice.elem),
        Type::Array(array) => parts(&array.elem),
        Type::Tuple(tuple) => tuple.elems.iter().flat_map(parts).collect(),
        Type::Path(_) if is_known(ty) => Vec::new(),
        whole @ (Type::Path(_) | Type::Macro(_)) => vec![whole],
        _ => Vec::new(),
    }
}

/// Whether a type is spelled as a number, and not as an `Option` of a number.
pub(crate) fn is_number(ty: &Type) -> bool {
    matches!(plain(ty), Some(PlainType::Integer(..) | PlainType::Float(_)))
        && !type_names(ty).any(|name| name == "Option")
}

/// All names in a type, such as `Option` and `u8`.
pub(crate) fn type_names(ty: &Type) -> impl Iterator<Item = String> {
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

/// The name and the first type argument of an `Option` or a list of the standard library.
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

/// Containers whose content the model also supplies. Other generic types, such as `State<T>`, are unknown types.
pub(crate) const CONTAINERS: [&str; 13] = [
    "Option", "Vec", "Box", "Arc", "Rc", "Cow", "VecDeque", "HashSet", "BTreeSet", "HashMap",
    "BTreeMap", "IndexMap", "IndexSet",
];

pub(crate) const LISTS: [&str; 5] = ["Vec", "VecDeque", "HashSet", "BTreeSet", "IndexSet"];

pub(crate) const MAPS: [&str; 3] = ["HashMap", "BTreeMap", "IndexMap"];
