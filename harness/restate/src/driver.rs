//! A conversation as a virtual object of the engine: each action of a run is a step that the engine keeps.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use harness::{
    Agent, Error, Message, Outcome,
    agent::{Action, OpenCall, Steps},
    journal::{Envelope, InterruptCause},
};
use restate_sdk::prelude::*;

use crate::{
    client::ingress,
    said::{Ended, Facts, Said, Words},
    stop::{Stop, stop_of},
};

/// How many chunks of facts there are.
const CHUNKS: &str = "chunks";
/// The invocation that runs now.
const RUN: &str = "run";
/// What kind of run the last message has begun.
const KIND: &str = "kind";
/// The signal that ends the invocation which waits for a stop.
const STOP: &str = "stop";
/// The code with which the engine says that a run is cancelled.
const CANCELLED: u16 = 409;
/// What one step may come to, in bytes of JSON: a quarter of what the engine takes as one message.
const LARGEST: usize = 8 << 20;

type Came = Result<Vec<Envelope>, Error>;

/// Serves the conversations of one agent as a virtual object of the engine, whose keys are their names.
///
/// Bind it to an endpoint of the engine's SDK: each worker that serves it may go on with each conversation.
#[derive(Clone)]
pub struct Conversations {
    agent: Agent,
    ingress: reqwest::Url,
    http: reqwest::Client,
    on_step: Arc<dyn Fn(&str) + Send + Sync>,
    each_run: Arc<EachRun>,
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

#[object(name = "Conversations", abort_timeout = "1 day", lazy_state = false)]
impl Conversations {
    /// The user says something: a run begins, and this is how it ended.
    #[handler]
    async fn send(&self, ctx: ObjectContext<'_>, words: Json<Words>) -> HandlerResult<Json<Ended>> {
        let (message, kind) = words.into_inner().parts();
        let mut run = Run::open(self, &ctx, Some(kind)).await?;
        let said = run.steps().say(message).boxed();
        run.ended_with("say", said).await
    }

    /// A run that had stopped goes on.
    #[handler]
    async fn resume(&self, ctx: ObjectContext<'_>) -> HandlerResult<Json<Ended>> {
        let mut run = Run::open(self, &ctx, None).await?;
        let resumed = run.steps().resume().boxed();
        run.ended_with("resume", resumed).await
    }

    /// Goes on with what somebody has said about a call, if that still counts.
    #[handler]
    async fn answered(
        &self,
        ctx: ObjectContext<'_>,
        said: Json<Said>,
    ) -> HandlerResult<Json<Ended>> {
        let mut run = Run::open(self, &ctx, None).await?;
        let steps = Arc::clone(&run.steps);
        let answer = async move { Ok(said.into_inner().facts(&read(&steps)).unwrap_or_default()) };
        run.ended_with("answer", answer.boxed()).await
    }

    /// The time is over in which a call could be answered.
    #[handler]
    async fn expired(
        &self,
        ctx: ObjectContext<'_>,
        wait: Json<(String, u64)>,
    ) -> HandlerResult<Json<Ended>> {
        let mut run = Run::open(self, &ctx, None).await?;
        let (steps, (call, until)) = (Arc::clone(&run.steps), wait.into_inner());
        let expiry = async move {
            let steps = read(&steps);
            let same = |open: &OpenCall| open.call.id() == call && ends(open) == Some(until);
            let waits = steps.waiting().iter().any(same);
            if waits { steps.expired(&call) } else { Ok(Vec::new()) }
        };
        run.ended_with("expire", expiry.boxed()).await
    }

    /// Stops a conversation that waits.
    #[handler]
    async fn end(&self, ctx: ObjectContext<'_>) -> HandlerResult<Json<Ended>> {
        let mut run = Run::open(self, &ctx, None).await?;
        let steps = Arc::clone(&run.steps);
        let end = async move { Ok(read(&steps).stop(InterruptCause::Program).unwrap_or_default()) };
        run.ended_with("end", end.boxed()).await
    }

    /// The facts from a place on, also while a run goes on.
    #[handler(lazy_state = true)]
    async fn facts(&self, ctx: SharedObjectContext<'_>, from: u32) -> HandlerResult<Json<Facts>> {
        let runs = ctx.get::<String>(RUN).await?.is_some();
        let (facts, next) = shared_facts_of(&ctx, from).await?;
        Ok(Json(Facts { facts, next, runs }))
    }

    /// The calls that wait for somebody, or of which nobody knows how they ended.
    #[handler]
    async fn open(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<Vec<OpenCall>>> {
        let (facts, _) = shared_facts_of(&ctx, 0).await?;
        let steps = self.agent.steps(ctx.key(), facts).map_err(failed)?;
        Ok(Json(steps.waiting().into_iter().chain(steps.in_doubt()).collect()))
    }

    /// Somebody says something about a call: refused if it does not count.
    #[handler]
    async fn answer(&self, ctx: SharedObjectContext<'_>, said: Json<Said>) -> HandlerResult<()> {
        let (agent, key, about) = (self.agent.clone(), ctx.key().to_owned(), said.into_inner());
        let ((facts, _), tried) = (shared_facts_of(&ctx, 0).await?, about.clone());
        // Kept, since it may be too late when this is replayed.
        let counts = ctx.run(|| async move {
            let steps = agent.steps(key, facts).map_err(failed)?;
            tried.facts(&steps).map(drop).map_err(|err| refused(&err, 422).into())
        });
        counts.name("counts").await?;
        ctx.object_client::<ConversationsClient>(ctx.key()).answered(Json(about)).send();
        Ok(())
    }

    /// Stops the run that goes on or waits.
    #[handler(lazy_state = true)]
    async fn stop(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<()> {
        match ctx.get::<String>(RUN).await? {
            Some(run) => no_longer(&ctx, ctx.key(), run, true).await?,
            None => drop(ctx.object_client::<ConversationsClient>(ctx.key()).end().send()),
        }
        Ok(())
    }

    /// Waits until the run that is its idempotency key is stopped, or is over.
    #[handler(lazy_state = true)]
    async fn stopped(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<bool>> {
        Ok(ctx.signal::<Json<bool>>(STOP).await?)
    }
}

impl fmt::Debug for Conversations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversations")
            .field("ingress", &self.ingress.as_str())
            .finish_non_exhaustive()
    }
}

/// Ends the invocation that waits for a stop of this run.
async fn no_longer<'a>(
    ctx: &impl ContextClient<'a>,
    key: &str,
    run: String,
    stopped: bool,
) -> HandlerResult<()> {
    let waits = ctx.object_client::<ConversationsClient>(key).stopped().idempotency_key(run);
    waits.send().await?.signal(STOP).resolve(Json(stopped));
    Ok(())
}

/// One invocation that may change the conversation.
struct Run<'a> {
    of: &'a Conversations,
    ctx: &'a ObjectContext<'a>,
    steps: Arc<RwLock<Steps>>,
    chunks: u32,
    stop: Stop,
}

impl<'a> Run<'a> {
    /// A run that begins has a kind; one that goes on has that with which it has begun.
    async fn open(
        of: &'a Conversations,
        ctx: &'a ObjectContext<'_>,
        kind: Option<String>,
    ) -> HandlerResult<Self> {
        // A run that the engine has killed has not said that it is over.
        if let Some(killed) = ctx.get::<String>(RUN).await? {
            no_longer(ctx, ctx.key(), killed, false).await?;
        }
        ctx.set(RUN, ctx.invocation_id().to_owned());
        let kind = match kind {
            Some(kind) => {
                ctx.set(KIND, kind.clone());
                kind
            }
            None => ctx.get::<String>(KIND).await?.unwrap_or_default(),
        };
        let (facts, next) = facts_of(ctx, 0).await?;
        // With each replay new ones: the calls of others do not run here.
        let steps = of.agent.steps(ctx.key(), facts).map_err(failed)?;
        let steps = (of.each_run)(ctx.key(), &kind, steps);
        let stop = stop_of(of.http.clone(), of.ingress.clone(), ctx.key(), ctx.invocation_id());
        Ok(Self { of, ctx, steps: Arc::new(RwLock::new(steps)), chunks: next, stop })
    }

    fn steps(&self) -> RwLockReadGuard<'_, Steps> {
        read(&self.steps)
    }

    async fn ended_with(
        &mut self,
        begins: &str,
        with: BoxFuture<'static, Came>,
    ) -> HandlerResult<Json<Ended>> {
        let came = self.drive(begins, with).await;
        for open in self.steps().waiting() {
            let Some(until) = ends(&open) else { continue };
            let client = self.ctx.object_client::<ConversationsClient>(self.ctx.key());
            client.expired(Json((open.call.id().to_owned(), until))).send_after(left(until));
        }
        no_longer(self.ctx, self.ctx.key(), self.ctx.invocation_id().to_owned(), false).await?;
        self.ctx.clear(RUN);
        came?;
        let steps = self.steps();
        let outcome = match steps.next() {
            Action::Finish(outcome) => outcome,
            Action::AwaitAnswers => Outcome::Waiting,
            _ => Outcome::Cancelled,
        };
        let text = steps.transcript().messages().last().map(Message::text).unwrap_or_default();
        Ok(Json(Ended { outcome, text }))
    }

    async fn drive(&mut self, begins: &str, with: BoxFuture<'static, Came>) -> HandlerResult<()> {
        self.keep(begins, with).await?;
        loop {
            let next = self.steps().next();
            let name = match next {
                Action::Finish(_) | Action::AwaitUser | Action::AwaitAnswers => return Ok(()),
                Action::CallProvider => "ask",
                Action::Decide(_) => "decide",
                Action::RunCalls(_) => "call",
                Action::AwaitResults => "run",
                Action::FindOut(_) => "find out",
                Action::CheckAnswer => "check",
                Action::Settle => "settle",
            };
            let act = self.steps().act().boxed();
            let act = match name {
                "settle" => act,
                _ => unless_stopped(Arc::clone(&self.steps), act, self.stop.clone()).boxed(),
            };
            self.keep(name, act).await?;
        }
    }

    /// Lets the engine keep what this comes to, and lets it take effect.
    async fn keep(&mut self, name: &str, act: BoxFuture<'static, Came>) -> HandlerResult<()> {
        let (told, steps, step) = (&self.of.on_step, Arc::clone(&self.steps), name.to_owned());
        let came = Arc::new(Mutex::new(None));
        let known = Arc::clone(&came);
        let hook = Arc::clone(told);
        let kept = self.ctx.run(|| async move {
            hook(&format!("before {step}"));
            let facts = not_too_large(act.await, &steps).map_err(failed)?;
            *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts.clone());
            hook(&format!("after {step}"));
            Ok(Json(facts))
        });
        let facts = match kept.name(name).await {
            Ok(Json(facts)) => facts,
            Err(error) if error.code() == CANCELLED => self.cancelled(came).await?,
            Err(error) => return Err(error.into()),
        };
        if facts.is_empty() {
            return Ok(());
        }
        let mut steps = self.steps.write().unwrap_or_else(PoisonError::into_inner);
        steps.apply(facts.clone()).map_err(failed)?;
        self.ctx.set(&named(self.chunks), Json(facts));
        self.chunks += 1;
        self.ctx.set(CHUNKS, self.chunks);
        told(&format!("kept {name}"));
        Ok(())
    }

    /// The engine has cancelled the run. It may do so after a step has ended and before it is kept.
    async fn cancelled(
        &self,
        came: Arc<Mutex<Option<Vec<Envelope>>>>,
    ) -> HandlerResult<Vec<Envelope>> {
        let (agent, key) = (self.of.agent.clone(), self.ctx.key().to_owned());
        let so_far = self.steps().facts().to_vec();
        let stopped = self.ctx.run(|| async move {
            let known = came.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (is_known, mut facts) = (known.is_some(), known.unwrap_or_default());
            let mut steps = agent.steps(key, so_far).map_err(failed)?;
            steps.apply(facts.clone()).map_err(failed)?;
            let cause = InterruptCause::Program;
            let stop = if is_known { steps.stop(cause) } else { steps.give_up(cause) };
            // It fails where the run was over already.
            facts.extend(stop.unwrap_or_default());
            Ok(Json(facts))
        });
        Ok(stopped.name("cancelled").await?.into_inner())
    }
}

/// Does an action, unless somebody stops the run before its end.
async fn unless_stopped(
    steps: Arc<RwLock<Steps>>,
    act: BoxFuture<'static, Came>,
    stop: Stop,
) -> Came {
    if stop.clone().now_or_never().is_some() {
        return read(&steps).stop(InterruptCause::Program);
    }
    tokio::select! {
        biased;
        came = act => came,
        () = stop => read(&steps).give_up(InterruptCause::Program),
    }
}

/// What the engine cannot take it would ask for again and again: the run fails instead, and says why.
fn not_too_large(came: Came, steps: &RwLock<Steps>) -> Came {
    let facts = came?;
    let bytes = serde_json::to_vec(&facts).map_or(usize::MAX, |json| json.len());
    if bytes <= LARGEST {
        return Ok(facts);
    }
    let error = format!(
        "a step came to {bytes} bytes, and the engine is given {LARGEST} at most: let tools put what is \
         large into a store of their own and return where it is"
    );
    read(steps).give_up(InterruptCause::Failure { error })
}

fn read(steps: &RwLock<Steps>) -> RwLockReadGuard<'_, Steps> {
    steps.read().unwrap_or_else(PoisonError::into_inner)
}

/// The two contexts share no trait whose futures can be sent to another thread.
macro_rules! reads_facts {
    ($name:ident, $context:ident) => {
        /// The facts from a chunk on, and the number of the chunk after them.
        fn $name<'a>(
            ctx: &'a $context<'_>,
            from: u32,
        ) -> BoxFuture<'a, HandlerResult<(Vec<Envelope>, u32)>> {
            async move {
                let next: u32 = ctx.get(CHUNKS).await?.unwrap_or(0);
                let (names, mut facts) = ((from..next).map(named).collect::<Vec<_>>(), Vec::new());
                // As short as the names live.
                let ctx: &$context<'_> = ctx;
                for name in &names {
                    let chunk = ctx.get::<Json<Vec<Envelope>>>(name).await?;
                    facts.extend(chunk.map(Json::into_inner).unwrap_or_default());
                }
                Ok((facts, next))
            }
            .boxed()
        }
    };
}
reads_facts!(facts_of, ObjectContext);
reads_facts!(shared_facts_of, SharedObjectContext);

fn named(chunk: u32) -> String {
    format!("facts {chunk:08}")
}

fn ends(open: &OpenCall) -> Option<u64> {
    open.wait.as_ref()?.until
}

fn left(until: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(until).saturating_sub(now)
}

fn refused(error: &Error, code: u16) -> TerminalError {
    TerminalError::new_with_code(code, error.to_string())
}

/// The engine would only meet it again: it is told not to.
fn failed(error: Error) -> TerminalError {
    refused(&error, 500)
}
