//! Makes a stream of events of an async block that says them: how a provider around a provider is
//! written.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_core::Stream;

use super::{EventStream, StreamEvent};
use crate::error::Error;

type Item = Result<StreamEvent, Error>;

/// The stream of what the block says. The block runs only while the stream is polled, and goes on
/// after an event only when the next one is wanted.
pub(crate) fn speak<'a, F>(block: impl FnOnce(Speaker) -> F) -> EventStream<'a>
where
    F: Future<Output = ()> + Send + 'a,
{
    let said = Arc::new(Mutex::new(None));
    let block = block(Speaker(Arc::clone(&said)));
    Box::pin(Speech { block: Some(Box::pin(block)), said })
}

/// Says events.
pub(crate) struct Speaker(Arc<Mutex<Option<Item>>>);

impl Speaker {
    /// Hands an event out, and waits until the next one is wanted.
    pub(crate) async fn say(&self, item: Item) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(item);
        let mut handed_out = false;
        // Pending without a waker: the stream is ready, and whoever wants more polls it.
        poll_fn(|_| match std::mem::replace(&mut handed_out, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

struct Speech<'a> {
    block: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
    said: Arc<Mutex<Option<Item>>>,
}

impl Stream for Speech<'_> {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let Some(block) = &mut self.block else { return Poll::Ready(None) };
        let over = block.as_mut().poll(context).is_ready();
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).take();
        if over {
            self.block = None;
        }
        match said {
            Some(item) => Poll::Ready(Some(item)),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
