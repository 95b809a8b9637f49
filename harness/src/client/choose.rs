//! The provider that the environment selects.

use super::{AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, credentials};
use crate::{
    error::{Error, ErrorKind},
    provider::Provider,
};

/// The provider that the variable `PROVIDER` selects: `anthropic`, `openai` or `chat_completions`,
/// and `anthropic` if it is not set. Each is built by its own `from_env`.
///
/// ```no_run
/// # fn main() -> Result<(), harness::Error> {
/// let provider = harness::provider_from_env()?;
/// println!("asking {} at {}", provider.model(), provider.name());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::Configuration`] if the name is unknown, or if `from_env` of the provider fails.
pub fn provider_from_env() -> Result<Box<dyn Provider>, Error> {
    let name = credentials::variable("PROVIDER").unwrap_or_else(|| "anthropic".to_owned());
    match name.to_ascii_lowercase().as_str() {
        "anthropic" => Ok(Box::new(AnthropicProvider::from_env()?)),
        "openai" => Ok(Box::new(OpenAIProvider::from_env()?)),
        "chat_completions" => Ok(Box::new(ChatCompletionsProvider::from_env()?)),
        _ => Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "the environment variable `PROVIDER` is `{name}`; expected `anthropic`, `openai` \
                 or `chat_completions`"
            ),
        )),
    }
}
