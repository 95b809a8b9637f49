//! One tool appends "paid" to a ledger; the process dies inside the tool after the effect, or in the next
//! model call, and is started again. How often was it paid?

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    process::{Command, abort},
};

use harness::{
    Agent, CallOutcome, SideEffect, SideEffects, Tool,
    journal::SqliteJournal,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

const FOLDER: &str = "HARNESS_RIVALS_FOLDER";
const DIES: &str = "HARNESS_RIVALS_DIES";

fn dies(at: &str) {
    if std::env::var(DIES).as_deref() == Ok(at) {
        abort();
    }
}

fn agent(folder: &Path) -> Agent {
    let ledger = folder.join("ledger");
    let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
    let effects = SideEffects::of(&[SideEffect::Write]);
    let pay = Tool::new("pay", "Pays.", schema, effects, move |_, _| {
        let ledger = ledger.clone();
        Box::pin(async move {
            let file = OpenOptions::new().create(true).append(true).open(ledger);
            let mut file = file.expect("a ledger");
            file.write_all(b"paid\n").and_then(|()| file.sync_all()).expect("it is paid");
            dies("in the tool");
            Ok("paid".into())
        })
    });
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call("pay", json!({"amount": 10})),
        Some(_) => {
            dies("in the next model call");
            reply().text("Done.")
        }
    });
    Agent::builder(model).tools([pay]).build().expect("an agent")
}

/// Begins the conversation, or goes on with it.
#[tokio::test]
#[ignore = "a process of the test below"]
async fn program() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let journal = SqliteJournal::open(folder.join("chats.db")).await.expect("a journal");
    let mut chat = agent(folder).open(&journal, "chat").await.expect("a conversation");
    let reply = match chat.transcript().messages().is_empty() {
        true => chat.send("Pay 10.").await,
        false => chat.resume().await,
    };
    let reply = reply.expect("an answer");
    assert_eq!(reply.text(), "Done.");
    let results = reply.transcript().messages().iter().flat_map(|message| message.results());
    let outcomes: Vec<CallOutcome> = results.map(|result| result.outcome()).collect();
    fs::write(folder.join("told"), format!("{outcomes:?}")).expect("a file");
}

#[test]
fn a_payment_is_made_once_wherever_the_process_dies() {
    let run = |dies: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        for dies in [dies, "nowhere"] {
            let mut program = Command::new(std::env::current_exe().expect("this binary"));
            program.args(["--exact", "rivals::program", "--ignored", "--nocapture"]);
            program.env(FOLDER, folder.path()).env(DIES, dies);
            let output = program.output().expect("a process");
            assert_eq!(output.status.success(), dies == "nowhere", "{dies}: {output:?}");
        }
        let paid = fs::read_to_string(folder.path().join("ledger")).expect("a ledger");
        let told = fs::read_to_string(folder.path().join("told")).expect("its end");
        (paid.lines().count(), told)
    };
    let mut row = Vec::new();
    for (dies, told) in [("in the tool", "[InDoubt]"), ("in the next model call", "[Succeeded]")] {
        let runs: Vec<(usize, String)> = (0..5).map(|_| run(dies)).collect();
        assert!(runs.iter().all(|run| *run == (1, told.to_owned())), "{dies}: {runs:?}");
        row.push(runs.iter().map(|(paid, _)| paid.to_string()).collect::<Vec<_>>().join(" "));
    }
    println!("| harness, `open` and `resume` | {} |", row.join(" | "));
}
