//! Turns what was written into what is true, and reports all that cannot be true.

use proc_macro2::{Ident, Literal as Token, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Expr, FnArg, GenericParam, Meta, Pat, PatType, ReceiverKind, Safety, Signature,
    ext::IdentExt as _, spanned::Spanned as _,
};

use crate::{
    args::{ParamArgs, ToolArgs, param_args},
    diagnostics::{Errors, did_you_mean, nearest},
    docs::{self, Argument, Docs, Text},
    model::{Assertion, Default, Description, Param, Tool},
    signature::Function,
    types::{self, PlainType},
    values::{Literal, Range, SIDE_EFFECTS, literal, ungroup},
};

/// Where the function stands.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// By itself.
    Free,
    /// In an `impl` block with `#[toolset]`.
    Toolset,
}

/// Checks a function and takes the attributes that are ours off it. The result is `None` if there
/// is an error; what is left of the function is right in any case.
pub(crate) fn check(
    args: ToolArgs,
    function: &mut Function,
    place: Place,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<Tool> {
    let docs = docs::read(&function.attributes);
    check_given_once(function, errors);
    let side_effects = check_side_effects(&args, errors);
    let name = check_name(&args, &function.signature.ident, place, errors);
    let description = check_description(&args, docs.description.as_ref(), function, errors);
    let is_method = check_signature(&function.signature, place, errors);
    let params = check_params(&mut function.signature, &docs, krate, errors);
    let output = types::output(&function.signature.output, errors);
    document(function, &docs, &params);
    let ToolArgs { idempotent, timeout, .. } = args;
    errors.is_empty().then_some(())?;
    Some(Tool {
        ident: function.signature.ident.clone(),
        name: name?,
        description: description?,
        side_effects: side_effects?,
        idempotent,
        timeout: timeout.map(|timeout| timeout.0),
        params: params.into_iter().collect::<Option<_>>()?,
        output,
        is_async: function.signature.asyncness.is_some(),
        is_method,
    })
}

/// Whether the attribute is `#[tool]`, by whatever path.
pub(crate) fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

/// Takes a second `#[tool]` off, which would expand again.
fn check_given_once(function: &mut Function, errors: &mut Errors) {
    for second in function.attributes.extract_if(.., |attribute| is_tool(attribute)) {
        errors.push(second, "`#[tool]` is given twice");
    }
    for attribute in &function.attributes {
        if attribute.path().is_ident("param") {
            errors.push(
                attribute,
                "`#[param]` says something about one parameter\nhelp: write it before the \
                 parameter, or write this key in `#[tool(...)]`",
            );
        }
    }
    function.attributes.retain(|attribute| !attribute.path().is_ident("param"));
}

fn check_side_effects(args: &ToolArgs, errors: &mut Errors) -> Option<Vec<&'static str>> {
    if let Some(side_effects) = &args.side_effects {
        return Some(side_effects.0.clone());
    }
    if !args.saw("side_effects") {
        let all: Vec<String> = SIDE_EFFECTS.iter().map(|word| format!("\"{word}\"")).collect();
        errors.push_attribute(format!(
            "`side_effects` is missing: say what this tool does to the world\nhelp: \
                 `#[tool(side_effects = \"read\")]`; the side effects are {}",
            all.join(", ")
        ));
    }
    None
}

/// The longest name that vendors take.
const LONGEST: usize = 64;

/// What is wrong with a name, for every vendor.
fn fault_of_name(what: &str, name: &str, also: &str) -> Option<String> {
    let also_takes = |c: char| also.contains(c);
    let odd = |c: &char| !c.is_ascii_alphanumeric() && *c != '_' && *c != '-' && !also_takes(*c);
    if name.is_empty() {
        Some(format!("the {what} name is empty"))
    } else if let Some(odd) = name.chars().find(odd) {
        let also = if also.is_empty() { "`_` and `-`" } else { "`_`, `-` and `.`" };
        Some(format!(
            "{what} name `{name}` contains {odd:?}; providers take only ASCII letters, digits, \
             {also}"
        ))
    } else if name.chars().count() > LONGEST {
        let count = name.chars().count();
        Some(format!(
            "{what} name `{name}` is {count} characters long; providers take at most {LONGEST}"
        ))
    } else {
        None
    }
}

const PRIMITIVES: [&str; 18] = [
    "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64",
    "i128", "isize", "f32", "f64", "f16",
];

fn check_name(args: &ToolArgs, ident: &Ident, place: Place, errors: &mut Errors) -> Option<String> {
    let own = ident.unraw().to_string();
    // A method has no companion that could hide anything.
    if place == Place::Free
        && args.handle.is_none()
        && let Some(hides) = what_it_hides(&own)
    {
        errors.push(
            ident,
            format!(
                "a tool cannot be called `{own}`: the tool takes the function's name as a type \
                 name too, which would hide {hides}\nhelp: rename the function and keep the name \
                 with `#[tool(name = \"{own}\")]`"
            ),
        );
        return None;
    }
    if let Some(name) = &args.name {
        let text = name.0.value();
        if let Some(fault) = fault_of_name("tool", &text, "") {
            errors.push(&name.0, fault);
            return None;
        }
        return Some(text);
    }
    if args.saw("name") {
        return None;
    }
    if let Some(fault) = fault_of_name("tool", &own, "") {
        errors.push(
            ident,
            format!(
                "{fault}\nhelp: give the tool a name of its own with `#[tool(name = \"...\")]`"
            ),
        );
        return None;
    }
    Some(own)
}

/// What a type of this name would hide.
fn what_it_hides(name: &str) -> Option<&'static str> {
    if PRIMITIVES.contains(&name) {
        Some("the primitive type")
    } else if is_crate(name) {
        Some("the crate")
    } else {
        None
    }
}

/// Whether a type of this name would hide something.
pub(crate) fn hides(ident: &Ident) -> bool {
    what_it_hides(&ident.unraw().to_string()).is_some()
}

/// Whether another crate of this name can be named in the package.
fn is_crate(name: &str) -> bool {
    use proc_macro_crate::{FoundCrate, crate_name};
    let is = |package: &str| match crate_name(package) {
        Ok(FoundCrate::Name(found)) => found == name,
        // The package itself: a program is often named after its one tool.
        Ok(FoundCrate::Itself) | Err(_) => false,
    };
    ["std", "core", "alloc"].contains(&name) || is(name) || is(&name.replace('_', "-"))
}

fn check_description(
    args: &ToolArgs,
    docs: Option<&Text>,
    function: &Function,
    errors: &mut Errors,
) -> Option<Description> {
    if let Some(expr) = &args.description {
        let text = match ungroup(expr) {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Text::Known(text.value()),
            _ => Text::Constant(expr.to_token_stream()),
        };
        let span =
            expr.to_token_stream().into_iter().next().map_or_else(Span::call_site, |t| t.span());
        return Some(Description { text, span });
    }
    let ident = &function.signature.ident;
    if let Some(text) = docs {
        return Some(Description { text: text.clone(), span: ident.span() });
    }
    if !args.saw("description") {
        errors.push(
            ident,
            format!(
                "tool `{}` has no description\nhelp: the model chooses tools by their description: \
                 write a `///` comment above the function, or `#[tool(description = \"...\")]`",
                ident.unraw()
            ),
        );
    }
    None
}

/// Checks what stands around the parameters. Says whether it is a method.
fn check_signature(signature: &Signature, place: Place, errors: &mut Errors) -> bool {
    if let Safety::Unsafe(token) = &signature.safety {
        errors.push(
            token,
            "a tool cannot be an `unsafe fn`: a model cannot uphold a safety contract\nhelp: make \
             the function safe and keep the `unsafe` block inside it",
        );
    }
    if let Some(abi) = &signature.abi {
        errors.push(
            abi,
            "a tool cannot have an ABI\nhelp: remove it: a tool is an ordinary Rust function",
        );
    }
    if let Some(variadic) = &signature.variadic {
        errors.push(
            variadic,
            "a tool cannot be variadic: the schema names each parameter\nhelp: take a `Vec<T>`",
        );
    }
    for param in &signature.generics.params {
        match param {
            GenericParam::Type(param) => errors.push(
                &param.ident,
                format!(
                    "a tool cannot be generic: the schema needs one concrete type for `{}`\nhelp: \
                     write one tool for each type, and let them call the generic function",
                    param.ident
                ),
            ),
            GenericParam::Const(param) => errors.push(
                &param.ident,
                format!(
                    "a tool cannot be generic: a call has no value for `{}`\nhelp: make it a \
                     parameter, or write one tool for each value",
                    param.ident
                ),
            ),
            GenericParam::Lifetime(_) => {}
        }
    }
    let Some(FnArg::Receiver(receiver)) = signature.inputs.first() else { return false };
    if place == Place::Free {
        errors.push(
            receiver,
            "a method can only be a tool together with its value\nhelp: put `#[toolset]` on the \
             `impl` block",
        );
        return true;
    }
    let shared = match &receiver.kind {
        ReceiverKind::Reference(_, _, mutability) => mutability.is_none(),
        ReceiverKind::Typed(_, ty) => matches!(
            types::ungroup(ty),
            syn::Type::Reference(reference)
                if reference.mutability.is_none() && types::show(&reference.elem) == "Self"
        ),
        _ => false,
    };
    if !shared {
        errors.push(
            receiver,
            "a tool's method takes `&self`: all calls share the value\nhelp: take `&self`, and put \
             what changes behind a `Mutex` or an atomic",
        );
    }
    true
}

/// Checks the parameters and takes our attributes and the comments off them.
fn check_params(
    signature: &mut Signature,
    docs: &Docs,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Vec<Option<Param>> {
    let name = signature.ident.unraw().to_string();
    let mut params = Vec::new();
    let mut named: Vec<(String, String)> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for input in &mut signature.inputs {
        let FnArg::Typed(input) = input else {
            if let FnArg::Receiver(receiver) = input {
                receiver.attrs.retain(|attribute| !docs::is_doc(attribute));
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
    for Argument { name: documented, span, .. } in &docs.arguments {
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

fn check_param(
    input: &mut PatType,
    docs: &Docs,
    named: &mut Vec<(String, String)>,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<Param> {
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
    let (owned, passed) = types::parameter(&own, ty, krate, errors)?;
    let plain = types::plain(ty);
    let mut asserted = Vec::new();
    let mut supplied = |span, message| asserted.push(Assertion { span, injected: false, message });
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
        (None, Some(listed)) => Some((Text::Known(listed.text.clone()), Some(listed.span))),
        (None, None) => None,
    };
    let description =
        description.filter(|(text, _)| !matches!(text, Text::Known(text) if text.is_empty()));
    if let (Some((_, Some(span))), None) = (&description, plain) {
        let message =
            format!("`{own}` is supplied by the host, so the model never sees this description");
        supplied(*span, message);
    }
    if let (Some(expr), None) = (&args.default, plain) {
        let message = format!("`{own}` is supplied by the host, so it takes no default");
        supplied(first_span(expr), message);
    }
    if let (Some(rename), None) = (&args.rename, plain) {
        let message = format!("`{own}` is supplied by the host, so the model never sees its name");
        supplied(rename.0.span(), message);
    }
    let default = check_default(&own, ty, plain, &args, errors);
    let range = check_range(&own, ty, &owned, plain, &args, krate, errors);
    let text = match description {
        Some((text, _)) => text,
        None => {
            let message = format!(
                "parameter `{own}` has no description\nhelp: write a `///` comment above it, or `- \
                 {own}: ...` under `# Arguments` in the function's comment"
            );
            if args.meant_description {
                // The key in the wrong place was reported.
            } else if plain.is_some() {
                errors.push(&ident, message);
            } else {
                asserted.push(Assertion { span: ident.span(), injected: true, message });
            }
            Text::Known(String::new())
        }
    };
    Some(Param { name: name?, owned, passed, description: text, default, range, asserted })
}

fn first_span(tokens: impl ToTokens) -> Span {
    tokens.to_token_stream().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}

/// Reads and removes what is ours; reports what has no place on a parameter.
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

/// Checks a default as far as the spelling of the type goes; rustc does the rest.
fn check_default(
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

fn check_range(
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

/// Adds the list of arguments to the comment, where rustdoc and editors show it.
fn document(function: &mut Function, docs: &Docs, params: &[Option<Param>]) {
    if docs.has_arguments {
        return;
    }
    let described = params.iter().flatten().filter(|param| match &param.description {
        Text::Known(text) => !text.is_empty(),
        Text::Constant(_) => true,
    });
    let section =
        docs::arguments_section(described.map(|param| (param.name.as_str(), &param.description)));
    if let Some(section) = section {
        let parse = |input: syn::parse::ParseStream<'_>| input.call(Attribute::parse_outer);
        if let Ok(attributes) = syn::parse::Parser::parse2(parse, section) {
            function.attributes.extend(attributes);
        }
    }
}
