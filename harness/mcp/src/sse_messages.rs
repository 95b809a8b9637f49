//! Reads the events that a server sends over HTTP as the answer to one request.

use super::{
    pending_requests::PendingRequests,
    scan::MessageScan,
    stdout_filter::{LineKind, batch, examine, unread},
};

/// The messages in the data of an event: one message, or the messages of a list.
pub(super) fn messages(data: String, open: &PendingRequests) -> Vec<String> {
    match batch(data.as_bytes(), open) {
        Some(messages) => messages.into_iter().map(str::to_owned).collect(),
        None => vec![data],
    }
}

/// The messages that the protocol's code can read. If no message of an event is readable, the request ends with an
/// error, because the server may send nothing else on an open stream. An event with a notification does not end the
/// request, because a notification is not an answer.
pub(super) fn read(messages: Vec<String>, open: &PendingRequests) -> Vec<String> {
    let mut tells = false;
    let read = messages.into_iter().filter_map(|message| {
        let mut line = message.into_bytes();
        let scan = MessageScan::of(&line);
        tells |= scan.is_one_way();
        match examine(&scan, &mut line, false, open) {
            LineKind::Message => String::from_utf8(line).ok(),
            LineKind::Unread(instead) => Some(instead),
            LineKind::Strange | LineKind::Doubtful(..) => None,
        }
    });
    let read: Vec<String> = read.collect();
    match open.meant() {
        Some(request) if read.is_empty() && !tells => {
            open.answered(&request.id);
            vec![unread(&request.id, "it is no message of JSON-RPC 2.0")]
        }
        _ => read,
    }
}
