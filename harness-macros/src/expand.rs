//! Writes the expansion. The expansion contains only constants, names that cannot collide with the user's names, and
//! paths in `__private`.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{Expr, Path, Visibility, ext::IdentExt as _};

use crate::{
    deprecated,
    docs::DocText,
    model::{
        CheckedParam, CheckedTool, GivenValue, ParamRule, PassingMode, ReturnSpans, RuleCondition,
        SpanRange,
    },
    names,
    rewrite::{at, replace_self},
};

/// The path of `harness` in the user's package, or the error message.
pub(crate) fn crate_path(written: Option<&Path>, attribute: &str) -> Result<TokenStream, String> {
    use proc_macro_crate::{FoundCrate, crate_name};
    if let Some(path) = written {
        return Ok(quote!(#path));
    }
    // These are names of packages, which may differ from the names of libraries. The core package comes first, because
    // it contains everything that an expansion names. A package of tools that depends on the core package may have
    // `harness` among its dev-dependencies.
    let front = env!("CARGO_PKG_NAME").trim_end_matches("-macros");
    for (package, library) in
        [(format!("{front}-core"), "harness_core"), (front.to_owned(), "harness")]
    {
        let name = match crate_name(&package) {
            Ok(FoundCrate::Itself) => library.to_owned(),
            Ok(FoundCrate::Name(name)) if name == package.replace('-', "_") => library.to_owned(),
            Ok(FoundCrate::Name(name)) => name,
            Err(_) => continue,
        };
        let ident = Ident::new(&name, Span::call_site());
        return Ok(quote!(::#ident));
    }
    Err(format!(
        "the package does not depend on `{front}` by itself\nhelp: add it, or name the way to \
         it: `#[{attribute}(crate = path::to::harness)]`"
    ))
}

/// A name that cannot collide with the user's names. Its hygiene separates it from local variables. Its two underscores
/// separate it from the user's constants: a pattern with the name of a constant would refer to the constant.
fn local(name: &str) -> Ident {
    Ident::new(&format!("__{name}"), Span::mixed_site())
}

/// The companion of a function: a type of the same name that contains the tool.
pub(crate) fn companion(
    handle: &Ident,
    visibility: &Visibility,
    tool: &CheckedTool,
    deprecated: bool,
    krate: &TokenStream,
) -> TokenStream {
    let definition = definition(tool, None, krate);
    if !deprecated {
        return wrap(handle, visibility, &definition, krate);
    }
    let declared = deprecated::declared(handle, &tool.ident, &definition, krate);
    let named = quote!(<Self as #krate::__private::DeclaredTool>::TOOL);
    let companion = wrap(handle, visibility, &named, krate);
    quote!(#companion #declared)
}

/// The companion of a function with a mistake. It prevents further errors in lists of tools and in callers.
pub(crate) fn stub(handle: &Ident, visibility: &Visibility, krate: &TokenStream) -> TokenStream {
    let private = quote!(#krate::__private);
    // If no type can have this function's name, the type gets a replacement name. `tools![..]` looks for the same
    // replacement.
    let refused = names::is_shadowing(handle).then(|| refused(handle));
    let handle = refused.as_ref().unwrap_or(handle);
    let name = handle.unraw().to_string();
    let definition = quote!(&#private::ToolDef::new(#name, "", #private::SideEffects::NONE, &[], || {
        static SCHEMA: #private::SchemaCell = #private::SchemaCell::new();
        &SCHEMA
    }, #private::DeclaredCall::refusal));
    wrap(handle, visibility, &definition, krate)
}

/// The replacement name for a companion if no tool can have the function's own name. A list of tools uses the same
/// name. If the listed function has no companion, rustc quotes this name in its error, and the name explains the fault.
pub(crate) fn refused(handle: &Ident) -> Ident {
    format_ident!("no_tool_can_be_called_{}", handle.unraw(), span = handle.span())
}

fn wrap(
    handle: &Ident,
    visibility: &Visibility,
    definition: &TokenStream,
    krate: &TokenStream,
) -> TokenStream {
    let private = quote!(#krate::__private);
    // The span of the user's name lets editors find the type. Lints still treat the type as macro code.
    let ident = if handle.to_string().starts_with("r#") {
        Ident::new_raw(&handle.unraw().to_string(), Span::call_site().located_at(handle.span()))
    } else {
        Ident::new(&handle.to_string(), Span::call_site().located_at(handle.span()))
    };
    let about = format!("The tool `{}`.", handle.unraw());
    quote! {
        #krate::methods_need_toolset_on_the_impl_block! {
            #about #visibility #ident {
                /// What is declared, known in `const` context.
                pub const TOOL: &'static #private::ToolDef = #definition;
                /// The tool itself.
                pub fn tool() -> #private::Tool {
                    #private::ToolDef::tool(Self::TOOL)
                }
            }
        }
    }
}

/// The definition of a tool, as a constant expression.
pub(crate) fn definition(
    tool: &CheckedTool,
    self_type: Option<&TokenStream>,
    krate: &TokenStream,
) -> TokenStream {
    let private = quote!(#krate::__private);
    let consts: Vec<Ident> = (0..tool.params.len()).map(|i| format_ident!("__P{i}")).collect();
    let params = tool.params.iter().zip(&consts).map(|(param, constant)| {
        let owned = replace_self(param.owned.clone(), self_type);
        parameter(param, constant, &owned, self_type, krate)
    });
    let (blank, description) = description(tool, krate);
    let name = &tool.name;
    let side_effects = side_effects(&tool.side_effects, krate);
    let idempotent = tool.idempotent.then(|| quote!(.idempotent()));
    let timeout = tool.timeout.map(|ms| quote!(.time_limit(#private::Duration::from_millis(#ms))));
    let (some_begin, at_once) =
        tool.at_once.as_ref().map(|most| at_once(most, self_type, krate)).unzip();
    let title = tool.title.as_ref().map(|title| quote!(.title(#title)));
    let returning = returning(tool, self_type, krate);
    let review = tool.review.as_ref().map(|path| review(path, self_type, krate));
    let reconcile = tool.reconcile.as_ref();
    let reconcile = reconcile.map(|path| reconcile_by(path, tool, &consts, self_type, krate));
    let run = run(tool, &consts, self_type, krate);
    quote! {
        &{
            #blank
            #some_begin
            #(#params)*
            #private::ToolDef::new(#name, #description, #side_effects, &[#(#consts.def),*], || {
                static SCHEMA: #private::SchemaCell = #private::SchemaCell::new();
                &SCHEMA
            }, #run)#title #returning #idempotent #timeout #at_once #review #reconcile
        }
    }
}

/// The constant for the maximum number of concurrent calls, and the call that sets this number. rustc checks that the
/// number is not 0.
fn at_once(
    most: &Expr,
    self_type: Option<&TokenStream>,
    krate: &TokenStream,
) -> (TokenStream, TokenStream) {
    let most = replace_self(quote!(#most), self_type);
    let message = "`at_once` is 0, so no call could ever begin\nhelp: let at least one run";
    let rule = quote!(#krate::__private::rule(__AT_ONCE > 0, #message));
    let assertion = at(SpanRange::of(&most), quote!(const _: () = #rule;));
    (
        quote!(const __AT_ONCE: ::core::primitive::usize = #most; #assertion),
        quote!(.at_once(__AT_ONCE)),
    )
}

/// The call that determines the schema of the return type. rustc infers the return type from a closure that contains a
/// call of the function. The closure is never called.
fn returning(
    tool: &CheckedTool,
    self_type: Option<&TokenStream>,
    krate: &TokenStream,
) -> TokenStream {
    let private = quote!(#krate::__private);
    let never = local("never");
    let count = tool.params.len() + usize::from(tool.is_method);
    let arguments = (0..count).map(|_| quote!(#never.any()));
    let taken = if count == 0 { quote!(_) } else { quote!(#never) };
    let ident = &tool.ident;
    let function = match self_type {
        Some(ty) => at(SpanRange::of(ident), quote!(<#ty>::#ident)),
        None => quote!(#ident),
    };
    let returned = if tool.is_async { quote!(returned_later) } else { quote!(returned) };
    quote! {
        .returns(|| {
            use #private::{OtherSchema as _, OwnSchema as _, SchemaInResult as _};
            (&&&#private::#returned(|#taken| #function(#(#arguments),*))).__harness_output_schema()
        })
    }
}

/// The call that sets the review function. rustc checks the function's signature once, with errors at the path.
fn review(path: &TokenStream, self_type: Option<&TokenStream>, krate: &TokenStream) -> TokenStream {
    let private = quote!(#krate::__private);
    let (this, arguments) = (local("this"), local("arguments"));
    let review = at(SpanRange::of(path), quote!(#private::review));
    match self_type {
        Some(ty) => {
            let path = replace_self(path.clone(), self_type);
            quote! {
                .review(|#this, #arguments| {
                    #review(#path, #private::SharedReceiver::get::<#ty>(#this), #arguments)
                })
            }
        }
        None => quote!(.review(|_, #arguments| #review(#path, &(), #arguments))),
    }
}

/// The call that sets the reconcile function, which gets the same arguments as the tool's function.
fn reconcile_by(
    path: &TokenStream,
    tool: &CheckedTool,
    consts: &[Ident],
    self_type: Option<&TokenStream>,
    krate: &TokenStream,
) -> TokenStream {
    let private = quote!(#krate::__private);
    let [call, this, taken, way, never, carried, sent] =
        ["call", "this", "taken", "way", "never", "carried", "sent"].map(local);
    let locals: Vec<Ident> = (0..consts.len()).map(|i| local(&format!("a{i}"))).collect();
    let lent =
        tool.params.iter().zip(&locals).map(|(param, local)| lend(&param.passed, local, krate));
    let lent: Vec<Option<TokenStream>> = lent.collect();
    let passed = lent.iter().zip(&locals).map(|(lent, local)| match lent {
        Some(lent) => lent.clone(),
        None => quote!(#local),
    });
    // A moved value can be passed only once, so the type is determined earlier, from a reference to the value.
    let asked = lent.iter().zip(&locals).map(|(lent, local)| match lent {
        Some(lent) => lent.clone(),
        None => quote!(#never.like(&#local)),
    });
    let receiver =
        tool.is_method.then(|| quote!(let #this = #private::DeclaredCall::receiver(&#call);));
    let held = self_type
        .filter(|_| tool.is_method)
        .map(|ty| quote!(#private::SharedReceiver::get::<#ty>(&#this),));
    let path = replace_self(path.clone(), self_type);
    let asks = at(SpanRange::of(&path), quote!(#private::ArgumentTypes::way));
    let known = tool.params.iter().all(|param| param.is_known);
    let sent_by = match known {
        true => quote!(let #sent = #private::CanBeSent;),
        false => quote! {
            use #private::NotSent as _;
            let #carried = #private::CarriedArguments((#(#locals,)*));
            let #sent = #carried.__harness_way();
            let #private::CarriedArguments((#(#locals,)*)) = #carried;
        },
    };
    let taken_from_call = take_all(&call, consts, krate);
    quote! {
        .reconcile(|mut #call| {
            let (#(#private::Option::Some(#locals),)* true) = #taken_from_call else {
                return #private::DeclaredCall::unknown(#call);
            };
            #receiver
            #sent_by
            let #taken = #private::argument_types(|#never| (#held #(#asked,)*));
            let #way = #asks(&#taken, #path);
            #sent.find_out(#way, async move { #way.find_out(#path, (#held #(#passed,)*)).await })
        })
    }
}

/// An expression for a tuple: the values of all parameters, and then whether all of these values are valid.
fn take_all(call: &Ident, consts: &[Ident], krate: &TokenStream) -> TokenStream {
    let call_type = quote!(#krate::__private::DeclaredCall);
    quote!((#(#call_type::take(&mut #call, &#consts),)* #call_type::is_valid(&mut #call)))
}

/// An expression that lends a borrowed parameter. `None` if the parameter is moved.
fn lend(passed: &PassingMode, local: &Ident, krate: &TokenStream) -> Option<TokenStream> {
    let private = quote!(#krate::__private);
    match passed {
        PassingMode::Owned => None,
        PassingMode::Lent(elem) => Some(quote!(<#elem as #private::LentType>::lend(&#local))),
        PassingMode::LentOption(elem) => {
            let held = quote!(#private::Option::as_ref(&#local));
            Some(quote!(#private::Option::map(#held, <#elem as #private::LentType>::lend)))
        }
    }
}

/// The description. For a text that only rustc knows, this function also returns a rule that the text is not empty.
fn description(tool: &CheckedTool, krate: &TokenStream) -> (Option<TokenStream>, TokenStream) {
    match &tool.description.text {
        DocText::Known(text) => (None, quote!(#text)),
        DocText::Constant(expr) => {
            let message = format!(
                "tool `{}` has no description\nhelp: the model chooses tools by their description, \
                 and this one is empty",
                tool.name
            );
            let span = tool.description.span;
            let rule = quote!(#krate::__private::rule(!#krate::__private::is_blank(__DESCRIPTION), #message));
            let assertion = at(SpanRange(span, span), quote!(const _: () = #rule;));
            let constant = quote! {
                const __DESCRIPTION: &::core::primitive::str = #expr;
                #assertion
            };
            (Some(constant), quote!(__DESCRIPTION))
        }
    }
}

fn side_effects(words: &[&str], krate: &TokenStream) -> TokenStream {
    let private = quote!(#krate::__private);
    if words.is_empty() {
        return quote!(#private::SideEffects::NONE);
    }
    // Each word with a capital letter is the name of a variant. A word without a variant does not compile.
    let variants = words.iter().map(|word| {
        let (first, rest) = word.split_at(1);
        format_ident!("{}{rest}", first.to_uppercase())
    });
    quote!(#private::SideEffects::of(&[#(#private::SideEffect::#variants),*]))
}

/// The constant that declares one parameter. Only this constant names the bound on the parameter's type: rustc would
/// report an unfulfilled bound at each expression that names the bound.
fn parameter(
    param: &CheckedParam,
    constant: &Ident,
    owned: &TokenStream,
    self_type: Option<&TokenStream>,
    krate: &TokenStream,
) -> TokenStream {
    let private = quote!(#krate::__private);
    let CheckedParam { name, description, default, limits, examples, rules, .. } = param;
    let of_self = |tokens: &TokenStream| replace_self(tokens.clone(), self_type);
    let number = &constant.to_string()[3..];
    let make = format_ident!("__default{number}");
    let (function, default) = match default {
        None => (None, None),
        Some(GivenValue::Json(json)) => {
            let json = in_json(json, krate);
            (None, Some(quote!(.or_json(|| #json))))
        }
        Some(GivenValue::Typed(expr)) => {
            let (function, value, json) = typed(&of_self(expr), &make, &param.passed, owned, krate);
            (Some(function), Some(quote!(.or(#value, || #json))))
        }
    };
    let shown = examples.iter().enumerate().map(|(at, example)| match example {
        GivenValue::Json(json) => (None, in_json(json, krate)),
        GivenValue::Typed(expr) => {
            let make = format_ident!("__example{number}_{at}");
            let (function, _, json) = typed(&of_self(expr), &make, &param.passed, owned, krate);
            (Some(function), json)
        }
    });
    let (functions, shown): (Vec<_>, Vec<_>) = shown.unzip();
    let examples = (!shown.is_empty()).then(|| quote!(.shown(&[#(|| #shown),*])));
    let limits = limits.iter().map(of_self);
    let rules = rules.iter().map(|one| replace_self(rule(one, constant, krate), self_type));
    // All tokens have the span of the type, because rustc underlines the whole call if the type borrows.
    let place = SpanRange::of(owned);
    let SpanRange(first, last) = place;
    let make = at(SpanRange(first, first), quote!(#private::param::<));
    let arguments = at(SpanRange(last, last), quote!(, _>(#name, #description)));
    // Only one expression names the type. The second expression infers the type, because rustc would otherwise report
    // further errors.
    let same = inferred(place, krate);
    quote! {
        #function
        #(#functions)*
        const #constant: #private::TypedParam<#owned> =
            #make #same #arguments #default #(#limits)* #examples;
        #(#rules)*
    }
}

/// The JSON of a literal, as an optional value.
fn in_json(json: &TokenStream, krate: &TokenStream) -> TokenStream {
    let private = quote!(#krate::__private);
    quote!(#private::Option::Some({ use #private::{list as __list, value as __value}; #json }))
}

/// A function that makes a value of the parameter's type, an expression for the owned value, and an expression for its
/// JSON.
fn typed(
    expr: &TokenStream,
    make: &Ident,
    passed: &PassingMode,
    owned: &TokenStream,
    krate: &TokenStream,
) -> (TokenStream, TokenStream, TokenStream) {
    let private = quote!(#krate::__private);
    // The default of a `&str` parameter is written as a `&'static str` and converted to an owned text.
    let (returns, value) = match passed {
        PassingMode::Lent(elem) if elem.to_string() == "str" => {
            (quote!(&'static #elem), quote!(|| #private::ToOwned::to_owned(#make())))
        }
        PassingMode::LentOption(elem) if elem.to_string() == "str" => (
            quote!(#private::Option<&'static #elem>),
            quote!(|| #private::Option::map(#make(), #private::ToOwned::to_owned)),
        ),
        _ => (owned.clone(), quote!(#make)),
    };
    let json = quote!({
        use #private::ByName as _;
        #private::JsonOf(&#make()).__harness_json()
    });
    (quote!(fn #make() -> #returns { #expr }), value, json)
}

/// An inferred type with the span of the written type.
fn inferred(SpanRange(first, last): SpanRange, krate: &TokenStream) -> TokenStream {
    let head = at(SpanRange(first, first), quote!(#krate::__private::SameType < _));
    let tail = quote::quote_spanned!(last=> >);
    quote!(#head #tail)
}

/// A constant that rustc cannot evaluate if the rule is broken. All its tokens have the span of `place`, and the
/// functions that it calls are `track_caller`, so that rustc reports the error at this place.
fn rule(
    ParamRule { place, condition, message }: &ParamRule,
    constant: &Ident,
    krate: &TokenStream,
) -> TokenStream {
    let private = quote!(#krate::__private);
    let here = |tokens| at(*place, tokens);
    let condition = match condition {
        RuleCondition::Supplied(true) => quote!(#private::ParamDef::is_injected(&#constant.def)),
        RuleCondition::Supplied(false) => quote!(!#private::ParamDef::is_injected(&#constant.def)),
        RuleCondition::Holds(condition) => condition.clone(),
        RuleCondition::IsNotShared(part) => {
            let asked = |held: TokenStream| {
                quote!(#private::is_no(&|| {
                    use #private::WithoutSharedState as _;
                    #held.__harness_is_shared()
                }))
            };
            match part {
                None => asked(quote!(#constant.held)),
                Some(part) => {
                    let asked = asked(quote!(__HELD));
                    quote!({
                        const __HELD: #private::SharedStateProbe<#part> = #private::SharedStateProbe::ASKED;
                        #asked
                    })
                }
            }
        }
        RuleCondition::TakesLiteral { kind, integers } => {
            let kind = qualified(kind, &private);
            // rustc underlines the argument that has the parameter's type, from the first to the last token of this
            // argument.
            let SpanRange(first, last) = *place;
            let (lent, mut held) = (quote::quote_spanned!(first=> &), constant.clone());
            held.set_span(last);
            match (integers.iter().min(), integers.iter().max()) {
                (Some(least), Some(greatest)) => {
                    let zero = integers.contains(&0);
                    let holds = here(quote!(#private::TypedParam::accepts_integers::<#kind>));
                    quote!(#holds (#lent #held, #least, #greatest, #zero))
                }
                _ => {
                    return here(
                        quote!(const _: () = #private::TypedParam::accepts::<#kind>(#lent #held);),
                    );
                }
            }
        }
    };
    here(quote!(const _: () = #private::rule(#condition, #message);))
}

/// The kind of a literal, with `__private` before each name.
fn qualified(kind: &TokenStream, private: &TokenStream) -> TokenStream {
    let path = |token| match token {
        TokenTree::Ident(name) => quote!(#private::#name),
        other => other.into(),
    };
    kind.clone().into_iter().map(path).collect()
}

/// The closure that runs a call.
fn run(
    tool: &CheckedTool,
    consts: &[Ident],
    self_type: Option<&TokenStream>,
    krate: &TokenStream,
) -> TokenStream {
    let private = quote!(#krate::__private);
    let (call, this, out) = (local("call"), local("this"), local("out"));
    let locals: Vec<Ident> = (0..consts.len()).map(|i| local(&format!("a{i}"))).collect();
    let ident = &tool.ident;
    // Whether all values that the function takes are `Send`. Only the type system can decide this.
    let shared = self_type.filter(|_| tool.is_method && tool.is_async);
    let is_asked = shared.is_some() || tool.params.iter().any(|param| !param.is_known);
    let (carried, way) = (local("carried"), local("way"));
    let passed =
        tool.params.iter().zip(&locals).map(|(param, local)| {
            lend(&param.passed, local, krate).unwrap_or_else(|| quote!(#local))
        });
    let passed: Vec<TokenStream> = passed.collect();
    // The call has the span of the function's name, so that rustc reports errors about the call at this name.
    let receiver =
        tool.is_method.then(|| quote!(let #this = #private::DeclaredCall::receiver(&#call);));
    let function = match self_type {
        Some(ty) => at(SpanRange::of(ident), quote!(<#ty>::#ident)),
        None => quote!(#ident),
    };
    let held = self_type
        .filter(|_| tool.is_method)
        .map(|ty| quote!(#private::SharedReceiver::get::<#ty>(&#this),));
    let mut arguments = Group::new(Delimiter::Parenthesis, quote!(#held #(#passed),*));
    arguments.set_span(ident.span());
    let invoked = quote!(#function #arguments);
    let invoked = if tool.is_async {
        // rustc reports a future that is not `Send` at the span of this path.
        let here = |tokens| at(SpanRange::of(ident), tokens);
        let is_send = if is_asked {
            let (mut way, method) = (way.clone(), here(quote!(.is_send)));
            way.set_span(way.span().located_at(ident.span()));
            quote!(#way #method)
        } else {
            here(quote!(#krate::__private::is_send))
        };
        quote!(#is_send(#invoked).await)
    } else {
        invoked
    };
    let answer = match &tool.output {
        ReturnSpans::Plain(place) => {
            let ty = inferred(*place, krate);
            quote!(#private::InfallibleForm.answer::<#ty, _>(#invoked))
        }
        ReturnSpans::Result(ok, err) => {
            let (ok, err) = (inferred(*ok, krate), inferred(*err, krate));
            quote! {
                use #private::{NotAResult as _, WithCauses as _, WithOwnForm as _, WithWords as _};
                let #out = #invoked;
                (&&&#private::ReturnKind::of(&#out).__harness_failing()).__harness_form().answer_result::<#ok, #err, _>(#out)
            }
        }
        ReturnSpans::Asked(place) => {
            let ty = inferred(*place, krate);
            quote! {
                use #private::{NotAResult as _, WithCauses as _, WithOwnForm as _, WithWords as _};
                let #out = #invoked;
                (&&&#private::ReturnKind::of(&#out).__harness_failing()).__harness_form().answer::<#ty, _>(#out)
            }
        }
    };
    let marker = shared.map(|ty| quote!(#private::PhantomData::<#private::Arc<#ty>>,));
    let ignored = shared.map(|_| quote!(_,));
    let how = match (is_asked, tool.is_async) {
        (false, true) => quote!(#private::DeclaredCall::run(#call, async move { #answer })),
        (false, false) => quote!(#private::DeclaredCall::block(#call, move || { #answer })),
        (true, is_async) => {
            let (run, body) = if is_async {
                (quote!(run), quote!(async move { #answer }))
            } else {
                (quote!(block), quote!({ #answer }))
            };
            quote! {
                use #private::NotSent as _;
                let #carried = #private::CarriedArguments((#marker #(#locals,)*));
                let #way = #carried.__harness_way();
                #way.#run(#call, #carried, move |(#ignored #(#locals,)*)| #body)
            }
        }
    };
    let taken_from_call = take_all(&call, consts, krate);
    quote! {
        |mut #call| {
            let (#(#private::Option::Some(#locals),)* true) = #taken_from_call else {
                return #private::DeclaredCall::refusal(#call);
            };
            #receiver
            #how
        }
    }
}
