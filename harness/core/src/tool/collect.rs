//! Collects all tools of a program, wherever they are declared. Only with the feature `collect`.

use super::{Tool, ToolDef};

/// A tool that was declared somewhere in the program.
#[derive(Debug)]
pub struct CollectedTool {
    /// The declaration of the tool.
    pub def: &'static ToolDef,
    /// The module in which it is declared.
    pub module: &'static str,
}

inventory::collect!(CollectedTool);

/// Returns every function with `#[tool]` in the program, sorted by name, without the ready tools of the library.
/// The list is sorted because the linker's order would change from build to build, and with it every prompt. List
/// the ready tools by name: collecting never gives a model a shell. Feature `collect`.
///
/// A crate is linked only if the program names something of it; otherwise its tools are missing. Name it with `use
/// my_tools as _;`. Methods are not collected, since they need the value that they belong to. Two tools with the
/// same name are reported when a [`ToolRegistry`](super::ToolRegistry) is built from the list.
///
/// ```standalone_crate
/// use harness::{ToolRegistry, collected_tools, tool};
///
/// /// Tells the time.
/// #[tool(side_effects = "read")]
/// fn now() -> u64 {
///     0
/// }
///
/// let tools = collected_tools();
/// assert!(tools.iter().any(|tool| tool.name() == "now"));
/// assert!(tools.is_sorted_by_key(|tool| tool.name().to_owned()));
/// # ToolRegistry::new(tools)?;
/// # Ok::<(), harness::Error>(())
/// ```
pub fn collected_tools() -> Vec<Tool> {
    let mut tools: Vec<Tool> =
        inventory::iter::<CollectedTool>().filter(foreign).map(|found| found.def.tool()).collect();
    tools.sort_by(|one, other| one.name().cmp(other.name()));
    tools
}

/// Whether a tool is declared outside of this library.
fn foreign(found: &&CollectedTool) -> bool {
    !found.module.starts_with(concat!(env!("CARGO_CRATE_NAME"), "::"))
}
