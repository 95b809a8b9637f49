//! What the engine keeps of a conversation: its facts in chunks, and whose turn it is.

use futures_util::{FutureExt as _, future::BoxFuture};
use harness::journal::Envelope;
use restate_sdk::prelude::*;
use serde::de::DeserializeOwned;

use crate::stop_signals::TurnState;

/// The number of chunks of facts.
pub(crate) const CHUNKS: &str = "chunks";
/// The [`TurnState`].
pub(crate) const RUN: &str = "run";
/// The kind of the run that the last message has begun.
pub(crate) const KIND: &str = "kind";

type ReadResult<T> = Result<T, TerminalError>;

/// More chunks than this are counted before they are read.
const MANY: u32 = 10_000;

/// The name of a chunk, which has the facts of one step.
pub(crate) fn named(chunk: u32) -> String {
    format!("facts {chunk:08}")
}

/// The engine does not try this again, since it would stay so.
fn wrong(what: String) -> TerminalError {
    TerminalError::new(format!(
        "{what}: an operator can write this value as it was, or delete all of the state"
    ))
}

/// A value of the state.
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

/// A macro, since the two contexts share no trait whose futures can be sent to another thread.
macro_rules! reads {
    ($facts:ident, $turn:ident, $context:ident) => {
        /// `None` in a new conversation.
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

        /// The facts from a chunk on, the number of the chunk after them, and their bytes.
        pub(crate) fn $facts<'a>(
            ctx: &'a $context<'_>,
            from: u32,
        ) -> BoxFuture<'a, ReadResult<(Vec<Envelope>, u32, usize)>> {
            async move {
                let kept = ctx.get::<Vec<u8>>(CHUNKS).await?;
                let next: u32 = parsed(CHUNKS, kept.as_deref())?.unwrap_or(0);
                if next.saturating_sub(from) > MANY {
                    // Before so many names are made it is certain that there are as many.
                    let last = named(next - 1);
                    let kept = ctx.get::<Vec<u8>>(&last).await?;
                    kept.ok_or_else(|| missing(&last, next))?;
                }
                let names: Vec<String> = (from..next).map(named).collect();
                let (mut facts, mut bytes) = (Vec::new(), 0);
                // The names do not live as long as the context.
                let ctx: &$context<'_> = ctx;
                // They are all asked for before the first one is awaited.
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

/// A chunk that is not counted, and its bytes: the engine has killed a run between the two commands that keep a step. Fails
/// if there are more of them, since they would be overwritten.
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

/// The kind of the run that goes on.
pub(crate) async fn kind_of(ctx: &ObjectContext<'_>) -> ReadResult<String> {
    let kept = ctx.get::<Vec<u8>>(KIND).await?;
    Ok(parsed(KIND, kept.as_deref())?.unwrap_or_default())
}
