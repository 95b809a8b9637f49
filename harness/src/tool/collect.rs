//! All tools of a program, wherever they are declared. Only with the feature `collect`.

use super::{Tool, ToolDef};

/// A tool that was declared somewhere in the program.
#[derive(Debug)]
pub struct Collected {
    /// What is declared.
    pub def: &'static ToolDef,
    /// The module in which it is declared.
    pub module: &'static str,
}

inventory::collect!(Collected);

/// Every function with `#[tool]` in the program, but not the ready tools of the library, sorted by name: the order in which the linker
/// found them would change from build to build, and with it every prompt. The ready tools are listed
/// by name: nobody gets a shell by collecting.
///
/// A crate of which the program names nothing is not linked, and neither are its tools: name it
/// with `use my_tools as _;`. Methods are not among them, for they need their value. Two tools of
/// one name are reported when a [`ToolRegistry`](super::ToolRegistry) is built of the list.
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
        inventory::iter::<Collected>().filter(foreign).map(|found| found.def.tool()).collect();
    tools.sort_by(|one, other| one.name().cmp(other.name()));
    tools
}

/// Whether a tool is not one of the library's own.
fn foreign(found: &&Collected) -> bool {
    !found.module.starts_with(concat!(env!("CARGO_CRATE_NAME"), "::"))
}
