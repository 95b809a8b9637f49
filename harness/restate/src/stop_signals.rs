//! How a run hears that somebody stops it, whether it goes on, waits or has not begun.
//!
//! A *bell* is an invocation of the handler `stopped`. It returns the first thing that it is told: that somebody stops,
//! or that a run is over. Either names the next bell, so the bells of a conversation are a list, at whose end is one that
//! was told nothing yet. Who stops, who listens and whose run ends all go along this list from the bell in the state
//! ([`TurnState::bell`]), and the engine takes one word at its end. So each stop has one place among the ends of the runs.
//!
//! A stop also leaves a *mark*, an invocation of `end`, in the queue of the conversation: what was started before the
//! stop is before it, and what is started after `stop` has returned is behind it.
//!
//! 1. A run listens from the bell of the state on. What is no run (a message or an answer that is refused, a timer that
//!    comes too late) and what is killed leave this bell as it is, so the next run hears what they were told.
//! 2. A run that ends goes to the end of the list, and says there that it is over. If it waits and there was a stop on the
//!    way, it stops what waits. The stops on the way were for it, so the next run listens behind them ([`TurnState::passed`]).
//! 3. If the mark of a stop comes first, no run has heard it: the mark stops what waits, or what a killed run has left. The
//!    next run listens behind this stop, since it was started after it. If the mark cannot begin, the next invocation that
//!    does stops what it would have stopped ([`TurnState::late`]).
//! 4. If the run before the mark has passed the stop, the next run was started after it, too. It listens behind this stop,
//!    and so hears a later one that came while the run before it was ending.
//! 5. If another run has begun since, the mark does nothing.
//!
//! A name is told once: an invocation that ends tells its own, a stop its own. So the list has no circle. The id of an
//! invocation is not enough for that: if its key is used again after the engine has forgotten it, another one has the
//! same id. So a name also has the number of the turn ([`TurnState::number`]). The list begins at the bell `first`, and the
//! bells stay for a day although the conversation was deleted: the first invocation of a new one listens behind the last
//! end of the old one ([`BellList::first`]), at which all old stops have been heard or marked.
//!
//! The engine tells a step nothing before its end, so a worker asks for the result of the bell through the ingress, as a
//! client does. If the ingress fails, it asks again. Until it knows whether a stop is there already, a run does not end its
//! first action; and before calls run that change something, it asks anew.

use std::{
    sync::{Arc, RwLock},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, join, pending, ready},
};
use harness::{agent::Steps, journal::InterruptCause};
use reqwest::{Client, Url};
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::{sync::oneshot, task::yield_now};

use crate::{
    client::{NOT_OVER, UNKNOWN, address, source},
    driver::{Conversations, ConversationsClient},
    run::{StepFacts, read},
};

/// The signal by which a bell is told something.
pub(crate) const TOLD: &str = "stop";
/// The code of a bell that an operator has cancelled. A bell that was killed has the code of a cancelled run.
pub(crate) const GONE: u16 = 410;
/// The code with which the engine says that a run is cancelled.
pub(crate) const CANCELLED: u16 = 409;

/// When the ingress is asked again that has failed once. After that it is longer each time, up to a second.
const SOON: Duration = Duration::from_millis(10);
/// A request that has its answer at once is asked again after this time.
const LONG: Duration = Duration::from_secs(10);

/// The name of the first bell.
const FIRST: &str = "first";

/// What a bell is told first, and by whom: this name is that of the next bell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopSignal {
    /// Somebody stops.
    Stopped(String),
    /// A turn is over.
    Over(String),
}

impl StopSignal {
    fn next(self) -> String {
        let (Self::Stopped(by) | Self::Over(by)) = self;
        by
    }
}

/// Whose turn it is. It is one value of the state, so that all of it is read at the same instant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TurnState {
    /// The bell from which on the run that goes on, or the next one, listens.
    pub(crate) bell: String,
    /// The invocation that goes on. It is still here if the engine has killed it.
    pub(crate) run: Option<String>,
    /// The number of the turn. The first one is the time, so that two conversations of one name do not share numbers.
    #[serde(default)]
    pub(crate) number: u64,
    /// The stops that the last run has passed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) passed: Vec<String>,
    /// Whether a run was killed and none has begun or continued since. Then no timer continues what it has left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) killed: bool,
    /// Whether the mark of a stop could not begin. What it was to stop is stopped by the next invocation that begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) late: bool,
}

impl Default for TurnState {
    fn default() -> Self {
        let (bell, passed) = (FIRST.to_owned(), Vec::new());
        Self { bell, run: None, number: 0, passed, killed: false, late: false }
    }
}

impl TurnState {
    /// What this invocation is called in the list.
    pub(crate) fn name_of(&self, invocation: &str) -> String {
        format!("{invocation}.{}", self.number)
    }

    /// The mark of this stop has come. The next run listens behind the stop. Returns whether no run has heard it.
    pub(crate) async fn handle_mark(&mut self, ctx: &ObjectContext<'_>, stop: &str) -> bool {
        if let Some(at) = self.passed.iter().position(|it| it == stop) {
            self.passed.drain(..=at);
            self.bell = stop.to_owned();
            return false;
        }
        let over = StopSignal::Over(self.name_of(ctx.invocation_id()));
        let way = tell(ctx, ctx.key(), &self.bell, &over).await;
        let is_next = way.stops.iter().any(|it| it == stop);
        if is_next {
            self.bell = stop.to_owned();
        }
        is_next
    }
}

/// The name of a bell. If an operator has ended the invocation of a bell, the next number counts.
fn named(bell: &str, lost: u32) -> String {
    if lost == 0 { bell.to_owned() } else { format!("{bell} {lost}") }
}

/// What a run hears of its bells. Requests are sent while one of the two is polled.
#[derive(Clone)]
pub(crate) struct StopWatcher {
    /// Ready once somebody stops the run.
    pub(crate) heard: Shared<BoxFuture<'static, ()>>,
    /// Ready once it is known whether somebody had stopped it before it listened. It needs `heard` to be polled.
    pub(crate) known: Shared<BoxFuture<'static, ()>>,
}

impl StopWatcher {
    /// Runs `act` unless somebody stops the run before `act` has ended. With `knows`, the future also waits until it
    /// is known whether somebody had stopped the run before it began.
    pub(crate) async fn unless(
        self,
        steps: Arc<RwLock<Steps>>,
        act: BoxFuture<'static, StepFacts>,
        knows: bool,
    ) -> StepFacts {
        if self.heard.clone().now_or_never().is_some() {
            let stopped = read(&steps).stop(InterruptCause::Program);
            // If no run goes on yet, the message is stored first.
            return if stopped.is_ok() { stopped } else { act.await };
        }
        let is_known = !knows || self.known.clone().now_or_never().is_some();
        let known = if is_known { ready(()).boxed() } else { self.known.boxed() };
        let mut both = join(act, known);
        let came = tokio::select! {
            biased;
            (came, ()) = &mut both => Some(came),
            () = self.heard.clone() => None,
        };
        let came = match came {
            Some(came) if is_known || self.heard.now_or_never().is_none() => return came,
            came => came,
        };
        let stopped = read(&steps).give_up(InterruptCause::Program);
        match (stopped, came) {
            (Ok(stopped), _) => Ok(stopped),
            (Err(_), Some(came)) => came,
            (Err(_), None) => both.await.0,
        }
    }
}

/// The bells of a conversation, as a worker reaches them.
#[derive(Clone)]
pub(crate) struct BellList {
    http: Client,
    ingress: Url,
    conversation: String,
}

impl BellList {
    pub(crate) fn of(of: &Conversations, conversation: &str) -> Self {
        let (http, ingress) = (of.http.clone(), of.ingress.clone());
        Self { http, ingress, conversation: conversation.to_owned() }
    }

    /// The bell of a conversation that has no state, and the number of its first turn. A conversation of the same name may
    /// have been deleted: then the bell is the one behind all of its ends.
    pub(crate) async fn first(self) -> Result<(String, u64), String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = u64::try_from(now.as_millis()).unwrap_or(u64::MAX / 2);
        Ok((self.walk(FIRST, TRIES).await?.behind, number))
    }

    /// How many stops there are now from this bell on.
    pub(crate) async fn count_stops(self, bell: String) -> Result<usize, String> {
        Ok(self.walk(&bell, TRIES).await?.stops.len())
    }

    /// The bell that is now at the end of the list, if the ingress can be asked.
    pub(crate) async fn end(self, bell: String) -> Option<String> {
        Some(self.walk(&bell, 0).await.ok()?.end)
    }

    /// The stops from this bell on, and the bell at the end of the list, if the ingress can be asked.
    async fn rest(self, bell: String) -> Option<(Vec<String>, String)> {
        let walked = self.walk(&bell, 0).await.ok()?;
        Some((walked.stops, walked.end))
    }

    /// Goes from this bell to the end of the list. Fails if it is not reached: a stop that is not seen would count for a
    /// later run. A request that fails is made again so many times. Who can do without the list does not wait for that.
    async fn walk(&self, from: &str, tries: u32) -> Result<BellsAhead, String> {
        let (mut behind, mut bell, mut lost) = (from.to_owned(), from.to_owned(), 0);
        let (mut stops, mut failures) = (Vec::new(), 0);
        loop {
            match self.ask(&named(&bell, lost), true).await {
                Ok(told) => {
                    let is_over = matches!(told, StopSignal::Over(_));
                    (bell, lost, failures) = (told.next(), 0, 0);
                    match is_over {
                        true => behind.clone_from(&bell),
                        false => stops.push(bell.clone()),
                    }
                }
                Err(UnknownSignal::Lost) => lost += 1,
                Err(UnknownSignal::Untold) => return Ok(BellsAhead { behind, stops, end: bell }),
                // A list may be long: this one request is made again, not all of them.
                Err(UnknownSignal::Unclear(_)) if failures < tries => {
                    failures += 1;
                    tokio::time::sleep(SOON * (1 << failures)).await;
                }
                Err(UnknownSignal::Unclear(why)) => {
                    return Err(format!("the ingress did not say what has been stopped: {why}"));
                }
            }
        }
    }

    /// Listens from this bell on, to the first stop after as many as are `skipped`.
    pub(crate) fn stop_of(self, bell: String, run: String, skipped: usize) -> StopWatcher {
        let (knows, known) = oneshot::channel();
        let heard = self.watch(bell, run, skipped, knows).boxed().shared();
        StopWatcher { heard, known: known.map(drop).boxed().shared() }
    }

    async fn watch(
        self,
        mut bell: String,
        run: String,
        skipped: usize,
        knows: oneshot::Sender<()>,
    ) {
        let (mut lost, mut left, mut knows) = (0, skipped, Some(knows));
        let mut pause = SOON;
        loop {
            let began = Instant::now();
            let asked = self.ask(&named(&bell, lost), knows.is_some()).await;
            if began.elapsed() > Duration::from_millis(200)
                || !matches!(asked, Err(UnknownSignal::Unclear(_)))
            {
                // The connection was there meanwhile. A gateway may end each one after a time.
                pause = SOON;
            }
            match asked {
                Ok(StopSignal::Stopped(_)) if left == 0 => return,
                Ok(StopSignal::Over(by)) if by == run => {
                    drop(knows);
                    return pending().await;
                }
                Ok(told) => {
                    left -= usize::from(matches!(told, StopSignal::Stopped(_)));
                    (bell, lost) = (told.next(), 0);
                }
                Err(UnknownSignal::Lost) => lost += 1,
                // This is the end of the list. What waits for this alone ends before a bell is made.
                Err(UnknownSignal::Untold) if knows.take().is_some() => yield_now().await,
                // It is asked again, and what waits for this goes on waiting: a stop may be there already.
                Err(_) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
            }
        }
    }

    /// What a bell was told, at once or when it is told.
    async fn ask(&self, name: &str, at_once: bool) -> Result<StopSignal, UnknownSignal> {
        let chat = &*self.conversation;
        let asked = if at_once {
            let output =
                ["restate", "invocation", "Conversations", chat, "stopped", name, "output"];
            self.http.get(address(&self.ingress, &output)).timeout(LONG)
        } else {
            let stopped = address(&self.ingress, &["Conversations", chat, "stopped"]);
            self.http.post(stopped).header("idempotency-key", name)
        };
        let answer = asked.send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        if status.is_success() {
            return serde_json::from_str(&text)
                .map_err(|err| UnknownSignal::Unclear(err.to_string()));
        }
        Err(match (status.as_u16(), source(&text).as_deref()) {
            (CANCELLED | GONE, Some("invocation")) => UnknownSignal::Lost,
            (UNKNOWN | NOT_OVER, Some(_)) => UnknownSignal::Untold,
            _ => UnknownSignal::Unclear(format!("{status}: {text}")),
        })
    }
}

/// How often one request for a bell is made again while a list is gone along.
const TRIES: u32 = 6;

/// What was found from a bell to the end of the list.
struct BellsAhead {
    /// The bell behind the last end of a run.
    behind: String,
    /// The stops, in order.
    stops: Vec<String>,
    /// The bell that was told nothing yet.
    end: String,
}

/// Why it is not known what a bell was told.
enum UnknownSignal {
    /// An operator has ended it.
    Lost,
    /// It was told nothing yet.
    Untold,
    /// The engine was not reached, or its answer was broken. What stands before it may fail, too.
    Unclear(String),
}

impl From<reqwest::Error> for UnknownSignal {
    fn from(error: reqwest::Error) -> Self {
        Self::Unclear(error.to_string())
    }
}

/// What was found on the way to the end of the list.
#[derive(Debug, Default)]
pub(crate) struct PassedBells {
    /// The stops, in order.
    pub(crate) stops: Vec<String>,
    /// Whether an operator has cancelled the invocation meanwhile.
    pub(crate) is_cancelled: bool,
    /// The bell at which it ended.
    bell: String,
    /// What this bell was told, if that was enough.
    found: Option<StopSignal>,
}

/// Stops, and leaves the mark. Where others have stopped before, it asks the ingress for the end of the list. A stop that
/// it finds there stops the same, so the mark of that is enough: many stops at once are few.
pub(crate) async fn stop_conversation(
    ctx: &SharedObjectContext<'_>,
    bells: BellList,
    turn: &TurnState,
) {
    let mut stop = turn.name_of(ctx.invocation_id());
    let told = StopSignal::Stopped(stop.clone());
    let mut way = follow(ctx, ctx.key(), &turn.bell, &told, |_| true).await;
    if let Some(first) = way.found {
        let (from, next) = (way.bell, first.next());
        let end = ctx.run(|| async move { Ok(Json(bells.end(next).await)) }).name("end").await;
        let is_stop = |found: &StopSignal| matches!(found, StopSignal::Stopped(_));
        way = match end.map_or(None, Json::into_inner) {
            Some(end) => follow(ctx, ctx.key(), &end, &told, is_stop).await,
            None => tell(ctx, ctx.key(), &from, &told).await,
        };
        if let Some(StopSignal::Stopped(other)) = way.found {
            stop = other;
        }
    }
    let mark = ctx.object_client::<ConversationsClient>(ctx.key()).end(stop.clone());
    mark.idempotency_key(stop.clone()).send();
    // The engine takes what it is sent in order: once this has an answer the mark is in the queue.
    tell(ctx, ctx.key(), &way.bell, &StopSignal::Stopped(stop)).await;
}

/// Goes along the bells from this one and says `told` at the end of the list.
pub(crate) async fn tell<'a>(
    ctx: &impl ContextClient<'a>,
    conversation: &str,
    bell: &str,
    told: &StopSignal,
) -> PassedBells {
    follow(ctx, conversation, bell, told, |_| false).await
}

/// The same for a run, which may have many stops behind it: the ingress is asked for the end of the list.
pub(crate) async fn tell_at_end(
    ctx: &ObjectContext<'_>,
    bells: BellList,
    bell: &str,
    told: &StopSignal,
) -> PassedBells {
    let mut way = follow(ctx, ctx.key(), bell, told, |_| true).await;
    let Some(first) = way.found.take() else { return way };
    if let StopSignal::Stopped(by) = &first {
        way.stops.push(by.clone());
    }
    let mut end = first.next();
    let from = end.clone();
    match ctx.run(|| async move { Ok(Json(bells.rest(from).await)) }).name("end").await {
        Ok(Json(Some((stops, last)))) => {
            way.stops.extend(stops);
            end = last;
        }
        Ok(Json(None)) => {}
        Err(error) => way.is_cancelled |= error.code() == CANCELLED,
    }
    let last = tell(ctx, ctx.key(), &end, told).await;
    way.stops.extend(last.stops);
    PassedBells { is_cancelled: way.is_cancelled | last.is_cancelled, stops: way.stops, ..last }
}

/// The same, or only to the first bell that was told something that is enough.
async fn follow<'a>(
    ctx: &impl ContextClient<'a>,
    conversation: &str,
    bell: &str,
    told: &StopSignal,
    is_enough: impl Fn(&StopSignal) -> bool,
) -> PassedBells {
    let (mut way, mut bell, mut lost) = (PassedBells::default(), bell.to_owned(), 0);
    loop {
        let (rung, cancelled) = ring(ctx, conversation, named(&bell, lost), told.clone()).await;
        way.is_cancelled |= cancelled;
        match rung.attach::<Json<StopSignal>>().await {
            Ok(Json(first)) if first == *told => return PassedBells { bell, ..way },
            Ok(Json(first)) => {
                if is_enough(&first) {
                    return PassedBells { bell, found: Some(first), ..way };
                }
                if let StopSignal::Stopped(by) = &first {
                    way.stops.push(by.clone());
                }
                (bell, lost) = (first.next(), 0);
            }
            Err(err) if err.code() == CANCELLED && err.message() != "killed" => {
                way.is_cancelled = true;
            }
            Err(_) => lost += 1,
        }
    }
}

/// Tells a bell something and does not wait for its result. An operator's `cancel` does not end this, since the turn
/// has to be passed on; each `cancel` is heard once. The second value says whether there was one.
async fn ring<'a>(
    ctx: &impl ContextClient<'a>,
    conversation: &str,
    bell: String,
    told: StopSignal,
) -> (InvocationHandle, bool) {
    let mut cancelled = false;
    loop {
        let stopped = ctx.object_client::<ConversationsClient>(conversation).stopped();
        match stopped.idempotency_key(bell.clone()).send().await {
            Ok(handle) => {
                handle.signal(TOLD).resolve(Json(told));
                return (handle, cancelled);
            }
            Err(_) => cancelled = true,
        }
    }
}
