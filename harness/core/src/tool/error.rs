//! Why a call of a tool failed: a text for the model, and a cause for the host.

use std::fmt;

use serde_json::Value;

use super::expand::returned::CAUSES;
use super::truncate::cut;
use crate::secret::Secrets;

/// The highest number of faults of one call that the model is told.
const LINES: usize = 50;

/// The highest number of bytes of one fault that the model is told, since a fault quotes what the model wrote.
const LINE: usize = 1000;

/// Why a call of a tool failed. The model reads the text and can correct the call.
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
    /// The arguments do not fit: one line each, beginning with the argument's name in backticks.
    BadArguments(Vec<String>),
    /// The tool ran and failed.
    Failed(ToolFailure),
    /// The tool cannot go on before its question is answered: see [`ToolError::asks`].
    Asks(Box<Asks>),
}

/// A question that a tool asks before it goes on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Asks {
    /// The question, in words for a person.
    pub question: String,
    /// The value that the tool wants back with the answer.
    pub token: Value,
    /// The JSON Schema of the answer, if the tool has set one.
    pub form: Option<Value>,
}

impl ToolError {
    /// Creates a failure with this text for the model.
    pub fn new(for_model: impl Into<String>) -> Self {
        Self::Failed(for_model.into().into())
    }

    /// Creates a failure that may pass by itself, such as a broken connection. The call is retried if the tool's
    /// declaration allows it to be repeated.
    pub fn transient(for_model: impl Into<String>) -> Self {
        Self::Failed(ToolFailure { transient: true, ..for_model.into().into() })
    }

    /// Creates a failure for a call of which it is unknown whether it happened, such as a request that was sent and
    /// got no answer. The text should say what is known. The model is also told that the call may have partly run
    /// and that it should check before it repeats the call. For a tool that only reads, the call has simply failed.
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

    /// Creates a question that somebody outside of the run has to answer before the tool can go on. The call waits,
    /// and the run ends as `Outcome::Waiting`. When the question is answered, perhaps
    /// days later and in another process, the tool is called again with the same arguments, and
    /// [`ToolContext::answered`](super::ToolContext::answered) gives it the answer and the token.
    ///
    /// Ask before you change anything, since the call starts again from its beginning.
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

    /// Sets the form of the answer to the tool's question: a JSON Schema of an object whose properties are strings,
    /// numbers, booleans and choices. `OpenCall` passes it to the program that asks the
    /// person. A service of the Model Context Protocol passes it to its client and takes no answer that does not
    /// fit. An error that asks nothing stays as it is.
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

    /// The same failure, marked as transient or in doubt if an error in the chain of sources is.
    pub(super) fn like(mut self, err: &(dyn std::error::Error + 'static)) -> Self {
        let mut below = Some(err);
        // An error may return itself as its source.
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

    /// Whether the failure may pass by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::BadArguments(_) | Self::Asks(_) => false,
            Self::Failed(failure) => failure.transient,
        }
    }

    /// The text that the model is told. If the arguments have faults, only the first faults are listed, a long one is
    /// cut in the middle, and secrets are removed. Other text is returned as it is, because it is cleaned together
    /// with the result.
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

    /// Adds the cause, which the host sees and the model does not. Only a [`Failed`](Self::Failed) error has a
    /// cause; others stay as they are.
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

/// A failure inside a tool.
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
