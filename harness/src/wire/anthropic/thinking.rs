//! How effort is said to each family of models.

use crate::provider::Effort;

/// What the request says about thinking.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Thinking {
    /// The value of `thinking`, as JSON.
    pub(super) config: Option<String>,
    /// `output_config.effort`.
    pub(super) effort: Option<&'static str>,
}

/// How this effort is said to this model. Models up to 4.5 know only a budget of tokens; later
/// ones decide by themselves within an effort. Those that cannot stop thinking are asked for the
/// least. See the vendor's documentation of extended and adaptive thinking.
pub(super) fn thinking(model: &str, effort: Effort, max_tokens: u32) -> Thinking {
    let level = match effort {
        Effort::Off | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
        Effort::Max => "max",
    };
    if knows_only_budgets(model) {
        return Thinking { config: budget(effort, max_tokens), effort: None };
    }
    if effort == Effort::Off {
        return match () {
            () if model.contains("sonnet-5-5") => Thinking {
                config: Some(r#"{"type":"between_tools"}"#.to_owned()),
                effort: Some(level),
            },
            () if ["fable", "mythos", "opus-5-5"].iter().any(|name| model.contains(name)) => {
                Thinking { config: None, effort: Some(level) }
            }
            () => Thinking { config: Some(r#"{"type":"disabled"}"#.to_owned()), effort: None },
        };
    }
    Thinking { config: Some(r#"{"type":"adaptive"}"#.to_owned()), effort: Some(level) }
}

fn knows_only_budgets(model: &str) -> bool {
    const OLD: [&str; 7] =
        ["claude-3", "sonnet-4-5", "haiku-4-5", "opus-4-5", "opus-4-1", "sonnet-4-2", "opus-4-2"];
    OLD.iter().any(|name| model.contains(name))
        || model.ends_with("sonnet-4-0")
        || model.ends_with("opus-4-0")
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
