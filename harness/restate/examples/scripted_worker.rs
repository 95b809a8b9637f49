//! A worker whose model follows a script, for trying the engine and for the tests, which kill it:
//! `cargo run --example scripted_worker -- 9080 http://127.0.0.1:8080`.
//!
//! Several may listen at one port of a machine. Tell it "Hello.", or "Go." to see tools of each kind.

// What `object` makes of a service of this file has no comments.
#![allow(missing_docs)]

#[path = "../tests/script/mod.rs"]
mod script;

use std::{sync::Arc, time::Duration};

use harness_restate::{Conversations, listen};
use restate_sdk::prelude::*;
use script::{World, agent, given};

/// What a loop of a model and a tool is on the engine alone, to compare with.
struct Alone(Arc<World>);

#[object]
impl Alone {
    /// A call and the model's next answer, each a step of the engine.
    #[handler]
    async fn send(&self, ctx: ObjectContext<'_>) -> HandlerResult<String> {
        let (tool, model) = (Arc::clone(&self.0), Arc::clone(&self.0));
        let call = ctx.run(|| async move {
            tool.note("effects", "note 10");
            tool.point("in note after it");
            Ok(())
        });
        call.name("note").await?;
        let answer = ctx.run(|| async move {
            model.point("before ask");
            Ok("Done.".to_owned())
        });
        Ok(answer.name("ask").await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "give the port to listen at and the address of the engine's ingress";
    let (port, ingress) = (arguments.next().ok_or(usage)?.parse()?, arguments.next().ok_or(usage)?);
    let world = Arc::new(World::of_this_process());
    let seen = Arc::clone(&world);
    let mut served =
        Conversations::new(agent(&world)?, &ingress)?.on_step(move |step| seen.point(step));
    if std::env::var_os("GIVE_NOTHING").is_none() {
        served = served.each_run(given);
    }
    let mut options = ServiceOptions::new();
    if std::env::var_os("KEEP_JOURNALS").is_some() {
        let hour = Duration::from_secs(60 * 60);
        let stop = HandlerOptions::new().idempotency_retention(hour);
        options = options.journal_retention(hour).handler("stop", stop);
    }
    if std::env::var_os("FORGET_KEYS").is_some() {
        // As if a day had passed: a run with the same key is another one, and has the same id.
        let send = HandlerOptions::new().idempotency_retention(Duration::ZERO);
        options = options.handler("send", send);
    }
    let served = served.into_service_definition().options(options);
    let listener = listen(([127, 0, 0, 1], port).into())?;
    HttpServer::new(Endpoint::builder().bind(served).bind(Alone(world)).build())
        .serve(listener)
        .await;
    Ok(())
}
