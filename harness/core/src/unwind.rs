//! Catches panics of the program's own code (a rule, an approver, a tool, an event handler) and
//! returns them as errors, so that a panic does not unwind out of the library.

use std::{
    any::Any,
    fmt, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

/// The message of a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked(String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

impl Panicked {
    pub(crate) fn into_words(self) -> String {
        self.0
    }

    /// Takes the message out of a panic's payload and drops the payload. A panic in the payload's
    /// `drop` is caught too.
    pub fn of(payload: Box<dyn Any + Send>) -> Self {
        let words = if let Some(words) = payload.downcast_ref::<&str>() {
            (*words).to_owned()
        } else if let Some(words) = payload.downcast_ref::<String>() {
            words.clone()
        } else {
            "no message".to_owned()
        };
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(second);
        }
        Self(words)
    }
}

/// Runs the program's code and catches its panic.
///
/// The code is assumed to be unwind-safe: the library does not read the code's shared data after a
/// panic.
///
/// # Errors
/// Fails if the code panics. The error carries the panic's message.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(Panicked::of)
}

/// Drops a value of the program and ignores a panic in the value's `drop`.
pub fn dropped<T>(value: T) {
    let _ = caught(|| drop(value));
}

/// Wraps a future of the program. A panic in `poll` becomes an error; a panic in `drop` is ignored.
#[derive(Debug)]
pub struct Shielded<F>(Option<Pin<Box<F>>>);

impl<F: Future> Shielded<F> {
    /// Wraps a future of the program.
    pub fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future> Future for Shielded<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else {
            return Poll::Ready(Err(Panicked("polled after its end".to_owned())));
        };
        let polled = match caught(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(panicked) => Err(panicked),
        };
        dropped(self.0.take());
        Poll::Ready(polled)
    }
}

impl<F> Drop for Shielded<F> {
    fn drop(&mut self) {
        dropped(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::caught;

    struct Worse;

    impl Drop for Worse {
        fn drop(&mut self) {
            panic!("worse");
        }
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_is_caught_too() {
        let panicked = caught(|| std::panic::panic_any(Worse)).unwrap_err();
        assert_eq!(panicked.to_string(), "panicked: no message");
    }
}
