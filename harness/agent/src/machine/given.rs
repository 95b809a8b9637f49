//! What is known about the messages with which a conversation began, such as a transcript from elsewhere.

use std::collections::{HashMap, HashSet};

use crate::model_notices::{NEWS, ended_call};
use harness_core::{
    message::{Block, CallOutcome, Message, Messages, Role, ToolContent},
    tool::cut,
};

/// Reports about calls that ended after they were stopped, as found in the messages with which a conversation
/// began.
#[derive(Clone, Debug, Default)]
pub(super) struct InitialMessages {
    /// The reports about each call, by the id of the call. A text that quotes a report looks like a report of
    /// the library, so there may be several reports about one call.
    ends: HashMap<String, Vec<String>>,
    /// The reports about each call as one text, with the name of the stored full result.
    told: HashMap<String, (String, Option<String>)>,
    /// The number of messages with which the conversation began.
    messages: usize,
}

/// How many bytes all reports about one call together may have.
const SHARE: usize = 1_500;

/// The highest number of listed reports about one call, half of them from each end of the list.
const TOLD: usize = 4;

/// How many characters of two reports are compared. Later characters depend on how much of a result a model
/// reads.
const SAME: usize = 500;

impl InitialMessages {
    pub(super) fn of(messages: &Messages) -> Self {
        let mut ends: HashMap<String, Vec<String>> = HashMap::new();
        let mut running: Vec<(String, String)> = Vec::new();
        // The calls with a report inside a tool's result. The library adds reports there, but the tool may have
        // written such a text itself.
        let mut doubtful: HashSet<String> = HashSet::new();
        let mut asked: Option<&Message> = None;
        for message in messages {
            if message.role() != Role::Assistant {
                for (call, news) in &running {
                    let told = ends.entry(call.clone()).or_default();
                    for end in news_in(message, news) {
                        if message.role() == Role::Tool {
                            doubtful.insert(call.clone());
                        }
                        if !told.contains(&end) {
                            told.push(end);
                        }
                    }
                }
            }
            for result in message.results().filter(|it| it.outcome() == CallOutcome::StillRunning) {
                let id = result.call_id();
                let call = asked.and_then(|asked| asked.calls().find(|call| call.id() == id));
                running.extend(call.map(|call| (id.to_owned(), ended_call(call.name(), id))));
            }
            asked = Some(message);
        }
        ends.retain(|_, told| !told.is_empty());
        let told = |(call, ends): (&String, &Vec<String>)| match &**ends {
            [end] if !doubtful.contains(call) => (call.clone(), (end.clone(), name_in(end))),
            ends => (call.clone(), (together(ends), None)),
        };
        let told = ends.iter().map(told).collect();
        Self { ends, told, messages: messages.len() }
    }

    /// The report that this call ended after it was stopped, and the name of the stored full result.
    pub(super) fn end_of(&self, call: &str) -> Option<(&str, Option<&str>)> {
        self.told.get(call).map(|(end, name)| (end.as_str(), name.as_deref()))
    }

    /// Whether the messages contain this report about a call. Only the beginning of the reports without the
    /// names of stored results is compared, because results may be cut differently.
    pub(super) fn has_end(&self, call: &str, end: &str) -> bool {
        let start = |end: &str| without_names(end).chars().take(SAME).collect::<String>();
        let start_of_it = start(end);
        self.ends.get(call).is_some_and(|ends| ends.iter().any(|told| start(told) == start_of_it))
    }

    /// The number of messages with which the conversation began.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }
}

/// The name of the stored full result in backticks, if the report has such a name.
fn name_in(end: &str) -> Option<String> {
    let (_, rest) = end.split_once("; the whole is kept as ")?;
    let (name, _) = rest.strip_prefix('`')?.split_once('`')?;
    name.starts_with("r-").then(|| format!("`{name}`"))
}

/// Several reports about a call as one text. Each report gets the same share of the length.
fn together(ends: &[String]) -> String {
    let count = ends.len();
    let is_told = |at: usize| at < TOLD / 2 || at >= count.saturating_sub(TOLD / 2);
    let share = SHARE / TOLD.min(count).max(1);
    let parts = ends.iter().enumerate().filter(|(at, _)| is_told(*at)).map(|(_, end)| {
        let end = end.split_once(" has ended. ").map_or(end.as_str(), |(_, end)| end);
        match end.len() > share {
            true => format!("- {}", cut(end, share, "")),
            false => format!("- {end}"),
        }
    });
    let parts: Vec<String> = parts.collect();
    let parts = parts.join("\n");
    match count {
        1 => format!(
            "[From the program: an end of this call was told, and may be a quotation:\n{parts}]"
        ),
        _ => format!(
            "[From the program: {count} ends of this call were told, and some may be quotations. The first and the last \
             ones:\n{parts}]"
        ),
    }
}

/// A text without the names of kept results. The names are random, so they differ for the same result.
fn without_names(text: &str) -> String {
    let mut parts = text.split("`r-");
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        left.push_str("`r-");
        let end = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        left.push_str(part.get(end..).unwrap_or_default());
    }
    left
}

/// Finds the reports in this message. A report says that a stopped call has now ended, and begins with `news`.
/// A report of the library is the last part of a message of the user or of the last result. The same text
/// elsewhere is a quotation. A reported result may quote reports, so the method can return several reports.
fn news_in(message: &Message, news: &str) -> Vec<String> {
    let last = match message.blocks() {
        [_, .., Block::Text(text)] => text.text(),
        [.., Block::ToolResult(result)] => match result.content() {
            [_, .., ToolContent::Text(text)] => text,
            _ => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    if !last.starts_with(NEWS) {
        return Vec::new();
    }
    let (begin, next) = (format!("[{news}"), format!("\n{NEWS}"));
    let told = last.match_indices(&begin).filter_map(|(at, _)| {
        let told = last.get(at..)?;
        told.get(..told.find(&next).unwrap_or(told.len()))
    });
    told.map(str::to_owned).collect()
}
