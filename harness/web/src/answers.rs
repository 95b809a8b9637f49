//! Answers of a client to calls that wait, and the ids by which it gives them.

use hmac_sha256::Hash as Sha256;
use serde_json::{Map, Value, json};

use crate::request::text;
use harness_agent::{ChatRun, ChatRunBuilder, Event, Inbox, OpenCall, WhenBusy};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Awaited, Wait},
    message::ToolCall,
};

/// What a client has answered to a question that it was shown.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClientAnswer {
    /// The id of the question, as the client names it.
    pub id: String,
    /// What it answers.
    pub decision: ClientDecision,
}

/// What a client can answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientDecision {
    /// The call may run.
    Approve,
    /// The call may not run. For the question of a call's tool: the person gives no answer, and the tool gets `null`
    /// as the answer.
    Deny {
        /// The reason, in words for the model.
        reason: Option<String>,
    },
    /// The answer to the question of a call's tool; `null` if the person gives none.
    Answer(Value),
}

impl ClientAnswer {
    /// An answer to the question with this id.
    pub fn new(id: impl Into<String>, decision: ClientDecision) -> Self {
        Self { id: id.into(), decision }
    }
}

/// Records the answers of a client to calls that wait in a conversation, or in the conversations of agents in its calls.
/// Returns how many of them count; [`Chats::resume`](harness_agent::Chats::resume) then continues the run.
///
/// An answer counts if a call waits for it: a question has an id of its own each time that it is asked, so an answer to an
/// earlier question, a second answer, and an id that was never shown change nothing. `who` is recorded as the person who has
/// answered.
///
/// # Errors
/// Fails as [`Inbox::waiting_with_agents`] and [`Inbox::decide`] do, except that it is no error if a call does not wait any more,
/// or if another answer counts: the run goes on with that one, and shows again what waits. An answer may have been written
/// although it is not counted, here or in an earlier request. So if none counts, ask [`Inbox::can_continue`].
pub async fn answer_waiting(
    inbox: &Inbox,
    conversation: &str,
    answers: &[ClientAnswer],
    who: Option<&str>,
) -> Result<usize, Error> {
    let (mut count, mut failed) = (0, None);
    if answers.is_empty() {
        return Ok(count);
    }
    for (conversation, open) in inbox.waiting_with_agents(conversation).await? {
        match answer(inbox, &conversation, &open, answers, who).await {
            Ok(true) => count += 1,
            Ok(false) => {}
            // Another request has answered first.
            Err(error) if error.kind() == ErrorKind::NotWaiting => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.filter(|_| count == 0).map_or(Ok(count), Err)
}

/// Records the answers of a client by [`answer_waiting`], and continues the run: `run` is what
/// [`Chats::resume`](harness_agent::Chats::resume) has returned for this conversation. Without answers, the run is continued
/// alone.
///
/// If a run goes on, the answers are read by that run, and it is the one that is returned. A new message of the user that comes
/// before an answer was used withdraws the calls that wait, also if the answer was recorded before it. The client is then
/// told so by an error, and not shown the run of the message.
///
/// # Errors
/// Fails with [`ErrorKind::NotWaiting`] if no answer counts and there is nothing to continue, and if a new message came first.
/// Fails with [`ErrorKind::Busy`] if no answer counts and a run goes on. Fails otherwise as [`answer_waiting`] and
/// [`ChatRunBuilder`] do.
pub async fn resume_answered(
    run: ChatRunBuilder,
    inbox: &Inbox,
    conversation: &str,
    answers: &[ClientAnswer],
    who: Option<&str>,
) -> Result<ChatRun, Error> {
    if answers.is_empty() {
        return run.await;
    }
    let before = inbox.look(conversation).await?;
    let counts = answer_waiting(inbox, conversation, answers, who).await? > 0;
    // It may have been written when the conversation was open elsewhere, so that no run has read it.
    if !counts && !inbox.can_continue(conversation).await? {
        return Err(Error::new(ErrorKind::NotWaiting, "no call waits for this answer"));
    }
    let busy = if counts { WhenBusy::Wait } else { WhenBusy::Refuse };
    let run = run.when_busy(busy).await?;
    let first = run.first().await;
    if let Some(Event::RunStarted { said: Some(said) }) =
        first.as_ref().map(|it| it.event.as_event())
        && !before.transcript().messages().iter().any(|message| message.id() == said.id())
    {
        let what = "the answer came too late: a new message came first";
        return Err(Error::new(ErrorKind::NotWaiting, what));
    }
    Ok(run)
}

/// Records the answer to this call, if there is one.
async fn answer(
    inbox: &Inbox,
    conversation: &str,
    open: &OpenCall,
    answers: &[ClientAnswer],
    who: Option<&str>,
) -> Result<bool, Error> {
    let Some(id) = open.wait.as_ref().and_then(|wait| wait_id(&open.call, wait)) else {
        return Ok(false);
    };
    let question = open.question();
    let fits = |answer: &&ClientAnswer| {
        answer.id == id
            && match answer.decision {
                ClientDecision::Approve => question.is_some(),
                ClientDecision::Deny { .. } => true,
                ClientDecision::Answer(_) => question.is_none(),
            }
    };
    let Some(answer) = answers.iter().find(fits) else { return Ok(false) };
    match (question, &answer.decision) {
        (Some(question), decision) => {
            let mut approval = match decision {
                ClientDecision::Deny { reason } => {
                    question.no(reason.as_deref().unwrap_or("The user does not allow the call."))
                }
                _ => question.yes(),
            };
            approval.who = who.map(str::to_owned);
            inbox.decide(conversation, approval).await?;
        }
        (None, decision) => {
            let value = match decision {
                ClientDecision::Answer(value) => value.clone(),
                _ => Value::Null,
            };
            let mut settlement = open.answered(value);
            settlement.who = who.map(str::to_owned);
            inbox.settle(conversation, settlement).await?;
        }
    }
    Ok(true)
}

/// The id by which a client answers what a call waits for, if a client can answer it.
fn wait_id(call: &ToolCall, wait: &Wait) -> Option<String> {
    match &wait.awaited {
        // It is random, and another one each time that a person is asked.
        Awaited::Approval { question, .. } => question.get("nonce")?.as_str().map(str::to_owned),
        Awaited::Answer { .. } if wait.nonce.is_some() => wait.nonce.as_deref().map(str::to_owned),
        // A wait of an earlier version.
        Awaited::Answer { question, form, .. } => {
            let asked = json!([call.id(), call.fingerprint(), question, form]).to_string();
            let hash = Sha256::hash(asked.as_bytes());
            Some(hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
        }
        Awaited::Result | Awaited::Agent { .. } => None,
    }
}

/// What a client is shown of a call that waits.
pub(crate) struct ShownWait {
    /// The id for the answer, if the client can answer.
    pub(crate) id: Option<String>,
    /// Whether the answer is a decision.
    pub(crate) is_approval: bool,
    /// The question, in words for a person.
    pub(crate) question: Option<String>,
    /// All of it as JSON, with the `form` of the answer.
    pub(crate) json: Map<String, Value>,
}

/// The members of a question about a call that the person who decides needs.
const OF_QUESTION: [&str; 7] =
    ["title", "effects", "defaults", "reasons", "preview", "changes", "agents"];

impl ShownWait {
    pub(crate) fn of(call: &ToolCall, wait: &Wait) -> Self {
        let id = wait_id(call, wait);
        let mut json = Map::new();
        if let Some(id) = &id {
            json.insert("id".into(), json!(id));
        }
        json.insert("call".into(), json!(call.id()));
        json.insert("tool".into(), json!(call.name()));
        let mut words = None;
        let kind = match &wait.awaited {
            Awaited::Approval { question, .. } => {
                for name in OF_QUESTION {
                    if let Some(value) = question.get(name).filter(|value| !value.is_null()) {
                        json.insert(name.into(), value.clone());
                    }
                }
                let reasons = question.get("reasons").and_then(Value::as_array);
                let reasons = reasons.into_iter().flatten().filter_map(|it| text(it, "text"));
                let reasons: Vec<&str> = reasons.collect();
                words = Some(reasons.join(" ")).filter(|words| !words.is_empty());
                "approval"
            }
            Awaited::Result => "result",
            Awaited::Answer { question, form, token: _ } => {
                json.insert("question".into(), json!(question));
                if let Some(form) = form {
                    json.insert("form".into(), form.clone());
                }
                words = Some(question.clone());
                "answer"
            }
            Awaited::Agent { .. } => "agent",
        };
        json.insert("for".into(), json!(kind));
        if let Some(until) = wait.until {
            json.insert("until".into(), json!(until));
        }
        let is_approval = kind == "approval";
        Self { id, is_approval, question: words, json }
    }
}
