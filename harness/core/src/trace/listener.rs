//! The traits of what listens to traces: spans and metrics of a monitoring system are made by it.

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

/// Listens to what happens in runs, for example to make spans and metrics of it. Set it with
/// [`Trace::listener`]; all runs with that trace share it.
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
    /// Begins to listen to a run, or to the events before it: opening the conversation, and answers
    /// between two runs. `trace` is the trace of the run.
    fn listen(&self, trace: &Trace) -> Box<dyn RunListener>;
}

/// Listens to one run. Its methods are called in the order of the events, by the task that drives the
/// run, so they must not block. If one panics, this listener gets no more of the run, and the run
/// continues.
pub trait RunListener: Send + Sync {
    /// Takes an event, in which secrets are hidden already.
    fn happened(&mut self, what: &Happened);

    /// Whether it needs the events at present. If not, and the trace is [off](Trace::off), they need not
    /// be prepared.
    fn is_listening(&self) -> bool {
        true
    }

    /// An operation of the journal begins: `append` or `hold`. The event of its end is
    /// [`Appended`](Happened::Appended) or [`Hold`](Happened::Hold).
    fn operation_began(&mut self, operation: &'static str, journal: &str, conversation: &str) {
        let _ = (operation, journal, conversation);
    }

    /// A piece of the answer arrived. It is called for each, before the event is handled.
    fn chunk(&mut self) {}

    /// The scope in which the answer of the turn that has begun is received.
    fn answer_scope(&mut self) -> Option<Box<dyn TraceScope>> {
        None
    }

    /// The scope in which this call runs. It is asked for behind the event
    /// [`CallStarted`](Happened::CallStarted), which has the same id.
    fn call_scope(&mut self, call: &str) -> Option<Box<dyn TraceScope>> {
        let _ = call;
        None
    }
}

/// A span in which code runs, so that spans of that code are below it.
pub trait TraceScope: Send + Sync {
    /// The thread begins to run the code. [`leave`](Self::leave) follows on the same thread, before the
    /// code waits.
    fn enter(&self);

    /// The thread stops to run the code.
    fn leave(&self);

    /// The call of this scope has ended. Without this the scope is dropped when the run stops the call.
    fn ended(&mut self, end: EndedCall<'_>) {
        let _ = end;
    }
}

/// How a call ended, for the scope in which it ran.
pub struct EndedCall<'a> {
    result: Option<&'a ToolResult>,
    words: Option<(Redactor, String)>,
}

impl EndedCall<'_> {
    /// The outcome. `None` if the tool has asked a question, so that the call waits for the answer.
    pub fn outcome(&self) -> Option<CallOutcome> {
        self.result.map(ToolResult::outcome)
    }

    /// The text of the result, without secrets. `None` unless
    /// [`content_in_spans`](Trace::content_in_spans) is set, or if the call waits.
    pub fn text(&mut self) -> Option<String> {
        let (secrets, tool) = self.words.as_mut()?;
        Some(secrets.hide(&self.result?.to_text(), Some(tool)))
    }
}

impl fmt::Debug for EndedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndedCall").field("outcome", &self.outcome()).finish_non_exhaustive()
    }
}

/// The place of a scope, where a listener may have given one.
#[doc(hidden)]
#[derive(Default)]
pub struct SpanScope {
    pub(super) scope: Option<Box<dyn TraceScope>>,
    /// Hides secrets in the text of a call's result, if the scope may have it, and the call's tool.
    pub(super) words: Option<(Redactor, String)>,
}

impl fmt::Debug for SpanScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanScope").field("is_set", &self.scope.is_some()).finish_non_exhaustive()
    }
}

impl SpanScope {
    /// Runs the function. The loop calls this for each piece of an answer.
    #[inline]
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let _within = self.scope.as_deref().and_then(EnteredScope::of);
        work()
    }

    /// Runs a call to its end, and then ends its scope.
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

/// Leaves the scope when it is dropped.
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

/// A call that runs and is dropped within its scope.
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
