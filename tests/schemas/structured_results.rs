//! The parts of a result that are for the program: its schema, its value as a type, and its title.

use std::{collections::BTreeMap, fmt, sync::Arc};

use harness::{
    Agent, CallOutcome, Error, Guardrails, Media, Outcome, Permissions, SideEffects, Tool,
    ToolCall, ToolContent, ToolError, ToolLimits, ToolOutput, ToolRegistry, ToolResult, Transcript,
    journal::{Journal, MemoryJournal},
    policy::ApprovalRequest,
    provider::Request,
    testing::{ScriptedProvider, reply},
    tool, tools, toolset,
    wire::{anthropic, chat, responses},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::probe::{MUTATE, READ};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Weather {
    /// In degrees.
    celsius: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    wind: Option<u8>,
}

/// Of a type of its own, without a schema.
#[derive(Serialize)]
struct Plain {
    celsius: f64,
}

type Found<T> = Result<T, NotFound>;

#[derive(Debug)]
struct NotFound;

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not found")
    }
}

fn oslo() -> Weather {
    Weather { celsius: -3.0, wind: None }
}

/// Plain.
#[tool(side_effects = "read", title = "Weather report")]
fn weather(
    /** The city */
    city: &str,
) -> Weather {
    Weather { celsius: f64::from(u8::try_from(city.len()).unwrap_or(0)), wind: Some(3) }
}

/// In a `Result` whose error has no schema.
#[tool(side_effects = "read")]
async fn fallible(
    /** The city */
    city: String,
) -> Result<Weather, ToolError> {
    if city.is_empty() { Err(ToolError::new("no city")) } else { Ok(oslo()) }
}

/// Behind an alias.
#[tool(side_effects = "read")]
fn aliased() -> Found<Vec<Weather>> {
    Ok(vec![oslo()])
}

/// A borrowed text.
#[tool(side_effects = "none")]
fn echo(
    /** The text */
    text: &str,
) -> &str {
    text
}

/// Without a schema.
#[tool(side_effects = "none")]
fn plain() -> Plain {
    Plain { celsius: 1.0 }
}

/// Without a schema, in a `Result`.
#[tool(side_effects = "none")]
async fn plain_result() -> Result<Plain, String> {
    Ok(Plain { celsius: 1.0 })
}

/// A type that nobody can name.
#[tool(side_effects = "none")]
fn hidden() -> impl Serialize {
    1
}

/// Nothing.
#[tool(side_effects = "none")]
fn nothing() {}

/// Whatever.
#[tool(side_effects = "none")]
fn whatever() -> Value {
    json!(1)
}

/// Content.
#[tool(side_effects = "none")]
fn content() -> Result<ToolOutput, ToolError> {
    ToolOutput::from("Three rows.").with_value(&[1, 2, 3])
}

struct Station(f64);

#[toolset]
impl Station {
    /// What it measures.
    #[tool(side_effects = "read", title = "Measure")]
    async fn measure(&self) -> Found<Weather> {
        Ok(Weather { celsius: self.0, wind: None })
    }
}

fn schema(tool: &Tool) -> Option<Value> {
    tool.output_schema().cloned()
}

#[test]
fn a_return_type_with_a_schema_is_the_output_schema_and_no_type_needs_one() {
    let of_weather = json!({"type": "object", "properties": {
        "celsius": {"type": "number", "description": "In degrees."},
        "wind": {"type": ["integer", "null"], "minimum": 0, "maximum": 255}},
        "required": ["celsius"]});
    let listed = tools![
        weather,
        fallible,
        aliased,
        echo,
        plain,
        plain_result,
        hidden,
        nothing,
        whatever,
        content
    ];
    let schemas: BTreeMap<&str, Option<Value>> =
        listed.iter().map(|tool| (tool.name(), schema(tool))).collect();
    assert_eq!(schemas["weather"], Some(of_weather.clone()));
    assert_eq!(schemas["fallible"], Some(of_weather.clone()));
    let list = schemas["aliased"].clone().expect("that of a list");
    assert_eq!((&list["type"], &list["items"]), (&json!("array"), &of_weather));
    assert_eq!(schemas["echo"], Some(json!({"type": "string"})));
    for none in ["plain", "plain_result", "hidden", "nothing", "whatever", "content"] {
        assert_eq!(schemas[none], None, "{none}");
    }
    let methods = Arc::new(Station(1.5)).tools();
    assert_eq!((schema(&methods[0]), methods[0].title()), (Some(of_weather), Some("Measure")));
}

#[test]
fn a_title_and_an_output_schema_are_told_to_no_model() {
    let by_hand = Tool::new("make", "Makes.", json!({"type": "object"}), READ, |_, _| {
        Box::pin(async { Ok("made".into()) })
    });
    let by_hand = by_hand.with_title("Weather report").with_output_schema(json!({"$id": "out"}));
    assert_eq!(by_hand.output_schema(), Some(&json!({"$id": "out"})));
    let registry =
        ToolRegistry::new(tools![weather].into_iter().chain([by_hand])).expect("a registry");
    assert!(registry.tools().iter().all(|tool| tool.title() == Some("Weather report")));
    let renamed = tools![weather].remove(0).with_title("Other");
    assert_eq!(renamed.title(), Some("Other"), "what is set later counts");
    let mut asked = Transcript::default();
    asked.push(harness::Message::user("?")).expect("a message");
    let request = Request::new(&asked).expect("a request").with_tools(registry.schemas());
    for body in [
        anthropic::encode(&request, &anthropic::Options::new("m")),
        responses::encode(&request, &responses::Options::new("m")),
        chat::encode(&request, &chat::Options::new("m")),
    ] {
        let body = String::from_utf8(body.expect("a body")).expect("text");
        assert!(!body.contains("Weather report") && !body.contains("$id"), "{body}");
        assert!(!body.contains("In degrees."), "{body}");
    }
}

#[test]
fn a_wrong_title_or_output_schema_by_hand_is_told_when_the_registry_is_made() {
    let made = || {
        Tool::new("make", "Makes.", json!({"type": "object"}), READ, |_, _| {
            Box::pin(async { Ok("made".into()) })
        })
    };
    for (tool, way_out) in [
        (made().with_title(" "), "leave it out"),
        (made().with_title("two\nlines"), "without line breaks"),
        (made().with_title("two\u{2028}lines"), "invisible ones"),
        (made().with_title("Read\u{202e}eteleD"), "invisible ones"),
        (made().with_title("\u{200b}"), "invisible ones"),
        (made().with_title("\u{200d}"), "invisible ones"),
        (made().with_title("a\u{34f}b"), "invisible ones"),
        (made().with_title("a\u{e0100}b"), "invisible ones"),
        (made().with_title("\u{e000}"), "invisible ones"),
        (made().with_title("t".repeat(101)), "up to 100 letters"),
        (tools![weather].remove(0).with_title("\u{1b}[8m"), "control characters"),
        (made().with_output_schema(json!("object")), "`Tool::with_output_schema`"),
    ] {
        let err = ToolRegistry::new([tool]).unwrap_err();
        assert!(err.is_configuration() && err.message().contains(way_out), "{err}");
    }
}

#[tokio::test]
async fn results_are_read_as_types_by_the_name_of_the_tool() {
    let model = ScriptedProvider::new([
        reply()
            .call("weather", json!({"city": "Rome"}))
            .call("fallible", json!({"city": ""}))
            .call("echo", json!({"text": "Hi."})),
        reply().call("weather", json!({"city": "Oslo.."})).call("nothing", json!({})),
        reply().text("Done."),
    ]);
    let agent = Agent::builder(model).tools(tools![weather, fallible, echo, nothing]);
    let reply = agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let results = reply.results();
    let celsius: Vec<f64> =
        results.of::<Weather>("weather").expect("types").iter().map(|of| of.celsius).collect();
    assert_eq!(celsius, [4.0, 6.0]);
    assert_eq!(results.of::<String>("echo").expect("a text"), ["Hi."]);
    assert_eq!(results.of::<()>("nothing").expect("nothing"), [()]);
    assert_eq!(results.of::<Weather>("fallible").expect("none that succeeded"), []);
    assert_eq!(results.of::<Weather>("unheard_of").expect("none"), []);
    assert_eq!(results.iter().count(), 5);
    let err = results.of::<u8>("weather").unwrap_err();
    assert!(err.message().contains("tool `weather`: the result of the call `call_1`"), "{err}");
    assert!(err.message().contains("does not fit `u8`"), "{err}");
    let (_, failed) = results.iter().find(|(_, result)| result.is_error()).expect("one");
    assert!(failed.to::<Weather>().unwrap_err().message().contains("its outcome is \"failed\""));
}

/// The value for the program is a fact with its result, and nothing of it is sent.
#[tokio::test]
async fn the_value_for_the_program_is_kept_and_never_sent() {
    let journal = Arc::new(MemoryJournal::new());
    let script = || {
        ScriptedProvider::answering(|request| match request.results().next() {
            None if request.last_text() == "Go." => reply().call("content", json!({})),
            _ => reply().text("Done."),
        })
    };
    let agent = Agent::builder(script()).tools(tools![content]).build().expect("an agent");
    let mut first = agent.open(&journal, "c").await.expect("a chat");
    let answer = first.send("Go.").await.expect("an answer");
    assert_eq!(answer.results().of::<Vec<u8>>("content").expect("a value"), [[1, 2, 3]]);
    drop(first);

    let mut again = agent.open(&journal, "c").await.expect("the chat");
    let kept = again.transcript().results();
    assert_eq!(kept.of::<Vec<u8>>("content").expect("a value"), [[1, 2, 3]]);
    let later = again.send("Thanks.").await.expect("an answer");
    assert_eq!(later.results().iter().count(), 0, "those of this run alone");
    assert_eq!(later.transcript().results().iter().count(), 1);

    let (_, result) = kept.iter().next().expect("a result");
    assert_eq!(
        (result.to_text().as_str(), result.value()),
        ("Three rows.", Some(&json!([1, 2, 3])))
    );
    let request = Request::new(later.transcript()).expect("a request");
    for body in [
        anthropic::encode(&request, &anthropic::Options::new("m")),
        responses::encode(&request, &responses::Options::new("m")),
        chat::encode(&request, &chat::Options::new("m")),
    ] {
        let body = String::from_utf8(body.expect("a body")).expect("text");
        assert!(body.contains("Three rows.") && !body.contains("[1,2,3]"), "{body}");
    }
    let facts = journal.read("c", 0).await.expect("facts").facts;
    let with_value = facts.iter().filter(|fact| fact.fact.contains(r#""value""#));
    assert_eq!(with_value.count(), 1);
}

fn handing_over(value: Value) -> Tool {
    Tool::new("give", "Gives.", json!({"type": "object"}), SideEffects::NONE, move |_, _| {
        let output = ToolOutput::from("Given.").with_value(&value);
        Box::pin(async move { output })
    })
}

async fn given(value: Value) -> ToolResult {
    let limits = ToolLimits::default().value(1000);
    let model = ScriptedProvider::new([reply().call("give", json!({})), reply().text("Done.")]);
    let agent = Agent::builder(model)
        .tools([handing_over(value)])
        .secret("sk-secret-1")
        .tool_limits(limits);
    let answer = agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let results = answer.results();
    results.iter().next().expect("a result").1.clone()
}

fn why(result: &ToolResult) -> String {
    result.to::<Value>().map_err(|err: Error| err.message().to_owned()).unwrap_err()
}

#[tokio::test]
async fn a_value_has_a_bound_and_no_secrets_and_can_be_read_back() {
    let large = given(json!("x".repeat(999))).await;
    assert_eq!((large.outcome(), large.value()), (CallOutcome::Succeeded, None));
    assert!(why(&large).contains("1001 bytes of JSON, and 1000 are kept: `ToolLimits::value`"));
    assert!(given(json!("x".repeat(998))).await.value().is_some());

    let clean = given(json!({"key": "sk-secret-1", "n": 1})).await;
    assert_eq!(clean.value(), Some(&json!({"key": "[secret]", "n": 1})));
    let spread = given(json!({"sk-secret-1": 1})).await;
    assert!(why(&spread).contains("a secret is spread over it"));

    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let deep = given(deep).await;
    assert!(why(&deep).contains("nested too deep"));
    let saved = serde_json::to_string(&deep).expect("JSON");
    assert_eq!(serde_json::from_str::<ToolResult>(&saved).expect("a result"), deep);
    let by_test = ToolResult::new("a", CallOutcome::Succeeded, ["A.".into()]).with_value(json!(7));
    assert_eq!(by_test.to::<u8>().expect("a number"), 7);
}

#[test]
fn a_value_with_a_number_that_json_does_not_have_is_an_error_and_names_the_place() {
    let output = |value: &[Option<f64>]| ToolOutput::from("Given.").with_value(value);
    let why = output(&[None, Some(f64::NAN)]).unwrap_err().to_string();
    assert!(why.contains("at `/1`: it is NaN, which JSON does not have"), "{why}");
    let kept = output(&[None, Some(1.5)]).expect("numbers");
    assert_eq!(kept.value(), Some(&json!([null, 1.5])));
    let failed: [Result<u8, &str>; 2] = [Ok(1), Err("none")];
    let kept = ToolOutput::from("Given.").with_value(&failed).expect("an error is a value here");
    assert_eq!(kept.value(), Some(&json!([{"Ok": 1}, {"Err": "none"}])));
}

#[test]
fn a_result_without_one_value_says_how_to_hand_one_over() {
    let picture = ToolContent::Image(Media::from_bytes("image/png", [1]));
    for content in [vec![picture], vec!["a".into(), "b".into()]] {
        let result = ToolResult::new("a", CallOutcome::Succeeded, content);
        assert!(why(&result).contains("`ToolOutput::with_value`"), "{}", why(&result));
    }
}

/// What the library adds for the model leaves the value as it is.
#[tokio::test]
async fn a_note_for_the_model_leaves_the_value() {
    let again = || reply().call("content", json!({}));
    let model = ScriptedProvider::new([again(), again(), again(), reply().text("Done.")]);
    let rails = Guardrails::default().repetitions(4);
    let agent = Agent::builder(model).tools(tools![content]).guardrails(rails);
    let answer = agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let results = answer.results();
    assert!(results.iter().any(|(_, result)| result.content().len() == 2), "one has a note");
    assert_eq!(results.of::<Vec<u8>>("content").expect("values"), [[1, 2, 3]; 3]);
}

/// A program that gives a result later gives a value with it.
#[tokio::test]
async fn a_result_that_the_program_gives_later_has_its_value() {
    let form = Tool::external("form", "Asks.", json!({"type": "object"}), READ);
    let model = ScriptedProvider::new([reply().call("form", json!({})), reply().text("Thanks.")]);
    let agent =
        Agent::builder(model).tools([form]).secret("sk-secret-1").build().expect("an agent");
    let mut chat = agent.chat();
    assert_eq!(chat.send("Ask.").await.unwrap_err().outcome(), Outcome::Waiting);
    let open = chat.waiting().remove(0);
    let output = ToolOutput::from("Via Po 1").with_value(&json!({"street": "sk-secret-1"}));
    let settled = open.succeeded(output.expect("a value"));
    chat.settle(settled).await.expect("a result");
    let answer = chat.resume().await.expect("an answer");
    let streets: Vec<BTreeMap<String, String>> = answer.results().of("form").expect("a value");
    assert_eq!(streets[0]["street"], "[secret]");
}

/// Who is asked reads the title beside the name.
#[tokio::test]
async fn a_question_has_the_title_of_the_tool() {
    let tool = Tool::new("wipe", "Wipes.", json!({"type": "object"}), MUTATE, |_, _| {
        Box::pin(async { Ok("wiped".into()) })
    });
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let approver = move |question: ApprovalRequest| {
        let title = question.title.clone();
        seen.lock().expect("no panic").push((question.tool.clone(), title));
        std::future::ready(question.yes())
    };
    let model = ScriptedProvider::new([reply().call("wipe", json!({})), reply().text("Done.")]);
    let agent = Agent::builder(model)
        .tools([tool.with_title("Wipe the board")])
        .permissions(Permissions::default())
        .approver(approver);
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let asked = asked.lock().expect("no panic");
    assert_eq!(*asked, [("wipe".to_owned(), Some("Wipe the board".to_owned()))]);
    let question = ApprovalRequest::new(&ToolCall::new("a", "wipe", "{}"), MUTATE);
    let json = serde_json::to_value(&question).expect("JSON");
    assert!(json.get("title").is_none(), "one that was kept before reads as it did");
}
