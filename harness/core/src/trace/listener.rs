//! Traits for code that receives the events of traces, for example to create spans and metrics.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::{Happened, Redactor, Trace};
use crate::{
    message::{CallOutcome, ToolResult},
    tool::DispatchOutcome,
    unwind::caught,
};

/// Receives the events of all runs, for example to create spans and metrics. Set a listener with [`Trace::listener`].
/// All runs with that trace share the listener.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
///
/// use harness::{
///     Agent,
///     testing::{ScriptedProvider, reply},
///     trace::{Happened, RunListener, Trace, TraceListener},
/// };
///
/// /// Counts the answers of models.
/// #[derive(Clone, Default)]
/// struct AnswerCount(Arc<AtomicUsize>);
///
/// impl TraceListener for AnswerCount {
///     fn listen(&self, _: &Trace) -> Box<dyn RunListener> {
///         Box::new(self.clone())
///     }
/// }
///
/// impl RunListener for AnswerCount {
///     fn happened(&mut self, what: &Happened) {
///         if let Happened::ModelReplied { .. } = what {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let count = AnswerCount::default();
/// let model = ScriptedProvider::new([reply().text("Hello.")]);
/// let agent = Agent::builder(model).trace(Trace::off().listener(count.clone())).build()?;
/// agent.run("Say hello.").await?;
/// assert_eq!(count.0.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait TraceListener: Send + Sync {
    /// Returns a listener. The library calls this method when a run begins, and before the first event of an opened
    /// conversation. A listener also receives the events after its run, such as answers to waiting calls. `trace` has
    /// the program's settings.
    fn listen(&self, trace: &Trace) -> Box<dyn RunListener>;
}

/// Receives the events of one run, in order. The run waits for each method, so a method must not block. If a method
/// panics, the listener receives no further events, and the run continues.
pub trait RunListener: Send + Sync {
    /// Receives an event. Secrets are already hidden in the event.
    fn happened(&mut self, what: &Happened);

    /// Whether this listener needs events at the moment. If this method returns false and the trace is
    /// [off](Trace::off), the library does not prepare events.
    fn is_listening(&self) -> bool {
        true
    }

    /// Called when a journal operation begins. `operation` is `append` or `hold`. At the end of the operation, the
    /// listener receives the event [`Appended`](Happened::Appended) or [`Hold`](Happened::Hold).
    fn operation_began(&mut self, operation: &'static str, journal: &str, conversation: &str) {
        let _ = (operation, journal, conversation);
    }

    /// Called for each chunk of the model's answer, before the library handles the chunk.
    fn chunk(&mut self) {}

    /// Returns the scope in which the library receives the answer of the current turn.
    fn answer_scope(&mut self) -> Option<Box<dyn TraceScope>> {
        None
    }

    /// Returns the scope in which this call runs. The library calls this method after the event
    /// [`CallStarted`](Happened::CallStarted) with the same call id.
    fn call_scope(&mut self, call: &str) -> Option<Box<dyn TraceScope>> {
        let _ = call;
        None
    }
}

/// A span for a piece of work, such as one call. Spans that this work creates become children of the span.
pub trait TraceScope: Send + Sync {
    /// Called when a thread begins or continues the work. The same thread calls [`leave`](Self::leave) when the work
    /// waits or ends.
    fn enter(&self);

    /// Called when the work waits or ends.
    fn leave(&self);

    /// Called when the call of this scope has ended. If the run stops the call, the library drops the scope and does
    /// not call this method.
    fn ended(&mut self, end: EndedCall<'_>) {
        let _ = end;
    }
}

/// How a call ended. The library passes this value to the scope of the call.
pub struct EndedCall<'a> {
    result: Option<&'a ToolResult>,
    words: Option<Box<(Redactor, String)>>,
}

impl EndedCall<'_> {
    /// The outcome of the call. `None` if the tool has asked a question and the call waits for the answer.
    pub fn outcome(&self) -> Option<CallOutcome> {
        self.result.map(ToolResult::outcome)
    }

    /// The text of the result, without secrets. `None` if [`content_in_spans`](Trace::content_in_spans) is not set, or
    /// if the call waits.
    pub fn text(&mut self) -> Option<String> {
        let (secrets, tool) = &mut **self.words.as_mut()?;
        Some(secrets.hide(&self.result?.to_text(), Some(tool)))
    }
}

impl fmt::Debug for EndedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndedCall").field("outcome", &self.outcome()).finish_non_exhaustive()
    }
}

/// The scope that a listener has returned, if any.
#[doc(hidden)]
#[derive(Default)]
pub struct SpanScope {
    pub(super) scope: Option<Box<dyn TraceScope>>,
    /// The filter for secrets in the call's result, and the name of the call's tool. `None` if the scope must not get
    /// the result's text.
    pub(super) words: Option<Box<(Redactor, String)>>,
}

impl fmt::Debug for SpanScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanScope").field("is_set", &self.scope.is_some()).finish_non_exhaustive()
    }
}

impl SpanScope {
    /// Runs the function inside of the scope. The agent's loop calls this method for each piece of an answer.
    #[inline]
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let _within = self.scope.as_deref().and_then(EnteredScope::of);
        work()
    }

    /// Runs a call inside of the scope, and then passes the outcome to the scope.
    pub async fn call<F: Future<Output = DispatchOutcome>>(self, run: F) -> DispatchOutcome {
        let Self { scope: Some(scope), words } = self else { return run.await };
        let mut running = ScopedCall { scope, run: Some(Box::pin(run)) };
        let ended = (&mut running).await;
        let result = match &ended {
            DispatchOutcome::Result(result) => Some(result),
            DispatchOutcome::Waits { .. } => None,
        };
        let _ = caught(|| running.scope.ended(EndedCall { result, words }));
        ended
    }
}

/// A scope that a thread has entered. Dropping this value leaves the scope.
struct EnteredScope<'a>(&'a dyn TraceScope);

impl<'a> EnteredScope<'a> {
    fn of(scope: &'a dyn TraceScope) -> Option<Self> {
        caught(|| scope.enter()).is_ok().then_some(Self(scope))
    }
}

impl Drop for EnteredScope<'_> {
    fn drop(&mut self) {
        let _ = caught(|| self.0.leave());
    }
}

/// A call whose future is polled and dropped inside of the scope.
struct ScopedCall<F> {
    scope: Box<dyn TraceScope>,
    run: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for ScopedCall<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { scope, run } = &mut *self;
        let _within = EnteredScope::of(&**scope);
        let Some(running) = run else { return Poll::Pending };
        let polled = running.as_mut().poll(context);
        if polled.is_ready() {
            *run = None;
        }
        polled
    }
}

impl<F> Drop for ScopedCall<F> {
    fn drop(&mut self) {
        if self.run.is_some() {
            let _within = EnteredScope::of(&*self.scope);
            self.run = None;
        }
    }
}
