//! The contexts of a run's calls.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Agent,
    conversation::{spilling::LargeResultStore, state::ConversationState},
    machine::call_states::{ApprovedCall, id_of_question, idempotency_key},
    model_notices::{output_notice, still_running_notice},
    subagent::{
        host::{CallerRules, ParentRun, SubagentHost},
        suspended_child::SuspendedChild,
    },
};
use harness_core::{
    journal::CallSpent,
    message::{CallOutcome, Fingerprint, Message, ToolCall, ToolContent, ToolResult, Transcript},
    tool::{CallIdentity, ConcurrencyLimit, READ_RESULT, Tool, ToolContext, is_still_running},
};

/// The contexts of a run's calls. Each context is kept until the end of the turn, because the result of a
/// stopped call includes the output of its tool so far.
pub(crate) struct CallContexts {
    /// The context that all calls of the run share.
    shared: ToolContext,
    /// The name of the conversation, if it has one.
    conversation: Option<Arc<str>>,
    made: HashMap<String, ToolContext>,
    /// The time limit of each call, if the run sets one.
    time: Option<Duration>,
    /// The data of the run that the agents in its calls need.
    pub(crate) caller: Arc<ParentRun>,
    spilling: LargeResultStore,
}

impl CallContexts {
    /// The contexts for a run of this conversation. Tools get the run's budget, so they can read its limits.
    pub(crate) fn new(
        state: &ConversationState,
        caller: ParentRun,
        time: Option<Duration>,
    ) -> Self {
        let shared = state.agent.context().clone().with(state.spending.run_budget());
        let mut shared = shared.with_tools(state.offered().tools());
        let of_run = state.options.as_ref().map(|options| &options.values);
        for values in [state.values.as_ref(), of_run].into_iter().flatten() {
            shared = shared.with_values(values);
        }
        let conversation = state.durable.as_ref().map(|durable| Arc::clone(durable.id()));
        let (caller, spilling) = (Arc::new(caller), LargeResultStore::of(state));
        Self { shared, conversation, made: HashMap::new(), time, caller, spilling }
    }

    /// Sets the name of the run in traces.
    pub(crate) fn are_traced_as(&self, run: &str) {
        self.caller.is_traced_as(run);
    }

    /// The host through which the agents of a call are connected to this run.
    pub(crate) fn site(&self, call: &str) -> Option<Arc<SubagentHost>> {
        self.made.get(call)?.host()
    }

    /// The spending of a call's agents that no fact of this run records yet.
    pub(crate) fn spent_by(&self, call: &str) -> Option<Box<CallSpent>> {
        self.site(call)?.unrecorded_spending()
    }

    /// Takes the suspended agent of the call, if this result leaves the call open.
    pub(crate) fn take_suspended(
        &self,
        result: &ToolResult,
        is_repeatable: bool,
    ) -> Option<SuspendedChild> {
        self.site(result.call_id())?.take_suspended(result, is_repeatable)
    }

    /// The store for large results of the run's calls.
    pub(crate) fn spilling(&self) -> &LargeResultStore {
        &self.spilling
    }

    /// Whether an agent of this call was started or continued in this process.
    pub(crate) fn has_entered(&self, call: &str) -> bool {
        self.site(call).is_some_and(|site| site.has_entered())
    }

    /// The context of a tool that checks an answer.
    pub(crate) fn for_verdict(&self, call: &ToolCall, stop: &CancellationToken) -> ToolContext {
        let deadline = self.time.and_then(|time| Instant::now().checked_add(time));
        self.shared.for_call(call).with_cancellation(stop.child_token()).with_deadline(deadline)
    }

    /// Makes and keeps the context of a call that is about to run.
    pub(crate) fn make(
        &mut self,
        call: &ToolCall,
        tool: Option<&Tool>,
        of_call: CallContextParts<'_>,
    ) -> ToolContext {
        let CallContextParts { transcript, granted, rules, counted, is_unwritten, stop } = of_call;
        let id = call.id().to_owned();
        let progress_sender = self.caller.progress_sender();
        let effects = tool.map(Tool::side_effects).unwrap_or_default();
        let context = self.shared.for_call(call);
        let asking = context.human_wait().clone();
        let caller = &self.caller;
        let site = SubagentHost::new(caller, call, effects, rules, counted, asking, is_unwritten)
            .of_agent(tool.is_some_and(Tool::is_agent))
            .with_message_id(id_of_question(transcript));
        let CallHashes { fingerprint, sameness } = CallHashes::of(tool, call, granted);
        let identity = tool.map(|_| {
            let conversation = transcript.messages().first().map_or("", Message::id);
            CallIdentity {
                conversation: conversation.into(),
                call: call.id().into(),
                tool: call.name().into(),
                effects,
                fingerprint,
                sameness,
            }
        });
        let key = idempotency_key(self.conversation.as_deref(), transcript, call, fingerprint);
        let context = context
            .with_idempotency_key(key)
            .with_answered(granted.and_then(|granted| granted.answered.clone()))
            .with_reviewed(granted.and_then(|granted| granted.reviewed.clone()))
            .with_bound(
                granted.and_then(|granted| granted.binding.as_ref()).map(|it| it.arguments.clone()),
            )
            .running_nothing(granted.is_some_and(|granted| granted.runs_nothing))
            .with_cancellation(stop.child_token())
            .with_deadline(self.time.and_then(|time| Instant::now().checked_add(time)))
            .with_watch(move |message| {
                progress_sender.report(&id, message);
            })
            .with_identity(identity)
            .with_host(Arc::new(site))
            .with_spills(self.spilling.for_call(transcript, call.name() == READ_RESULT))
            .inside_limits(
                self.caller.places().iter().chain(tool.and_then(Tool::concurrency_limit)),
            );
        // A context has the transcript only if its tool takes the transcript. While a context shares the
        // transcript, each new message copies the whole transcript.
        let context = match tool.is_some_and(Tool::needs::<Transcript>) {
            true => context.with(transcript.clone()),
            false => context,
        };
        self.made.insert(call.id().to_owned(), context.clone());
        context
    }

    /// The concurrency limit of this tool. `None` if an agent makes the call inside another call of the tool,
    /// because the outer call is counted already.
    pub(crate) fn places_of<'t>(&self, tool: Option<&'t Tool>) -> Option<&'t ConcurrencyLimit> {
        tool?.concurrency_limit().filter(|limit| !limit.is_among(self.caller.places()))
    }

    /// Drops the contexts when a turn is over.
    pub(crate) fn clear(&mut self, state: &ConversationState) {
        self.made.clear();
        self.spilling.update_limit(state);
    }

    /// The correct result of a call that was stopped. If the function of the call could not be stopped, the
    /// result says that the call still runs. The result includes the output that the tool has produced so
    /// far.
    pub(crate) fn with_the_truth(
        &self,
        state: &ConversationState,
        result: ToolResult,
    ) -> ToolResult {
        let id = result.call_id();
        let identity = self.made.get(id).and_then(ToolContext::identity);
        let runs_on =
            result.outcome() == CallOutcome::InDoubt && identity.is_some_and(is_still_running);
        let result = match runs_on {
            true => still_running_result(id),
            false => result,
        };
        self.with_output_so_far(&state.agent, result)
    }

    /// The result of a call that was stopped, with the output that its tool has produced so far.
    fn with_output_so_far(&self, agent: &Agent, result: ToolResult) -> ToolResult {
        let stopped = matches!(
            result.outcome(),
            CallOutcome::StoppedReading | CallOutcome::InDoubt | CallOutcome::StillRunning
        );
        let kept = self.made.get(result.call_id()).and_then(ToolContext::output_so_far);
        let Some(kept) = kept.filter(|_| stopped) else { return result };
        let kept = ToolContent::Text(output_notice(&kept));
        let content = result.content().iter().cloned().chain([kept]);
        let (id, outcome) = (result.call_id(), result.outcome());
        agent.tools().readable_to(self.spilling.limit(), id, outcome, content.collect())
    }
}

/// The parts of a context that differ between the calls of a run.
pub(crate) struct CallContextParts<'a> {
    pub(crate) transcript: &'a Transcript,
    pub(crate) granted: Option<&'a ApprovedCall>,
    pub(crate) rules: CallerRules,
    /// The spending of the call's agents that is already counted.
    pub(crate) counted: CallSpent,
    /// Whether no fact in the journal records that the call has started.
    pub(crate) is_unwritten: bool,
    pub(crate) stop: &'a CancellationToken,
}

/// The two hashes of a call.
pub(crate) struct CallHashes {
    /// The hash of the tool and the arguments that the model wrote.
    fingerprint: Fingerprint,
    /// The hash of the tool and the arguments with which the call runs. Calls with the same effect have equal hashes.
    pub(crate) sameness: Fingerprint,
}

impl CallHashes {
    pub(crate) fn of(
        tool: Option<&Tool>,
        call: &ToolCall,
        approved: Option<&ApprovedCall>,
    ) -> Self {
        let written = call.decoded().ok();
        let fingerprint = match &written {
            Some(arguments) => arguments.fingerprint(call.name()),
            None => call.fingerprint(),
        };
        let seen = approved.and_then(|approved| approved.binding.as_ref());
        let seen = seen.map(|seen| seen.arguments.clone());
        let runs_with =
            seen.as_ref().map_or(fingerprint, |arguments| arguments.fingerprint(call.name()));
        let sameness = tool.zip(seen.or(written)).and_then(|(tool, it)| tool.sameness(it));
        Self { fingerprint, sameness: sameness.unwrap_or(runs_with) }
    }
}

/// The result of a call that still runs, although an earlier run of this process has asked it to stop.
pub(crate) fn still_running_result(call: &str) -> ToolResult {
    ToolResult::new(call, CallOutcome::StillRunning, [ToolContent::Text(still_running_notice())])
}
