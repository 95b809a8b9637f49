//! Checks the parameters of a function: names, descriptions and attributes.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, quote};
use syn::{
    Attribute, FnArg, Meta, Pat, PatType, Signature, Type, ext::IdentExt as _,
    spanned::Spanned as _,
};

use crate::{
    args::{ParamArgs, param_args},
    defaults::{check_default, check_examples},
    diagnostics::{Errors, did_you_mean, nearest},
    docs::{self, ArgumentDoc, DocText, FunctionDocs},
    forms,
    lengths::{check_length, check_pattern},
    map_keys,
    model::{CheckedParam, ParamRule, RuleCondition, SpanRange},
    names::fault_of_name,
    ranges::check_range,
    rewrite::owned_lifetimes,
    types,
};

/// Checks the parameters, and removes comments and the library's attributes from them.
pub(crate) fn check_params(
    signature: &mut Signature,
    docs: &FunctionDocs,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Vec<Option<CheckedParam>> {
    let name = signature.ident.unraw().to_string();
    let mut params = Vec::new();
    let mut named: Vec<(String, String)> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for input in &mut signature.inputs {
        let FnArg::Typed(input) = input else {
            if let FnArg::Receiver(receiver) = input {
                check_receiver(&mut receiver.attrs, errors);
            }
            continue;
        };
        let param = check_param(input, docs, &mut named, krate, errors);
        if let Pat::Ident(pat) = &*input.pat {
            known.push(pat.ident.unraw().to_string());
        }
        params.push(param);
    }
    let mut seen: Vec<&str> = Vec::new();
    for ArgumentDoc { name: documented, span, .. } in &docs.arguments {
        if seen.contains(&documented.as_str()) {
            errors.push_at(*span, format!("parameter `{documented}` is described twice"));
        } else if !known.contains(documented) {
            let near = did_you_mean(nearest(documented, known.iter().map(String::as_str)), '`');
            errors.push_at(*span, format!("`{name}` has no parameter `{documented}`{near}"));
        }
        seen.push(documented);
    }
    params
}

/// Reports a comment or `#[param]` on `self`. The model does not see `self`.
fn check_receiver(attributes: &mut Vec<Attribute>, errors: &mut Errors) {
    attributes.retain(|attribute| {
        let is_param = attribute.path().is_ident("param");
        if is_param || docs::is_doc(attribute) {
            let what = if is_param { "`#[param]`" } else { "description" };
            errors.push(
                attribute,
                format!(
                    "`self` is supplied by the host, so the model never sees this {what}\nhelp: \
                     remove it, or write it in the comment of the method"
                ),
            );
        }
        !is_param && !docs::is_doc(attribute)
    });
}

fn check_param(
    input: &mut PatType,
    docs: &FunctionDocs,
    named: &mut Vec<(String, String)>,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<CheckedParam> {
    let comment = docs::read_param(&input.attrs);
    let comment_span = input.attrs.iter().find(|a| docs::is_doc(a)).map(|a| a.pound_token.span());
    let mut args = ParamArgs::default();
    take_attributes(&mut input.attrs, &mut args, errors);
    let ident = match &*input.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
        Pat::Wild(wild) => {
            errors.push(
                wild,
                "a tool's parameter is one name, by which the model knows it\nhelp: name it; a name \
                 that begins with `_` may be unused",
            );
            return None;
        }
        Pat::TupleStruct(pat)
            if let (Some(last), Some(Pat::Ident(inside))) =
                (pat.path.segments.last(), pat.elems.first())
                && pat.elems.len() == 1 =>
        {
            let (whole, ty, inside) = (&last.ident, types::show(&input.ty), &inside.ident);
            errors.push(
                pat,
                format!(
                    "a tool's parameter is one name\nhelp: name the whole, `{inside}: {ty}`; what is \
                     in the `{whole}` is reached in the body"
                ),
            );
            return None;
        }
        other => {
            errors.push(
                other,
                "a tool's parameter is one name\nhelp: take one name and destructure it in the body",
            );
            return None;
        }
    };
    let own = ident.unraw().to_string();
    let name = check_param_name(&own, &ident, &args, named, errors);
    let ty = &*input.ty;
    let read = forms::parameter(&own, ty, krate, errors);
    let plain = types::plain(ty);
    let mut rules = Vec::new();
    let mut supplied = |place, message| {
        rules.push(ParamRule { place, condition: RuleCondition::Supplied(false), message });
    };
    let listed = docs.arguments.iter().find(|argument| argument.name == own);
    let description = match (comment, listed) {
        (Some(_), Some(listed)) => {
            errors.push_at(
                listed.span,
                format!(
                    "parameter `{own}` is described twice\nhelp: keep this line, or the comment \
                     above the parameter"
                ),
            );
            return None;
        }
        (Some(text), None) => Some((text, comment_span)),
        (None, Some(listed)) => Some((DocText::Known(listed.text.clone()), Some(listed.span))),
        (None, None) => None,
    };
    let description =
        description.filter(|(text, _)| !matches!(text, DocText::Known(text) if text.is_empty()));
    if let (Some((_, Some(span))), None) = (&description, plain) {
        let message =
            format!("`{own}` is supplied by the host, so the model never sees this description");
        supplied(SpanRange(*span, *span), message);
    }
    if let (Some(expr), None) = (&args.default, plain) {
        let message = format!("`{own}` is supplied by the host, so it takes no default");
        supplied(SpanRange::of(expr), message);
    }
    for example in args.examples.iter().filter(|_| plain.is_none()) {
        let message =
            format!("`{own}` is supplied by the host, so the model never sees an example");
        supplied(SpanRange::of(example), message);
    }
    if let (Some(rename), None) = (&args.rename, plain) {
        let message = format!("`{own}` is supplied by the host, so the model never sees its name");
        supplied(SpanRange::of(&rename.0), message);
    }
    for held in types::parts(ty) {
        rules.push(rule_of_held(&own, ty, held));
    }
    for key in map_keys::keys(ty) {
        rules.push(rule_of_key(&own, key, krate));
    }
    let default = check_default(&own, ty, &args, &mut rules, errors);
    let owned = read.as_ref().map(|(owned, _)| owned);
    let examples = check_examples(&own, ty, &args, &mut rules, errors);
    let limits = owned.map(|owned| {
        let range = check_range(&own, ty, owned, &args, &mut rules, krate, errors);
        let length = check_length(&own, ty, owned, &args, &mut rules, krate, errors);
        let pattern = check_pattern(&own, ty, owned, &args, krate, errors);
        range.into_iter().chain(length).chain(pattern).collect()
    });
    let text = match description {
        Some((text, _)) => text,
        None => {
            let stray = docs.stray(&own);
            let place = stray.map_or_else(|| SpanRange::of(&ident), |span| SpanRange(span, span));
            let message = undescribed(&own, stray.is_some(), docs.is_computed);
            if args.meant_description {
                // The key for a description in the attribute was already reported.
            } else if plain.is_some() {
                errors.push_at(place.0, message);
            } else {
                let condition = RuleCondition::Supplied(true);
                rules.push(ParamRule { place, condition, message });
            }
            DocText::Known(String::new())
        }
    };
    let is_known = types::is_known(ty);
    let (owned, passed) = read?;
    let (description, limits) = (text, limits.unwrap_or_default());
    Some(CheckedParam {
        name: name?,
        owned,
        is_known,
        passed,
        description,
        default,
        limits,
        examples,
        rules,
    })
}

/// The error message about a parameter without a description.
fn undescribed(name: &str, is_stray: bool, is_computed: bool) -> String {
    if is_stray {
        return format!(
            "`{name}` is described here, but not in an entry of the list of parameters\nhelp: begin a line of its own \
             with `- {name}: ...`, without indentation"
        );
    }
    let unread = match is_computed {
        true => "; what `include_str!` and other macros bring into the comment is not searched",
        false => "",
    };
    format!(
        "parameter `{name}` has no description\nhelp: write a `///` comment above it, or `- {name}: ...` under \
         `# Arguments` in the function's comment{unread}"
    )
}

/// The rule that an unknown type contains no shared mutable value. Changes to such a value would be lost, because each
/// call deserializes a new value.
fn rule_of_held(name: &str, ty: &Type, held: &Type) -> ParamRule {
    let shown = types::show(held);
    let whole = match types::ungroup(ty) {
        Type::Reference(reference) => types::ungroup(&reference.elem),
        other => other,
    };
    let part = (!std::ptr::eq(whole, held)).then(|| owned_lifetimes(held));
    ParamRule {
        place: SpanRange::of(held),
        condition: RuleCondition::IsNotShared(part),
        message: format!(
            "`{name}` cannot be `{shown}`, which is there to be shared and changed: it would be read \
             from the model's JSON, a new one for each call\nhelp: take `State<{shown}>` and give the \
             value with `AgentBuilder::state`, or take the plain value that is in it"
        ),
    }
}

/// The rule that the key type of a map can be read from a string.
fn rule_of_key(name: &str, key: &Type, krate: &TokenStream) -> ParamRule {
    let private = quote!(#krate::__private);
    let shown = types::show(key);
    let ty = owned_lifetimes(key);
    ParamRule {
        place: SpanRange::of(key),
        condition: RuleCondition::Holds(quote!({
            use #private::OtherKey as _;
            type __Key = #private::MapKeyProbe<#ty>;
            __Key::__HARNESS_IS_PARSED || __Key::__HARNESS_IS_CONVERTED || __Key::__HARNESS_IS_NAME
        })),
        message: format!(
            "JSON object keys are strings, so `{shown}` cannot be the key of a map (parameter \
             `{name}`)\nhelp: take a list of entries: `Vec<({shown}, ..)>`; if `{shown}` is read \
             from a string, implement `FromStr` for it"
        ),
    }
}

/// Reads and removes the library's attributes, and reports attributes that are not allowed on a parameter.
fn take_attributes(attributes: &mut Vec<Attribute>, args: &mut ParamArgs, errors: &mut Errors) {
    attributes.retain(|attribute| {
        let path = attribute.path();
        let word = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        match word.as_str() {
            "doc" => {
                if !matches!(attribute.meta, Meta::NameValue(_)) {
                    errors.push(attribute, "`#[doc(...)]` has no effect on a parameter");
                }
            }
            "param" => param_args(args, &attribute.meta, errors),
            "allow" | "expect" | "warn" | "deny" | "forbid" => return true,
            "cfg" | "cfg_attr" => errors.push(
                attribute,
                "a tool's parameters cannot depend on `cfg`\nhelp: put `#[cfg]` on the function",
            ),
            "serde" | "schemars" => errors.push(
                attribute,
                format!(
                    "`#[{word}]` has no effect on a parameter\nhelp: use `#[param(rename = \
                     \"...\")]` or `#[param(default = ...)]`"
                ),
            ),
            _ => {
                let near = nearest(&word, ["param"])
                    .map(|near| format!("; did you mean `#[{near}(...)]`?"));
                let way_out = near.unwrap_or_else(|| {
                    "\nhelp: what can be said of a parameter is said in `#[param(...)]`".to_owned()
                });
                let shown = types::show(path);
                errors
                    .push(attribute, format!("`#[{shown}]` has no effect on a parameter{way_out}"));
            }
        }
        false
    });
}

fn check_param_name(
    own: &str,
    ident: &Ident,
    args: &ParamArgs,
    named: &mut Vec<(String, String)>,
    errors: &mut Errors,
) -> Option<String> {
    let (name, fault) = match &args.rename {
        Some(rename) => {
            let name = rename.0.value();
            let fault = fault_of_name("parameter", &name, ".");
            (name, fault)
        }
        None => {
            let help = "\nhelp: give it a name for the model with `#[param(rename = \"...\")]`";
            let fault = fault_of_name("parameter", own, ".").map(|fault| format!("{fault}{help}"));
            (own.to_owned(), fault)
        }
    };
    let at =
        args.rename.as_ref().map_or_else(|| ident.to_token_stream(), |r| r.0.to_token_stream());
    if let Some(fault) = fault {
        errors.push(at, fault);
        return None;
    }
    let twin = named.iter().find(|(other, _)| *other == name);
    if let Some((_, other)) = twin.filter(|(_, other)| other != own) {
        errors.push(at, format!("`{other}` and `{own}` are both named `{name}` in the schema"));
        return None;
    }
    named.push((name.clone(), own.to_owned()));
    Some(name)
}
