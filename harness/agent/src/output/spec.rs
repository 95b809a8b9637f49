//! The form of the answer that a program wants: the schema, the reader of answers, and the verifier.

use std::{marker::PhantomData, sync::Arc};

use harness_schema::{
    DerivedAnswer, ReadFault, SchemaChecker, UnusableSchema, WRAPPED, never_read, schema_of_answer,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{answer_value::find_value, verifier::AnswerVerifier};
use harness_core::{
    journal::WantedAnswer,
    message::{Block, Message, Role, Transcript},
    provider::{Provider, in_words},
    unwind::caught,
};

/// How often the model may answer again, unless the program sets another number.
const TRIES: u32 = 2;

/// A function that finds the value in the texts of an answer, or lists everything that is wrong with the answer.
/// The value has the form of the requested object.
type ReadAnswer = Arc<dyn Fn(&[String]) -> Result<Value, Vec<String>> + Send + Sync>;

/// The form of the answer that a run wants. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct OutputSpec {
    /// The schema that the answer has to match.
    pub(crate) schema: Option<Value>,
    /// Checks the answer against the schema and reads it as the type.
    pub(crate) reads: Option<ReadAnswer>,
    /// Returns the reason if no value can ever be read as the type.
    pub(crate) unreadable: Option<fn() -> Option<String>>,
    pub(crate) tries: u32,
    /// The verifier for answers that match the schema, and how often the model may answer again after an
    /// objection.
    pub(crate) verifier: Option<(u32, AnswerVerifier)>,
}

impl Default for OutputSpec {
    fn default() -> Self {
        Self { schema: None, reads: None, unreadable: None, tries: TRIES, verifier: None }
    }
}

impl OutputSpec {
    /// The part of this specification that is recorded in the facts of the run.
    pub(crate) fn fact(&self) -> WantedAnswer {
        let mut wanted = WantedAnswer::default();
        wanted.schema.clone_from(&self.schema);
        wanted.tries = self.tries;
        wanted.verifications = self.verifier.as_ref().map(|(most, _)| *most);
        wanted
    }

    /// The message with the schema as additional text, unless the provider passes the schema to the model
    /// itself.
    pub(crate) fn with_schema_text(&self, message: &Message, provider: &dyn Provider) -> Message {
        match &self.schema {
            Some(schema) if !provider.tells_answer_schema() => message.with_text(in_words(schema)),
            _ => message.clone(),
        }
    }
}

/// Reads answers as values of a type.
pub(crate) struct AnswerReader<T> {
    schema: DerivedAnswer,
    checker: Result<SchemaChecker, UnusableSchema>,
    of: PhantomData<fn() -> T>,
}

impl<T: Answer> AnswerReader<T> {
    pub(crate) fn new() -> Self {
        let schema = schema_of_answer::<T>();
        let checker = SchemaChecker::of_answer(&schema.checked);
        Self { schema, checker, of: PhantomData }
    }

    /// Whether the model has to wrap the value in an object, because the type itself is not an object.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.schema.wrapped
    }

    /// The schema that the model gets.
    pub(crate) fn model_schema(&self) -> &Value {
        &self.schema.told
    }

    /// Returns the answer as JSON, without the wrapping object, or everything that is wrong with the answer.
    pub(crate) fn json(&self, words: &[String]) -> Result<Value, Vec<String>> {
        Ok(match self.found(words)? {
            Value::Object(mut map) if self.schema.wrapped => {
                map.shift_remove(WRAPPED).unwrap_or_default()
            }
            value => value,
        })
    }

    fn found(&self, words: &[String]) -> Result<Value, Vec<String>> {
        let checker = self.checker.as_ref().map_err(no_schema)?;
        find_value(words, |value| check_schema(checker, self.unwrap_value(value)))
    }

    /// Returns the answer as JSON, with any wrapping object. If the type cannot be read, returns everything
    /// that is wrong with the answer.
    pub(crate) fn read_value(&self, words: &[String]) -> Result<Value, Vec<String>> {
        self.read(words).and_then(|_| self.found(words))
    }

    /// Reads an answer, or lists everything that is wrong with it.
    pub(crate) fn read(&self, words: &[String]) -> Result<T, Vec<String>> {
        let (checker, value) = (self.checker.as_ref().map_err(no_schema)?, self.json(words)?);
        let mut again = value.clone();
        serde_json::from_value(value).or_else(|error| {
            // JSON Schema accepts 3.0 as an integer, and models write such numbers, but serde rejects them.
            let inside = self.schema.wrapped.then_some(WRAPPED);
            let changed = match inside {
                Some(name) => checker.integers_of(name, &mut again),
                None => checker.integers(&mut again),
            };
            let read = if changed { serde_json::from_value(again) } else { Err(error) };
            read.map_err(|error| vec![error.to_string()])
        })
    }
}

impl<T> AnswerReader<T> {
    /// Wraps the value in the requested object, unless the model has done so. The object is requested if the
    /// type itself is not an object.
    fn unwrap_value(&self, value: Value) -> Value {
        let is_inside =
            value.as_object().is_some_and(|map| map.len() == 1 && map.contains_key(WRAPPED));
        match self.schema.wrapped && !is_inside {
            true => Value::Object(Map::from_iter([(WRAPPED.to_owned(), value)])),
            false => value,
        }
    }
}

/// A type of answers: a model can give a value of the type as its answer. The type can be read from JSON and
/// has a schema.
///
/// The library implements this trait for every type that derives `serde::Deserialize` and
/// `schemars::JsonSchema` and contains no references: structs, enums (a choice between answers), and also
/// lists, numbers and the like. The model gets the doc comments of the type and of its members. The model also
/// gets limits such as `#[schemars(range(min = 1))]`, and answers are checked against these limits.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the answer of a run",
    label = "no answer can be read as this type",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it, and let it hold no references",
    note = "if the derive is there, look at `Cargo.toml`: it must be that of `schemars` 1 and `serde` 1, since the trait of another version is another trait"
)]
pub trait Answer: DeserializeOwned + JsonSchema + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + 'static> Answer for T {}

/// The blocks of a message without the text that [`OutputSpec::with_schema_text`] has added for this schema.
pub(crate) fn without_schema<'m>(message: &'m Message, schema: Option<&Value>) -> &'m [Block] {
    let blocks = message.blocks();
    match (blocks.split_last(), schema) {
        (Some((Block::Text(last), rest)), Some(schema)) if last.text() == in_words(schema) => rest,
        _ => blocks,
    }
}

/// Why no JSON value at all can be read as the type, or why no value can be read as one alternative of an enum.
/// `None` if answers can be read.
pub(crate) fn unreadable<T: Answer>() -> Option<String> {
    let schema = schema_of_answer::<T>();
    let check = |value| match serde_json::from_value::<T>(value) {
        Ok(_) => Ok(()),
        Err(error) => Err(ReadFault::from(error.to_string())),
    };
    // Reading the type may run code of the program. A panic on a made-up value proves nothing, so the panic is
    // ignored.
    let member = schema.wrapped.then_some(WRAPPED);
    let found = caught(|| never_read(member, &schema.checked, &check));
    found
        .ok()?
        .map(|problem| format!("the type `{}` of the answer {problem}", std::any::type_name::<T>()))
}

pub(crate) fn no_schema(unusable: &UnusableSchema) -> Vec<String> {
    vec![format!("the schema of the answer is not valid: {unusable}")]
}

/// The value of an answer, if it matches the schema.
pub(crate) fn check_schema(checker: &SchemaChecker, value: Value) -> Result<Value, Vec<String>> {
    checker.read(value).map_err(|(_, faults)| faults.iter().map(ToString::to_string).collect())
}

/// The texts of the model's last message: the whole text, and also the last part if there are several parts.
/// Empty if that message has no text.
pub(crate) fn last_words(transcript: &Transcript) -> Vec<String> {
    let last = transcript.messages().last();
    let Some(last) = last.filter(|last| last.role() == Role::Assistant) else { return Vec::new() };
    let texts = last.blocks().iter().filter_map(|block| match block {
        Block::Text(text) if !text.text().trim().is_empty() => Some(text.text()),
        _ => None,
    });
    let texts: Vec<&str> = texts.collect();
    match *texts {
        [] => Vec::new(),
        [one] => vec![one.to_owned()],
        [.., last] => vec![texts.concat(), last.to_owned()],
    }
}
