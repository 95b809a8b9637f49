//! Answers of a type: the model gets the schema and hears what is wrong, and the program gets a value or an
//! error that keeps the text.

use harness::{
    Agent, Error, ErrorKind, Outcome, Role, StopReason,
    agent::NoAnswer,
    journal::{Entry, Journal, Limit, MemoryJournal},
    policy::Limits,
    testing::{ScriptedProvider, reply},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A book of the library.
#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Book {
    /// Its title, without the author.
    title: String,
    /// The year in which it was published.
    #[schemars(range(min = 1400))]
    year: u16,
}

/// What was found.
#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "found", rename_all = "snake_case")]
enum Found {
    Book(Book),
    Nothing { why: String },
}

const FITS: &str = r#"{"title": "Moby-Dick", "year": 1851}"#;
const YEAR_IS_TEXT: &str = r#"{"title": "Moby-Dick", "year": "1851"}"#;

fn moby_dick() -> Book {
    Book { title: "Moby-Dick".into(), year: 1851 }
}

#[tokio::test]
async fn the_schema_goes_with_the_message_and_all_faults_are_told() {
    let unfit = r#"{"title": 7, "year": 3, "author": "Melville"}"#;
    let model = ScriptedProvider::new([reply().text(unfit), reply().text(FITS)]);
    let agent = Agent::builder(model.clone()).system("Be brief.").build().unwrap();
    let answered = agent.run("Which book?").answer::<Book>().await.unwrap();
    assert_eq!(answered.value(), &moby_dick());
    assert_eq!(answered.reply().turns(), 2);

    let requests = model.requests();
    assert_eq!(requests[0].system(), Some("Be brief."), "the schema spoils no cache");
    let asked = requests[0].last_text();
    for part in ["Which book?", "Its title, without the author.", "1400", "A book of the library."]
    {
        assert!(asked.contains(part), "{part} is missing in {asked}");
    }
    let told = requests[1].last_text();
    for place in ["/title", "/year", "author"] {
        assert!(told.contains(place), "{place} is missing in {told}");
    }
}

#[tokio::test]
async fn no_try_that_fits_is_an_error_that_keeps_the_text() {
    let model = ScriptedProvider::new([
        reply().text("It is Moby-Dick."),
        reply().text(""),
        reply().text(YEAR_IS_TEXT),
    ]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    let none = agent.run("Which book?").answer::<Book>().await.unwrap_err();
    assert_eq!(none.text(), YEAR_IS_TEXT);
    let NoAnswer::Unfit { faults, reply } = &none else { panic!("{none}") };
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("/year"), "{faults:?}");
    assert_eq!(reply.turns(), 3);
}

#[tokio::test]
async fn what_is_cut_off_or_over_budget_is_stopped() {
    let cut = reply().text(r#"{"title": "Mo"#).stop(StopReason::Truncated);
    let agent = Agent::builder(ScriptedProvider::new([cut])).build().unwrap();
    let none = agent.run("Which book?").answer::<Book>().await.unwrap_err();
    assert_eq!(none.text(), r#"{"title": "Mo"#);
    let NoAnswer::Stopped(stopped) = none else { panic!("{none}") };
    assert_eq!(stopped.outcome(), Outcome::Truncated);

    let model = ScriptedProvider::new([reply().text("Moby-Dick.").tokens(900, 20)]);
    let agent = Agent::builder(model).build().unwrap();
    let sending = agent.run("Which book?").limits(Limits::new().input_tokens(500));
    let NoAnswer::Stopped(stopped) = sending.answer::<Book>().await.unwrap_err() else {
        panic!("it was not stopped")
    };
    assert_eq!(stopped.outcome(), Outcome::Limit(Limit::InputTokens));
}

#[tokio::test]
async fn enums_lists_and_fences_are_read() {
    let fenced = "```json\n{\"found\": \"nothing\", \"why\": \"no such book\"}\n```";
    let model = ScriptedProvider::new([
        reply().text(fenced),
        reply().text(r#"{"found": "book", "title": "Moby-Dick", "year": 1851}"#),
        reply().text("[1, 2, 3]"),
    ]);
    let agent = Agent::builder(model).build().unwrap();
    let mut chat = agent.chat();
    let none = chat.send("Which?").answer::<Found>().await.unwrap().into_value();
    assert_eq!(none, Found::Nothing { why: "no such book".into() });
    let book = chat.send("Which?").answer::<Found>().await.unwrap().into_value();
    assert_eq!(book, Found::Book(moby_dick()));
    let list = chat.send("Which?").answer::<Vec<u8>>().await.unwrap().into_value();
    assert_eq!(list, [1, 2, 3]);
}

#[tokio::test]
async fn a_stored_conversation_goes_on_between_two_tries() {
    let journal = MemoryJournal::new();
    let down = Error::new(ErrorKind::Api, "the key is no longer valid");
    let model = ScriptedProvider::new([
        reply().text(YEAR_IS_TEXT),
        reply().error(down),
        reply().text(FITS),
    ]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    let mut chat = agent.open(&journal, "books").await.unwrap();
    let none = chat.send("Which book?").answer::<Book>().await.unwrap_err();
    assert!(matches!(none, NoAnswer::Stopped(_)), "{none}");
    drop(chat);

    let facts = journal.read("books", 0).await.unwrap();
    let told = facts.iter().filter(|fact| matches!(fact.entry(), Ok(Entry::Steered { .. })));
    assert_eq!(told.count(), 1);
    let mut chat = agent.open(&journal, "books").await.unwrap();
    let answered = chat.resume().answer::<Book>().await.unwrap();
    assert_eq!(answered.value(), &moby_dick());
    let said = chat.transcript().messages().iter().filter(|said| said.role() == Role::User);
    assert_eq!(said.count(), 2, "the question and the faults, each once");
}
