//! Typed answers: the model gets the schema and the faults, and the program gets a value or an
//! error that keeps the text.

use std::{
    future::{Ready, pending, ready},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, CancellationToken, Error, ErrorKind, Message, Outcome, Role, SideEffects,
    State, StopReason, Tool, ToolError, ToolOutput,
    agent::{Action, Event, Machine},
    journal::{AnswerCheck, Envelope, Fact, Head, Journal, LimitKind, MemoryJournal},
    policy::Limits,
    testing::{ScriptedProvider, reply},
    tool, tools,
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
    assert_eq!((none.outcome(), none.turns()), (Outcome::Unfit, 3));
    assert_eq!(none.faults().len(), 1);
    assert!(none.faults()[0].contains("/year") && none.to_string().contains("/year"), "{none}");
}

#[tokio::test]
async fn what_is_cut_off_or_over_budget_is_stopped() {
    let cut = reply().text(r#"{"title": "Mo"#).stop(StopReason::Truncated);
    let agent = Agent::builder(ScriptedProvider::new([cut])).build().unwrap();
    let none = agent.run("Which book?").answer::<Book>().await.unwrap_err();
    assert_eq!(none.text(), r#"{"title": "Mo"#);
    assert_eq!(none.outcome(), Outcome::Truncated);

    let model = ScriptedProvider::new([reply().text("Moby-Dick.").tokens(900, 20)]);
    let agent = Agent::builder(model).build().unwrap();
    let sending = agent.run("Which book?").limits(Limits::new().input_tokens(500));
    let stopped = sending.answer::<Book>().await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::InputTokens));
}

#[tokio::test]
async fn enums_lists_and_fences_are_read() {
    let fenced = "```json\n{\"found\": \"nothing\", \"why\": \"no such book\"}\n```";
    let model = ScriptedProvider::new([
        reply().text(fenced),
        reply().text(r#"{"answer": {"found": "book", "title": "Moby-Dick", "year": 1851}}"#),
        reply().text(r#"{"answer": [1, 2.0, 3]}"#),
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

/// One try has failed, and the provider fails before the next one.
async fn stored_between_two_tries(journal: &MemoryJournal, next: &str) -> Agent {
    let down = Error::new(ErrorKind::Api, "the key is no longer valid");
    let model = ScriptedProvider::new([
        reply().text(YEAR_IS_TEXT),
        reply().error(down),
        reply().text(next),
        reply().text(next),
    ]);
    let agent = Agent::builder(model).build().unwrap();
    let mut chat = agent.open(journal, "books").await.unwrap();
    let none = chat.send("Which book?").answer::<Book>().tries(1).await.unwrap_err();
    assert_eq!(none.outcome(), Outcome::Failed, "{none}");
    agent
}

fn rejected(facts: &[Envelope]) -> usize {
    let is = |fact: &&Envelope| matches!(fact.fact(), Ok(Fact::AnswerRejected { .. }));
    facts.iter().filter(is).count()
}

#[tokio::test]
async fn a_stored_conversation_goes_on_between_two_tries() {
    let journal = MemoryJournal::new();
    let agent = stored_between_two_tries(&journal, FITS).await;
    let facts = journal.read("books", 0).await.unwrap().facts;
    assert_eq!(rejected(&facts), 1);
    let mut chat = agent.open(&journal, "books").await.unwrap();
    let answered = chat.resume().answer::<Book>().await.unwrap();
    assert_eq!(answered.value(), &moby_dick());
    assert_eq!(chat.answered::<Book>().unwrap(), moby_dick());
    let said = chat.transcript().messages().iter().filter(|said| said.role() == Role::User);
    assert_eq!(said.count(), 2, "the question and the faults, each once");
}

#[tokio::test]
async fn tries_of_a_stored_conversation_are_not_counted_anew() {
    let journal = MemoryJournal::new();
    let agent = stored_between_two_tries(&journal, YEAR_IS_TEXT).await;
    let mut chat = agent.open(&journal, "books").await.unwrap();
    // The schema is a fact: nobody brings the type.
    let stopped = chat.resume().await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Unfit);
    assert!(stopped.faults()[0].contains("/year"), "{stopped}");
    assert_eq!(chat.answered::<Book>().unwrap_err().kind(), ErrorKind::Transcript);
    assert_eq!(rejected(&journal.read("books", 0).await.unwrap().facts), 2);
}

/// The same values as `Book`, in other words.
#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Volume {
    /// What is printed on its back.
    title: String,
    #[schemars(range(min = 1400))]
    year: u16,
}

#[tokio::test]
async fn another_schema_is_refused_and_nothing_has_changed() {
    let journal = MemoryJournal::new();
    let agent = stored_between_two_tries(&journal, FITS).await;
    let mut chat = agent.open(&journal, "books").await.unwrap();
    let before = journal.read("books", 0).await.unwrap().facts.len();
    let stopped = chat.resume().answer::<Found>().await.unwrap_err();
    assert!(stopped.to_string().contains("another schema"), "{stopped}");
    assert_eq!(stopped.error().unwrap().kind(), ErrorKind::Configuration);
    assert_eq!(journal.read("books", 0).await.unwrap().facts.len(), before);
    let volume = chat.resume().answer::<Volume>().await.unwrap().into_value();
    assert_eq!(volume.year, 1851, "descriptions may change");

    let mut chat =
        Agent::builder(ScriptedProvider::new([reply().text("Hm").cut()])).build().unwrap().chat();
    chat.send("Which book?").await.unwrap_err();
    let stopped = chat.resume().answer::<Book>().await.unwrap_err();
    assert!(stopped.to_string().contains("without a type"), "{stopped}");
}

#[tokio::test]
async fn a_failed_check_is_an_event_of_the_run() {
    let model = ScriptedProvider::new([reply().text(YEAR_IS_TEXT), reply().text("[")]);
    let agent = Agent::builder(model).build().unwrap();
    let mut seen = Vec::new();
    let sending = agent.run("Which book?").on_event(|event| {
        if let Event::AnswerRejected { by, faults, message } = event {
            seen.push((by, faults.to_vec(), message.map(Message::text)));
        }
    });
    let stopped = sending.answer::<Book>().tries(1).await.unwrap_err();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].2.as_ref().unwrap().contains("/year"), "{seen:?}");
    assert_eq!((seen[1].0, seen[1].2.as_ref()), (AnswerCheck::Schema, None));
    assert_eq!(seen[1].1, stopped.faults());
}

/// Each action of another driver is kept, and done anew from what was kept.
#[tokio::test]
async fn steps_check_answers_by_the_same_code() {
    let model = ScriptedProvider::new([reply().text(YEAR_IS_TEXT), reply().text(FITS)]);
    let agent = Agent::builder(model).build().unwrap();
    let mut kept: Vec<Envelope> = Vec::new();
    let mut acts = 0;
    let outcome = loop {
        // The type is brought by every second process: the facts are enough.
        let mut steps = agent.steps("books", kept.clone()).unwrap();
        if acts % 2 == 0 {
            steps = steps.answer::<Book>();
        }
        acts += 1;
        let facts = match steps.next() {
            Action::AwaitUser => steps.say("Which book?".into()).await.unwrap(),
            Action::Finish(outcome) => break outcome,
            _ => steps.act().await.unwrap(),
        };
        kept.extend(facts.clone());
        steps.apply(facts).unwrap();
    };
    assert_eq!(outcome, Outcome::Answered);
    assert_eq!((rejected(&kept), acts), (1, 6), "say, ask, check, ask, check and the end");
    let mut machine = Machine::new();
    kept.iter().for_each(|fact| machine.apply(&fact.fact().unwrap()).unwrap());
    assert_eq!(machine.answered::<Book>().unwrap(), moby_dick());
    assert!(Machine::new().answered::<Book>().is_err());
    let steps = agent.steps("books", kept).unwrap();
    assert_eq!(steps.answered::<Book>().unwrap(), moby_dick());
    assert!(steps.answered::<Found>().is_err());
}

/// Counts how often it looks, and accepts the book of this year.
fn accepts(
    year: u16,
) -> (impl Fn(Book) -> Ready<Result<(), String>> + Send + Sync, Arc<AtomicU32>) {
    let looked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&looked);
    let looks = move |book: Book| {
        count.fetch_add(1, Ordering::Relaxed);
        ready(match book.year == year {
            true => Ok(()),
            false => Err(format!("no book of {}: my key is hunter22", book.year)),
        })
    };
    (looks, looked)
}

#[tokio::test]
async fn a_function_of_the_program_sends_the_model_back_to_its_work() {
    let of = |year: u32| reply().text(format!(r#"{{"title": "Moby-Dick", "year": {year}}}"#));
    let model = ScriptedProvider::new([of(1850), reply().text("Hm."), of(1851)]);
    let agent = Agent::builder(model.clone()).secret("hunter22").build().unwrap();
    let (looks, looked) = accepts(1851);
    let answered = agent.run("Which book?").answer::<Book>().tries(1).verify(1, looks);
    assert_eq!(answered.await.unwrap().value(), &moby_dick());
    // An answer that does not fit is not shown to the function, and each has its own tries.
    assert_eq!(looked.load(Ordering::Relaxed), 2);
    let told = model.requests()[1].last_text();
    assert!(told.contains("no book of 1850") && !told.contains("hunter22"), "{told}");

    let model = ScriptedProvider::answering(|_| reply().text(FITS));
    let agent = Agent::builder(model).build().unwrap();
    let (looks, looked) = accepts(1852);
    let stopped = agent.run("Which?").answer::<Book>().verify(2, looks).await.unwrap_err();
    assert_eq!((stopped.outcome(), looked.load(Ordering::Relaxed)), (Outcome::Unfit, 3));
    assert_eq!((stopped.text(), stopped.turns()), (FITS, 3));
    assert!(stopped.faults()[0].contains("no book of 1851"), "{stopped}");
}

#[tokio::test]
async fn words_are_verified_too_and_the_function_meets_its_end() {
    let model = ScriptedProvider::answering(|_| reply().text("Done."));
    let agent = Agent::builder(model).build().unwrap();
    let said =
        agent.run("Mend it.").verify(1, |text| ready((text == "Done.").then_some(()).ok_or("?")));
    assert_eq!(said.await.unwrap().text(), "Done.");

    let mut chat = agent.chat();
    let stopped = chat.send("Mend it.").verify(1, |_| async { panic!("oh") as Result<(), String> });
    let stopped = stopped.await.unwrap_err();
    assert_eq!(stopped.error().unwrap().kind(), ErrorKind::Panicked, "{stopped}");
    // What nobody has looked at is looked at when the run goes on.
    let looks = |_| ready(Ok::<(), String>(()));
    assert_eq!(chat.resume().verify(1, looks).await.unwrap().text(), "Done.");

    let token = CancellationToken::new();
    let stop = token.clone();
    let hangs = move |_| {
        stop.cancel();
        pending::<Result<(), String>>()
    };
    let stopped = chat.send("Mend it.").cancel_with(token).verify(1, hangs).await.unwrap_err();
    assert_eq!((stopped.outcome(), stopped.text()), (Outcome::Cancelled, "Done."));
    let without = chat.resume().await.unwrap_err();
    assert!(without.to_string().contains("`verify`"), "{without}");
    assert_eq!(chat.resume().verify(1, looks).await.unwrap().turns(), 1);
    let last = chat.send("Go on.").await.unwrap();
    assert_eq!((last.text(), last.turns()), ("Done.", 1), "the next run wants nothing");
}

/// Whatever the process had written when it ended, the run goes on to the same end, and the facts are the same.
#[tokio::test]
async fn a_process_may_end_after_each_fact() {
    let of = |year: u32| reply().text(format!(r#"{{"title": "Moby-Dick", "year": {year}}}"#));
    // The same answers in the same place, however often it is asked.
    let model = || {
        ScriptedProvider::answering(move |request| {
            let asked = request.messages().iter().filter(|said| said.role() == Role::User).count();
            [reply().text("Hm."), of(1850), of(1851)].into_iter().nth(asked - 1).expect("3 turns")
        })
    };
    let whole = MemoryJournal::new();
    let agent = Agent::builder(model()).build().unwrap();
    let mut chat = agent.open(&whole, "books").await.unwrap();
    chat.send("Which book?").answer::<Book>().verify(1, accepts(1851).0).await.unwrap();
    drop(chat);
    let whole = whole.read("books", 0).await.unwrap().facts;
    let kinds = |facts: &[Envelope]| -> Vec<String> {
        let kind = |fact: &Envelope| -> Option<String> {
            let fact: serde_json::Value = serde_json::from_str(&fact.fact).unwrap();
            let kind = fact["fact"].as_str().unwrap().to_owned();
            (kind != "reopened").then_some(kind)
        };
        let mut kinds: Vec<String> = facts.iter().filter_map(kind).collect();
        // An answer that is checked again is told once more what brought the words of the check.
        kinds.dedup_by(|later, before| later == before && later == "sources_read");
        kinds
    };
    assert_eq!(whole.len(), 9, "{:?}", kinds(&whole));
    for kept in 2..whole.len() {
        let journal = MemoryJournal::new();
        journal.append("books", Head::default(), &whole[..kept]).await.unwrap();
        let agent = Agent::builder(model()).build().unwrap();
        let mut chat = agent.open(&journal, "books").await.unwrap();
        let answered = chat.resume().answer::<Book>().verify(1, accepts(1851).0).await;
        assert_eq!(answered.unwrap_or_else(|err| panic!("{kept}: {err}")).value(), &moby_dick());
        drop(chat);
        let facts = journal.read("books", 0).await.unwrap().facts;
        assert_eq!(kinds(&facts), kinds(&whole), "{kept}");
    }
}

struct Known(Vec<u16>);

/// Looks whether the library has a book of this year.
#[tool(side_effects = "read")]
fn is_known(
    /// The year
    year: u16,
    known: State<Known>,
) -> Result<(), String> {
    match known.0.contains(&year) {
        true => Ok(()),
        false => Err(format!("the library has no book of {year}: my key is hunter22")),
    }
}

/// Looks whether all work is done.
#[tool(side_effects = "none")]
fn is_done(
    /// The words
    #[param(default = "")]
    answer: String,
) -> Result<(), String> {
    (answer == "Done.").then_some(()).ok_or_else(|| format!("{answer:?} is not done"))
}

#[tokio::test]
async fn a_tool_of_the_program_looks_at_the_answer() {
    let of = |year: u32| reply().text(format!(r#"{{"title": "Moby-Dick", "year": {year}}}"#));
    let agent = |replies: Vec<_>| {
        let model = ScriptedProvider::new(replies);
        let agent = Agent::builder(model.clone()).secret("hunter22").state(Known(vec![1851]));
        (model, agent.build().unwrap())
    };
    let (model, library) = agent(vec![of(1850), of(1851)]);
    let answered = library.run("Which book?").answer::<Book>().verify_by(1, tools![is_known]);
    assert_eq!(answered.await.unwrap().value(), &moby_dick());
    let told = model.requests()[1].last_text();
    assert!(told.contains("has no book of 1850") && !told.contains("hunter22"), "{told}");
    // All of them look, and the model hears all.
    let (_, library) = agent(vec![of(1850)]);
    let stopped = library.run("Which?").answer::<Book>().verify_by(0, tools![is_known, is_done]);
    let stopped = stopped.await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Unfit);
    let faults = stopped.faults().join("\n");
    assert!(faults.contains("1850") && faults.contains("\"\" is not done"), "{faults}");
    // Words are the argument `answer`, also of an answer that is no object.
    let (_, library) = agent(vec![reply().text("Hm."), reply().text("Done.")]);
    let said = library.run("Mend it.").verify_by(1, tools![is_done]).await.unwrap();
    assert_eq!(said.text(), "Done.");
    let (_, library) =
        agent(vec![reply().text("[\"Done.\"]"), reply().text("{\"answer\": \"Done.\"}")]);
    let said = library.run("Mend it.").answer::<String>().verify_by(1, tools![is_done]).await;
    assert_eq!(said.unwrap().value(), "Done.");
}

#[tokio::test]
async fn a_tool_that_may_not_look_at_answers_fails_the_run_before_it_begins() {
    let tool = |effects: SideEffects| {
        let schema = serde_json::json!({"type": "object", "properties": {}});
        Tool::new("look", "Looks.", schema, effects, |context, _| {
            let known = context.state::<Known>().is_some();
            Box::pin(async move { Ok(known.to_string().into()) })
        })
    };
    let model = ScriptedProvider::new([]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    let writes = SideEffects::of(&[tool::SideEffect::Write]);
    let table = [
        (tool(writes), "declares write"),
        (tool(SideEffects::NONE).needs_state::<Known>(), "Known"),
        (agent.as_tool("look", "Looks."), "is none"),
        (
            Tool::external(
                "look",
                "Looks.",
                serde_json::json!({"type": "object"}),
                SideEffects::NONE,
            ),
            "is none",
        ),
    ];
    for (tool, why) in table {
        let stopped = agent.run("Which?").answer::<Book>().verify_by(1, [tool]).await.unwrap_err();
        let error = stopped.error().expect("an error");
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(why), "{error}");
    }
    assert!(model.requests().is_empty());
    let model = ScriptedProvider::answering(|_| reply().text(FITS));
    let agent = Agent::builder(model).build().unwrap();
    let looks = agent.run("Which?").answer::<Book>().verify_by(1, [tool(writes).idempotent()]);
    assert_eq!(looks.await.unwrap().value(), &moby_dick());
}

type Calling = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

#[tokio::test(start_paused = true)]
async fn a_tool_that_looks_at_an_answer_has_the_time_of_the_runs_calls() {
    for (seconds, outcome) in [(4, None), (6, Some(Outcome::Unfit))] {
        let schema = serde_json::json!({"type": "object", "properties": {}});
        let looks = Tool::new("look", "Looks.", schema, SideEffects::NONE, move |_, _| {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok("It is right.".into())
            })
        });
        let model = ScriptedProvider::answering(|_| reply().text(FITS));
        let agent = Agent::builder(model).build().unwrap();
        let run = agent.run("Which?").tool_time(Duration::from_secs(5)).answer::<Book>();
        let ended = run.verify_by(0, [looks]).await;
        assert_eq!(ended.err().map(|stopped| stopped.outcome()), outcome, "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_or_never_ends_does_not_accept_the_answer() {
    let schema = serde_json::json!({"type": "object", "properties": {}});
    let tool = |run: fn() -> Calling| {
        Tool::new("look", "Looks.", schema.clone(), SideEffects::NONE, move |_, _| run())
    };
    let hangs = tool(|| Box::pin(pending())).with_time_limit(Duration::from_secs(7));
    let asks =
        tool(|| Box::pin(async { Err(ToolError::asks("Is it right?", serde_json::json!(1))) }));
    let panics = tool(|| Box::pin(async { panic!("oh") }));
    for (tool, why) in [(hangs, "7s"), (asks, "asks a person"), (panics, "panicked")] {
        let model = ScriptedProvider::answering(|_| reply().text(FITS));
        let agent = Agent::builder(model).build().unwrap();
        let stopped = agent.run("Which?").answer::<Book>().verify_by(1, [tool]).await.unwrap_err();
        assert_eq!((stopped.outcome(), stopped.turns(), stopped.text()), (Outcome::Unfit, 2, FITS));
        assert!(stopped.faults()[0].contains(why), "{:?}", stopped.faults());
    }
}

#[tokio::test]
async fn an_agent_that_answers_by_type_is_a_tool_with_structure() {
    let look = |reply: &str| {
        let model = ScriptedProvider::new([harness::testing::reply().text(reply)]);
        let agent = Agent::builder(model).build().unwrap();
        agent.as_tool_answering::<Book>("look", "Looks for a book.")
    };
    let lead = |tool: Tool| {
        let call = reply().call("look", serde_json::json!({"task": "Which?"}));
        let model = ScriptedProvider::new([call, reply().text("There.")]);
        (model.clone(), Agent::builder(model).tools([tool]).build().unwrap())
    };
    let schema = look(FITS).output_schema().expect("that of the type").clone();
    assert_eq!(schema["properties"]["year"]["minimum"], 1400, "{schema}");
    let (model, agent) = lead(look(&format!("```json\n{FITS}\n```")));
    let said = agent.run("Which?").await.unwrap();
    assert_eq!(said.results().of::<Book>("look").unwrap(), [moby_dick()]);
    let requests = model.requests();
    let result = requests[1].results().next().unwrap();
    assert_eq!(result.content(), [harness::ToolContent::Json(serde_json::from_str(FITS).unwrap())]);
    let words = "I do not know.";
    let model = ScriptedProvider::answering(move |_| reply().text(words));
    let fails = Agent::builder(model).build().unwrap().as_tool_answering::<Book>("look", "Looks.");
    let (model, agent) = lead(fails);
    agent.run("Which?").await.unwrap();
    let requests = model.requests();
    let result = requests[1].results().next().unwrap();
    assert_eq!(result.outcome(), CallOutcome::Failed);
    let told = format!("{:?}", result.content());
    assert!(told.contains("not one JSON value") && told.contains(words), "{told}");
}
