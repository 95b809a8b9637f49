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

/// Hands the events of a try on, with one ahead of them. What only says that an answer has begun
/// is held back until it says something: if the try fails first, nobody has heard of it.
pub(super) async fn relay(
    mut stream: EventStream<'_>,
    ahead: Option<&StreamEvent>,
    speaker: &Speaker,
) -> Result<(), Failure> {
    let mut held: Vec<StreamEvent> = ahead.cloned().into_iter().collect();
    let (mut said, mut complete) = (false, false);
    while let Some(item) = stream.next().await {
        let event = item.map_err(|error| Failure { error, said })?;
        match &event {
            StreamEvent::Retrying { .. } | StreamEvent::FallingBack { .. } => {}
            StreamEvent::Discarded { .. } => {
                said = false;
                held = ahead.cloned().into_iter().collect();
            }
            event if !said && !event.is_said() => {
                held.push(event.clone());
                continue;
            }
            event => {
                for held in held.drain(..) {
                    speaker.say(Ok(held)).await;
                }
                said = true;
                complete = matches!(event, StreamEvent::Completed { .. });
            }
        }
        speaker.say(Ok(event)).await;
    }
    match complete {
        true => Ok(()),
        false => Err(Failure { error: cut_off(), said }),
    }
}
