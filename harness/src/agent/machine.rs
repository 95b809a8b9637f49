//! The loop as a pure machine: facts in, the next action out. It knows no clock, no chance, no
//! socket and no log, so that every behaviour of the loop is a line in a table.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Outcome, schedule};
use crate::{
    error::{Error, ErrorKind},
    journal::{Decision, Entry, InterruptCause, Limit},
    message::{Block, CallOutcome, Message, Role, ToolCall, ToolContent, ToolResult, Transcript},
    provider::{StopReason, Usage, breaks_off},
    tool::{CallIdentity, SideEffects},
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
    /// Ends of calls that had been stopped, of which the model has not been told yet.
    news: Vec<String>,
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
    /// Where each of them stands, by its id.
    places: HashMap<String, usize>,
    /// How many of them nobody has decided about.
    undecided: usize,
    /// How many have no result.
    unfinished: usize,
    /// All before this one have their results.
    first_unfinished: usize,
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

impl Calling {
    fn of(asked: &Message, then: Then) -> Self {
        let calls: Vec<Call> =
            asked.calls().map(|call| Call { call: call.clone(), status: Status::Asked }).collect();
        let ids = calls.iter().map(|call| call.call.id().to_owned());
        let (places, count) = (ids.zip(0..).collect(), calls.len());
        let (undecided, unfinished) = (count, count);
        let asked = asked.clone();
        Self { asked, calls, places, undecided, unfinished, first_unfinished: 0, then }
    }

    fn get(&self, id: &str) -> Option<&Call> {
        self.calls.get(*self.places.get(id)?)
    }

    /// What becomes of a call: it never goes back to a status that it had.
    fn set(&mut self, id: &str, status: Status) {
        let at = self.places.get(id).copied();
        let Some(call) = at.and_then(|at| self.calls.get_mut(at)) else { return };
        if let Status::Asked = call.status {
            self.undecided = self.undecided.saturating_sub(1);
        }
        if let Status::Finished(_) = status {
            self.unfinished = self.unfinished.saturating_sub(1);
        }
        call.status = status;
        let done = |call: &Call| matches!(call.status, Status::Finished(_));
        while self.calls.get(self.first_unfinished).is_some_and(done) {
            self.first_unfinished = self.first_unfinished.saturating_add(1);
        }
    }
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
            news: Vec::new(),
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
        let is_open = match self.phase {
            Phase::Calling(_) => {
                return Err(cannot("a run cannot be resumed while calls wait for results"));
            }
            Phase::Ended(Some(Outcome::Answered)) => false,
            Phase::Ended(Some(_)) | Phase::Asking => true,
            // The conversation was kept elsewhere: only its last words can tell.
            Phase::Ended(None) => last.is_paused() || breaks_off(last),
        };
        match last.role() {
            Role::User | Role::Tool => Ok(Entry::Resumed { message: None }),
            Role::Assistant if !is_open => Err(cannot(
                "there is nothing to resume: the model has answered; `send` says something new",
            )),
            // The vendor goes on with its own words only if they come last and unchanged.
            Role::Assistant if last.is_paused() => Ok(Entry::Resumed { message: None }),
            Role::Assistant => {
                let words = match self.phase {
                    Phase::Ended(Some(Outcome::Unsupported(item))) => format!(
                        "The program could not execute the `{item}` of your reply, and nothing of it \
                         has happened. Go on without it."
                    ),
                    _ => GO_ON.to_owned(),
                };
                Ok(Entry::Resumed { message: Some(Message::user(words)) })
            }
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
                self.tell(message)?;
                self.begun_at = begun_at;
                self.turns = 0;
                self.usage = Usage::default();
                self.phase = Phase::Asking;
            }
            Entry::Resumed { message } => {
                let due = self.resumption()?;
                let begun_at = self.transcript.messages().len();
                let ends_paused = self.transcript.messages().last().is_some_and(Message::is_paused);
                match (message, due) {
                    (None, Entry::Resumed { message: None }) => {}
                    // Earlier versions wrote a message after a pause, too.
                    (Some(message), Entry::Resumed { message: due })
                        if message.role() == Role::User && (due.is_some() || ends_paused) =>
                    {
                        self.tell(message)?;
                    }
                    _ => {
                        return Err(cannot(
                            "a run resumes with a message of the user exactly if the \
                             conversation ends with words of the model that broke off",
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
                    StopReason::Unsupported(item) => Then::End(Outcome::Unsupported(*item)),
                    StopReason::Paused => Then::Ask,
                };
                let called = if stop.lets_calls_run() { Then::Ask } else { ended };
                // How it ended goes with the message: what may be sent of it depends on that.
                let marked = match stop {
                    StopReason::Paused => message.as_ref().map(Message::paused),
                    StopReason::Refused => message.as_ref().map(Message::refused),
                    StopReason::Complete
                    | StopReason::ToolCalls
                    | StopReason::Truncated
                    | StopReason::Unsupported(_) => None,
                };
                self.said(marked.as_ref().or(message.as_ref()), called, ended)?;
                self.turns = self.turns.saturating_add(1);
                self.usage.add(usage);
                self.answered_by = Some((provider.clone(), model.clone()));
            }
            Entry::Interrupted { message, usage, cause } => {
                let outcome = match cause {
                    InterruptCause::Program => Outcome::Cancelled,
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
                let Status::Asked = self.call(call)?.status else {
                    return Err(cannot(format!("`{call}` was decided before")));
                };
                let status = match decision {
                    Decision::Allow { side_effects, .. } => Status::Allowed(*side_effects),
                    Decision::Deny { reason, .. } => Status::Finished(ToolResult::new(
                        call,
                        CallOutcome::Denied,
                        [ToolContent::Text(format!(
                            "This call was not allowed, so it did not run: {reason}"
                        ))],
                    )),
                };
                self.set(call, status);
                self.close()?;
            }
            Entry::CallStarted { call } => {
                let Status::Allowed(effects) = self.call(call)?.status else {
                    return Err(cannot(format!("`{call}` cannot start now")));
                };
                self.set(call, Status::Started(effects));
            }
            Entry::CallFinished { result } => {
                if let Status::Finished(_) = self.call(result.call_id())?.status {
                    return Err(cannot(format!("`{}` has a result already", result.call_id())));
                }
                self.set(result.call_id(), Status::Finished(result.clone()));
                self.close()?;
            }
            Entry::CallEnded { tool, result } => {
                let id = result.call_id();
                if !self.call_ids.contains(id) {
                    return Err(cannot(format!("there was no call `{id}` that could end")));
                }
                self.news.push(late_end(tool, result));
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
            Phase::Calling(Calling { calls, undecided, first_unfinished, .. }) => {
                if *undecided > 0 {
                    let asked = calls.iter().filter(|call| matches!(call.status, Status::Asked));
                    return Action::Decide(asked.map(|call| call.call.clone()).collect());
                }
                let open =
                    calls.iter().skip(*first_unfinished).filter_map(|call| match &call.status {
                        Status::Allowed(effects) => Some(((&call.call, true), *effects)),
                        Status::Started(effects) => Some(((&call.call, false), *effects)),
                        Status::Asked | Status::Finished(_) => None,
                    });
                // Those that have started hold up what may not run beside them.
                let batch = schedule::next_batch(open).into_iter();
                let waiting: Vec<ToolCall> =
                    batch.filter(|(_, waits)| *waits).map(|(call, _)| call.clone()).collect();
                match waiting.is_empty() {
                    true => Action::AwaitResults,
                    false => Action::RunCalls(waiting),
                }
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

    /// The call of this id, if it waits to be decided.
    pub(super) fn undecided(&self, id: &str) -> Option<&ToolCall> {
        let Phase::Calling(calling) = &self.phase else { return None };
        let call = calling.get(id)?;
        match call.status {
            Status::Asked => Some(&call.call),
            Status::Allowed(_) | Status::Started(_) | Status::Finished(_) => None,
        }
    }

    /// Whether this call is one of the conversation, and its end was not told yet.
    pub(super) fn wants_end_of(&self, ended: &CallIdentity) -> bool {
        let messages = self.transcript.messages();
        let is_it =
            |call: &ToolCall| *call.id() == *ended.call && call.fingerprint() == ended.fingerprint;
        // Another chat may have heard of it before this one went on from its transcript.
        let news = ended_call(&ended.tool, &ended.call);
        let tells = |block: &Block| match block {
            Block::Text(text) => text.text().contains(&news),
            Block::ToolResult(result) => result.as_text().contains(&news),
            _ => false,
        };
        messages.iter().flat_map(Message::calls).any(is_it)
            && !messages
                .iter()
                .filter(|message| message.role() != Role::Assistant)
                .any(|message| message.blocks().iter().any(tells))
    }

    /// How many calls of the last answer were decided, and how many it has.
    pub(super) fn decided(&self) -> (usize, usize) {
        let Phase::Calling(calling) = &self.phase else { return (0, 0) };
        (calling.calls.len().saturating_sub(calling.undecided), calling.calls.len())
    }

    /// The user's message joins the transcript, with the news that the model has not heard yet.
    fn tell(&mut self, message: &Message) -> Result<(), Error> {
        if self.news.is_empty() {
            return self.transcript.push(message.clone());
        }
        self.transcript.push(message.with_text(self.news.join("\n")))?;
        self.news.clear();
        Ok(())
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
                if message.calls().next().is_some() {
                    self.took(message);
                    self.phase = Phase::Calling(Calling::of(message, called));
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

    fn call(&self, id: &str) -> Result<&Call, Error> {
        let call = match &self.phase {
            Phase::Calling(calling) => calling.get(id),
            Phase::Asking | Phase::Ended(_) => None,
        };
        call.ok_or_else(|| cannot(format!("no call `{id}` waits for a result")))
    }

    fn set(&mut self, id: &str, status: Status) {
        if let Phase::Calling(calling) = &mut self.phase {
            calling.set(id, status);
        }
    }

    /// When every call has its result, they join the transcript as one message, in call order.
    fn close(&mut self) -> Result<(), Error> {
        let Phase::Calling(Calling { asked, calls, unfinished: 0, then, .. }) = &self.phase else {
            return Ok(());
        };
        let results = calls.iter().filter_map(|call| match &call.status {
            Status::Finished(result) => Some(result.clone()),
            Status::Asked | Status::Allowed(_) | Status::Started(_) => None,
        });
        let mut results: Vec<ToolResult> = results.collect();
        if let Some(last) = results.last_mut().filter(|_| !self.news.is_empty()) {
            let news = ToolContent::Text(self.news.join("\n"));
            let content = last.content().iter().cloned().chain([news]);
            *last = ToolResult::new(last.call_id(), last.outcome(), content);
        }
        let (message, then) = (Message::results_of(asked, results), *then);
        self.transcript.push(message)?;
        self.news.clear();
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

/// What the model is told of a call that has ended after it had been stopped.
fn late_end(tool: &str, result: &ToolResult) -> String {
    let id = result.call_id();
    let how = match result.outcome() {
        CallOutcome::Succeeded => "It ran to its end. Its result:",
        CallOutcome::InDoubt => "It may have partly run: check what it did. What is known:",
        _ => "It failed:",
    };
    format!("[{}. {how}\n{}]", ended_call(tool, id), result.as_text())
}

fn ended_call(tool: &str, call: &str) -> String {
    format!("From the program: the call `{call}` of `{tool}`, which was still running, has ended")
}

fn why(then: Then) -> String {
    if let Then::End(Outcome::Limit(Limit::UnknownCost)) = then {
        return "nobody knows what the run costs, and that is refused".to_owned();
    }
    if let Then::End(Outcome::Limit(limit)) = then {
        return format!("the run has reached its limit of {limit}");
    }
    if let Then::End(Outcome::Unsupported(item)) = then {
        return format!("the reply asked for `{item}`, too, which the program cannot execute");
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
