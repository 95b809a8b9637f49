//! The loop as a pure machine: facts in, the next action out. It knows no clock, no chance, no
//! socket and no log, so that every behaviour of the loop is a line in a table.

use std::{collections::HashSet, sync::Arc};

use super::{Outcome, schedule};
use crate::{
    error::{Error, ErrorKind},
    journal::{Decision, Entry, InterruptCause},
    message::{CallOutcome, Message, Role, ToolCall, ToolContent, ToolResult, Transcript},
    provider::{StopReason, Usage, breaks_off},
    tool::SideEffects,
};

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing, until the user says something.
    AwaitUser,
    /// Ask the model to go on.
    CallProvider,
    /// Decide which of these calls may run.
    Decide(Vec<ToolCall>),
    /// Run these calls; those of one batch may run at the same time.
    RunCalls(Vec<ToolCall>),
    /// Nothing, until the calls that run have their results.
    AwaitResults,
    /// Write these facts down: the truth about calls that will not run or were stopped.
    Settle(Vec<Entry>),
    /// The run is over.
    Finish(Outcome),
}

/// A conversation as the fold of its facts.
///
/// ```
/// use harness::{Message, agent::{Action, Machine}, journal::Entry};
///
/// let mut machine = Machine::new();
/// assert_eq!(machine.next(), Action::AwaitUser);
/// machine.apply(&Entry::UserSaid { message: Message::user("Hello") })?;
/// assert_eq!(machine.next(), Action::CallProvider);
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    transcript: Transcript,
    phase: Phase,
    turns: u32,
    usage: Usage,
    begun_at: usize,
    untouched: bool,
    answered_by: Option<(String, String)>,
    /// Ids of all calls so far.
    call_ids: Arc<HashSet<String>>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Nothing was said, or the run is over.
    Ended(Option<Outcome>),
    /// It is the model's turn.
    Asking,
    /// Calls wait for their results.
    Calling(Calling),
}

#[derive(Clone, Debug)]
struct Calling {
    asked: Message,
    calls: Vec<Call>,
    then: Then,
}

/// What comes when all calls have their results.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// The model's next turn.
    Ask,
    /// The end of the run; calls that have not started will not.
    End(Outcome),
}

#[derive(Clone, Debug)]
struct Call {
    call: ToolCall,
    status: Status,
}

#[derive(Clone, Debug)]
enum Status {
    Asked,
    Allowed(SideEffects),
    Started(SideEffects),
    Finished(ToolResult),
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A conversation in which nothing was said. It knows no limits: a guard that stops a run
    /// says so by a fact.
    pub fn new() -> Self {
        Self {
            transcript: Transcript::default(),
            phase: Phase::Ended(None),
            turns: 0,
            usage: Usage::default(),
            begun_at: 0,
            untouched: true,
            answered_by: None,
            call_ids: Arc::default(),
        }
    }

    /// What was said. Between runs it can be sent.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// How many answers of the model in this run came to their end.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Tokens of this run.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// At which message of the transcript this run began.
    pub fn begun_at(&self) -> usize {
        self.begun_at
    }

    /// Who gave the last answer: the provider, and its model.
    pub fn answered_by(&self) -> Option<(&str, &str)> {
        self.answered_by.as_ref().map(|(provider, model)| (provider.as_str(), model.as_str()))
    }

    /// The fact with which a run that had stopped goes on.
    ///
    /// # Errors
    /// Fails if there is nothing to go on with: nothing was said, the model has answered to the
    /// end, or calls wait for their results.
    pub fn resumption(&self) -> Result<Entry, Error> {
        let Some(last) = self.transcript.messages().last() else {
            return Err(cannot("there is nothing to resume: nothing was said yet; `send` begins"));
        };
        let broke_off = match self.phase {
            Phase::Calling(_) => {
                return Err(cannot("a run cannot be resumed while calls wait for results"));
            }
            Phase::Ended(Some(Outcome::Answered)) => false,
            Phase::Ended(Some(_)) | Phase::Asking => true,
            // The conversation was kept elsewhere: only its last words can tell.
            Phase::Ended(None) => breaks_off(last),
        };
        match last.role() {
            Role::User | Role::Tool => Ok(Entry::Resumed { message: None }),
            Role::Assistant if broke_off => {
                Ok(Entry::Resumed { message: Some(Message::user(GO_ON)) })
            }
            Role::Assistant => Err(cannot(
                "there is nothing to resume: the model has answered; `send` says something new",
            )),
        }
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// Fails, and changes nothing, if the fact cannot follow what has happened.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), Error> {
        match entry {
            Entry::Given { transcript } => {
                if !self.untouched {
                    return Err(cannot("a given transcript can only be the first fact"));
                }
                transcript.sendable()?;
                self.transcript = transcript.clone();
                for message in transcript.messages() {
                    self.took(message);
                }
                self.begun_at = transcript.messages().len();
            }
            Entry::UserSaid { message } => {
                if let Phase::Calling(_) = self.phase {
                    return Err(cannot("the user cannot speak while calls wait for results"));
                }
                if message.role() != Role::User {
                    return Err(cannot(
                        "only the user can begin a run; send a message of `Role::User`",
                    ));
                }
                let begun_at = self.transcript.messages().len();
                self.transcript.push(message.clone())?;
                self.begun_at = begun_at;
                self.turns = 0;
                self.usage = Usage::default();
                self.phase = Phase::Asking;
            }
            Entry::Resumed { message } => {
                let due = self.resumption()?;
                let begun_at = self.transcript.messages().len();
                match (message, due) {
                    (None, Entry::Resumed { message: None }) => {}
                    (Some(message), Entry::Resumed { message: Some(_) })
                        if message.role() == Role::User =>
                    {
                        self.transcript.push(message.clone())?;
                    }
                    _ => {
                        return Err(cannot(
                            "a run resumes with a message of the user exactly if the \
                             conversation ends with the model's words",
                        ));
                    }
                }
                self.begun_at = begun_at;
                self.turns = 0;
                self.usage = Usage::default();
                self.phase = Phase::Asking;
            }
            Entry::ModelReplied { message, stop, usage, provider, model } => {
                self.asking("the model cannot reply")?;
                let ended = match stop {
                    StopReason::Complete | StopReason::ToolCalls => Then::End(Outcome::Answered),
                    StopReason::Truncated => Then::End(Outcome::Truncated),
                    StopReason::Refused => Then::End(Outcome::Refused),
                    StopReason::Paused => Then::Ask,
                };
                let called = if stop.lets_calls_run() { Then::Ask } else { ended };
                self.said(message.as_ref(), called, ended)?;
                self.turns = self.turns.saturating_add(1);
                self.usage.add(usage);
                self.answered_by = Some((provider.clone(), model.clone()));
            }
            Entry::Interrupted { message, usage, cause } => {
                let outcome = match cause {
                    InterruptCause::Program => Outcome::Interrupted,
                    InterruptCause::Limit { limit, .. } => Outcome::Limit(*limit),
                    InterruptCause::Denial { .. } => Outcome::Denied,
                    InterruptCause::Failure { .. } => Outcome::Failed,
                };
                match &mut self.phase {
                    Phase::Calling(calling) if message.is_none() => {
                        calling.then = Then::End(outcome);
                    }
                    Phase::Asking => {
                        self.said(message.as_ref(), Then::End(outcome), Then::End(outcome))?;
                    }
                    Phase::Calling(_) => {
                        return Err(cannot("a partial answer cannot come while calls wait"));
                    }
                    Phase::Ended(_) => return Err(cannot("there is no run to interrupt")),
                }
                self.usage.add(usage);
            }
            Entry::CallDecided { call, decision } => {
                let call = self.call(call)?;
                let Status::Asked = call.status else {
                    return Err(cannot(format!("`{}` was decided before", call.call.id())));
                };
                call.status = match decision {
                    Decision::Allow { side_effects } => Status::Allowed(*side_effects),
                    Decision::Deny { reason } => Status::Finished(ToolResult::new(
                        call.call.id(),
                        CallOutcome::Denied,
                        [ToolContent::Text(format!(
                            "This call was not allowed, so it did not run: {reason}"
                        ))],
                    )),
                };
                self.close()?;
            }
            Entry::CallStarted { call } => {
                let call = self.call(call)?;
                let Status::Allowed(effects) = call.status else {
                    return Err(cannot(format!("`{}` cannot start now", call.call.id())));
                };
                call.status = Status::Started(effects);
            }
            Entry::CallFinished { result } => {
                let call = self.call(result.call_id())?;
                if let Status::Finished(_) = call.status {
                    return Err(cannot(format!("`{}` has a result already", result.call_id())));
                }
                call.status = Status::Finished(result.clone());
                self.close()?;
            }
        }
        self.untouched = false;
        Ok(())
    }

    /// Says what is to be done next.
    pub fn next(&self) -> Action {
        match &self.phase {
            Phase::Ended(None) => Action::AwaitUser,
            Phase::Ended(Some(outcome)) => Action::Finish(*outcome),
            Phase::Asking => Action::CallProvider,
            Phase::Calling(Calling { then: Then::End(_), .. }) => {
                Action::Settle(self.settlement().collect())
            }
            Phase::Calling(Calling { calls, .. }) => {
                let undecided: Vec<ToolCall> = calls
                    .iter()
                    .filter(|call| matches!(call.status, Status::Asked))
                    .map(|call| call.call.clone())
                    .collect();
                if !undecided.is_empty() {
                    return Action::Decide(undecided);
                }
                if calls.iter().any(|call| matches!(call.status, Status::Started(_))) {
                    return Action::AwaitResults;
                }
                let open = calls.iter().filter_map(|call| match &call.status {
                    Status::Allowed(effects) => Some((&call.call, *effects)),
                    Status::Asked | Status::Started(_) | Status::Finished(_) => None,
                });
                Action::RunCalls(schedule::next_batch(open).into_iter().cloned().collect())
            }
        }
    }

    /// The facts that answer every call without a result, each with the truth: it did not start,
    /// it only read, or it may have partly run. After them the transcript can be sent. There are
    /// none if it can be sent already.
    pub fn settlement(&self) -> impl Iterator<Item = Entry> + '_ {
        let calling = match &self.phase {
            Phase::Calling(calling) => Some(calling),
            Phase::Asking | Phase::Ended(_) => None,
        };
        calling.into_iter().flat_map(|Calling { calls, then, .. }| {
            calls.iter().filter_map(|Call { call, status }| {
                let (outcome, text) = match status {
                    Status::Finished(_) => return None,
                    Status::Asked | Status::Allowed(_) => (
                        CallOutcome::NotStarted,
                        format!(
                            "This call was not started: {}. Nothing of it has happened.",
                            why(*then)
                        ),
                    ),
                    Status::Started(effects) => stopped(*effects),
                };
                let result = ToolResult::new(call.id(), outcome, [ToolContent::Text(text)]);
                Some(Entry::CallFinished { result })
            })
        })
    }

    fn asking(&self, what: &str) -> Result<(), Error> {
        match self.phase {
            Phase::Asking => Ok(()),
            Phase::Calling(_) => Err(cannot(format!("{what} while calls wait for results"))),
            Phase::Ended(_) => Err(cannot(format!("{what} before it was asked"))),
        }
    }

    /// The model's message joins the transcript; its calls wait for their results.
    fn said(&mut self, message: Option<&Message>, called: Then, ended: Then) -> Result<(), Error> {
        let then = match message {
            Some(message) => {
                self.transcript.push(message.clone())?;
                let calls: Vec<Call> = message
                    .calls()
                    .map(|call| Call { call: call.clone(), status: Status::Asked })
                    .collect();
                if !calls.is_empty() {
                    self.took(message);
                    let asked = message.clone();
                    self.phase = Phase::Calling(Calling { asked, calls, then: called });
                    return Ok(());
                }
                ended
            }
            None => ended,
        };
        self.go_on(then);
        Ok(())
    }

    /// Ids that a new call cannot have.
    pub(super) fn call_ids(&self) -> &Arc<HashSet<String>> {
        &self.call_ids
    }

    fn took(&mut self, message: &Message) {
        let ids = message.calls().map(|call| call.id().to_owned());
        Arc::make_mut(&mut self.call_ids).extend(ids);
    }

    fn call(&mut self, id: &str) -> Result<&mut Call, Error> {
        let calls = match &mut self.phase {
            Phase::Calling(calling) => calling.calls.as_mut_slice(),
            Phase::Asking | Phase::Ended(_) => &mut [],
        };
        calls
            .iter_mut()
            .find(|call| call.call.id() == id)
            .ok_or_else(|| cannot(format!("no call `{id}` waits for a result")))
    }

    /// When every call has its result, they join the transcript as one message, in call order.
    fn close(&mut self) -> Result<(), Error> {
        let Phase::Calling(Calling { asked, calls, then }) = &self.phase else { return Ok(()) };
        let results: Option<Vec<ToolResult>> = calls
            .iter()
            .map(|call| match &call.status {
                Status::Finished(result) => Some(result.clone()),
                Status::Asked | Status::Allowed(_) | Status::Started(_) => None,
            })
            .collect();
        let Some(results) = results else { return Ok(()) };
        let (message, then) = (Message::results_of(asked, results), *then);
        self.transcript.push(message)?;
        self.go_on(then);
        Ok(())
    }

    fn go_on(&mut self, then: Then) {
        self.phase = match then {
            Then::Ask => Phase::Asking,
            Then::End(outcome) => Phase::Ended(Some(outcome)),
        };
    }
}

/// What the model is told when its reply broke off.
const GO_ON: &str = "Your reply above was cut off before it was complete. Go on from where it \
                     breaks off, without repeating what is there.";

/// What the model is told of a call that was stopped while it ran.
pub(super) fn stopped(effects: SideEffects) -> (CallOutcome, String) {
    if effects.is_read_only() {
        let text = "This call was stopped while it ran. It only reads, so nothing has changed.";
        (CallOutcome::StoppedReading, text.to_owned())
    } else {
        let text = "This call was stopped while it ran: it may have partly run. Check what it did \
                    before you repeat it.";
        (CallOutcome::InDoubt, text.to_owned())
    }
}

fn why(then: Then) -> String {
    if let Then::End(Outcome::Limit(limit)) = then {
        return format!("the run has reached its limit of {limit}");
    }
    let why = match then {
        Then::End(Outcome::Truncated) => "the reply that asked for it was cut off",
        Then::End(Outcome::Refused) => "the reply that asked for it was refused",
        Then::End(Outcome::Failed) => "the run failed first",
        Then::End(Outcome::Denied) => "another call was denied first",
        Then::Ask | Then::End(_) => "the run was stopped first",
    };
    why.to_owned()
}

fn cannot(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Transcript, message)
}
