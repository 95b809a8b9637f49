//! One answer of the model: asked for, shown as it arrives, written down.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{StreamExt as _, stream};
use tokio::task::coop::poll_proceed;

use super::{
    Event,
    bell::Bell,
    calls::AT_ONCE,
    early::{Early, begin},
    halt::{Told, warning_event},
    reports::{Report, Reports},
    run::{Run, tell},
};
use crate::{
    error::Error,
    journal::{Entry, InterruptCause},
    message::ToolCall,
    policy::{Guard, Verdict},
    provider::{Accumulator, ProviderResponse, Request, StreamEvent, cut_off},
    trace::Tracer,
};

/// So many events are taken one after the other, when they are there, before the program, the
/// clock and the tools are heard again.
const IN_A_ROW: u32 = 64;

/// What happens next while an answer is heard.
enum Next {
    Said(Option<Result<StreamEvent, Error>>),
    Told(Told),
    Reported(Report),
}

/// How the stream of an answer ended.
enum Heard {
    /// It came to its end, which may be too early.
    Out,
    /// The run is to stop.
    Stop(InterruptCause),
    /// It failed.
    Failed(Error),
}

impl Run<'_> {
    /// Asks the provider for one answer.
    pub(super) async fn ask(&mut self) -> Result<(), Error> {
        let Self { chat, early, reports, .. } = self;
        drop_early(early, reports, &mut chat.tracer, &mut chat.guard);
        self.contexts.clear();
        let turn = self.chat.machine.turns().saturating_add(1);
        self.chat.tracer.turn(turn);
        self.context = self.chat.meter.count(self.chat.machine.transcript().messages());
        self.chat.guard.asked();
        self.emit(Event::TurnStarted { turn });
        match self.hear().await? {
            Heard::Out => self.replied(turn),
            Heard::Stop(cause) => self.interrupted(cause),
            Heard::Failed(error) => self.interrupt(Some(error)),
        }
    }

    /// Reads the stream to its end, and starts the calls that may start while it goes on. The
    /// connection is closed when this returns.
    async fn hear(&mut self) -> Result<Heard, Error> {
        let Self { chat, watch, halt, over, answer, early, contexts, reports, ledger, .. } = self;
        let agent = chat.agent.clone();
        let request = Request::new(chat.machine.transcript())?
            .with_system(agent.system())
            .with_tools(agent.tools().schemas())
            .with_ledger(Some(ledger))
            .with_sent(Some(&chat.sent));
        let answer = answer.insert(Accumulator::avoiding(Arc::clone(chat.machine.call_ids())));
        let mut answering = agent.provider().stream(request);
        let mut began = false;
        let scope = chat.tracer.chat_scope();
        let listened = chat.tracer.wants_chunks();
        let program = halt.program();
        // One wait for the whole answer: to begin it anew with each event costs more than all the
        // rest of the event.
        let halted = stream::unfold(halt, async |halt| Some((halt.told().await, halt)));
        let mut halted = pin!(halted);
        let mut bell = Bell::new();
        let mut in_a_row = 0;
        loop {
            let others_first = in_a_row == 0 || (bell.rings() && program.is_cancelled());
            let next = poll_fn(|context| {
                // A stream that never pauses would leave nothing to other tasks, and a tool that
                // never does would leave nothing of this task's share to those asked here.
                if others_first {
                    ready!(poll_proceed(context)).made_progress();
                // What is here already is taken without asking all the others each time: that
                // costs more than the event itself.
                } else if let Poll::Ready(said) =
                    scope.within(|| answering.poll_next_unpin(context))
                {
                    return Poll::Ready(Next::Said(said));
                }
                // And they are asked only when one of them has something to say.
                if bell.has_rung(context) {
                    let others = &mut Context::from_waker(bell.waker());
                    let said = match halted.poll_next_unpin(others) {
                        Poll::Ready(told) => told.map(Next::Told),
                        Poll::Pending => None,
                    };
                    let said = said.or_else(|| match reports.poll(others) {
                        Poll::Ready(report) => Some(Next::Reported(report)),
                        Poll::Pending => None,
                    });
                    if let Some(said) = said {
                        // It may not be all, and those after it were not asked.
                        bell.ring();
                        return Poll::Ready(said);
                    }
                    early.poll(others);
                }
                if others_first {
                    return scope.within(|| answering.poll_next_unpin(context)).map(Next::Said);
                }
                Poll::Pending
            });
            let event = match next.await {
                Next::Said(event) => event,
                Next::Told(Told::Stop(cause)) => return Ok(Heard::Stop(cause)),
                Next::Told(Told::Warn(warning)) => {
                    chat.tracer.warning(&warning);
                    tell(watch, warning_event(&warning));
                    continue;
                }
                Next::Reported((call, message)) => {
                    chat.tracer.progress(&call, &message);
                    tell(watch, Event::ToolProgress { call: &call, message: &message });
                    continue;
                }
            };
            in_a_row = (in_a_row + 1) % IN_A_ROW;
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(error)) => return Ok(Heard::Failed(error)),
                None => return Ok(Heard::Out),
            };
            let is_word = !matches!(
                event,
                StreamEvent::Retrying { .. }
                    | StreamEvent::FallingBack { .. }
                    | StreamEvent::AnsweredBy { .. }
            );
            if listened && is_word {
                chat.tracer.chunk();
            }
            if is_word && !began {
                began = true;
                chat.tracer.answer_began();
            }
            if let Err(error) = answer.push(&event) {
                return Ok(Heard::Failed(error));
            }
            let written = match &event {
                StreamEvent::TextDelta { text, .. } => {
                    tell(watch, Event::Text(text));
                    None
                }
                StreamEvent::ReasoningDelta { text, .. } => {
                    tell(watch, Event::Reasoning(text));
                    None
                }
                StreamEvent::ToolCallDelta { block, json } if json.trim_end().ends_with('}') => {
                    answer.written_call(*block)
                }
                StreamEvent::ToolCallEnd { block } => answer.written_call(*block),
                StreamEvent::Retrying { attempt, of, wait, cause } => {
                    let (attempt, of, wait) = (*attempt, *of, *wait);
                    chat.tracer.retry(attempt, of, wait, cause);
                    tell(watch, Event::Retrying { attempt, of, wait, cause });
                    None
                }
                StreamEvent::FallingBack { from, to, cause } => {
                    chat.tracer.fall_back(from, to, cause);
                    tell(watch, Event::FallingBack { from, to, cause });
                    None
                }
                StreamEvent::Discarded { cause } => {
                    drop_early(early, reports, &mut chat.tracer, &mut chat.guard);
                    chat.tracer.discarded(cause);
                    tell(watch, Event::Discarded { cause });
                    None
                }
                StreamEvent::Started { .. }
                | StreamEvent::AnsweredBy { .. }
                | StreamEvent::ToolCallStart { .. }
                | StreamEvent::ToolCallDelta { .. }
                | StreamEvent::ToolCallArguments { .. }
                | StreamEvent::Vendor { .. }
                | StreamEvent::UsageSoFar(_)
                | StreamEvent::Completed { .. } => None,
            };
            let Some(call) = written else { continue };
            if !agent.starts_early() || early.len() >= AT_ONCE || early.has(call.id()) {
                continue;
            }
            let may_start = |call: &ToolCall| {
                agent.tools().get(call.name()).is_some_and(|tool| {
                    let effects = tool.side_effects();
                    effects.is_read_only()
                        && (chat.always.contains(call.name())
                            || agent.permissions().decide(call, effects) == Verdict::Allow)
                })
            };
            // What is read after a write must be read after it, so a call starts early only if
            // all calls before it could.
            let calls = answer.calls_up_to(&call);
            if calls.iter().all(may_start)
                && agent.tools().accepts(&call)
                && chat.guard.may_start_early(calls.len())
            {
                let scope = chat.tracer.call(&call, true);
                tell(watch, Event::ToolCall(&call));
                let (transcript, stop) = (chat.machine.transcript(), over.token());
                let context = contexts.make(transcript, &call, stop, reports.sender());
                early.push(begin(&agent, &call, context, scope), call);
                // It begins when it is polled, which is now.
                bell.ring();
                in_a_row = 0;
            }
        }
    }

    /// Writes down the answer, if it came to its end.
    fn replied(&mut self, turn: u32) -> Result<(), Error> {
        let Some(answer) = self.answer.take_if(|answer| answer.is_complete()) else {
            return self.interrupt(Some(cut_off()));
        };
        let ProviderResponse { message, stop, usage, id, model, provider } = answer.finish()?;
        self.context = self.context.measured(&usage);
        self.chat.tracer.answer(self.context, id);
        let asked = self.chat.agent.provider();
        let entry = Entry::ModelReplied {
            message,
            stop,
            usage,
            provider: provider.unwrap_or_else(|| asked.name().to_owned()),
            model: model.unwrap_or_else(|| asked.model().to_owned()),
        };
        self.chat.record(&entry)?;
        self.emit(Event::TurnEnded { turn, stop, usage: &usage });
        Ok(())
    }
}

/// Forgets the calls that have started of an answer that does not count, with all that they still
/// had to say.
fn drop_early(early: &mut Early, reports: &mut Reports, tracer: &mut Tracer, guard: &mut Guard) {
    for call in early.calls() {
        tracer.dropped(call);
        guard.dropped();
    }
    early.clear();
    reports.clear();
}
