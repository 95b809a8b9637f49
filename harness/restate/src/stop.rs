//! How a run hears that somebody stops it, whether it goes on, waits or has not begun.
//!
//! Each run has a *bell*: an invocation of the handler `stopped`, whose result is the first thing that it is told,
//! either that the run is stopped or that it is over. Who stops and who runs read the same result, so no stop falls
//! between them. The engine lets a step hear nothing before its end, so a worker asks for the bell's result through
//! the ingress, as a client does.

use std::time::Duration;

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, pending},
};
use reqwest::{Client, StatusCode, Url};
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::driver::ConversationsClient;

/// The signal by which a bell is told something.
pub(crate) const TOLD: &str = "stop";
/// The code of a bell that an operator has cancelled. One that is killed has that of a cancelled run.
pub(crate) const GONE: u16 = 410;
/// The code with which the engine says that a run is cancelled.
pub(crate) const CANCELLED: u16 = 409;

/// What a bell is told first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// Somebody stops the run.
    Stopped,
    /// This invocation was the run, and is over.
    Over(String),
}

/// Whose turn it is: one value of the state, since who stops reads it while runs come and go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The bell of the run that goes on, else of the next one: it has the name of the run before it.
    pub(crate) bell: String,
    /// The invocation that goes on, unless the engine has killed it.
    pub(crate) run: Option<String>,
}

impl Default for Turn {
    fn default() -> Self {
        Self { bell: "first".to_owned(), run: None }
    }
}

/// A bell that an operator has ended is lost: then the next one counts.
fn named(bell: &str, lost: u32) -> String {
    if lost == 0 { bell.to_owned() } else { format!("{bell} {lost}") }
}

/// Done when somebody stops the run. It asks when it is first polled.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// Waits for what the bell of this run is told, at the address of the handler `stopped`.
pub(crate) fn stop_of(http: Client, stopped: Url, bell: String, run: String) -> Stop {
    let asks = async move {
        let mut lost = 0;
        loop {
            let asked = http.post(stopped.clone()).header("idempotency-key", named(&bell, lost));
            let said = async { asked.send().await?.error_for_status()?.json::<Told>().await };
            match said.await {
                Ok(Told::Stopped) => return,
                Ok(Told::Over(by)) if by == run => pending().await,
                // The first run of a conversation of this name that was deleted.
                Ok(Told::Over(_)) => lost += 1,
                Err(err) => match err.status() {
                    Some(StatusCode::CONFLICT | StatusCode::GONE) => lost += 1,
                    // The engine is not there: nobody can say more until it is.
                    _ => tokio::time::sleep(Duration::from_secs(1)).await,
                },
            }
        }
    };
    asks.boxed().shared()
}

/// Tells a bell something. The result says what it was told first.
///
/// Who cancels the invocation that tells it stops what it does, so that counts as a stop.
pub(crate) async fn tell<'a>(
    ctx: &impl ContextClient<'a>,
    conversation: &str,
    bell: &str,
    told: Told,
) -> Told {
    let (mut lost, mut is_cancelled) = (0, false);
    loop {
        let rings = |told| ring(ctx, conversation, named(bell, lost), told);
        let (rung, cancelled) = rings(told.clone()).await;
        is_cancelled |= cancelled;
        match rung.attach::<Json<Told>>().await {
            Ok(_) if is_cancelled => return Told::Stopped,
            Ok(Json(first)) => return first,
            Err(err) if err.code() == CANCELLED && err.message() != "killed" => is_cancelled = true,
            Err(_) => lost += 1,
        }
    }
}

/// Tells a bell something and does not wait. What ends a run is not ended by an operator's `cancel`, of which each is
/// heard once: the second value says whether there was one.
pub(crate) async fn ring<'a>(
    ctx: &impl ContextClient<'a>,
    conversation: &str,
    bell: String,
    told: Told,
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
