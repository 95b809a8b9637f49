//! Conversations whose process has ended: what stays true of them when they are opened again, and that reading them does not
//! hold up others.

mod begun_again;
mod created;
mod decisions;
mod forks;
mod inside;
mod siblings;
mod spent;
mod told;
mod turns;
mod words;

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use harness::{
    Agent, Permissions, SideEffects, Tool, ToolContext, ToolError,
    agent::AgentBuilder,
    journal::{ConversationQuery, Head, Journal, MemoryJournal},
    models::{Models, Price},
    testing::{RecordedRequest, ScriptedProvider, ScriptedReply},
};
use serde_json::json;

use harness_test_support::kept::{self, CHAT};

/// What journals have held at some moments: what is left if the process ends there.
#[derive(Clone, Default)]
struct Left {
    journal: MemoryJournal,
    moments: Arc<Mutex<Vec<MemoryJournal>>>,
}

impl Left {
    /// Keeps what the journal holds now.
    fn keep(&self) {
        let copy =
            copy_of(&self.journal).now_or_never().expect("a journal in memory answers at once");
        self.moments.lock().expect("unpoisoned").push(copy);
    }

    /// The journals of all moments so far.
    fn take(&self) -> Vec<MemoryJournal> {
        std::mem::take(&mut *self.moments.lock().expect("unpoisoned"))
    }

    /// A model that keeps what the journal holds whenever it is asked.
    fn model(
        &self,
        answers: impl Fn(&RecordedRequest) -> ScriptedReply + Send + Sync + 'static,
    ) -> ScriptedProvider {
        let left = self.clone();
        ScriptedProvider::answering(move |request| {
            left.keep();
            answers(request)
        })
    }
}

async fn copy_of(journal: &MemoryJournal) -> MemoryJournal {
    let copy = MemoryJournal::new();
    for summary in
        journal.list(&ConversationQuery::new().limit(1000)).await.expect("a page").conversations
    {
        let facts = journal.read(&summary.id, 0).await.expect("facts").facts;
        copy.append(&summary.id, Head::default(), &facts).await.expect("appended");
        copy.describe(&summary.id, &summary.metadata).await.expect("described");
    }
    copy
}

/// An agent whose tokens have a price, and whose tools all may run.
fn agent(model: impl harness::Provider + 'static) -> AgentBuilder {
    let models = Models::none().with("*", Price::new(1.5, 7.0));
    Agent::builder(model).models(models).permissions(Permissions::allow_all())
}

/// A tool without arguments.
fn tool<F>(
    name: &'static str,
    effects: SideEffects,
    run: impl Fn(ToolContext) -> F + Send + Sync + 'static,
) -> Tool
where
    F: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    Tool::new(name, "Does it.", json!({"type": "object"}), effects, move |context, _| {
        let done = run(context);
        Box::pin(async move { Ok(done.await?.into()) })
    })
}
