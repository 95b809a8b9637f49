//! The stream of one answer. Decodes the bytes from the socket, and enforces the timeouts.

use std::{
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use futures_core::Stream;
use reqwest::header::HeaderMap;
use tokio::{
    task::coop::unconstrained,
    time::{Instant, Sleep, sleep_until},
};

use super::{
    Timeouts,
    timeouts::{after, from},
};
use crate::wire::AnswerDecoder;
use harness_core::{
    error::{Error, ErrorKind},
    provider::StreamEvent,
};

/// The limits, in bytes and in time, for reading the rest of a response after the answer is complete. A connection can
/// be used again only if its response was read to the end.
const REST: (usize, Duration) = (64 * 1024, Duration::from_millis(100));

/// How long the server may be silent after the stop reason before the answer ends. The program can set another time.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// The stream reads at most this many chunks without an event in a row. Then it lets other tasks run.
const IN_A_ROW: u32 = 8;

/// The chunks of a response body.
pub(super) type AnswerBody = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

pub(super) struct AnswerStream {
    decoder: Box<dyn AnswerDecoder>,
    /// `None` after the end of the body, or after a failure.
    body: Option<AnswerBody>,
    /// Bytes that have arrived and are not decoded yet.
    bytes: Bytes,
    /// The first event, if `wait_for_start` has read it and `poll_next` has not returned it yet.
    first: Option<StreamEvent>,
    /// Events that the client itself adds before the answer, in reverse order.
    ahead: Vec<StreamEvent>,
    /// The id of the answer, from the headers of the response.
    id: Option<String>,
    timeouts: Timeouts,
    /// How long the server may be silent after the stop reason before the answer ends.
    silence: Duration,
    /// The number of events decoded when the deadline was last set.
    heard: u64,
    /// The number of comments decoded when the deadline was last set.
    comments: u64,
    /// The deadline for the next event.
    until: Instant,
    /// The deadline for the whole answer.
    whole: Instant,
    /// Whether the last read returned `Pending`. If so, the timer is set, and the deadline needs no separate check.
    waited: bool,
    /// The timer, which ends at `rings`.
    alarm: Pin<Box<Sleep>>,
    /// When the timer ends. Never later than the next deadline.
    rings: Instant,
    /// The task that the timer wakes. The timer is polled again only if it has ended or if another task waits.
    wakes: Option<Waker>,
    failed: bool,
    /// The error, until `poll_next` returns it.
    error: Option<Error>,
    /// The number of bytes read after the end of the answer.
    rest: usize,
    waits_for_rest: bool,
}

impl AnswerStream {
    /// Creates a stream that reads the answer from `body`. `body` is `None` if the decoder already has the whole
    /// answer.
    pub(super) fn new(
        decoder: Box<dyn AnswerDecoder>,
        body: Option<AnswerBody>,
        headers: &HeaderMap,
        timeouts: Timeouts,
        until: Instant,
        whole: Instant,
    ) -> Box<Self> {
        let id = ["request-id", "x-request-id"].iter().find_map(|name| headers.get(*name));
        let id = id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        // Boxed, because the futures that hand the stream on would each have room for all of it.
        Box::new(Self {
            decoder,
            body,
            bytes: Bytes::new(),
            first: None,
            ahead: Vec::new(),
            id,
            timeouts,
            silence: SILENCE,
            heard: 0,
            comments: 0,
            until,
            whole,
            waited: false,
            alarm: Box::pin(sleep_until(until)),
            rings: until,
            wakes: None,
            failed: false,
            error: None,
            rest: 0,
            waits_for_rest: false,
        })
    }

    /// Sets how long the server may be silent after the stop reason before the answer ends.
    pub(super) fn with_silence(mut self: Box<Self>, silence: Duration) -> Box<Self> {
        self.silence = silence;
        self
    }

    /// Puts these events, which are not part of the answer, before the first event of the answer.
    pub(super) fn behind(mut self: Box<Self>, mut events: Vec<StreamEvent>) -> Box<Self> {
        events.reverse();
        self.ahead = events;
        self
    }

    /// Reads the first event, and fails if the stream begins with an error.
    pub(super) async fn wait_for_start(mut self: Box<Self>) -> Result<Box<Self>, Error> {
        let first = poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await;
        self.first = first.transpose()?;
        Ok(self)
    }

    /// The next event from the bytes that have arrived.
    fn pull(&mut self) -> Result<Option<StreamEvent>, Error> {
        let mut bytes = &*self.bytes;
        let event = self.decoder.pull(&mut bytes);
        let left = bytes.len();
        if left == 0 {
            // The socket reader can use this memory again only after it is released here.
            self.bytes = Bytes::new();
        } else {
            self.bytes.advance(self.bytes.len().saturating_sub(left));
        }
        event
    }

    /// Waits for more bytes.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(body) = &mut self.body else { return Poll::Ready(self.decoder.finish()) };
        // The timer is not set while a server sends without a pause, so the deadline is checked here.
        if !mem::replace(&mut self.waited, false) && Instant::now() >= self.whole {
            return Poll::Ready(self.run_out());
        }
        let came = match body.as_mut().poll_next(context) {
            Poll::Ready(came) => came,
            Poll::Pending => {
                self.waited = true;
                ready!(self.poll_alarm(context));
                return Poll::Ready(self.run_out());
            }
        };
        if let Some(Ok(bytes)) = came {
            self.bytes = bytes;
            return Poll::Ready(Ok(()));
        }
        self.body = None;
        // The error reports the broken connection, unless the answer is complete or the decoder reports another error.
        Poll::Ready(match (came, self.decoder.finish()) {
            (Some(Err(err)), Err(end)) if end.kind() == ErrorKind::CutOff => Err(broken(err)),
            (_, end) => end,
        })
    }

    /// Handles an expired timeout: an answer that has a stop reason ends, and any other answer fails.
    fn run_out(&mut self) -> Result<(), Error> {
        if self.decoder.has_stopped() {
            self.body = None;
            return self.decoder.finish_stopped();
        }
        Err(self.timeouts.ran_out(self.whole, self.decoder.heard()))
    }

    /// Restarts the timeout after a new event, and returns whether the timeout has expired. Before the first event,
    /// comments also restart the timeout: a server sends comments while its model reads a long prompt.
    fn is_over(&mut self, now: Instant) -> bool {
        if self.heard == 0 && self.decoder.comments() > self.comments {
            self.comments = self.decoder.comments();
            self.until = from(now, self.timeouts.first_event).min(self.whole);
        }
        if self.decoder.heard() > self.heard {
            self.heard = self.decoder.heard();
            let pause = self.timeouts.between_events;
            // Some servers send a stop reason with each chunk, so the stop reason of the first event does not count.
            let has_stopped = self.decoder.has_stopped() && self.heard > 1;
            let pause = if has_stopped { pause.min(self.silence) } else { pause };
            self.until = from(now, pause).min(self.whole);
        }
        now >= self.until
    }

    /// Waits until the timeout has expired. The timer may end too early, because an extra wake-up is cheaper than
    /// resetting the timer with each event.
    fn poll_alarm(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = Instant::now();
            if self.is_over(now) {
                return Poll::Ready(());
            }
            let is_set = now < self.rings && self.rings <= self.until;
            if is_set && self.wakes.as_ref().is_some_and(|who| who.will_wake(context.waker())) {
                return Poll::Pending;
            }
            if !is_set {
                self.rings = self.until;
                self.alarm.as_mut().reset(self.rings);
            }
            // This poll ignores the task's budget. If the budget were used up, tokio would not poll the timer, and the
            // timer would not wake the task.
            if pin!(unconstrained(self.alarm.as_mut())).poll(context).is_pending() {
                self.wakes = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
    }

    /// Reads the bytes after the answer, so that the connection can be used again.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(body) = &mut self.body {
            match body.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(bytes))) if self.rest < REST.0 => {
                    self.rest = self.rest.saturating_add(bytes.len());
                }
                Poll::Ready(_) => self.body = None,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

impl Stream for AnswerStream {
    type Item = Result<StreamEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        // The events in `ahead` are returned before `first`, so `ahead` is empty if `first` is empty.
        if this.first.is_some()
            && let Some(next) = this.ahead.pop().or_else(|| this.first.take())
        {
            return Poll::Ready(Some(Ok(next)));
        }
        let mut in_a_row = 0;
        loop {
            let step = match this.pull() {
                Ok(Some(event)) => {
                    if this.decoder.is_complete() {
                        // The end of the body has usually arrived by now. Reading it here frees the connection even if
                        // nobody polls this stream again.
                        let _ = this.poll_rest(&mut Context::from_waker(Waker::noop()));
                    }
                    return Poll::Ready(Some(Ok(event)));
                }
                // Events that were decoded before a failure are returned before the error.
                Ok(None) if this.failed => return Poll::Ready(this.error.take().map(Err)),
                Ok(None) if this.decoder.is_complete() => {
                    if this.poll_rest(context).is_pending() {
                        if !mem::replace(&mut this.waits_for_rest, true) {
                            (this.heard, this.until) = (this.decoder.heard(), after(REST.1));
                        }
                        ready!(this.poll_alarm(context));
                        this.body = None;
                    }
                    return Poll::Ready(None);
                }
                // A server that sends bytes without events must neither suspend the timeout nor block other tasks.
                Ok(None) if in_a_row == IN_A_ROW => {
                    if !this.is_over(Instant::now()) {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    this.run_out()
                }
                Ok(None) => {
                    in_a_row += 1;
                    ready!(this.poll_read(context))
                }
                Err(err) => Err(err),
            };
            if let Err(err) = step {
                this.failed = true;
                this.body = None;
                let id = this.id.take().filter(|_| err.request_id().is_none());
                this.error = Some(match id {
                    Some(id) => err.with_request_id(id),
                    None => err,
                });
            }
        }
    }
}

/// The error of a response body that broke off.
pub(super) fn broken(err: reqwest::Error) -> Error {
    let err = err.without_url();
    let text = format!("the connection broke before the answer was complete: {}", root(&err));
    Error::new(ErrorKind::CutOff, text).with_source(err)
}

/// The message of the root cause of an error, such as the system's message.
pub(super) fn root(err: &(dyn std::error::Error + 'static)) -> String {
    let mut root = err;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::{FutureExt as _, StreamExt as _, stream};
    use tokio::{
        task::coop::{has_budget_remaining, poll_proceed},
        time::{sleep, timeout},
    };

    use super::*;
    use crate::wire::anthropic;
    use harness_core::provider::ResponseSizeLimits;

    const MINUTE: Duration = Duration::from_secs(60);

    const WORDS: &str = "data: {\"type\":\"content_block_delta\",\"index\":0,\
        \"delta\":{\"type\":\"text_delta\",\"text\":\"la\"}}\n\n";

    /// An answer whose server sends `piece` without end.
    fn endless(piece: &'static str) -> Box<AnswerStream> {
        of(stream::repeat_with(move || Ok(Bytes::from_static(piece.as_bytes()))))
    }

    /// An answer whose server sends `body`.
    fn of(body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static) -> Box<AnswerStream> {
        let timeouts =
            Timeouts { first_event: MINUTE, between_events: MINUTE, ..Timeouts::default() };
        let (until, whole) = (after(timeouts.first_event), after(timeouts.whole_call));
        let decoder = Box::new(anthropic::decoder(ResponseSizeLimits::default()));
        AnswerStream::new(decoder, Some(Box::pin(body)), &HeaderMap::new(), timeouts, until, whole)
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_all_the_time_and_says_nothing_runs_out_of_time() {
        for piece in ["", ": no end of line", "\n\n", "data: {\"type\":\"ping\"}\n\n"] {
            let mut answer = endless(piece);
            assert!(answer.next().now_or_never().is_none(), "others run, too");
            tokio::time::advance(MINUTE).await;
            let err = answer.next().now_or_never().flatten().unwrap().unwrap_err();
            assert_eq!(err.message(), "the server said nothing for 60s", "{piece:?}");
            assert!(answer.next().await.is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_comes_to_an_end_runs_out_of_time() {
        let unknown = "data: {\"type\":\"something\"}\n\n";
        for piece in [WORDS, unknown, ": still here\n\n"] {
            let mut answer = endless(piece);
            let mut steps = 0;
            let err = loop {
                match answer.next().now_or_never() {
                    None => {}
                    Some(heard) => match heard.unwrap() {
                        Err(err) => break err,
                        Ok(event) => assert!(matches!(event, StreamEvent::TextDelta { .. })),
                    },
                }
                tokio::time::advance(MINUTE / 2).await;
                steps += 1;
                assert!(steps <= 120, "it goes on for ever");
            };
            assert_eq!(err.message(), "the answer was not complete after 3600s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_runs_from_the_last_event_for_whoever_waits() {
        let mut answer = of(stream::iter(0..4).then(async |at| {
            let wait = if at < 3 { MINUTE / 3 * 2 } else { MINUTE * 60 };
            sleep(wait).await;
            Ok(Bytes::from_static(WORDS.as_bytes()))
        }));
        let begun = Instant::now();
        for _ in 0..3 {
            // The first poll comes from another task, which is dropped.
            assert!(answer.next().now_or_never().is_none());
            assert!(matches!(answer.next().await, Some(Ok(StreamEvent::TextDelta { .. }))));
        }
        assert!(answer.next().now_or_never().is_none());
        let err = answer.next().await.unwrap().unwrap_err();
        assert_eq!(err.message(), "the answer stopped coming: no event for 60s");
        assert_eq!(begun.elapsed().as_secs(), 180);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_is_set_by_a_task_that_has_used_up_its_share() {
        let mut answer = of(stream::pending());
        let begun = Instant::now();
        poll_fn(|context| {
            while has_budget_remaining() {
                if let Poll::Ready(share) = poll_proceed(context) {
                    share.made_progress();
                }
            }
            assert!(answer.poll_next_unpin(context).is_pending());
            Poll::Ready(())
        })
        .await;
        let rang = timeout(MINUTE * 2, answer.next()).await.expect("an answer");
        assert_eq!(rang.unwrap().unwrap_err().message(), "the server said nothing for 60s");
        assert_eq!(begun.elapsed().as_secs(), 60, "nobody woke the task");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_is_given_back_before_it_waits() {
        let piece = Bytes::from(WORDS.as_bytes().to_vec());
        let mut held = piece.clone();
        let mut answer = of(stream::iter([Ok(piece)]).chain(stream::pending()));
        assert!(matches!(answer.next().await, Some(Ok(StreamEvent::TextDelta { .. }))));
        assert!(answer.next().now_or_never().is_none());
        held = held.try_into_mut().map(Bytes::from).expect("the answer still holds it");
        assert_eq!(held, WORDS.as_bytes());
    }
}
