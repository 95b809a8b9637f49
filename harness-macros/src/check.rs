//! Checks a function and its attribute, reports all mistakes, and returns the checked tool.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens as _;
use syn::{
    Attribute, Expr, ExprPath, FnArg, GenericParam, ReceiverKind, Safety, Signature,
    ext::IdentExt as _,
};

use crate::{
    args::ToolArgs,
    diagnostics::Errors,
    docs::{self, DocText, FunctionDocs},
    model::{CheckedParam, CheckedTool, ToolDescription},
    names::{fault_of_name, is_shadowing, what_it_hides},
    output,
    params::check_params,
    signature::ToolFunction,
    types,
    values::{AtOnceValue, ReconcileValue, ReviewValue, SIDE_EFFECTS, ungroup},
};

/// Where the function is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum FunctionPlace<'a> {
    /// In a module.
    Free,
    /// In an `impl` block with `#[toolset]`. `functions` are the names of all functions in the block.
    Toolset { functions: &'a [Ident] },
}

/// Checks a function and removes the library's attributes from it. Returns `None` after an error. The remaining
/// function compiles in any case.
pub(crate) fn check(
    args: ToolArgs,
    function: &mut ToolFunction,
    place: FunctionPlace<'_>,
    krate: &TokenStream,
    errors: &mut Errors,
) -> Option<CheckedTool> {
    let docs = docs::read(&function.attributes);
    if docs::has_refused(&function.attributes) {
        errors.leave_to_rustc();
    }
    check_given_once(function, errors);
    let side_effects = check_side_effects(&args, errors);
    let name = check_name(&args, &function.signature.ident, place, errors);
    let description = check_description(&args, docs.description.as_ref(), function, errors);
    let is_method = check_signature(&function.signature, place, errors);
    let params = check_params(&mut function.signature, &docs, krate, errors);
    let output = output::output(&function.signature.output, errors);
    document(function, &docs, &params);
    let review = args.review.as_ref();
    let review =
        review.map(|ReviewValue(path)| check_path(path, "review = each_host", place, errors));
    let reconcile = args.reconcile.as_ref();
    let reconcile = reconcile
        .map(|(_, ReconcileValue(path))| check_path(path, "reconcile = was_paid", place, errors));
    check_idempotent(&args, side_effects.as_deref(), errors);
    check_reconcile(&args, side_effects.as_deref(), &params, errors);
    let ToolArgs { idempotent, timeout, at_once, title, .. } = args;
    errors.is_empty().then_some(())?;
    Some(CheckedTool {
        ident: function.signature.ident.clone(),
        name: name?,
        description: description?,
        side_effects: side_effects?,
        idempotent: idempotent.is_some(),
        title: title.map(|title| title.0),
        timeout: timeout.map(|timeout| timeout.0),
        at_once: at_once.map(|AtOnceValue(most)| most),
        review,
        reconcile,
        params: params.into_iter().collect::<Option<_>>()?,
        output,
        is_async: function.signature.asyncness.is_some(),
        is_method,
    })
}

/// Whether an attribute is `#[tool]`, with any path before the name.
pub(crate) fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

/// Reports and removes attributes such as `#[test]` and `#[tokio::main]`. A function with such an attribute cannot be
/// called as it is written. All other attributes stay, because they do not change how the function is called.
fn check_is_callable(function: &mut ToolFunction, errors: &mut Errors) {
    let is_no_more =
        |attribute: &mut Attribute| ["test", "bench", "main"].contains(&word(attribute).as_str());
    for attribute in function.attributes.extract_if(.., is_no_more) {
        let shown = types::show(attribute.path());
        let (what, help) = match word(&attribute).as_str() {
            "main" => (
                "the start of a program",
                "remove it: the agent awaits a tool that is an `async fn`",
            ),
            _ => ("a test", "write the test as a function of its own that calls this one"),
        };
        let fault = format!("`#[{shown}]` turns the function into {what}, which no agent can call");
        errors.push(attribute, format!("{fault}\nhelp: {help}"));
    }
    check_async_trait(&mut function.attributes, errors);
}

/// Reports and removes `#[async_trait]`, which only works on traits.
pub(crate) fn check_async_trait(attributes: &mut Vec<Attribute>, errors: &mut Errors) {
    for attribute in attributes.extract_if(.., |attribute| word(attribute) == "async_trait") {
        let shown = types::show(attribute.path());
        let fault = format!("`#[{shown}]` is for traits and for the `impl` blocks of traits");
        errors.push(attribute, format!("{fault}\nhelp: remove it: a tool may be an `async fn`"));
    }
}

/// The last name in the path of an attribute.
fn word(attribute: &Attribute) -> String {
    let last = attribute.path().segments.last();
    last.map(|last| last.ident.to_string()).unwrap_or_default()
}

/// Reports and removes a second `#[tool]`, because otherwise this attribute would expand again.
fn check_given_once(function: &mut ToolFunction, errors: &mut Errors) {
    for second in function.attributes.extract_if(.., |attribute| is_tool(attribute)) {
        let is_ours = second.path().segments.first().is_some_and(|first| first.ident == "harness");
        if is_ours || second.path().is_ident("tool") {
            errors.push(second, "`#[tool]` is given twice");
            continue;
        }
        let shown = types::show(second.path());
        let help = "help: remove one of the two; a tool for two libraries is two functions";
        errors.push(second, format!("`#[{shown}]` makes a tool of the function, too\n{help}"));
    }
    check_is_callable(function, errors);
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

/// The meaning of each word of `side_effects`, and whether a tool with this word needs an approval.
const WHAT_THEY_MEAN: &str = "\
\"none\": only computes; runs unasked
\"read\": looks at something, such as a file or a database; runs unasked
\"write\": changes what can be changed back, such as a file; runs unasked, unless a rule of the program asks
\"network\": talks to another machine; runs unasked only in `[\"read\", \"network\"]`, else a person is asked
\"mutate\": does what cannot be taken back, such as a payment or any command; a person is asked";

fn check_side_effects(args: &ToolArgs, errors: &mut Errors) -> Option<Vec<&'static str>> {
    if let Some(side_effects) = &args.side_effects {
        return Some(side_effects.clone());
    }
    if !args.saw("side_effects") {
        let all: Vec<String> = SIDE_EFFECTS.iter().map(|word| format!("\"{word}\"")).collect();
        errors.push_attribute(format!(
            "`side_effects` is missing: say what this tool does to the world\nhelp: \
                 `#[tool(side_effects = \"read\")]`; the side effects are {}\n{WHAT_THEY_MEAN}",
            all.join(", ")
        ));
    }
    None
}

/// Reports the key `idempotent` if it has no effect.
fn check_idempotent(args: &ToolArgs, side_effects: Option<&[&str]>, errors: &mut Errors) {
    let (Some(written), Some(side_effects)) = (&args.idempotent, side_effects) else { return };
    if side_effects.contains(&"mutate") {
        errors.push(
            written,
            "`idempotent` says nothing beside \"mutate\": what cannot be taken back is never tried \
             again by itself\nhelp: remove it; or say \"write\" or \"network\" in place of \"mutate\", \
             if what the tool does can be taken back",
        );
    }
}

/// The maximum number of parameters of a tool with `reconcile`. The limit exists because a trait has one implementation
/// for each number of parameters.
const RECONCILED: usize = 15;

/// Reports a `reconcile` function that would never be called.
fn check_reconcile(
    args: &ToolArgs,
    side_effects: Option<&[&str]>,
    params: &[Option<CheckedParam>],
    errors: &mut Errors,
) {
    let (Some((key, _)), Some(side_effects)) = (&args.reconcile, side_effects) else { return };
    if side_effects.iter().all(|word| matches!(*word, "none" | "read")) {
        errors.push(
            key,
            "there is nothing to find out: the tool only reads, so a call of which nobody knows how it \
             ended is repeated\nhelp: remove `reconcile`, or say what the tool changes in \
             `side_effects`",
        );
    } else if args.idempotent.is_some() && !side_effects.contains(&"mutate") {
        errors.push(
            key,
            "`reconcile` is never asked beside `idempotent`: a call of which nobody knows how it ended is \
             repeated with the same idempotency key\nhelp: remove one of the two",
        );
    } else if params.len() > RECONCILED {
        errors.push(
            key,
            format!(
                "a tool with `reconcile` has at most {RECONCILED} parameters\nhelp: take several of them \
                 as one struct"
            ),
        );
    }
}

/// The path of a function as tokens. Only `rustc` can check the signature.
fn check_path(
    path: &ExprPath,
    example: &str,
    place: FunctionPlace<'_>,
    errors: &mut Errors,
) -> TokenStream {
    let first = path.path.segments.first().map(|first| &first.ident);
    let key = example.split(' ').next().unwrap_or_default();
    match place {
        FunctionPlace::Free if path.qself.is_none() && first.is_some_and(|first| first == "Self") => errors
            .push(
                path,
                format!(
                    "`Self` is not known here: the tool is a function by itself\nhelp: name a function, \
                     such as `{example}`"
                ),
            ),
        FunctionPlace::Toolset { functions } => {
            if let Some(name) = path.path.get_ident().filter(|name| functions.contains(name)) {
                errors.push(
                    path,
                    format!(
                        "`{name}` is a function of this `impl` block\nhelp: name it with its \
                         type: `{key} = Self::{name}`"
                    ),
                );
            }
        }
        FunctionPlace::Free => {}
    }
    path.to_token_stream()
}

fn check_name(
    args: &ToolArgs,
    ident: &Ident,
    place: FunctionPlace<'_>,
    errors: &mut Errors,
) -> Option<String> {
    let own = ident.unraw().to_string();
    if let Some(handle) = args.handle.as_ref().filter(|handle| is_shadowing(handle)) {
        let hides = what_it_hides(&handle.unraw().to_string()).unwrap_or("something else");
        let help = "help: give it another name, such as `handle = ReadFile`";
        errors.push(handle, format!("a type called `{handle}` would hide {hides}\n{help}"));
        return None;
    }
    // No type is generated for a method, so a method shadows nothing.
    if place == FunctionPlace::Free
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

fn check_description(
    args: &ToolArgs,
    docs: Option<&DocText>,
    function: &ToolFunction,
    errors: &mut Errors,
) -> Option<ToolDescription> {
    if let Some(expr) = &args.description {
        let text = match ungroup(expr) {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
                DocText::Known(text.value())
            }
            _ => DocText::Constant(expr.to_token_stream()),
        };
        let span =
            expr.to_token_stream().into_iter().next().map_or_else(Span::call_site, |t| t.span());
        return Some(ToolDescription { text, span });
    }
    let ident = &function.signature.ident;
    if let Some(text) = docs {
        return Some(ToolDescription { text: text.clone(), span: ident.span() });
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

/// Checks the signature without its parameters. Returns whether the function is a method.
fn check_signature(signature: &Signature, place: FunctionPlace<'_>, errors: &mut Errors) -> bool {
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
    if place == FunctionPlace::Free {
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

/// Adds the list of arguments to the function's doc comment, so that rustdoc and editors show it.
fn document(function: &mut ToolFunction, docs: &FunctionDocs, params: &[Option<CheckedParam>]) {
    if docs.has_arguments {
        return;
    }
    let described = params.iter().flatten().filter(|param| match &param.description {
        DocText::Known(text) => !text.is_empty(),
        DocText::Constant(_) => true,
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
