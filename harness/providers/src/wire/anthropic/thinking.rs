//! Translates the effort setting for each family of Anthropic's models.

use harness_core::{
    error::{Error, ErrorKind},
    models::{Model, Thinking as How},
    provider::{Effort, Settings},
};

/// The thinking settings of a request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ThinkingSettings {
    /// The value of `thinking`.
    pub(super) config: Option<ThinkingConfig>,
    /// The value of `output_config.effort`.
    pub(super) effort: Option<&'static str>,
}

/// The value of `thinking` in a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ThinkingConfig {
    Disabled,
    BetweenTools,
    Adaptive,
    /// Enabled with a budget of this number of tokens.
    Enabled(u32),
}

impl ThinkingConfig {
    pub(super) fn json(self) -> String {
        match self {
            Self::Disabled => r#"{"type":"disabled"}"#.to_owned(),
            Self::BetweenTools => r#"{"type":"between_tools"}"#.to_owned(),
            Self::Adaptive => r#"{"type":"adaptive"}"#.to_owned(),
            Self::Enabled(budget) => format!(r#"{{"type":"enabled","budget_tokens":{budget}}}"#),
        }
    }
}

/// The smallest thinking budget, in tokens, that the vendor accepts.
///
/// Source: <https://docs.claude.com/en/docs/build-with-claude/extended-thinking>.
const LEAST: u32 = 1024;

/// The number of tokens that are reserved for the text of an answer, if the answer's limit is high enough.
const TEXT: u32 = 1024;

/// Translates the effort for this model. The result is a token budget, or a level for models with adaptive thinking. A
/// model that cannot stop thinking gets the lowest level, and a model that cannot think gets no setting. An unknown
/// model is treated like a newer model. See the vendor's documentation of extended and adaptive thinking.
///
/// # Errors
/// The same as [`check`].
pub(super) fn thinking(
    model: &str,
    known: &Model,
    settings: &Settings,
    max_tokens: u32,
) -> Result<ThinkingSettings, Error> {
    check(model, known, settings)?;
    let Some(effort) = settings.effort else { return Ok(ThinkingSettings::default()) };
    let level = match effort {
        Effort::Off | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
        Effort::Max | Effort::Tokens(_) => "max",
    };
    let said = |config, effort| ThinkingSettings { config, effort };
    Ok(match (known.thinking, effort) {
        (Some(How::Never), _) => ThinkingSettings::default(),
        (Some(How::Budget) | None, Effort::Tokens(_)) | (Some(How::Budget), _) => {
            said(budget(known, effort, max_tokens), None)
        }
        (Some(How::BetweenCalls), Effort::Off) => {
            said(Some(ThinkingConfig::BetweenTools), Some(level))
        }
        (Some(How::Always), Effort::Off) => said(None, Some(level)),
        (Some(How::Effort) | None, Effort::Off) => said(Some(ThinkingConfig::Disabled), None),
        (Some(How::Effort | How::BetweenCalls | How::Always) | None, _) => {
            said(Some(ThinkingConfig::Adaptive), Some(level))
        }
    })
}

/// Fails if the program sets a budget for a model without budgets, or a budget that does not fit into `max_tokens`.
///
/// # Errors
/// [`ErrorKind::Configuration`].
pub(super) fn check(model: &str, known: &Model, settings: &Settings) -> Result<(), Error> {
    let Settings { max_tokens, effort: Some(effort), extra, .. } = settings else { return Ok(()) };
    let wrong = |what: String| Err(Error::new(ErrorKind::Configuration, what));
    let has_budget = matches!(known.thinking, Some(How::Budget) | None);
    match (*effort, *max_tokens) {
        // The library does not check a `thinking` in `extra`.
        _ if extra.contains_key("thinking") => Ok(()),
        (Effort::Tokens(tokens), _) if !has_budget => wrong(format!(
            "`Effort::Tokens({tokens})`: the model `{model}` takes no budget of tokens for its thinking: set a level, \
             such as `Effort::High`"
        )),
        (Effort::Tokens(tokens), _) if tokens < LEAST => wrong(format!(
            "`Effort::Tokens({tokens})`: the smallest budget is {LEAST} tokens; `Effort::Off` turns thinking off"
        )),
        (Effort::Tokens(tokens), Some(most)) if tokens >= most => wrong(format!(
            "`Effort::Tokens({tokens})` with `max_tokens({most})`: thinking counts as a part of the answer, so set a \
             smaller budget or a larger `max_tokens`"
        )),
        (Effort::Tokens(tokens), None) if known.output.is_some_and(|most| tokens >= most) => {
            let most = known.output.unwrap_or_default();
            wrong(format!(
                "`Effort::Tokens({tokens})`: an answer of the model `{model}` has at most {most} tokens, and thinking \
                 is a part of it: set a smaller budget, or `Effort::Max`"
            ))
        }
        (Effort::Off, _) => Ok(()),
        (_, Some(most)) if known.thinking == Some(How::Budget) && most <= LEAST => wrong(format!(
            "`max_tokens({most})` leaves no room for thinking: the model `{model}` needs at least {LEAST} tokens for \
             it, as a part of the answer: set a larger `max_tokens`, or `Effort::Off`"
        )),
        _ => Ok(()),
    }
}

/// The wanted thinking budget in tokens. The limit of the answer may reduce this budget.
fn wished(known: &Model, effort: Effort) -> u32 {
    match effort {
        Effort::Off => 0,
        Effort::Minimal => LEAST,
        Effort::Low => 2048,
        Effort::Medium => 8192,
        Effort::High => 16_384,
        Effort::XHigh => 24_576,
        Effort::Max => known.output.map_or(32_768, |most| most.saturating_sub(1)),
        Effort::Tokens(tokens) => tokens,
    }
}

/// The default token limit of an answer: `usual`, or more for a large thinking budget.
pub(super) fn with_room(known: &Model, effort: Option<Effort>, usual: u32) -> u32 {
    let has_budget =
        known.thinking == Some(How::Budget) || matches!(effort, Some(Effort::Tokens(_)));
    let thought = effort.filter(|_| has_budget).map_or(0, |effort| wished(known, effort));
    let most = known.output.unwrap_or(u32::MAX).max(usual);
    usual.max(thought.saturating_add(TEXT)).min(most)
}

/// A budget of at least 1,024 tokens that is smaller than the limit of the answer.
fn budget(known: &Model, effort: Effort, max_tokens: u32) -> Option<ThinkingConfig> {
    if effort == Effort::Off {
        return Some(ThinkingConfig::Disabled);
    }
    let is_exact = matches!(effort, Effort::Tokens(_));
    // With the maximum effort and the maximum length, thinking may use all tokens but one.
    let is_whole = effort == Effort::Max && Some(max_tokens) >= known.output;
    let text = if is_exact || is_whole { 1 } else { TEXT };
    let most = max_tokens.saturating_sub(text).max(LEAST);
    let budget = wished(known, effort).min(most);
    (budget < max_tokens).then_some(ThinkingConfig::Enabled(budget))
}
