//! The agent loop: a pure machine decides the next action, and a thin driver does the action and records what
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
mod approval;
mod chats;
mod compaction;
mod conversation;
mod events;
mod machine;
mod model_notices;
mod output;
mod run;
mod steps;
mod subagent;
mod watcher_texts;

pub use self::{
    agent::{Agent, AgentBuilder},
    approval::{Grant, OpenCall, Settlement},
    chats::{ChatRun, ChatRunBuilder, ChatWatcher, Chats, ChatsBuilder, WhenBusy},
    conversation::{chat::Chat, inbox::Inbox},
    events::{
        event::{AgentCall, Event},
        event_json::EventBuf,
        numbered::Numbered,
        stream::Events,
    },
    machine::{Action, Machine, Outcome, Provenance},
    output::{
        answer_view::AnswerView,
        spec::Answer,
        typed::{Answered, Answering},
    },
    run::{
        reply::{Reply, Stopped},
        run::Run,
        sent_prefix::PrefixPolicy,
        steering::Steering,
    },
    steps::{
        live::{LiveEvents, LiveWatcher},
        steps::Steps,
    },
};
