//! The run of an agent inside a call: where its conversation is stored, and what the caller gets from the
//! run.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use super::{
    agent_names::{conversations_below, name_of_agent},
    host::{ParentRun, SubagentHost},
    suspended_child::SuspendedChild,
};
use crate::{
    Action, Outcome, Reply, Stopped,
    conversation::{durable::InJournal, open::open_conversation, state::ConversationState},
    output::spec::{OutputSpec, without_schema},
    run::{input::RunInput, progress::ProgressSender},
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::Metadata,
    message::{CallOutcome, Message},
    policy::{Budget, rest_of},
    tool::{SideEffects, ToolContext},
};

impl ParentRun {
    /// The data of a run that begins now in this conversation. The agents in its calls need this data.
    pub(crate) fn of(
        chat: &ConversationState,
        progress_sender: ProgressSender,
        is_watched: bool,
    ) -> Self {
        let above = chat.options.as_ref().and_then(|options| options.caller.clone());
        let caller = above.as_ref().map(|site| &site.caller);
        let rails = chat.agent.guardrails();
        let below = caller.and_then(|caller| caller.depth).map(|depth| depth.saturating_sub(1));
        let depth = [rails.depth_of_agents(), below].into_iter().flatten().min();
        let kept = chat.durable.as_ref().and_then(|durable| durable.in_journal());
        let approver = chat.approval_policy(&chat.agent).approver();
        Self {
            kept,
            budget: chat.spending.run_budget(),
            progress_sender,
            approver: approver.map(|(who, it)| (who.map(str::to_owned), Arc::clone(it))),
            on_waiting: chat.waiting_hook().cloned(),
            is_watched: is_watched || caller.is_some_and(|caller| caller.is_watched),
            depth,
            left: Mutex::new(rails.agents_of_run()),
            traced: OnceLock::new(),
            denied: Mutex::default(),
            places: chat.options.as_ref().map(|options| options.places.clone()).unwrap_or_default(),
            above,
        }
    }
}

impl SubagentHost {
    /// Adds what the agent of an opened conversation has spent in earlier processes. An earlier attempt of the
    /// tool in this process is already counted.
    fn count_spent(&self, name: &str, chat: &ConversationState) {
        self.add_sources(chat.approvals.taint.sources());
        let mut state = self.state();
        if !state.opened.insert(name.to_owned()) {
            return;
        }
        let Some(spent) = chat.budget().call_spent() else { return };
        let new = rest_of([&*spent], &state.counted);
        state.counted = rest_of([&state.counted], &spent).map(|rest| *rest).unwrap_or_default();
        drop(state);
        if let Some(new) = new {
            self.kept_budget().charge_agents(&new);
        }
    }
}

/// The run of an agent that a call has started.
pub(crate) struct ChildRun {
    /// The call's host. `None` if the call does not belong to a run.
    site: Option<Arc<SubagentHost>>,
    /// Whether the conversation of the agent is named after the call.
    names: bool,
    /// The number of this agent, from 0. Only agents whose conversations are named after the call are counted.
    number: u32,
    pub(crate) stop: CancellationToken,
}

impl ChildRun {
    /// The run of an agent in this call. `names`: whether the conversation is named after the call. If not,
    /// the program has opened the conversation.
    pub(crate) fn of(context: &ToolContext, names: bool) -> Self {
        let site = context.host::<SubagentHost>();
        let named = site.as_ref().filter(|_| names);
        let number = named.map_or(0, |site| site.next_number(context.attempt()));
        Self { site, names, number, stop: context.cancellation().clone() }
    }

    pub(crate) fn site(&self) -> Option<&Arc<SubagentHost>> {
        self.site.as_ref()
    }

    /// The budget of the call, from which the agent spends.
    pub(crate) fn budget(&self) -> Option<&Budget> {
        let site = self.site.as_ref()?;
        let is_kept = self.names && site.caller.kept.is_some();
        Some(if is_kept { site.kept_budget() } else { site.budget() })
    }

    /// Waits until the agent may begin. Returns `false` if the library has asked the call to stop.
    pub(crate) async fn may_begin(&self) -> bool {
        let Some(site) = &self.site else { return !self.stop.is_cancelled() };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            is_written = site.is_written(self.names) => is_written,
        }
    }

    /// The name of the agent's conversation, and its parent. `None` if the caller's conversation is not in a
    /// journal.
    fn conversation_in_journal(&self) -> Option<(String, &InJournal)> {
        let site = self.site.as_ref()?;
        let parent = site.caller.kept.as_ref()?;
        Some((name_of_agent(&parent.id, site.call.id(), self.number), parent))
    }

    /// Counts an agent with these side effects, whose conversation the program has opened.
    ///
    /// # Errors
    /// Fails if the agent is not allowed to run.
    pub(crate) fn admit(&self, effects: SideEffects) -> Result<(), Error> {
        self.site.as_ref().map_or(Ok(()), |site| site.admit(effects))
    }

    /// Begins the conversation, or opens it if it exists.
    ///
    /// # Errors
    /// Fails if the agent is not allowed to run, or if its conversation cannot be opened.
    pub(crate) async fn open_or_begin(
        &self,
        chat: &mut ConversationState,
        effects: SideEffects,
        (input, output_spec): (&RunInput, Option<&OutputSpec>),
    ) -> Result<ChildState, Error> {
        let Some(site) = &self.site else { return Ok(ChildState::New) };
        site.admit(effects)?;
        let Some((name, parent)) = self.conversation_in_journal() else {
            return Ok(ChildState::New);
        };
        parent.check().await?;
        let InJournal { id: parent, journal, .. } = parent;
        let mut opened = open_conversation(&chat.agent, Arc::clone(journal), &name).await?;
        let Some(first) = opened.transcript().messages().first() else {
            site.count_spent(&name, &opened);
            opened.describe(&Metadata::new().parent(&**parent)).await?;
            (chat.durable, chat.tracer) = (opened.durable.take(), opened.tracer);
            chat.continue_as(opened.agent);
            return Ok(ChildState::New);
        };
        // If the caller's conversation was deleted, a new conversation may now have its name.
        let is_of_call = opened.machine.is_called_by(&site.message);
        if !is_of_call || !conversations_below(&**journal, parent).await?.contains(&name) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "there is a conversation `{name}` already that is not one of the agents of `{parent}`, \
                     so the agent did not run"
                ),
            ));
        }
        site.count_spent(&name, &opened);
        // The text of the schema is not compared, because the library has written it and its descriptions may
        // have changed.
        let (wanted, before) =
            (output_spec.and_then(|it| it.schema.as_ref()), opened.machine.wanted());
        let before = without_schema(first, before.and_then(|it| it.schema.as_ref()));
        let is_same = |said: &Message| without_schema(said, wanted) == before;
        if !matches!(input, RunInput::Say(said) if is_same(said)) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the conversation `{name}` has begun with another message than the one that the call \
                     gives its agent now, so the agent did not go on. A tool must run its agents in the \
                     same order, with the same messages, each time that a call is repeated"
                ),
            ));
        }
        Ok(match opened.machine.next() {
            Action::Finish(ended @ (Outcome::Answered | Outcome::Denied)) => {
                ChildState::Finished(Box::new(opened), ended)
            }
            _ => ChildState::Interrupted(Box::new(opened)),
        })
    }

    /// Handles an error that has prevented the run.
    pub(crate) fn handle_open_failure(&self, stopped: &Stopped) {
        // If the error is not transient, the suspended child of an earlier attempt stays, because calls of that
        // child may still wait.
        if let (Some(site), Some((name, _))) = (&self.site, self.conversation_in_journal())
            && let Some(child) = SuspendedChild::cut_off(stopped, false, &name)
        {
            site.set_suspended(&name, Some(child));
        }
    }

    /// Handles the end of the run of this conversation. The caller's call waits if calls of the run wait and
    /// the conversations of caller and agent can be opened again.
    pub(crate) async fn handle_run_end(
        &self,
        ended: &Result<Reply, Stopped>,
        chat: &ConversationState,
        is_kept: bool,
    ) {
        let Some(site) = &self.site else { return };
        let stopped = ended.as_ref().err();
        if site.must_stop_on_denial()
            && stopped.is_some_and(|stopped| stopped.outcome() == Outcome::Denied)
        {
            let mut denied = site.caller.denied.lock().unwrap_or_else(PoisonError::into_inner);
            *denied = Some(site.call.id().to_owned());
        }
        let (Some(parent), Some(durable)) = (&site.caller.kept, &chat.durable) else { return };
        if durable.journal().is_none() {
            return;
        }
        let name = &**durable.id();
        let suspended = match stopped {
            Some(stopped) if stopped.outcome() == Outcome::Waiting => {
                // The caller cannot find a conversation that the tool itself has opened in another journal.
                let incarnation = durable.incarnation().get().copied();
                let is_found = is_kept || parent.has(name, incarnation).await.unwrap_or(true);
                is_found.then(|| SuspendedChild::waiting(stopped, name))
            }
            Some(stopped) if is_kept => SuspendedChild::cut_off(stopped, chat.is_lost(), name),
            _ => None,
        };
        // The earlier entry stays if calls of the conversation still wait, because an error ended the run
        // before it began.
        if suspended.is_some() || chat.machine.next() != Action::AwaitAnswers {
            site.set_suspended(name, suspended);
        }
    }
}

/// The state of the conversation of a call's agent before the agent runs.
pub(crate) enum ChildState {
    /// The conversation has no message yet.
    New,
    /// The agent was working when its process ended.
    Interrupted(Box<ConversationState>),
    /// The run of the agent has ended with an answer or by a denial, and the caller has not got the outcome
    /// yet.
    Finished(Box<ConversationState>, Outcome),
}

/// Whether calls of a stopped run may have partly run.
pub(crate) fn left_in_doubt(stopped: &Stopped) -> bool {
    let results = stopped.transcript().messages().iter().flat_map(Message::results);
    let mut outcomes = results.map(|result| result.outcome());
    let is_lost = |error: &Error| error.kind() == ErrorKind::Journal || error.is_conflict();
    stopped.error().is_some_and(is_lost)
        || outcomes.any(|it| matches!(it, CallOutcome::InDoubt | CallOutcome::StillRunning))
}
