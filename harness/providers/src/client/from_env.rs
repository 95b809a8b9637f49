//! Builds the provider that the environment selects.

use super::{AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, credentials};
use harness_core::{
    error::{Error, ErrorKind},
    provider::{Effort, Provider, Settings},
};

/// Builds the provider that the variable `PROVIDER` names. `anthropic` (the default), `openai` and `chat_completions`
/// call the `from_env` of that provider. `local` uses [`OpenAIProvider::local`]. The variable `EFFORT` sets [how much
/// the model thinks](Effort), for example `off` or `high`.
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
/// [`ErrorKind::Configuration`] if the name or the effort is unknown, or if `from_env` of the provider fails.
pub fn provider_from_env() -> Result<Box<dyn Provider>, Error> {
    let name = credentials::variable("PROVIDER").unwrap_or_else(|| "anthropic".to_owned());
    let settings = Settings { effort: effort_in_env()?, ..Settings::default() };
    match name.to_ascii_lowercase().as_str() {
        "anthropic" => Ok(Box::new(AnthropicProvider::builder().settings(settings).build()?)),
        "openai" => Ok(Box::new(OpenAIProvider::builder().settings(settings).build()?)),
        "chat_completions" => {
            Ok(Box::new(ChatCompletionsProvider::builder().settings(settings).build()?))
        }
        "local" => Ok(Box::new(OpenAIProvider::local().settings(settings).build()?)),
        _ => Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "the environment variable `PROVIDER` is `{name}`; expected `anthropic`, `openai`, \
                 `chat_completions` or `local`"
            ),
        )),
    }
}

/// The value of the variable `EFFORT`; `None` if the variable is not set.
fn effort_in_env() -> Result<Option<Effort>, Error> {
    let Some(effort) = credentials::variable("EFFORT") else { return Ok(None) };
    let effort = effort.parse::<Effort>();
    effort.map(Some).map_err(|error| error.with_note("it is the environment variable `EFFORT`"))
}
