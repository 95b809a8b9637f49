//! Makes a stream of events of an async block that says them: how a provider around a provider is
//! written. What another stream says goes straight through, without waking the block.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use futures_core::Stream;

use super::{EventStream, StreamEvent, cut_off};
use crate::error::Error;

type Item = Result<StreamEvent, Error>;

/// The stream of what the block says. The block runs only while the stream is polled, and goes on
/// after an event only when the next one is wanted.
pub(crate) fn speak<'a, F>(block: impl FnOnce(Speaker<'a>) -> F) -> EventStream<'a>
where
    F: Future<Output = ()> + Send + 'a,
{
    let shared = Arc::new(Mutex::default());
    let running = Box::pin(block(Speaker(Arc::clone(&shared))));
    Box::pin(Speech { passing: None, complete: false, block: Some(Block { running, shared }) })
}

/// Says events.
pub(crate) struct Speaker<'a>(Arc<Mutex<Shared<'a>>>);

/// What the block and the stream hand to each other.
#[derive(Default)]
struct Shared<'a> {
    said: Option<Item>,
    /// A stream that is to speak for itself.
    passing: Option<EventStream<'a>>,
    /// That stream, back again.
    passed: Option<Passed<'a>>,
}

/// A stream that has spoken for itself.
pub(crate) struct Passed<'a> {
    pub(crate) stream: EventStream<'a>,
    /// What it said last, which has not been handed out: nothing, if it is at its end.
    pub(crate) item: Option<Item>,
    /// Whether the last event that was handed out completed the answer.
    pub(crate) complete: bool,
}

impl<'a> Speaker<'a> {
    /// Hands an event out, and waits until the next one is wanted.
    pub(crate) async fn say(&self, item: Item) {
        lock(&self.0).said = Some(item);
        let mut handed_out = false;
        // Pending without a waker: the stream is ready, and whoever wants more polls it.
        poll_fn(|_| match std::mem::replace(&mut handed_out, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Lets a stream speak for itself, until it fails, ends, or says something that is not part of
    /// the answer but of how it is come by.
    pub(crate) async fn pass_on(&self, stream: EventStream<'a>) -> Passed<'a> {
        lock(&self.0).passing = Some(stream);
        poll_fn(|_| match lock(&self.0).passed.take() {
            Some(passed) => Poll::Ready(passed),
            None => Poll::Pending,
        })
        .await
    }

    /// Leaves the rest to a stream, whatever it says. The block ends with it, so that nothing is
    /// held any more that it needed.
    pub(crate) fn leave_to(&self, stream: EventStream<'a>) {
        lock(&self.0).passing = Some(stream);
    }
}

fn lock<'s, 'a>(shared: &'s Mutex<Shared<'a>>) -> MutexGuard<'s, Shared<'a>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Speech<'a> {
    passing: Option<EventStream<'a>>,
    /// Whether the last event that was handed out completed the answer.
    complete: bool,
    block: Option<Block<'a>>,
}

struct Block<'a> {
    running: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    shared: Arc<Mutex<Shared<'a>>>,
}

impl Speech<'_> {
    fn hand_out(&mut self, item: Item) -> Poll<Option<Item>> {
        self.complete = matches!(item, Ok(StreamEvent::Completed { .. }));
        Poll::Ready(Some(item))
    }

    /// A stream that was passed on has said something that the block is to hear.
    fn hand_back(&mut self, item: Option<Item>) -> Option<Poll<Option<Item>>> {
        let stream = self.passing.take()?;
        match &self.block {
            Some(block) => {
                let complete = self.complete;
                lock(&block.shared).passed = Some(Passed { stream, item, complete });
                None
            }
            None => Some(match item {
                Some(Ok(event)) => {
                    self.passing = Some(stream);
                    self.hand_out(Ok(event))
                }
                Some(Err(error)) => Poll::Ready(Some(Err(error))),
                None if self.complete => Poll::Ready(None),
                None => Poll::Ready(Some(Err(cut_off()))),
            }),
        }
    }
}

impl Stream for Speech<'_> {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = &mut *self;
        loop {
            if let Some(stream) = &mut this.passing {
                match ready!(stream.as_mut().poll_next(context)) {
                    Some(Ok(event)) if is_of_the_answer(&event) => return this.hand_out(Ok(event)),
                    item => {
                        if let Some(heard) = this.hand_back(item) {
                            return heard;
                        }
                    }
                }
            }
            let Some(block) = &mut this.block else { return Poll::Ready(None) };
            let over = block.running.as_mut().poll(context).is_ready();
            let said = {
                let mut shared = lock(&block.shared);
                this.passing = shared.passing.take();
                shared.said.take()
            };
            if over {
                this.block = None;
            }
            match said {
                Some(item) => return this.hand_out(item),
                None if this.passing.is_some() => {}
                None if over => return Poll::Ready(None),
                None => return Poll::Pending,
            }
        }
    }
}

/// Whether an event is part of the answer, and not of how it is come by.
fn is_of_the_answer(event: &StreamEvent) -> bool {
    match event {
        StreamEvent::Retrying { .. }
        | StreamEvent::FallingBack { .. }
        | StreamEvent::AnsweredBy { .. }
        | StreamEvent::Discarded { .. } => false,
        StreamEvent::Started { .. }
        | StreamEvent::UsageSoFar(_)
        | StreamEvent::TextDelta { .. }
        | StreamEvent::Citation { .. }
        | StreamEvent::Image { .. }
        | StreamEvent::Audio { .. }
        | StreamEvent::ReasoningDelta { .. }
        | StreamEvent::ToolCallStart { .. }
        | StreamEvent::ToolCallDelta { .. }
        | StreamEvent::ToolCallArguments { .. }
        | StreamEvent::ToolCallEnd { .. }
        | StreamEvent::Vendor { .. }
        | StreamEvent::Completed { .. } => true,
    }
}
