//! Calls that had started in a process that has ended, and whose tools find out what became of
//! them.

use std::{sync::Arc, time::Duration};

use harness::{
    Agent, CallOutcome, State, Tool, ToolContent, ToolContext, Transcript,
    journal::{Envelope, Fact, Head, Journal, MemoryJournal},
    policy::Permissions,
    testing::{ScriptedProvider, reply},
    tool,
    tool::Reconciled,
    toolset,
};
use serde_json::{Value, json};

#[derive(serde::Serialize)]
struct Receipt {
    cents: u64,
    key: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    cents: u64,
}

/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
async fn pay(
    /** To whom */
    to: &str,
    /** How much */
    order: Order,
    /** Why */
    note: Option<&str>,
    context: &ToolContext,
) -> Result<Receipt, anyhow::Error> {
    let _ = (to, note, context);
    Ok(Receipt { cents: order.cents, key: false })
}

async fn was_paid(
    to: &str,
    order: Order,
    note: Option<&str>,
    context: &ToolContext,
) -> Result<Reconciled<Receipt>, anyhow::Error> {
    tokio::task::yield_now().await;
    anyhow::ensure!(to != "nobody", "there is no such account");
    if note.is_some() {
        return Ok(Reconciled::NotHappened);
    }
    let key = context.idempotency_key().starts_with("second/");
    Ok(Reconciled::Happened(Receipt { cents: order.cents, key }))
}

/// Blocks.
#[tool(side_effects = "write", reconcile = wrote)]
fn write(
    /** Path */
    path: String,
    notes: State<u8>,
) -> String {
    format!("{path}{}", *notes)
}

fn wrote(path: String, notes: State<u8>) -> Reconciled {
    // Only a thread that may block can wait for another one.
    let seen = tokio::runtime::Handle::current().block_on(async { 1 });
    Reconciled::Happened(format!("{path}{}{seen}", *notes).into())
}

/// Nobody finds it out.
#[tool(side_effects = "mutate", reconcile = broken)]
fn odd() {}

fn broken() -> Reconciled {
    panic!("broken")
}

struct Files {
    root: String,
}

#[toolset]
impl Files {
    /// Saves.
    #[tool(side_effects = "write", reconcile = Self::saved)]
    fn save(
        &self,
        /** Path */
        path: String,
    ) -> String {
        path
    }

    async fn saved(&self, path: String) -> Reconciled<String> {
        tokio::task::yield_now().await;
        Reconciled::Happened(format!("{}/{path}", self.root))
    }
}

/// What the model is told of a call that had started when its process ended.
async fn told(tool: &Tool, arguments: Value) -> (CallOutcome, String) {
    let journal = MemoryJournal::new();
    let agent = |model: ScriptedProvider| {
        Agent::builder(model)
            .tools([tool.clone()])
            .state(3_u8)
            .permissions(Permissions::allow_all())
            .build()
            .expect("an agent")
    };
    let call = reply().call_with_id("a", tool.name(), arguments);
    let model = ScriptedProvider::new([call, reply().text("Done.")]);
    let mut chat = agent(model).open(&journal, "first").await.expect("new");
    chat.send("Go.").await.expect("an answer");
    let facts = journal.read("first", 0).await.expect("facts").facts;
    let started =
        |fact: &Envelope| matches!(fact.fact().expect("a fact"), Fact::CallStarted { .. });
    let at = facts.iter().position(started).expect("it has started");
    journal.append("second", Head::default(), &facts[..=at]).await.expect("new");
    let again = ScriptedProvider::new([reply().text("Done.")]);
    let mut chat = agent(again).open(&journal, "second").await.expect("it is there");
    assert_eq!(chat.in_doubt().len(), 1);
    chat.resume().await.expect("an answer");
    let messages = chat.transcript().messages();
    let result = messages.iter().flat_map(harness::Message::results).next().expect("a result");
    let text = result.content().iter().map(|part| match part {
        ToolContent::Text(text) => text.clone(),
        ToolContent::Json(value) => value.to_string(),
        other => format!("{other:?}"),
    });
    (result.outcome(), text.collect())
}

#[tokio::test]
async fn a_tool_finds_out_what_became_of_its_call() {
    let ada = json!({"to": "ada", "order": {"cents": 7}});
    let (outcome, text) = told(&pay::tool(), ada).await;
    assert_eq!((outcome, text.as_str()), (CallOutcome::Succeeded, r#"{"cents":7,"key":true}"#));
    // Nothing of it has happened, so it runs.
    let late = json!({"to": "ada", "order": {"cents": 7}, "note": "late"});
    let (outcome, text) = told(&pay::tool(), late).await;
    assert_eq!((outcome, text.as_str()), (CallOutcome::Succeeded, r#"{"cents":7,"key":false}"#));
    let (outcome, text) = told(&write::tool(), json!({"path": "a"})).await;
    assert_eq!((outcome, text.as_str()), (CallOutcome::Succeeded, "a31"));
    let files = Arc::new(Files { root: "r".into() });
    let (outcome, text) = told(&files.tools()[0], json!({"path": "a"})).await;
    assert_eq!((outcome, text.as_str()), (CallOutcome::Succeeded, "r/a"));
}

#[tokio::test]
async fn a_call_is_in_doubt_if_its_tool_fails_to_find_it_out() {
    let nobody = json!({"to": "nobody", "order": {"cents": 7}});
    assert_eq!(told(&pay::tool(), nobody).await.0, CallOutcome::InDoubt);
    assert_eq!(told(&odd::tool(), json!({})).await.0, CallOutcome::InDoubt);
}

#[test]
fn only_a_tool_that_says_so_can_find_it_out() {
    let files = Arc::new(Files { root: "r".into() });
    assert!(pay::tool().can_reconcile() && files.tools()[0].can_reconcile());
    let plain =
        Tool::new("plain", "Plain.", json!({"type": "object"}), Default::default(), |_, _| {
            Box::pin(async { Ok("".into()) })
        });
    assert!(!plain.can_reconcile());
}

/// Orders.
#[tool(side_effects = "network", reconcile = was_ordered)]
fn order(words: State<Transcript>, context: &ToolContext) -> String {
    let _ = context;
    words.messages().iter().map(harness::Message::text).collect()
}

/// Reads what was said, and asks an agent about it.
async fn was_ordered(
    words: State<Transcript>,
    context: &ToolContext,
) -> Result<Reconciled<String>, anyhow::Error> {
    let said: String = words.messages().iter().map(harness::Message::text).collect();
    let clerk = ScriptedProvider::answering(|request| reply().text(request.last_text()));
    let clerk = Agent::builder(clerk).build()?;
    let answered = clerk.run(format!("Was it ordered? {said}")).in_call(context).await?;
    Ok(Reconciled::Happened(answered.text().to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_finds_it_out_reads_the_conversation_and_asks_an_agent() {
    let order = order::tool();
    let found = tokio::time::timeout(Duration::from_secs(60), told(&order, json!({})));
    let (outcome, text) = found.await.expect("the agent may begin at once");
    assert_eq!((outcome, text.as_str()), (CallOutcome::Succeeded, "Was it ordered? Go."));
}
