//! The conversations of an agent as a virtual object of the engine.

use std::{fmt, sync::Arc};

use futures_util::FutureExt as _;
use harness::{
    Agent, Error,
    agent::{OpenCall, Steps},
};
use restate_sdk::prelude::*;

use crate::{
    client::ingress,
    run::{Run, ends, read},
    said::{Ended, Facts, Said, Words},
    state::{shared_facts_of, shared_turn_of},
    stop::{CANCELLED, GONE, TOLD, Told, tell},
};

/// Serves the conversations of one agent as a virtual object of the engine, whose keys are their names.
///
/// Bind it to an endpoint of the engine's SDK: each worker that serves it may go on with each conversation.
#[derive(Clone)]
pub struct Conversations {
    pub(crate) agent: Agent,
    pub(crate) ingress: reqwest::Url,
    pub(crate) http: reqwest::Client,
    pub(crate) on_step: Arc<dyn Fn(&str) + Send + Sync>,
    pub(crate) each_run: Arc<EachRun>,
}

type EachRun = dyn Fn(&str, &str, Steps) -> Steps + Send + Sync;

impl Conversations {
    /// Serves this agent. Through `ingress`, the address at which the engine takes requests, a step that is
    /// being done hears at once that somebody stops the run.
    ///
    /// # Errors
    /// Fails if `ingress` is no address that begins with `http`.
    pub fn new(agent: Agent, ingress_at: &str) -> Result<Self, Error> {
        let (http, ingress) = ingress(ingress_at)?;
        let (on_step, each_run) =
            (Arc::new(|_: &str| ()), Arc::new(|_: &str, _: &str, steps| steps));
        Ok(Self { agent, ingress, http, on_step, each_run })
    }

    /// Gives the steps of each run what it needs beside the message: values for the tools
    /// ([`Steps::state`]), limits ([`Steps::limits`]), the type of the answer ([`Steps::answer`]) and who looks
    /// at it ([`Steps::verify`]). Called with the name of the conversation and the
    /// [kind](crate::Conversation::kind) of the run, which is empty unless it is said. Each worker calls it
    /// anew with each replay, so it follows from these two alone.
    #[must_use]
    pub fn each_run(
        mut self,
        given: impl Fn(&str, &str, Steps) -> Steps + Send + Sync + 'static,
    ) -> Self {
        self.each_run = Arc::new(given);
        self
    }

    /// Calls this with `before`, `after` and `kept` and the name of a step, for logs and for tests that kill
    /// the process there.
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
    // The journal of a run has all facts of its conversation. The journals of all ended runs would grow with the
    // square of their number, and a run that is restarted from its journal would not meet its own steps.
    journal_retention = "0s",
    // By the engine's own limit a run would be paused after an hour without a worker.
    invocation_retry_policy(max_attempts = 1_000_000_000)
)]
impl Conversations {
    /// The user says something: a run begins, and this is how it ended.
    #[handler]
    async fn send(&self, ctx: ObjectContext<'_>, words: Json<Words>) -> HandlerResult<Json<Ended>> {
        let (message, kind) = words.into_inner().parts();
        let mut run = Run::begins(self, &ctx, Some(kind)).await?;
        let said = run.steps().say(message).boxed();
        let came = run.begin("say", said).await;
        run.ends(came).await
    }

    /// A run that had stopped goes on.
    #[handler]
    async fn resume(&self, ctx: ObjectContext<'_>) -> HandlerResult<Json<Ended>> {
        let mut run = Run::begins(self, &ctx, None).await?;
        let resumed = run.steps().resume().boxed();
        let came = run.begin("resume", resumed).await;
        run.ends(came).await
    }

    /// Keeps what somebody has said about a call, and goes on if the run waits. It fails if that does not count.
    #[handler]
    async fn answered(
        &self,
        ctx: ObjectContext<'_>,
        answer: Json<(Said, String)>,
    ) -> HandlerResult<Json<Ended>> {
        let (said, counts) = answer.into_inner();
        let mut run = Run::begins(self, &ctx, None).await?;
        let steps = Arc::clone(&run.steps);
        let answer = async move { said.facts(&read(&steps)).map_err(|err| refused(&err, 422)) };
        let came =
            run.change("answer", answer.boxed(), || ctx.resolve_awakeable(&counts, ())).await;
        run.ends(came).await
    }

    /// The time is over in which a call could be answered.
    #[handler]
    async fn expired(
        &self,
        ctx: ObjectContext<'_>,
        wait: Json<(String, u64)>,
    ) -> HandlerResult<Json<Ended>> {
        let mut run = Run::begins(self, &ctx, None).await?;
        let (steps, (call, until)) = (Arc::clone(&run.steps), wait.into_inner());
        let expiry = async move {
            let steps = read(&steps);
            let same = |open: &OpenCall| open.call.id() == call && ends(open) == Some(until);
            let waits = steps.waiting().iter().any(same);
            if waits { steps.expired(&call).map_err(failed) } else { Ok(Vec::new()) }
        };
        let came = run.change("expire", expiry.boxed(), || ()).await;
        run.ends(came).await
    }

    /// Stops the run whose bell this was if it waits, and takes the stop if none has begun since.
    #[handler]
    async fn end(&self, ctx: ObjectContext<'_>, bell: String) -> HandlerResult<Json<Ended>> {
        let mut run = Run::begins(self, &ctx, None).await?;
        let came = if run.is_next_after(&bell) { run.stop("end").await } else { Ok(()) };
        run.ends(came).await
    }

    /// The facts from a place on, also while a run goes on.
    #[handler(lazy_state = true, idempotency_retention = "0s")]
    async fn facts(&self, ctx: SharedObjectContext<'_>, from: u32) -> HandlerResult<Json<Facts>> {
        let run = shared_turn_of(&ctx).await?.run;
        let (facts, next, _) = shared_facts_of(&ctx, from).await?;
        Ok(Json(Facts { facts, next, run }))
    }

    /// The calls that wait for somebody, or of which nobody knows how they ended.
    #[handler(idempotency_retention = "0s")]
    async fn open(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<Vec<OpenCall>>> {
        let (facts, ..) = shared_facts_of(&ctx, 0).await?;
        let steps = self.agent.steps(ctx.key(), facts).map_err(failed)?;
        Ok(Json(steps.waiting().into_iter().chain(steps.in_doubt()).collect()))
    }

    /// Somebody says something about a call: refused if it does not count, else the run that has kept it.
    #[handler(idempotency_retention = "0s")]
    async fn answer(
        &self,
        ctx: SharedObjectContext<'_>,
        said: Json<Said>,
    ) -> HandlerResult<Json<String>> {
        let (agent, key, about) = (self.agent.clone(), ctx.key().to_owned(), said.into_inner());
        let ((facts, ..), tried) = (shared_facts_of(&ctx, 0).await?, about.clone());
        // What cannot count is refused at once. Kept, since it may be too late when this is replayed.
        let may_count = ctx.run(|| async move {
            let steps = agent.steps(key, facts).map_err(failed)?;
            tried.facts(&steps).map(drop).map_err(|err| refused(&err, 422).into())
        });
        may_count.name("may count").await?;
        // It counts when it is kept, and others may be kept before it.
        let (id, counts) = ctx.awakeable::<()>();
        let conversation = ctx.object_client::<ConversationsClient>(ctx.key());
        // With a key the engine knows for a day how it has ended, as it does of `send`.
        let kept = conversation.answered(Json((about, id.clone()))).idempotency_key(id).call();
        let run = kept.invocation_handle().await?.invocation_id().to_owned();
        restate_sdk::select! {
            counts = counts => counts?,
            ended = kept => drop(ended?),
        }
        Ok(Json(run))
    }

    /// Stops the run that goes on or waits, or else the one that begins next.
    #[handler(lazy_state = true, idempotency_retention = "0s")]
    async fn stop(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<()> {
        let bell = shared_turn_of(&ctx).await?.bell;
        let last = match tell(&ctx, ctx.key(), &bell, Told::Stopped).await {
            Told::Stopped => bell,
            Told::Over(run) => run,
        };
        // For a run that waits or was killed, which hears nothing, and where none begins.
        ctx.object_client::<ConversationsClient>(ctx.key()).end(last).send();
        Ok(())
    }

    /// The bell of a run: waits until it is told that the run is stopped, or is over.
    #[handler(lazy_state = true)]
    async fn stopped(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<Told>> {
        let told = ctx.signal::<Json<Told>>(TOLD).await;
        told.map_err(|err| match err.code() {
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

/// The engine would only meet it again: it is told not to.
pub(crate) fn failed(error: Error) -> TerminalError {
    refused(&error, 500)
}
