//! The project itself: its rules, its guide, its examples as programs and in a terminal.

mod another_name;
mod examples;
mod guide;
mod offline;
mod plans;
mod quickstart;
mod terminal;
mod terminal_asks;
mod terminal_form;
mod terminal_kept;
mod terminal_shared;
mod tidy;
mod tmux;

use harness_test_support::{process, transcripts};
