//! An event of an agent that a call runs, on its way to who watches the caller's run.

use std::time::Duration;

use super::{Event, Outcome};
use crate::{
    journal::{Limit, LimitScope, Wait},
    message::{Citation, Image, ToolCall, ToolResult},
    provider::{StopReason, Usage},
};

/// A call that runs an agent: a step of the way to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AgentCall {
    /// The name of the tool.
    pub tool: Box<str>,
    /// The id of the call.
    pub call: Box<str>,
}

/// An event that is kept until the caller's run is polled.
pub(super) enum Heard {
    TurnStarted { turn: u32 },
    Retrying { attempt: u32, of: u32, wait: Duration, cause: String },
    FallingBack { from: String, to: String, cause: String },
    Discarded { cause: String },
    Text(String),
    Citation(Citation),
    Image(Image),
    Reasoning(String),
    ToolDenied { call: ToolCall, reason: String },
    ToolCall(ToolCall),
    ToolWaits { call: ToolCall, wait: Wait },
    ToolProgress { call: String, message: String },
    ToolResult { call: ToolCall, result: ToolResult, elapsed: Duration },
    ToolDropped { call: ToolCall },
    ToolEnded { tool: String, result: ToolResult },
    LimitNear { limit: Limit, scope: LimitScope, detail: String },
    LimitUnknown { limit: Limit, scope: LimitScope, detail: String },
    TurnEnded { turn: u32, stop: StopReason, usage: Usage },
    RunEnded { outcome: Outcome, usage: Usage },
}

impl Heard {
    /// Keeps an event, and adds the way that it came so far.
    pub(super) fn of(event: Event<'_>, path: &mut Vec<AgentCall>) -> Self {
        match event {
            Event::OfAgent { path: below, event } => {
                path.extend_from_slice(below);
                Self::of(*event, path)
            }
            Event::TurnStarted { turn } => Self::TurnStarted { turn },
            Event::Retrying { attempt, of, wait, cause } => {
                Self::Retrying { attempt, of, wait, cause: cause.to_owned() }
            }
            Event::FallingBack { from, to, cause } => Self::FallingBack {
                from: from.to_owned(),
                to: to.to_owned(),
                cause: cause.to_owned(),
            },
            Event::Discarded { cause } => Self::Discarded { cause: cause.to_owned() },
            Event::Text(text) => Self::Text(text.to_owned()),
            Event::Citation(citation) => Self::Citation(citation.clone()),
            Event::Image(image) => Self::Image(image.clone()),
            Event::Reasoning(text) => Self::Reasoning(text.to_owned()),
            Event::ToolDenied { call, reason } => {
                Self::ToolDenied { call: call.clone(), reason: reason.to_owned() }
            }
            Event::ToolCall(call) => Self::ToolCall(call.clone()),
            Event::ToolWaits { call, wait } => {
                Self::ToolWaits { call: call.clone(), wait: wait.clone() }
            }
            Event::ToolProgress { call, message } => {
                Self::ToolProgress { call: call.to_owned(), message: message.to_owned() }
            }
            Event::ToolResult { call, result, elapsed } => {
                Self::ToolResult { call: call.clone(), result: result.clone(), elapsed }
            }
            Event::ToolDropped { call } => Self::ToolDropped { call: call.clone() },
            Event::ToolEnded { tool, result } => {
                Self::ToolEnded { tool: tool.to_owned(), result: result.clone() }
            }
            Event::LimitNear { limit, scope, detail } => {
                Self::LimitNear { limit, scope, detail: detail.to_owned() }
            }
            Event::LimitUnknown { limit, scope, detail } => {
                Self::LimitUnknown { limit, scope, detail: detail.to_owned() }
            }
            Event::TurnEnded { turn, stop, usage } => Self::TurnEnded { turn, stop, usage: *usage },
            Event::RunEnded { outcome, usage } => Self::RunEnded { outcome, usage: *usage },
        }
    }

    pub(super) fn event(&self) -> Event<'_> {
        match self {
            Self::TurnStarted { turn } => Event::TurnStarted { turn: *turn },
            Self::Retrying { attempt, of, wait, cause } => {
                Event::Retrying { attempt: *attempt, of: *of, wait: *wait, cause }
            }
            Self::FallingBack { from, to, cause } => Event::FallingBack { from, to, cause },
            Self::Discarded { cause } => Event::Discarded { cause },
            Self::Text(text) => Event::Text(text),
            Self::Citation(citation) => Event::Citation(citation),
            Self::Image(image) => Event::Image(image),
            Self::Reasoning(text) => Event::Reasoning(text),
            Self::ToolDenied { call, reason } => Event::ToolDenied { call, reason },
            Self::ToolCall(call) => Event::ToolCall(call),
            Self::ToolWaits { call, wait } => Event::ToolWaits { call, wait },
            Self::ToolProgress { call, message } => Event::ToolProgress { call, message },
            Self::ToolResult { call, result, elapsed } => {
                Event::ToolResult { call, result, elapsed: *elapsed }
            }
            Self::ToolDropped { call } => Event::ToolDropped { call },
            Self::ToolEnded { tool, result } => Event::ToolEnded { tool, result },
            Self::LimitNear { limit, scope, detail } => {
                Event::LimitNear { limit: *limit, scope: *scope, detail }
            }
            Self::LimitUnknown { limit, scope, detail } => {
                Event::LimitUnknown { limit: *limit, scope: *scope, detail }
            }
            Self::TurnEnded { turn, stop, usage } => {
                Event::TurnEnded { turn: *turn, stop: *stop, usage }
            }
            Self::RunEnded { outcome, usage } => Event::RunEnded { outcome: *outcome, usage },
        }
    }
}
