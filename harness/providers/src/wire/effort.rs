//! The names of effort levels at OpenAI and at compatible servers.

use harness_core::{
    error::{Error, ErrorKind},
    provider::{Effort, Settings},
};

/// Fails if a token budget is set and the server accepts no budget.
///
/// # Errors
/// [`ErrorKind::Configuration`].
pub(super) fn check(settings: &Settings, takes_budget: bool) -> Result<(), Error> {
    match settings.effort {
        Some(Effort::Tokens(tokens)) if !takes_budget => Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "`Effort::Tokens({tokens})`: this server takes no budget of tokens for thinking: set a level, such as \
                 `Effort::High`, or the server's own member by `extra`"
            ),
        )),
        _ => Ok(()),
    }
}

/// The name of a level. `effort` must not be a token budget.
pub(super) fn level(effort: Effort) -> &'static str {
    match effort {
        Effort::Off => "none",
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
        Effort::Max | Effort::Tokens(_) => "max",
    }
}
