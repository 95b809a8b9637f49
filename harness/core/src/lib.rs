//! What an agent is made of: messages, tools, the trait of a model's provider, the facts of a conversation and the trait of
//! its journal, and the rules for calls. Who writes a provider, a journal or a kit of tools needs this package alone.
//!
//! [`message`]: messages and transcripts · [`mod@tool`]: tools · [`provider`]: the trait of a model's provider ·
//! [`models`]: known models · [`policy`]: retries, limits and permissions · [`journal`]: facts, and the trait of what keeps
//! them · [`context`]: how much of a conversation is sent · [`trace`]: traces · [`error`]: errors · [`secret`]: secrets
//!
//! What is hidden in these docs is for the loop alone (`harness-agent`), and can change in each version.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

extern crate self as harness_core;

#[doc(hidden)]
pub mod __private;
pub mod context;
pub mod error;
#[cfg(feature = "http")]
pub mod http_client;
pub mod journal;
pub mod message;
pub mod models;
pub mod policy;
pub mod provider;
pub mod secret;
pub mod sse;
pub mod stop;
#[cfg(feature = "tls")]
pub mod tls;
pub mod tool;
pub mod trace;
pub mod unwind;
#[cfg(all(unix, feature = "watchdog"))]
pub mod watchdog;

pub use harness_macros::{tool, tools, toolset};

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
