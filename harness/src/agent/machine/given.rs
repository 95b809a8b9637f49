//! What is known of the messages with which a conversation was begun, such as a transcript from elsewhere.

use std::collections::HashMap;

use super::super::told::{NEWS, ended_call};
use crate::{
    context,
    message::{Block, CallOutcome, Message, Messages, Role, ToolContent},
};

/// What such messages tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// What the model was told of the late end of each call, by the id of the call. The chat that the messages were kept
    /// from has recorded it, or somebody has copied the words: nobody can tell. So there may be several ends.
    ends: HashMap<String, Vec<String>>,
    /// The same as one text.
    told: HashMap<String, String>,
    /// How many messages there were.
    messages: usize,
    /// Whether no message was marked as the program's own, such as in a transcript of an earlier version.
    is_unmarked: bool,
}

/// How many bytes are left of one of several ends.
const SHARE: usize = 1_500;

impl Given {
    pub(super) fn of(messages: &Messages) -> Self {
        let mut ends: HashMap<String, Vec<String>> = HashMap::new();
        let mut running: Vec<(String, String)> = Vec::new();
        let mut asked: Option<&Message> = None;
        for message in messages {
            if message.role() != Role::Assistant {
                for (call, news) in &running {
                    let told = ends.entry(call.clone()).or_default();
                    told.extend(news_in(message, news).filter(|end| !told.contains(end)));
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
        let told = ends.iter().map(|(call, ends)| (call.clone(), together(ends))).collect();
        let is_unmarked = !messages.iter().any(Message::is_by_program);
        Self { ends, told, messages: messages.len(), is_unmarked }
    }

    /// What the model was told of the late end of a call.
    pub(super) fn end_of(&self, call: &str) -> Option<&str> {
        self.told.get(call).map(String::as_str)
    }

    /// Whether the messages tell this end of a call, but for the names under which the whole is kept.
    pub(super) fn tells(&self, call: &str, end: &str) -> bool {
        let end = without_names(end);
        self.ends.get(call).is_some_and(|ends| ends.iter().any(|told| without_names(told) == end))
    }

    /// How many messages there were.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    /// Whether the message at this index is a summary of an earlier version, which did not mark it as the program's.
    pub(super) fn is_summary(&self, at: usize, message: &Message) -> bool {
        self.is_unmarked && at < self.messages && context::is_summary(message)
    }
}

/// Several ends of a call as one text. Each has its share, so that none displaces another one.
fn together(ends: &[String]) -> String {
    let [end] = ends else {
        let share = SHARE / ends.len().max(1);
        let parts = ends.iter().map(|end| {
            let cut = (0..=share.min(end.len())).rev().find(|at| end.is_char_boundary(*at));
            end.get(..cut.unwrap_or(0)).unwrap_or_default()
        });
        let parts: Vec<&str> = parts.collect();
        return format!(
            "Several ends were told, and some may be quotations:\n{}",
            parts.join("\n")
        );
    };
    end.clone()
}

/// A text without the names of kept results: each time, a result is kept under a new one.
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

/// What the library has added to a message about a call that has ended late. `news` is how that begins. The library adds
/// a last part to a message of the user, or to the last result; such words elsewhere are somebody else's.
fn news_in(message: &Message, news: &str) -> Option<String> {
    let last = match message.blocks() {
        [_, .., Block::Text(text)] => text.text(),
        [.., Block::ToolResult(result)] => match result.content() {
            [_, .., ToolContent::Text(text)] => text,
            _ => return None,
        },
        _ => return None,
    };
    let told = last.strip_prefix(NEWS).and(last.get(last.find(&format!("[{news}"))?..))?;
    let end = told.find(&format!("\n{NEWS}")).unwrap_or(told.len());
    told.get(..end).map(str::to_owned)
}
