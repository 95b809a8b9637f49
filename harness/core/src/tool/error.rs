//! Why a tool call failed: a text for the model, and a cause for the program.

use std::fmt;

use serde_json::Value;

use super::expand::returned::CAUSES;
use super::truncate::cut;
use crate::secret::Secrets;

/// The maximum number of faults of one call in the text for the model.
const LINES: usize = 50;

/// The maximum length of one fault in the text for the model, in bytes. A fault quotes text of the model.
const LINE: usize = 1000;

/// Why a tool call failed. The model reads the text and can correct its call.
///
/// ```
/// use harness::ToolError;
///
/// let cause = std::io::Error::other("connection refused");
/// let err = ToolError::new("the orders are not available; try again later").with_source(cause);
/// assert_eq!(err.to_string(), "the orders are not available; try again later");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments do not fit. Each string is one fault, and begins with the argument's name in backticks.
    BadArguments(Vec<String>),
    /// The tool ran and failed.
    Failed(ToolFailure),
    /// The tool needs an answer to its question before it can continue: see [`ToolError::asks`].
    Asks(Box<Asks>),
}

/// A question that a tool asks before it continues.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Asks {
    /// The question, as text for a person.
    pub question: String,
    /// A value that the tool gets back with the answer.
    pub token: Value,
    /// The JSON Schema of the answer, if the tool has set one.
    pub form: Option<Value>,
}

impl ToolError {
    /// Creates a failure with this text for the model.
    pub fn new(for_model: impl Into<String>) -> Self {
        Self::Failed(for_model.into().into())
    }

    /// Creates a transient failure, such as a broken connection. The call is retried, if the tool declares that its
    /// calls may be repeated.
    pub fn transient(for_model: impl Into<String>) -> Self {
        Self::Failed(ToolFailure { transient: true, ..for_model.into().into() })
    }

    /// Creates a failure for a call that may or may not have happened. An example is a request that was sent but not
    /// answered. State in the text what is known. The library adds that the call may have partly run, and that the
    /// model should check this before it repeats the call. If the tool only reads, the call counts as failed.
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

    /// Creates a question that has to be answered outside of the run before the tool can continue. The call waits, and
    /// the run ends as `Outcome::Waiting`. The answer may come days later, in another process. The tool is then called
    /// again with the same arguments, and gets the answer and the token from
    /// [`ToolContext::answered`](super::ToolContext::answered). A person who declines to answer in a front end answers
    /// `null`.
    ///
    /// Ask before the tool changes anything, because the call starts again from its beginning.
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
    ///     // JSON, as it was given: a text here, or `null`.
    ///     match answered.answer.as_str() {
    ///         Some(place) => Ok(format!("Booked at {time}, {place}.")),
    ///         None => Err(ToolError::new("The guest does not say where, so nothing is booked.")),
    ///     }
    /// }
    /// # let _ = book::TOOL;
    /// ```
    pub fn asks(question: impl Into<String>, token: Value) -> Self {
        Self::Asks(Box::new(Asks { question: question.into(), token, form: None }))
    }

    /// Sets the form of the answer to the tool's question: a JSON Schema of an object whose properties are strings,
    /// numbers, booleans and choices. `OpenCall` passes the form to the program, which asks the person. A service of
    /// the Model Context Protocol passes the form to its client, and rejects an answer that does not fit. An error
    /// without a question stays unchanged.
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

    /// Copies the marks *transient* and *in doubt* to this failure. The marks come from the first [`ToolError`] among
    /// `err` and its sources.
    pub(super) fn like(mut self, err: &(dyn std::error::Error + 'static)) -> Self {
        let mut below = Some(err);
        // The number of steps is limited, because an error may return itself as its source.
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

    /// Whether it is unknown how much of the call has happened.
    pub fn is_in_doubt(&self) -> bool {
        match self {
            Self::BadArguments(_) | Self::Asks(_) => false,
            Self::Failed(failure) => failure.in_doubt,
        }
    }

    /// Whether the failure is transient.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::BadArguments(_) | Self::Asks(_) => false,
            Self::Failed(failure) => failure.transient,
        }
    }

    /// The text for the model. For wrong arguments, only the first faults are listed, long faults are cut in the
    /// middle, and secrets are removed. Any other text is returned unchanged, because secrets are removed later, from
    /// the whole result.
    pub(super) fn text_for_model(&self, secrets: &Secrets) -> String {
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

    /// Adds the cause, which the program can read but the model does not see. Only [`Failed`](Self::Failed) has a
    /// cause; any other error stays unchanged.
    #[must_use]
    pub fn with_source(self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
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
                write!(
                    f,
                    "the tool asks a question before it goes on, and nobody can answer it: {question}"
                )
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

/// The failure of a tool that ran.
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
