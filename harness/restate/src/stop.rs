//! How a run hears that somebody stops it, whether it goes on, waits or has not begun.
//!
//! Each run has a *bell*: an invocation of the handler `stopped`. It returns the first thing that it is told: that the
//! run is stopped, or that it is over. The program that stops and the run that ends read the same result, so no stop
//! is lost between them. The engine tells a step nothing before its end, so a worker asks for the result of the bell
//! through the ingress, as a client does.

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
/// The code of a bell that an operator has cancelled. A bell that was killed has the code of a cancelled run.
pub(crate) const GONE: u16 = 410;
/// The code with which the engine says that a run is cancelled.
pub(crate) const CANCELLED: u16 = 409;

/// What a bell is told first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// Somebody stops the run.
    Stopped,
    /// The run is over; it was this invocation.
    Over(String),
}

/// Whose turn it is. It is one value of the state, so that `stop` reads both parts at the same instant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The bell of the run that goes on, or of the next one. Its name is the id of the run before.
    pub(crate) bell: String,
    /// The invocation that goes on. It is still here if the engine has killed it.
    pub(crate) run: Option<String>,
}

impl Default for Turn {
    fn default() -> Self {
        Self { bell: "first".to_owned(), run: None }
    }
}

/// The name of a bell. If an operator has ended the invocation of a bell, the next number counts.
fn named(bell: &str, lost: u32) -> String {
    if lost == 0 { bell.to_owned() } else { format!("{bell} {lost}") }
}

/// Ready once somebody stops the run. The first request is sent when it is first polled.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// Waits until the bell of this run is told that it is stopped. `stopped` is the address of the handler.
pub(crate) fn stop_of(http: Client, stopped: Url, bell: String, run: String) -> Stop {
    let asks = async move {
        let mut lost = 0;
        loop {
            let asked = http.post(stopped.clone()).header("idempotency-key", named(&bell, lost));
            let said = async { asked.send().await?.error_for_status()?.json::<Told>().await };
            match said.await {
                Ok(Told::Stopped) => return,
                Ok(Told::Over(by)) if by == run => pending().await,
                // It was the first run of a conversation of this name, which was deleted.
                Ok(Told::Over(_)) => lost += 1,
                Err(err) => match err.status() {
                    Some(StatusCode::CONFLICT | StatusCode::GONE) => lost += 1,
                    // The engine cannot be reached, so nobody can stop the run either.
                    _ => tokio::time::sleep(Duration::from_secs(1)).await,
                },
            }
        }
    };
    asks.boxed().shared()
}

/// Tells a bell something, and returns what it was told first.
///
/// If an operator cancels the invocation that tells it, that counts as a stop.
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

/// Tells a bell something and does not wait for its result. An operator's `cancel` does not end this, since the turn
/// has to be passed on; each `cancel` is heard once. The second value says whether there was one.
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
