//! An agent framework: plain functions become tools that a language model calls, and an agent runs
//! the conversation. An answer streams, a run can be stopped at any time, and no side effect is
//! ever repeated without your consent.
//!
//! The library is not on crates.io; `REPOSITORY` is a copy of its repository.
//!
//! ```sh
//! cargo add harness --path REPOSITORY/harness --features testing
//! cargo add serde_json
//! cargo add tokio --features macros,rt-multi-thread
//! ```
//!
//! ```
//! use harness::{Agent, testing::{ScriptedProvider, reply}, tool, tools};
//! use serde_json::json;
//!
//! /// Works out a product.
//! #[tool(side_effects = "none")]
//! fn multiply(/** First number */ a: i64, /** Second number */ b: i64) -> i64 {
//!     a * b
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A script in place of a model; in a program: `AnthropicProvider::from_env()?`.
//!     let provider = ScriptedProvider::new([
//!         reply().call("multiply", json!({"a": 17, "b": 23})),
//!         reply().text("It is 391."),
//!     ]);
//!     let agent = Agent::builder(provider).system("Be concise.").tools(tools![multiply]).build()?;
//!     let mut chat = agent.chat();
//!     let answer = chat.send("What is 17 * 23?").await?;
//!     assert_eq!(answer.text(), "It is 391.");
//!     Ok(())
//! }
//! ```
//!
//! The module [`guide`] has a page for each task of a program. The types below are the ones that
//! most programs name; each module has the rest.
//!
//! # Cargo features
//!
//! `sockets` is on unless you write `default-features = false`; the other features are off unless
//! you name them.
//!
//! | feature | brings |
//! |---|---|
//! | `sockets` (a default) | the module `client`: providers for Anthropic, OpenAI and compatible servers, over HTTP |
//! | `terminal` | `policy::TerminalApprover` and `policy::TerminalForm` (Unix only), and `policy::visible` |
//! | `toolbox` | the module `toolbox`: arithmetic, files inside one folder, and shell commands |
//! | `calc` | of these, arithmetic alone, which builds quickly |
//! | `testing` | the module `testing`: a scripted provider, and a server that behaves like a vendor's |
//! | `sqlite` | `journal::SqliteJournal`: conversations in a file |
//! | `postgres` | `journal::PostgresJournal`: conversations in PostgreSQL |
//! | `collect` | `collected_tools`: all tools of a program without a list of them |
//! | `mcp` | the module `mcp`: tools of servers that speak the Model Context Protocol |
//! | `mcp-oauth` | `mcp::McpAuth`: OAuth authorization for such servers |
//! | `mcp-server` | `mcp::McpService`: serves the program's tools by the same protocol |
//! | `web` | the module `web`: streams of runs for the front ends of the AI SDK (`useChat`) and of AG-UI |
//! | `otel` | the module `otel`: spans and metrics of all runs by OpenTelemetry's conventions |
//! | `async-openai` | a typed request of the crate `async-openai` as the template of each request |
//!
//! Without `sockets` the library has no C code and no HTTP client. The loop, the wires and the
//! journal trait are there, and you write the [`Provider`] yourself. This core is checked for
//! Windows, for Apple's systems and for `wasm32-unknown-unknown`. On `wasm32-unknown-unknown` only
//! this core compiles: the features that need an operating system are compile errors. The standard
//! library has no clock there and panics when it is asked for the time, so [`agent::Machine`], the
//! transcript, the schemas and the wires can be used, but a run (`Chat::send`) cannot. Message ids
//! repeat each time the module is loaded unless the program turns on the feature `js` of
//! `fastrand`. With `sockets` the build needs a C compiler for its target, for `ring`.
//!
//! # The steps of one turn
//!
//! ```text
//! chat.send(text) -> UserSaid -> machine: CallProvider
//!   -> wire.encode -> socket -> bytes -> server-sent events -> wire.decode
//!   -> StreamEvent -> your `on_event`, and the accumulator
//!   -> ModelReplied -> machine: Decide, RunCalls
//!   -> CallStarted -> dispatch -> CallFinished -> machine: CallProvider .. Finish
//! ```
//!
//! # Modules, in reading order
//!
//! [`message`]: messages and transcripts · [`mod@tool`]: tools · [`provider`]: the trait of a
//! model's provider · [`models`]: known models · [`policy`]: retries, limits and permissions ·
//! [`journal`]: durable conversations · [`trace`]: traces · [`agent`]: the loop · [`error`]: errors
//! · [`secret`]: secrets · `toolbox`: ready tools · `mcp`: MCP clients and servers · `web`:
//! streams for browsers · `testing`: fakes
//!
//! # What it is not
//!
//! No prompt templates, no vector store, no chains: a model, its tools, and the loop between them.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(
    target_family = "wasm",
    target_os = "unknown",
    any(
        feature = "sockets",
        feature = "calc",
        feature = "terminal",
        feature = "testing",
        feature = "sqlite",
        feature = "mcp-server",
    )
))]
compile_error!(
    "on this target there are no sockets, files, processes or threads: the features `sockets` (a default), `calc`, `toolbox`, \
     `terminal`, `testing`, `sqlite`, `postgres`, `async-openai`, `mcp` and `mcp-server` of harness cannot be used; \
     write `default-features = false` and bring a `Provider` of your own"
);

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

#[cfg(any(doc, doctest))]
pub mod guide;

#[doc(hidden)]
pub use harness_core::{
    __collect, __private, methods_need_toolset_on_the_impl_block,
    name_a_second_toolset_of_a_type_with_toolset_method_equals,
};

#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/users.md")]
#[doc = include_str!("../guide/answers.md")]
#[doc = include_str!("../guide/agents.md")]
#[doc = include_str!("../guide/web.md")]
#[doc = include_str!("../guide/large-results.md")]
#[doc(inline)]
pub use harness_agent as agent;
#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/context.md")]
#[doc(inline)]
pub use harness_core::context;
#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/content.md")]
#[doc(inline)]
pub use harness_core::message;
#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/prompt-cache.md")]
#[doc(inline)]
pub use harness_core::provider;
#[doc(inline)]
pub use harness_core::{error, models, secret, trace};
#[cfg(any(feature = "mcp", feature = "mcp-server"))]
#[cfg_attr(
    all(feature = "mcp", feature = "mcp-server"),
    doc = include_str!("../guide/links.txt"),
    doc = include_str!("../guide/mcp.md")
)]
#[doc(inline)]
pub use harness_mcp as mcp;
#[cfg(feature = "otel")]
#[doc(inline)]
pub use harness_otel as otel;
#[cfg(feature = "sockets")]
#[doc(inline)]
pub use harness_providers::client;
#[doc(inline)]
pub use harness_providers::wire;
#[cfg(feature = "calc")]
#[doc(inline)]
pub use harness_toolbox as toolbox;
#[cfg(feature = "web")]
#[doc(inline)]
pub use harness_web as web;

/// Durable conversations. A journal stores each conversation as the list of its facts, in the order in which they
/// happened.
///
#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/durable.md")]
pub mod journal {
    #[doc(inline)]
    pub use harness_core::journal::*;
    #[cfg(feature = "postgres")]
    #[doc(inline)]
    pub use harness_postgres::*;
    #[cfg(feature = "sqlite")]
    #[doc(inline)]
    pub use harness_sqlite::*;
}

/// Policies for retries, approvals and limits. A policy only decides. The provider wrappers in this module carry out
/// the decisions.
///
#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/failing-network.md")]
#[doc = include_str!("../guide/guardrails.md")]
pub mod policy {
    #[doc(inline)]
    pub use harness_core::policy::*;
    #[cfg(feature = "terminal")]
    #[doc(inline)]
    pub use harness_terminal::*;
}

/// Test doubles: a provider that follows a script, and a local server that imitates a vendor's server and the failures
/// of a network. Feature `testing`.
#[cfg(feature = "testing")]
pub mod testing {
    #[doc(inline)]
    pub use harness_conformance::*;
    #[doc(inline)]
    pub use harness_testing::*;
}

/// Tools that a model may call, their declarations, and the execution of calls.
pub mod tool {
    #[doc(inline)]
    pub use harness_core::tool::*;
    /// A schema in the form that a vendor enforces.
    ///
    #[doc = include_str!("../guide/links.txt")]
    #[doc = include_str!("../guide/strict.md")]
    #[doc(inline)]
    pub use harness_schema::StrictForm;
    /// The schema of a tool, against which its calls are checked.
    ///
    #[doc = include_str!("../guide/links.txt")]
    #[doc = include_str!("../guide/schema.md")]
    #[doc(inline)]
    pub use harness_schema::ToolSchema;
}

/// Turns a function into a tool.
///
#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/tool.md")]
pub use harness_macros::tool;
/// Makes a list of tools.
///
#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/tools.md")]
pub use harness_macros::tools;
/// Turns the methods of a value into tools.
///
#[doc = include_str!("../guide/links.txt")]
#[doc = include_str!("../guide/toolset.md")]
pub use harness_macros::toolset;

#[cfg(feature = "collect")]
#[doc(inline)]
pub use harness_core::tool::collected_tools;
#[cfg(feature = "sockets")]
#[doc(inline)]
pub use harness_providers::client::{
    AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, provider_from_env,
};

#[doc(inline)]
pub use self::{
    agent::{Agent, Chat, Event, Outcome, Reply, Stopped},
    error::{Error, ErrorKind},
    message::{
        Block, CallOutcome, Link, Media, Message, ReasoningBlock, Role, TextBlock, ToolCall,
        ToolContent, ToolResult, Transcript,
    },
    policy::{FallbackProvider, Guardrails, Limits, Permissions, RetryPolicy, RetryProvider},
    provider::{Provider, StopReason, StreamEvent, Usage},
    tool::{
        CancellationToken, Progress, SideEffect, SideEffects, State, Tool, ToolContext, ToolDef,
        ToolError, ToolLimits, ToolOutput, ToolRegistry,
    },
};
