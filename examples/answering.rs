//! The provider of the examples: the one that `PROVIDER` names, or the scripted model, which needs no
//! key. This file is not a part of the library.

use anyhow::Context as _;
use harness::{AnthropicProvider, Provider, provider_from_env, testing::LoopbackServer};

use crate::offline;

/// The provider, and the text about it for the user.
pub(crate) struct Answering {
    pub(crate) provider: Box<dyn Provider>,
    pub(crate) introduction: String,
    /// Keeps the scripted model alive.
    _server: Option<LoopbackServer>,
}

/// The provider that `PROVIDER` names. If it is not set, the scripted model answers even if there is a
/// key, so that trying an example costs nothing.
///
/// # Errors
/// Fails if the name is unknown or a variable that the provider needs is not set.
pub(crate) async fn from_env() -> anyhow::Result<Answering> {
    if std::env::var_os("PROVIDER").is_some_and(|name| !name.is_empty()) {
        let provider = provider_from_env()?;
        let introduction = format!("{} · {}", provider.name(), provider.model());
        return Ok(Answering { provider, introduction, _server: None });
    }
    let server = offline::model().await.context("no port for the scripted model")?;
    let provider = AnthropicProvider::builder().api_key("none").base_url(server.url()).build()?;
    let introduction = scripted(|name| std::env::var_os(name).is_some_and(|set| !set.is_empty()));
    Ok(Answering { provider: Box::new(provider), introduction, _server: Some(server) })
}

/// The text for the user when the scripted model answers. It names a key that could be used instead.
fn scripted(is_set: impl Fn(&str) -> bool) -> String {
    let known = [
        ("ANTHROPIC_API_KEY", "anthropic"),
        ("OPENAI_API_KEY", "openai"),
        ("CHAT_COMPLETIONS_BASE_URL", "chat_completions"),
    ];
    match known.into_iter().find(|(key, _)| is_set(key)) {
        Some((key, provider)) => format!(
            "{key} is set, but PROVIDER is not, so a scripted model on this machine answers. \
             PROVIDER={provider} asks the real one."
        ),
        None => {
            "PROVIDER is not set, so a scripted model on this machine answers. For a real one: \
                 PROVIDER=anthropic, openai or chat_completions, with its key, or PROVIDER=local."
                .to_owned()
        }
    }
}
