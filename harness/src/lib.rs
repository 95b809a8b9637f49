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
//! | `toolbox` | the module `toolbox`: arithmetic, files inside one folder, shell commands, and pages of the web |
//! | `testing` | the module `testing`: a scripted provider, and a server that behaves like a vendor's |
//! | `sqlite` | `journal::SqliteJournal`: conversations in a file |
//! | `postgres` | `journal::PostgresJournal`: conversations in PostgreSQL |
//! | `collect` | `collected_tools`: all tools of a program without a list of them |
//! | `mcp` | the module `mcp`: tools of servers that speak the Model Context Protocol |
//! | `mcp-oauth` | `mcp::McpAuth`: OAuth authorization for such servers |
//! | `mcp-server` | `mcp::McpService`: serves the program's tools by the same protocol |
//! | `otel` | spans and metrics by OpenTelemetry's conventions |
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
//! · [`secret`]: secrets · `toolbox`: ready tools · `mcp`: MCP clients and servers · `testing`:
//! fakes
//!
//! # What it is not
//!
//! No prompt templates, no vector store, no chains: a model, its tools, and the loop between them.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]
#![cfg_attr(
    not(feature = "sockets"),
    allow(
        dead_code,
        unused_imports,
        reason = "wires, retries and errors keep what only the client reads"
    )
)]

#[cfg(all(
    target_family = "wasm",
    target_os = "unknown",
    any(
        feature = "sockets",
        feature = "toolbox",
        feature = "terminal",
        feature = "testing",
        feature = "sqlite",
        feature = "mcp-server",
    )
))]
compile_error!(
    "on this target there are no sockets, files, processes or threads: the features `sockets` (a default), `toolbox`, \
     `terminal`, `testing`, `sqlite`, `postgres`, `async-openai`, `mcp` and `mcp-server` of harness cannot be used; \
     write `default-features = false` and bring a `Provider` of your own"
);

extern crate self as harness;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

#[doc(hidden)]
pub mod __private;
pub mod agent;
#[cfg(feature = "sockets")]
pub mod client;
pub mod context;
pub mod error;
#[cfg(any(doc, doctest))]
pub mod guide;
#[cfg(feature = "sockets")]
mod http_client;
pub mod journal;
#[cfg(any(feature = "mcp", feature = "mcp-server"))]
pub mod mcp;
pub mod message;
pub mod models;
pub mod policy;
pub mod provider;
pub mod secret;
mod sse;
mod stop;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "sockets")]
mod tls;
pub mod tool;
#[cfg(feature = "toolbox")]
pub mod toolbox;
pub mod trace;
mod unwind;
#[cfg(all(unix, any(feature = "mcp", feature = "toolbox")))]
mod watchdog;
pub mod wire;

#[doc = include_str!("../guide/tool.md")]
pub use harness_macros::tool;
#[doc = include_str!("../guide/tools.md")]
pub use harness_macros::tools;
#[doc = include_str!("../guide/toolset.md")]
pub use harness_macros::toolset;

#[cfg(feature = "sockets")]
#[doc(inline)]
pub use crate::client::{
    AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, provider_from_env,
};
#[cfg(feature = "collect")]
#[doc(inline)]
pub use crate::tool::collected_tools;

#[doc(inline)]
pub use crate::{
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

/// The name is part of the message that rustc shows when `#[tool]` stands on a function of an
/// `impl` block without `#[toolset]`. The macro writes only one item, because each item that is not
/// allowed there would be one more error; the attribute adds the others. Its name is part of the message about an item that
/// has the name already.
#[doc(hidden)]
#[macro_export]
macro_rules! methods_need_toolset_on_the_impl_block {
    ($about:literal $visibility:vis $name:ident { $($items:tt)* }) => {
        #[$crate::__private::a_taken_name_needs_handle_equals {
            impl $name { $($items)* }
            impl ::core::fmt::Debug for $name {
                fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    ::core::fmt::Formatter::write_str(__f, ::core::stringify!($name))
                }
            }
            $crate::__collect! { $name }
        }]
        #[doc = $about]
        $visibility enum $name {}
    };
}

/// The name is part of the message that rustc shows when two `#[toolset]` blocks of one type add a
/// method with the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! name_a_second_toolset_of_a_type_with_toolset_method_equals {
    ({ $($head:tt)* } $method:ident $this:ident { $($body:tt)* }) => {
        $($head)* {
            /// The tools of this value, in the order of their methods.
            #[must_use]
            pub fn $method($this: &$crate::__private::Arc<Self>) -> $crate::__private::Vec<$crate::__private::Tool> {
                $($body)*
            }
        }
    };
}

/// Adds a tool to the collected tools of the program.
#[cfg(feature = "collect")]
#[doc(hidden)]
#[macro_export]
macro_rules! __collect {
    ($tool:ident) => {
        $crate::__private::inventory::submit! { $crate::__private::CollectedTool {
            def: $tool::TOOL,
            module: ::core::module_path!(),
        } }
    };
}

/// Does nothing: the feature `collect`, with which it would collect the tool, is off.
#[cfg(not(feature = "collect"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __collect {
    ($tool:ident) => {};
}
