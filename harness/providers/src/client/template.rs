//! Uses a typed request of `async-openai` as the template of each request.

use super::setup::BuilderSettings;
use harness_core::error::{Error, ErrorKind};
use serde::Serialize;

/// The members that the library writes from the conversation. Their values in a template are ignored.
const OURS: [&str; 4] = ["input", "messages", "stream", "stream_options"];

impl BuilderSettings {
    /// Stores the members of the typed request until the provider is built.
    pub(super) fn take_template(&mut self, request: &impl Serialize) -> Result<(), Error> {
        let wrong = |err| {
            Error::new(ErrorKind::Configuration, "the template cannot be written as JSON")
                .with_source(err)
        };
        self.template =
            serde_json::to_value(request).and_then(serde_json::from_value).map_err(wrong)?;
        Ok(())
    }

    /// Turns the members of the template into settings. Values that the program has set have precedence.
    pub(super) fn with_template(mut self) -> Self {
        for (name, value) in std::mem::take(&mut self.template) {
            if value.is_null() || OURS.contains(&name.as_str()) {
                continue;
            }
            if name == "model" {
                let model = value.as_str().filter(|model| !model.is_empty());
                self.model = self.model.take().or_else(|| model.map(str::to_owned));
                continue;
            }
            if !self.has_set(&name) {
                self.settings.extra.entry(name).or_insert(value);
            }
        }
        self
    }

    /// Whether the program has set this member by a setting.
    fn has_set(&self, name: &str) -> bool {
        let settings = &self.settings;
        match name {
            "max_output_tokens" | "max_tokens" | "max_completion_tokens" => {
                settings.max_tokens.is_some()
            }
            "temperature" => settings.temperature.is_some(),
            "top_p" => settings.top_p.is_some(),
            "stop" => !settings.stop.is_empty(),
            "reasoning" | "reasoning_effort" => settings.effort.is_some(),
            "tool_choice" => settings.tool_choice.is_some(),
            "parallel_tool_calls" => settings.parallel_calls.is_some(),
            "user" | "safety_identifier" => settings.user.is_some(),
            _ => false,
        }
    }
}
