//! One answer of the model: asked for, shown as it arrives, written down.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{StreamExt as _, stream};
use tokio::{task::coop::poll_proceed, time::Instant};

use super::{
    Event,
    bell::Bell,
    calls::AT_ONCE,
    early::begin,
    halt::{Told, warning_event},
    reports::Report,
    run::Run,
};
use crate::{
    error::{Error, ErrorKind},
    journal::{Entry, InterruptCause},
    message::ToolCall,
    provider::{
        Accumulator, EventStream, Provider, ProviderResponse, Request, StreamEvent, cut_off,
    },
    unwind::{Panicked, caught, dropped},
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
        let Self {
            chat, watch, halt, over, answer, early, contexts, reports, shown, ledger, ..
        } = self;
        let agent = chat.agent.clone();
        let request = Request::new(chat.machine.transcript())?
            .with_system(agent.system())
            .with_tools(agent.tools().schemas())
            .with_forms(agent.tools().forms())
            .with_ledger(Some(ledger))
            .with_sent(Some(chat.idle.sent()));
        let answer = answer.insert(Accumulator::avoiding(Arc::clone(chat.machine.call_ids())));
        let mut answering = Answering::of(agent.provider(), request);
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
                } else if let Poll::Ready(said) = scope.within(|| answering.poll_next(context)) {
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
                    return scope.within(|| answering.poll_next(context)).map(Next::Said);
                }
                Poll::Pending
            });
            let event = match next.await {
                Next::Said(event) => event,
                Next::Told(Told::Stop(cause)) => return Ok(Heard::Stop(cause)),
                Next::Told(Told::Warn(warning)) => {
                    chat.tracer.warning(&warning);
                    watch.tell(warning_event(&warning));
                    continue;
                }
                Next::Reported((call, message)) => {
                    chat.tracer.progress(&call, &message);
                    watch.tell(Event::ToolProgress { call: &call, message: &message });
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
                    | StreamEvent::UsageSoFar(_)
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
                    watch.tell(Event::Text(text));
                    None
                }
                StreamEvent::Citation { citation, .. } => {
                    watch.tell(Event::Citation(citation));
                    None
                }
                StreamEvent::Image { image, .. } => {
                    watch.tell(Event::Image(image));
                    None
                }
                StreamEvent::ReasoningDelta { text, .. } => {
                    watch.tell(Event::Reasoning(text));
                    None
                }
                StreamEvent::ToolCallDelta { block, json } if json.trim_end().ends_with('}') => {
                    answer.written_call(*block)
                }
                StreamEvent::ToolCallEnd { block } => answer.written_call(*block),
                StreamEvent::Retrying { attempt, of, wait, refused: _, cause } => {
                    let cause = &*agent.secrets().hide(cause);
                    let (attempt, of, wait) = (*attempt, *of, *wait);
                    chat.tracer.retry(attempt, of, wait, cause);
                    watch.tell(Event::Retrying { attempt, of, wait, cause });
                    None
                }
                StreamEvent::FallingBack { from, to, cause } => {
                    let cause = &*agent.secrets().hide(cause);
                    chat.tracer.fall_back(from, to, cause);
                    watch.tell(Event::FallingBack { from, to, cause });
                    None
                }
                StreamEvent::Discarded { cause } => {
                    let cause = &*agent.secrets().hide(cause);
                    reports.clear();
                    for call in early.count(|_| None).1 {
                        chat.tracer.dropped(&call);
                        chat.guard.dropped();
                        shown.retain(|(shown, _)| shown.id() != call.id());
                        watch.tell(Event::ToolDropped { call: &call });
                    }
                    chat.tracer.discarded(cause);
                    watch.tell(Event::Discarded { cause });
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
            if let Some(error) = watch.fault() {
                return Ok(Heard::Failed(error));
            }
            let Some(call) = written else { continue };
            if !agent.starts_early() || early.len() >= AT_ONCE || early.has(call.id()) {
                continue;
            }
            let asking = chat.asking(&agent);
            let Some(decision) = asking.at_once(&call) else { continue };
            let may_start = |call: &ToolCall| asking.at_once(call).is_some();
            // What is read after a write must be read after it, so a call starts early only if
            // all calls before it could.
            let Some(calls) = answer.count_up_to(&call, may_start) else { continue };
            let tools = agent.tools();
            let is_ready = tools.accepts(&call) && !tools.may_be_filled(&call);
            if is_ready && chat.guard.starts_early(calls) {
                let scope = chat.tracer.call(&call, true);
                watch.tell(Event::ToolCall(&call));
                shown.push((call.clone(), Instant::now()));
                let (transcript, stop) = (chat.machine.transcript(), over.token());
                let (tool, reporter) = (agent.tools().get(call.name()), reports.reporter());
                let context = contexts.make(transcript, &call, tool, stop, reporter);
                early.push(begin(&agent, &call, context, scope), call, decision);
                // Futures are lazy: it starts when it is polled, in the next round.
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
        let (asked, asked_model) = self.chat.agent.answers();
        let entry = Entry::ModelReplied {
            message,
            stop,
            usage,
            provider: provider.unwrap_or_else(|| asked.to_owned()),
            // The server names its model, and that is no word of the model.
            model: self
                .chat
                .agent
                .secrets()
                .hide(&model.unwrap_or_else(|| asked_model.to_owned()))
                .into_owned(),
        };
        let recorded = self.chat.record(&entry);
        recorded.and(self.count_early())?;
        self.emit(Event::TurnEnded { turn, stop, usage: &usage });
        Ok(())
    }
}

/// The stream of an answer. It is the program's own code: a panic in it is a failure of the answer.
struct Answering<'a>(Option<EventStream<'a>>);

impl<'a> Answering<'a> {
    fn of(provider: &'a dyn Provider, request: Request<'a>) -> Self {
        Self(match caught(|| provider.stream(request)) {
            Ok(stream) => Some(stream),
            Err(panicked) => Some(Box::pin(stream::iter([Err(fault(&panicked))]))),
        })
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamEvent, Error>>> {
        let Some(stream) = &mut self.0 else { return Poll::Ready(None) };
        match caught(|| stream.poll_next_unpin(context)) {
            Ok(polled) => polled,
            Err(panicked) => {
                dropped(self.0.take());
                Poll::Ready(Some(Err(fault(&panicked))))
            }
        }
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        dropped(self.0.take());
    }
}

fn fault(panicked: &Panicked) -> Error {
    Error::new(ErrorKind::Panicked, format!("the provider {panicked}"))
}
