//! Values that the program shares with its tools: who must give one, and what happens if nobody does.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use harness::{
    Agent, ErrorKind, Outcome, SideEffects, State, Tool, ToolContext, Usage,
    agent::Event,
    policy::Budget,
    testing::{ScriptedProvider, reply},
    tool, tools, toolset,
};
use serde_json::json;

struct Stock(u32);

struct User(&'static str);

/// Counts what is left.
#[tool(side_effects = "read")]
fn count(stock: State<Stock>) -> u32 {
    stock.0
}

/// Counts, as it used to be.
#[tool(side_effects = "read", name = "old_count", handle = OldCount)]
#[deprecated]
fn old_count(stock: State<Stock>) -> u32 {
    stock.0
}

/// Says who asks.
#[tool(side_effects = "read")]
async fn who(user: State<User>, stock: Option<State<Stock>>) -> String {
    format!("{} {:?}", user.0, stock.map(|stock| stock.0))
}

struct Shop;

#[toolset]
impl Shop {
    /// Sells one.
    #[tool(side_effects = "mutate")]
    fn sell(
        &self,
        stock: State<Stock>,
        /// How many
        many: u32,
    ) -> bool {
        stock.0 >= many
    }
}

fn model() -> ScriptedProvider {
    ScriptedProvider::new([])
}

fn by_hand() -> Tool {
    let schema = json!({"type": "object", "properties": {}});
    Tool::new("by_hand", "Counts.", schema, SideEffects::NONE, |context: ToolContext, _| {
        let left = context.state::<Stock>().map(|stock| stock.0);
        Box::pin(async move { Ok(format!("{left:?}").into()) })
    })
}

#[test]
fn an_agent_is_not_built_if_nobody_gives_what_a_tool_takes() {
    let each: [(&str, Vec<Tool>); 4] = [
        ("count", tools![count]),
        ("old_count", tools![OldCount]),
        ("sell", Arc::new(Shop).tools()),
        ("by_hand", vec![by_hand().needs_state::<Stock>()]),
    ];
    for (name, tools) in each {
        let error = Agent::builder(model()).tools(tools.clone()).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        let expected = format!(
            "the tool `{name}` takes `State<tests::state::Stock>`, which nobody gives. Give the \
             value to all runs with `AgentBuilder::state(..)`, or announce with \
             `AgentBuilder::state_per_run::<T>()` that each run brings its own"
        );
        assert_eq!(error.to_string().replace("harness::state", "tests::state"), expected);
        assert!(Agent::builder(model()).tools(tools.clone()).state(Stock(1)).build().is_ok());
        assert!(Agent::builder(model()).tools(tools).state_per_run::<Stock>().build().is_ok());
    }
    assert!(Agent::builder(model()).tools([by_hand()]).build().is_ok(), "it may do without");
}

#[test]
fn all_that_is_missing_is_told_at_once_and_an_arc_is_another_type() {
    let tools = tools![count, who];
    let builder = Agent::builder(model()).tools(tools).state(Arc::new(Stock(1)));
    let error = builder.build().unwrap_err().to_string();
    assert!(error.contains("`count`") && error.contains("`who`"), "{error}");
    assert!(error.contains("::User>`, which nobody gives. Give"), "{error}");
    assert!(error.contains("An `Arc` of it is given, which is another type"), "{error}");
}

#[test]
fn a_value_is_given_or_announced_and_not_both() {
    let agent = Agent::builder(model()).tools(tools![count]);
    let error = agent.state(Stock(1)).state_per_run::<Stock>().build().unwrap_err().to_string();
    assert!(error.contains("::Stock` is both given to the agent and announced"), "{error}");
}

/// What is left of the run's limits is there without anybody's doing.
#[tool(side_effects = "none")]
fn calls_made(budget: State<Budget>) -> u64 {
    budget.spent().tool_calls.into()
}

#[tokio::test]
async fn each_run_brings_its_own() {
    let model = ScriptedProvider::answering(|request| match request.last_text().as_str() {
        "who" => reply().call("who", json!({})),
        "used" => reply().call("calls_made", json!({})),
        said => reply().text(said),
    });
    let tools = tools![who, calls_made];
    let agent = Agent::builder(model).tools(tools).state_per_run::<User>().state(Stock(1));
    let agent = agent.build().expect("an agent");
    let (ada, bob) = (agent.run("who").state(User("Ada")), agent.run("who").state(User("Bob")));
    let (ada, bob) = tokio::join!(ada.into_future(), bob.state(Stock(7)).into_future());
    assert_eq!((ada.unwrap().text(), bob.unwrap().text()), ("Ada Some(1)", "Bob Some(7)"));
    let mut chat = agent.chat();
    assert_eq!(chat.send("who").state(User("Eve")).await.unwrap().text(), "Eve Some(1)");
    assert_eq!(chat.send("who").state(User("Max")).await.unwrap().text(), "Max Some(1)");
    // The call itself may have been counted already.
    let used = chat.send("used").state(User("Max")).await.unwrap();
    assert!(["0", "1"].contains(&used.text()), "{}", used.text());
}

#[tokio::test]
async fn a_run_without_what_was_announced_fails_before_anything_is_sent() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let model = ScriptedProvider::answering(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        reply().text("Hello Ada.").tokens(10, 3)
    });
    let builder = Agent::builder(model).tools(tools![who]).state_per_run::<User>();
    let mut chat = builder.build().expect("an agent").chat();
    chat.send("Hello.").state(User("Ada")).await.expect("a reply");
    let before = chat.transcript().clone();

    let mut told = Vec::new();
    let sending = chat.send("And now?").on_event(|event| {
        if let Event::RunEnded { outcome, usage } = event {
            told.push((outcome, *usage));
        }
    });
    let stopped = sending.await.unwrap_err();
    assert_eq!(told, [(Outcome::Failed, Usage::default())]);
    assert_eq!(stopped.outcome(), Outcome::Failed);
    let error = stopped.error().expect("an error");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let text = error.to_string();
    assert!(text.contains("::User`") && text.contains("`chat.send(..).state(..)`"), "{text}");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert_eq!(chat.transcript(), &before, "nothing was said");
    // What it tells is of this run, and not of the one before.
    assert_eq!((stopped.text(), stopped.turns(), stopped.usage()), ("", 0, Usage::default()));

    let reply = chat.send("And now?").state(User("Ada")).await.expect("a reply");
    assert_eq!(reply.text(), "Hello Ada.");
}

#[tokio::test]
async fn a_run_that_had_stopped_goes_on_with_a_value() {
    let model = ScriptedProvider::new([
        reply().call("who", json!({})),
        reply().overloaded(),
        reply().call("who", json!({})),
        reply().text("Bob."),
    ]);
    let builder = Agent::builder(model.clone()).tools(tools![who]).state_per_run::<User>();
    let mut chat = builder.build().expect("an agent").chat();
    chat.send("Who?").state(User("Ada")).await.unwrap_err();
    let stopped = chat.resume().await.unwrap_err();
    assert!(stopped.to_string().contains("::User`"), "{stopped}");
    assert_eq!(model.requests().len(), 2);
    assert_eq!(chat.resume().state(User("Bob")).await.unwrap().text(), "Bob.");
    assert_eq!(model.requests()[3].last_text(), "Bob None");
}

#[tokio::test]
async fn a_run_that_cannot_begin_tells_nothing_of_the_one_before() {
    let model = ScriptedProvider::new([reply().text("Done.").tokens(10, 3)]);
    let mut chat = Agent::builder(model).build().expect("an agent").chat();
    chat.send("Go.").await.expect("a reply");
    let stopped = chat.resume().await.unwrap_err();
    assert_eq!((stopped.text(), stopped.turns(), stopped.usage()), ("", 0, Usage::default()));
}
