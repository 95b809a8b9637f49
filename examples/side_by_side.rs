//! A plan in plain code: three agents review a change at the same time, and a fourth one sums up what they say.
//!
//!     cargo run --example side_by_side
//!
//! needs no key: scripted models answer. The plan is the function `review`, a tool of the agent that talks to the
//! user. What each reviewer says is shown. Exit codes: 0 answered, 1 failed, 2 wrong arguments.

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
side_by_side: three agents review a change at the same time, and a fourth one sums up what they say
It asks scripted models, so it needs no key.";

struct Team {
    reviewers: Vec<Agent>,
    editor: Agent,
}

/// Has a change reviewed.
#[tool(side_effects = "read")]
async fn review(
    /** The change */
    change: String,
    team: State<Team>,
    context: ToolContext,
) -> Result<String, ToolError> {
    let runs: Vec<_> =
        team.reviewers.iter().map(|it| it.run(change.as_str()).in_call(&context)).collect();
    // All start here; the first one that fails stops the others.
    let [safety, speed, style] =
        <[_; 3]>::try_from(runs).map_err(|_| ToolError::new("the team has no three reviewers"))?;
    let (safety, speed, style) =
        tokio::try_join!(safety.into_future(), speed.into_future(), style.into_future())?;
    for (who, said) in [("safety", &safety), ("speed", &speed), ("style", &style)] {
        show(who, said);
    }
    let found = format!("{safety}\n{speed}\n{style}");
    Ok(team.editor.run(found).in_call(&context).await?.text().to_owned())
}

#[tokio::main]
async fn main() -> ExitCode {
    plain::ended(USAGE, run()).await
}

async fn run() -> anyhow::Result<()> {
    let reply = lead()?.run("Is my change good?").await?;
    writeln!(io::stdout(), "{reply}\n{} turns in all", reply.spent().turns)?;
    Ok(())
}

/// Shows what a reviewer says. A closed output does not stop the run.
fn show(who: &str, said: &Reply) {
    let _ = writeln!(io::stdout(), "{who}: {}", visible(said.text()));
}

/// The agent that talks to the user.
pub(crate) fn lead() -> Result<Agent, Error> {
    let says = |text: &'static str| {
        Agent::builder(ScriptedProvider::answering(move |_| reply().text(text))).build()
    };
    let reviewers = vec![says("Safe.")?, says("Line 3 is slow.")?, says("Well written.")?];
    let editor = ScriptedProvider::answering(|request| {
        reply().text(format!("They say: {}", request.last_text().replace('\n', " ")))
    });
    let team = Team { reviewers, editor: Agent::builder(editor).build()? };
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None => reply().call("review", json!({"change": "for line in lines { sort(); }"})),
    });
    Agent::builder(model).tools(tools![review]).state(team).build()
}
