//! The driver: does what the machine says and writes down what happened. However it ends, also by
//! being dropped or by a panic, the conversation can be sent afterwards and tells the truth.

use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Action, Chat, Event, Outcome, Reply, Stopped,
    calls::Contexts,
    early::Early,
    halt::{Halt, warning_event},
    outcome::Remains,
    reports::Reports,
    sending::{Opening, Stops, Watch},
};
use crate::{
    error::Error,
    journal::{Decision, Entry, InterruptCause},
    message::Message,
    policy::{LimitReached, Warning},
    provider::{Accumulator, ContextTokens, Ledger, Usage},
    trace::{Cast, Happened},
};

/// One run, from a message of the user to its end. `turn` asks the model, `calls` runs what it
/// asks for.
pub(super) struct Run<'a> {
    pub(super) chat: &'a mut Chat,
    pub(super) watch: Option<Box<Watch<'a>>>,
    /// What may stop the run from outside.
    pub(super) halt: Halt,
    /// Cancelled by the program to stop the run when the turn is over.
    after_turn: CancellationToken,
    /// Cancelled when the run is over, for tools on threads of their own hear of it only so.
    pub(super) over: DropGuard,
    /// What has arrived of the answer that is being given.
    pub(super) answer: Option<Accumulator>,
    /// Calls of that answer which have started already.
    pub(super) early: Early,
    pub(super) contexts: Contexts,
    /// What running tools say of how far they have come.
    pub(super) reports: Reports,
    /// What failures have cost this run.
    pub(super) ledger: Ledger,
    /// The first thing that failed.
    error: Option<Error>,
    /// The limit that stopped the run.
    limit: Option<LimitReached>,
    /// What the last request was made of.
    pub(super) context: ContextTokens,
    /// Whether the run came to its end, rather than being dropped.
    ended: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        chat: &'a mut Chat,
        watch: Option<Box<Watch<'a>>>,
        stops: Stops,
        tool_time: Option<Duration>,
    ) -> Self {
        let Stops { now: cancellation, after_turn } = stops;
        let over = cancellation.child_token().drop_guard();
        let halt = Halt::new(cancellation, &chat.guard);
        let contexts = Contexts::new(chat, tool_time);
        Self {
            chat,
            watch,
            halt,
            after_turn,
            over,
            answer: None,
            early: Early::default(),
            contexts,
            reports: Reports::default(),
            ledger: Ledger::default(),
            error: None,
            limit: None,
            context: ContextTokens::default(),
            ended: false,
        }
    }

    pub(super) async fn drive(mut self, opening: Opening) -> Result<Reply, Stopped> {
        self.trace_begin(&opening);
        let fact = match opening {
            Opening::Say(message) => Ok(Entry::UserSaid { message }),
            Opening::Resume => self.chat.machine.resumption(),
        };
        let outcome = match fact.and_then(|fact| self.chat.record(&fact)) {
            Ok(()) => self.go().await,
            Err(error) => self.fail(error),
        };
        let usage = self.chat.machine.usage();
        self.trace_end(outcome);
        self.emit(Event::RunEnded { outcome, usage: &usage });
        self.result(outcome)
    }

    async fn go(&mut self) -> Outcome {
        loop {
            self.warn();
            let guard = &self.chat.guard;
            let done = match self.chat.machine.next() {
                Action::CallProvider if self.enough() => self.interrupt(None),
                Action::CallProvider => match guard.before_turn() {
                    Some(reached) => self.interrupted(reached.into()),
                    None => self.ask().await,
                },
                Action::Decide(calls) => {
                    let (calls, surplus) = calls.split_at(guard.of_one_answer(calls.len()));
                    match guard.before_calls(calls.len()) {
                        Some(reached) => self.interrupted(reached.into()),
                        None => match self.refuse(surplus) {
                            Ok(()) => self.decide(calls).await,
                            failed => failed,
                        },
                    }
                }
                Action::RunCalls(calls) => self.call(&calls).await,
                Action::Settle(_) => self.settle(),
                // Of an answer that is not kept, calls may have started early.
                Action::Finish(outcome) => match self.settle() {
                    Ok(()) => return outcome,
                    failed => failed,
                },
                // Not met: a run begins with a message, and a batch is awaited to its end.
                Action::AwaitUser | Action::AwaitResults => self.interrupt(None),
            };
            if let Err(error) = done {
                return self.fail(error);
            }
        }
    }

    /// Whether the program wants no further turn.
    fn enough(&self) -> bool {
        self.chat.machine.turns() > 0 && self.after_turn.is_cancelled()
    }

    /// Tells the program of limits that are near or cannot be held.
    fn warn(&mut self) {
        for warning in self.chat.guard.warnings() {
            self.warned(&warning);
        }
    }

    pub(super) fn warned(&mut self, warning: &Warning) {
        self.chat.tracer.warning(warning);
        tell(&mut self.watch, warning_event(warning));
    }

    fn trace_begin(&mut self, opening: &Opening) {
        let agent = self.chat.agent.clone();
        let said = match opening {
            Opening::Say(message) => Some(message),
            Opening::Resume => None,
        };
        let transcript = self.chat.transcript().clone();
        let conversation = transcript.messages().first().or(said).map(Message::id);
        let cast = Cast {
            provider: agent.provider().name(),
            model: agent.provider().model(),
            tools: agent.tools().tools().iter().map(|tool| tool.name().to_owned()).collect(),
            conversation,
        };
        self.chat.tracer.begin(cast, said);
    }

    fn trace_end(&mut self, outcome: Outcome) {
        let machine = &self.chat.machine;
        let ended = Happened::RunEnded {
            outcome: outcome.to_string(),
            answered: outcome == Outcome::Answered,
            turns: machine.turns(),
            usage: machine.usage(),
            cost: self.chat.guard.cost(),
        };
        self.chat.tracer.end(ended);
        self.ended = true;
    }

    /// Writes down that the run was stopped, by a failure or by the program.
    pub(super) fn interrupt(&mut self, failure: Option<Error>) -> Result<(), Error> {
        let cause = match &failure {
            Some(error) => InterruptCause::Failure { error: error.to_string() },
            None => InterruptCause::Program,
        };
        if self.error.is_none() {
            self.error = failure;
        }
        self.interrupted(cause)
    }

    pub(super) fn interrupted(&mut self, cause: InterruptCause) -> Result<(), Error> {
        if let InterruptCause::Limit { limit, detail } = &cause {
            self.limit = Some(LimitReached { limit: *limit, detail: detail.clone() });
        }
        let (message, usage) = match self.answer.take() {
            Some(answer) => {
                let usage = answer.usage();
                (answer.into_partial(), usage)
            }
            None => (None, Usage::default()),
        };
        self.chat.record(&Entry::Interrupted { message, usage, cause })
    }

    /// Writes down the truth about every call that has no result.
    fn settle(&mut self) -> Result<(), Error> {
        let Self { chat, early, contexts, .. } = self;
        for (call, result) in early.drain() {
            let Some(tool) = chat.agent.tools().get(call.name()) else { continue };
            let decision = Decision::Allow { side_effects: tool.side_effects() };
            let id = call.id().to_owned();
            // Of a call that was not kept, or has its result, there is no fact to tell.
            if chat.record(&Entry::CallDecided { call: id.clone(), decision }).is_err() {
                chat.tracer.dropped(&call);
                chat.guard.dropped();
                continue;
            }
            chat.record(&Entry::CallStarted { call: id })?;
            if let Some(result) = result {
                chat.record(&Entry::CallFinished { result })?;
            }
        }
        let facts: Vec<Entry> = chat.machine.settlement().collect();
        for fact in facts {
            let fact = match fact {
                Entry::CallFinished { result } => {
                    let result = contexts.with_output_so_far(&chat.agent, result);
                    Entry::CallFinished { result }
                }
                other => other,
            };
            chat.record(&fact)?;
        }
        Ok(())
    }

    /// Ends the run because something failed.
    fn fail(&mut self, error: Error) -> Outcome {
        if self.error.is_none() {
            self.error = Some(error);
        }
        self.close();
        Outcome::Failed
    }

    /// Leaves a conversation that can be sent, whatever was going on. Failures to write it down
    /// are passed over: the first error is already on its way, or nobody waits for one.
    fn close(&mut self) {
        let going = match self.chat.machine.next() {
            Action::AwaitUser | Action::Finish(_) | Action::Settle(_) => false,
            Action::CallProvider
            | Action::Decide(_)
            | Action::RunCalls(_)
            | Action::AwaitResults => true,
        };
        if going {
            let error = self.error.take();
            let _ = self.interrupt(error);
        }
        let _ = self.settle();
    }

    fn result(&mut self, outcome: Outcome) -> Result<Reply, Stopped> {
        let machine = &self.chat.machine;
        let mut remains = Remains::of(machine.transcript().clone(), machine.begun_at());
        (remains.usage, remains.turns) = (machine.usage(), machine.turns());
        remains.cost = self.chat.guard.cost();
        remains.context = self.context;
        remains.trace = self.chat.tracer.run();
        match outcome {
            Outcome::Answered => {
                Ok(Reply::new(remains).answered_by(self.chat.machine.answered_by()))
            }
            Outcome::Limit(_)
            | Outcome::Truncated
            | Outcome::Refused
            | Outcome::Interrupted
            | Outcome::Denied
            | Outcome::Failed => {
                let (error, limit) = (self.error.take(), self.limit.take());
                Err(Stopped::new(outcome, error, limit, remains))
            }
        }
    }

    pub(super) fn emit(&mut self, event: Event<'_>) {
        tell(&mut self.watch, event);
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.close();
        if !self.ended {
            self.trace_end(Outcome::Interrupted);
        }
    }
}

/// Shows an event to the watcher, if there is one.
pub(super) fn tell(watch: &mut Option<Box<Watch<'_>>>, event: Event<'_>) {
    if let Some(watch) = watch {
        watch(event);
    }
}
