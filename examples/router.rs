//! A plan in plain code: one agent chooses who answers a question, and the program asks that agent.
//!
//!     cargo run --example router
//!
//! needs no key: scripted models answer. The plan is the function `answer`. Exit codes: 0 answered, 1 failed, 2
//! wrong arguments.

mod plain;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use harness::{
    Agent, Error, Limits,
    policy::Budget,
    testing::{ScriptedProvider, reply},
};

const USAGE: &str = "\
router: one agent chooses who answers a question, and the program asks that agent
It asks scripted models, so it needs no key.";

pub(crate) struct Desks {
    router: Agent,
    orders: Agent,
    repairs: Agent,
}

/// The desk that answers a question.
#[derive(Debug)]
enum Desk {
    Orders,
    Repairs,
}

impl Desk {
    fn of(word: &str) -> Option<Self> {
        match word.trim().to_lowercase().as_str() {
            "orders" => Some(Self::Orders),
            "repairs" => Some(Self::Repairs),
            _ => None,
        }
    }
}

/// Asks the router for the desk, and then the agent of that desk for the answer.
pub(crate) async fn answer(desks: &Desks, question: &str) -> anyhow::Result<String> {
    // Both agents spend from one budget.
    let budget = Budget::new(Limits::new().input_tokens(100_000));
    let chosen = desks.router.run(question).within(&budget).await?;
    let desk = match Desk::of(chosen.text()) {
        Some(Desk::Orders) => &desks.orders,
        Some(Desk::Repairs) => &desks.repairs,
        None => anyhow::bail!("nobody answers that: {chosen}"),
    };
    Ok(desk.run(question).within(&budget).await?.text().to_owned())
}

#[tokio::main]
async fn main() -> ExitCode {
    plain::ended(USAGE, run()).await
}

async fn run() -> anyhow::Result<()> {
    let desks = desks()?;
    for question in ["Where is my parcel?", "The lamp is broken."] {
        writeln!(io::stdout(), "> {question}\n{}", answer(&desks, question).await?)?;
    }
    Ok(())
}

pub(crate) fn desks() -> Result<Desks, Error> {
    let says = |text: &'static str| {
        Agent::builder(ScriptedProvider::answering(move |_| reply().text(text))).build()
    };
    let router = ScriptedProvider::answering(|request| match request.last_text() {
        it if it.contains("parcel") => reply().text("orders"),
        it if it.contains("broken") => reply().text("repairs"),
        _ => reply().text("I do not know."),
    });
    let router = Agent::builder(router).system("Answer with one word: orders, or repairs.");
    let router = router.build()?;
    let (orders, repairs) = (says("It comes tomorrow.")?, says("Send it to us.")?);
    Ok(Desks { router, orders, repairs })
}
