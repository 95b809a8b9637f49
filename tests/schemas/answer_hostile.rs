//! Typed answers where the type, the model or the server behaves in an unexpected way.

use std::{borrow::Cow, collections::HashMap};

use harness::{
    Agent, ChatCompletionsProvider, Error, ErrorKind,
    agent::Answer as AnswerType,
    journal::MemoryJournal,
    testing::{Answer, LoopbackServer, ScriptedProvider, chat, reply},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error as _, de::IgnoredAny};
use serde_json::{Value, json};

/// A type whose code says a lot, and a secret, of each value.
#[derive(Debug)]
struct Talks;

impl<'de> Deserialize<'de> for Talks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(from)?;
        Err(D::Error::custom(format!("hunter22 {}", "x".repeat(2_000_000))))
    }
}

impl JsonSchema for Talks {
    fn schema_name() -> Cow<'static, str> {
        "Talks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema matters")]
struct Closed {
    year: u16,
}

/// What is told of an answer that does not fit.
async fn told<T: AnswerType + std::fmt::Debug>(answer: String) -> String {
    let model = ScriptedProvider::answering(move |_| reply().text(answer.clone()));
    let agent = Agent::builder(model.clone()).secret("hunter22").build().unwrap();
    let stopped = agent.run("When?").answer::<T>().tries(1).await.unwrap_err();
    let kept: usize = stopped.faults().iter().map(String::len).sum();
    assert!((1..100_000).contains(&kept), "{kept} bytes are kept");
    assert!(!format!("{stopped:?}{stopped}").contains("hunter22"), "a secret is kept");
    model.requests()[1].last_text()
}

#[tokio::test]
async fn what_is_wrong_with_an_answer_is_told_in_short_and_without_secrets() {
    let long = "k".repeat(150_000);
    let many = (0..10).map(|at| (format!("{at}{long}"), json!(at))).collect();
    for told in [
        told::<Talks>("{}".to_owned()).await,
        told::<Closed>(json!({"year": 1, &long: 1}).to_string()).await,
        told::<Closed>(Value::Object(many).to_string()).await,
    ] {
        assert!(told.len() < 100_000, "{} bytes are told", told.len());
        assert!(!told.contains("hunter22"), "a secret is told");
    }
}

/// One type twice: without doc comments, and with them.
macro_rules! moods {
    ($name:ident, $($item:tt)*) => {
        mod $name {
            #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
            pub(super) enum Mood { $($item)* }
        }
    };
}
moods!(plain, Good, Bad, Other { why: String });
moods!(first, /** All is well. */ Good, Bad, Other { why: String });
moods!(second, Good, /** It is not. */ Bad, Other { why: String });
moods!(all, /** All is well. */ Good, /** It is not. */ Bad, /** Else. */ Other { /** Why. */ why: String });
moods!(words, Good, Bad);
moods!(described, /** All is well. */ Good, Bad);
moods!(more, Good, Bad, Ugly);

/// Whether a run that wants an `A` goes on with a `B`.
async fn goes_on<A: AnswerType, B: AnswerType>() -> bool {
    let model = ScriptedProvider::new([
        reply().error(Error::new(ErrorKind::Api, "the server is down")),
        reply().text(r#"{"answer": "Good"}"#),
    ]);
    let agent = Agent::builder(model).build().unwrap();
    let mut chat = agent.open(&MemoryJournal::new(), "moods").await.unwrap();
    assert!(chat.send("How are you?").answer::<A>().await.is_err());
    chat.resume().answer::<B>().await.is_ok()
}

#[tokio::test]
async fn other_descriptions_of_a_choice_are_no_other_type() {
    assert!(goes_on::<plain::Mood, first::Mood>().await);
    assert!(goes_on::<first::Mood, second::Mood>().await);
    assert!(goes_on::<second::Mood, all::Mood>().await);
    assert!(goes_on::<all::Mood, plain::Mood>().await);
    assert!(goes_on::<words::Mood, described::Mood>().await);
    assert!(goes_on::<Option<described::Mood>, Option<words::Mood>>().await);
    assert!(goes_on::<Option<words::Mood>, Option<described::Mood>>().await);
    assert!(!goes_on::<words::Mood, more::Mood>().await);
    assert!(!goes_on::<described::Mood, plain::Mood>().await);
    assert!(!goes_on::<words::Mood, String>().await);
    assert!(!goes_on::<words::Mood, Option<words::Mood>>().await);
}

#[tokio::test]
async fn a_server_that_refuses_in_its_own_words_is_asked_in_the_next_way() {
    for refusal in [
        json!({"error": {"code": "unsupported_response_format", "message": "Bad request."}}),
        json!({"error": "Guided decoding is not supported by this backend"}),
        json!([{"error": {"code": 400, "status": "INVALID_ARGUMENT",
            "message": "Unknown name \"x\" at 'generation_config.response_schema'"}}]),
        json!({"detail": [{"loc": ["body", "response_format", "type"], "msg": "unexpected value"}]}),
    ] {
        let refuses = refusal.clone();
        let server = LoopbackServer::answering(move |request| match request.json() {
            asked if asked.get("response_format").is_some() => Answer::json(400, &refuses),
            _ => chat::body().call("c", "final_answer", json!({"year": 1851})).answer(),
        });
        let server = server.await.unwrap();
        let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
        let agent = Agent::builder(provider.build().unwrap()).build().unwrap();
        let answered = agent.run("When?").answer::<Closed>().await;
        assert!(answered.is_ok(), "{refusal}: {answered:?}");
    }
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Eq, Hash)]
struct Cell {
    x: u8,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "no answer is read as it")]
struct Grid {
    cells: HashMap<Cell, u8>,
}

/// What is said of a type that no answer can be, and how often the model was asked.
async fn unreadable<T: AnswerType + std::fmt::Debug>() -> (String, usize) {
    let model = ScriptedProvider::answering(|_| reply().text("{}"));
    let agent = Agent::builder(model.clone()).build().unwrap();
    let stopped = agent.run("Which?").answer::<T>().await.unwrap_err();
    (stopped.to_string(), model.requests().len())
}

#[tokio::test]
async fn a_map_whose_keys_no_string_can_be_is_an_error_before_the_first_request() {
    for (said, asked) in [
        unreadable::<Grid>().await,
        unreadable::<HashMap<Cell, u8>>().await,
        unreadable::<Vec<Grid>>().await,
        unreadable::<Option<Grid>>().await,
    ] {
        assert!(said.contains("whose keys are not read from a string"), "{said}");
        assert!(said.contains("a list of entries"), "{said}");
        assert_eq!(asked, 0, "{said}");
    }
    let model = ScriptedProvider::new([reply().text(r#"{"7": 1}"#)]);
    let agent = Agent::builder(model).build().unwrap();
    let numbers = agent.run("Which?").answer::<HashMap<u32, u8>>().await.unwrap();
    assert_eq!(numbers.value()[&7], 1);
}

#[tokio::test]
async fn a_name_that_an_answer_does_not_have_is_a_field_and_no_argument() {
    let told = told::<Cell>(r#"{"x": 1, "height": 2}"#.to_owned()).await;
    assert!(told.contains("at `/height`: there is no such field; the fields are `x`"), "{told}");
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "one choice is never read")]
enum Tagged {
    Unit,
    Named(Cell),
    Number(u32),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "one choice is never read")]
struct Holds {
    first: String,
    tagged: Vec<Tagged>,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind")]
enum Readable {
    Unit,
    Named(Cell),
    Map(HashMap<String, u8>),
}

#[tokio::test]
async fn a_choice_that_no_object_can_be_is_an_error_before_the_first_request() {
    for (said, asked) in [
        unreadable::<Tagged>().await,
        unreadable::<Vec<Tagged>>().await,
        unreadable::<Option<Tagged>>().await,
        unreadable::<Holds>().await,
    ] {
        assert!(said.contains("a choice") && said.contains("is never read"), "{said}");
        assert!(
            said.contains(r#"`kind` is "Number", and beside that tag u32 is expected"#),
            "{said}"
        );
        assert!(said.contains(r#"content = "value""#), "{said}");
        assert_eq!(asked, 0, "{said}");
    }
    let model = ScriptedProvider::new([
        reply().text(r#"{"kind": "Unit"}"#),
        reply().text(r#"{"kind": "Named", "x": 1}"#),
        reply().text(r#"{"kind": "Map"}"#),
    ]);
    let agent = Agent::builder(model).build().unwrap();
    for expected in [Readable::Unit, Readable::Named(Cell { x: 1 }), Readable::Map(HashMap::new())]
    {
        let read = agent.run("Which?").answer::<Readable>().await.unwrap();
        assert_eq!(*read.value(), expected);
    }
}
