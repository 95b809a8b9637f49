//! Typed answers: how a run requests one, and the value that the program gets.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
};

use harness_schema::WRAPPED;
use serde_json::Value;

use super::{
    answer_view::AnswerView,
    spec::{Answer, AnswerReader, OutputSpec, last_words},
    verifier::{AnswerVerifier, VerdictFuture, objection_of, verifier_of_text},
};
use crate::{Machine, Outcome, Reply, Run, Stopped};
use harness_core::{
    error::{Error, ErrorKind},
    message::Transcript,
    tool::ToolList,
};

/// A run whose answer is a value of type `T`. Await this run to get the answer. See [`Run::answer`].
#[must_use = "nothing is sent before it is awaited"]
pub struct Answering<'a, T> {
    run: Run<'a>,
    pub(crate) output_spec: OutputSpec,
    /// Reads the answer. A function pointer is stored so that this struct does not require `T: Answer`.
    /// Otherwise rustc would report the same error twice if `T` is not an `Answer`.
    reads: fn(Reply) -> Result<Answered<T>, Stopped>,
}

impl<T> fmt::Debug for Answering<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answering").field(&self.run).finish()
    }
}

/// A typed answer, and the reply from which it was read.
#[derive(Clone, Debug)]
pub struct Answered<T> {
    value: T,
    reply: Reply,
}

impl<T> Answered<T> {
    /// The value of the answer.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The value of the answer, without the reply.
    pub fn into_value(self) -> T {
        self.value
    }

    /// The reply: its text, its cost, and the conversation.
    pub fn reply(&self) -> &Reply {
        &self.reply
    }
}

impl<T: Answer> Answered<T> {
    /// The value as JSON.
    pub(crate) fn json(&self) -> Result<Value, Vec<String>> {
        AnswerReader::<T>::new().json(&last_words(self.reply.transcript()))
    }
}

impl<'a> Run<'a> {
    /// Requests the answer as a value of type `T`. The model gets the JSON Schema of `T`, with doc comments
    /// as descriptions. The answer is checked in the same way as the arguments of a tool. If the answer does
    /// not match, the model gets a list of faults and answers again, at most [twice](Answering::tries). The
    /// limits of the run still apply. Each rejected answer is a fact
    /// ([`Fact::AnswerRejected`](harness_core::journal::Fact::AnswerRejected)) and an
    /// [`Event::AnswerRejected`](crate::Event::AnswerRejected).
    ///
    /// The schema is a fact, too. A [resumed](crate::Chat::resume) run requests the same type, even without
    /// this method. A run that is resumed with another type fails at once. Only the descriptions in the
    /// schema may differ.
    ///
    /// Fails with [`Stopped`], which keeps the text. The outcome is [`Outcome::Unfit`] if no attempt was
    /// accepted, [`Outcome::Refused`] if the model refused, and [`Outcome::Truncated`] if the answer was cut
    /// off. Any other outcome of a run is possible, too.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// /// A book.
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Book {
    ///     /// Its title, without the author.
    ///     title: String,
    ///     /// The year in which it was published.
    ///     year: u16,
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([
    ///     reply().text(r#"{"title": "Moby-Dick", "year": "1851"}"#),
    ///     reply().text(r#"{"title": "Moby-Dick", "year": 1851}"#),
    /// ]);
    /// let agent = Agent::builder(model).build()?;
    /// let book: Book = agent.run("Who is Ishmael?").answer::<Book>().await?.into_value();
    /// assert_eq!((book.title.as_str(), book.year), ("Moby-Dick", 1851));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn answer<T: Answer>(self) -> Answering<'a, T> {
        Answering { run: self, output_spec: OutputSpec::of::<T>(), reads: read }
    }

    /// Adds a function of the program that checks the final answer, for example by running the tests. If the
    /// function objects, the model gets the objection, may use its tools, and answers again. This happens at
    /// most `most` times. After that the run ends as [`Outcome::Unfit`]. The function gets the text of the
    /// answer. It runs within the time limit of the run, and its future is dropped when the run is stopped.
    ///
    /// Each verdict is a fact. A [resumed](crate::Chat::resume) run fails at once if the program does not set
    /// the function again. An answer without a recorded verdict is checked again, so the function may run
    /// twice for the same answer.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    ///
    /// async fn tests() -> Result<(), String> {
    ///     Err("2 of 30 tests fail: `sum` and `mean`".to_owned())
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let model = ScriptedProvider::new([reply().text("Done."), reply().text("Done now.")]);
    /// # let agent = Agent::builder(model).build()?;
    /// let stopped = agent.run("Mend the build.").verify(1, |_| tests()).await.unwrap_err();
    /// assert_eq!(stopped.outcome(), harness::Outcome::Unfit);
    /// assert_eq!(stopped.faults(), ["2 of 30 tests fail: `sum` and `mean`"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify<F, V, O, E>(self, most: u32, verify: F) -> Self
    where
        F: Fn(String) -> V + Send + Sync + 'static,
        V: Future<Output = Result<O, E>> + Send + 'static,
        E: fmt::Display,
    {
        let verifier = Some((most, verifier_of_text(verify)));
        self.with_output_spec(OutputSpec { verifier, ..OutputSpec::default() })
    }
}

impl<T> Answering<'_, T> {
    /// Sets how often the model may answer again if its answer does not match the type. The default is 2. The
    /// limits of the run still apply.
    pub fn tries(mut self, tries: u32) -> Self {
        self.output_spec.tries = tries;
        self
    }

    /// Adds tools of the program that check each answer that matches the type. See [`Run::verify_by`].
    pub fn verify_by(mut self, most: u32, tools: impl ToolList) -> Self {
        self.output_spec.verifier = Some((most, AnswerVerifier::tools(tools)));
        self
    }
}

impl<'a, T> Answering<'a, T> {
    /// Returns the run. Its reply has the answer as text. Use the run for methods that take a run, such as
    /// [`Run::events`] and [`ChatRunBuilder::with`](crate::ChatRunBuilder::with). [`Reply::answered`] reads
    /// the value from the reply.
    ///
    /// ```
    /// use harness::{
    ///     Agent,
    ///     agent::Chats,
    ///     journal::MemoryJournal,
    ///     testing::{ScriptedProvider, reply},
    /// };
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let model = ScriptedProvider::new([reply().text("seven"), reply().text(r#"{"answer": 7}"#)]);
    /// let agent = Agent::builder(model).build()?;
    /// let chats = Chats::new(&agent, &MemoryJournal::new());
    /// let asked = chats.send("chat-17", "How many?").with(|run| run.answer::<u32>().into_run());
    /// let reply = asked.await?.finish().await?;
    /// assert_eq!(reply.answered::<u32>()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_run(self) -> Run<'a> {
        self.run.with_output_spec(self.output_spec)
    }
}

impl Reply {
    /// Reads the answer as a value of the type `T`.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`] if the answer is not a value of the type `T`. With
    /// [`Run::answer`], the model gets the schema, and answers again if its answer does not match.
    pub fn answered<T: Answer>(&self) -> Result<T, Error> {
        value_in(self.transcript())
    }
}

impl<'a, T: Answer> Answering<'a, T> {
    /// Calls `show` each time that more of the answer has arrived, with its complete parts as a JSON value.
    /// Within one attempt, a part that was shown does not change: see [`AnswerView`]. A new attempt starts
    /// with an empty value.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Plan {
    ///     steps: Vec<String>,
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let text = r#"{"steps": ["Look", "Leap"]}"#;
    /// # let agent = Agent::builder(ScriptedProvider::new([reply().text(text)])).build()?;
    /// let mut shown = 0;
    /// let plan = agent.run("Plan it.").answer::<Plan>().on_view(|plan| {
    ///     shown = plan["steps"].as_array().map_or(0, Vec::len);
    /// });
    /// assert_eq!(plan.await?.value().steps.len(), 2);
    /// assert_eq!(shown, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_view<'b>(self, mut show: impl FnMut(&Value) + Send + 'b) -> Answering<'b, T>
    where
        'a: 'b,
    {
        let Self { run, output_spec, reads } = self;
        let (mut view, wrapped) = (AnswerView::new(), AnswerReader::<T>::new().is_wrapped());
        let run = run.with_first_watcher(move |event| {
            if !view.read(event) {
                return;
            }
            let value = view.value();
            let value = if wrapped { value.and_then(|value| value.get(WRAPPED)) } else { value };
            if let Some(value) = value {
                show(value);
            }
        });
        Answering { run, output_spec, reads }
    }

    /// Adds a function of the program that checks each answer that matches the type. If the function objects,
    /// the model gets the objection and answers again, at most `most` times. After that the run ends as
    /// [`Outcome::Unfit`]. See [`Run::verify`].
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// /// A query of the shop's database.
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Query {
    ///     sql: String,
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let model = ScriptedProvider::new([
    /// #     reply().text(r#"{"sql": "SELEC 1"}"#),
    /// #     reply().text(r#"{"sql": "SELECT 1"}"#),
    /// # ]);
    /// # let agent = Agent::builder(model).build()?;
    /// let query = agent.run("How many orders?").answer::<Query>().verify(3, |query| async move {
    ///     match query.sql.starts_with("SELECT ") {
    ///         true => Ok(()),
    ///         false => Err("syntax error at the first word"),
    ///     }
    /// });
    /// assert_eq!(query.await?.value().sql, "SELECT 1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify<F, V, O, E>(mut self, most: u32, verify: F) -> Self
    where
        F: Fn(T) -> V + Send + Sync + 'static,
        V: Future<Output = Result<O, E>> + Send + 'static,
        E: fmt::Display,
    {
        let (reader, verify) = (AnswerReader::<T>::new(), Arc::new(verify));
        let verifier = move |words: Vec<String>| -> VerdictFuture {
            let (value, verify) = (reader.read(&words), Arc::clone(&verify));
            Box::pin(async move {
                let value = value.map_err(|faults| faults.join("; "))?;
                objection_of(verify(value).await)
            })
        };
        self.output_spec.verifier = Some((most, AnswerVerifier::Function(Arc::new(verifier))));
        self
    }
}

impl<'a, T: 'a> IntoFuture for Answering<'a, T> {
    type Output = Result<Answered<T>, Stopped>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let reads = self.reads;
        let run = self.into_run().into_future();
        Box::pin(async move { reads(run.await?) })
    }
}

fn read<T: Answer>(reply: Reply) -> Result<Answered<T>, Stopped> {
    match AnswerReader::<T>::new().read(&last_words(reply.transcript())) {
        Ok(value) => Ok(Answered { value, reply }),
        // The answer matched the schema of the run, so the run may have begun with another type of the same
        // schema.
        Err(faults) => Err(Stopped::unfit(reply, faults)),
    }
}

impl Machine {
    /// The last answer as a value, for a program that has only the facts: see
    /// [`Chat::answered`](crate::Chat::answered).
    ///
    /// # Errors
    /// Fails as [`Chat::answered`](crate::Chat::answered) does.
    pub fn answered<T: Answer>(&self) -> Result<T, Error> {
        answered(self)
    }
}

pub(crate) fn answered<T: Answer>(machine: &Machine) -> Result<T, Error> {
    let wrong = |what: String| Error::new(ErrorKind::Transcript, what);
    if machine.next() != crate::Action::Finish(Outcome::Answered) {
        return Err(wrong(
            "the last run has not ended with an answer: `resume` goes on".to_owned(),
        ));
    }
    value_in(machine.transcript())
}

fn value_in<T: Answer>(transcript: &Transcript) -> Result<T, Error> {
    let wrong = |what: String| Error::new(ErrorKind::Transcript, what);
    let read = AnswerReader::<T>::new().read(&last_words(transcript));
    read.map_err(|faults| {
        wrong(format!("the last answer is not a value of the wanted type: {}", faults.join("; ")))
    })
}

impl OutputSpec {
    /// Requests a value of the type `T`.
    pub(crate) fn of<T: Answer>() -> Self {
        let reader = AnswerReader::<T>::new();
        let schema = reader.model_schema().clone();
        let reads = move |words: &[String]| reader.read_value(words);
        Self {
            schema: Some(schema),
            reads: Some(Arc::new(reads)),
            unreadable: Some(super::spec::unreadable::<T>),
            ..Self::default()
        }
    }
}

impl Run<'_> {
    /// Adds tools of the program that check the final answer. [`verify`](Self::verify) describes what happens
    /// after a verdict.
    ///
    /// The answer is accepted if each of the tools succeeds. Otherwise the model gets the errors of the
    /// tools. If the answer is an object, its members are the arguments of each tool. Any other answer is the
    /// argument `answer`. A tool does not get members for which it has no parameter. The tools have the state
    /// and the limits of the agent's tools, but the model need not have them. The program makes these calls,
    /// so they need no permission. The verdict is a fact, the calls are not. If such a tool runs an agent,
    /// that agent has its own limits, and the conversation does not count its spending.
    ///
    /// # Errors
    /// The run fails before its first request if one of the tools must not be repeated. If the process ends
    /// before the verdict is recorded, the answer is checked again. So each tool has to declare `"none"` or
    /// `"read"`, or be `idempotent`. The run also fails if a tool is an agent, is answered by the program, or
    /// takes a [`State<T>`](harness_core::tool::State) that was not set.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}, tool, tools};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Bill {
    ///     items: Vec<u32>,
    ///     sum: u32,
    /// }
    ///
    /// /// Checks the sum of a bill.
    /// #[tool(side_effects = "none")]
    /// fn adds_up(
    ///     /// The prices
    ///     items: Vec<u32>,
    ///     /// The sum
    ///     sum: u32,
    /// ) -> Result<(), String> {
    ///     match items.iter().sum::<u32>() {
    ///         right if right == sum => Ok(()),
    ///         right => Err(format!("the sum of the items is {right}")),
    ///     }
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let model = ScriptedProvider::new([
    /// #     reply().text(r#"{"items": [3, 4], "sum": 8}"#),
    /// #     reply().text(r#"{"items": [3, 4], "sum": 7}"#),
    /// # ]);
    /// # let agent = Agent::builder(model).build()?;
    /// let bill = agent.run("Read the bill.").answer::<Bill>().verify_by(2, tools![adds_up]).await?;
    /// assert_eq!(bill.value().sum, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify_by(self, most: u32, tools: impl ToolList) -> Self {
        let verifier = Some((most, AnswerVerifier::tools(tools)));
        self.with_output_spec(OutputSpec { verifier, ..OutputSpec::default() })
    }
}
