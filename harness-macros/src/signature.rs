//! Parses the item under the attribute. The body of a function is not parsed, so an editor still knows the function
//! while a person types its body. For an item that is not a function, only the kind is determined, for the error
//! message.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, GenericParam, Generics, Signature, Token, Visibility,
    parse::{ParseStream, Parser as _},
};

/// A function, whose body is kept as tokens.
pub(crate) struct ToolFunction {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) defaultness: Option<Token![default]>,
    pub(crate) signature: Signature,
    pub(crate) body: TokenStream,
}

impl ToolFunction {
    /// Reads a function from the whole input.
    pub(crate) fn read(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut function = Self::read_head(input)?;
        function.body = input.parse()?;
        Ok(function)
    }

    /// Reads a function up to its body.
    pub(crate) fn read_head(input: ParseStream<'_>) -> syn::Result<Self> {
        Ok(Self {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            defaultness: input.parse()?,
            signature: input.parse()?,
            body: TokenStream::new(),
        })
    }

    /// Whether the function has a body, rather than only `;` as in a trait.
    pub(crate) fn has_body(&self) -> bool {
        // The body may be inside an invisible group that `macro_rules!` made.
        self.body.clone().into_iter().any(|token| matches!(token, TokenTree::Group(_)))
    }
}

impl ToTokens for ToolFunction {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attributes, visibility, defaultness, signature, body } = self;
        let no_generics = no_generics(&signature.generics);
        let mut signature = signature.clone();
        take_place_from_last_lifetime(&mut signature.generics);
        let mut signature: Vec<TokenTree> = signature.into_token_stream().into_iter().collect();
        let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == "fn");
        if let Some(function) = signature.iter().position(is_fn) {
            // The generics come after the name of the function.
            let after = (function + 2).min(signature.len());
            signature.splice(after..after, no_generics);
        }
        tokens.extend(quote!(#(#attributes)* #visibility #defaultness #(#signature)* #body));
    }
}

/// Writes `<>` if the function has no generics. rustc reports an unknown type twice: in the signature and in the
/// generated code. rustc merges the two errors only if their texts are equal. The texts differ if one of them suggests
/// a new type parameter. Generics from the macro prevent this suggestion.
pub(crate) fn no_generics(generics: &Generics) -> TokenStream {
    if generics.params.is_empty() {
        let here = Span::mixed_site();
        quote::quote_spanned!(here=> < >)
    } else {
        TokenStream::new()
    }
}

/// Marks the last lifetime as written by the macro. Otherwise, rustc would suggest a new type parameter after that
/// lifetime, and would report an unknown type twice.
fn take_place_from_last_lifetime(generics: &mut Generics) {
    let Some(GenericParam::Lifetime(last)) = generics.params.last_mut() else { return };
    let lifetime = last.bounds.last_mut().unwrap_or(&mut last.lifetime);
    lifetime.set_span(Span::call_site().located_at(lifetime.span()));
}

/// The item under the attribute.
pub(crate) enum AnnotatedItem {
    Function(Box<ToolFunction>),
    /// Another item: its kind with an article, and the span of the token that shows the kind.
    Other(&'static str, Span),
    /// A function that syn cannot parse.
    Unread(syn::Error),
}

/// Parses the item under the attribute.
pub(crate) fn read(item: &TokenStream) -> AnnotatedItem {
    if let Some((kind, span)) = other_kind(item) {
        return AnnotatedItem::Other(kind, span);
    }
    match ToolFunction::read.parse2(item.clone()) {
        Ok(function) => AnnotatedItem::Function(Box::new(function)),
        Err(err) => AnnotatedItem::Unread(err),
    }
}

/// The kind of an item that is not a function, with the span that shows the kind. `None` for a function.
fn other_kind(item: &TokenStream) -> Option<(&'static str, Span)> {
    let mut tokens = item.clone().into_iter().peekable();
    let mut first = None;
    while let Some(token) = tokens.next() {
        let next = tokens.peek().cloned();
        match &token {
            // An attribute consists of `#` and a group. `#!` occurs only at the beginning of a file.
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                tokens.next();
                continue;
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::None && first.is_none() => {
                // The group is a visibility or a whole item that `macro_rules!` passed.
                let inside = group.stream();
                if inside.is_empty() || inside.to_string().starts_with("pub") {
                    continue;
                }
                return other_kind(&inside);
            }
            TokenTree::Ident(ident) => {
                let span = *first.get_or_insert(ident.span());
                let word = ident.to_string();
                let next_word = match &next {
                    Some(TokenTree::Ident(next)) => next.to_string(),
                    _ => String::new(),
                };
                let kind = match word.as_str() {
                    "pub" => {
                        first = None;
                        if let Some(TokenTree::Group(_)) = &next {
                            tokens.next();
                        }
                        continue;
                    }
                    "fn" => return None,
                    "struct" => "a struct",
                    "enum" => "an enum",
                    "union" if !next_word.is_empty() => "a union",
                    "trait" => "a trait",
                    "impl" => "an `impl` block",
                    "mod" => "a module",
                    "use" => "a `use` declaration",
                    "type" => "a type alias",
                    "static" => "a static",
                    "let" => "a `let` statement",
                    "macro_rules" => "a macro",
                    "const"
                        if !matches!(next_word.as_str(), "fn" | "async" | "unsafe" | "extern") =>
                    {
                        "a constant"
                    }
                    "extern" if next_word == "crate" => "an `extern crate`",
                    "extern" if is_extern_block(&mut tokens) => "an `extern` block",
                    "const" | "extern" | "async" | "unsafe" | "safe" | "default" | "auto" => {
                        continue;
                    }
                    _ if is_macro_call(next.as_ref(), &tokens) => "a macro call",
                    _ => "an expression",
                };
                let at = if kind == "an `impl` block" { ident.span() } else { span };
                return Some((kind, at));
            }
            TokenTree::Literal(_) if first.is_some() => {}
            TokenTree::Literal(_) | TokenTree::Group(_) | TokenTree::Punct(_) => {
                return Some(("an expression", token.span()));
            }
        }
    }
    Some(("this", Span::call_site()))
}

/// Whether a path that ends with `!` follows.
fn is_macro_call(
    next: Option<&TokenTree>,
    rest: &std::iter::Peekable<proc_macro2::token_stream::IntoIter>,
) -> bool {
    let is = |token: &TokenTree, mark| matches!(token, TokenTree::Punct(p) if p.as_char() == mark);
    let is_path = |token: &TokenTree| is(token, ':') || matches!(token, TokenTree::Ident(_));
    next.is_some_and(|next| is(next, '!') || is_path(next))
        && rest.clone().find(|token| !is_path(token)).is_some_and(|token| is(&token, '!'))
}

/// Whether the body of `extern "C" { .. }` follows. Skips the ABI.
fn is_extern_block(tokens: &mut std::iter::Peekable<proc_macro2::token_stream::IntoIter>) -> bool {
    if let Some(TokenTree::Literal(_)) = tokens.peek() {
        tokens.next();
    }
    matches!(tokens.peek(), Some(TokenTree::Group(_)))
}
