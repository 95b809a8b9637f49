//! The rules of a transcript.

use std::collections::HashSet;

use harness::{Role, message::Messages};

/// The law, checked from outside, without the code that upholds it.
pub fn obeys(messages: &Messages) {
    let mut owed: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        assert!(!message.blocks().is_empty(), "message {at} is empty");
        if at == 0 {
            assert_eq!(message.role(), Role::User, "it begins with the user");
        }
        if message.role() == Role::Tool {
            let given: Vec<String> = message.results().map(|r| r.call_id().to_owned()).collect();
            assert_eq!(given, owed, "message {at} answers the calls before it");
            owed.clear();
        } else {
            assert!(owed.is_empty(), "message {at} stands between calls and results");
            owed = message.calls().map(|call| call.id().to_owned()).collect();
            let unique: HashSet<&String> = owed.iter().collect();
            assert_eq!(unique.len(), owed.len(), "ids are unique");
        }
    }
    assert!(owed.is_empty(), "every call has a result");
}
