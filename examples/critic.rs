//! A plan in plain code: a critic sends a writer's work back, at most three times.
//!
//!     cargo run --example critic
//!
//! needs no key: scripted models answer. The plan is the function `write`, a tool of the agent that talks to the
//! user. The writer and the critic each keep their own conversation from one round to the next. What they say is
//! shown as it comes. Exit codes: 0 answered, 1 failed, 2 wrong arguments.

mod plain;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use harness::{
    Agent, Error, Reply, State, ToolContext, ToolError,
    policy::visible,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;

const USAGE: &str = "\
critic: a critic sends a writer's work back, at most three times, and each draft and verdict is shown
It asks scripted models, so it needs no key.";

const ROUNDS: usize = 3;

struct Desk {
    writer: Agent,
    critic: Agent,
}

/// Writes a text that a critic has read.
#[tool(side_effects = "none")]
async fn write(
    /** The subject of the text */
    about: String,
    desk: State<Desk>,
    context: ToolContext,
) -> Result<String, ToolError> {
    let (mut writer, mut critic) = (desk.writer.chat(), desk.critic.chat());
    let mut draft = writer.send(format!("Write about {about}.")).in_call(&context).await?;
    for _ in 0..ROUNDS {
        show("writer", &draft);
        let said = critic.send(draft.text()).in_call(&context).await?;
        show("critic", &said);
        if said.text() == "Good." {
            return Ok(draft.text().to_owned());
        }
        draft = writer.send(format!("Mend this: {said}")).in_call(&context).await?;
    }
    Err(ToolError::new(format!("after {ROUNDS} rounds the critic is not content: {draft}")))
}

#[tokio::main]
async fn main() -> ExitCode {
    plain::ended(USAGE, run()).await
}

async fn run() -> anyhow::Result<()> {
    let reply = lead(2)?.run("Write about crabs.").await?;
    writeln!(io::stdout(), "{reply}\n{} turns in all", reply.spent().turns)?;
    Ok(())
}

/// Shows what an agent says. A closed output does not stop the run.
fn show(who: &str, said: &Reply) {
    let _ = writeln!(io::stdout(), "{who}: {}", visible(said.text()));
}

/// The agent that talks to the user. Its critic accepts the draft with this number.
pub(crate) fn lead(good: usize) -> Result<Agent, Error> {
    let writer = ScriptedProvider::answering(|request| {
        reply().text(format!("Draft {} about crabs.", request.messages().len().div_ceil(2)))
    });
    let critic = ScriptedProvider::answering(move |request| {
        match request.last_text().contains(&format!("Draft {good} ")) {
            true => reply().text("Good."),
            false => reply().text("Too short."),
        }
    });
    let desk =
        Desk { writer: Agent::builder(writer).build()?, critic: Agent::builder(critic).build()? };
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None => reply().call("write", json!({"about": "crabs"})),
    });
    Agent::builder(model).tools(tools![write]).state(desk).build()
}
