//! The stream of an answer from a provider, with panics turned into errors.

use std::task::{Context, Poll};

use futures_util::{StreamExt as _, stream};

use harness_core::{
    error::{Error, ErrorKind},
    provider::{EventStream, Provider, Request, StreamEvent},
    unwind::{Panicked, caught, dropped},
};

/// The stream of an answer. The provider may be code of the program, so a panic in it becomes an error of the
/// answer.
pub(crate) struct ProviderStream<'a>(Option<EventStream<'a>>);

impl<'a> ProviderStream<'a> {
    pub(crate) fn of(provider: &'a dyn Provider, request: Request<'a>) -> Self {
        Self(match caught(|| provider.stream(request)) {
            Ok(stream) => Some(stream),
            Err(panicked) => Some(Box::pin(stream::iter([Err(fault(&panicked))]))),
        })
    }

    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<StreamEvent, Error>>> {
        let Some(stream) = &mut self.0 else { return Poll::Ready(None) };
        match caught(|| stream.poll_next_unpin(context)) {
            Ok(polled) => polled,
            Err(panicked) => {
                dropped(self.0.take());
                Poll::Ready(Some(Err(fault(&panicked))))
            }
        }
    }
}

impl Drop for ProviderStream<'_> {
    fn drop(&mut self) {
        dropped(self.0.take());
    }
}

pub(crate) fn fault(panicked: &Panicked) -> Error {
    Error::new(ErrorKind::Panicked, format!("the provider {panicked}"))
}
