//! The state of a conversation on the engine: its facts in chunks, and whose turn it is.

use futures_util::{FutureExt as _, future::BoxFuture};
use harness::journal::Envelope;
use restate_sdk::prelude::*;
use serde::de::DeserializeOwned;

use crate::stop_signals::TurnState;

/// The key of the number of chunks.
pub(crate) const CHUNKS: &str = "chunks";
/// The key of the [`TurnState`].
pub(crate) const RUN: &str = "run";
/// The key of the kind of the run that the last message has begun.
pub(crate) const KIND: &str = "kind";

type ReadResult<T> = Result<T, TerminalError>;

/// Above this number of chunks, the last chunk is checked before all are read.
const MANY: u32 = 10_000;

/// The key of a chunk, which contains the facts of one step.
pub(crate) fn named(chunk: u32) -> String {
    format!("facts {chunk:08}")
}

/// An error about damaged state. The engine must not retry, because the state would not change.
fn wrong(what: String) -> TerminalError {
    TerminalError::new(format!(
        "{what}: an operator can write this value as it was, or delete all of the state"
    ))
}

/// Parses a value of the state.
fn parsed<T: DeserializeOwned>(
    name: &str,
    kept: Option<&[u8]>,
) -> Result<Option<T>, TerminalError> {
    let unfit = |err| wrong(format!("the state `{name}` cannot be read ({err})"));
    kept.map(|bytes| serde_json::from_slice(bytes).map_err(unfit)).transpose()
}

fn missing(name: &str, of: u32) -> TerminalError {
    wrong(format!("the state `{name}` is missing, and `{CHUNKS}` says {of}"))
}

/// Functions for both kinds of contexts. A macro is needed, because the contexts share no trait whose futures are
/// `Send`.
macro_rules! reads {
    ($facts:ident, $turn:ident, $context:ident) => {
        /// The turn; `None` in a new conversation.
        pub(crate) async fn $turn(ctx: &$context<'_>) -> ReadResult<Option<TurnState>> {
            let kept = ctx.get::<Vec<u8>>(RUN).await?;
            let turn: Option<TurnState> = parsed(RUN, kept.as_deref())?;
            match &turn {
                Some(turn) if turn.bell.is_empty() => {
                    Err(wrong(format!("the state `{RUN}` names no bell")))
                }
                _ => Ok(turn),
            }
        }

        /// The facts from a chunk on, the number of the next chunk, and the size of the facts in bytes.
        pub(crate) fn $facts<'a>(
            ctx: &'a $context<'_>,
            from: u32,
        ) -> BoxFuture<'a, ReadResult<(Vec<Envelope>, u32, usize)>> {
            async move {
                let kept = ctx.get::<Vec<u8>>(CHUNKS).await?;
                let next: u32 = parsed(CHUNKS, kept.as_deref())?.unwrap_or(0);
                if next.saturating_sub(from) > MANY {
                    // A damaged count could be huge, so the last chunk must exist before that many keys are created.
                    let last = named(next - 1);
                    let kept = ctx.get::<Vec<u8>>(&last).await?;
                    kept.ok_or_else(|| missing(&last, next))?;
                }
                let names: Vec<String> = (from..next).map(named).collect();
                let (mut facts, mut bytes) = (Vec::new(), 0);
                // The keys do not live as long as the context.
                let ctx: &$context<'_> = ctx;
                // All chunks are requested before the first one is awaited.
                let asked: Vec<_> = names.iter().map(|name| ctx.get::<Vec<u8>>(name)).collect();
                for (name, asked) in names.iter().zip(asked) {
                    let kept = asked.await?;
                    bytes += kept.as_ref().map_or(0, Vec::len);
                    let chunk: Option<Vec<Envelope>> = parsed(name, kept.as_deref())?;
                    facts.extend(chunk.ok_or_else(|| missing(name, next))?);
                }
                Ok((facts, next, bytes))
            }
            .boxed()
        }
    };
}
reads!(facts_of, turn_of, ObjectContext);
reads!(shared_facts_of, shared_turn_of, SharedObjectContext);

/// The facts of a chunk that the stored number of chunks does not include, and the size of the chunk in bytes. Such a
/// chunk exists if the engine has killed a run between the two commands that store a step. Fails if there is a second
/// such chunk, because it would be overwritten.
pub(crate) async fn last_of(
    ctx: &ObjectContext<'_>,
    next: u32,
) -> ReadResult<Option<(Vec<Envelope>, usize)>> {
    let (name, later) = (named(next), named(next.saturating_add(1)));
    let Some(kept) = ctx.get::<Vec<u8>>(&name).await? else { return Ok(None) };
    if ctx.get::<Vec<u8>>(&later).await?.is_some() {
        let what = format!("the state `{CHUNKS}` says {next}, and there is `{later}`");
        return Err(wrong(what));
    }
    Ok(parsed(&name, Some(&kept))?.map(|facts| (facts, kept.len())))
}

/// The kind of the current run.
pub(crate) async fn kind_of(ctx: &ObjectContext<'_>) -> ReadResult<String> {
    let kept = ctx.get::<Vec<u8>>(KIND).await?;
    Ok(parsed(KIND, kept.as_deref())?.unwrap_or_default())
}
