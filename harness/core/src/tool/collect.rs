//! Collects all tools of a program, wherever they are declared. Requires the feature `collect`.

use super::{Tool, ToolDef};

/// A tool declaration found in the program.
#[derive(Debug)]
pub struct CollectedTool {
    /// The declaration of the tool.
    pub def: &'static ToolDef,
    /// The module of the declaration.
    pub module: &'static str,
}

inventory::collect!(CollectedTool);

/// Returns all functions with `#[tool]` in the program, except the tools of this library itself. So collecting tools
/// never gives a model a shell: to use a tool of the library, name it in the list of tools. The functions are sorted by
/// name, because the linker's order may differ between builds, and every prompt would then differ. Requires the feature
/// `collect`.
///
/// The tools of a crate are missing if the program uses nothing of this crate, because the crate is then not linked. In
/// that case, add `use my_tools as _;`. Methods are not collected, because each method needs a value. If two tools have
/// the same name, building a [`ToolRegistry`](super::ToolRegistry) from the list fails.
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

/// Whether a tool is declared outside of this library. The library's own tools are in the core package and in the
/// toolbox package. A program gets a tool of the library only by naming the tool.
fn foreign(found: &&CollectedTool) -> bool {
    let own = env!("CARGO_CRATE_NAME");
    let toolbox = own.strip_suffix("core").map(|front| format!("{front}toolbox"));
    let declared_in = found.module.split("::").next();
    declared_in != Some(own) && declared_in != toolbox.as_deref()
}
