//! The limits of texts and lists: `#[param(length(1..=64))]` and `#[param(pattern = "^[a-z]+$")]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Type;

use crate::{
    args::ParamArgs,
    diagnostics::Errors,
    literal::{Literal, literal},
    model::{ParamRule, RuleCondition, SpanRange},
    ranges::is_constant,
    types::{self, PlainType},
    values::RangeValue,
};

/// Checks a length, and returns the call that declares the length for the parameter.
pub(crate) fn check_length(
    name: &str,
    ty: &Type,
    owned: &TokenStream,
    args: &ParamArgs,
    rules: &mut Vec<ParamRule>,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let RangeValue { low, high, inclusive, written } = args.length.as_ref()?;
    let shown = types::show(written);
    if let Some(wrong) = has_no_length(ty) {
        let help = match wrong {
            true => "limits of a number are given with `range(1..=100)`",
            false => "only texts and lists have a length",
        };
        let ty = types::show(ty);
        errors.push(written, format!("`{name}` is a `{ty}`, which has no length\nhelp: {help}"));
        return None;
    }
    let mut ok = true;
    let mut known = [None, None];
    for (end, known) in [low, high].into_iter().zip(&mut known) {
        let Some(end) = end else { continue };
        match literal(end) {
            Some(Literal::Integer(number)) if usize::try_from(number).is_ok() => {
                *known = Some(number);
            }
            None => {}
            Some(_) => {
                let fault = "cannot be an end of the length of";
                let end_shown = types::show(end);
                errors.push(end, format!("`{end_shown}` {fault} `{name}`: it is no `usize`"));
                ok = false;
            }
        }
    }
    let [least, most] = known;
    // `..10` equals `..=9`.
    let most = most.map(|most| if *inclusive { most } else { most - 1 });
    if let (true, Some(most)) = (ok, most)
        && most < least.unwrap_or(0)
    {
        let help = if most < 0 { "use `..=`" } else { "the smaller end comes first" };
        errors.push(written, format!("no text or list has the length {shown}\nhelp: {help}"));
        ok = false;
    } else if least == Some(0) && high.is_none() {
        let help = "help: give the other end, such as `length(..=64)`, or remove it";
        errors.push(written, format!("the length {shown} says nothing\n{help}"));
        ok = false;
    }
    if !ok {
        return None;
    }
    if let (Some(low), Some(high)) = (low, high)
        && is_constant(low)
        && is_constant(high)
        && (least.is_none() || most.is_none())
    {
        let order = if *inclusive { quote!(<=) } else { quote!(<) };
        rules.push(ParamRule {
            place: SpanRange::of(written),
            condition: RuleCondition::Holds(quote!((#low) #order (#high))),
            message: format!(
                "no text or list has the length {shown}\nhelp: the smaller end comes first"
            ),
        });
    }
    let private = quote!(#krate::__private);
    let end = |end: &Option<syn::Expr>| match end {
        Some(end) => quote!(#private::Option::Some(#end)),
        None => quote!(#private::Option::None),
    };
    let (low, high) = (end(low), end(high));
    Some(quote!(.long(#private::Length::of::<#owned>(#low, #high, #inclusive))))
}

/// Returns `None` if values of the type may have a length. Otherwise, returns whether the type is
/// spelled as a number.
fn has_no_length(ty: &Type) -> Option<bool> {
    match types::plain(ty)? {
        PlainType::Integer(..) | PlainType::Float(_) => Some(true),
        PlainType::Bool | PlainType::Char => Some(false),
        PlainType::Text | PlainType::Other => None,
    }
}

/// Checks a pattern, and returns the call that declares the pattern for the parameter.
pub(crate) fn check_pattern(
    name: &str,
    ty: &Type,
    owned: &TokenStream,
    args: &ParamArgs,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let pattern = &args.pattern.as_ref()?.0;
    if !matches!(types::plain(ty), Some(PlainType::Text) | None) {
        let ty = types::show(ty);
        errors.push(
            pattern,
            format!("`{name}` is a `{ty}`, which has no pattern\nhelp: only texts have a pattern"),
        );
        return None;
    }
    Some(quote!(.matching(#krate::__private::pattern::<#owned>(#pattern))))
}
