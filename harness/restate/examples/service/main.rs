//! The page of `examples/service`, with conversations that are on the engine: they go on by themselves when this process dies,
//! and what the model writes is in the page at once.
//!
//! ```sh
//! cargo run --example service -- 127.0.0.1:3000 127.0.0.1:9080 http://127.0.0.1:8080 http://127.0.0.1:9070
//! curl http://127.0.0.1:9070/deployments -H 'content-type: application/json' -d '{"uri": "http://127.0.0.1:9080"}'
//! # In a browser: http://127.0.0.1:3000. Say "weather in Oslo", "count to 40", "book a table" or "remove the notes".
//! ```

// The sign-in and the agent are those of the service without the engine.
#[path = "../../../../examples/service/access.rs"]
#[expect(dead_code, reason = "it has places for the streams of a user, too")]
mod access;
mod handlers;
#[path = "../../../../examples/service/limits.rs"]
#[expect(dead_code, reason = "it has limits of traces, too")]
mod limits;
mod live;
#[path = "../../../../examples/service/model.rs"]
mod model;

use harness::trace::Trace;

use crate::{
    access::Users,
    handlers::{Addresses, serve},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [pages, worker, ingress, admin] = <[String; 4]>::try_from(given).map_err(
        |_| "give the addresses of the page and the worker, and those of the engine for requests and operators",
    )?;
    let at = Addresses { pages: pages.parse()?, worker: worker.parse()?, ingress, admin };
    let users = std::env::var("SERVICE_TOKENS").ok().map(|text| Users::read(&text)).transpose()?;
    let users = users.unwrap_or_default();
    if users.0.is_empty() && !at.pages.ip().is_loopback() {
        return Err("others can reach the page: set SERVICE_TOKENS, or listen at 127.0.0.1".into());
    }
    let (agent, why) = model::agent(Trace::default())?;
    if let Some(why) = why {
        println!("a scripted model answers: {why}");
    }
    serve(agent, users, at, |_, _, steps| steps).await
}
