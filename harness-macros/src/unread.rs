//! Handles items that syn cannot parse. rustc's own parser has already reported the error, so this module only prevents
//! further errors.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use syn::{
    Visibility,
    parse::{ParseStream, Parser as _},
};

/// Whether a part of the item comes from `macro_rules!`. syn cannot parse every part that rustc can parse.
pub(crate) fn is_from_macro(item: &TokenStream) -> bool {
    item.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => {
            group.delimiter() == Delimiter::None || is_from_macro(&group.stream())
        }
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// The name of a function, and whether the function takes `self`.
pub(crate) fn name(item: &TokenStream) -> Option<(Ident, bool)> {
    let mut tokens = item.clone().into_iter();
    tokens.find(|token| is_word(token, "fn"))?;
    let Some(TokenTree::Ident(name)) = tokens.next() else { return None };
    let parameters = tokens.find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group),
        _ => None,
    });
    let mut parameters = parameters.into_iter().flat_map(|group| group.stream());
    Some((name, parameters.any(|token| is_word(&token, "self"))))
}

/// Finds a comment that follows the last parameter, and so describes no parameter. Returns the comment, and the
/// function without any comments on parameters. syn can parse this function.
pub(crate) fn comment_behind(item: &TokenStream) -> Option<(TokenStream, TokenStream)> {
    let mut all: Vec<TokenTree> = item.clone().into_iter().collect();
    let function = all.iter().position(|token| is_word(token, "fn"))?;
    let parameters = all.iter_mut().skip(function).find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group),
        _ => None,
    })?;
    let inside: Vec<TokenTree> = parameters.stream().into_iter().collect();
    let mut comment = inside.len();
    while let Some([.., pound, attribute]) = inside.get(..comment)
        && is_pound(pound)
        && is_attribute(attribute, "doc")
    {
        comment -= 2;
    }
    let comment: TokenStream =
        inside.get(comment..).filter(|rest| !rest.is_empty())?.iter().cloned().collect();
    let rest = without(without(parameters.stream(), "doc"), "param");
    let mut replaced = Group::new(Delimiter::Parenthesis, rest);
    replaced.set_span(parameters.span());
    *parameters = replaced;
    Some((comment, all.into_iter().collect()))
}

/// The error message about a comment after the last parameter.
pub(crate) const COMMENT_BEHIND: &str = "a comment describes the parameter below it, and below this one there is none\n\
    help: write each comment above its parameter";

/// The visibility of the item.
pub(crate) fn visibility(item: &TokenStream) -> Visibility {
    let read = |input: ParseStream<'_>| {
        input.call(syn::Attribute::parse_outer)?;
        let visibility = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(visibility)
    };
    read.parse2(item.clone()).unwrap_or(Visibility::Inherited)
}

/// Whether a method of the block has `#[tool]`.
pub(crate) fn has_tool(item: &TokenStream) -> bool {
    let mut tokens = item.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_pound(&token) && tokens.peek().is_some_and(|next| is_attribute(next, "tool")) {
            return true;
        }
    }
    false
}

/// Removes `#[tool]` from the methods of a block. All other tokens keep their spans, so that rustc reports each error
/// once.
pub(crate) fn without_tools(block: TokenStream) -> TokenStream {
    let is_block = block.clone().into_iter().any(|token| is_word(&token, "impl"));
    let take = |token| match token {
        TokenTree::Group(group) if is_block && group.delimiter() == Delimiter::Brace => {
            let mut members = Group::new(Delimiter::Brace, without(group.stream(), "tool"));
            members.set_span(group.span());
            TokenTree::Group(members)
        }
        token => token,
    };
    block.into_iter().map(take).collect()
}

/// The same tokens without the attributes of this name.
pub(crate) fn without(tokens: TokenStream, name: &str) -> TokenStream {
    let mut out = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_pound(&token) && tokens.next_if(|next| is_attribute(next, name)).is_some() {
            continue;
        }
        out.extend([token]);
    }
    out
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn is_pound(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '#')
}

/// Whether a token is the bracket part `[name ..]` of an attribute, with any path before the name.
fn is_attribute(token: &TokenTree, name: &str) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let path = group.stream().into_iter().take_while(|token| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(punct) => punct.as_char() == ':',
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    });
    let last = path.last();
    last.is_some_and(|last| is_word(&last, name))
}
