//! Reads the conversations of agents in open calls: how much they have spent, and whether they can continue.

use std::{collections::HashSet, pin::Pin, sync::Arc};

use super::agent_names::{agents_of_call, conversations_below, name_of_agent};
use crate::{
    Action, Agent, Machine,
    approval::is_over,
    conversation::{durable::guarded, state::ConversationState},
    machine::{
        call_states::{CallerName, id_of_question},
        folding::fold_facts,
    },
    model_notices::deleted_agent_notice,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Awaited, CallSpent, Fact, Journal, now},
    message::{ToolCall, ToolContent, ToolResult},
    policy::{rest_of, unknown_spent},
    tool::SideEffects,
};

/// Adds the spending of the agents of open calls in earlier processes, unless a fact of this conversation
/// already records this spending.
///
/// # Errors
/// Fails if the journal cannot be read, because the spending of the agents is not known then. An agent whose
/// facts cannot be read does not cause an error: it has an unknown cost.
pub(crate) fn count_agents<'a>(
    state: &'a mut ConversationState,
    journal: &'a Arc<dyn Journal>,
    name: &'a str,
) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
    let open = state.machine.to_repeat().chain(state.machine.in_doubt());
    let agent = |call: &ToolCall| {
        let agent = state.agent.tools().get(call.name()).and_then(|tool| tool.agent::<Agent>());
        // The agents that a function runs are not known. Their tokens are counted at the prices of this
        // agent's model.
        (call.id().to_owned(), agent.unwrap_or(&state.agent).clone())
    };
    let open: Vec<(String, Agent)> = open.map(agent).collect();
    let message = id_of_question(state.machine.transcript()).to_owned();
    Box::pin(async move {
        let all_below = match open.is_empty() {
            true => HashSet::new(),
            false => conversations_below(&**journal, name).await?,
        };
        for (call, agent) in open {
            let mut kept = Vec::new();
            let names = (0..).map(|number| name_of_agent(name, &call, number));
            for below in names.take_while(|below| all_below.contains(below)) {
                let facts = guarded(|| journal.read(&below, 0)).await?.facts;
                let Ok((mut chat, _)) =
                    ConversationState::read_in_parts(agent.clone(), &facts).await
                else {
                    kept.push(Box::new(unknown_spent(AGENT_UNREADABLE)));
                    continue;
                };
                if !chat.machine.is_called_by(&message) {
                    continue;
                }
                if chat.machine.is_asking() || chat.machine.compacting().is_some() {
                    chat.spending.guard().request_was_lost();
                }
                count_agents(&mut chat, journal, &below).await?;
                kept.extend(chat.budget().call_spent());
            }
            let kept = rest_of(kept.iter().map(|it| &**it), &state.spending.agents.counted(&call));
            let lost = state.spending.agents.has_unkept_agents(&call);
            let lost = lost.then(|| unknown_spent(AGENT_LOST));
            let all = kept.as_deref().into_iter().chain(&lost);
            if let Some(mut spent) = rest_of(all, &CallSpent::default()) {
                spent.kept = kept;
                state.spending.guard().budget().charge_agents(&spent);
                state.spending.agents.add_unstated(&call, *spent);
            }
        }
        Ok(())
    })
}

/// Continues the calls whose agents waited and can continue now.
pub(crate) async fn resume_children(state: &mut ConversationState) -> Result<(), Error> {
    let Some(journal) = state.durable.as_ref().and_then(|it| it.journal()).cloned() else {
        return Ok(());
    };
    let Some(parent) = state.conversation().map(str::to_owned) else { return Ok(()) };
    let waiting: Vec<WaitingCall> = state.machine.waiting().filter_map(agent_of).collect();
    for below in waiting {
        let stands = awaited_status(&journal, &parent, &below).await?;
        let WaitingCall { call, .. } = below;
        match stands {
            ChildStatus::Waiting => {}
            ChildStatus::CanContinue | ChildStatus::Ended => {
                let answer = serde_json::Value::Null;
                state.record(&Fact::CallAnswered { call, answer, who: None, at: now() })?;
            }
            ChildStatus::Deleted => {
                let effects = state.machine.approved(&call).map(|it| it.effects);
                let result = deleted_child_result(&call, effects.unwrap_or_default());
                state.record(&Fact::CallSettled { result, who: None, at: now(), spent: None })?;
            }
        }
    }
    Ok(())
}

const AGENT_LOST: &str =
    "a process ended while a call ran an agent that is in no journal, so its cost is not known";

const AGENT_UNREADABLE: &str =
    "the conversation of an agent cannot be read, so its cost is not known";

/// A call that waits for its agent.
struct WaitingCall {
    call: String,
    conversation: String,
    cut_off: bool,
}

fn agent_of((call, wait): (&ToolCall, &harness_core::journal::Wait)) -> Option<WaitingCall> {
    match &wait.awaited {
        Awaited::Agent { conversation, cut_off } => Some(WaitingCall {
            call: call.id().to_owned(),
            conversation: conversation.clone(),
            cut_off: *cut_off,
        }),
        _ => None,
    }
}

/// The status of the conversation of an agent that has waited.
enum ChildStatus {
    /// The agent still waits.
    Waiting,
    /// Some call of the agent can continue.
    CanContinue,
    /// The last run of the agent has ended.
    Ended,
    /// The conversation does not exist any more.
    Deleted,
}

/// Whether some call of the conversation, or of an agent below it, can continue, or the model can.
pub(crate) async fn can_continue(
    journal: &Arc<dyn Journal>,
    conversation: &str,
) -> Result<bool, Error> {
    Ok(matches!(child_status(journal, conversation).await?, ChildStatus::CanContinue))
}

fn child_status<'a>(
    journal: &'a Arc<dyn Journal>,
    conversation: &'a str,
) -> Pin<Box<dyn Future<Output = Result<ChildStatus, Error>> + Send + 'a>> {
    Box::pin(async move {
        let machine = read_machine(&**journal, conversation).await?;
        let Some(machine) = machine else { return Ok(ChildStatus::Deleted) };
        match machine.next() {
            Action::AwaitAnswers => {}
            Action::Finish(_) => return Ok(ChildStatus::Ended),
            _ => return Ok(ChildStatus::CanContinue),
        }
        if machine.waiting().any(|(_, wait)| is_over(wait)) {
            return Ok(ChildStatus::CanContinue);
        }
        for below in machine.waiting().filter_map(agent_of) {
            // If the inner agent does not wait any more, for example because its conversation was deleted,
            // the outer agent can continue.
            if !matches!(awaited_status(journal, conversation, &below).await?, ChildStatus::Waiting)
            {
                return Ok(ChildStatus::CanContinue);
            }
        }
        Ok(ChildStatus::Waiting)
    })
}

/// The status of the agents of a call that waits. The fact of the wait names only one agent. All agents of
/// the call are checked, because another agent may be answered first.
async fn awaited_status(
    journal: &Arc<dyn Journal>,
    parent: &str,
    WaitingCall { call, conversation, cut_off }: &WaitingCall,
) -> Result<ChildStatus, Error> {
    if *cut_off {
        return Ok(ChildStatus::CanContinue);
    }
    let named = child_status(journal, conversation).await?;
    if !matches!(named, ChildStatus::Waiting) {
        return Ok(named);
    }
    for other in agents_of_call(&**journal, parent, call).await? {
        if other != *conversation
            && matches!(child_status(journal, &other).await?, ChildStatus::CanContinue)
        {
            return Ok(ChildStatus::CanContinue);
        }
    }
    Ok(ChildStatus::Waiting)
}

/// The result of a call whose agent waited, if the agent's conversation was deleted meanwhile. The agent is
/// not started again, because that could repeat its side effects.
fn deleted_child_result(call: &str, effects: SideEffects) -> ToolResult {
    let (outcome, text) = deleted_agent_notice(effects);
    ToolResult::new(call, outcome, [ToolContent::Text(text)])
}

/// The machine after all facts of a conversation. `None` if the conversation has no facts.
async fn read_machine(journal: &dyn Journal, conversation: &str) -> Result<Option<Machine>, Error> {
    let facts = guarded(|| journal.read(conversation, 0)).await?.facts;
    if facts.is_empty() {
        return Ok(None);
    }
    let folded = fold_facts(&facts).await;
    let named = |err: Error| {
        let what = format!("the conversation `{conversation}` of an agent cannot be read");
        Error::new(err.kind(), format!("{what}: {err}")).with_source(err)
    };
    folded.map(Some).map_err(named)
}

/// The maximum number of levels of agents that are searched. Ends the search if edited facts form a cycle.
const DEEPEST: usize = 256;

/// Checks that an answer in this conversation will be used. If the conversation belongs to an agent in a
/// call, this call and the calls of all outer agents must still be open.
///
/// # Errors
/// Fails with [`ErrorKind::NotWaiting`] if the answer will not be used, and with the journal's error if the
/// journal cannot be read.
pub(crate) async fn check_parents(
    journal: &dyn Journal,
    conversation: &str,
    machine: &Machine,
) -> Result<(), Error> {
    let mut below = conversation.to_owned();
    let mut called_by = machine.parent_call().cloned();
    for _ in 0..DEEPEST {
        let Some(caller) = called_by else { return Ok(()) };
        let CallerName { conversation: parent, call, .. } = &caller;
        let Some(machine) = read_machine(journal, parent).await? else { return Ok(()) };
        let is_open = machine.call_state(call).is_some()
            && caller.is_asked_by(id_of_question(machine.transcript()));
        if !is_open || machine.next() == Action::Settle {
            return Err(Error::new(
                ErrorKind::NotWaiting,
                format!(
                    "nothing has changed: the agent of `{below}` does not continue, because its call `{call}` in \
                     `{parent}` already has a result or was stopped"
                ),
            ));
        }
        called_by = machine.parent_call().cloned();
        below = caller.conversation;
    }
    Ok(())
}
