//! The building blocks of an agent: messages, tools, the provider trait, the facts of a conversation, the journal
//! trait, and the rules for calls. A crate that implements a provider, a journal or a set of tools needs only this
//! crate.
//!
//! [`message`]: messages and transcripts · [`mod@tool`]: tools · [`provider`]: the provider trait · [`models`]: known
//! models · [`policy`]: retries, limits and permissions · [`journal`]: facts, and the journal trait · [`context`]: how
//! much of a conversation is sent · [`trace`]: traces · [`error`]: errors · [`secret`]: secrets
//!
//! Items that are hidden from these docs are for the crate `harness-agent` alone and may change in any version.
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

/// If a program puts `#[tool]` on a function of an `impl` block without `#[toolset]`, rustc shows this macro's name in
/// the error message. If another item already has the tool's name, rustc shows the name of the attribute below.
/// `#[tool]` expands to this macro call alone, because rustc would report each further item inside an `impl` block as
/// an error. The attribute below adds the other items.
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

/// rustc shows this macro's name in the error message when two `#[toolset]` blocks of one type add a method with the
/// same name.
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

/// Registers a tool in the list that the feature `collect` gathers over the whole program.
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

/// Expands to nothing, because the feature `collect` is off.
#[cfg(not(feature = "collect"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __collect {
    ($tool:ident) => {};
}
