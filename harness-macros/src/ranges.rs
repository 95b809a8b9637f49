//! The range of a parameter: `#[param(range(1..=100))]`.

use proc_macro2::{Literal as Token, TokenStream};
use quote::{ToTokens, quote};
use syn::Expr;

use crate::{
    args::ParamArgs,
    diagnostics::Errors,
    literal::{Literal, literal},
    model::{ParamRule, RuleCondition, SpanRange},
    types::{self, PlainType},
    values::{RangeValue, ungroup},
};

fn number(value: &Literal) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "it only orders the ends of a range")]
        Literal::Integer(number) => Some(*number as f64),
        Literal::Float(number) => Some(*number),
        Literal::Text | Literal::Char | Literal::Bool | Literal::Other => None,
    }
}

/// Whether a literal is inside a range. Limits that are not literals are ignored.
pub(crate) fn inside(value: &Literal, range: &RangeValue) -> bool {
    let Some(value) = number(value) else { return true };
    let end = |expr: &Option<Expr>| expr.as_ref().and_then(literal).as_ref().and_then(number);
    let above = end(&range.low).is_none_or(|low| value >= low);
    let below = end(&range.high)
        .is_none_or(|high| if range.inclusive { value <= high } else { value < high });
    above && below
}

pub(crate) fn check_range(
    name: &str,
    ty: &syn::Type,
    owned: &TokenStream,
    args: &ParamArgs,
    rules: &mut Vec<ParamRule>,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let RangeValue { low, high, inclusive, written } = args.range.as_ref()?;
    let plain = types::plain(ty);
    let shown = types::show(ty);
    if matches!(plain, Some(PlainType::Text | PlainType::Char | PlainType::Bool | PlainType::Other))
    {
        let help = match plain {
            Some(PlainType::Text) => "limits of a text are given with `length(1..=64)`",
            Some(PlainType::Other) => {
                "only numbers have a range; limits of a list are given with `length(1..=64)`"
            }
            _ => "only numbers have a range",
        };
        errors.push(written, format!("`{name}` is a `{shown}`, which has no range\nhelp: {help}"));
        return None;
    }
    let mut ok = true;
    for end in [low, high].into_iter().flatten() {
        let Some(value) = literal(end) else { continue };
        let fits = match (plain, &value) {
            (Some(PlainType::Integer(low, high)), Literal::Integer(number)) => {
                (low..=high).contains(number)
            }
            (Some(PlainType::Float(_)) | None, Literal::Integer(_) | Literal::Float(_)) => true,
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
    if !ok {
        return None;
    }
    let float = matches!(plain, Some(PlainType::Float(_)));
    let end = |end: &Option<Expr>| match end {
        Some(expr) => {
            let number = as_number(expr, float);
            quote!(#krate::__private::Option::Some(#number))
        }
        None => quote!(#krate::__private::Option::None),
    };
    rules.extend(rules_of_constants(name, ty, args, float));
    let (low, high) = (end(low), end(high));
    Some(quote!(.within(|| #krate::__private::Range::of::<#owned, _>(#low, #high, #inclusive))))
}

/// A number in the form that rustc needs: `1` is an integer for rustc, but the user may write `1` for a float
/// parameter.
fn as_number(expr: &Expr, float: bool) -> TokenStream {
    match literal(expr) {
        Some(Literal::Integer(number)) if float => {
            #[expect(clippy::cast_precision_loss, reason = "the type is a float")]
            let token = Token::f64_unsuffixed(number.unsigned_abs() as f64);
            if number < 0 { quote!(-#token) } else { quote!(#token) }
        }
        _ => expr.to_token_stream(),
    }
}

/// Rules that compare two constants: the two ends of a range, or an end and the default. Two literals need no rule.
/// rustc checks the rules at compile time.
fn rules_of_constants(name: &str, ty: &syn::Type, args: &ParamArgs, float: bool) -> Vec<ParamRule> {
    let Some(RangeValue { low, high, inclusive, written }) = &args.range else { return Vec::new() };
    let shown = types::show(written);
    let mut rules = Vec::new();
    let mut rule = |at: &dyn ToTokens, one: &Expr, order: TokenStream, other: &Expr, message| {
        let known = literal(one).is_some() && literal(other).is_some();
        if !known && is_constant(one) && is_constant(other) {
            let (one, other) = (as_number(one, float), as_number(other, float));
            let condition = RuleCondition::Holds(quote!((#one) #order (#other)));
            rules.push(ParamRule { place: SpanRange::of(at), condition, message });
        }
    };
    let up_to = if *inclusive { quote!(<=) } else { quote!(<) };
    if let (Some(low), Some(high)) = (low, high) {
        let message = format!("the range {shown} is empty\nhelp: the smaller end comes first");
        rule(written, low, up_to.clone(), high, message);
    }
    // The rule about the default needs a plain number, because a constant of an `Option` has another type.
    let default =
        args.default.as_ref().filter(|default| literal(default).is_some() || types::is_number(ty));
    if let Some(default) = default {
        let message = || format!("the default of `{name}` is outside of its range {shown}");
        if let Some(low) = low {
            rule(default, low, quote!(<=), default, message());
        }
        if let Some(high) = high {
            rule(default, default, up_to, high, message());
        }
    }
    rules
}

/// Whether rustc can evaluate the expression at compile time. Calls do not count, because the function may not be
/// `const`.
pub(crate) fn is_constant(expr: &Expr) -> bool {
    match ungroup(expr) {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Unary(unary) => is_constant(&unary.expr),
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::Binary(binary) => is_constant(&binary.left) && is_constant(&binary.right),
        _ => false,
    }
}
