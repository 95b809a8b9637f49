//! What a tool hands over when it has done its work.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::{ToolError, expand::search::faithful_json};
use crate::message::ToolContent;

/// What a tool hands over: for the model no, one or several parts, and perhaps a value for the program.
///
/// A type that is `Serialize` needs none of this: the model reads its JSON, and
/// [`Results::of`](crate::message::Results::of) gives it to the program as a type. A value of its own is for
/// a tool that tells the model something else, or less:
///
/// ```
/// use harness::{Agent, ToolError, ToolOutput, testing::{ScriptedProvider, reply}, tool, tools};
///
/// /// Looks for orders.
/// #[tool(side_effects = "read")]
/// fn orders(/** What to look for */ query: &str) -> Result<ToolOutput, ToolError> {
///     let found: Vec<u32> = (1..=500).filter(|id| id.to_string().contains(query)).collect();
///     ToolOutput::from(format!("{} orders were found and are shown.", found.len())).with_value(&found)
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([
///     reply().call("orders", serde_json::json!({"query": "49"})),
///     reply().text("There they are."),
/// ]);
/// let reply = Agent::builder(model).tools(tools![orders]).build()?.run("Those with 49?").await?;
/// let found: Vec<Vec<u32>> = reply.results().of("orders")?;
/// assert_eq!(found[0].len(), 15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    content: Vec<ToolContent>,
    value: Option<Value>,
    /// In place of content.
    file: Option<PathBuf>,
}

impl ToolOutput {
    /// Nothing but the fact that it is done.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The text of a file, such as what a command has put out. It is read in pieces when the tool has ended, so a large
    /// one is never whole in memory: where large results are kept
    /// ([`AgentBuilder::spills`](crate::agent::AgentBuilder::spills)), it is copied there, and the model reads its
    /// beginning and its end and asks for more by the tool `read_result`; elsewhere the rest is cut. What is known to be secret is
    /// taken out as from any result; bytes that are not UTF-8 become U+FFFD. The file may be deleted after the call
    /// has its result. One that cannot be read, or is no file, makes the result one that failed and says why.
    ///
    /// ```
    /// use harness::{ToolError, ToolOutput, tool};
    ///
    /// /// Shows the log of a day.
    /// #[tool(side_effects = "read")]
    /// fn log(/** The day */ day: u32) -> Result<ToolOutput, ToolError> {
    ///     Ok(ToolOutput::file(format!("/var/log/app/{day}.log")))
    /// }
    /// ```
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { file: Some(path.into()), ..Self::default() }
    }

    /// Adds a value for the program, which no model reads. It is kept with the result, so it is there when
    /// the conversation is opened again. What is known to be secret is taken out of it as out of the content,
    /// and one that is larger than [`ToolLimits::value`](super::ToolLimits::value) is left out.
    ///
    /// # Errors
    /// Fails if the value cannot be put as JSON, also since it holds a number that JSON does not have, such as
    /// NaN.
    pub fn with_value(mut self, value: &(impl Serialize + ?Sized)) -> Result<Self, ToolError> {
        let value = faithful_json(&value).map_err(|fault| {
            let words =
                "the tool ran to its end, but its value for the program cannot be put as JSON";
            ToolError::new(format!("{words}: {fault}"))
        })?;
        self.value = Some(value);
        Ok(self)
    }

    /// The parts for the model, in order.
    pub fn content(&self) -> &[ToolContent] {
        &self.content
    }

    /// The value for the program.
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// The parts for the model, in order, the value for the program, and the file in place of parts.
    pub(crate) fn into_parts(self) -> (Vec<ToolContent>, Option<Value>, Option<PathBuf>) {
        (self.content, self.value, self.file)
    }
}

impl<C: Into<ToolContent>> From<C> for ToolOutput {
    fn from(content: C) -> Self {
        Self { content: vec![content.into()], ..Self::default() }
    }
}

impl From<Vec<ToolContent>> for ToolOutput {
    fn from(content: Vec<ToolContent>) -> Self {
        Self { content, ..Self::default() }
    }
}
