//! A kit of tools: a function, and the methods of a value.

use std::sync::{Mutex, PoisonError};

use harness_core::{tool, toolset};

/// Counts the words of a text.
#[tool(side_effects = "none")]
pub fn count_words(
    /** The text */
    text: String,
) -> usize {
    text.split_whitespace().count()
}

/// Notes of one person.
#[derive(Debug, Default)]
pub struct Notes(Mutex<Vec<String>>);

#[toolset]
impl Notes {
    /// Adds a note.
    #[tool(side_effects = "write")]
    fn add_note(
        &self,
        /** What to keep */
        note: String,
    ) -> String {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(note);
        format!("There are {} notes.", notes.len())
    }

    /// Lists the notes.
    #[tool(side_effects = "read")]
    fn list_notes(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
