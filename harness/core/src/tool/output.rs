//! The output of a tool.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::{ToolError, expand::output_faults::faithful_json};
use crate::message::ToolContent;

/// The output of a tool: any number of parts for the model, and optionally a value for the program.
///
/// A tool that returns a `Serialize` type needs no `ToolOutput`: the model reads the JSON, and the program gets the
/// value with [`Results::of`](crate::message::Results::of). Add a separate value if the model should read something
/// else, or less, than the program:
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
    /// A file whose text is the content, in place of `content`.
    file: Option<PathBuf>,
}

impl ToolOutput {
    /// An output without content. The model reads only that the tool has finished.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Returns the text of a file as the output, such as the output of a command. The library reads the file in pieces
    /// after the tool has ended, so a large file is never wholly in memory. The model reads the beginning and the end
    /// of a large file. If large results are kept (`AgentBuilder::spills`), the library also copies the file, and the
    /// model can read the rest with the tool `read_result`. Known secrets are removed, as from every result. If the
    /// file ends with the beginning of a secret, this beginning is removed too, because the file's writer may have been
    /// stopped. Bytes that are not UTF-8 become U+FFFD. The program may delete the file once the call has its result.
    /// If the path cannot be read or is no file, the call fails, and the result contains the reason.
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

    /// Adds a value for the program, which no model reads. The value is stored with the result, so it is still
    /// available after the conversation is opened again. Known secrets are removed from the value. A value that is
    /// larger than [`ToolLimits::value`](super::ToolLimits::value) is omitted.
    ///
    /// # Errors
    /// Fails if the value cannot be written as JSON, or if it contains a number that JSON does not have, such as NaN.
    pub fn with_value(mut self, value: &(impl Serialize + ?Sized)) -> Result<Self, ToolError> {
        let value = faithful_json(&value).map_err(|fault| {
            let words =
                "the tool ran to its end, but its value for the program cannot be written as JSON";
            ToolError::new(format!("{words}: {fault}"))
        })?;
        self.value = Some(value);
        Ok(self)
    }

    /// The parts for the model, in order.
    pub fn content(&self) -> &[ToolContent] {
        &self.content
    }

    /// The value for the program, if the tool has added one.
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// The file whose text is the content; `None` if the content is in parts.
    #[doc(hidden)]
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The parts for the model, the value for the program, and the file whose text is the content.
    pub fn into_parts(self) -> (Vec<ToolContent>, Option<Value>, Option<PathBuf>) {
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
