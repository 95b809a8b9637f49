//! A conversation that continues, and how an agent begins or opens one.

use std::{fmt, sync::Arc};

use super::{blocking::block_on, inbox::Inbox, open::open_conversation, state::ConversationState};
use crate::{Agent, Answer, Grant, Provenance, Reply, Run, Stopped, output::typed::answered};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Fact, Journal},
    message::{Message, Transcript},
    policy::{Budget, Limits},
    provider::Usage,
    tool::{StillRunning, still_running_in},
};

/// A conversation that continues from one message to the next.
///
/// Whatever happens to a run (an error, a cancellation, a dropped future, a panic), the transcript
/// can be sent afterwards and states correctly what became of each call.
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
    pub(crate) state: ConversationState,
}

impl Chat {
    /// Sends a message of the user and runs until the model has answered. Nothing happens before
    /// the returned value is awaited.
    ///
    /// Dropping the future stops the run. The transcript keeps what was said until then and states
    /// what became of each call.
    pub fn send(&mut self, message: impl Into<Message>) -> Run<'_> {
        Run::borrowed(&mut self.state, message.into())
    }

    /// Continues a run that was stopped, or whose process has ended, after its last complete fact.
    /// Results of tools are kept, and the model is asked again. In a conversation in a
    /// [journal](harness_core::journal), the calls that had not started, that may be repeated, or that
    /// have been answered meanwhile are finished first. If the model's answer broke off in the
    /// middle, the model is told so and continues there. Await the returned value for the reply.
    ///
    /// What the run has spent so far still counts, so a run that has reached a limit can do no more
    /// of what is limited. Give it [new limits](Run::limits) to count from zero.
    ///
    /// The run fails at once, with [`ErrorKind::Transcript`](harness_core::error::ErrorKind) and without a
    /// change, if there is nothing to continue: nothing was said yet, or the model has answered.
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
    pub fn resume(&mut self) -> Run<'_> {
        Run::resuming(&mut self.state)
    }

    /// What was said so far. It is always valid to send.
    pub fn transcript(&self) -> &Transcript {
        self.state.transcript()
    }

    /// Where the message of the transcript with this id came from: provider, model and tokens. `None` for a message
    /// that no provider has answered in this conversation: see [`Machine::provenance`](crate::Machine::provenance).
    pub fn provenance(&self, message: &str) -> Option<&Provenance> {
        self.state.machine.provenance(message)
    }

    /// The tokens of all runs of this conversation; a lower bound if the tokens of some answers are
    /// not known. Agents that tools call are not included: they are part of
    /// [`budget`](Self::budget).
    pub fn usage(&self) -> Usage {
        self.state.spending.usage
    }

    /// Sets what all runs of the conversation may spend together, including the agents that its
    /// tools call: see [`Limits`]. What was spent before counts. A limit that is left open keeps
    /// its value. A conversation has no such limits unless they are set.
    ///
    /// ```
    /// use harness::{Agent, Limits, journal::LimitScope, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::answering(|_| reply().text("Yes.").tokens(600, 1));
    /// let mut chat = Agent::builder(model).build()?.chat();
    /// chat.limits(Limits::new().input_tokens(1_000));
    /// chat.send("One?").await?;
    /// chat.send("Two?").await?;
    /// let stopped = chat.send("Three?").await.unwrap_err();
    /// assert_eq!(stopped.limit().unwrap().scope, LimitScope::Conversation);
    /// chat.limits(Limits::new().input_tokens(2_000));
    /// assert_eq!(chat.resume().await?.text(), "Yes.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limits(&mut self, limits: Limits) -> &mut Self {
        self.state.spending.budget.limit(&limits);
        self
    }

    /// Shares a value with the tools in all runs of the conversation. A tool takes it as a
    /// parameter [`State<T>`](harness_core::tool::State). The value replaces the agent's value of the same type,
    /// and a run can replace it by [`Run::state`]. It is not written to a journal: set it again
    /// after a conversation was opened again or forked.
    ///
    /// ```
    /// use harness::{Agent, State, testing::{ScriptedProvider, reply}, tool, tools};
    ///
    /// struct User(&'static str);
    ///
    /// /// Says who asks.
    /// #[tool(side_effects = "read")]
    /// fn who(user: State<User>) -> String {
    ///     user.0.to_owned()
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([
    ///     reply().call("who", serde_json::json!({})),
    ///     reply().text("You are Ada."),
    /// ]);
    /// let agent =
    ///     Agent::builder(model.clone()).tools(tools![who]).state_per_run::<User>().build()?;
    /// let mut chat = agent.chat();
    /// chat.state(User("Ada"));
    /// chat.send("Who am I?").await?;
    /// assert_eq!(model.requests()[1].last_text(), "Ada");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state<T: Send + Sync + 'static>(&mut self, value: T) -> &mut Self {
        self.state.values.get_or_insert_default().insert(Arc::new(value));
        self
    }

    /// What all runs of the conversation have spent so far and what is left of its limits. Agents
    /// that its tools call are included. The returned value can be kept and read while a run goes
    /// on. For a single run, see [`Run::budget`] and [`Reply::spent`](crate::Reply::spent).
    pub fn budget(&self) -> Budget {
        self.state.budget()
    }

    /// What a person has allowed by *always* in this conversation, in the order of the answers. What a person has allowed of
    /// the calls of an agent in a call holds in the agent's own conversation alone, `<caller>/<call id>`: open that one with
    /// [`Agent::open`] to read it, or to [`revoke`](Self::revoke) it, while the caller does not run the agent.
    pub fn grants(&self) -> &[Grant] {
        &self.state.approvals.grants
    }

    /// Withdraws what a person has allowed by *always*. From now on, each call of this scope is
    /// asked about again, also a call that was allowed by the grant and has not started. The call that the person was asked
    /// about when the grant was given was allowed by that answer and not by the grant: if it has not ended, it still runs. If
    /// a call had started in a process that is gone, or its agent had waited, and the grant let it run again, it is now [in
    /// doubt](Self::in_doubt). Returns whether there was such a grant. A conversation in a journal
    /// writes the change with the next run, or at once by [`save`](Self::save). If the process ends
    /// before that, the change is lost.
    pub fn revoke(&mut self, grant: &Grant) -> bool {
        self.state.revoke(grant)
    }

    /// The calls of this conversation that were told to stop, could not be stopped, and still run.
    /// When one has ended, the next run reports it by [`Event::ToolEnded`](crate::Event::ToolEnded)
    /// and tells the model.
    pub fn still_running(&self) -> Vec<StillRunning> {
        still_running_in(self.state.id())
    }

    /// The agent that answers.
    pub fn agent(&self) -> &Agent {
        &self.state.agent
    }

    /// The last answer of the conversation as a value, if it was accepted and can be read as this
    /// type. Use it if a program ended before it could take the [answer](Run::answer) of a run.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`] if the last run has not ended with an answer, or if the
    /// answer is not a value of the type.
    pub fn answered<T: Answer>(&self) -> Result<T, Error> {
        answered(&self.state.machine)
    }

    /// Sends what the user says, as [`send`](Self::send) does, and blocks this thread until the reply. Use it in
    /// scripts without a runtime.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    ///
    /// let model = ScriptedProvider::new([reply().text("Hello."), reply().text("Oslo.")]);
    /// let mut chat = Agent::builder(model).build()?.chat();
    /// assert_eq!(chat.send_blocking("Hello!")?.text(), "Hello.");
    /// assert_eq!(chat.send_blocking("Where are you?")?.text(), "Oslo.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails as [`send`](Self::send) does. Fails at once, and nothing is said, if it is called inside a running
    /// runtime, because it would block a thread of that runtime, and if no runtime can be started.
    pub fn send_blocking(&mut self, message: impl Into<Message>) -> Result<Reply, Stopped> {
        block_on(self.send(message), "`send_blocking`", "`chat.send(..).await`")
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("agent", &self.state.agent)
            .field("messages", &self.transcript().messages().len())
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Opens a conversation of a journal, or begins it. From now on, what happens is written into
    /// the journal: before a call starts that changes something, before the model is asked, and
    /// before the run returns.
    ///
    /// If a run was going on when its process ended, [`Chat::resume`] continues in the middle of
    /// it; a new message of the user ends it first. See [`journal`](harness_core::journal).
    ///
    /// ```
    /// use harness::{Agent, journal::MemoryJournal, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("Noted."), reply().text("It is 42.")]);
    /// let agent = Agent::builder(model).build()?;
    /// let journal = MemoryJournal::new();
    /// let mut chat = agent.open(&journal, "chat-17").await?;
    /// chat.send("My favourite number is 42.").await?;
    /// drop(chat);
    ///
    /// let mut chat = agent.open(&journal, "chat-17").await?;
    /// assert_eq!(chat.send("What is it?").await?.text(), "It is 42.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`] if the conversation is open here or in another process that
    /// is alive, with [`ErrorKind::Journal`] if it cannot be read, for example because a later
    /// version of the library has written it, and with [`ErrorKind::Configuration`] if the name is
    /// not valid. Nothing is changed then.
    pub async fn open<J>(&self, journal: &J, conversation: impl AsRef<str>) -> Result<Chat, Error>
    where
        J: Journal + Clone + 'static,
    {
        self.open_in(Arc::new(journal.clone()), conversation.as_ref()).await
    }

    /// Opens a conversation of a shared journal.
    pub(crate) async fn open_in(
        &self,
        journal: Arc<dyn Journal>,
        conversation: &str,
    ) -> Result<Chat, Error> {
        let state = open_conversation(self, journal, conversation).await?;
        Ok(Chat { state })
    }

    /// Begins a conversation of a journal with the given transcript. Each call in it that has no
    /// result gets the outcome *in doubt*, since nothing records how it ended.
    ///
    /// # Errors
    /// Fails as [`open`](Self::open) does, with [`ErrorKind::Conflict`] if the conversation has
    /// begun, and as [`Chat::save`] does if the transcript cannot be written.
    pub async fn import<J>(
        &self,
        journal: &J,
        conversation: impl AsRef<str>,
        mut transcript: Transcript,
    ) -> Result<Chat, Error>
    where
        J: Journal + Clone + 'static,
    {
        let mut chat = self.open(journal, conversation.as_ref()).await?;
        if !chat.state.machine.is_untouched() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the conversation `{}` has begun: import into a new one",
                    conversation.as_ref()
                ),
            ));
        }
        transcript.settle();
        chat.state.record(&Fact::Given { transcript })?;
        chat.state.save().await?;
        Ok(chat)
    }

    /// Answers calls that wait, in any conversation of a journal, even if another process has it
    /// open.
    pub fn inbox<J: Journal + Clone + 'static>(&self, journal: &J) -> Inbox {
        Inbox { agent: self.clone(), journal: Arc::new(journal.clone()) }
    }

    /// Runs one task to its end, in a new conversation. Nothing happens before the returned value
    /// is awaited.
    pub fn run(&self, message: impl Into<Message>) -> Run<'static> {
        Run::owned(ConversationState::new(self.clone()), message.into())
    }

    /// Begins a conversation that continues from one message to the next.
    pub fn chat(&self) -> Chat {
        Chat { state: ConversationState::new(self.clone()) }
    }

    /// Begins a conversation that continues the given transcript. Each call in it that has no
    /// result gets the outcome *in doubt*, since nothing records how it ended.
    pub fn chat_from(&self, transcript: Transcript) -> Chat {
        Chat { state: ConversationState::given(self.clone(), transcript) }
    }

    /// Runs one task to its end and blocks this thread meanwhile. Use it in scripts without a
    /// runtime.
    ///
    /// # Errors
    /// Fails as [`run`](Self::run) does. Fails at once if it is called inside a running runtime,
    /// because it would block a thread of that runtime, and if no runtime can be started.
    pub fn run_blocking(&self, message: impl Into<Message>) -> Result<Reply, Stopped> {
        block_on(self.run(message), "`run_blocking`", "`agent.run(..).await`")
    }
}
