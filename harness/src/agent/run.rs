//! The driver: does what the machine says and writes down what happened. However it ends, also by
//! being dropped or by a panic, the conversation can be sent afterwards and tells the truth.

use std::time::Duration;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    Action, Chat, Event, Outcome, Reply, Stopped, machine::stopped, permit::denial, sending::Watch,
};
use crate::{
    error::Error,
    journal::{Decision, Entry, InterruptCause},
    message::{CallOutcome, Message, ToolCall, ToolContent, ToolResult},
    provider::{Accumulator, ProviderResponse, Request, StreamEvent, Usage, cut_off},
    tool::SideEffects,
};

/// Calls of one batch that run at the same time.
const AT_ONCE: usize = 8;

/// How long a tool that was told to stop may take to do so.
const GRACE: Duration = Duration::from_millis(100);

/// One run, from a message of the user to its end.
pub(super) struct Run<'a> {
    chat: &'a mut Chat,
    watch: Option<Box<Watch<'a>>>,
    cancellation: CancellationToken,
    /// What has arrived of the answer that is being given.
    answer: Option<Accumulator>,
    /// The first thing that failed.
    error: Option<Error>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        chat: &'a mut Chat,
        watch: Option<Box<Watch<'a>>>,
        cancellation: CancellationToken,
    ) -> Self {
        Self { chat, watch, cancellation, answer: None, error: None }
    }

    pub(super) async fn drive(mut self, message: Message) -> Result<Reply, Stopped> {
        let outcome = match self.chat.record(&Entry::UserSaid { message }) {
            Ok(()) => self.go().await,
            Err(error) => self.fail(error),
        };
        let usage = self.chat.machine.usage();
        self.emit(Event::RunEnded { outcome, usage: &usage });
        self.result(outcome)
    }

    async fn go(&mut self) -> Outcome {
        loop {
            let done = match self.chat.machine.next() {
                Action::CallProvider => self.ask().await,
                Action::Decide(calls) => self.decide(&calls).await,
                Action::RunCalls(calls) => self.call(&calls).await,
                Action::Settle(facts) => self.settle(facts),
                Action::Finish(outcome) => return outcome,
                // Not met: a run begins with a message, and a batch is awaited before this is asked.
                Action::AwaitUser | Action::AwaitResults => self.interrupt(None),
            };
            if let Err(error) = done {
                return self.fail(error);
            }
        }
    }

    /// Asks the provider for one answer.
    async fn ask(&mut self) -> Result<(), Error> {
        let Self { chat, watch, cancellation, answer, .. } = self;
        let turn = chat.machine.turns().saturating_add(1);
        tell(watch, Event::TurnStarted { turn });
        let agent = chat.agent.clone();
        let request = Request::new(chat.machine.transcript())?
            .with_system(agent.system())
            .with_tools(agent.tools().schemas());
        let answer = answer.insert(Accumulator::default());
        let mut stream = agent.provider().stream(request);
        let failure = loop {
            let event = tokio::select! {
                biased;
                () = cancellation.cancelled() => break Some(None),
                event = stream.next() => event,
            };
            match event {
                Some(Ok(event)) => {
                    match &event {
                        StreamEvent::TextDelta { text, .. } => tell(watch, Event::Text(text)),
                        StreamEvent::ReasoningDelta { text, .. } => {
                            tell(watch, Event::Reasoning(text));
                        }
                        StreamEvent::Started { .. }
                        | StreamEvent::ToolCallStart { .. }
                        | StreamEvent::ToolCallDelta { .. }
                        | StreamEvent::ToolCallEnd { .. }
                        | StreamEvent::Vendor { .. }
                        | StreamEvent::UsageSoFar(_)
                        | StreamEvent::Completed { .. } => {}
                    }
                    if let Err(error) = answer.push(&event) {
                        break Some(Some(error));
                    }
                }
                Some(Err(error)) => break Some(Some(error)),
                None => break None,
            }
        };
        drop(stream);
        match failure {
            Some(failure) => self.interrupt(failure),
            None => self.replied(turn),
        }
    }

    /// Writes down the answer, if it came to its end.
    fn replied(&mut self, turn: u32) -> Result<(), Error> {
        let Some(answer) = self.answer.take_if(|answer| answer.is_complete()) else {
            return self.interrupt(Some(cut_off()));
        };
        let ProviderResponse { message, stop, usage, id: _, model } = answer.finish()?;
        let provider = self.chat.agent.provider();
        let entry = Entry::ModelReplied {
            message,
            stop,
            usage,
            provider: provider.name().to_owned(),
            model: model.unwrap_or_else(|| provider.model().to_owned()),
        };
        self.chat.record(&entry)?;
        self.emit(Event::TurnEnded { turn, stop, usage: &usage });
        Ok(())
    }

    /// Decides which calls may run, one after the other.
    async fn decide(&mut self, calls: &[ToolCall]) -> Result<(), Error> {
        let agent = self.chat.agent.clone();
        for call in calls {
            let id = call.id().to_owned();
            // A call of a tool that does not exist does nothing but answer with the names.
            let Some(tool) = agent.tools().get(call.name()) else {
                let decision = Decision::Allow { side_effects: SideEffects::NONE };
                self.chat.record(&Entry::CallDecided { call: id, decision })?;
                continue;
            };
            let side_effects = tool.side_effects();
            let denial = tokio::select! {
                biased;
                () = self.cancellation.cancelled() => return self.interrupt(None),
                denial = denial(&agent, &mut self.chat.always, call, side_effects) => denial,
            };
            let Some(reason) = denial else {
                let decision = Decision::Allow { side_effects };
                self.chat.record(&Entry::CallDecided { call: id, decision })?;
                continue;
            };
            self.emit(Event::ToolDenied { call, reason: &reason });
            let stop = agent.permissions().stops_on_denial();
            if stop {
                self.interrupted(InterruptCause::Denial { call: id.clone() })?;
            }
            let decision = Decision::Deny { reason };
            self.chat.record(&Entry::CallDecided { call: id, decision })?;
            if stop {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs the calls of one batch.
    async fn call(&mut self, calls: &[ToolCall]) -> Result<(), Error> {
        let agent = self.chat.agent.clone();
        let stop = self.cancellation.child_token();
        // A tool on a thread of its own hears of the end of the run only by this token.
        let _stop_at_the_end = stop.clone().drop_guard();
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel::<(String, String)>();
        let start = |call: &ToolCall| {
            let said = said.clone();
            let id = call.id().to_owned();
            let context = agent.context().for_call(call.id()).with_cancellation(stop.clone());
            let context = context.with_watch(move |message| {
                // Nobody listens any more once the run is over.
                let _ = said.send((id.clone(), message.to_owned()));
            });
            let (agent, call) = (agent.clone(), call.clone());
            async move {
                let begun = Instant::now();
                let result = agent.tools().dispatch(&call, &context).await;
                (call, result, begun.elapsed())
            }
        };
        let mut waiting = calls.iter();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_ONCE {
                let Some(call) = waiting.next() else { break };
                self.chat.record(&Entry::CallStarted { call: call.id().to_owned() })?;
                self.emit(Event::ToolCall(call));
                running.push(start(call));
            }
            tokio::select! {
                biased;
                () = self.cancellation.cancelled() => break,
                Some((call, message)) = heard.recv() => {
                    self.emit(Event::ToolProgress { call: &call, message: &message });
                }
                ended = running.next() => match ended {
                    Some((call, result, elapsed)) => self.called(&call, result, elapsed)?,
                    None => return Ok(()),
                },
            }
        }
        let until = Instant::now() + GRACE;
        while let Ok(Some((call, result, elapsed))) = timeout_at(until, running.next()).await {
            let effects = agent.tools().get(call.name()).map(|tool| tool.side_effects());
            let result = stopped_result(result, effects.unwrap_or_default());
            self.called(&call, result, elapsed)?;
        }
        drop(running);
        self.interrupt(None)
    }

    fn called(
        &mut self,
        call: &ToolCall,
        result: ToolResult,
        elapsed: Duration,
    ) -> Result<(), Error> {
        self.emit(Event::ToolResult { call, result: &result, elapsed });
        self.chat.record(&Entry::CallFinished { result })
    }

    /// Writes down that the run was stopped, by a failure or by the program.
    fn interrupt(&mut self, failure: Option<Error>) -> Result<(), Error> {
        let cause = match &failure {
            Some(error) => InterruptCause::Failure { error: error.to_string() },
            None => InterruptCause::Program,
        };
        if self.error.is_none() {
            self.error = failure;
        }
        self.interrupted(cause)
    }

    fn interrupted(&mut self, cause: InterruptCause) -> Result<(), Error> {
        let (message, usage) = match self.answer.take() {
            Some(answer) => {
                let usage = answer.usage();
                (answer.into_partial(), usage)
            }
            None => (None, Usage::default()),
        };
        self.chat.record(&Entry::Interrupted { message, usage, cause })
    }

    fn settle(&mut self, facts: Vec<Entry>) -> Result<(), Error> {
        facts.iter().try_for_each(|fact| self.chat.record(fact))
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
        let facts: Vec<Entry> = self.chat.machine.settlement().collect();
        for fact in &facts {
            let _ = self.chat.record(fact);
        }
    }

    fn result(&mut self, outcome: Outcome) -> Result<Reply, Stopped> {
        let machine = &self.chat.machine;
        let (transcript, begun_at) = (machine.transcript().clone(), machine.begun_at());
        let (usage, turns) = (machine.usage(), machine.turns());
        match outcome {
            Outcome::Answered => Ok(Reply::new(transcript, begun_at, usage, turns)),
            Outcome::TurnLimit
            | Outcome::Truncated
            | Outcome::Refused
            | Outcome::Interrupted
            | Outcome::Denied
            | Outcome::Failed => {
                let error = self.error.take();
                Err(Stopped::new(outcome, error, transcript, begun_at, usage, turns))
            }
        }
    }

    fn emit(&mut self, event: Event<'_>) {
        tell(&mut self.watch, event);
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

fn tell(watch: &mut Option<Box<Watch<'_>>>, event: Event<'_>) {
    if let Some(watch) = watch {
        watch(event);
    }
}

/// A tool that ended because it was told to stop did not run to its end: what it says of itself
/// is kept, after the truth.
fn stopped_result(result: ToolResult, effects: SideEffects) -> ToolResult {
    if result.outcome() != CallOutcome::Failed {
        return result;
    }
    let (outcome, truth) = stopped(effects);
    let content = std::iter::once(ToolContent::Text(truth)).chain(result.content().iter().cloned());
    ToolResult::new(result.call_id(), outcome, content)
}
