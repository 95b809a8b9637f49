//! All texts of the loop for watchers, who may be customers of the program: why a run has no answer, and what can be
//! done. Watchers never read the texts for the program, which are those of [`Outcome`] and [`Stopped`](crate::Stopped).

use crate::Outcome;
use harness_core::journal::{LimitKind, LimitScope};

/// Why a run has no answer, and what the person can do. `limit` is the scope of the limit that was reached, and
/// `failure` is the [public text](harness_core::error::Error::public_text) of the error. `None` if the model has
/// answered.
pub(crate) fn reason(
    outcome: Outcome,
    limit: Option<LimitScope>,
    failure: Option<&str>,
) -> Option<String> {
    let mut text = what_happened(outcome, limit);
    let advice = match outcome {
        Outcome::Answered => return None,
        Outcome::Limit(LimitKind::UnknownCost) => "tell the people who run the service",
        Outcome::Limit(_) => match limit {
            None | Some(LimitScope::Run) => "send a message to go on",
            Some(LimitScope::Conversation) => "begin a new conversation",
            Some(_) => "try again later",
        },
        Outcome::Truncated => "ask for the rest, or for a shorter answer",
        Outcome::Refused | Outcome::Unsupported(_) => "ask in other words",
        Outcome::Unfit => "try again",
        Outcome::Cancelled | Outcome::Waiting | Outcome::Denied => "",
        Outcome::Failed => "try again later",
    };
    // The text of the failure has its own advice.
    match failure.unwrap_or(advice) {
        "" => {}
        more => text.extend([": ", more]),
    }
    Some(text)
}

/// How a run ended, without advice.
pub(crate) fn what_happened(outcome: Outcome, limit: Option<LimitScope>) -> String {
    let text = match outcome {
        Outcome::Answered => "the model has answered",
        Outcome::Limit(LimitKind::UnknownCost) => {
            "there is no answer, because its cost would not be known"
        }
        Outcome::Limit(kind) => {
            let whose = match limit {
                None | Some(LimitScope::Run) => "",
                Some(LimitScope::Conversation) => " of the conversation",
                Some(_) => " of the service",
            };
            return format!("the limit of {kind}{whose} was reached before there was an answer");
        }
        Outcome::Truncated => "the answer was cut off, because it is too long",
        Outcome::Refused => "the model refused to answer",
        Outcome::Unfit => "the model gave no answer of the form that is needed",
        Outcome::Unsupported(_) => "the model asked for something that cannot be done here",
        Outcome::Cancelled => "the answer was stopped",
        Outcome::Waiting => "the answer goes on when the open questions are answered",
        Outcome::Denied => "the answer ended, because something was not allowed",
        Outcome::Failed => "the answer failed",
    };
    text.to_owned()
}
