//! A package that denies everything: no lint reports what the macros write.
#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused,
    unused_qualifications,
    elided_lifetimes_in_paths,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unused_lifetimes,
    let_underscore_drop,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]
#![forbid(unsafe_code, deprecated)]

use std::{collections::HashMap, sync::Arc};

use harness::{State, Tool, ToolContext, ToolError, tool, tools, toolset};

/// Lists the names.
#[tool(side_effects = "read", idempotent, timeout = "30s")]
#[must_use]
pub fn list(
    /// How many of `Files`, `FilesAndFolders` or `snake_case`
    #[param(default = 10, range(1..=100))]
    limit: u32,
    /// What they begin with, such as
    ///
    /// ```
    /// this is no Rust
    /// ```
    ///
    ///     and neither is this
    prefix: Option<&str>,
    /// Share
    #[param(range(0.0..=1.0))]
    share: Option<f64>,
) -> Vec<String> {
    let _ = share;
    vec![format!("{}{limit}", prefix.unwrap_or_default())]
}

/// Counts.
///
/// # Errors
/// Fails if there is nothing to count.
#[tool(side_effects = ["read", "network"])]
pub async fn count(
    cx: &ToolContext,
    store: State<Store>,
    /// What
    what: String,
) -> Result<usize, ToolError> {
    wait(cx).await;
    Ok(store.names.len() + what.len())
}

async fn wait(_cx: &ToolContext) {
    std::future::ready(()).await;
}

/// Old.
#[deprecated(note = "use another")]
#[tool(side_effects = "none")]
pub const fn old() {}

/// What is stored.
#[derive(Debug)]
pub struct Store {
    names: Vec<String>,
}

#[toolset]
impl Store {
    /// The first of them.
    #[tool(side_effects = "read")]
    fn first(
        &self,
        /// Used if there is none
        #[param(default = "none")]
        otherwise: &str,
    ) -> String {
        self.names.first().map_or(otherwise, String::as_str).to_owned()
    }

    /// The last of them.
    #[tool(side_effects = "read")]
    async fn last(&self) -> Option<String> {
        std::future::ready(()).await;
        self.names.last().cloned()
    }
}

#[toolset(method = old_tools)]
impl Store {
    /// Is old.
    #[deprecated]
    #[tool(side_effects = "read")]
    async fn length(
        &self,
        /// Names of which nobody asks
        except: HashMap<Name, u8>,
    ) -> usize {
        std::future::ready(()).await;
        self.names.len() - except.len()
    }
}

/// A name.
#[derive(Debug, PartialEq, Eq, Hash, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Name {
    /// The first.
    First,
}

/// The least.
const LEAST: u8 = 1;

type Title = String;

/// Picks a name.
#[tool(side_effects = "none")]
#[must_use]
pub fn pick(
    /// Which
    #[param(default = Name::First)]
    name: &Name,
    /// How often
    #[param(default = LEAST, range(LEAST..=9))]
    times: u8,
    /// Title
    #[param(default = "t")]
    title: &Title,
) -> String {
    format!("{title}{name:?}{times}")
}

/// All of them.
#[must_use]
pub fn all(store: &Arc<Store>) -> Vec<Tool> {
    tools![list, count, pick].into_iter().chain(store.tools()).chain(store.old_tools()).collect()
}

#[cfg(test)]
#[test]
fn all_are_listed() {
    let store = Arc::new(Store { names: Vec::new() });
    assert_eq!(all(&store).len(), 6, "three functions and three methods");
}
