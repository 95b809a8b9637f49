//! Reads the attributes `#[tool(..)]`, `#[toolset(..)]` and `#[param(..)]`. Each entry is read separately, so that an
//! error in one entry does not hide the errors in other entries.

use proc_macro2::{Ident, TokenStream};
use syn::{Expr, LitStr, Meta, Path, ext::IdentExt as _};

use crate::{
    diagnostics::{Errors, did_you_mean, nearest},
    entries::{AttributeEntry, KnownKeys, entries},
    values::{
        self, AtOnceValue, CratePath, FlagValue, HandleValue, MethodValue, PatternValue,
        RangeValue, ReconcileValue, ReviewValue, SideEffectsValue, TimeoutValue, TitleValue,
        WrittenName,
    },
};

/// The content of `#[tool(..)]`. A key is `None` if it is missing or has a wrong value. Wrong values are reported.
#[derive(Default)]
pub(crate) struct ToolArgs {
    pub(crate) side_effects: Option<SideEffectsValue>,
    pub(crate) name: Option<WrittenName>,
    pub(crate) description: Option<Expr>,
    pub(crate) title: Option<TitleValue>,
    /// The key as written in the attribute. Errors about the key underline it.
    pub(crate) idempotent: Option<Ident>,
    pub(crate) timeout: Option<TimeoutValue>,
    pub(crate) at_once: Option<AtOnceValue>,
    pub(crate) review: Option<ReviewValue>,
    /// The key as written in the attribute, and the function. Errors about the key underline it.
    pub(crate) reconcile: Option<(Ident, ReconcileValue)>,
    pub(crate) krate: Option<Path>,
    pub(crate) handle: Option<Ident>,
    /// The keys that are present, even with a wrong value. These keys must not be reported as missing.
    pub(crate) seen: Vec<&'static str>,
}

impl ToolArgs {
    /// Whether this key is present, even with a wrong value.
    pub(crate) fn saw(&self, key: &str) -> bool {
        self.seen.contains(&key)
    }
}

const TOOL: KnownKeys = KnownKeys {
    place: "#[tool(...)]",
    keys: &[
        "side_effects",
        "name",
        "description",
        "title",
        "idempotent",
        "timeout",
        "at_once",
        "review",
        "reconcile",
        "crate",
        "handle",
    ],
    example: "side_effects = \"read\"",
    stray: |wrong| {
        let text = wrong.to_string();
        if let Some(word) = values::SIDE_EFFECTS.iter().find(|word| text == format!("\"{word}\"")) {
            let example = format!("side_effects = \"{word}\"");
            return Some(format!("expected a key in `#[tool(...)]`, such as `{example}`"));
        }
        syn::parse2::<LitStr>(wrong.clone()).ok()?;
        Some(
            "expected a key in `#[tool(...)]`; did you mean `description = \"...\"`?\nhelp: or write \
             the description in a `///` comment above the function"
                .to_owned(),
        )
    },
};

/// Reads `#[tool(..)]`.
pub(crate) fn tool_args(tokens: TokenStream, errors: &mut Errors) -> ToolArgs {
    let mut args = ToolArgs::default();
    let (entries, complete) = entries(tokens, &TOOL, errors);
    for AttributeEntry { key, value } in entries {
        let Some(known) = known_key(&key, &TOOL, &mut args.seen, errors) else { continue };
        let Some(meta) = value.meta(&key, known, errors) else { continue };
        match known {
            "side_effects" => args.side_effects = values::side_effects(&meta, errors),
            "name" => args.name = errors.read(&meta),
            "description" => args.description = values::description(&meta, errors),
            "title" => args.title = errors.read(&meta),
            "idempotent" => {
                args.idempotent = errors.read(&meta).and_then(|FlagValue(on)| on.then_some(key))
            }
            "timeout" => args.timeout = errors.read(&meta),
            "at_once" => args.at_once = errors.read(&meta),
            "review" => args.review = errors.read(&meta),
            "reconcile" => args.reconcile = errors.read(&meta).map(|path| (key, path)),
            "crate" => args.krate = errors.read(&meta).map(|CratePath(path)| path),
            _ => args.handle = errors.read(&meta).map(|HandleValue(name)| name),
        }
    }
    if !complete {
        // An unreadable entry may have been meant as one of these keys, so they are not reported as missing.
        args.seen.extend(["side_effects", "description"]);
    }
    args
}

/// The content of `#[toolset(..)]`.
#[derive(Default)]
pub(crate) struct ToolsetArgs {
    pub(crate) krate: Option<Path>,
    /// The name of the method that returns the tools.
    pub(crate) method: Option<Ident>,
}

const TOOLSET: KnownKeys = KnownKeys {
    place: "#[toolset(...)]",
    keys: &["crate", "method"],
    example: "method = more_tools",
    stray: |_| None,
};

/// Reads `#[toolset(..)]`.
pub(crate) fn toolset_args(tokens: TokenStream, errors: &mut Errors) -> ToolsetArgs {
    let mut args = ToolsetArgs::default();
    let mut seen = Vec::new();
    for AttributeEntry { key, value } in entries(tokens, &TOOLSET, errors).0 {
        if TOOL.keys.contains(&key.unraw().to_string().as_str()) && key != "crate" {
            let of_a_tool = format!("`{key}` says something about one tool");
            let help = "write it in the `#[tool(...)]` of the method";
            errors.push(&key, format!("{of_a_tool}\nhelp: {help}"));
            continue;
        }
        if let Some(message) = of_a_parameter(&key) {
            errors.push(&key, message);
            continue;
        }
        let Some(known) = known_key(&key, &TOOLSET, &mut seen, errors) else { continue };
        let Some(meta) = value.meta(&key, known, errors) else { continue };
        if known == "crate" {
            args.krate = errors.read(&meta).map(|CratePath(path)| path);
        } else {
            args.method = errors.read(&meta).map(|MethodValue(name)| name);
        }
    }
    args
}

/// The content of the `#[param(..)]` of one parameter.
#[derive(Default)]
pub(crate) struct ParamArgs {
    pub(crate) default: Option<Expr>,
    pub(crate) rename: Option<WrittenName>,
    pub(crate) range: Option<RangeValue>,
    pub(crate) length: Option<RangeValue>,
    pub(crate) pattern: Option<PatternValue>,
    pub(crate) examples: Vec<Expr>,
    seen: Vec<&'static str>,
    /// Whether the attribute contains a description. A description should be a doc comment instead.
    pub(crate) meant_description: bool,
}

const PARAM: KnownKeys = KnownKeys {
    place: "#[param(...)]",
    keys: &["default", "rename", "range", "length", "pattern", "example"],
    example: "default = 10",
    stray: |wrong| {
        syn::parse2::<LitStr>(wrong.clone()).ok()?;
        let help = "help: describe the parameter in a `///` comment above it";
        Some(format!("expected a key in `#[param(...)]`, such as `default = 10`\n{help}"))
    },
};

/// Keys that other libraries use for a parameter's description. Here, a doc comment is the description.
const DESCRIBING: [&str; 4] = ["description", "desc", "doc", "help"];

/// Reads one `#[param(..)]` into `args`. A parameter may have several of these attributes.
pub(crate) fn param_args(args: &mut ParamArgs, meta: &Meta, errors: &mut Errors) {
    let tokens = match meta {
        Meta::List(list) => list.tokens.clone(),
        Meta::Path(_) | Meta::NameValue(_) => {
            let help = "help: `#[param(default = ...)]`, `#[param(rename = \"...\")]`, \
                        `#[param(range(...))]`, `#[param(length(...))]`, `#[param(pattern = \
                        \"...\")]` or `#[param(example = ...)]`";
            return errors.push(meta, format!("expected `#[param(...)]`\n{help}"));
        }
    };
    if tokens.is_empty() {
        let help = "help: remove it, or say something: `#[param(default = 10)]`";
        errors.push(meta, format!("`#[param()]` says nothing\n{help}"));
    }
    let (entries, complete) = entries(tokens, &PARAM, errors);
    // An unreadable entry may have been meant as a description.
    args.meant_description |= !complete;
    for AttributeEntry { key, value } in entries {
        args.meant_description |= DESCRIBING.contains(&key.to_string().as_str());
        let Some(known) = known_key(&key, &PARAM, &mut args.seen, errors) else { continue };
        if known == "range" || known == "length" {
            let ends = values::range(&key, known, &value, errors);
            if known == "range" {
                args.range = ends;
            } else {
                args.length = ends;
            }
            continue;
        }
        let Some(meta) = value.meta(&key, known, errors) else { continue };
        match (known, meta) {
            ("default", Meta::NameValue(written)) => args.default = Some(written.value),
            ("example", Meta::NameValue(written)) => {
                // The key `example` may occur several times.
                args.seen.retain(|seen| *seen != "example");
                args.examples.push(written.value);
            }
            ("pattern", meta) => args.pattern = errors.read(&meta),
            ("default", _) => errors.push(
                &key,
                "expected `default = ...`\nhelp: for the default of the type itself write \
                 `default = Default::default()`",
            ),
            (_, meta) => args.rename = errors.read(&meta),
        }
    }
}

/// The error message for a key of `#[param(..)]` in the attribute of a tool; `None` for other keys.
fn of_a_parameter(key: &Ident) -> Option<String> {
    let word = key.unraw().to_string();
    let written = match word.as_str() {
        "default" | "example" => format!("{word} = ..."),
        "range" => "range(1..=100)".to_owned(),
        "length" => "length(1..=64)".to_owned(),
        "pattern" => "pattern = \"^[a-z]+$\"".to_owned(),
        "rename" => {
            return Some(
                "`rename` gives a parameter another name for the model\nhelp: write `#[param(rename = \
                 \"...\")]` before the parameter; the name of the tool is `name = \"...\"`"
                    .to_owned(),
            );
        }
        "param" | "params" | "parameters" | "arg" | "args" | "arguments" => {
            return Some(format!(
                "`{word}` says something about parameters\nhelp: write `#[param(...)]` before each \
                 parameter, and its description in a `///` comment above it"
            ));
        }
        _ => return None,
    };
    Some(format!(
        "`{word}` says something about one parameter\nhelp: write `#[param({written})]` before the parameter"
    ))
}

/// Checks that a key is known and occurs only once.
fn known_key(
    key: &Ident,
    about: &KnownKeys,
    seen: &mut Vec<&'static str>,
    errors: &mut Errors,
) -> Option<&'static str> {
    let KnownKeys { place, keys: known, .. } = about;
    let (of_tool, of_param) = (*place == TOOL.place, *place == PARAM.place);
    let word = key.unraw().to_string();
    if let Some(exact) = known.iter().find(|known| **known == word) {
        if seen.contains(exact) {
            errors.push(key, format!("`{word}` is given twice"));
            return None;
        }
        seen.push(exact);
        return Some(exact);
    }
    if let Some(message) = of_a_parameter(key).filter(|_| of_tool) {
        errors.push(key, message);
        return None;
    }
    if of_param && TOOL.keys.contains(&word.as_str()) && word != "name" && word != "description" {
        let of_the_tool = format!("`{word}` says something about the whole tool");
        errors.push(key, format!("{of_the_tool}\nhelp: write it in `#[tool(...)]`"));
        return None;
    }
    let near = nearest(&word, known.iter().copied());
    // The key that was probably meant must not also be reported as missing.
    seen.extend(near.and_then(|near| known.iter().find(|known| **known == near)));
    let way_out = match (near, word.as_str()) {
        (Some(near), _) => did_you_mean(Some(near), '`'),
        (None, word) if of_tool && values::SIDE_EFFECTS.contains(&word) => {
            seen.push("side_effects");
            format!("; did you mean `side_effects = \"{word}\"`?")
        }
        (None, "name" | "alias") if of_param => {
            "\nhelp: the name that the model sees is set with `rename = \"...\"`".to_owned()
        }
        (None, word) if of_param && DESCRIBING.contains(&word) => {
            "\nhelp: describe the parameter in a `///` comment above it".to_owned()
        }
        (None, "min" | "max" | "minimum" | "maximum") if of_param => {
            if seen.contains(&"range") {
                // Wrong keys for both ends of the range are one mistake, so only the first wrong key is reported.
                return None;
            }
            seen.push("range");
            "\nhelp: limits of a number are given with `range(1..=100)`, those of a text or a list \
             with `length(1..=64)`"
                .to_owned()
        }
        (
            None,
            "min_length" | "max_length" | "min_items" | "max_items" | "len" | "size" | "minLength"
            | "maxLength" | "minItems" | "maxItems",
        ) if of_param => {
            if seen.contains(&"length") {
                return None;
            }
            seen.push("length");
            "\nhelp: how long a text or a list may be is said with `length(1..=64)`".to_owned()
        }
        (None, "regex" | "matches" | "format") if of_param => {
            "\nhelp: the form of a text is said with `pattern = \"^[a-z]+$\"`".to_owned()
        }
        (None, "required" | "optional") if of_param => {
            "\nhelp: a parameter is required unless it has a default or is an `Option`".to_owned()
        }
        (None, _) => {
            let all: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
            let are = if all.len() == 1 { "the only key is" } else { "the keys are" };
            format!("\nhelp: {are} {}", all.join(", "))
        }
    };
    errors.push(key, format!("unknown key `{word}` in `{place}`{way_out}"));
    None
}
