//! Translates effort for each family of models.

use crate::{models::Thinking as How, provider::Effort};

/// The thinking settings of a request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Thinking {
    /// The value of `thinking`, as JSON.
    pub(super) config: Option<String>,
    /// `output_config.effort`.
    pub(super) effort: Option<&'static str>,
}

/// Translates an effort for a model that thinks in this way: to a budget of tokens, or to a level
/// within which the model decides itself. A model that cannot stop thinking gets the lowest level,
/// and one that cannot think gets no setting. An unknown model is treated like a newer one. See the
/// vendor's documentation of extended and adaptive thinking.
pub(super) fn thinking(how: Option<How>, effort: Effort, max_tokens: u32) -> Thinking {
    let level = match effort {
        Effort::Off | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
        Effort::Max => "max",
    };
    let said = |config: &str| Some(format!(r#"{{"type":"{config}"}}"#));
    match (how, effort) {
        (Some(How::Never), _) => Thinking::default(),
        (Some(How::Budget), _) => Thinking { config: budget(effort, max_tokens), effort: None },
        (Some(How::BetweenCalls), Effort::Off) => {
            Thinking { config: said("between_tools"), effort: Some(level) }
        }
        (Some(How::Always), Effort::Off) => Thinking { config: None, effort: Some(level) },
        (Some(How::Effort) | None, Effort::Off) => {
            Thinking { config: said("disabled"), effort: None }
        }
        (Some(How::Effort | How::BetweenCalls | How::Always) | None, _) => {
            Thinking { config: said("adaptive"), effort: Some(level) }
        }
    }
}

/// A budget of at least 1,024 tokens, and less than the whole answer.
fn budget(effort: Effort, max_tokens: u32) -> Option<String> {
    let wished: u32 = match effort {
        Effort::Off => return Some(r#"{"type":"disabled"}"#.to_owned()),
        Effort::Minimal => 1024,
        Effort::Low => 2048,
        Effort::Medium => 8192,
        Effort::High => 16_384,
        Effort::XHigh => 24_576,
        Effort::Max => 32_768,
    };
    let budget = wished.min(max_tokens.saturating_sub(1024));
    (budget >= 1024).then(|| format!(r#"{{"type":"enabled","budget_tokens":{budget}}}"#))
}
