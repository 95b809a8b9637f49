//! The loop: a pure machine says what comes next, a thin driver does it and writes down what
//! happened.
//!
#![doc = include_str!("../../guide/users.md")]
//!
#![doc = include_str!("../../guide/answers.md")]
//!
#![doc = include_str!("../../guide/agents.md")]
#![doc = include_str!("../../guide/web.md")]
//!
#![doc = include_str!("../../guide/large-results.md")]

mod accept;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod agent;
mod agent_names;
mod agents_below;
mod announcements;
mod answer_value;
mod answers;
mod approval;
mod as_tool;
mod as_words;
mod bell;
mod blocking;
mod caller;
mod calling;
mod calls;
mod chat;
mod chats;
mod circumstances;
mod clock;
mod compacting;
mod cut_off;
mod durable;
mod early;
mod event;
mod event_json;
mod events;
mod files;
mod folding;
mod found;
mod halt;
mod machine;
mod news;
mod numbered;
mod observed;
mod outcome;
mod reports;
mod run;
mod schedule;
mod sending;
mod spilling;
mod steering;
mod step;
mod steps;
mod told;
mod turn;
mod typed;
mod vendors_summary;
mod verifier;
mod view;
mod wanted;
mod watcher;
mod window;
mod writing;

pub use self::{
    agent::{Agent, AgentBuilder},
    answers::Inbox,
    approval::{Grant, OpenCall, Settlement},
    chat::Chat,
    chats::{ChatRun, ChatSending, ChatWatcher, Chats, ChatsBuilder, WhenBusy},
    event::{AgentCall, Event},
    event_json::EventBuf,
    events::Events,
    machine::{Action, Machine, Provenance},
    numbered::Numbered,
    outcome::{Outcome, Reply, Stopped},
    sending::Sending,
    steering::Steering,
    steps::Steps,
    typed::{Answer, Answered, Answering},
    view::AnswerView,
};
