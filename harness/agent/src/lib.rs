//! The loop: a pure machine says what comes next, a thin driver does it and writes down what
//! happened.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

mod agent;
mod agent_names;
mod agents_below;
mod announcements;
mod answer_check;
mod answer_value;
mod answers;
mod approval;
mod as_tool;
mod blocking;
mod call_states;
mod calls;
mod chat;
mod chats;
mod clock;
mod durable;
mod early_calls;
mod event;
mod event_json;
mod events;
mod external_answers;
mod files;
mod folding;
mod machine;
mod model_notices;
mod numbered;
mod observed;
mod outcome;
mod output_requirement;
mod output_tool_text;
mod progress;
mod run;
mod run_options;
mod schedule;
mod sending;
mod spilling;
mod steering;
mod step;
mod steps;
mod stop_signals;
mod subagent;
mod summarize;
mod suspended_child;
mod tool_search;
mod turn;
mod typed;
mod vendors_summary;
mod verifier;
mod view;
mod wake_flag;
mod watcher;
mod window;
mod writing;

pub use self::{
    agent::{Agent, AgentBuilder},
    answers::Inbox,
    approval::{Grant, OpenCall, Settlement},
    chat::Chat,
    chats::{ChatRun, ChatRunBuilder, ChatWatcher, Chats, ChatsBuilder, WhenBusy},
    event::{AgentCall, Event},
    event_json::EventBuf,
    events::Events,
    machine::{Action, Machine, Provenance},
    numbered::Numbered,
    outcome::{Outcome, Reply, Stopped},
    sending::Run,
    steering::Steering,
    steps::Steps,
    typed::{Answer, Answered, Answering},
    view::AnswerView,
};
