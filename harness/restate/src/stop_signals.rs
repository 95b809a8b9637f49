//! How a run learns that it was stopped. The run may be active or waiting, or may not have begun.
//!
//! A *bell* is an invocation of the handler `stopped`. It returns the first signal that it gets: a stop, or the end of
//! a run. Each signal names the next bell, so the bells of a conversation form a list, and the last bell has no signal
//! yet. Stops, listening runs and ending runs all follow this list from the bell in the state ([`TurnState::bell`]),
//! and the engine accepts only one signal for the last bell. So each stop has a definite place among the ends of runs.
//!
//! A stop also puts a *mark*, an invocation of `end`, into the queue of the conversation. In this queue, runs that were
//! started before the stop are before the mark. Runs that are started after `stop` has returned are behind the mark.
//!
//! 1. A run listens to the bell in the state and to all later bells. Some invocations are no runs: a refused message or
//!    answer, and a timer that comes too late. They leave the bell in the state unchanged, and a killed run does so,
//!    too. So the next run gets the signals that were sent to them.
//! 2. A run that ends follows the list to its last bell and signals its end there. If the run waits and there was a
//!    stop on the way, the run stops its waiting calls. The stops on the way were meant for this run, so the next run
//!    listens behind them ([`TurnState::passed`]).
//! 3. If the mark of a stop begins before any run has found the stop, this stop has not stopped a run. The mark then
//!    stops the calls of a waiting or killed run. The next run listens behind this stop, because it was started after
//!    the stop. If the mark cannot begin, the next invocation that can begin does the work of the mark
//!    ([`TurnState::late`]).
//! 4. If the run before the mark has already passed the stop, the next run was also started after the stop. The next
//!    run listens behind this stop. So it gets a later stop that came while the previous run was ending.
//! 5. If another run has begun since the stop, the mark does nothing.
//!
//! A name is used for only one signal: an invocation that ends signals its own name, and a stop signals the name of the
//! stop. So the list has no cycle. The id of an invocation alone would not be unique: if its key is used again after
//! the engine has forgotten the key, the new invocation has the same id. So a name also contains the number of the turn
//! ([`TurnState::number`]). The list begins at the bell `first`, and bells are kept for a day even if the conversation
//! was deleted. So the first invocation of a new conversation listens behind the last end of the deleted conversation
//! ([`BellList::first`]). All stops before this end have taken effect.
//!
//! The engine delivers no signal to a step before the step has ended. So the worker requests the result of the bell
//! through the ingress, like a client. If the ingress fails, the worker repeats the request. A run does not end its
//! first action until the worker knows whether a stop already exists. Before calls with side effects run, the worker
//! again requests whether a stop exists.

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

/// The name of the engine's signal that completes a bell.
pub(crate) const TOLD: &str = "stop";
/// The status of a bell that an operator has cancelled. A bell that was killed has the status of a cancelled run.
pub(crate) const GONE: u16 = 410;
/// The status with which the engine reports that a run is cancelled.
pub(crate) const CANCELLED: u16 = 409;

/// The first wait before a failed request to the ingress is repeated. Each further wait is longer, up to a second.
const SOON: Duration = Duration::from_millis(10);
/// The time limit of a request whose response comes at once.
const LONG: Duration = Duration::from_secs(10);

/// The name of the first bell of a conversation.
const FIRST: &str = "first";

/// The signal of a bell. The contained name is the name of the sender. It is also the name of the next bell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopSignal {
    /// A stop.
    Stopped(String),
    /// The end of a turn.
    Over(String),
}

impl StopSignal {
    fn next(self) -> String {
        let (Self::Stopped(by) | Self::Over(by)) = self;
        by
    }
}

/// Whose turn it is. All of it is one value of the state, so that it is read consistently.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TurnState {
    /// The first bell to which the current run listens. If there is no current run, the first bell for the next run.
    pub(crate) bell: String,
    /// The id of the current invocation. It stays here if the engine has killed the invocation.
    pub(crate) run: Option<String>,
    /// The number of the turn. The first number is the time, so that two conversations with the same name do not share
    /// numbers.
    #[serde(default)]
    pub(crate) number: u64,
    /// The stops that the last run has passed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) passed: Vec<String>,
    /// Whether a run was killed, and no run has begun or continued since. No timer continues the killed run then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) killed: bool,
    /// Whether the mark of a stop could not begin. The next invocation that begins does the work of this mark.
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
    /// The name of this invocation in the list of bells.
    pub(crate) fn name_of(&self, invocation: &str) -> String {
        format!("{invocation}.{}", self.number)
    }

    /// Handles the mark of this stop. The next run listens behind the stop. Returns `true` if the stop has not stopped
    /// any run yet.
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

/// The name of a bell. If an operator has ended the bell's invocation, the name with the next number `lost` is used.
fn named(bell: &str, lost: u32) -> String {
    if lost == 0 { bell.to_owned() } else { format!("{bell} {lost}") }
}

/// Watches whether a run is stopped. Requests are sent while one of the two futures is polled.
#[derive(Clone)]
pub(crate) struct StopWatcher {
    /// Completes when the run is stopped.
    pub(crate) heard: Shared<BoxFuture<'static, ()>>,
    /// Completes when it is known whether the run was stopped before it began to listen. `known` completes only while
    /// `heard` is polled.
    pub(crate) known: Shared<BoxFuture<'static, ()>>,
}

impl StopWatcher {
    /// Runs `act`, and drops it if the run is stopped before `act` has ended. With `knows`, the future also waits until
    /// it is known whether the run was stopped before it began.
    pub(crate) async fn unless(
        self,
        steps: Arc<RwLock<Steps>>,
        act: BoxFuture<'static, StepFacts>,
        knows: bool,
    ) -> StepFacts {
        if self.heard.clone().now_or_never().is_some() {
            let stopped = read(&steps).stop(InterruptCause::Program);
            // If no run is active yet, the message is stored first.
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

/// The bells of a conversation, as a worker reaches them through the ingress.
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

    /// The first bell for a conversation without state, and the number of its first turn. If a conversation with the
    /// same name was deleted, this bell is behind the last end of the deleted conversation.
    pub(crate) async fn first(self) -> Result<(String, u64), String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = u64::try_from(now.as_millis()).unwrap_or(u64::MAX / 2);
        Ok((self.walk(FIRST, TRIES).await?.behind, number))
    }

    /// The number of stops from this bell on.
    pub(crate) async fn count_stops(self, bell: String) -> Result<usize, String> {
        Ok(self.walk(&bell, TRIES).await?.stops.len())
    }

    /// The last bell of the list; `None` if the ingress fails.
    pub(crate) async fn end(self, bell: String) -> Option<String> {
        Some(self.walk(&bell, 0).await.ok()?.end)
    }

    /// The stops from this bell on, and the last bell of the list; `None` if the ingress fails.
    async fn rest(self, bell: String) -> Option<(Vec<String>, String)> {
        let walked = self.walk(&bell, 0).await.ok()?;
        Some((walked.stops, walked.end))
    }

    /// Follows the list from this bell to its last bell. Each failed request is repeated up to `tries` times. Fails if
    /// it does not reach the last bell, because an overlooked stop would take effect on a later run. A caller that does
    /// not need the whole list passes 0.
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
                // A list may be long, so only this request is repeated, and not the whole walk.
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

    /// Listens from this bell on for a stop. The first `skipped` stops are ignored.
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
                // The connection has worked meanwhile. A gateway may end every connection after some time.
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
                // This is the end of the list, so it is known that there was no stop. A task that waits only for this
                // ends before a bell is created.
                Err(UnknownSignal::Untold) if knows.take().is_some() => yield_now().await,
                // The request is repeated, and tasks continue to wait, because there may already be a stop.
                Err(_) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
            }
        }
    }

    /// The signal of a bell. With `at_once`, fails if the bell has no signal yet; otherwise waits for the signal.
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

/// How often one request for a bell is repeated while the list is followed.
const TRIES: u32 = 6;

/// What a walk from a bell to the end of the list has found.
struct BellsAhead {
    /// The bell behind the last end of a run.
    behind: String,
    /// The stops, in order.
    stops: Vec<String>,
    /// The last bell, which has no signal yet.
    end: String,
}

/// Why the signal of a bell is unknown.
enum UnknownSignal {
    /// An operator has ended the bell's invocation.
    Lost,
    /// The bell has no signal yet.
    Untold,
    /// The engine was not reached, or its response was invalid. A proxy in front of the engine may also have failed.
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
    /// Whether an operator has cancelled the calling invocation meanwhile.
    pub(crate) is_cancelled: bool,
    /// The bell at which the walk ended.
    bell: String,
    /// The signal of this bell, if the walk ended because of it.
    found: Option<StopSignal>,
}

/// Sends a stop, and puts its mark into the queue. If the bell already has a signal, this function asks the ingress for
/// the end of the list. If it finds another stop on the way, both stops have the same effect, so this stop uses the
/// mark of the other stop. So many concurrent stops need few bells.
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
    // The engine executes commands in order: when this call has its response, the mark is in the queue.
    tell(ctx, ctx.key(), &way.bell, &StopSignal::Stopped(stop)).await;
}

/// Follows the bells from this one, and sends `told` to the last bell.
pub(crate) async fn tell<'a>(
    ctx: &impl ContextClient<'a>,
    conversation: &str,
    bell: &str,
    told: &StopSignal,
) -> PassedBells {
    follow(ctx, conversation, bell, told, |_| false).await
}

/// Like [`tell`], for a run, which may have many stops behind it: the ingress is asked for the end of the list.
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

/// Like [`tell`], but ends at the first bell whose signal satisfies `is_enough`.
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

/// Sends a signal to a bell, without waiting for the bell's result. If an operator cancels this invocation, this
/// function still continues, because the turn has to be passed on. The second value is whether there was such a
/// `cancel`. The engine reports a `cancel` only once.
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
