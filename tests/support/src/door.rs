//! A door at which a thread of a tool waits until a test opens it.

use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// A door that a thread waits at.
#[derive(Default)]
pub struct Door {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
    lines: AtomicUsize,
}

impl Door {
    /// Waits on a thread until it is open.
    pub fn pass(&self) {
        let mut state = self.state.lock().expect("unpoisoned");
        state.0 += 1;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state).expect("unpoisoned");
        }
    }

    pub fn open(&self) {
        self.state.lock().expect("unpoisoned").1 = true;
        self.changed.notify_all();
    }

    /// Sets how many lines are written behind it.
    pub fn writes(&self, lines: usize) {
        self.lines.store(lines, Ordering::Relaxed);
    }

    pub fn lines(&self) -> usize {
        self.lines.load(Ordering::Relaxed)
    }

    /// How many have come to it.
    pub fn came(&self) -> usize {
        self.state.lock().expect("unpoisoned").0
    }
}
