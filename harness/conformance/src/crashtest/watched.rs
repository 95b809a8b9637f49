//! Wraps the journal, the provider and the tools of an agent, with points before, inside and after each of their
//! operations.

use std::{fmt, path::Path, sync::Arc, task::Poll};

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use super::{
    log::{CallReturn, LogEntry},
    test_process::{TestProcess, texts},
};
use harness_agent::Agent;
use harness_core::{
    error::Error,
    journal::{
        ConversationPage, ConversationQuery, Envelope, Fact, Head, Incarnation, Journal,
        JournalFuture, Lease, Metadata, StoredFacts,
    },
    provider::{EventStream, Provider, Request},
    tool::{Reconciled, Review, Tool, ToolContext, ToolError, ToolOutput},
};

/// The function of the test that returns all effects so far, one text for each.
pub(super) type ObserveWorld = dyn Fn(&Path) -> Vec<String> + Send + Sync;

#[derive(Clone)]
pub(super) struct WatchedJournal {
    inner: Arc<dyn Journal>,
    life: Arc<TestProcess>,
}

impl WatchedJournal {
    pub(super) fn new(inner: Arc<dyn Journal>, life: Arc<TestProcess>) -> Self {
        Self { inner, life }
    }

    /// The id of the conversation, if it belongs to an agent that a call runs; `None` for the tested conversation.
    fn of(&self, conversation: &str) -> Option<String> {
        let own = &self.life.order().conversation;
        (conversation != own).then(|| conversation.to_owned())
    }
}

impl Journal for WatchedJournal {
    fn system(&self) -> &str {
        self.inner.system()
    }

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            let read = self.inner.read(conversation, from).await?;
            if let (Some(of), 0) = (self.of(conversation), from) {
                self.life.note(&LogEntry::Seen { of: Some(of), facts: texts(&read.facts)? });
            }
            Ok(read)
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            let names: Vec<String> = facts.iter().map(name).collect();
            let names = names.join(", ");
            self.life.point(&format!("before the append of {names}"));
            let lasting = self.life.lasting(&format!("inside the append of {names}"));
            let done = self.inner.append(conversation, after, facts).await;
            lasting.over();
            if done.is_ok() {
                let (of, after) = (self.of(conversation), after.facts);
                self.life.note(&LogEntry::Appended { of, after, facts: texts(facts)? });
            }
            self.life.point(&format!("after the append of {names}"));
            done
        })
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async move {
            let lasting = self.life.lasting("while the conversation is held");
            let held = self.inner.hold(conversation).await;
            lasting.over();
            held
        })
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let lasting = self.life.lasting("while the conversation of an agent begins");
            let done = self.inner.describe(conversation, metadata).await;
            lasting.over();
            done
        })
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        self.inner.list(listing)
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        self.inner.delete(conversation)
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        self.inner.fork(from, at, to)
    }

    fn can_keep_spills(&self) -> bool {
        self.inner.can_keep_spills()
    }

    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let lasting = self.life.lasting("while a large result is kept");
            let done = self.inner.write_spill(conversation, incarnation, name, chunk, bytes).await;
            lasting.over();
            done
        })
    }

    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        self.inner.read_spill(conversation, name, chunk)
    }

    fn delete_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        self.inner.delete_spill(conversation, incarnation, name)
    }
}

/// The name of a fact, with the ids of its calls.
pub(super) fn name(envelope: &Envelope) -> String {
    let Ok(fact) = envelope.fact() else { return "a fact of another version".to_owned() };
    let json = serde_json::from_str::<Value>(&envelope.fact).unwrap_or_default();
    let name = json.get("fact").and_then(Value::as_str).unwrap_or("a fact without a name");
    match &fact {
        Fact::AnswerRejected { by, .. } => format!("{name}({by:?})"),
        Fact::ModelReplied { message, .. } => {
            let calls = message.iter().flat_map(|message| message.calls());
            let calls: Vec<&str> = calls.map(|call| call.id()).collect();
            format!("{name}({})", calls.join(" "))
        }
        Fact::CallFinished { result, .. } => {
            format!("{name}({}: {:?})", result.call_id(), result.outcome())
        }
        fact => match fact.call_id() {
            Some(call) => format!("{name}({call})"),
            None => name.to_owned(),
        },
    }
}

pub(super) struct WatchedProvider {
    inner: Arc<dyn Provider>,
    life: Arc<TestProcess>,
}

impl WatchedProvider {
    pub(super) fn new(inner: Arc<dyn Provider>, life: Arc<TestProcess>) -> Self {
        Self { inner, life }
    }
}

impl fmt::Debug for WatchedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedProvider").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Provider for WatchedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let (mut answer, life) = (self.inner.stream(request), &self.life);
        let (mut is_asked, mut has_begun) = (false, false);
        Box::pin(stream::poll_fn(move |context| {
            if !is_asked {
                is_asked = true;
                life.point("before the model is asked");
            }
            let said = answer.poll_next_unpin(context);
            match &said {
                Poll::Ready(Some(_)) if !has_begun => {
                    has_begun = true;
                    life.point("while the model answers");
                }
                Poll::Ready(None) => life.point("after the model has answered"),
                Poll::Ready(Some(_)) | Poll::Pending => {}
            }
            said
        }))
    }
}

/// Wraps the provider and the tools of an agent, so that all their operations are logged.
///
/// # Errors
/// Fails if the tools cannot form a list, for example because two have the same name.
pub(super) fn watched_agent(
    agent: Agent,
    life: &Arc<TestProcess>,
    observe: Option<&Arc<ObserveWorld>>,
) -> Result<Agent, Error> {
    agent.with_others_in_place(
        |provider| Arc::new(WatchedProvider::new(provider, Arc::clone(life))),
        |tool| match tool.agent::<Agent>().cloned() {
            // If a call runs an agent, the log contains the operations of this agent instead of the call.
            Some(agent) => match watched_agent(agent, life, observe) {
                Ok(agent) => {
                    let schema = tool.schema();
                    agent.as_tool(schema.name.clone(), schema.description.clone())
                }
                Err(_) => tool.clone(),
            },
            None => watched(tool, life, observe),
        },
    )
}

/// Wraps a tool, so that its calls are logged.
pub(super) fn watched(
    tool: &Tool,
    life: &Arc<TestProcess>,
    observe: Option<&Arc<ObserveWorld>>,
) -> Tool {
    // An external tool has no code that runs here.
    if tool.is_external() {
        return tool.clone();
    }
    let reads = tool.side_effects().is_read_only();
    let observe = observe.filter(|_| reads).cloned();
    let inner = WatchedTool { tool: tool.clone(), life: Arc::clone(life), reads, observe };
    let schema = tool.schema().clone();
    let effects = tool.side_effects();
    let runs = inner.clone();
    let mut outer = Tool::new(
        schema.name,
        schema.description,
        schema.input_schema,
        effects,
        move |context, arguments| {
            let inner = runs.clone();
            Box::pin(async move { inner.call(&context, Value::Object(arguments)).await })
        },
    );
    if tool.is_idempotent() {
        outer = outer.idempotent();
    }
    if let Some(limit) = tool.time_limit() {
        outer = outer.with_time_limit(limit);
    }
    if tool.has_review() {
        let tool = tool.clone();
        outer =
            outer.with_review(move |arguments| tool.review(arguments).unwrap_or(Review::pass()));
    }
    if tool.can_reconcile() {
        outer = outer.with_reconcile(move |context, arguments| {
            let inner = inner.clone();
            Box::pin(async move {
                let (call, life) = (context.call_id().to_owned(), &inner.life);
                let of = inner.of(&context);
                life.point(&format!("before it is found out what became of {call}"));
                let found = match inner.tool.find_out(context, arguments) {
                    Ok(found) => found.await,
                    Err((_, why)) => Err(ToolError::new(why)),
                };
                if let Ok(found) = &found {
                    let happened = matches!(found, Reconciled::Happened(_));
                    life.note(&LogEntry::Found { of: of.clone(), call: call.clone(), happened });
                }
                life.point(&format!("after it was found out what became of {call}"));
                found
            })
        });
    }
    outer
}

#[derive(Clone)]
struct WatchedTool {
    tool: Tool,
    life: Arc<TestProcess>,
    reads: bool,
    observe: Option<Arc<ObserveWorld>>,
}

impl WatchedTool {
    /// The conversation of a call, if the conversation belongs to an agent in a call. The idempotency key of a call
    /// begins with the id of the conversation.
    fn of(&self, context: &ToolContext) -> Option<String> {
        let (rest, _) = context.idempotency_key().rsplit_once('/')?;
        let rest = rest.strip_suffix(context.call_id())?.strip_suffix('/')?;
        let (conversation, _) = rest.rsplit_once('/')?;
        (conversation != self.life.order().conversation).then(|| conversation.to_owned())
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        let (life, reads) = (&self.life, self.reads);
        let (call, tool) = (context.call_id().to_owned(), self.tool.name().to_owned());
        let what = format!("the call {call} of `{tool}`");
        let world = || {
            let mut seen = self.observe.as_ref().map(|observe| observe(&life.order().folder))?;
            seen.sort();
            Some(seen)
        };
        life.point(&format!("before {what}"));
        let before = world();
        let key = context.idempotency_key().to_owned();
        let of = self.of(context);
        let (began, used) = (call.clone(), tool.clone());
        life.note(&LogEntry::Began { of: of.clone(), call: began, tool: used, key, reads });
        let lasting = life.lasting(&format!("inside {what}"));
        let result = self.tool.call(context, arguments).await;
        lasting.over();
        let how = match &result {
            Ok(_) => CallReturn::Well,
            Err(ToolError::Asks(_)) => CallReturn::Asks,
            Err(_) => CallReturn::Failed,
        };
        life.note(&LogEntry::Ended { of, call: call.clone(), how });
        if let (Some(before), Some(after)) = (before, world())
            && before != after
        {
            let effects = after.into_iter().filter(|effect| !before.contains(effect)).collect();
            life.note(&LogEntry::Changed { call, tool, effects });
        }
        life.point(&format!("after {what}"));
        result
    }
}
