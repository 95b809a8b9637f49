//! Program code that panics while it is dropped, and elsewhere: payloads, causes, closures and values whose own `drop`
//! panics, a schema, a watcher, a provider's name and a journal.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, CancellationToken, Chat, Error, ErrorKind, Message, Permissions, Provider,
    SideEffects, Tool, ToolContext, ToolError,
    agent::AgentBuilder,
    journal::Fact,
    policy::ApprovalRequest,
    provider::{EventStream, Request},
    testing::{Gate, ScriptedProvider, reply},
    tool,
    tool::{Review, ToolFuture},
    tools,
};
use serde_json::json;

use crate::kept::{Watched, kept_in};
use crate::probe::{Log, MUTATE, READ, WRITE, takes_all};

/// A panic's payload that panics when it is dropped, with a payload that does the same.
struct Payload {
    deep: bool,
}

impl Drop for Payload {
    fn drop(&mut self) {
        if self.deep {
            panic_any(Self { deep: false });
        }
        panic!("the payload fell");
    }
}

fn falls() -> ! {
    panic_any(Payload { deep: true })
}

/// A value that panics when it is dropped.
struct Falls;

impl Drop for Falls {
    fn drop(&mut self) {
        panic!("the drop fell");
    }
}

/// A tool `act`.
fn act(
    effects: SideEffects,
    run: impl Fn(ToolContext) -> ToolFuture + Send + Sync + 'static,
) -> Tool {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    Tool::new("act", "Acts.", schema, effects, move |context, _| run(context))
}

/// A tool `act` whose `on_stop` closure panics when it is dropped.
fn holds(effects: SideEffects, run: impl Fn() -> ToolFuture + Send + Sync + 'static) -> Tool {
    act(effects, move |context| {
        let held = Falls;
        context.on_stop(move || {
            _ = &held;
            String::new()
        });
        run()
    })
}

fn done() -> ToolFuture {
    Box::pin(async { Ok("done".into()) })
}

fn never() -> ToolFuture {
    Box::pin(std::future::pending())
}

fn allow(agent: AgentBuilder) -> AgentBuilder {
    agent.permissions(Permissions::allow_all())
}

/// What is told of the first call.
fn first(chat: &Chat) -> (CallOutcome, String) {
    let result = chat.transcript().messages().iter().flat_map(Message::results).next();
    result.map(|result| (result.outcome(), result.to_text())).expect("a result")
}

/// Runs one call of the tool and gives what is told of it. The conversation goes on after it.
async fn told(tool: Tool, build: impl Fn(AgentBuilder) -> AgentBuilder) -> (CallOutcome, String) {
    let model = ScriptedProvider::new([
        reply().call(tool.name(), json!({})),
        reply().text("Done."),
        reply().text("Back."),
    ]);
    let mut chat = build(Agent::builder(model).tools([tool])).build().expect("an agent").chat();
    chat.send("Go.").tool_time(Duration::from_secs(5)).await.expect("an answer");
    assert_eq!(chat.send("On.").await.expect("it goes on").text(), "Back.");
    first(&chat)
}

/// Lets go of a run that never ends, or cancels it.
async fn stopped(chat: &mut Chat, drops: bool) {
    let (token, second) = (CancellationToken::new(), Duration::from_secs(1));
    let run = chat.send("Go.").cancel_with(token.clone()).into_future();
    if drops {
        tokio::time::timeout(second, run).await.expect_err("it never ends");
    } else {
        let stop = async {
            tokio::time::sleep(second).await;
            token.cancel();
        };
        tokio::join!(run, stop).0.expect_err("stopped");
    }
}

/// Falls.
#[tool(side_effects = "write")]
fn falls_on_a_thread() -> String {
    falls()
}

/// Falls.
#[tool(side_effects = "write")]
async fn falls_in_a_future() -> String {
    falls()
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_panics_when_it_is_dropped_leaves_no_place() {
    use CallOutcome::{Denied, Failed, InDoubt};
    let fine = || act(MUTATE, |_| done());
    assert_eq!(told(falls_on_a_thread::tool(), allow).await.0, InDoubt);
    assert_eq!(told(falls_in_a_future::tool(), allow).await.0, InDoubt);
    assert_eq!(told(act(WRITE, |_| falls()), allow).await.0, InDoubt);
    assert_eq!(told(act(READ, |_| falls()), allow).await.0, Failed);
    let rule =
        |agent: AgentBuilder| agent.permissions(Permissions::default().rule("r", |_| falls()));
    assert_eq!(told(fine(), rule).await.0, Denied);
    let person = |agent: AgentBuilder| agent.approver(|_: ApprovalRequest| async { falls() });
    assert_eq!(told(fine(), person).await.0, Denied);
    assert_eq!(told(fine().with_review(|_| falls()), allow).await.0, Denied);
    let reviews = AtomicUsize::new(0);
    let second = fine().with_review(move |_| match reviews.fetch_add(1, Ordering::SeqCst) {
        0 => Review::pass(),
        _ => falls(),
    });
    let (outcome, text) = told(second, allow).await;
    assert!(matches!(outcome, Failed | Denied), "it did not run: {outcome:?}, {text}");
    let stops = act(WRITE, |context| {
        context.on_stop(|| falls());
        never()
    });
    assert_eq!(told(stops, allow).await.0, InDoubt);
}

/// The cause of a failure, which panics at one of its places.
#[derive(Debug)]
struct Cause(&'static str);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert_ne!(self.0, "display", "it fell");
        f.write_str("cause")
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        assert_ne!(self.0, "source", "it fell");
        None
    }
}

impl Drop for Cause {
    fn drop(&mut self) {
        assert_ne!(self.0, "drop", "it fell");
    }
}

/// Fails.
#[tool(side_effects = "write")]
fn with_cause() -> Result<(), ToolError> {
    Err(ToolError::new("no").with_source(Cause("drop")))
}

/// Fails.
#[tool(side_effects = "write")]
fn with_own_error() -> Result<(), Cause> {
    Err(Cause("drop"))
}

/// Fails.
#[tool(side_effects = "write")]
async fn with_display() -> Result<(), Cause> {
    Err(Cause("display"))
}

/// Fails.
#[tool(side_effects = "write")]
fn with_source() -> anyhow::Result<()> {
    Err(Cause("source").into())
}

#[tokio::test(start_paused = true)]
async fn a_cause_that_panics_when_it_is_dropped_changes_nothing_that_is_told() {
    let failed = |text: &str| (CallOutcome::Failed, text.to_owned());
    let by_hand =
        act(WRITE, |_| Box::pin(async { Err(ToolError::new("no").with_source(Cause("drop"))) }));
    assert_eq!(told(by_hand, allow).await, failed("no"));
    let transient = act(READ, |_| {
        Box::pin(async { Err(ToolError::transient("no").with_source(Cause("drop"))) })
    });
    assert_eq!(told(transient, allow).await, failed("no"));
    assert_eq!(told(with_cause::tool(), allow).await, failed("no"));
    assert_eq!(told(with_own_error::tool(), allow).await, failed("cause"));
}

#[tokio::test]
async fn a_cause_that_panics_while_it_is_read_is_a_panic_of_its_tool() {
    for tool in [with_display::tool(), with_source::tool()] {
        let name = tool.name().to_owned();
        let (outcome, text) = told(tool, allow).await;
        assert_eq!(outcome, CallOutcome::InDoubt, "{name}");
        assert!(text.contains(&name) && text.contains("it fell"), "{text}");
    }
}

/// A cause that is its own cause.
#[derive(Debug)]
struct Round(AtomicUsize);

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("round")
    }
}

impl std::error::Error for Round {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) < 100_000, "endless");
        Some(self)
    }
}

/// Fails.
#[tool(side_effects = "write")]
async fn with_round() -> Result<(), Round> {
    Err(Round(AtomicUsize::default()))
}

#[tokio::test]
async fn causes_that_go_round_come_to_an_end() {
    let (outcome, text) = told(with_round::tool(), allow).await;
    assert_eq!(outcome, CallOutcome::Failed);
    assert!(text.starts_with("round") && !text.contains("endless"), "{} bytes", text.len());
}

#[tokio::test(start_paused = true)]
async fn an_on_stop_closure_that_panics_when_it_is_dropped_changes_nothing_that_is_told() {
    assert_eq!(told(holds(WRITE, done), allow).await, (CallOutcome::Succeeded, "done".into()));
    let (outcome, text) = told(holds(WRITE, never), allow).await;
    assert_eq!(outcome, CallOutcome::InDoubt);
    assert!(text.contains("took longer than"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_on_stop_closure_that_panics_leaves_a_run_that_is_stopped_its_truth() {
    for (effects, outcome) in [(READ, CallOutcome::StoppedReading), (WRITE, CallOutcome::InDoubt)] {
        for drops in [true, false] {
            let model = ScriptedProvider::new([reply().call("act", json!({})), reply().text("x")]);
            let agent = Agent::builder(model).tools([holds(effects, never)]).build();
            let mut chat = agent.expect("an agent").chat();
            stopped(&mut chat, drops).await;
            assert_eq!(first(&chat).0, outcome, "{effects}, {drops}");
            chat.send("On.").await.expect("it goes on");
        }
    }
}

#[tokio::test]
async fn two_on_stop_closures_that_panic_at_once_do_not_abort() {
    let call = |x: u8| json!({ "x": x });
    let model = ScriptedProvider::new([
        reply().call("act", call(1)).call("act", call(2)),
        reply().text("x"),
    ]);
    let agent = Agent::builder(model).tools([holds(READ, done)]).build().expect("an agent");
    let mut chat = agent.chat();
    assert_eq!(chat.send("Go.").await.expect("an answer").text(), "x");
    let results = chat.transcript().messages().iter().flat_map(Message::results);
    assert_eq!(results.filter(|it| it.outcome() == CallOutcome::Succeeded).count(), 2);
}

/// A second panic while the first one unwinds would end the process.
#[tokio::test]
async fn a_panic_of_the_program_while_a_run_holds_what_panics_does_not_abort() {
    let reached = Gate::new();
    let begun = reached.clone();
    let waits = move || -> ToolFuture {
        let gate = begun.clone();
        Box::pin(async move {
            gate.pass().await;
            Ok("done".into())
        })
    };
    let model = ScriptedProvider::new([reply().call("act", json!({}))]);
    let agent = Agent::builder(model).tools([holds(WRITE, waits)]).build().expect("an agent");
    let mut chat = agent.chat();
    let all = async {
        let run = chat.send("Go.").into_future();
        tokio::pin!(run);
        tokio::select! {
            _ = &mut run => {}
            () = reached.reached() => panic!("the program fell"),
        }
    };
    AssertUnwindSafe(all).catch_unwind().await.expect_err("the program's own panic");
    assert_eq!(first(&chat).0, CallOutcome::InDoubt);
    chat.transcript().sendable().expect("it can be sent");
}

#[derive(serde::Serialize)]
struct Output {
    #[serde(skip)]
    _held: Falls,
}

/// Ends.
#[tool(side_effects = "write")]
async fn gives_what_falls() -> Output {
    Output { _held: Falls }
}

struct Unwritable;

impl serde::Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("it fell")
    }
}

/// Ends.
#[tool(side_effects = "write")]
fn gives_what_cannot_be_written() -> Unwritable {
    Unwritable
}

#[tokio::test]
async fn a_value_that_panics_when_it_is_dropped_or_written_leaves_a_doubt() {
    for tool in [gives_what_falls::tool(), gives_what_cannot_be_written::tool()] {
        let name = tool.name().to_owned();
        let (outcome, text) = told(tool, allow).await;
        assert_eq!(outcome, CallOutcome::InDoubt, "{name}");
        assert!(text.contains(&name) && text.contains("fell"), "{text}");
    }
}

struct Shapeless;

impl<'de> serde::Deserialize<'de> for Shapeless {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Ok(Self)
    }
}

impl schemars::JsonSchema for Shapeless {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Shapeless".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        panic!("it fell")
    }
}

/// Ends.
#[tool(side_effects = "read")]
fn takes_shapeless(
    /** It */
    it: Shapeless,
) -> String {
    let Shapeless = it;
    "x".into()
}

#[test]
fn a_schema_that_panics_is_an_error_of_the_agent() {
    let built = catch_unwind(|| {
        Agent::builder(ScriptedProvider::new([])).tools(tools![takes_shapeless]).build().map(|_| ())
    });
    let error = built.expect("no panic").expect_err("no schema");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(
        error.to_string().contains("schema") && error.to_string().contains("it fell"),
        "{error}"
    );
}

#[tokio::test]
async fn a_watcher_that_panics_when_it_is_dropped_takes_no_answer_away() {
    let model = ScriptedProvider::new([reply().text("Done."), reply().text("Back.")]);
    let mut chat = Agent::builder(model).build().expect("an agent").chat();
    let held = Falls;
    let reply = chat.send("Go.").on_event(move |_| _ = &held).await;
    assert_eq!(reply.expect("an answer").text(), "Done.");
    assert_eq!(chat.send("On.").await.expect("it goes on").text(), "Back.");
}

#[tokio::test(start_paused = true)]
async fn an_approver_whose_future_panics_when_it_is_let_go_of_starts_nothing() {
    for drops in [true, false] {
        let log = Log::default();
        let approver = |question: ApprovalRequest| {
            let held = Falls;
            async move {
                std::future::pending::<()>().await;
                drop(held);
                question.yes()
            }
        };
        let model = ScriptedProvider::new([reply().call("act", json!({})), reply().text("x")]);
        let agent = Agent::builder(model).tools([takes_all("act", MUTATE, &log)]);
        let mut chat = agent.approver(approver).build().expect("an agent").chat();
        stopped(&mut chat, drops).await;
        assert_eq!(first(&chat).0, CallOutcome::NotStarted, "{drops}");
        assert_eq!(log.lines(), [""; 0], "{drops}");
        chat.send("On.").await.expect("it goes on");
    }
}

/// A provider that panics when it is asked for one of its names.
struct Nameless {
    inner: ScriptedProvider,
    at: &'static str,
}

impl Provider for Nameless {
    fn name(&self) -> &str {
        assert_ne!(self.at, "name", "it fell");
        "x"
    }

    fn model(&self) -> &str {
        assert_ne!(self.at, "model", "it fell");
        "x"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        self.inner.stream(request)
    }
}

#[tokio::test]
async fn a_provider_whose_names_panic_lets_no_panic_out() {
    for at in ["name", "model"] {
        let provider = Nameless { inner: ScriptedProvider::new([reply().text("Done.")]), at };
        let made = catch_unwind(AssertUnwindSafe(|| {
            Agent::builder(provider).build().map(|agent| agent.chat())
        }));
        let mut chat = made.expect("no panic").expect("an agent");
        let ended = AssertUnwindSafe(chat.send("Go.").into_future()).catch_unwind().await;
        assert!(ended.is_ok(), "{at}: a panic left the run");
        chat.transcript().sendable().expect("it can be sent");
    }
}

fn falls_at_the_start(facts: &[Fact]) -> Result<(), Error> {
    match facts.iter().any(|fact| matches!(fact, Fact::CallStarted { .. })) {
        true => falls(),
        false => Ok(()),
    }
}

#[tokio::test]
async fn a_call_whose_start_could_not_be_written_does_not_run() {
    let log = Log::default();
    let model = ScriptedProvider::new([reply().call("act", json!({})), reply().text("Done.")]);
    let agent = Agent::builder(model).tools([takes_all("act", WRITE, &log)]).build();
    let journal = Watched::new(falls_at_the_start);
    let mut chat = kept_in(&agent.expect("an agent"), &journal);
    let stopped = chat.send("Go.").await.expect_err("it fell");
    assert_eq!(stopped.error().expect("why").kind(), ErrorKind::Journal);
    assert_eq!(log.lines(), [""; 0]);
    let last = chat.transcript().sendable().expect("it can be sent").last().expect("results");
    let result = last.results().next().expect("a result");
    assert_eq!(result.outcome(), CallOutcome::NotStarted, "nothing of it may have run");
}
