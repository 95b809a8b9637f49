//! What every target checks: nothing panics, and any cut of the bytes gives the same events.

use harness::{Error, StreamEvent, provider::Accumulator};

/// A body, and where it is cut: the first byte says how.
pub fn pieces(input: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (seed, body) = input.split_first()?;
    let size = usize::from(*seed % 32) + 1;
    Some((body, body.chunks(size).collect()))
}

/// The events of a body that comes in these pieces, and how it ended.
pub fn read<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    mut push: impl FnMut(Option<&'a [u8]>) -> (Result<(), Error>, Vec<StreamEvent>),
) -> (Vec<StreamEvent>, Result<(), String>) {
    let mut events = Vec::new();
    for piece in pieces.into_iter().map(Some).chain([None]) {
        let (result, more) = push(piece);
        events.extend(more);
        if let Err(err) = result {
            return (events, Err(format!("{err:?}")));
        }
    }
    (events, Ok(()))
}

/// Whoever collects the events takes them all, and the answer can be kept.
pub fn collect(events: &[StreamEvent], whole: bool) {
    let mut answer = Accumulator::default();
    for event in events {
        answer.push(event).expect("events can follow each other");
    }
    let _ = answer.clone().into_partial();
    let answer = answer.finish();
    assert_eq!(answer.is_ok(), whole, "complete and whole are the same");
}

/// Checks a decoder, which is made anew for each way of cutting.
#[macro_export]
macro_rules! check {
    ($input:expr, $decoder:expr) => {
        if let Some((body, pieces)) = $crate::pieces($input) {
            let read = |pieces: Vec<&[u8]>| {
                let mut decoder = $decoder;
                $crate::read(pieces, |piece| {
                    let result = match piece {
                        Some(piece) => decoder.push(piece),
                        None => decoder.finish(),
                    };
                    (result, std::iter::from_fn(|| decoder.next_event()).collect())
                })
            };
            let (events, end) = read(vec![body]);
            let cut = read(pieces);
            assert_eq!((&events, &end), (&cut.0, &cut.1));
            $crate::collect(&events, end.is_ok());
        }
    };
}
