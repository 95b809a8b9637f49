//! The loop guard: detects that the model gets the same result, or makes the same call, again and again.

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;

use crate::{
    message::{CallOutcome, ToolCall, ToolContent, ToolResult, are_none, sorted_members},
    tool::{COPIED, NOT_KEPT, READ_RESULT},
};

/// The note that is added to a repeated result, one turn before the run is stopped.
const NOTE: &str = "Note: you have had this very result before. Repeating the call will not change \
                    it, and doing so once more ends the run. Try something else, or answer with \
                    what you know.";

/// The note that is added to the result of a call that the model has made in many turns with the same arguments.
const SAME_CALL: &str = "Note: you have made this very call, with the same arguments, many times in this run, and no \
                         other new call in between. The run ends if you go on like this. Try something else, or answer with what you know.";

/// Counts in how many turns the model got the same result, and made the same call.
#[derive(Clone, Debug, Default)]
pub(super) struct RepeatCounter {
    turn: u32,
    /// The hash of each call's last result, by the hash of the call.
    results: HashMap<u64, u64>,
    heard: HashMap<u64, ResultTurns>,
    /// The calls since the last new call, whatever their results.
    made: HashMap<u64, ResultTurns>,
}

#[derive(Clone, Debug)]
pub(super) struct ResultTurns {
    pub(super) tool: String,
    pub(super) turns: u32,
    last: u32,
}

impl ResultTurns {
    fn new(tool: &str) -> Self {
        Self { tool: tool.to_owned(), turns: 0, last: 0 }
    }

    /// Counts the turn once: the model made all calls of a turn before it saw their results.
    fn count(&mut self, turn: u32) {
        if self.last != turn {
            self.turns = self.turns.saturating_add(1);
            self.last = turn;
        }
    }
}

/// A call, with the hash by which it is counted.
pub(super) struct HashedCall {
    call: ToolCall,
    hash: u64,
}

impl HashedCall {
    pub(super) fn of(call: ToolCall) -> Self {
        Self { hash: of_call(&call), call }
    }

    pub(super) fn id(&self) -> &str {
        self.call.id()
    }

    pub(super) fn name(&self) -> &str {
        self.call.name()
    }
}

/// A result of a call, with the hashes by which it is counted.
pub(super) struct CountedResult {
    tool: String,
    call: u64,
    thing: u64,
    said: u64,
    /// Whether the call has arguments. Equal calls without arguments are no repetition: each may return something else,
    /// such as the next page.
    has_arguments: bool,
    /// Whether a new result proves progress. A part of a large result proves no progress, since each large result has a
    /// new name.
    shows_news: bool,
}

impl CountedResult {
    /// The counted form of a result; `None` if it never counts as a repetition.
    pub(super) fn of(call: &HashedCall, result: &ToolResult) -> Option<Self> {
        let said = outcome_hash(result);
        Some(Self {
            thing: thing(call, result, said)?,
            tool: call.name().to_owned(),
            call: call.hash,
            said,
            has_arguments: !are_none(call.call.arguments()),
            shows_news: !result.is_error() && call.name() != READ_RESULT,
        })
    }
}

impl RepeatCounter {
    /// Called when the model has answered. By then, the model had seen all earlier results.
    pub(super) fn turn(&mut self) {
        self.turn = self.turn.saturating_add(1);
    }

    /// Counts the result of a call.
    pub(super) fn apply(&mut self, came: CountedResult) {
        let CountedResult { tool, call, thing, said, has_arguments, shows_news } = came;
        let before = self.results.insert(call, said);
        if before != Some(said) && shows_news {
            // A new result shows progress: no earlier repetition counts any more.
            self.heard.clear();
        }
        if before.is_none() && shows_news {
            // A new call shows progress, too: a model that repeats the same test after each new edit is not stuck.
            self.made.clear();
        }
        self.heard.entry(thing).or_insert_with(|| ResultTurns::new(&tool)).count(self.turn);
        if has_arguments {
            self.made.entry(call).or_insert_with(|| ResultTurns::new(&tool)).count(self.turn);
        }
    }

    /// The number of turns with this call since the last new call, this turn included.
    pub(super) fn turns_of(&self, call: &HashedCall) -> u32 {
        match self.made.get(&call.hash) {
            Some(made) if made.last == self.turn => made.turns,
            Some(made) => made.turns.saturating_add(1),
            None => 1,
        }
    }

    /// The number of turns in which the model got this result, this turn included.
    pub(super) fn turns_with(&self, call: &HashedCall, result: &ToolResult) -> u32 {
        let said = outcome_hash(result);
        let Some(thing) = thing(call, result, said) else { return 0 };
        let fresh = !result.is_error() && self.results.get(&call.hash) != Some(&said);
        match self.heard.get(&thing) {
            Some(heard) if !fresh && heard.last == self.turn => heard.turns,
            Some(heard) if !fresh => heard.turns.saturating_add(1),
            Some(_) | None => 1,
        }
    }

    /// The result that the model got in the largest number of turns.
    pub(super) fn most(&self) -> Option<&ResultTurns> {
        most_of(&self.heard)
    }

    /// The call that the model made in the largest number of turns since the last new call.
    pub(super) fn most_made(&self) -> Option<&ResultTurns> {
        most_of(&self.made)
    }
}

fn most_of(all: &HashMap<u64, ResultTurns>) -> Option<&ResultTurns> {
    all.values().max_by_key(|heard| (heard.turns, &heard.tool))
}

/// Whether the model gets a warning after the same call in `turns` turns. The model gets a warning at half of the
/// limit, and another warning when a single turn is left.
pub(super) fn is_warned(turns: u32, limit: u32) -> bool {
    turns > 1 && turns < limit && (turns == limit / 2 || turns == limit.saturating_sub(1))
}

pub(super) fn with_note(result: &ToolResult) -> ToolResult {
    with(result, NOTE)
}

pub(super) fn with_call_note(result: &ToolResult) -> ToolResult {
    with(result, SAME_CALL)
}

fn with(result: &ToolResult, note: &str) -> ToolResult {
    let note = ToolContent::Text(note.to_owned());
    let content = result.content().iter().cloned().chain([note]);
    result.said_as(result.outcome(), content)
}

fn noted(result: &ToolResult) -> bool {
    let last = result.content().last();
    matches!(last, Some(ToolContent::Text(text)) if [NOTE, SAME_CALL].contains(&text.as_str()))
}

/// The hash by which repetitions of a result are counted. Successes are counted per tool and arguments, errors per
/// tool. `said` is the hash of the result. `None` for results that do not count.
fn thing(call: &HashedCall, result: &ToolResult, said: u64) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    call.name().hash(&mut hasher);
    said.hash(&mut hasher);
    match result.outcome() {
        CallOutcome::Succeeded => call.hash.hash(&mut hasher),
        CallOutcome::Failed => {}
        // The library writes the text of a timeout, and the text is nearly the same for each call. So a timeout counts
        // per call.
        CallOutcome::StoppedReading | CallOutcome::InDoubt | CallOutcome::StillRunning => {
            call.hash.hash(&mut hasher);
        }
        CallOutcome::NotStarted if result.as_text().starts_with(COPIED) => {
            call.hash.hash(&mut hasher);
        }
        CallOutcome::Denied | CallOutcome::NotStarted => return None,
    }
    Some(hasher.finish())
}

/// A hash of the tool and the arguments. The order and the spacing of the arguments do not matter.
fn of_call(call: &ToolCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name().hash(&mut hasher);
    match serde_json::from_str::<Value>(call.arguments()) {
        Ok(value) => hash_value(&value, &mut hasher),
        Err(_) => call.arguments().trim().hash(&mut hasher),
    }
    hasher.finish()
}

fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(members) => {
            members.len().hash(hasher);
            for (name, value) in sorted_members(members) {
                name.hash(hasher);
                hash_value(value, hasher);
            }
        }
        Value::Array(values) => {
            values.len().hash(hasher);
            values.iter().for_each(|value| hash_value(value, hasher));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            value.to_string().hash(hasher);
        }
    }
}

/// Removes the names of the stored parts from a result's text, since each result has new names. Also removes the reason
/// why a part was not stored, which may contain a time. The checksum of the full part stays.
fn without_names<'a>(text: &'a str, names: &[String]) -> Cow<'a, str> {
    let named = names.iter().filter(|name| text.contains(name.as_str()));
    let text =
        named.fold(Cow::Borrowed(text), |text, name| Cow::Owned(text.replace(name.as_str(), "")));
    let reason = text.split_once(NOT_KEPT).and_then(|(before, rest)| {
        let (_, checksum) = rest.split_once("; checksum ")?;
        Some(format!("{before}{NOT_KEPT}{checksum}"))
    });
    reason.map_or(text, Cow::Owned)
}

/// A hash of the outcome and the content of a result, without the library's own note.
fn outcome_hash(result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    result.outcome().hash(&mut hasher);
    let own = usize::from(noted(result));
    let parts = result.content().len().saturating_sub(own);
    for part in result.content().iter().take(parts) {
        match part {
            ToolContent::Text(text) => without_names(text, result.wholes()).hash(&mut hasher),
            ToolContent::Json(value) => hash_value(value, &mut hasher),
            ToolContent::Document(media) if media.text().is_some() => {
                let text = media.text().unwrap_or_default();
                (media.mime(), without_names(text, result.wholes())).hash(&mut hasher);
            }
            ToolContent::Image(media)
            | ToolContent::Audio(media)
            | ToolContent::Document(media) => {
                media.hash(&mut hasher);
            }
            ToolContent::Link(link) => link.hash(&mut hasher),
        }
    }
    hasher.finish()
}
