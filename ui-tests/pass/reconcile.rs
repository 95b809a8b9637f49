//! Finding out what became of a call: functions that wait or block, that fail, with and without
//! parameters, lent ones and those of the host, methods.

include!("../support.rs");

use harness::{State, ToolContext, tool, tool::Reconciled, toolset};

#[derive(serde::Serialize)]
struct Receipt { cents: u64 }

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order { cents: u64 }

mod bank {
    use super::*;
    pub(super) async fn was_paid(
        to: &str,
        order: Order,
        note: Option<&str>,
        context: &ToolContext,
    ) -> Result<Reconciled<Receipt>, anyhow::Error> {
        tokio::task::yield_now().await;
        anyhow::ensure!(to != "nobody", "there is no such account");
        let known = !context.idempotency_key().is_empty() && note.is_none();
        Ok(if known { Reconciled::Happened(Receipt { cents: order.cents }) } else { Reconciled::NotHappened })
    }
}

/// Pays.
#[tool(side_effects = "network", reconcile = bank::was_paid, timeout = "5s")]
async fn pay(
    /** To whom */ to: &str,
    /** How much */ order: Order,
    /** Why */ note: Option<&str>,
    context: &ToolContext,
) -> Result<Receipt, anyhow::Error> {
    let _ = (to, note, context);
    Ok(Receipt { cents: order.cents })
}

/// Blocks.
#[tool(side_effects = "write", reconcile = wrote)]
fn write(/** Path */ path: String, notes: State<u8>) -> String { format!("{path}{}", *notes) }
fn wrote(path: String, notes: State<u8>) -> Reconciled {
    Reconciled::Happened(format!("{path}{}", *notes).into())
}

/// Nothing to take.
#[tool(side_effects = "mutate", reconcile = done)]
fn end() {}
fn done() -> Result<Reconciled<()>, String> { Ok(Reconciled::Happened(())) }

/// With any error that displays.
#[tool(side_effects = "mutate", reconcile = broken)]
fn odd() {}
fn broken() -> Result<Reconciled, std::io::Error> { Err(std::io::Error::other("broken")) }

struct Files { root: String }
#[toolset]
impl Files {
    /// Saves.
    #[tool(side_effects = "write", reconcile = Self::saved)]
    fn save(&self, /** Path */ path: String) -> String { path }
    async fn saved(&self, path: String) -> Reconciled<String> {
        tokio::task::yield_now().await;
        Reconciled::Happened(format!("{}/{path}", self.root))
    }
    /// Removes.
    #[tool(side_effects = "mutate", reconcile = removed)]
    async fn remove(&self) {}
    /// Without a `&self`.
    #[tool(side_effects = "mutate", reconcile = done)]
    fn stop() {}
}
fn removed(files: &Files) -> Reconciled<String> { Reconciled::Happened(files.root.clone()) }

/// Lists are lent, too, and what only the types can say.
#[tool(side_effects = "write", reconcile = tagged)]
fn tag(/** Tags */ tags: &[String], /** By name */ by: std::collections::HashMap<String, u8>) -> usize { tags.len() + by.len() }
fn tagged(tags: &[String], by: std::collections::HashMap<String, u8>) -> Reconciled<usize> {
    Reconciled::Happened(tags.len() + by.len())
}

#[tokio::main]
pub(crate) async fn main() {
    let functions = [pay::tool(), write::tool(), end::tool(), odd::tool(), tag::tool()];
    assert!(functions.iter().all(harness::Tool::can_reconcile));
    let files = std::sync::Arc::new(Files { root: "r".into() });
    assert!(files.tools().iter().all(harness::Tool::can_reconcile));
    let cx = ToolContext::new("call_1");
    said(&pay::tool(), &cx, r#"{"to":"ada","order":{"cents":7}}"#, r#"json {"cents":7}"#).await;
    schema(&pay::tool(), "/properties/to/type", r#""string""#);
}
