//! Splits an attribute into its entries, so that an error in one entry does not hide the errors in other entries. The
//! code for each attribute supplies the known keys.

use proc_macro2::{Ident, Punct, Spacing, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::{
    Expr, Meta, MetaList, MetaNameValue, Path, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _, discouraged::Speculative as _},
};

use crate::diagnostics::{Errors, nearest};

/// One entry of an attribute.
pub(crate) struct AttributeEntry {
    pub(crate) key: Ident,
    pub(crate) value: EntryValue,
}

/// The part of an entry after the key.
pub(crate) enum EntryValue {
    /// Nothing.
    Word,
    /// `= value`
    Value(Token![=], Expr),
    /// `(..)`
    List(proc_macro2::Group),
    /// A wrong value, which was reported.
    Wrong,
}

impl EntryValue {
    /// The entry in the form that syn and darling read. Reports a missing value.
    pub(crate) fn meta(self, key: &Ident, known: &str, errors: &mut Errors) -> Option<Meta> {
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

/// The keys of an attribute, and texts for errors about the attribute.
pub(crate) struct KnownKeys {
    /// The name of the attribute for messages.
    pub(crate) place: &'static str,
    pub(crate) keys: &'static [&'static str],
    /// An example of a correct entry.
    pub(crate) example: &'static str,
    /// Returns a message about tokens that were written in place of a key. `None` if their meaning is unknown.
    pub(crate) stray: fn(&TokenStream) -> Option<String>,
}

/// Splits the entries. Tokens that are no entry are reported and skipped up to the next comma. The second result is
/// `false` if tokens were skipped.
pub(crate) fn entries(
    tokens: TokenStream,
    about: &KnownKeys,
    errors: &mut Errors,
) -> (Vec<AttributeEntry>, bool) {
    let KnownKeys { place, keys, example, stray } = about;
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
                    let meant = nearest(&joined, keys.iter().copied()).unwrap_or(&joined);
                    errors.push(dashed, format!("{words}; did you mean `{meant}`?"));
                    skip_entry(input);
                    complete = false;
                    input.parse::<Option<Token![,]>>()?;
                    continue;
                }
                let value = written(&key, input, errors);
                entries.push(AttributeEntry { key, value });
            } else {
                let wrong = skip_entry(input);
                complete = false;
                let message = stray(&wrong)
                    .unwrap_or_else(|| format!("expected a key in `{place}`, such as `{example}`"));
                errors.push(wrong, message);
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

/// All tokens of a key such as `side-effects`, which was meant as one word rather than a subtraction. `None` if no dash
/// follows the key.
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

/// Reads the part after a key, up to the next comma.
fn written(key: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> EntryValue {
    let ends = |input: ParseStream<'_>| input.is_empty() || input.peek(Token![,]);
    if ends(input) {
        return EntryValue::Word;
    }
    if input.peek(Token![=]) && !input.peek(Token![==]) {
        let Ok(eq) = input.parse::<Token![=]>() else { return EntryValue::Wrong };
        if ends(input) {
            errors.push(key, format!("expected a value: `{key} = ...`"));
            return EntryValue::Wrong;
        }
        let ahead = input.fork();
        return match ahead.parse::<Expr>() {
            Ok(value) if ends(&ahead) => {
                input.advance_to(&ahead);
                EntryValue::Value(eq, value)
            }
            Ok(_) => {
                input.advance_to(&ahead);
                let wrong = skip_entry(input);
                errors.push(wrong, format!("expected `,` after the value of `{key}`"));
                EntryValue::Wrong
            }
            Err(_) => {
                let wrong = skip_entry(input);
                errors.push(wrong, format!("expected a value: `{key} = ...`"));
                EntryValue::Wrong
            }
        };
    }
    if input.peek(syn::token::Paren)
        && let Ok(TokenTree::Group(list)) = input.parse::<TokenTree>()
        && ends(input)
    {
        return EntryValue::List(list);
    }
    skip_entry(input);
    let value = if key == "range" || key == "length" { "(...)" } else { " = ..." };
    errors.push(key, format!("expected `{key}{value}`"));
    EntryValue::Wrong
}

/// Skips all tokens up to the next comma.
fn skip_entry(input: ParseStream<'_>) -> TokenStream {
    let mut skipped = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        match input.parse::<TokenTree>() {
            Ok(token) => skipped.extend([token]),
            Err(_) => break,
        }
    }
    if skipped.is_empty() {
        // The entry is empty, as in `,,`, so the error underlines the comma.
        let mut comma = Punct::new(',', Spacing::Alone);
        comma.set_span(input.span());
        skipped.extend([TokenTree::Punct(comma)]);
    }
    skipped
}
