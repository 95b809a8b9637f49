//! What `#[param(..)]` says of the values of a parameter: its default and its range.

use proc_macro2::{Literal as Token, TokenStream};
use quote::{ToTokens as _, quote};
use syn::Expr;

use crate::{
    args::ParamArgs,
    diagnostics::Errors,
    model::Default,
    types::{self, PlainType},
    values::{Literal, Range, literal, ungroup},
};

/// Checks a default as far as the spelling of the type goes; rustc does the rest.
pub(crate) fn check_default(
    name: &str,
    ty: &syn::Type,
    plain: Option<PlainType>,
    args: &ParamArgs,
    errors: &mut Errors,
) -> Option<Default> {
    let expr = args.default.as_ref()?;
    let Some(json) = json_of(expr) else {
        return Some(Default::Typed(expr.to_token_stream()));
    };
    let Some(value) = literal(expr) else { return Some(Default::Json(json)) };
    let kind = match value {
        Literal::Integer(_) => "an integer",
        Literal::Float(_) => "a float",
        Literal::Text => "a string",
        Literal::Char => "a character",
        Literal::Bool => "a boolean",
        Literal::Other => "no JSON value",
    };
    let shown = types::show(ty);
    let fits = match (plain, &value) {
        (_, Literal::Other) => false,
        (Some(PlainType::Integer(low, high)), Literal::Integer(number)) => {
            if !(low..=high).contains(number) {
                errors.push(
                    expr,
                    format!("the default of `{name}` is {number}, which is no `{shown}`"),
                );
                return None;
            }
            true
        }
        (Some(PlainType::Float), Literal::Integer(_) | Literal::Float(_))
        | (Some(PlainType::Text), Literal::Text)
        | (Some(PlainType::Char), Literal::Char)
        | (Some(PlainType::Bool), Literal::Bool)
        | (None, _) => true,
        _ => false,
    };
    if !fits {
        errors.push(expr, format!("the default of `{name}` is {kind}, but its type is `{shown}`"));
        return None;
    }
    if let Some(range) = &args.range
        && !inside(&value, range)
    {
        errors.push(
            expr,
            format!(
                "the default of `{name}` is outside of its range {}",
                types::show(&range.written)
            ),
        );
        return None;
    }
    Some(Default::Json(json))
}

fn number(value: &Literal) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "it only orders the ends of a range")]
        Literal::Integer(number) => Some(*number as f64),
        Literal::Float(number) => Some(*number),
        Literal::Text | Literal::Char | Literal::Bool | Literal::Other => None,
    }
}

/// Whether a literal is in a range, as far as the ends are literals too.
fn inside(value: &Literal, range: &Range) -> bool {
    let Some(value) = number(value) else { return true };
    let end = |expr: &Option<Expr>| expr.as_ref().and_then(literal).as_ref().and_then(number);
    let above = end(&range.low).is_none_or(|low| value >= low);
    let below = end(&range.high)
        .is_none_or(|high| if range.inclusive { value <= high } else { value < high });
    above && below
}

/// An expression that makes the literal JSON, or nothing if it is no literal.
fn json_of(expr: &Expr) -> Option<TokenStream> {
    let value = quote!(__Value);
    let from = |literal: TokenStream| quote!(#value::from(#literal));
    match ungroup(expr) {
        Expr::Array(array) => {
            let items: Option<Vec<TokenStream>> = array.elems.iter().map(json_of).collect();
            let items = items?;
            Some(quote!(#value::Array([#(#items),*].into())))
        }
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
            Some(from(text.to_token_stream()))
        }
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Char(char), .. }) => {
            Some(from(Token::string(&char.value().to_string()).to_token_stream()))
        }
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(flag), .. }) => {
            Some(from(flag.to_token_stream()))
        }
        other => match literal(other)? {
            Literal::Integer(number) => {
                Some(from(match (i64::try_from(number), u64::try_from(number)) {
                    (Ok(number), _) => Token::i64_suffixed(number).to_token_stream(),
                    (_, Ok(number)) => Token::u64_suffixed(number).to_token_stream(),
                    (Err(_), Err(_)) => return None,
                }))
            }
            Literal::Float(number) if number.is_finite() => {
                Some(from(Token::f64_suffixed(number).to_token_stream()))
            }
            _ => Some(quote!(#value::Null)),
        },
    }
}

pub(crate) fn check_range(
    name: &str,
    ty: &syn::Type,
    owned: &TokenStream,
    plain: Option<PlainType>,
    args: &ParamArgs,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let Range { low, high, inclusive, written } = args.range.as_ref()?;
    let shown = types::show(ty);
    if matches!(plain, Some(PlainType::Text | PlainType::Char | PlainType::Bool | PlainType::Other))
    {
        errors.push(
            written,
            format!("`{name}` is a `{shown}`, which has no range\nhelp: only numbers have a range"),
        );
        return None;
    }
    let mut ok = true;
    for end in [low, high].into_iter().flatten() {
        let Some(value) = literal(end) else { continue };
        let fits = match (plain, &value) {
            (Some(PlainType::Integer(low, high)), Literal::Integer(number)) => {
                (low..=high).contains(number)
            }
            (Some(PlainType::Float) | None, Literal::Integer(_) | Literal::Float(_)) => true,
            _ => false,
        };
        if !fits {
            errors.push(
                end,
                format!(
                    "`{}` cannot be an end of the range of `{name}`: it is no `{shown}`",
                    types::show(end)
                ),
            );
            ok = false;
        }
    }
    let ends = [low, high].map(|end| end.as_ref().and_then(literal).as_ref().and_then(number));
    if let (true, [Some(low), Some(high)]) = (ok, ends) {
        let empty = if *inclusive { low > high } else { low >= high };
        if empty {
            let help = if low > high { "the smaller end comes first" } else { "use `..=`" };
            errors.push(
                written,
                format!("the range {} is empty\nhelp: {help}", types::show(written)),
            );
            ok = false;
        }
    }
    // `1` is an integer to rustc, and a float parameter is no reason to write `1.0`.
    let float = plain == Some(PlainType::Float);
    let end = |end: &Option<Expr>| match end {
        Some(expr) => match literal(expr) {
            Some(Literal::Integer(number)) if float => {
                #[expect(clippy::cast_precision_loss, reason = "the type is a float")]
                let number = Token::f64_unsuffixed(
                    number.unsigned_abs() as f64 * if number < 0 { -1.0 } else { 1.0 },
                );
                quote!(#krate::__private::Option::Some(#number))
            }
            _ => quote!(#krate::__private::Option::Some(#expr)),
        },
        None => quote!(#krate::__private::Option::None),
    };
    let (low, high) = (end(low), end(high));
    ok.then(|| quote!(|| #krate::__private::Range::of::<#owned, _>(#low, #high, #inclusive)))
}
