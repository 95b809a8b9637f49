//! Answers of a type: the schema goes with the user's message, the last words of the model are checked
//! against it, and the model is told all that is wrong with them.

use std::{
    error::Error as StdError,
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Action, Event, Outcome, Reply, Sending, Stopped, outcome::Remains, run::Run};
use crate::{
    error::Error,
    journal::Entry,
    message::{Message, is_strict},
    schema::{Checker, Unusable, schema_of_answer},
};

/// How often the model may answer anew.
const TRIES: u32 = 2;

/// So many faults of one answer are told to the model.
const FAULTS_TOLD: usize = 20;

/// A run whose answer is a value of type `T`: await it. See [`Sending::answer`].
#[must_use = "nothing is sent before it is awaited"]
pub struct Answering<'a, T> {
    sending: Sending<'a>,
    of: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Answering<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answering").field(&self.sending).finish()
    }
}

/// An answer of a type, and the reply that it was read from.
#[derive(Clone, Debug)]
pub struct Answered<T> {
    value: T,
    reply: Reply,
}

impl<T> Answered<T> {
    /// The answer.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The answer by itself.
    pub fn into_value(self) -> T {
        self.value
    }

    /// The reply: its text, what it has cost, and the conversation.
    pub fn reply(&self) -> &Reply {
        &self.reply
    }
}

/// Why a run has given no value of the type.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoAnswer {
    /// The run was stopped: refused, cut off at the limit of tokens, cancelled, by a budget or a failure.
    /// The error keeps the text so far.
    Stopped(Stopped),
    /// The model has answered, and also its last try does not fit the schema.
    Unfit {
        /// The last try, with its text.
        reply: Box<Reply>,
        /// What is wrong with it, each with its place as a JSON pointer.
        faults: Vec<String>,
    },
}

impl NoAnswer {
    /// The last words of the model in this run.
    pub fn text(&self) -> &str {
        match self {
            Self::Stopped(stopped) => stopped.text(),
            Self::Unfit { reply, .. } => reply.text(),
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(stopped) => stopped.fmt(f),
            Self::Unfit { faults, .. } => {
                write!(f, "the answer does not fit its schema: {}", faults.join("; "))
            }
        }
    }
}

impl StdError for NoAnswer {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Stopped(stopped) => stopped.source(),
            Self::Unfit { .. } => None,
        }
    }
}

/// Says all that is wrong with an answer.
type Faults = Box<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// What an answer is checked by, and how often the model may still try.
pub(super) struct Wanted {
    faults: Faults,
    tries: u32,
}

impl<'a> Sending<'a> {
    /// Wants the answer as a value of type `T`. The model gets the JSON Schema of `T` with the user's message,
    /// doc comments as descriptions. What it answers is checked as the arguments of a tool are; if it does not
    /// fit, the model is told each fault with its place and answers anew, at most twice, within the limits of
    /// the run. Such a message is a fact of the conversation ([`Entry::Steered`]) and an
    /// [`Event::Steered`].
    ///
    /// The schema is not written down: a run that [goes on](super::Chat::resume) has to bring the type anew, and
    /// its tries are counted from nothing. Actions of [`Steps`](super::Steps) know no types.
    ///
    /// # Errors
    /// [`NoAnswer`], which keeps the text: the run was stopped, or no try fits.
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
    pub fn answer<T: DeserializeOwned + JsonSchema>(self) -> Answering<'a, T> {
        let schema = schema_of_answer::<T>();
        let checker = Checker::new(&schema.checked);
        let faults = move |text: &str| read::<T>(&checker, text).err().unwrap_or_default();
        let words = format!(
            "Answer with one JSON value and nothing else. It has to fit this JSON Schema:\n{}",
            schema.told
        );
        let wanted = Wanted { faults: Box::new(faults), tries: TRIES };
        Answering { sending: self.wants(wanted, words), of: PhantomData }
    }
}

impl<'a, T: DeserializeOwned + JsonSchema + 'a> IntoFuture for Answering<'a, T> {
    type Output = Result<Answered<T>, NoAnswer>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let run = self.sending.into_future();
        Box::pin(async move {
            let reply = run.await.map_err(NoAnswer::Stopped)?;
            let checker = Checker::new(&schema_of_answer::<T>().checked);
            match read(&checker, reply.text()) {
                Ok(value) => Ok(Answered { value, reply }),
                Err(faults) => Err(NoAnswer::Unfit { reply: Box::new(reply), faults }),
            }
        })
    }
}

/// Reads an answer, or says all that is wrong with it.
fn read<T: DeserializeOwned>(
    checker: &Result<Checker, Unusable>,
    text: &str,
) -> Result<T, Vec<String>> {
    let checker = match checker {
        Ok(checker) => checker,
        Err(unusable) => {
            return Err(vec![format!("the schema of the type is no schema: {unusable}")]);
        }
    };
    let json = without_fence(text);
    if json.is_empty() {
        return Err(vec!["the answer is empty".to_owned()]);
    }
    let value: Value = match serde_json::from_str(json) {
        Ok(value) if is_strict(json) => value,
        Ok(_) => {
            let why = "the answer is JSON that not every reader takes: a member twice, a number out of \
                       range, or nested too deeply";
            return Err(vec![why.to_owned()]);
        }
        Err(error) => return Err(vec![format!("the answer is not one JSON value: {error}")]),
    };
    let faults: Vec<String> = checker.faults(&value).iter().map(ToString::to_string).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    serde_json::from_value(value).map_err(|error| vec![error.to_string()])
}

/// The answer without the fence of a code block, if it is nothing but one.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let Some((language, inside)) = inside.and_then(|inside| inside.split_once('\n')) else {
        return text;
    };
    if ["", "json"].contains(&language.trim()) { inside.trim() } else { text }
}

impl Run<'_> {
    /// Tells the model what is wrong with the answer it has just given, if a type is wanted that it does not
    /// fit and a try is left.
    pub(super) fn check_answer(&mut self) -> Result<(), Error> {
        let answered = self.chat.machine.next() == Action::Finish(Outcome::Answered);
        if !answered || self.enough() || self.halt.is_cancelled() {
            return Ok(());
        }
        let Some(wanted) = self.chat.own.as_ref().and_then(|own| own.wanted.as_ref()) else {
            return Ok(());
        };
        if wanted.tries == 0 {
            return Ok(());
        }
        let machine = &self.chat.machine;
        let last = Remains::of(machine.transcript().clone(), machine.begun_at());
        let faults = (wanted.faults)(last.text());
        if faults.is_empty() {
            return Ok(());
        }
        let mut words = "Your answer does not fit the JSON Schema:".to_owned();
        for fault in faults.iter().take(FAULTS_TOLD) {
            words.push_str("\n- ");
            words.push_str(fault);
        }
        if let Some(more @ 1..) = faults.len().checked_sub(FAULTS_TOLD) {
            words.push_str(&format!("\n- and {more} more"));
        }
        words.push_str("\nAnswer again with the whole JSON value and nothing else.");
        if let Some(wanted) = self.chat.own.as_mut().and_then(|own| own.wanted.as_mut()) {
            wanted.tries = wanted.tries.saturating_sub(1);
        }
        self.settle()?;
        let message = Message::user(words);
        self.emit(Event::Steered { message: &message });
        self.chat.record(&Entry::Steered { message })
    }
}
