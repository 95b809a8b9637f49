//! The function of `#[tool(reconcile = ..)]`: the parameters and return types that it may have, and how it runs.

use std::{
    convert::Infallible,
    fmt::Display,
    future::{pending, ready},
    marker::PhantomData,
};

use futures_util::FutureExt as _;
use tokio::runtime::Handle;

use super::{
    call::{CanBeSent, CannotBeSent},
    returned::IntoToolOutput,
};
use crate::tool::{ReconcileFuture, Reconciled, ToolError, off_loop::off_loop};

/// A function that `#[tool(reconcile = ..)]` can name. `Args` are the parameter types of the tool's function. `Form`
/// marks the return type, and is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot find out what became of a call",
    label = "this does not take what the tool's function takes, or does not return a `Reconciled`",
    note = "it takes the same parameters as the function of the tool, of the same types and in the same order, `&self` included; for the idempotency key let both take a `&ToolContext`",
    note = "it returns a `harness::tool::Reconciled`, whose `Happened` holds what the tool returns, or a `Result` of one with any error that displays; it may be `async`, with a future that is `Send`"
)]
pub trait FindsOut<Args, Form> {
    /// How the function runs: [`AsyncExecution`] or [`BlockingExecution`].
    type Mode;

    /// Starts to find out whether the call happened.
    fn find_out(self, args: Args) -> impl Future<Output = ReconcileResult> + Send;
}

/// Whether the call happened, or why the function could not find out.
type ReconcileResult = Result<Reconciled, ToolError>;

macro_rules! finds_out {
    ($($arg:ident $value:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<F, R, Form, $($arg),*> FindsOut<($($arg,)*), Form> for F
        where
            F: FnOnce($($arg),*) -> R,
            R: ReconcileReturn<Form>,
        {
            type Mode = R::Mode;

            fn find_out(self, ($($value,)*): ($($arg,)*)) -> impl Future<Output = ReconcileResult> + Send {
                self($($value),*).into_result()
            }
        }
    };
}
finds_out!();
finds_out!(A a);
finds_out!(A a B b);
finds_out!(A a B b C c);
finds_out!(A a B b C c D d);
finds_out!(A a B b C c D d E e);
finds_out!(A a B b C c D d E e G g);
finds_out!(A a B b C c D d E e G g H h);
finds_out!(A a B b C c D d E e G g H h I i);
finds_out!(A a B b C c D d E e G g H h I i J j);
finds_out!(A a B b C c D d E e G g H h I i J j K k);
finds_out!(A a B b C c D d E e G g H h I i J j K k L l);
finds_out!(A a B b C c D d E e G g H h I i J j K k L l M m);
finds_out!(A a B b C c D d E e G g H h I i J j K k L l M m N n);
finds_out!(A a B b C c D d E e G g H h I i J j K k L l M m N n O o);
finds_out!(A a B b C c D d E e G g H h I i J j K k L l M m N n O o P p);
finds_out!(A a B b C c D d E e G g H h I i J j K k L l M m N n O o P p Q q);

/// A return type that the function of `#[tool(reconcile = ..)]` may have.
pub trait ReconcileReturn<Form> {
    /// How the function runs: [`AsyncExecution`] or [`BlockingExecution`].
    type Mode;

    /// Returns whether the call happened.
    fn into_result(self) -> impl Future<Output = ReconcileResult> + Send;
}

/// Marks a function that is not async. `Form` marks its result.
#[derive(Debug)]
pub struct DirectReturn<Form>(PhantomData<Form>);

/// Marks a function that returns a future. `Form` marks the output of the future.
#[derive(Debug)]
pub struct FutureReturn<Form>(PhantomData<Form>);

impl<R: IntoReconciled<Form>, Form> ReconcileReturn<DirectReturn<Form>> for R {
    type Mode = BlockingExecution;

    fn into_result(self) -> impl Future<Output = ReconcileResult> + Send {
        ready(self.outcome())
    }
}

impl<F, Form> ReconcileReturn<FutureReturn<Form>> for F
where
    F: Future<Output: IntoReconciled<Form>> + Send,
{
    type Mode = AsyncExecution;

    async fn into_result(self) -> ReconcileResult {
        self.await.outcome()
    }
}

/// A type that states whether the call happened, possibly as a `Result`.
pub trait IntoReconciled<Form> {
    /// Returns whether the call happened.
    ///
    /// Fails if the function returned an error.
    fn outcome(self) -> ReconcileResult;
}

/// Marks a `Reconciled`. `Form` marks its value.
#[derive(Debug)]
pub struct ReconciledForm<Form>(PhantomData<Form>);

/// Marks a `Result`.
#[derive(Debug)]
pub struct MayFail<Form>(PhantomData<Form>);

impl<T: IntoToolOutput<Form>, Form> IntoReconciled<ReconciledForm<Form>> for Reconciled<T> {
    fn outcome(self) -> ReconcileResult {
        match self {
            Self::Happened(result) => result.into_output().map(Reconciled::Happened),
            Self::NotHappened => Ok(Reconciled::NotHappened),
        }
    }
}

impl<T: IntoToolOutput<Form>, E: Display, Form> IntoReconciled<MayFail<Form>>
    for Result<Reconciled<T>, E>
{
    fn outcome(self) -> ReconcileResult {
        self.map_err(|err| ToolError::new(err.to_string()))?.outcome()
    }
}

/// Marks an `async` function, which runs in the task of the agent.
#[derive(Clone, Copy, Debug)]
pub struct AsyncExecution;

/// Marks a function that may block. The function runs on a thread for blocking work.
#[derive(Clone, Copy, Debug)]
pub struct BlockingExecution;

/// Marks how a function runs. Only the type is used.
pub trait ExecutionMode {
    /// The only value of the type.
    const HERE: Self;

    /// Runs the function in the mode of this type.
    fn run(self, found: ReconcileFuture) -> ReconcileFuture;
}

impl ExecutionMode for AsyncExecution {
    const HERE: Self = Self;

    fn run(self, found: ReconcileFuture) -> ReconcileFuture {
        found
    }
}

impl ExecutionMode for BlockingExecution {
    const HERE: Self = Self;

    fn run(self, found: ReconcileFuture) -> ReconcileFuture {
        const CLOSING: &str = "the program is shutting down, or the function panicked";
        Box::pin(async move {
            let Ok(runtime) = Handle::try_current() else { return found.await };
            // This future runs the function, and never waits.
            match off_loop(&runtime, move || found.now_or_never()).await {
                Ok(Some(found)) => found,
                Ok(None) | Err(_) => Err(ToolError::new(CLOSING)),
            }
        })
    }
}

/// An uninhabited type. `#[tool]` expands to closures with a parameter of this type. rustc infers the return types of
/// the closures, which are never called.
#[derive(Clone, Copy, Debug)]
pub struct UninhabitedValue(Infallible);

impl UninhabitedValue {
    /// Returns a value of the type that the context requires.
    pub fn any<T>(self) -> T {
        match self.0 {}
    }

    /// Returns a value of the argument's type.
    pub fn like<T>(self, _: &T) -> T {
        match self.0 {}
    }
}

/// Stands for the types of the arguments with which a function is called.
#[derive(Debug)]
pub struct ArgumentTypes<Args>(PhantomData<fn() -> Args>);

/// Infers the types of the arguments with which a function is called.
pub fn argument_types<Args>(_: impl FnOnce(UninhabitedValue) -> Args) -> ArgumentTypes<Args> {
    ArgumentTypes(PhantomData)
}

impl<Args> ArgumentTypes<Args> {
    /// Infers how a function runs. The macro calls this method so that the compiler checks the trait bound.
    pub fn way<F, Form, W>(&self, _: F) -> W
    where
        F: FindsOut<Args, Form, Mode = W>,
        W: ExecutionMode,
    {
        W::HERE
    }
}

impl AsyncExecution {
    /// Calls the function.
    pub fn find_out<F: FindsOut<Args, Form>, Args, Form>(
        self,
        function: F,
        args: Args,
    ) -> impl Future<Output = ReconcileResult> + Send {
        function.find_out(args)
    }
}

impl BlockingExecution {
    /// Calls the function.
    pub fn find_out<F: FindsOut<Args, Form>, Args, Form>(
        self,
        function: F,
        args: Args,
    ) -> impl Future<Output = ReconcileResult> + Send {
        function.find_out(args)
    }
}

impl CanBeSent {
    /// Starts to find out whether a call happened.
    pub fn find_out(
        self,
        way: impl ExecutionMode,
        found: impl Future<Output = ReconcileResult> + Send + 'static,
    ) -> ReconcileFuture {
        way.run(Box::pin(found))
    }
}

impl CannotBeSent {
    /// Never runs, because the program does not compile.
    pub fn find_out(
        self,
        _: impl ExecutionMode,
        _: impl Future<Output = ReconcileResult>,
    ) -> ReconcileFuture {
        Box::pin(pending())
    }
}
