//! Hands the events of one try on, and holds back what nobody needs to know until the try has said
//! something.

use futures_util::StreamExt as _;

use crate::{
    error::Error,
    provider::{EventStream, Speaker, StreamEvent, cut_off},
};

/// A try that failed.
pub(super) struct Failure {
    pub(super) error: Error,
    /// Whether a reader has learned something of its answer already.
    pub(super) said: bool,
}

/// What can follow a try that has said something.
#[derive(Clone, Copy)]
pub(super) enum Then {
    Nothing,
    Something,
}

/// Hands the events of a try on, with one ahead of them. What only says that an answer has begun
/// is held back until it says something: if the try fails first, nobody has heard of it. Counted
/// tokens are not held back, so that those of an answer count that is stopped before its first word;
/// the next try counts anew. Once the try has said something, it speaks for itself. If nothing can
/// follow it then, the rest is left to it, and this returns before its end.
pub(super) async fn relay<'a>(
    mut stream: EventStream<'a>,
    ahead: Option<&StreamEvent>,
    then: Then,
    speaker: &Speaker<'a>,
) -> Result<(), Failure> {
    let mut held: Vec<StreamEvent> = ahead.cloned().into_iter().collect();
    let mut said = false;
    loop {
        let item = match (said, then) {
            (false, _) => stream.next().await,
            (true, Then::Nothing) => {
                speaker.leave_to(stream);
                return Ok(());
            }
            (true, Then::Something) => {
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
            Some(Err(error)) => return Err(Failure { error, said }),
            None => return Err(Failure { error: cut_off(), said }),
        };
        match &event {
            StreamEvent::Retrying { .. }
            | StreamEvent::FallingBack { .. }
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
                    speaker.say(Ok(held)).await;
                }
                said = true;
            }
        }
        speaker.say(Ok(event)).await;
    }
}
