//! Opens a conversation of a journal.

use std::sync::Arc;

use super::{
    durable::{DurableState, guarded},
    observed::{held, holding},
    spilling::with_large_results,
    state::ConversationState,
};
use crate::{
    Action, Agent, Machine, approval::doubtful_calls, subagent::agents_below::count_agents,
};
use harness_core::{
    error::Error,
    journal::{Fact, Journal, StoredFacts, SummaryRequest, check_id},
    trace::Tracer,
};

/// Opens a conversation of a journal, or begins it.
pub(crate) async fn open_conversation(
    agent: &Agent,
    journal: Arc<dyn Journal>,
    conversation: &str,
) -> Result<ConversationState, Error> {
    check_id(conversation)?;
    let id: Arc<str> = conversation.into();
    let mut tracer = Tracer::new(agent.trace());
    tracer.begin_operation(|| holding(&*journal, &id));
    let hold = guarded(|| journal.hold(&id)).await;
    held(&mut tracer, &hold);
    let hold = hold?;
    let StoredFacts { head, facts, .. } = guarded(|| journal.read(&id, 0)).await?;
    let read = ConversationState::read_in_parts(with_large_results(agent, &*journal), &facts).await;
    let (mut state, has_waited) = read?;
    count_agents(&mut state, &journal, &id).await?;
    state.count_for_agent();
    state.tracer = tracer;
    state.durable = Some(Box::new(DurableState::new(journal, id, head, Some(hold))));
    state.tracer.add_open_calls(state.machine.open_calls());
    state.trace_answers(&facts);
    state.approvals.calls_from_previous_process =
        state.machine.open_calls().map(|call| call.id().to_owned()).collect();
    let doubtful = doubtful_calls(&state);
    let is_cut_off = is_run_unfinished(&state.machine) && !has_waited;
    let lost = state.machine.compacting().map(lost_compaction);
    state.has_waited = state.machine.is_going() && !is_cut_off;
    let reopened = (is_cut_off || !doubtful.is_empty()).then_some(Fact::Reopened { doubtful });
    for fact in lost.into_iter().chain(reopened) {
        state.record(&fact)?;
        state.only_looked_at = true;
    }
    Ok(state)
}

/// The fact that a request for a summary has failed, because the process ended before the summary was complete.
fn lost_compaction((provider, model): (&str, &str)) -> Fact {
    let mut request = SummaryRequest::default();
    (request.provider, request.model) = (provider.to_owned(), model.to_owned());
    request.broke_off = true;
    let cause = "the process ended before the summary had come".to_owned();
    let (request, stopped, vendor, too_large) = (Box::new(request), true, false, None);
    Fact::CompactionFailed { request, cause, stopped, vendor, too_large }
}

/// Whether a run was going on when its process ended. A run that only waits for decisions or answers from
/// outside does not count.
pub(crate) fn is_run_unfinished(machine: &Machine) -> bool {
    machine.is_going() && machine.next() != Action::AwaitAnswers
}
