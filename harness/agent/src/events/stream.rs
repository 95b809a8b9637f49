//! A run as a stream of its events. Polling the stream drives the run.

use std::{
    collections::VecDeque,
    fmt,
    future::{IntoFuture as _, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_core::Stream;

use super::{
    event::Event,
    event_json::EventBuf,
    numbered::{Numbered, run_name},
};
use crate::{Reply, Run, Stopped};

/// A run as a stream of its events. The last event is [`Event::RunEnded`] with the outcome.
/// [`finish`](Self::finish) returns the answer.
///
/// The run goes on only while the stream is polled: it has no task and no channel. If the stream is not polled,
/// the run does nothing. One poll takes up to 64 pieces of an answer, and the stream stores only the events of
/// one poll. Dropping the stream stops the run, as dropping the future of [`Run`] does.
#[must_use = "the run goes on only while its events are taken"]
pub struct Events<'a> {
    state: RunState<'a>,
    queue: EventQueue,
    name: Arc<str>,
    /// How many events the stream has returned.
    number: u64,
}

enum RunState<'a> {
    Going(Pin<Box<dyn Future<Output = Result<Reply, Stopped>> + Send + 'a>>),
    Ended(Box<Result<Reply, Stopped>>),
}

/// Events of the run that the stream has not returned yet.
#[derive(Clone, Default)]
struct EventQueue(Arc<Mutex<VecDeque<EventBuf>>>);

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<EventBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Events<'a> {
    pub(crate) fn of(run: Run<'a>) -> Self {
        let queue = EventQueue::default();
        let sender = queue.clone();
        let tell = move |event: Event<'_>| sender.lock().push_back(event.into_owned());
        let run = run.with_first_watcher(tell).with_pauses().into_future();
        Self { state: RunState::Going(run), queue, name: run_name(), number: 0 }
    }

    /// Drives the run to its end, discards the remaining events, and returns the answer.
    ///
    /// # Errors
    /// Fails if the run ended without an answer: see [`Stopped`].
    pub async fn finish(self) -> Result<Reply, Stopped> {
        let Self { state, queue, .. } = self;
        match state {
            RunState::Going(mut run) => {
                poll_fn(|context| {
                    let polled = run.as_mut().poll(context);
                    queue.lock().clear();
                    polled
                })
                .await
            }
            RunState::Ended(outcome) => *outcome,
        }
    }

    fn next_event(&mut self) -> Option<Numbered> {
        let event = self.queue.lock().pop_front()?;
        self.number = self.number.saturating_add(1);
        Some(Numbered::new(&self.name, self.number, event))
    }
}

impl Stream for Events<'_> {
    type Item = Numbered;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Numbered>> {
        let this = self.get_mut();
        loop {
            if let Some(numbered) = this.next_event() {
                return Poll::Ready(Some(numbered));
            }
            match &mut this.state {
                RunState::Going(run) => match run.as_mut().poll(context) {
                    Poll::Ready(outcome) => this.state = RunState::Ended(Box::new(outcome)),
                    Poll::Pending if this.queue.lock().is_empty() => return Poll::Pending,
                    Poll::Pending => {}
                },
                RunState::Ended(_) => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("run", &self.name)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<'a> Run<'a> {
    /// Turns the run into a stream of its events, each owned and numbered: see [`Events`]. Polling the stream
    /// drives the run. A function that was given to [`on_event`](Self::on_event) also gets the events.
    ///
    /// ```
    /// use futures_util::StreamExt as _;
    /// use harness::{Agent, agent::Event, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
    /// let mut events = agent.run("Say hello.").events();
    /// let mut shown = String::new();
    /// while let Some(numbered) = events.next().await {
    ///     println!("{}", serde_json::to_string(&numbered)?);
    ///     if let Event::Text(text) = numbered.event.as_event() {
    ///         shown.push_str(text);
    ///     }
    /// }
    /// assert_eq!(events.finish().await?.text(), shown);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn events(self) -> Events<'a> {
        Events::of(self)
    }
}
