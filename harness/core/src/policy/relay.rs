//! Passes on the events of one attempt, and holds back its first events until the attempt has produced output.

use futures_util::StreamExt as _;

use crate::{
    error::Error,
    provider::{EventSender, EventStream, StreamEvent, cut_off},
};

/// An attempt that failed.
pub(super) struct FailedAttempt {
    pub(super) error: Error,
    /// Whether the reader has already received some of its answer.
    pub(super) said: bool,
}

/// Whether something can follow an attempt that has produced output.
#[derive(Clone, Copy)]
pub(super) enum AfterAttempt {
    Nothing,
    Something,
}

/// Passes on the events of an attempt, with the event `ahead` before them. Events that only say that an answer has
/// begun are held back until there is output, so that an attempt which fails before that leaves no trace. Token
/// counts are not held back, so that the tokens of an answer count that is stopped before its first word; the next
/// attempt counts anew. If nothing can follow after the first output, the rest of the stream is left to the
/// speaker, and this function returns before the stream ends.
pub(super) async fn relay<'a>(
    mut stream: EventStream<'a>,
    ahead: Option<&StreamEvent>,
    then: AfterAttempt,
    speaker: &EventSender<'a>,
) -> Result<(), FailedAttempt> {
    let mut held: Vec<StreamEvent> = ahead.cloned().into_iter().collect();
    let mut said = false;
    loop {
        let item = match (said, then) {
            (false, _) => stream.next().await,
            (true, AfterAttempt::Nothing) => {
                speaker.forward(stream);
                return Ok(());
            }
            (true, AfterAttempt::Something) => {
                let passed = speaker.pass_on(stream).await;
                if passed.item.is_none() && passed.complete {
                    return Ok(());
                }
                stream = passed.stream;
                passed.item
            }
        };
        let event = match item {
            Some(Ok(event)) => event,
            Some(Err(error)) => return Err(FailedAttempt { error, said }),
            None => return Err(FailedAttempt { error: cut_off(), said }),
        };
        match &event {
            StreamEvent::Retrying { .. }
            | StreamEvent::FallingBack { .. }
            | StreamEvent::ParameterDropped { .. }
            | StreamEvent::ReasoningRefused { .. }
            | StreamEvent::UsageSoFar(_) => {}
            StreamEvent::Discarded { .. } => {
                said = false;
                held = ahead.cloned().into_iter().collect();
            }
            event if !said && !event.is_said() => {
                held.push(event.clone());
                continue;
            }
            _ => {
                for held in held.drain(..) {
                    speaker.send(Ok(held)).await;
                }
                said = true;
            }
        }
        speaker.send(Ok(event)).await;
    }
}
