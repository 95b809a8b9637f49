//! The function of `#[tool(reconcile = ..)]`: what it may take and return, and how it is run.

use std::{
    convert::Infallible,
    fmt::Display,
    future::{pending, ready},
    marker::PhantomData,
};

use futures_util::FutureExt as _;
use tokio::runtime::Handle;

use super::{
    call::{OnDrop, Sent, Unsent},
    returned::IntoToolOutput,
};
use crate::tool::{ReconcileFuture, Reconciled, ToolError};

/// A function that `#[tool(reconcile = ..)]` can name. `Args` are the parameters of the tool's function;
/// `Form` says what it returns and is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot find out what became of a call",
    label = "this does not take what the tool's function takes, or does not return a `Reconciled`",
    note = "it takes the same parameters as the function of the tool, of the same types and in the same order, `&self` included; for the idempotency key let both take a `&ToolContext`",
    note = "it returns a `harness::tool::Reconciled`, whose `Happened` holds what the tool returns, or a `Result` of one with any error that displays; it may be `async`, with a future that is `Send`"
)]
pub trait FindsOut<Args, Form> {
    /// Where it runs.
    type Way;

    /// Begins to find it out.
    fn find_out(self, args: Args) -> impl Future<Output = Said> + Send;
}

/// What became of a call.
type Said = Result<Reconciled, ToolError>;

macro_rules! finds_out {
    ($($arg:ident $value:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<F, R, Form, $($arg),*> FindsOut<($($arg,)*), Form> for F
        where
            F: FnOnce($($arg),*) -> R,
            R: Answers<Form>,
        {
            type Way = R::Way;

            fn find_out(self, ($($value,)*): ($($arg,)*)) -> impl Future<Output = Said> + Send {
                self($($value),*).said()
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

/// What such a function may return.
pub trait Answers<Form> {
    /// Where the function runs.
    type Way;

    /// What became of the call.
    fn said(self) -> impl Future<Output = Said> + Send;
}

/// Says that it is there at once, in this form.
#[derive(Debug)]
pub struct AtOnce<Form>(PhantomData<Form>);

/// Says that it comes later, in this form.
#[derive(Debug)]
pub struct Awaited<Form>(PhantomData<Form>);

impl<R: Outcome<Form>, Form> Answers<AtOnce<Form>> for R {
    type Way = Blocking;

    fn said(self) -> impl Future<Output = Said> + Send {
        ready(self.outcome())
    }
}

impl<F, Form> Answers<Awaited<Form>> for F
where
    F: Future<Output: Outcome<Form>> + Send,
{
    type Way = Async;

    async fn said(self) -> Said {
        self.await.outcome()
    }
}

/// What is known in the end.
pub trait Outcome<Form> {
    /// What became of the call.
    ///
    /// # Errors
    /// Fails if it cannot be known.
    fn outcome(self) -> Said;
}

/// Says that the result is of this form.
#[derive(Debug)]
pub struct Known<Form>(PhantomData<Form>);

/// Says that it may fail to find it out.
#[derive(Debug)]
pub struct MayFail<Form>(PhantomData<Form>);

impl<T: IntoToolOutput<Form>, Form> Outcome<Known<Form>> for Reconciled<T> {
    fn outcome(self) -> Said {
        match self {
            Self::Happened(result) => result.into_output().map(Reconciled::Happened),
            Self::NotHappened => Ok(Reconciled::NotHappened),
        }
    }
}

impl<T: IntoToolOutput<Form>, E: Display, Form> Outcome<MayFail<Form>>
    for Result<Reconciled<T>, E>
{
    fn outcome(self) -> Said {
        self.map_err(|err| ToolError::new(err.to_string()))?.outcome()
    }
}

/// A function that is `async`: it runs where the agent runs.
#[derive(Clone, Copy, Debug)]
pub struct Async;

/// A function that may block: it runs on a thread for that.
#[derive(Clone, Copy, Debug)]
pub struct Blocking;

/// Where a function runs: nothing but its type.
pub trait Way {
    /// There.
    const HERE: Self;

    /// Runs it there.
    fn run(self, found: ReconcileFuture) -> ReconcileFuture;
}

impl Way for Async {
    const HERE: Self = Self;

    fn run(self, found: ReconcileFuture) -> ReconcileFuture {
        found
    }
}

impl Way for Blocking {
    const HERE: Self = Self;

    fn run(self, found: ReconcileFuture) -> ReconcileFuture {
        const CLOSING: &str = "the program is shutting down, or the function panicked";
        Box::pin(async move {
            let Ok(runtime) = Handle::try_current() else { return found.await };
            // It has nothing to wait for.
            let mut task = OnDrop::new(runtime.spawn_blocking(move || found.now_or_never()));
            match task.ended().await {
                Ok(Some(found)) => found,
                Ok(None) | Err(_) => Err(ToolError::new(CLOSING)),
            }
        })
    }
}

/// Nobody ever has one: what is made of it is only asked for its type.
#[derive(Clone, Copy, Debug)]
pub struct Never(Infallible);

impl Never {
    /// A value of whatever type is wanted.
    pub fn any<T>(self) -> T {
        match self.0 {}
    }

    /// A value of this type.
    pub fn like<T>(self, _: &T) -> T {
        match self.0 {}
    }
}

/// The types of what a function is called with.
#[derive(Debug)]
pub struct Taken<Args>(PhantomData<fn() -> Args>);

/// Asks for the types of what a function is called with.
pub fn taken<Args>(_: impl FnOnce(Never) -> Args) -> Taken<Args> {
    Taken(PhantomData)
}

impl<Args> Taken<Args> {
    /// Asks a function where it runs. The one place where the macro names the bound on the function.
    pub fn way<F, Form, W>(&self, _: F) -> W
    where
        F: FindsOut<Args, Form, Way = W>,
        W: Way,
    {
        W::HERE
    }
}

impl Async {
    /// Calls the function.
    pub fn find_out<F: FindsOut<Args, Form>, Args, Form>(
        self,
        function: F,
        args: Args,
    ) -> impl Future<Output = Said> + Send {
        function.find_out(args)
    }
}

impl Blocking {
    /// Calls the function.
    pub fn find_out<F: FindsOut<Args, Form>, Args, Form>(
        self,
        function: F,
        args: Args,
    ) -> impl Future<Output = Said> + Send {
        function.find_out(args)
    }
}

impl Sent {
    /// Begins to find out what became of a call.
    pub fn find_out(
        self,
        way: impl Way,
        found: impl Future<Output = Said> + Send + 'static,
    ) -> ReconcileFuture {
        way.run(Box::pin(found))
    }
}

impl Unsent {
    /// Runs nothing.
    pub fn find_out(self, _: impl Way, _: impl Future<Output = Said>) -> ReconcileFuture {
        Box::pin(pending())
    }
}
