//! The results of a conversation, selected by the names of their tools.

use serde::de::DeserializeOwned;

use super::{Message, Messages, ToolCall, ToolResult};
use crate::error::{Error, ErrorKind};

/// The results of a run or of a conversation, each with its call: see
/// `Reply::results` and [`Transcript::results`](super::Transcript::results).
///
/// ```
/// use harness::{Agent, testing::{ScriptedProvider, reply}, tool, tools};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Weather {
///     celsius: f64,
/// }
///
/// /// The weather in a city.
/// #[tool(side_effects = ["read", "network"])]
/// fn weather(/** The city */ city: &str) -> Weather {
///     Weather { celsius: if city == "Oslo" { -3.0 } else { 12.5 } }
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([
///     reply().call("weather", serde_json::json!({"city": "Oslo"})),
///     reply().text("Cold."),
/// ]);
/// let reply = Agent::builder(model).tools(tools![weather]).build()?.run("Oslo?").await?;
/// assert_eq!(reply.results().of::<Weather>("weather")?, [Weather { celsius: -3.0 }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Results {
    messages: Messages,
}

impl Results {
    /// The results in these messages.
    #[doc(hidden)]
    pub fn of_messages(messages: Messages) -> Self {
        Self { messages }
    }

    /// Each call with its result, in the order of the calls.
    pub fn iter(&self) -> impl Iterator<Item = (&ToolCall, &ToolResult)> {
        let answered = self.messages.iter().zip(self.messages.iter().skip(1));
        answered.flat_map(|(asked, answer)| Message::calls(asked).zip(Message::results(answer)))
    }

    /// The values of all successful calls of this tool, converted to a type of the program, in the
    /// order of the calls: see [`ToolResult::to`].
    ///
    /// # Errors
    /// [`ErrorKind::Transcript`] for the first result that has no value or whose value does not fit
    /// the type. The error names the call.
    pub fn of<T: DeserializeOwned>(&self, tool: &str) -> Result<Vec<T>, Error> {
        let of_tool =
            self.iter().filter(|(call, result)| call.name() == tool && !result.is_error());
        of_tool
            .map(|(_, result)| {
                result.to().map_err(|err| {
                    Error::new(ErrorKind::Transcript, format!("tool `{tool}`: {}", err.message()))
                        .with_source(err)
                })
            })
            .collect()
    }
}
