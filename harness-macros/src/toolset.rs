//! `#[toolset]`: makes tools of the methods of a value. The block itself is written even after
//! errors.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, GenericParam, Generics, Ident, Meta, Token, Type,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

use crate::{
    args,
    check::{self, FunctionPlace},
    deprecated,
    diagnostics::Errors,
    expand, model,
    signature::{self, AnnotatedItem, ToolFunction},
    unread,
};

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let written = args::toolset_args(attribute, &mut errors);
    let mut block = match ImplBlock::read.parse2(item.clone()) {
        Ok(block) => block,
        Err(err) => {
            not_a_block(&item, err, &mut errors);
            let item = unread::without_tools(item);
            return quote!(#item #errors);
        }
    };
    let krate = match expand::crate_path(written.krate.as_ref(), "toolset") {
        Ok(krate) => krate,
        Err(message) => {
            errors.push_at(Span::call_site(), message);
            quote!(::harness)
        }
    };
    let is_toolset = |attribute: &mut Attribute| {
        attribute.path().segments.last().is_some_and(|last| last.ident == "toolset")
    };
    for second in block.attributes.extract_if(.., is_toolset) {
        errors.push(second, "`#[toolset]` is given twice");
    }
    check::check_async_trait(&mut block.attributes, &mut errors);
    block.check(&mut errors);
    let method = written.method.clone();
    let method = method.unwrap_or_else(|| Ident::new("tools", Span::call_site()));
    let tools = block.take_tools(&method, &krate, &mut errors);
    let fits = errors.is_empty();
    let ImplBlock { attributes, generics, self_type, members, .. } = &block;
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let no_generics = signature::no_generics(generics);
    let trait_for = block.trait_for.as_ref().map(|(path, token)| quote!(#path #token));
    let impl_token = &block.impl_token;
    let unsafety = &block.unsafety;
    let original = quote! {
        #(#attributes)*
        #unsafety #impl_token #no_generics #impl_generics #trait_for #self_type #where_clause { #(#members)* }
    };
    if written.krate.is_none() && expand::crate_path(None, "toolset").is_err()
        || trait_for.is_some()
    {
        return quote!(#original #errors);
    }
    let self_tokens = self_type.to_token_stream();
    let list = tools.iter().filter(|_| fits).map(|(cfgs, deprecated, tool)| {
        let definition = expand::definition(tool, Some(&self_tokens), &krate);
        let tool = if *deprecated {
            let handle = quote::format_ident!("__Tool");
            let declared = deprecated::declared(&handle, &tool.ident, &definition, &krate);
            quote!(enum #handle {} #declared <#handle as #krate::__private::DeclaredTool>::TOOL)
        } else {
            quote! {
                const __TOOL: &'static #krate::__private::ToolDef = #definition;
                __TOOL
            }
        };
        quote!(#(#cfgs)* { #krate::__private::ToolDef::bind({ #tool }, &__this) })
    });
    let this = if fits {
        quote!(let __this = #krate::__private::share::<#self_type>(self);)
    } else {
        TokenStream::new()
    };
    let rest = if block.functions().any(|name| name == method) {
        TokenStream::new()
    } else {
        quote! {
            #krate::name_a_second_toolset_of_a_type_with_toolset_method_equals! {
                { impl #impl_generics #self_type #where_clause } #method self {
                    #this
                    <#krate::__private::Vec<_> as ::core::convert::From<_>>::from([#(#list),*])
                }
            }
        }
    };
    quote!(#original #errors #rest)
}

/// Reports an item that is not an `impl` block.
fn not_a_block(item: &TokenStream, err: syn::Error, errors: &mut Errors) {
    match signature::read(item) {
        AnnotatedItem::Function(function) => errors.push(
            function.signature.fn_token,
            "`#[toolset]` goes on an `impl` block, not on a function\nhelp: put `#[tool(...)]` on \
             the function",
        ),
        AnnotatedItem::Other("an `impl` block", _) | AnnotatedItem::Unread(_) => {
            // rustc has already reported a function that it cannot parse. But rustc can parse some
            // code from macros that syn cannot parse, so this error is reported here.
            if unread::is_from_macro(item) {
                errors.handle::<()>(Err(err));
            }
        }
        AnnotatedItem::Other(kind, span) => {
            errors.push_at(span, format!("`#[toolset]` goes on an `impl` block, not on {kind}"));
        }
    }
}

/// An `impl` block. The bodies of its methods are not parsed.
struct ImplBlock {
    attributes: Vec<Attribute>,
    unsafety: Option<Token![unsafe]>,
    impl_token: Token![impl],
    generics: Generics,
    trait_for: Option<(TokenStream, Token![for])>,
    self_type: Type,
    members: Vec<BlockMember>,
}

/// A member of the `impl` block.
enum BlockMember {
    Function(Box<ToolFunction>),
    /// A constant, a type or a macro call.
    Other(TokenStream),
    /// A function that syn cannot parse, and whether it has `#[tool]`.
    Unread(TokenStream, bool),
}

impl ToTokens for BlockMember {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Function(function) => function.to_tokens(tokens),
            Self::Other(other) | Self::Unread(other, _) => other.to_tokens(tokens),
        }
    }
}

impl ImplBlock {
    fn read(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let unsafety = input.parse()?;
        let impl_token = input.parse()?;
        let mut generics: Generics =
            if input.peek(Token![<]) { input.parse()? } else { Generics::default() };
        let first: Type = input.parse()?;
        let (trait_for, self_type) = match input.parse::<Option<Token![for]>>()? {
            Some(token) => (Some((first.to_token_stream(), token)), input.parse()?),
            None => (None, first),
        };
        generics.where_clause = input.parse()?;
        let content;
        syn::braced!(content in input);
        let mut members = Vec::new();
        while !content.is_empty() {
            members.push(read_member(&content)?);
        }
        Ok(Self { attributes, unsafety, impl_token, generics, trait_for, self_type, members })
    }

    /// Checks the block itself, without its methods.
    fn check(&self, errors: &mut Errors) {
        if let Some((path, _)) = &self.trait_for {
            errors.push(
                path,
                "`#[toolset]` goes on the `impl` block of a type, not of a trait\nhelp: write the \
                 tools as methods of the type, and let them call the trait's",
            );
        }
        let borrows = "a toolset cannot borrow: its tools live as long as the agent\nhelp: let the \
                       type own its data, or share it through an `Arc`";
        if let Some(lifetime) = self.undeclared_lifetime() {
            errors.push(lifetime, borrows);
        }
        for param in &self.generics.params {
            match param {
                GenericParam::Lifetime(param) => errors.push(&param.lifetime, borrows),
                GenericParam::Type(param) => errors.push(&param.ident, generic(&param.ident)),
                GenericParam::Const(param) => errors.push(&param.ident, generic(&param.ident)),
            }
        }
    }

    /// The first lifetime in the type that is neither declared by the block nor `'static`.
    fn undeclared_lifetime(&self) -> Option<TokenStream> {
        fn find(tokens: TokenStream, declared: &[String]) -> Option<TokenStream> {
            let mut tokens = tokens.into_iter();
            while let Some(token) = tokens.next() {
                match token {
                    TokenTree::Punct(tick) if tick.as_char() == '\'' => {
                        let name = tokens.next()?;
                        if !declared.contains(&name.to_string()) {
                            return Some(quote!(#tick #name));
                        }
                    }
                    TokenTree::Group(group) => {
                        if let Some(found) = find(group.stream(), declared) {
                            return Some(found);
                        }
                    }
                    TokenTree::Punct(_) | TokenTree::Ident(_) | TokenTree::Literal(_) => {}
                }
            }
            None
        }
        let declared = self.generics.lifetimes().map(|param| param.lifetime.ident.to_string());
        let declared: Vec<String> = declared.chain(["static".to_owned()]).collect();
        find(self.self_type.to_token_stream(), &declared)
    }

    /// The names of all functions in the block.
    fn functions(&self) -> impl Iterator<Item = Ident> {
        self.members.iter().filter_map(|member| match member {
            BlockMember::Function(function) => Some(function.signature.ident.clone()),
            BlockMember::Unread(tokens, _) => unread::name(tokens).map(|(name, _)| name),
            BlockMember::Other(_) => None,
        })
    }

    /// Removes `#[tool]` from the methods and checks these methods.
    fn take_tools(
        &mut self,
        method: &Ident,
        krate: &TokenStream,
        errors: &mut Errors,
    ) -> Vec<(Vec<Attribute>, bool, model::CheckedTool)> {
        let functions: Vec<Ident> = self.functions().collect();
        let mut tools = Vec::new();
        let mut names: Vec<(String, bool)> = Vec::new();
        let mut marked = false;
        for member in &mut self.members {
            let function = match member {
                BlockMember::Function(function) => function,
                BlockMember::Unread(tokens, is_tool) => {
                    marked |= *is_tool;
                    if let Some((comment, rest)) =
                        unread::comment_behind(tokens).filter(|_| *is_tool)
                    {
                        errors.push(comment, unread::COMMENT_BEHIND);
                        *tokens = rest;
                    }
                    continue;
                }
                BlockMember::Other(_) => continue,
            };
            let hidden = function.attributes.extract_if(.., |attribute| is_hidden_tool(attribute));
            for hidden in hidden.collect::<Vec<_>>() {
                marked = true;
                errors.push(
                    hidden,
                    "a toolset cannot see a `#[tool]` inside of `#[cfg_attr(...)]`\nhelp: write \
                     `#[tool(...)]`, and `#[cfg(...)]` beside it if the method is not always there",
                );
            }
            let index = function.attributes.iter().position(check::is_tool);
            let Some(index) = index else {
                if function.signature.ident == *method {
                    errors.push(
                        &function.signature.ident,
                        format!(
                            "`#[toolset]` adds a method `{method}` by itself\nhelp: rename this \
                             one, or that one with `#[toolset(method = more_tools)]`"
                        ),
                    );
                }
                continue;
            };
            marked = true;
            let attribute = function.attributes.remove(index);
            let tokens = match &attribute.meta {
                Meta::List(list) => list.tokens.clone(),
                Meta::Path(_) | Meta::NameValue(_) => TokenStream::new(),
            };
            let mut own = Errors::at(&attribute);
            let written = args::tool_args(tokens, &mut own);
            for (key, there) in
                [("crate", written.krate.is_some()), ("handle", written.handle.is_some())]
            {
                if there {
                    let help =
                        if key == "crate" { "\nhelp: write it in `#[toolset(...)]`" } else { "" };
                    own.push(&attribute, format!("`{key}` has no effect on a method{help}"));
                }
            }
            let name_span = written.name.as_ref().map(|name| name.0.to_token_stream());
            let cfgs: Vec<Attribute> =
                function.attributes.iter().filter(|a| a.path().is_ident("cfg")).cloned().collect();
            let deprecated = function.attributes.iter().any(|a| a.path().is_ident("deprecated"));
            let place = FunctionPlace::Toolset { functions: &functions };
            let tool = check::check(written, function, place, krate, &mut own);
            if function.signature.ident == *method {
                own.push(
                    &function.signature.ident,
                    format!(
                        "`#[toolset]` adds a method `{method}` by itself\nhelp: rename this one \
                         and keep the name with `#[tool(name = \"{method}\")]`"
                    ),
                );
            }
            if let Some(tool) = tool {
                let twin = names.iter().any(|(name, cfg)| *name == tool.name && !cfg);
                if twin && cfgs.is_empty() {
                    let at =
                        name_span.unwrap_or_else(|| function.signature.ident.to_token_stream());
                    own.push(
                        at,
                        format!(
                            "two tools of this set are both named `{}`\nhelp: give one of them \
                             `#[tool(name = \"...\")]`",
                            tool.name
                        ),
                    );
                }
                names.push((tool.name.clone(), !cfgs.is_empty()));
                tools.push((cfgs, deprecated, tool));
            }
            errors.append(own);
        }
        if !marked && self.trait_for.is_none() {
            let has_macro = self.members.iter().any(|member| match member {
                BlockMember::Other(tokens) => tokens.to_string().contains('!'),
                BlockMember::Function(_) | BlockMember::Unread(..) => false,
            });
            let hidden = if has_macro { "; what a macro writes here cannot be seen" } else { "" };
            errors.push(
                self.impl_token,
                format!(
                    "this toolset has no tool\nhelp: put `#[tool(side_effects = \"...\")]` on the \
                     methods that the model may call{hidden}"
                ),
            );
        }
        tools
    }
}

fn generic(ident: &Ident) -> String {
    format!(
        "a toolset cannot be generic: `{}` is not known here\nhelp: write the block for one type, \
         such as `impl Files<Disk>`",
        ident.unraw()
    )
}

/// Whether an attribute is `#[cfg_attr(.., tool(..))]`.
fn is_hidden_tool(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let inside = |input: ParseStream<'_>| {
        let all = syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated(input)?;
        // The first argument of `cfg_attr` is the condition.
        let path = |meta: &Meta| meta.path().segments.last().map(|last| last.ident.to_string());
        Ok(all.iter().skip(1).any(|meta| path(meta).is_some_and(|last| last == "tool")))
    };
    attribute.path().is_ident("cfg_attr") && inside.parse2(list.tokens.clone()).unwrap_or(false)
}

/// Reads one member: a function whose body is kept as tokens, or the tokens of any other member.
fn read_member(input: ParseStream<'_>) -> syn::Result<BlockMember> {
    let ahead = input.fork();
    if let Ok(mut function) = ToolFunction::read_head(&ahead) {
        use syn::parse::discouraged::Speculative as _;
        input.advance_to(&ahead);
        function.body = rest_of_member(input)?;
        return Ok(BlockMember::Function(Box::new(function)));
    }
    let tokens = rest_of_member(input)?;
    match signature::read(&tokens) {
        AnnotatedItem::Unread(_) if !unread::is_from_macro(&tokens) => {
            let is_tool = unread::has_tool(&tokens);
            let rest = unread::without(tokens, "tool");
            Ok(BlockMember::Unread(rest, is_tool))
        }
        _ => Ok(BlockMember::Other(tokens)),
    }
}

/// All tokens up to and including a `;` or a block.
fn rest_of_member(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !input.is_empty() {
        let token: TokenTree = input.parse()?;
        let ends = match &token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        tokens.extend([token]);
        if ends {
            break;
        }
    }
    Ok(tokens)
}
