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
    /// What the model was told of each call that has ended late, by the id of the call. The chat that the messages were
    /// kept from has recorded it, or somebody has copied the words.
    ends: HashMap<String, String>,
    /// How many messages there were.
    messages: usize,
}

impl Given {
    pub(super) fn of(messages: &Messages) -> Self {
        let mut ends = HashMap::new();
        let mut running: Vec<(String, String)> = Vec::new();
        let mut asked: Option<&Message> = None;
        for message in messages {
            if message.role() != Role::Assistant {
                for (call, news) in &running {
                    if let Some(told) = news_in(message, news) {
                        ends.insert(call.clone(), told);
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
        Self { ends, messages: messages.len() }
    }

    /// What the model was told of the late end of a call.
    pub(super) fn end_of(&self, call: &str) -> Option<&str> {
        self.ends.get(call).map(String::as_str)
    }

    /// Whether the message at this index is a summary of an earlier version, which did not mark it as the program's.
    pub(super) fn is_summary(&self, at: usize, message: &Message) -> bool {
        at < self.messages && context::is_summary(message)
    }
}

/// What the library has added to a message about a call that has ended late. `news` is how that begins. The library adds
/// a last part to a message of the user, or to the last result; such words elsewhere are somebody else's.
fn news_in(message: &Message, news: &str) -> Option<String> {
    let last = match message.blocks().last()? {
        Block::Text(text) => text.text(),
        Block::ToolResult(result) => match result.content().last()? {
            ToolContent::Text(text) => text,
            _ => return None,
        },
        _ => return None,
    };
    let told = last.strip_prefix(NEWS).and(last.get(last.find(&format!("[{news}"))?..))?;
    let end = told.find(&format!("\n{NEWS}")).unwrap_or(told.len());
    told.get(..end).map(str::to_owned)
}
