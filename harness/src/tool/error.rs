//! Why a tool could not do it: one text for the model, one cause for the host.

use std::fmt;

use serde_json::Value;

use super::cap::cut;
use super::expand::returned::CAUSES;
use crate::secret::Secrets;

/// So many faults of one call are told.
const LINES: usize = 50;

/// So many bytes of one fault are told: it quotes what the model wrote.
const LINE: usize = 1000;

/// Why a call of a tool failed. The model reads its text and can mend the call.
///
/// ```
/// use harness::ToolError;
///
/// let cause = std::io::Error::other("connection refused");
/// let err = ToolError::new("the orders are not available; try again later").because(cause);
/// assert_eq!(err.to_string(), "the orders are not available; try again later");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments do not fit: one line each, beginning with the argument's name in backticks.
    BadArguments(Vec<String>),
    /// The tool ran and failed.
    Failed(ToolFailure),
    /// The tool cannot go on before somebody has answered it: see [`ToolError::asks`].
    Asks(Box<Asks>),
}

/// What a tool asks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Asks {
    /// In words for a person.
    pub question: String,
    /// What the tool wants back with the answer.
    pub token: Value,
    /// The JSON Schema of the answer, if the tool has said it.
    pub form: Option<Value>,
}

impl ToolError {
    /// A failure with this text for the model.
    pub fn new(for_model: impl Into<String>) -> Self {
        Self::Failed(for_model.into().into())
    }

    /// A failure that may pass by itself, such as a connection that broke. The call is tried
    /// again if what its tool declares may be repeated.
    pub fn transient(for_model: impl Into<String>) -> Self {
        Self::Failed(ToolFailure { transient: true, ..for_model.into().into() })
    }

    /// Nobody knows whether it happened: a request was sent and no answer came. The model is told
    /// that the call may have partly run, and that it should look before it repeats it. The text
    /// says what is known. A call of a tool that only reads has failed, and nothing more.
    ///
    /// ```
    /// use harness::ToolError;
    ///
    /// let err = ToolError::in_doubt("the payment was sent to the bank, which did not answer");
    /// assert!(err.is_in_doubt());
    /// ```
    pub fn in_doubt(for_model: impl Into<String>) -> Self {
        Self::Failed(ToolFailure { in_doubt: true, ..for_model.into().into() })
    }

    /// The tool cannot go on before somebody outside of the run has answered this question: the call
    /// waits, and the run ends as [`Outcome::Waiting`](crate::Outcome::Waiting). When it is answered,
    /// perhaps days later and in another process, the tool is called again with the same arguments, and
    /// [`ToolContext::answered`](super::ToolContext::answered) gives it the answer and the token.
    ///
    /// Ask before anything is changed: the call begins from its start.
    ///
    /// ```
    /// use harness::{ToolContext, ToolError, tool};
    ///
    /// /// Books a table.
    /// #[tool(side_effects = "write")]
    /// async fn book(
    ///     /** When, such as `19:30` */ time: String,
    ///     context: ToolContext,
    /// ) -> Result<String, ToolError> {
    ///     let Some(answered) = context.answered() else {
    ///         return Err(ToolError::asks("Inside or outside?", time.into()));
    ///     };
    ///     // JSON, as it was given: a text here.
    ///     let place = answered.answer.as_str().unwrap_or("anywhere");
    ///     Ok(format!("Booked at {time}, {place}."))
    /// }
    /// # let _ = book::TOOL;
    /// ```
    pub fn asks(question: impl Into<String>, token: Value) -> Self {
        Self::Asks(Box::new(Asks { question: question.into(), token, form: None }))
    }

    /// Says what the answer to what the tool asks is to look like: a JSON Schema of an object whose properties
    /// are texts, numbers, truth values and choices. Whoever asks the person is told of it: an
    /// [`OpenCall`](crate::agent::OpenCall) has it, and so has a client of a service of the Model Context Protocol,
    /// which takes no answer that does not fit. An error that asks nothing stays as it is.
    ///
    /// ```
    /// use harness::ToolError;
    /// use serde_json::json;
    ///
    /// let seats = json!({
    ///     "type": "object",
    ///     "properties": {"inside": {"type": "boolean"}, "seats": {"type": "integer", "minimum": 1}},
    ///     "required": ["inside", "seats"],
    /// });
    /// let asks = ToolError::asks("For how many, and where?", json!(null)).with_form(seats);
    /// # assert!(matches!(asks, ToolError::Asks(asks) if asks.form.is_some()));
    /// ```
    #[must_use]
    pub fn with_form(mut self, schema: Value) -> Self {
        if let Self::Asks(asks) = &mut self {
            asks.form = Some(schema);
        }
        self
    }

    /// The same failure, which may pass by itself or is in doubt if an error below this one says so.
    pub(super) fn like(mut self, err: &(dyn std::error::Error + 'static)) -> Self {
        let mut below = Some(err);
        // An error may name itself as its source.
        for _ in 0..CAUSES {
            let Some(err) = below else { break };
            if let (Some(tool), Self::Failed(failure)) = (err.downcast_ref::<Self>(), &mut self) {
                failure.transient = tool.is_transient();
                failure.in_doubt = tool.is_in_doubt();
                break;
            }
            below = err.source();
        }
        self
    }

    /// Whether nobody knows how much of the call has happened.
    pub fn is_in_doubt(&self) -> bool {
        match self {
            Self::BadArguments(_) | Self::Asks(_) => false,
            Self::Failed(failure) => failure.in_doubt,
        }
    }

    /// Whether the failure may pass by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::BadArguments(_) | Self::Asks(_) => false,
            Self::Failed(failure) => failure.transient,
        }
    }

    /// What the model is told: without what is secret, and of many or long faults the first ones and
    /// their beginnings and ends.
    pub(super) fn told(&self, secrets: &Secrets) -> String {
        let lines = match self {
            Self::BadArguments(lines) => lines,
            Self::Failed(failure) => return failure.for_model.clone(),
            Self::Asks(_) => return self.to_string(),
        };
        let told = lines.iter().take(LINES).map(|line| {
            let line = secrets.hide(line);
            if line.len() > LINE { cut(&line, LINE, "") } else { line.into_owned() }
        });
        let mut told: Vec<String> = told.collect();
        if lines.len() > LINES {
            told.push(format!("and {} more", lines.len() - LINES));
        }
        Self::BadArguments(told).to_string()
    }

    /// Adds the cause, which the host sees and the model does not.
    #[must_use]
    pub fn because(self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        match self {
            Self::BadArguments(_) | Self::Asks(_) => self,
            Self::Failed(failure) => {
                Self::Failed(ToolFailure { cause: Some(cause.into()), ..failure })
            }
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadArguments(lines) => {
                write!(f, "the arguments do not fit:")?;
                lines.iter().try_for_each(|line| write!(f, "\n- {line}"))
            }
            Self::Failed(failure) => f.write_str(&failure.for_model),
            Self::Asks(asks) => {
                let question = &asks.question;
                write!(f, "it asks before it goes on, and there is nobody to answer: {question}")
            }
        }
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::BadArguments(_) | Self::Asks(_) => None,
            Self::Failed(failure) => failure.cause.as_deref().map(|cause| cause as _),
        }
    }
}

/// What went wrong inside a tool.
#[derive(Debug)]
pub struct ToolFailure {
    for_model: String,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    transient: bool,
    in_doubt: bool,
}

impl From<&str> for ToolFailure {
    fn from(for_model: &str) -> Self {
        for_model.to_owned().into()
    }
}

impl From<String> for ToolFailure {
    fn from(for_model: String) -> Self {
        Self { for_model, cause: None, transient: false, in_doubt: false }
    }
}
