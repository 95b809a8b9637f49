//! The error of an expression that has no value.

use std::fmt;

/// The reason why an expression has no value: the column, the fault and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalcError {
    column: usize,
    fault: String,
}

impl CalcError {
    pub(super) fn new(column: usize, fault: impl Into<String>) -> Self {
        Self { column, fault: fault.into() }
    }

    /// The column of the fault, counted in characters from 1.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for CalcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.fault)
    }
}

impl std::error::Error for CalcError {}
