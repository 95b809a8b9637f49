//! The default models of the providers.

/// The default model of the Anthropic provider.
pub const ANTHROPIC: &str = "claude-sonnet-5";

/// The default model of the OpenAI provider.
pub const OPENAI: &str = "gpt-5.6";

/// A placeholder: a server with a single model accepts any name.
pub const ANY: &str = "default";

#[cfg(test)]
mod tests {
    use crate::models::Models;

    #[test]
    fn the_default_models_are_in_the_table_with_all_that_it_tells() {
        for (provider, model) in [("anthropic", super::ANTHROPIC), ("openai", super::OPENAI)] {
            let known = Models::default().find(provider, model);
            assert!(known.price.is_some() && known.window.is_some(), "{model}: {known:?}");
            assert!(known.output.is_some() && known.thinking.is_some(), "{model}: {known:?}");
            assert!(known.images.is_some() && known.strict_tools.is_some(), "{model}: {known:?}");
        }
        assert_eq!(Models::default().find("127.0.0.1:11434", super::ANY), Default::default());
    }
}
