//! Writes the facts of a run before an action that must not happen without them.

use super::{
    driver::{CallProgress, RunDriver},
    progress::AgentRequest,
    stop_signals::RunSignal,
};
use crate::conversation::durable::WriteOutcome;
use harness_core::{
    error::Error,
    journal::{Fact, InterruptCause},
};

/// Writes all pending facts before an action that must not happen without them. Returns `false` if the run was
/// stopped meanwhile: then the action must not happen.
pub(crate) async fn write_facts(run: &mut RunDriver<'_>) -> Result<bool, Error> {
    match write_unless_stopped(run).await? {
        None => Ok(true),
        Some(cause) => run.record_interrupt(cause).map(|()| false),
    }
}

/// Writes all pending facts. Returns the cause if the run was stopped meanwhile. Does not record the stop.
async fn write_unless_stopped(run: &mut RunDriver<'_>) -> Result<Option<InterruptCause>, Error> {
    if !run.state.is_behind() {
        return Ok(None);
    }
    run.state.note_append();
    // Boxed, so that the futures of all actions that may write are smaller.
    let written = Box::pin(write_pending(run)).await;
    run.state.append_ended(written.as_ref().map(Option::is_none));
    written
}

async fn write_pending(run: &mut RunDriver<'_>) -> Result<Option<InterruptCause>, Error> {
    loop {
        let RunDriver { state, stop_signals, calls: CallProgress { early, .. }, .. } = &mut *run;
        let Some(durable) = state.durable.as_mut().filter(|durable| durable.is_behind()) else {
            return Ok(None);
        };
        let told = tokio::select! {
            biased;
            signal = stop_signals.next_signal() => signal,
            written = durable.write() => match written? {
                WriteOutcome::All => return Ok(None),
                WriteOutcome::Behind(facts) => {
                    run.state.apply_external(facts).await?;
                    continue;
                }
            },
            () = early.drive() => continue,
        };
        match told {
            RunSignal::Stop(cause) => return Ok(Some(cause)),
            RunSignal::Warn(warning) => run.report_warning(&warning),
        }
    }
}

/// Permits a call to run an agent, after the start of the call is written. If the agent's conversation is in
/// no journal, a second fact records the agent. Returns the cause if the run was stopped meanwhile.
pub(crate) async fn let_run_agent(
    run: &mut RunDriver<'_>,
    AgentRequest { unkept, permission }: AgentRequest,
) -> Result<Option<InterruptCause>, Error> {
    // The call may have ended since its request. It may also have been dropped, for example because the
    // answer started again.
    if permission.is_closed() {
        return Ok(None);
    }
    let state = &mut *run.state;
    if state.is_in_journal() {
        if let Some(call) = unkept.filter(|call| !state.spending.agents.has_unkept_agents(call)) {
            state.record(&Fact::UnkeptAgentStarted { call })?;
        }
        if let Some(cause) = write_unless_stopped(run).await? {
            return Ok(Some(cause));
        }
    }
    let _ = permission.send(());
    Ok(None)
}

/// Writes that a request for a summary is about to be sent. If the process ends during the request, this fact
/// shows that there may be an unknown cost. Returns the cause if the run was stopped meanwhile.
pub(crate) async fn start_compaction(
    run: &mut RunDriver<'_>,
) -> Result<Option<InterruptCause>, Error> {
    let state = &mut *run.state;
    if !state.is_in_journal() {
        return Ok(None);
    }
    let (provider, model) = state.agent.provider_and_model();
    let (provider, model) = (provider.to_owned(), model.to_owned());
    state.record(&Fact::CompactionStarted { provider, model })?;
    write_unless_stopped(run).await
}
