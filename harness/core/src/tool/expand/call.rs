//! A call of a tool that `#[tool]` declares: decodes the arguments and collects all their faults. The function runs
//! only if the arguments have no faults.

use std::{
    any::Any,
    fmt,
    future::{Pending, pending, ready},
    panic::resume_unwind,
    sync::Arc,
};

use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::{declared::TypedParam, param::ParamOrigin};
use crate::{
    tool::{
        ReconcileFuture, ToolContext, ToolDef, ToolError, ToolFuture, ToolOutput,
        detached_threads::ToolThread, off_loop::off_loop,
    },
    unwind::caught,
};

/// The value whose method is the tool.
pub(in crate::tool) type MethodReceiver = Arc<dyn Any + Send + Sync>;

/// A call of a tool that `#[tool]` declares.
pub struct DeclaredCall {
    context: ToolContext,
    arguments: Map<String, Value>,
    def: &'static ToolDef,
    receiver: Option<MethodReceiver>,
    problems: Vec<String>,
    broken: Option<String>,
}

impl DeclaredCall {
    pub(in crate::tool) fn new(
        context: ToolContext,
        arguments: Map<String, Value>,
        def: &'static ToolDef,
        receiver: Option<MethodReceiver>,
    ) -> Self {
        Self { context, arguments, def, receiver, problems: Vec::new(), broken: None }
    }

    /// Decodes and returns the value of a parameter. If the value is faulty, records the fault and returns `None`.
    pub fn take<T>(&mut self, param: &TypedParam<T>) -> Option<T> {
        let def = &param.def;
        let decode = match &param.origin {
            ParamOrigin::Model { decode, .. } => *decode,
            ParamOrigin::Host { supply, .. } => {
                return supply(&self.context).map_err(|reason| self.broken = Some(reason)).ok();
            }
        };
        // `shift_remove` keeps the order of the other arguments.
        let value = self.arguments.shift_remove(def.name);
        let taken = def.read(decode, value, self.def.checker().ok()).and_then(|read| {
            match (read, param.default, def.default) {
                (Some(value), ..) => Ok(value),
                (None, Some(default), _) => Ok(default()),
                (None, None, default) => decode(default.and_then(|default| default()).as_ref())
                    .map_err(|misfit| {
                        let reason = misfit.0;
                        format!("the default of the tool itself does not fit: {reason}").into()
                    }),
            }
        });
        taken.map_err(|misfit| self.problems.push(misfit.0.below(def.name).line())).ok()
    }

    /// Whether all parameters were decoded without a fault. Call this method after all parameters were taken.
    pub fn is_valid(&mut self) -> bool {
        self.problems.is_empty() && self.broken.is_none()
    }

    /// Returns an error that lists all faults of the arguments.
    pub fn refusal(self) -> ToolFuture {
        Box::pin(ready(Err(self.wrong())))
    }

    /// Reports that the arguments do not fit, so that it is unknown whether the call happened. Lists all faults.
    pub fn unknown(self) -> ReconcileFuture {
        Box::pin(ready(Err(self.wrong())))
    }

    fn wrong(self) -> ToolError {
        match self.broken {
            Some(reason) if self.problems.is_empty() => ToolError::new(reason),
            Some(_) | None => ToolError::BadArguments(self.problems),
        }
    }

    /// The value whose method is called.
    pub fn receiver(&self) -> SharedReceiver {
        SharedReceiver(self.receiver.clone())
    }

    /// Runs an async function.
    pub fn run(
        self,
        run: impl Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    ) -> ToolFuture {
        Box::pin(run)
    }

    /// Runs a function that may block: on the runtime's threads for blocking work, so that async tasks are not delayed,
    /// or on the current thread if no runtime exists.
    pub fn block(
        self,
        run: impl FnOnce() -> Result<ToolOutput, ToolError> + Send + 'static,
    ) -> ToolFuture {
        let thread = self.context.identity().cloned();
        let thread =
            thread.map(|identity| ToolThread::of(identity, self.context.secrets().clone()));
        // The function cannot be stopped, so it holds the permit until it returns.
        let permit = self.context.permit();
        let run = move || {
            let _permit = permit;
            run()
        };
        on_thread_for_blocking(thread, Box::new(run))
    }
}

/// Runs a boxed function on a thread for blocking work. Because of the box, this code is compiled only once for all
/// tools.
fn on_thread_for_blocking(
    thread: Option<Arc<ToolThread>>,
    run: Box<dyn FnOnce() -> Result<ToolOutput, ToolError> + Send>,
) -> ToolFuture {
    const CLOSING: &str = "the program is shutting down, so the tool was not started";
    Box::pin(async move {
        let Ok(runtime) = Handle::try_current() else { return run() };
        let left = ListedOnDrop(thread.clone());
        // If this future is dropped, a function that has not started yet never starts.
        let ended = off_loop(&runtime, move || {
            if thread.as_ref().is_some_and(|thread| !thread.begin()) {
                return Ok(Err(ToolError::new(CLOSING)));
            }
            let ended = caught(run);
            if let Some(thread) = &thread {
                thread.ended(&ended);
            }
            ended
        })
        .await;
        drop(left);
        match ended {
            Ok(Ok(ended)) => ended,
            // Passes the panic on to `dispatch`, which turns every panic into a result.
            Ok(Err(panicked)) => resume_unwind(Box::new(panicked.into_words())),
            Err(_) => Err(ToolError::new(CLOSING)),
        }
    })
}

/// On drop, lists the function as still running if it has not returned.
struct ListedOnDrop(Option<Arc<ToolThread>>);

impl Drop for ListedOnDrop {
    fn drop(&mut self) {
        if let Some(thread) = &self.0 {
            thread.left();
        }
    }
}

impl fmt::Debug for DeclaredCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

/// The value whose method is called. The field is `None` for a function that is not a method.
#[derive(Debug)]
pub struct SharedReceiver(Option<MethodReceiver>);

/// A type whose methods can be tools.
#[diagnostic::on_unimplemented(
    message = "the methods of `{Self}` cannot be tools",
    label = "several calls may use the value at once, on any thread",
    note = "all that is in it must be `Send + Sync + 'static`: take a `Mutex` or an atomic in place of a `Cell` or `RefCell`, `Arc` in place of `Rc`, and own what is borrowed"
)]
pub trait ShareableValue: Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> ShareableValue for T {}

/// Wraps the value whose methods become tools. The macro calls this function so that the compiler checks the trait
/// bound.
pub fn share<T: ShareableValue>(value: &Arc<T>) -> SharedReceiver {
    let receiver: MethodReceiver = Arc::<T>::clone(value);
    SharedReceiver(Some(receiver))
}

impl SharedReceiver {
    pub(in crate::tool) fn of(receiver: Option<MethodReceiver>) -> Self {
        Self(receiver)
    }

    pub(in crate::tool) fn receiver(&self) -> Option<MethodReceiver> {
        self.0.clone()
    }

    /// Returns the value with its original type.
    ///
    /// # Panics
    /// Never, because `#[toolset]` calls this function with the original type.
    #[expect(clippy::expect_used, reason = "`#[toolset]` makes the value and the method together")]
    pub fn get<T: 'static>(&self) -> &T {
        let value = self.0.as_deref().and_then(|value| value.downcast_ref());
        value.expect("a method is called with the value that it was made for")
    }
}

/// The arguments of a call. The tool may run on another thread, so the compiler finds out from the type whether the
/// arguments can be sent to that thread.
#[derive(Debug)]
pub struct CarriedArguments<T>(pub T);

impl<T: Send + 'static> CarriedArguments<T> {
    /// Selected by the compiler if the arguments can be sent to another thread.
    pub fn __harness_way(&self) -> CanBeSent {
        CanBeSent
    }
}

/// The fallback of [`CarriedArguments`] for all types that cannot be sent. The compiler reports such a type at the
/// position where the user's code names the type. This fallback prevents a second error for the code that sends the
/// arguments.
pub trait NotSent {
    /// Selected by the compiler if the arguments cannot be sent to another thread.
    fn __harness_way(&self) -> CannotBeSent {
        CannotBeSent
    }
}

impl<T> NotSent for CarriedArguments<T> {}

/// Means that the arguments can be sent to another thread.
#[derive(Clone, Copy, Debug)]
pub struct CanBeSent;

impl CanBeSent {
    /// Stops the build, at the name of the function, if the function's future is not `Send`.
    pub fn is_send<F: Future + Send>(self, future: F) -> F {
        future
    }

    /// Runs an async function.
    pub fn run<T, F>(
        self,
        call: DeclaredCall,
        carried: CarriedArguments<T>,
        run: impl FnOnce(T) -> F,
    ) -> ToolFuture
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        call.run(run(carried.0))
    }

    /// Runs a function that may block.
    pub fn block<T: Send + 'static>(
        self,
        call: DeclaredCall,
        carried: CarriedArguments<T>,
        run: impl FnOnce(T) -> Result<ToolOutput, ToolError> + Send + 'static,
    ) -> ToolFuture {
        call.block(move || run(carried.0))
    }
}

/// Means that the arguments cannot be sent to another thread. The methods of this type never run, because the program
/// does not compile.
#[derive(Clone, Copy, Debug)]
pub struct CannotBeSent;

impl CannotBeSent {
    /// Accepts any future, so that no second error is reported.
    pub fn is_send<F: Future>(self, _: F) -> Pending<F::Output> {
        pending()
    }

    /// Never runs, because the program does not compile.
    pub fn run<T, F>(
        self,
        call: DeclaredCall,
        _: CarriedArguments<T>,
        _: impl FnOnce(T) -> F,
    ) -> ToolFuture
    where
        F: Future<Output = Result<ToolOutput, ToolError>>,
    {
        call.refusal()
    }

    /// Never runs, because the program does not compile.
    pub fn block<T>(
        self,
        call: DeclaredCall,
        _: CarriedArguments<T>,
        _: impl FnOnce(T) -> Result<ToolOutput, ToolError>,
    ) -> ToolFuture {
        call.refusal()
    }
}
