//! Creates a stream from an async block that sends events. Providers that wrap other providers use this module. The
//! block can also pass on the events of another stream. While these events are passed on, the block is not polled.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use futures_core::Stream;

use super::{EventStream, StreamEvent, cut_off};
use crate::error::Error;

type EventItem = Result<StreamEvent, Error>;

/// Returns the stream of the events that the block sends. The block runs only while the stream is polled. After the
/// block has sent an event, it continues when the reader polls for the next event.
pub fn stream_events<'a, F>(block: impl FnOnce(EventSender<'a>) -> F) -> EventStream<'a>
where
    F: Future<Output = ()> + Send + 'a,
{
    let shared = Arc::new(Mutex::default());
    let running = Box::pin(block(EventSender(Arc::clone(&shared))));
    Box::pin(SentEvents {
        passing: None,
        complete: false,
        block: Some(SenderBlock { running, shared }),
    })
}

/// Sends events from the block to the stream.
pub struct EventSender<'a>(Arc<Mutex<SenderState<'a>>>);

impl fmt::Debug for EventSender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSender").finish_non_exhaustive()
    }
}

/// The state that the block and the stream share.
#[derive(Default)]
struct SenderState<'a> {
    said: Option<EventItem>,
    /// A stream whose events the block passes on.
    passing: Option<EventStream<'a>>,
    /// The stream from `passing`, returned to the block.
    passed: Option<ForwardedStream<'a>>,
}

/// A stream that was passed on, and that the block now gets back to handle the next item or the end of the stream.
pub struct ForwardedStream<'a> {
    /// The rest of the stream.
    pub stream: EventStream<'a>,
    /// The item that the block has to handle. The reader has not received this item. `None` if the stream has ended.
    pub item: Option<EventItem>,
    /// Whether the last event that was yielded completed the answer.
    pub complete: bool,
}

impl fmt::Debug for ForwardedStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardedStream").finish_non_exhaustive()
    }
}

impl<'a> EventSender<'a> {
    /// Sends an event, and waits until the reader polls for the next event.
    pub async fn send(&self, item: EventItem) {
        lock(&self.0).said = Some(item);
        let mut handed_out = false;
        // Returns pending without registering a waker. The stream yields the event, and the reader then polls the
        // stream for the next event.
        poll_fn(|_| match std::mem::replace(&mut handed_out, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Passes a stream's events through, until the stream fails, ends, or yields an event that is not part of the
    /// answer (a retry, a fallback, a withdrawn answer).
    pub async fn pass_on(&self, stream: EventStream<'a>) -> ForwardedStream<'a> {
        lock(&self.0).passing = Some(stream);
        poll_fn(|_| match lock(&self.0).passed.take() {
            Some(passed) => Poll::Ready(passed),
            None => Poll::Pending,
        })
        .await
    }

    /// Passes all further events of a stream through. The block should return after this call, so that the data of the
    /// block is freed.
    pub fn forward(&self, stream: EventStream<'a>) {
        lock(&self.0).passing = Some(stream);
    }
}

fn lock<'s, 'a>(shared: &'s Mutex<SenderState<'a>>) -> MutexGuard<'s, SenderState<'a>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct SentEvents<'a> {
    passing: Option<EventStream<'a>>,
    /// Whether the last event that was yielded completed the answer.
    complete: bool,
    block: Option<SenderBlock<'a>>,
}

struct SenderBlock<'a> {
    running: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    shared: Arc<Mutex<SenderState<'a>>>,
}

impl SentEvents<'_> {
    fn hand_out(&mut self, item: EventItem) -> Poll<Option<EventItem>> {
        self.complete = matches!(item, Ok(StreamEvent::Completed { .. }));
        Poll::Ready(Some(item))
    }

    /// Returns the stream in `passing` to the block, with the item that the block has to handle. If the block has
    /// ended, handles the item here and returns what the stream of events yields.
    fn hand_back(&mut self, item: Option<EventItem>) -> Option<Poll<Option<EventItem>>> {
        let stream = self.passing.take()?;
        match &self.block {
            Some(block) => {
                let complete = self.complete;
                lock(&block.shared).passed = Some(ForwardedStream { stream, item, complete });
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

impl Stream for SentEvents<'_> {
    type Item = EventItem;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<EventItem>> {
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

/// Whether an event is part of the answer. False for events about retries, fallbacks and withdrawn answers.
fn is_of_the_answer(event: &StreamEvent) -> bool {
    match event {
        StreamEvent::Retrying { .. }
        | StreamEvent::FallingBack { .. }
        | StreamEvent::AnsweredBy { .. }
        | StreamEvent::Discarded { .. } => false,
        StreamEvent::Started { .. }
        | StreamEvent::ParameterDropped { .. }
        | StreamEvent::ReasoningRefused { .. }
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
