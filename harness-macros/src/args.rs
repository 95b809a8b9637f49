//! Reads what is written in an attribute, entry by entry, so that a bad entry hides nothing:
//! `#[tool(..)]`, `#[toolset(..)]`, `#[param(..)]`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::{
    Expr, Meta, MetaList, MetaNameValue, Path, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _, discouraged::Speculative as _},
};

use crate::{
    diagnostics::{Errors, did_you_mean, nearest},
    values::{self, CratePath, Flag, Handle, Method, Name, Range, Review, SideEffects, Timeout},
};

/// What is written in `#[tool(..)]`; `None` is what is not there, or not right and reported.
#[derive(Default)]
pub(crate) struct ToolArgs {
    pub(crate) side_effects: Option<SideEffects>,
    pub(crate) name: Option<Name>,
    pub(crate) description: Option<Expr>,
    pub(crate) idempotent: bool,
    pub(crate) timeout: Option<Timeout>,
    pub(crate) review: Option<Review>,
    pub(crate) krate: Option<Path>,
    pub(crate) handle: Option<Ident>,
    /// Keys of which something was written, right or wrong: they are not missing.
    pub(crate) seen: Vec<&'static str>,
}

impl ToolArgs {
    /// Whether something was written for this key, be it wrong.
    pub(crate) fn saw(&self, key: &str) -> bool {
        self.seen.contains(&key)
    }
}

const TOOL_KEYS: [&str; 8] =
    ["side_effects", "name", "description", "idempotent", "timeout", "review", "crate", "handle"];

/// Reads `#[tool(..)]`.
pub(crate) fn tool_args(tokens: TokenStream, errors: &mut Errors) -> ToolArgs {
    let mut args = ToolArgs::default();
    let (entries, complete) = entries(tokens, "#[tool(...)]", "side_effects = \"read\"", errors);
    for Entry { key, value } in entries {
        let Some(known) = known_key(&key, &TOOL_KEYS, &mut args.seen, "#[tool(...)]", errors)
        else {
            continue;
        };
        let Some(meta) = value.meta(&key, known, errors) else { continue };
        match known {
            "side_effects" => args.side_effects = values::side_effects(&meta, errors),
            "name" => args.name = errors.read(&meta),
            "description" => args.description = values::description(&meta, errors),
            "idempotent" => {
                args.idempotent = errors.read(&meta).is_some_and(|Flag(flag)| flag);
            }
            "timeout" => args.timeout = errors.read(&meta),
            "review" => args.review = errors.read(&meta),
            "crate" => args.krate = errors.read(&meta).map(|CratePath(path)| path),
            _ => args.handle = errors.read(&meta).map(|Handle(name)| name),
        }
    }
    if !complete {
        // Something could not be read; it may have been meant for the side effects.
        args.seen.push("side_effects");
    }
    args
}

/// What is written in `#[toolset(..)]`.
#[derive(Default)]
pub(crate) struct ToolsetArgs {
    pub(crate) krate: Option<Path>,
    /// The name of the method that gives the tools.
    pub(crate) method: Option<Ident>,
}

/// Reads `#[toolset(..)]`.
pub(crate) fn toolset_args(tokens: TokenStream, errors: &mut Errors) -> ToolsetArgs {
    let place = "#[toolset(...)]";
    let mut args = ToolsetArgs::default();
    let mut seen = Vec::new();
    for Entry { key, value } in entries(tokens, place, "method = more_tools", errors).0 {
        if TOOL_KEYS.contains(&key.unraw().to_string().as_str()) && key != "crate" {
            let of_a_tool = format!("`{key}` says something about one tool");
            let help = "write it in the `#[tool(...)]` of the method";
            errors.push(&key, format!("{of_a_tool}\nhelp: {help}"));
            continue;
        }
        let Some(known) = known_key(&key, &["crate", "method"], &mut seen, place, errors) else {
            continue;
        };
        let Some(meta) = value.meta(&key, known, errors) else { continue };
        if known == "crate" {
            args.krate = errors.read(&meta).map(|CratePath(path)| path);
        } else {
            args.method = errors.read(&meta).map(|Method(name)| name);
        }
    }
    args
}

/// What is written in the `#[param(..)]` of one parameter.
#[derive(Default)]
pub(crate) struct ParamArgs {
    pub(crate) default: Option<Expr>,
    pub(crate) rename: Option<Name>,
    pub(crate) range: Option<Range>,
    seen: Vec<&'static str>,
    /// Whether a description was meant, in the wrong place.
    pub(crate) meant_description: bool,
}

const PARAM_KEYS: [&str; 3] = ["default", "rename", "range"];

/// Keys that others have for what is a comment here.
const DESCRIBING: [&str; 4] = ["description", "desc", "doc", "help"];

/// Reads one `#[param(..)]`; there may be several on one parameter.
pub(crate) fn param_args(args: &mut ParamArgs, meta: &Meta, errors: &mut Errors) {
    let tokens = match meta {
        Meta::List(list) => list.tokens.clone(),
        Meta::Path(_) | Meta::NameValue(_) => {
            let help = "help: `#[param(default = ...)]`, `#[param(rename = \"...\")]` or \
                        `#[param(range(...))]`";
            return errors.push(meta, format!("expected `#[param(...)]`\n{help}"));
        }
    };
    if tokens.is_empty() {
        let help = "help: remove it, or say something: `#[param(default = 10)]`";
        errors.push(meta, format!("`#[param()]` says nothing\n{help}"));
    }
    for Entry { key, value } in entries(tokens, "#[param(...)]", "default = 10", errors).0 {
        args.meant_description |= DESCRIBING.contains(&key.to_string().as_str());
        let Some(known) = known_key(&key, &PARAM_KEYS, &mut args.seen, "#[param(...)]", errors)
        else {
            continue;
        };
        if known == "range" {
            args.range = values::range(&key, &value, errors);
            continue;
        }
        let Some(meta) = value.meta(&key, known, errors) else { continue };
        match (known, meta) {
            ("default", Meta::NameValue(written)) => args.default = Some(written.value),
            ("default", _) => errors.push(
                &key,
                "expected `default = ...`\nhelp: for the default of the type itself write \
                 `default = Default::default()`",
            ),
            (_, meta) => args.rename = errors.read(&meta),
        }
    }
}

/// Checks a key: a known one that was not given before.
fn known_key(
    key: &Ident,
    known: &[&'static str],
    seen: &mut Vec<&'static str>,
    place: &str,
    errors: &mut Errors,
) -> Option<&'static str> {
    let word = key.unraw().to_string();
    if let Some(exact) = known.iter().find(|known| **known == word) {
        if seen.contains(exact) {
            errors.push(key, format!("`{word}` is given twice"));
            return None;
        }
        seen.push(exact);
        return Some(exact);
    }
    let near = nearest(&word, known.iter().copied());
    // What was probably meant is not missing as well.
    seen.extend(near.and_then(|near| known.iter().find(|known| **known == near)));
    let way_out = match (near, word.as_str()) {
        (Some(near), _) => did_you_mean(Some(near), '`'),
        (None, word) if known == TOOL_KEYS && values::SIDE_EFFECTS.contains(&word) => {
            seen.push("side_effects");
            format!("; did you mean `side_effects = \"{word}\"`?")
        }
        (None, "name" | "alias") if known == PARAM_KEYS => {
            "\nhelp: the name that the model sees is set with `rename = \"...\"`".to_owned()
        }
        (None, word) if known == PARAM_KEYS && DESCRIBING.contains(&word) => {
            "\nhelp: describe the parameter in a `///` comment above it".to_owned()
        }
        (None, "min" | "max" | "minimum" | "maximum") if known == PARAM_KEYS => {
            if seen.contains(&"range") {
                // Both ends are one mistake.
                return None;
            }
            seen.push("range");
            "\nhelp: limits are given with `range(1..=100)`".to_owned()
        }
        (None, "required" | "optional") if known == PARAM_KEYS => {
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

/// One entry of an attribute.
pub(crate) struct Entry {
    pub(crate) key: Ident,
    pub(crate) value: Written,
}

/// What follows a key.
pub(crate) enum Written {
    /// Nothing.
    Word,
    /// `= value`
    Value(Token![=], Expr),
    /// `(..)`
    List(proc_macro2::Group),
    /// Something that was reported.
    Wrong,
}

impl Written {
    /// The form in which its value is read. A key that needs a value and has none is reported.
    fn meta(self, key: &Ident, known: &str, errors: &mut Errors) -> Option<Meta> {
        let path = Path::from(key.clone());
        match self {
            Self::Value(eq_token, value) => {
                Some(Meta::NameValue(MetaNameValue { path, eq_token, value }))
            }
            Self::Word if known == "idempotent" || known == "default" => Some(Meta::Path(path)),
            Self::List(list) if known == "idempotent" => Some(Meta::List(MetaList {
                path,
                delimiter: syn::MacroDelimiter::Paren(syn::token::Paren(list.span())),
                tokens: list.stream(),
            })),
            Self::Word | Self::List(_) => {
                errors.push(key, format!("expected `{known} = ...`"));
                None
            }
            Self::Wrong => None,
        }
    }
}

/// Takes the entries apart. What is no entry is reported and passed over, up to the next comma.
fn entries(
    tokens: TokenStream,
    place: &'static str,
    example: &'static str,
    errors: &mut Errors,
) -> (Vec<Entry>, bool) {
    let mut complete = true;
    let read = |input: ParseStream<'_>| {
        let mut entries = Vec::new();
        while !input.is_empty() {
            if input.peek(Ident::peek_any) {
                let key = input.call(Ident::parse_any)?;
                if let Some(dashed) = with_dashes(&key, input)? {
                    let shown = dashed.to_string().replace(' ', "");
                    let words = format!("unknown key `{shown}` in `{place}`");
                    let joined = shown.replace('-', "_");
                    let meant = nearest(&joined, TOOL_KEYS).unwrap_or(&joined);
                    errors.push(dashed, format!("{words}; did you mean `{meant}`?"));
                    skip_entry(input);
                    complete = false;
                    input.parse::<Option<Token![,]>>()?;
                    continue;
                }
                let value = written(&key, input, errors);
                entries.push(Entry { key, value });
            } else {
                let wrong = skip_entry(input);
                complete = false;
                let text = wrong.to_string();
                let effect = values::SIDE_EFFECTS
                    .iter()
                    .find(|word| place == "#[tool(...)]" && text == format!("\"{word}\""));
                let example = effect.map_or_else(
                    || example.to_owned(),
                    |word| format!("side_effects = \"{word}\""),
                );
                errors.push(wrong, format!("expected a key in `{place}`, such as `{example}`"));
            }
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>()?;
        }
        Ok(entries)
    };
    match read.parse2(tokens) {
        Ok(entries) => (entries, complete),
        Err(err) => {
            errors.handle::<()>(Err(err));
            (Vec::new(), false)
        }
    }
}

/// All of a key such as `side-effects`, which is one word and no subtraction.
fn with_dashes(key: &Ident, input: ParseStream<'_>) -> syn::Result<Option<TokenStream>> {
    let mut dashed = None;
    while input.peek(Token![-]) && input.peek2(Ident::peek_any) {
        let dash: Token![-] = input.parse()?;
        let rest = input.call(Ident::parse_any)?;
        let before = dashed.unwrap_or_else(|| key.to_token_stream());
        dashed = Some(quote!(#before #dash #rest));
    }
    Ok(dashed)
}

/// Reads what follows a key, up to the next comma.
fn written(key: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> Written {
    let ends = |input: ParseStream<'_>| input.is_empty() || input.peek(Token![,]);
    if ends(input) {
        return Written::Word;
    }
    if input.peek(Token![=]) && !input.peek(Token![==]) {
        let Ok(eq) = input.parse::<Token![=]>() else { return Written::Wrong };
        if ends(input) {
            errors.push(key, format!("expected a value: `{key} = ...`"));
            return Written::Wrong;
        }
        let ahead = input.fork();
        return match ahead.parse::<Expr>() {
            Ok(value) if ends(&ahead) => {
                input.advance_to(&ahead);
                Written::Value(eq, value)
            }
            Ok(_) => {
                input.advance_to(&ahead);
                let wrong = skip_entry(input);
                errors.push(wrong, format!("expected `,` after the value of `{key}`"));
                Written::Wrong
            }
            Err(_) => {
                let wrong = skip_entry(input);
                errors.push(wrong, format!("expected a value: `{key} = ...`"));
                Written::Wrong
            }
        };
    }
    if input.peek(syn::token::Paren)
        && let Ok(TokenTree::Group(list)) = input.parse::<TokenTree>()
        && ends(input)
    {
        return Written::List(list);
    }
    skip_entry(input);
    let value = if key == "range" { "(...)" } else { " = ..." };
    errors.push(key, format!("expected `{key}{value}`"));
    Written::Wrong
}

/// Passes over all tokens up to the next comma.
fn skip_entry(input: ParseStream<'_>) -> TokenStream {
    let mut skipped = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        match input.parse::<TokenTree>() {
            Ok(token) => skipped.extend([token]),
            Err(_) => break,
        }
    }
    if skipped.is_empty() {
        // An empty entry, `,,`: the comma itself is wrong.
        input.span().to_token_stream_at(&mut skipped);
    }
    skipped
}

trait SpanTokens {
    fn to_token_stream_at(self, tokens: &mut TokenStream);
}

impl SpanTokens for Span {
    fn to_token_stream_at(self, tokens: &mut TokenStream) {
        let mut comma = proc_macro2::Punct::new(',', proc_macro2::Spacing::Alone);
        comma.set_span(self);
        comma.to_tokens(tokens);
    }
}
