//! Checks the default and the examples of a parameter. A literal is checked against the spelling of the parameter's
//! type. If the spelling does not suffice, the type itself checks the literal. rustc checks all other expressions.

use proc_macro2::{Literal as Token, TokenStream};
use quote::{ToTokens as _, quote};
use syn::{Expr, ExprArray, Type};

use crate::{
    args::ParamArgs,
    diagnostics::Errors,
    literal::{Literal, literal, suffix},
    model::{GivenValue, ParamRule, RuleCondition, SpanRange},
    ranges::inside,
    types::{self, PlainType},
    values::ungroup,
};

/// Checks the default as far as the spelling of the type allows. rustc checks the rest.
pub(crate) fn check_default(
    name: &str,
    ty: &Type,
    args: &ParamArgs,
    rules: &mut Vec<ParamRule>,
    errors: &mut Errors,
) -> Option<GivenValue> {
    check_given("default", name, ty, args.default.as_ref()?, args, rules, errors)
}

/// Checks the examples as far as the spelling of the type allows. rustc checks the rest.
pub(crate) fn check_examples(
    name: &str,
    ty: &Type,
    args: &ParamArgs,
    rules: &mut Vec<ParamRule>,
    errors: &mut Errors,
) -> Vec<GivenValue> {
    let mut shown: Vec<String> = Vec::new();
    let mut given = Vec::new();
    for example in &args.examples {
        let text = types::show(example);
        if shown.contains(&text) {
            errors.push(example, format!("the example {text} of `{name}` is given twice"));
            continue;
        }
        shown.push(text);
        given.extend(check_given("example", name, ty, example, args, rules, errors));
    }
    given
}

/// Checks the value of the key `default` or `example`.
fn check_given(
    key: &str,
    name: &str,
    ty: &Type,
    expr: &Expr,
    args: &ParamArgs,
    rules: &mut Vec<ParamRule>,
    errors: &mut Errors,
) -> Option<GivenValue> {
    let typed = || Some(GivenValue::Typed(expr.to_token_stream()));
    let Some(json) = json_of(expr) else { return typed() };
    let whose = format!("the {key} of `{name}`");
    let known = match check_literal(&whose, ty, expr, expr) {
        // For a number with a suffix such as `7u8`, rustc checks the type.
        Ok(known) if !known && suffix(expr).is_some() => return typed(),
        Ok(known) => known,
        Err((at, message)) => {
            errors.push(at, message);
            return None;
        }
    };
    if let (Some(range), Some(value)) = (&args.range, literal(expr))
        && !inside(&value, range)
    {
        let range = types::show(&range.written);
        errors.push(expr, format!("{whose} is outside of its range {range}"));
        return None;
    }
    if let (Some(length), Some((long, unit))) = (&args.length, length_of(expr))
        && !inside(&Literal::Integer(long), length)
    {
        let length = types::show(&length.written);
        let units = if long == 1 { unit.to_owned() } else { format!("{unit}s") };
        errors.push(
            expr,
            format!("{whose} is outside of its length {length}: it has {long} {units}"),
        );
        return None;
    }
    // An example is an argument that a model could write. Only the type can decide whether it accepts the example, so
    // the example is tested when an agent is built.
    if !known && key == "default" {
        let (shown, ty) = (types::show(expr), types::show(ty));
        rules.push(ParamRule {
            place: SpanRange::of(expr),
            condition: RuleCondition::TakesLiteral { kind: kind(expr), integers: integers(expr) },
            message: format!("{whose} is {shown}, which is no `{ty}`"),
        });
    }
    Some(GivenValue::Json(json))
}

/// The length of a literal and its unit: characters of a text, items of a list. `None` for other expressions.
fn length_of(expr: &Expr) -> Option<(i128, &'static str)> {
    let (long, unit) = match ungroup(expr) {
        Expr::Array(list) => (list.elems.len(), "item"),
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
            (text.value().chars().count(), "character")
        }
        _ => return None,
    };
    Some((i128::try_from(long).ok()?, unit))
}

/// Checks a literal against the spelling of the type. Returns `true` for a value of the type, `false` if the spelling
/// does not suffice, and an error for a literal that is no value of the type.
fn check_literal<'a>(
    whose: &str,
    ty: &Type,
    expr: &'a Expr,
    whole: &Expr,
) -> Result<bool, (&'a Expr, String)> {
    let shown = types::show(ty);
    let what = || {
        if std::ptr::eq(expr, whole) {
            whose.to_owned()
        } else {
            format!("`{}` in {whose}", types::show(expr))
        }
    };
    let wrong = |found: &str| (expr, format!("{} is {found}, but its type is `{shown}`", what()));
    if let Expr::Array(list) = ungroup(expr) {
        let of = match list.elems.len() {
            1 => "a list of 1 item".to_owned(),
            items => format!("a list of {items} items"),
        };
        return check_list(whose, ty, list, whole).unwrap_or_else(|| Err(wrong(&of)));
    }
    let Some(value) = literal(expr) else { return Ok(false) };
    let found = match value {
        Literal::Integer(_) => "an integer",
        Literal::Float(_) => "a float",
        Literal::Text => "a string",
        Literal::Char => "a character",
        Literal::Bool => "a boolean",
        Literal::Other => return Err(wrong("no JSON value")),
    };
    let plain = types::plain(ty);
    if let (Some(PlainType::Integer(..) | PlainType::Float(_)), Some(suffix)) =
        (plain, suffix(expr))
        && !types::type_names(ty).any(|name| name == suffix)
    {
        return Err(wrong(&format!("of the type `{suffix}`")));
    }
    let fits = match (plain, &value) {
        (None, _) => return Ok(false),
        (Some(PlainType::Integer(low, high)), Literal::Integer(number)) => {
            if !(low..=high).contains(number) {
                return Err((expr, format!("{} is {number}, which is no `{shown}`", what())));
            }
            true
        }
        (Some(PlainType::Float(greatest)), Literal::Float(number)) => {
            if number.abs() > greatest {
                let number = types::show(expr);
                return Err((expr, format!("{} is {number}, which is no `{shown}`", what())));
            }
            true
        }
        (Some(PlainType::Float(_)), Literal::Integer(_))
        | (Some(PlainType::Text), Literal::Text)
        | (Some(PlainType::Char), Literal::Char)
        | (Some(PlainType::Bool), Literal::Bool) => true,
        _ => false,
    };
    if fits { Ok(true) } else { Err(wrong(found)) }
}

/// Like [`check_literal`], for a list. `None` if the type is not a list.
fn check_list<'a>(
    whose: &str,
    ty: &Type,
    list: &'a ExprArray,
    whole: &Expr,
) -> Option<Result<bool, (&'a Expr, String)>> {
    let all = |elem: &Type| {
        let mut known = true;
        for item in &list.elems {
            known &= check_literal(whose, elem, item, whole)?;
        }
        Ok(known)
    };
    Some(match types::ungroup(ty) {
        Type::Reference(reference) => check_list(whose, &reference.elem, list, whole)?,
        Type::Slice(slice) => all(&slice.elem),
        Type::Array(array) if length(&array.len).is_none_or(|len| len == list.elems.len()) => {
            all(&array.elem)
        }
        Type::Tuple(tuple) if tuple.elems.len() == list.elems.len() => {
            let mut known = true;
            for (elem, item) in tuple.elems.iter().zip(&list.elems) {
                match check_literal(whose, elem, item, whole) {
                    Ok(one) => known &= one,
                    Err(wrong) => return Some(Err(wrong)),
                }
            }
            Ok(known)
        }
        Type::Array(_) | Type::Tuple(_) => return None,
        Type::Path(path) => match types::container(&path.path) {
            Some(("Option", elem)) => check_list(whose, elem, list, whole)?,
            Some((_, elem)) => all(elem),
            None if types::plain(ty).is_some() => return None,
            None => Ok(false),
        },
        _ => Ok(false),
    })
}

fn length(expr: &Expr) -> Option<usize> {
    match literal(expr)? {
        Literal::Integer(number) => usize::try_from(number).ok(),
        _ => None,
    }
}

/// The kind of a literal, as the name of a type in `__private`.
fn kind(expr: &Expr) -> TokenStream {
    if let Expr::Array(list) = ungroup(expr) {
        let mut kinds = list.elems.iter().map(|item| kind(item).to_string());
        let Some(first) = kinds.next() else { return quote!(EmptyList) };
        let is_number = |kind: &str| kind == "IntegerLiteral" || kind == "FloatLiteral";
        let joined = kinds.try_fold(first, |first, next| {
            if first == next || next == "EmptyList" && first.starts_with("ListLiteral") {
                Some(first)
            } else if first == "EmptyList" && next.starts_with("ListLiteral") {
                Some(next)
            } else {
                (is_number(&first) && is_number(&next)).then(|| "FloatLiteral".to_owned())
            }
        });
        return match joined.and_then(|kind| kind.parse::<TokenStream>().ok()) {
            Some(kind) => quote!(ListLiteral<#kind>),
            None => quote!(MixedList),
        };
    }
    match literal(expr) {
        Some(Literal::Integer(_)) => quote!(IntegerLiteral),
        Some(Literal::Float(_)) => quote!(FloatLiteral),
        Some(Literal::Bool) => quote!(BoolLiteral),
        Some(Literal::Char) => quote!(CharLiteral),
        Some(Literal::Text | Literal::Other) | None => quote!(TextLiteral),
    }
}

/// All integers in a literal.
fn integers(expr: &Expr) -> Vec<i128> {
    match (ungroup(expr), literal(expr)) {
        (Expr::Array(list), _) => list.elems.iter().flat_map(integers).collect(),
        (_, Some(Literal::Integer(number))) => vec![number],
        _ => Vec::new(),
    }
}

/// An expression that builds the JSON of a literal; `None` for other expressions. The expression calls functions
/// instead of methods, because a method's trait may not be in scope.
fn json_of(expr: &Expr) -> Option<TokenStream> {
    let from = |literal: TokenStream| quote!(__value(#literal));
    match ungroup(expr) {
        Expr::Array(array) => {
            let items: Option<Vec<TokenStream>> = array.elems.iter().map(json_of).collect();
            let items = items?;
            Some(quote!(__list([#(#items),*])))
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
            _ => Some(from(quote!(()))),
        },
    }
}
