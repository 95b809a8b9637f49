//! Folds the facts of a conversation. Between parts of the facts, other tasks of the thread can run.

use tokio::task::yield_now;

use super::machine::Machine;
use harness_core::{
    error::{Error, ErrorKind},
    journal::Envelope,
};

/// The name of the fact with which a run begins.
pub(crate) const USER_SAID: &str = "user_said";

/// How many facts are folded before the thread yields to other tasks.
pub(crate) const AT_ONCE: usize = 64;

/// Calls `fold` with each fact of a conversation. Yields to other tasks of the thread, because there may be
/// many facts.
pub(crate) async fn for_each_fact<F>(
    facts: impl Iterator<Item = F>,
    mut fold: impl FnMut(F) -> Result<(), Error>,
) -> Result<(), Error> {
    for (count, fact) in (1..).zip(facts) {
        fold(fact)?;
        if count % AT_ONCE == 0 {
            yield_now().await;
        }
    }
    Ok(())
}

/// The state of a conversation with these facts. Yields to other tasks between parts of the facts.
pub(crate) async fn fold_facts(facts: &[Envelope]) -> Result<Machine, Error> {
    let mut machine = Machine::new();
    let apply = |(number, envelope): (usize, &Envelope)| {
        let applied = envelope.fact().and_then(|fact| machine.apply(&fact));
        applied.map_err(|err| unreadable(number, err))
    };
    for_each_fact(facts.iter().enumerate(), apply).await?;
    Ok(machine)
}

/// The error for a fact that this version does not know, or that cannot come at this position. `number` is the
/// index of the fact.
pub(crate) fn unreadable(number: usize, err: Error) -> Error {
    let what = format!("fact {number} of the conversation cannot be read");
    Error::new(ErrorKind::Journal, format!("{what}: {err}")).with_source(err)
}
