//! Forks a conversation of a journal.

use std::sync::Arc;

use super::{
    durable::guarded,
    observed::{append_failed, appending},
    open::{is_run_unfinished, open_conversation},
    state::ConversationState,
};
use crate::{Machine, machine::folding::for_each_fact};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Envelope, Fact, Head, Journal, check_id, conflict, too_few},
    trace::AppendOutcome,
};

/// Begins a new conversation with the first `facts` facts of the conversation in `state`.
pub(crate) async fn fork_conversation(
    state: &mut ConversationState,
    conversation: &str,
    facts: u64,
) -> Result<ConversationState, Error> {
    state.save().await?;
    let count = state.facts();
    let durable = state.durable.as_ref().and_then(|it| Some((it, it.journal()?)));
    let Some((durable, journal)) = durable else {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the conversation is in no journal: open it with `agent.open(&journal, ..)`, or go on \
             from its transcript with `agent.chat_from(..)`",
        ));
    };
    let (journal, id) = (Arc::clone(journal), conversation);
    check_id(id)?;
    // If this conversation was opened in the middle of a run, the fact that records the opening is not written
    // yet.
    let facts = match state.only_looked_at && facts == count {
        true => durable.written(),
        false => facts,
    };
    let (shared, rest) = match facts == durable.written() && !state.machine.is_calling() {
        true => (durable.head(), parting(&state.machine, state.spending.elapsed())?),
        false => split_fork((durable.id(), durable.head()), facts, &journal).await?,
    };
    let forked = match guarded(|| journal.fork(durable.id(), shared, id)).await {
        Ok(forked) => forked,
        Err(error) => after_failed_fork(shared, id, &journal, error).await?,
    };
    let from = durable.id().to_string();
    if !rest.is_empty() {
        state.tracer.begin_operation(|| appending(&*journal, id, &rest));
        let appended = guarded(|| journal.append(id, forked, &rest)).await;
        let mut appended = appended.map(drop);
        let mut outcome = AppendOutcome::Written;
        if appended.is_err() {
            // The journal may have done the append although it returned an error, for example if the response
            // was lost on the network.
            let there = guarded(|| journal.read(id, shared.facts)).await;
            if there.is_ok_and(|there| there.facts == rest) {
                (appended, outcome) = (Ok(()), AppendOutcome::ReadBack);
            }
        }
        match &appended {
            Ok(()) => state.tracer.appended(outcome, None),
            Err(error) => append_failed(&mut state.tracer, error),
        }
        appended?;
    }
    let mut fork = open_conversation(&state.agent, journal, id).await?;
    fork.tracer.forked(&from, facts);
    Ok(fork)
}

/// Splits the facts of a fork into the head of the shared facts and the facts that are appended to the fork.
/// With only the shared facts, the fork has no open call. So if the process ends before the append, the fork
/// runs no call of the original.
async fn split_fork(
    (conversation, known): (&str, Head),
    facts: u64,
    journal: &Arc<dyn Journal>,
) -> Result<(Head, Vec<Envelope>), Error> {
    let read = guarded(|| journal.read(conversation, 0)).await?;
    if known.incarnation.is_some() && read.head_at(known.facts) != Some(known) {
        return Err(conflict(conversation, known, read.head));
    }
    if read.head.facts < facts {
        return Err(too_few(conversation, read.head.facts, facts));
    }
    let wanted = usize::try_from(facts).unwrap_or(usize::MAX);
    let (mut machine, mut shared) = (Machine::new(), 0);
    let apply = |(number, envelope): (u64, &Envelope)| {
        machine.apply(&envelope.fact()?)?;
        if !machine.is_calling() {
            shared = number;
        }
        Ok(())
    };
    for_each_fact((1..).zip(&read.facts).take(wanted), apply).await?;
    // A grant that was withdrawn after the fork point is also withdrawn in the fork.
    let mut revoked = Vec::new();
    let later = read.facts.iter().skip(wanted);
    let keep = |envelope: &Envelope| {
        let fact = envelope.fact()?;
        if let Fact::GrantRevoked { .. } = fact {
            revoked.push(fact);
        }
        Ok(())
    };
    for_each_fact(later, keep).await?;
    let base = read.head_at(shared).unwrap_or_default();
    let mut rest = read.facts;
    rest.truncate(wanted);
    let elapsed = rest.last().map_or(0, |last| last.elapsed);
    drop(rest.drain(..usize::try_from(shared).unwrap_or(usize::MAX)));
    rest.extend(parting(&machine, elapsed)?);
    for fact in revoked {
        rest.push(Envelope::of(&fact, elapsed)?);
    }
    Ok((base, rest))
}

/// The facts for the fork that end its run, if the original has an open run.
fn parting(machine: &Machine, elapsed: u64) -> Result<Vec<Envelope>, Error> {
    let mut facts = Vec::with_capacity(2);
    if is_run_unfinished(machine) {
        facts.push(Envelope::of(&Fact::Reopened { doubtful: Vec::new() }, elapsed)?);
    }
    facts.push(Envelope::of(&Fact::Forked {}, elapsed)?);
    Ok(facts)
}

/// Finds out whether a fork exists although the journal has returned an error, for example because the response
/// was lost. Such a fork has only the shared facts. A fork that another process has completed has more facts.
async fn after_failed_fork(
    at: Head,
    id: &str,
    journal: &Arc<dyn Journal>,
    error: Error,
) -> Result<Head, Error> {
    let Ok(there) = guarded(|| journal.read(id, at.facts)).await.map(|read| read.head) else {
        return Err(error);
    };
    let is_there = there.incarnation.is_some() && there.incarnation != at.incarnation;
    if is_there && (there.facts, there.writer) == (at.facts, at.writer) {
        return Ok(there);
    }
    match error.is_conflict() && there.facts > 0 {
        true => Err(Error::new(
            ErrorKind::Conflict,
            format!("the conversation `{id}` has begun: fork into a new one"),
        )),
        false => Err(error),
    }
}
