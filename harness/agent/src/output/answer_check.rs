//! Checks an answer: whether it matches its schema and can be read as the wanted type. If the model
//! has another attempt, it is told what is wrong.

use std::{marker::PhantomData, pin::pin, sync::Arc};

use harness_schema::{
    DerivedAnswer, ReadFault, SchemaChecker, UnusableSchema, WRAPPED, never_read, never_read_in,
    schema_of_answer,
};
use serde_json::{Map, Value};

use super::{answer_value::find_value, verifier::AnswerVerifier};
use crate::{
    Answer, Chat, Event,
    model_notices::{FAULTS_TOLD, not_accepted},
    run::{driver::RunDriver, stop_signals::RunSignal},
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{AnswerCheck, Fact, WantedAnswer},
    message::{Block, CallOutcome, Message, Role, ToolContent, Transcript},
    provider::{OutputMode, Provider, in_words},
    unwind::{Panicked, Shielded, caught},
};

/// How often the model may answer again, unless the program sets it.
const TRIES: u32 = 2;

/// A function that finds the value of an answer, in the object that was asked for, or lists everything
/// that is wrong with it.
type ReadAnswer = Arc<dyn Fn(&[String]) -> Result<Value, Vec<String>> + Send + Sync>;

/// What a run wants of its answer. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct OutputSpec {
    /// The schema that the answer has to match.
    pub(crate) schema: Option<Value>,
    /// Checks the answer against the schema and reads it as the type.
    pub(crate) reads: Option<ReadAnswer>,
    /// Why no value can ever be read as the type, if that is so.
    pub(crate) unreadable: Option<fn() -> Option<String>>,
    pub(crate) tries: u32,
    /// The verifier of answers that match, and how often the model may answer again after it.
    pub(crate) verifier: Option<(u32, AnswerVerifier)>,
}

impl Default for OutputSpec {
    fn default() -> Self {
        Self { schema: None, reads: None, unreadable: None, tries: TRIES, verifier: None }
    }
}

impl OutputSpec {
    /// The part that is recorded.
    fn fact(&self) -> WantedAnswer {
        let mut wanted = WantedAnswer::default();
        wanted.schema.clone_from(&self.schema);
        wanted.tries = self.tries;
        wanted.verifications = self.verifier.as_ref().map(|(most, _)| *most);
        wanted
    }

    /// The message with the schema as text, if the provider does not pass the schema to the model
    /// itself.
    pub(crate) fn with_schema_text(&self, message: &Message, provider: &dyn Provider) -> Message {
        match &self.schema {
            Some(schema) if !provider.tells_answer_schema() => message.with_text(in_words(schema)),
            _ => message.clone(),
        }
    }
}

/// The blocks of a message without the text that [`OutputSpec::with_schema_text`] has added for this schema.
pub(crate) fn without_schema<'m>(message: &'m Message, schema: Option<&Value>) -> &'m [Block] {
    let blocks = message.blocks();
    match (blocks.split_last(), schema) {
        (Some((Block::Text(last), rest)), Some(schema)) if last.text() == in_words(schema) => rest,
        _ => blocks,
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

    /// Whether the value is a member of the requested object.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.schema.wrapped
    }

    /// The schema that the model gets.
    pub(crate) fn model_schema(&self) -> &Value {
        &self.schema.told
    }

    /// The answer as JSON, without the object that it may be wrapped in, or everything that is
    /// wrong with it.
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

    /// The answer as JSON, in the object that it may be wrapped in, if it can be read as the type, or
    /// everything that is wrong with it.
    pub(crate) fn read_value(&self, words: &[String]) -> Result<Value, Vec<String>> {
        self.read(words).and_then(|_| self.found(words))
    }

    /// Reads an answer, or lists everything that is wrong with it.
    pub(crate) fn read(&self, words: &[String]) -> Result<T, Vec<String>> {
        let (checker, value) = (self.checker.as_ref().map_err(no_schema)?, self.json(words)?);
        let mut again = value.clone();
        serde_json::from_value(value).or_else(|error| {
            // JSON Schema accepts 3.0 as an integer, and models write it, but serde does not accept
            // it.
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

/// Why no answer, or no answer with a certain choice, can be read as the type.
pub(crate) fn unreadable<T: Answer>() -> Option<String> {
    let schema = schema_of_answer::<T>();
    let check = |value| match serde_json::from_value::<T>(value) {
        Ok(_) => Ok(()),
        Err(error) => Err(ReadFault::from(error.to_string())),
    };
    // Reading the type may run code of the program. If that panics on a made-up value, it proves
    // nothing.
    let found = caught(|| match schema.wrapped {
        true => never_read(WRAPPED, &schema.checked, &check),
        false => never_read_in(&schema.checked, &check),
    });
    found
        .ok()?
        .map(|problem| format!("the type `{}` of the answer {problem}", std::any::type_name::<T>()))
}

impl<T> AnswerReader<T> {
    /// The value inside of the object that is requested if the type itself is not an object. A
    /// model may leave the object out.
    fn unwrap_value(&self, value: Value) -> Value {
        let is_inside =
            value.as_object().is_some_and(|map| map.len() == 1 && map.contains_key(WRAPPED));
        match self.schema.wrapped && !is_inside {
            true => Value::Object(Map::from_iter([(WRAPPED.to_owned(), value)])),
            false => value,
        }
    }
}

fn no_schema(unusable: &UnusableSchema) -> Vec<String> {
    vec![format!("the schema of the answer is not valid: {unusable}")]
}

/// The value of an answer, if it matches the schema.
fn check_schema(checker: &SchemaChecker, value: Value) -> Result<Value, Vec<String>> {
    checker.read(value).map_err(|(_, faults)| faults.iter().map(ToString::to_string).collect())
}

/// The texts of the model's last message: all of it, and the last part alone if there are several
/// parts. Empty if that message has no text.
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

/// The schema without its descriptions, which may change while a run waits to be resumed.
fn without_words(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut kept = Map::new();
            for (name, value) in map {
                let value = match (name.as_str(), value) {
                    ("description" | "examples" | "title" | "$comment" | "deprecated", _) => {
                        continue;
                    }
                    // These are names of members, not keywords of the schema.
                    (
                        "properties" | "patternProperties" | "$defs" | "dependentSchemas",
                        Value::Object(all),
                    ) => all.iter().map(|(name, it)| (name.clone(), without_words(it))).collect(),
                    ("enum" | "const" | "default" | "required", value) => value.clone(),
                    (_, value) => without_words(value),
                };
                kept.insert(name.clone(), value);
            }
            choices(&mut kept);
            Value::Object(kept)
        }
        Value::Array(items) => items.iter().map(without_words).collect(),
        other => other.clone(),
    }
}

/// Puts the values that a schema allows into one list in a fixed order. In the schema, a value with
/// a description is a separate alternative after those without one.
fn choices(schema: &mut Map<String, Value>) {
    for word in ["oneOf", "anyOf"] {
        let Some(Value::Array(all)) = schema.shift_remove(word) else { continue };
        let (mut values, mut others) = (Vec::new(), Vec::new());
        for one in all {
            match one.as_object().filter(|one| one.len() == 1).and_then(|one| one.get("enum")) {
                Some(Value::Array(some)) => values.extend(some.iter().cloned()),
                _ => others.push(one),
            }
        }
        if others.is_empty() && !schema.contains_key("enum") {
            schema.insert("enum".to_owned(), Value::Array(values));
            continue;
        }
        if !values.is_empty() {
            others.push(Value::Object(Map::from_iter([("enum".to_owned(), in_order(values))])));
        }
        schema.insert(word.to_owned(), Value::Array(others));
    }
    if schema.len() == 1 && schema.get("type").is_some_and(|kind| kind == "null") {
        schema.insert("const".to_owned(), Value::Null);
    }
    if let Some(only) = schema.shift_remove("const") {
        schema.insert("enum".to_owned(), Value::Array(vec![only]));
    }
    if let Some(Value::Array(values)) = schema.shift_remove("enum") {
        schema.insert("enum".to_owned(), in_order(values));
        schema.shift_remove("type");
    }
}

fn in_order(mut values: Vec<Value>) -> Value {
    values.sort_by_cached_key(Value::to_string);
    Value::Array(values)
}

impl Chat {
    fn output_spec(&self) -> Option<&OutputSpec> {
        self.options.as_ref()?.output_spec.as_ref()
    }

    /// The fact about what the run that begins wants of its answer.
    pub(crate) fn wanted_fact(&self) -> Option<Fact> {
        self.output_spec()
            .map(|output_spec| Fact::AnswerWanted { answer: Box::new(output_spec.fact()) })
    }

    /// Fails if no answer can ever be read, or a verifying tool cannot be used.
    pub(crate) fn check_answer(&self) -> Result<(), Error> {
        let unreadable = self.output_spec().and_then(|output_spec| output_spec.unreadable);
        if let Some(why) = unreadable.and_then(|why| why()) {
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        match self.output_spec().and_then(|output_spec| output_spec.verifier.as_ref()) {
            Some((_, AnswerVerifier::Tools(tools))) => {
                tools.iter().try_for_each(|tool| self.can_verify(tool))
            }
            _ => Ok(()),
        }
    }

    /// Fails if the resumed run asks for another output schema or verifier than when it began.
    pub(crate) fn check_output_spec(&self) -> Result<(), Error> {
        let other = |what: &str| Err(Error::new(ErrorKind::Configuration, what));
        let wanted = self.machine.wanted();
        let verified = wanted.is_some_and(|wanted| wanted.verifications.is_some());
        let verifies = self.output_spec().is_some_and(|output_spec| output_spec.verifier.is_some());
        if verified && !verifies {
            return other(
                "the run was begun with a function that checks its answer: resume it with `verify`",
            );
        }
        if verifies && !verified {
            return other(
                "the run was begun without a function that checks its answer: resume it without `verify`",
            );
        }
        let Some(schema) = self.output_spec().and_then(|output_spec| output_spec.schema.as_ref())
        else {
            return Ok(());
        };
        match wanted.and_then(|wanted| wanted.schema.as_ref()) {
            None => other(
                "the run was begun without a type for its answer: resume it without one, and ask for the \
                 value with a new message",
            ),
            Some(wanted) if without_words(schema) == without_words(wanted) => Ok(()),
            Some(_) => other(
                "the run was begun with another schema for its answer: resume it with the same type, or \
                 begin a new run",
            ),
        }
    }
}

impl RunDriver<'_> {
    /// Checks the model's answer. It is accepted, or the model is told what is wrong with it, or the run
    /// is over because no attempt is left.
    pub(crate) async fn check_answer(&mut self) -> Result<(), Error> {
        // If the answer was not kept, its calls may still have started early.
        self.settle()?;
        let machine = &self.chat.machine;
        let words = last_words(machine.transcript());
        let read = match (self.chat.output_spec(), machine.wanted()) {
            // Reading the type may run code of the program.
            (Some(OutputSpec { reads: Some(reads), .. }), _) => caught(|| reads(&words))
                .map_err(|panicked| fault("the type of the answer", &panicked))?,
            (_, Some(WantedAnswer { schema: Some(schema), .. })) => {
                let checker = SchemaChecker::of_answer(schema);
                let read = checker.as_ref().map_err(no_schema);
                read.and_then(|checker| find_value(&words, |value| check_schema(checker, value)))
            }
            _ => Ok(words.first().cloned().unwrap_or_default().into()),
        };
        let value = match read {
            Ok(value) => value,
            Err(faults) => return self.reject(AnswerCheck::Schema, faults),
        };
        let verifier = self.chat.output_spec().and_then(|output_spec| output_spec.verifier.clone());
        let Some((_, verifier)) = verifier else {
            return self.chat.record(&Fact::AnswerAccepted {});
        };
        // The facts are written first: the function may do something that cannot be undone.
        if !self.write().await? {
            return Ok(());
        }
        let fault = |panicked| fault("the function that checks the answer", &panicked);
        let read = verifier.sources();
        let verdict = match verifier {
            AnswerVerifier::Function(function) => caught(|| function(words)).map_err(fault)?,
            AnswerVerifier::Tools(tools) => self.by_tools(&tools, value),
        };
        let mut verdict = pin!(Shielded::new(verdict));
        let verdict = loop {
            let told = tokio::select! {
                biased;
                signal = self.stop_signals.next_signal() => signal,
                verdict = &mut verdict => break verdict.map_err(fault)?,
            };
            match told {
                RunSignal::Stop(cause) => return self.record_interrupt(cause),
                RunSignal::Warn(warning) => self.report_warning(&warning),
            }
        };
        match verdict {
            Ok(()) => self.chat.record(&Fact::AnswerAccepted {}),
            Err(why) => {
                let why = [ToolContent::Text(why)];
                let tools = self.chat.agent.tools();
                let why = tools.readable_now("verify", CallOutcome::Failed, why.into());
                self.chat.record(&Fact::SourcesRead { call: None, sources: read })?;
                self.reject(AnswerCheck::Verifier, vec![why.as_text().into_owned()])
            }
        }
    }

    fn reject(&mut self, by: AnswerCheck, mut faults: Vec<String>) -> Result<(), Error> {
        if by == AnswerCheck::Schema {
            // Code that reads a type can return any text, of any length.
            let (tools, of) = (self.chat.agent.tools(), faults.len().min(FAULTS_TOLD));
            faults.iter_mut().for_each(|fault| *fault = tools.readable_part(fault, of));
        }
        let machine = &self.chat.machine;
        let message = (machine.tries_left(by) > 0).then(|| {
            let mut words = not_accepted(&faults);
            // A server may have ignored the schema. Then the model has not received it.
            let is_told = matches!(self.answer_way, None | Some(OutputMode::Words));
            let schema = machine.wanted().and_then(|wanted| wanted.schema.as_ref());
            if let (true, false, Some(schema)) = (machine.faults().is_empty(), is_told, schema) {
                words = format!("{words}\n\n{}", in_words(schema));
            }
            Message::user(words)
        });
        self.emit(Event::AnswerRejected { by, faults: &faults, message: message.as_ref() });
        self.chat.record(&Fact::AnswerRejected { by, faults, message })
    }
}

fn fault(what: &str, panicked: &Panicked) -> Error {
    Error::new(ErrorKind::Panicked, format!("{what} {panicked}"))
}
