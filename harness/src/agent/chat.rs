//! A conversation that continues.

use std::{collections::HashSet, fmt, sync::Arc};

use super::{Agent, Machine, Sending};
use crate::{
    error::Error,
    journal::{Entry, Journal, MemoryJournal},
    message::{Message, Transcript},
    policy::{Budget, Guard},
    provider::{ContextMeter, ContextTokens, Sent, Usage},
    trace::Tracer,
};

/// A conversation that continues from one message to the next.
///
/// Whatever happens to a run (an error, a cancellation, a dropped future, a panic), its
/// transcript can be sent and tells the truth about each call.
///
/// ```
/// use harness::{Agent, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([reply().text("Noted."), reply().text("It is 42.")]);
/// let agent = Agent::builder(model).build()?;
/// let mut chat = agent.chat();
/// chat.send("My favourite number is 42.").await?;
/// let reply = chat.send("What is it?").await?;
/// assert_eq!(reply.text(), "It is 42.");
/// assert_eq!(chat.transcript().messages().len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Chat {
    pub(super) agent: Agent,
    pub(super) machine: Machine,
    pub(super) guard: Guard,
    pub(super) tracer: Tracer,
    journal: Box<dyn Journal>,
    pub(super) usage: Usage,
    /// What the provider has written of the conversation already.
    pub(super) sent: Sent,
    /// What the messages amount to, each counted once.
    pub(super) meter: ContextMeter,
    /// Tools that a person has allowed for the rest of the conversation.
    pub(super) always: HashSet<String>,
}

impl Chat {
    pub(super) fn new(agent: Agent) -> Self {
        let guard = Guard::new(Arc::clone(agent.guardrails()));
        let tracer = Tracer::new(agent.trace());
        let meter = agent.meter();
        Self {
            agent,
            machine: Machine::new(),
            guard,
            tracer,
            journal: Box::new(MemoryJournal::default()),
            usage: Usage::default(),
            sent: Sent::new(),
            meter,
            always: HashSet::new(),
        }
    }

    pub(super) fn given(agent: Agent, mut transcript: Transcript) -> Self {
        transcript.settle();
        let mut chat = Self::new(agent);
        // Neither can fail: the transcript was settled above, and it is the first fact.
        let _ = chat.record(&Entry::Given { transcript });
        chat
    }

    /// Writes the facts from here on into this journal, instead of only keeping them in memory.
    /// Facts that are there already are written first.
    ///
    /// # Errors
    /// Fails if they could not be written.
    pub fn with_journal(mut self, mut journal: impl Journal + 'static) -> Result<Self, Error> {
        if !self.transcript().messages().is_empty() {
            journal.append(&Entry::Given { transcript: self.transcript().clone() })?;
        }
        self.journal = Box::new(journal);
        Ok(self)
    }

    /// Says something, and runs until the model has answered. Nothing happens before the result
    /// is awaited.
    ///
    /// Dropping the future stops the run: the transcript keeps what was said until then and the
    /// truth about each call.
    pub fn send(&mut self, message: impl Into<Message>) -> Sending<'_> {
        Sending::borrowed(self, message.into())
    }

    /// Goes on with a run that was stopped, from its last complete fact: what the tools have
    /// answered stands, and only the model is asked again. If its reply broke off in the middle,
    /// it is told so and continues there. Await it for the reply.
    ///
    /// The run fails at once if there is nothing to go on with, since the model has answered.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([
    ///     reply().text("Once upon a").cut(),
    ///     reply().text("time, there was a crab."),
    /// ]);
    /// let mut chat = Agent::builder(model).build()?.chat();
    /// let stopped = chat.send("Tell me a story.").await.unwrap_err();
    /// assert_eq!(stopped.text(), "Once upon a\n\n[interrupted]");
    /// assert_eq!(chat.resume().await?.text(), "time, there was a crab.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(&mut self) -> Sending<'_> {
        Sending::resuming(self)
    }

    /// What was said so far. It can be sent.
    pub fn transcript(&self) -> &Transcript {
        self.machine.transcript()
    }

    /// Tokens of all runs of this conversation: a lower bound if some are not known.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// What the run that goes on has spent and what is left of its limits; between runs, of the
    /// last one. It can be kept and asked while a run goes on.
    pub fn budget(&self) -> Budget {
        self.guard.budget().clone()
    }

    /// What the tokens are made of that the next request will send before what is said next:
    /// an estimate. What the last one really sent is told by
    /// [`Reply::context`](super::Reply::context).
    pub fn context(&self) -> ContextTokens {
        let mut meter = self.meter;
        meter.count(self.transcript().messages())
    }

    /// The agent that answers.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Lets a fact take effect and writes it down.
    pub(super) fn record(&mut self, entry: &Entry) -> Result<(), Error> {
        self.machine.apply(entry)?;
        self.guard.apply(entry);
        self.tracer.fact(entry);
        match entry {
            Entry::ModelReplied { usage, .. } | Entry::Interrupted { usage, .. } => {
                self.usage.add(usage);
            }
            Entry::Given { .. }
            | Entry::UserSaid { .. }
            | Entry::Resumed { .. }
            | Entry::CallDecided { .. }
            | Entry::CallStarted { .. }
            | Entry::CallFinished { .. } => {}
        }
        self.journal.append(entry)
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("agent", &self.agent)
            .field("messages", &self.transcript().messages().len())
            .finish_non_exhaustive()
    }
}
