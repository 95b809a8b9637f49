//! Why a tool could not do it: one text for the model, one cause for the host.

use std::fmt;

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

    /// Whether the failure may pass by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::BadArguments(_) => false,
            Self::Failed(failure) => failure.transient,
        }
    }

    /// Adds the cause, which the host sees and the model does not.
    #[must_use]
    pub fn because(self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        match self {
            Self::BadArguments(lines) => Self::BadArguments(lines),
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
        }
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::BadArguments(_) => None,
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
}

impl From<&str> for ToolFailure {
    fn from(for_model: &str) -> Self {
        for_model.to_owned().into()
    }
}

impl From<String> for ToolFailure {
    fn from(for_model: String) -> Self {
        Self { for_model, cause: None, transient: false }
    }
}
