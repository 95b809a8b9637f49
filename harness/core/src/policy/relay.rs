//! Passes on the events of one attempt. The first events are held back until the attempt produces output.

use futures_util::StreamExt as _;

use crate::{
    error::Error,
    provider::{EventSender, EventStream, StreamEvent, cut_off},
};

pub(super) struct FailedAttempt {
    pub(super) error: Error,
    /// Whether a part of the answer was already passed on.
    pub(super) said: bool,
}

/// Whether another attempt can follow an attempt that fails after it has produced output.
#[derive(Clone, Copy)]
pub(super) enum AfterAttempt {
    Nothing,
    Something,
}

/// Passes on the event `ahead`, and then the events of an attempt. Events that only mark the beginning of an answer
/// are held back until there is output. So an attempt that fails before its first output passes on no such events.
/// Token counts are passed on at once: if the run is stopped before any output, the tokens still count. The next
/// attempt replaces the token counts of this attempt. If no other attempt can follow after the first output,
/// `speaker` forwards the rest of the stream, and this function returns before the stream ends.
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
