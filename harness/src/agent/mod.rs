//! The loop: a pure machine says what comes next, a thin driver does it and writes down what
//! happened.
//!
#![doc = include_str!("../../guide/users.md")]
//!
#![doc = include_str!("../../guide/agents.md")]

#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod agent;
mod answers;
mod as_tool;
mod bell;
mod caller;
mod calling;
mod calls;
mod chat;
mod circumstances;
mod clock;
mod durable;
mod early;
mod event;
mod halt;
mod heard;
mod idle;
mod machine;
mod observed;
mod open_call;
mod outcome;
mod permit;
mod reports;
mod run;
mod schedule;
mod sending;
mod steps;
mod turn;
mod watcher;

pub use self::{
    agent::{Agent, AgentBuilder},
    answers::Inbox,
    chat::Chat,
    event::Event,
    heard::AgentCall,
    machine::{Action, Machine},
    open_call::{OpenCall, Settlement},
    outcome::{Outcome, Reply, Stopped},
    permit::Grant,
    sending::Sending,
    steps::Steps,
};
