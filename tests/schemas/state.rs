//! Values that the program shares with its tools: where they must be given, and the error if one is
//! missing.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use futures_util::FutureExt as _;
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
            "the tool `{name}` takes `State<schemas::state::Stock>`, which is not given. Give the \
             value to all runs with `AgentBuilder::state(..)`, or announce with \
             `AgentBuilder::state_per_run::<T>()` that each run brings its own"
        );
        assert_eq!(error.to_string(), expected);
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
    assert!(error.contains("::User>`, which is not given. Give"), "{error}");
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
        if let Event::RunEnded { outcome, usage, reason, .. } = event {
            told.push((outcome, *usage, reason.map(str::to_owned)));
        }
    });
    let stopped = sending.await.unwrap_err();
    // Without the names of types and methods.
    let reason =
        "the answer failed: the service is not set up for this: tell the people who run it";
    assert_eq!(told, [(Outcome::Failed, Usage::default(), Some(reason.to_owned()))]);
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

/// A run's own number, which lives as long as its run, and is counted.
struct Own(u32, Arc<AtomicU32>);

impl Drop for Own {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tells the number of the run, and is in no hurry.
#[tool(side_effects = "read")]
async fn own(
    own: State<Own>,
    /// The number that the run should have
    number: u32,
    /// How often others come first
    later: u32,
) -> Result<u32, String> {
    for _ in 0..later {
        tokio::task::yield_now().await;
    }
    if own.0 == number { Ok(own.0) } else { Err(format!("{} has that of {number}", own.0)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_at_the_same_time_never_see_the_state_of_another() {
    const RUNS: u32 = 64;
    let model = ScriptedProvider::answering(|request| {
        let said = request.messages()[0].text();
        let number = said.parse::<u32>().expect("a number");
        let turn = u32::try_from(request.messages().len()).expect("few messages");
        let call = |at: u32| json!({"number": number, "later": number % 5 + at + turn * 3});
        match turn {
            // The second and the third call come while the first one runs, which began early.
            1 | 3 => reply().call("own", call(0)).call("own", call(1)).call("own", call(2)),
            _ => reply().text(said),
        }
    });
    let agent = Agent::builder(model).tools(tools![own]).state_per_run::<Own>();
    let agent = agent.build().expect("an agent");
    let alive = Arc::new(AtomicU32::new(0));
    let with = |number: u32| {
        alive.fetch_add(1, Ordering::SeqCst);
        Own(number, Arc::clone(&alive))
    };
    let started = (0..RUNS).map(|number| {
        let (agent, own) = (agent.clone(), with(number));
        tokio::spawn(async move {
            let run = agent.run(number.to_string()).state(own);
            if number % 4 != 3 {
                return Some((number, run.await.expect("an answer")));
            }
            // Each fourth one is dropped somewhere on its way.
            let mut run = run.into_future();
            for _ in 0..number {
                if (&mut run).now_or_never().is_some() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            None
        })
    });
    let mut answered = 0;
    for run in started.collect::<Vec<_>>() {
        let Some((number, reply)) = run.await.expect("no panic") else { continue };
        answered += 1;
        assert_eq!(reply.text(), number.to_string());
        let messages = reply.transcript().messages();
        let results: Vec<_> = messages.iter().flat_map(|message| message.results()).collect();
        assert_eq!(results.len(), 6);
        for result in results {
            assert_eq!(result.to_text(), number.to_string());
        }
    }
    assert_eq!(answered, RUNS / 4 * 3);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "no value outlives its run");
}

#[tokio::test]
async fn a_later_run_of_a_chat_does_not_see_the_state_of_one_that_was_dropped() {
    let model = ScriptedProvider::answering(|request| {
        let calls =
            request.messages().iter().filter(|message| message.role() == harness::Role::Tool);
        match calls.count() {
            0 => reply().call("own", json!({"number": 1, "later": 50})),
            1 => reply().call("own", json!({"number": 2, "later": 0})),
            _ => reply().text("Done."),
        }
    });
    let agent = Agent::builder(model).tools(tools![own]).state_per_run::<Own>();
    let mut chat = agent.build().expect("an agent").chat();
    let alive = Arc::new(AtomicU32::new(2));
    {
        let mut run = chat.send("Go.").state(Own(1, Arc::clone(&alive))).into_future();
        for _ in 0..20 {
            assert!((&mut run).now_or_never().is_none());
        }
    }
    assert_eq!(alive.load(Ordering::SeqCst), 1, "the value went with its run");
    let reply = chat.send("And now?").state(Own(2, Arc::clone(&alive))).await.expect("an answer");
    let last = reply.transcript().messages().iter().rev().find_map(|it| it.results().next());
    assert_eq!(last.expect("a result").to_text(), "2");
}
