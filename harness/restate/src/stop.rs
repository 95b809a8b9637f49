//! How a step that is being done hears that somebody stops the run. The engine lets it hear nothing before
//! its end, so it asks the engine as a client does.

use std::time::Duration;

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, pending},
};
use reqwest::{Client, Url};

/// Done when somebody stops the run. It asks when it is first polled.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// Waits for the answer of the handler `stopped`, whose idempotency key is the run.
pub(crate) fn stop_of(http: Client, mut ingress: Url, key: &str, run: &str) -> Stop {
    if let Ok(mut path) = ingress.path_segments_mut() {
        path.pop_if_empty().extend(["Conversations", key, "stopped"]);
    }
    let run = run.to_owned();
    let stopped = async move {
        loop {
            let asked = http.post(ingress.clone()).header("idempotency-key", run.as_str()).send();
            let said = async { asked.await?.error_for_status()?.json::<bool>().await };
            match said.await {
                Ok(true) => return,
                Ok(false) => pending().await,
                // The engine is not there: nobody can say more until it is.
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    };
    stopped.boxed().shared()
}
