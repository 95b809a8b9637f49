//! The conversations of an agent as a virtual object of the engine.

use std::{fmt, sync::Arc};

use futures_util::FutureExt as _;
use harness::{
    Agent, Error,
    agent::{OpenCall, Steps},
};
use restate_sdk::prelude::*;

use crate::{
    client::{check_kind, ingress},
    conversation_locks::ConversationLocks,
    protocol::{Command, Facts, Input, RunEnd},
    run::{ConversationRun, read},
    state::{RUN, shared_facts_of, shared_turn_of, turn_of},
    stop_signals::{BellList, CANCELLED, GONE, StopSignal, TOLD, stop_conversation},
    timers::{again, deadline_of},
};

/// Serves the conversations of one agent as a virtual object of the engine. The name of a conversation is its key.
///
/// Bind it to an endpoint of the engine's SDK. Each worker that serves it can continue each conversation.
#[derive(Clone)]
pub struct Conversations {
    pub(crate) agent: Agent,
    pub(crate) ingress: reqwest::Url,
    pub(crate) http: reqwest::Client,
    pub(crate) on_step: Arc<dyn Fn(&str) + Send + Sync>,
    pub(crate) each_run: Arc<EachRun>,
    pub(crate) locks: ConversationLocks,
}

type EachRun = dyn Fn(&str, &str, Steps) -> Steps + Send + Sync;

impl Conversations {
    /// Serves this agent. `ingress_at` is the URL of the engine's ingress. The worker uses it to learn of a stop at
    /// once, even in the middle of a step.
    ///
    /// # Errors
    /// Fails if `ingress_at` does not begin with `http`.
    pub fn new(agent: Agent, ingress_at: &str) -> Result<Self, Error> {
        let (http, ingress) = ingress(ingress_at)?;
        let (on_step, each_run) =
            (Arc::new(|_: &str| ()), Arc::new(|_: &str, _: &str, steps| steps));
        Ok(Self { agent, ingress, http, on_step, each_run, locks: ConversationLocks::default() })
    }

    /// Sets what each run gets in addition to its message: values for the tools ([`Steps::state`]), limits
    /// ([`Steps::limits`]), the type of the answer ([`Steps::answer`]) and a verifier of the answer
    /// ([`Steps::verify`]).
    ///
    /// `given` is called with the name of the conversation and the [kind](crate::Conversation::kind) of the run, which
    /// is empty unless the program sets it. It is called again with each replay, in any worker, so its result must
    /// depend only on these two values. If it panics, the request fails with the text of the panic.
    #[must_use]
    pub fn each_run(
        mut self,
        given: impl Fn(&str, &str, Steps) -> Steps + Send + Sync + 'static,
    ) -> Self {
        self.each_run = Arc::new(given);
        self
    }

    /// Sets a function that is called with the name of each step, prefixed by `before`, `after` and `kept`. Use it for
    /// logs, and for tests that kill the process at a step. A panic in the function is ignored.
    #[must_use]
    pub fn on_step(mut self, called: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_step = Arc::new(called);
        self
    }
}

#[object(
    name = "Conversations",
    abort_timeout = "1 day",
    lazy_state = false,
    // The engine's journal of a run contains all facts of its conversation. If the journals of ended runs were kept,
    // their total size would grow with the square of the number of runs. They would have no use: a run cannot be
    // restarted from its journal, because the restarted run would have a different id from the one in its steps.
    journal_retention = "0s",
    // By default the engine pauses a run after about an hour without a worker, and retries at intervals of up to a
    // minute.
    invocation_retry_policy(max_attempts = 1_000_000_000, max_interval = "5s")
)]
impl Conversations {
    /// Begins a run with a message of the user. Returns how the run ended.
    #[handler]
    async fn send(
        &self,
        ctx: ObjectContext<'_>,
        input: Json<Input>,
    ) -> HandlerResult<Json<RunEnd>> {
        let (message, kind) = input.into_inner().parts();
        check_kind(&kind).map_err(|what| TerminalError::new_with_code(413, what))?;
        let mut run = ConversationRun::take_turn(self, &ctx, Some(kind)).await?;
        let came = run.start(message).await;
        run.pass_turn(came).await
    }

    /// Continues a run that was stopped.
    #[handler]
    async fn resume(&self, ctx: ObjectContext<'_>) -> HandlerResult<Json<RunEnd>> {
        let mut run = ConversationRun::take_turn(self, &ctx, None).await?;
        let came = run.resume().await;
        run.pass_turn(came).await
    }

    /// Stores a decision or an outcome for a call, and continues the run if it waits. Fails if the command does not
    /// count.
    #[handler]
    async fn answered(
        &self,
        ctx: ObjectContext<'_>,
        command: Json<(Command, String)>,
    ) -> HandlerResult<Json<RunEnd>> {
        let (command, counts) = command.into_inner();
        let mut run = ConversationRun::take_turn(self, &ctx, None).await?;
        let steps = Arc::clone(&run.steps);
        let answer = async move {
            let facts = command.facts(&read(&steps)).map_err(|err| refused(&err, 422))?;
            facts.await.map_err(|err| refused(&err, 422))
        };
        let came =
            run.change("answer", answer.boxed(), || ctx.resolve_awakeable(&counts, ())).await;
        run.pass_turn(came).await
    }

    /// Called by a timer: the deadline for answering a call has passed.
    #[handler]
    async fn expired(
        &self,
        ctx: ObjectContext<'_>,
        wait: Json<(String, u64)>,
    ) -> HandlerResult<Json<RunEnd>> {
        let (call, until) = wait.into_inner();
        let run = ConversationRun::take_turn(self, &ctx, None).await;
        if run.as_ref().is_err_and(|error| error.code() != CANCELLED) {
            // The call still waits for its deadline, so the timer is set again.
            let timer = ctx.object_client::<ConversationsClient>(ctx.key());
            timer.expired(Json((call.clone(), until))).send_after(again(until));
        }
        let mut run = run?;
        let steps = Arc::clone(&run.steps);
        let expiry = async move {
            let steps = read(&steps);
            let same = |open: &OpenCall| open.call.id() == call && deadline_of(open) == Some(until);
            let waits = steps.waiting().iter().any(same);
            if waits { steps.expired(&call).map_err(failed) } else { Ok(Vec::new()) }
        };
        let came = run.expire(expiry.boxed()).await;
        run.pass_turn(came).await
    }

    /// The mark of a stop in the queue of the conversation. If the stop has not stopped any run yet, the mark stops the
    /// waiting run.
    #[handler(idempotency_retention = "0s")]
    async fn end(&self, ctx: ObjectContext<'_>, stop: String) -> HandlerResult<Json<RunEnd>> {
        match ConversationRun::take_turn(self, &ctx, None).await {
            Ok(mut run) => {
                let came = run.handle_mark(&stop).await;
                run.pass_turn(came).await
            }
            Err(error) => {
                // The mark takes effect only on runs that were started before the mark. If the mark were lost, the stop
                // would take effect on a later run.
                let mut turn = turn_of(&ctx).await?.unwrap_or_default();
                turn.number += 1;
                turn.late |= turn.handle_mark(&ctx, &stop).await;
                ctx.set(RUN, Json(turn));
                Err(error.into())
            }
        }
    }

    /// Returns the facts that begin at this position, even while a run is active.
    #[handler(lazy_state = true, idempotency_retention = "0s")]
    async fn facts(&self, ctx: SharedObjectContext<'_>, from: u32) -> HandlerResult<Json<Facts>> {
        let run = shared_turn_of(&ctx).await?.unwrap_or_default().run;
        let (facts, next, _) = shared_facts_of(&ctx, from).await?;
        Ok(Json(Facts { facts, next, run }))
    }

    /// Returns the calls that wait for a decision, a result or an answer.
    #[handler(idempotency_retention = "0s")]
    async fn open(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<Vec<OpenCall>>> {
        let (facts, ..) = shared_facts_of(&ctx, 0).await?;
        let steps = self.agent.steps(ctx.key(), facts).map_err(failed)?;
        Ok(Json(steps.waiting()))
    }

    /// Takes a decision or an outcome for a call. Returns the id of the run that has stored it. Fails if the command
    /// does not count.
    #[handler(idempotency_retention = "0s")]
    async fn answer(
        &self,
        ctx: SharedObjectContext<'_>,
        command: Json<Command>,
    ) -> HandlerResult<Json<String>> {
        let (agent, key, about) = (self.agent.clone(), ctx.key().to_owned(), command.into_inner());
        let ((facts, ..), tried) = (shared_facts_of(&ctx, 0).await?, about.clone());
        // A command that cannot count is refused at once. The check is a step, because a replay may see other facts.
        let may_count = ctx.run(|| async move {
            let steps = agent.steps(key, facts).map_err(failed)?;
            tried.facts(&steps).map(drop).map_err(|err| refused(&err, 422).into())
        });
        may_count.name("may count").await?;
        // The command counts only when it is stored, because other commands may be stored before it.
        let (id, counts) = ctx.awakeable::<()>();
        let conversation = ctx.object_client::<ConversationsClient>(ctx.key());
        // With a key, the engine remembers for a day how the run ended, as it does for `send`.
        let kept = conversation.answered(Json((about, id.clone()))).idempotency_key(id).call();
        let run = kept.invocation_handle().await?.invocation_id().to_owned();
        restate_sdk::select! {
            counts = counts => counts?,
            ended = kept => drop(ended?),
        }
        Ok(Json(run))
    }

    /// Stops the current run, which may be active or waiting. If there is no current run, stops the next started run.
    #[handler(lazy_state = true, idempotency_retention = "0s")]
    async fn stop(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<()>> {
        let turn = shared_turn_of(&ctx).await?.unwrap_or_default();
        stop_conversation(&ctx, BellList::of(self, ctx.key()), &turn).await;
        Ok(Json(()))
    }

    /// The bell of a run: an invocation that waits for the signal of a stop or of the end of a run.
    #[handler(lazy_state = true)]
    async fn stopped(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<StopSignal>> {
        let signal = ctx.signal::<Json<StopSignal>>(TOLD).await;
        signal.map_err(|err| match err.code() {
            CANCELLED => err.with_code(GONE).into(),
            _ => err.into(),
        })
    }
}

impl fmt::Debug for Conversations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversations")
            .field("ingress", &self.ingress.as_str())
            .finish_non_exhaustive()
    }
}

pub(crate) fn refused(error: &Error, code: u16) -> TerminalError {
    TerminalError::new_with_code(code, error.to_string())
}

/// An error that the engine must not retry, because it would occur again.
pub(crate) fn failed(error: Error) -> TerminalError {
    refused(&error, 500)
}
