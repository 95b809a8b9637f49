//! A conversation of any number of messages, and the methods by which an agent begins or opens a conversation.

use std::{fmt, sync::Arc};

use super::{blocking::block_on, inbox::Inbox, open::open_conversation, state::ConversationState};
use crate::{
    Action, Agent, Answer, Grant, Outcome, Provenance, Reply, Run, Stopped, output::typed::answered,
};
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
/// After a run, the transcript can always be sent to a model again and states the outcome of each call, even if
/// the run failed, was cancelled, panicked, or its future was dropped.
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
    /// Sends a message of the user and runs until the model has answered. Nothing happens before the returned
    /// value is awaited.
    ///
    /// Dropping the future stops the run. The transcript keeps all messages up to that moment and states the
    /// outcome of each call.
    pub fn send(&mut self, message: impl Into<Message>) -> Run<'_> {
        Run::borrowed(&mut self.state, message.into())
    }

    /// Continues a run that was stopped, or whose process has ended. The run continues after its last fact.
    /// Results of tools are kept, and the model is asked again. If the conversation is in a
    /// [journal](harness_core::journal), some calls are finished first: calls that had not started, calls that
    /// may be repeated, and calls that were answered meanwhile. If the model's answer broke off in the middle,
    /// the model gets a notice and continues there. Await the returned value for the reply.
    ///
    /// The earlier spending of the run still counts, so a run that has reached a limit stops again at that
    /// limit. Set [new limits](Run::limits) to count from zero.
    ///
    /// If the conversation has no message, or the model has already answered, the run fails with
    /// [`ErrorKind::Transcript`](harness_core::error::ErrorKind) and changes nothing.
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

    /// All messages so far. This transcript can always be sent in a request.
    pub fn transcript(&self) -> &Transcript {
        self.state.transcript()
    }

    /// The origin of the message with this id: provider, model and tokens. `None` for a message that is not an
    /// answer of a provider in this conversation: see [`Machine::provenance`](crate::Machine::provenance).
    pub fn provenance(&self, message: &str) -> Option<&Provenance> {
        self.state.machine.provenance(message)
    }

    /// The tokens of all runs of this conversation. If the tokens of some answers are not known, the numbers
    /// are lower bounds. The tokens of agents that tools run are only in [`budget`](Self::budget).
    pub fn usage(&self) -> Usage {
        self.state.spending.usage
    }

    /// Limits the total spending of all runs of the conversation: see [`Limits`]. Agents that the tools run
    /// count too, and so does earlier spending. A limit that `limits` does not set keeps its earlier value. By
    /// default a conversation has no limits.
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

    /// Shares a value with the tools in all runs of the conversation. A tool takes the value as a parameter
    /// [`State<T>`](harness_core::tool::State). The value replaces the agent's value of the same type. A run
    /// can replace the value by [`Run::state`]. The value is not written to a journal: set it again after
    /// opening or forking the conversation.
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

    /// The spending of all runs of the conversation so far, and the rest of its limits. Includes the spending
    /// of agents that the tools run. The returned value can be kept and read during a run. For a single run,
    /// see [`Run::budget`] and [`Reply::spent`](crate::Reply::spent).
    pub fn budget(&self) -> Budget {
        self.state.budget()
    }

    /// The grants in this conversation: what people have allowed by *always*, in the order of their answers. If
    /// a tool call runs an agent, an *always* for a call of that agent holds only in the agent's own
    /// conversation, `<caller>/<call id>`. To read or [`revoke`](Self::revoke) such a grant, open that
    /// conversation with [`Agent::open`] while the caller does not run the agent.
    pub fn grants(&self) -> &[Grant] {
        &self.state.approvals.grants
    }

    /// Withdraws a grant, which a person has given by *always*. Returns whether there was such a grant. From
    /// now on, each call in the scope of the grant needs a new decision, even if the grant has allowed the call
    /// but the call has not started. A call of the grant that started in an earlier process, or whose agent has
    /// waited, does not run again and is now [in doubt](Self::in_doubt). The call for which the person gave the
    /// grant may still run. In a conversation in a journal, the next run writes the change, or
    /// [`save`](Self::save) writes the change at once. If the process ends before the write, the grant still
    /// holds.
    pub fn revoke(&mut self, grant: &Grant) -> bool {
        self.state.revoke(grant)
    }

    /// The calls of this conversation that still run, although the library has asked them to stop. When such a
    /// call has ended, the next run reports it by [`Event::ToolEnded`](crate::Event::ToolEnded) and sends the
    /// model a notice.
    pub fn still_running(&self) -> Vec<StillRunning> {
        still_running_in(self.state.id())
    }

    /// The agent of this conversation.
    pub fn agent(&self) -> &Agent {
        &self.state.agent
    }

    /// The last answer of the conversation as a value of the type `T`, if the answer was accepted. Use this
    /// method if a program ended before it could take the [answer](Run::answer) of a run.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`] if the last run has not ended with an answer, or if the answer is
    /// not a value of the type `T`.
    pub fn answered<T: Answer>(&self) -> Result<T, Error> {
        answered(&self.state.machine)
    }

    /// Sends a message of the user, as [`send`](Self::send) does, and blocks this thread until the reply. Use
    /// this method in scripts without a runtime.
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
    /// Fails as [`send`](Self::send) does. Also fails, and sends nothing, if no runtime can be started, or if
    /// the method is called inside a running runtime, because the call would block that runtime.
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
    /// Opens a conversation of a journal, or begins it. From now on, facts are written into the journal: before
    /// a call with side effects starts, before the model is asked, and before a run returns.
    ///
    /// If a run was going on when its process ended, [`Chat::resume`] continues that run. A new message of the
    /// user first ends that run. See [`journal`](harness_core::journal).
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
    /// Fails with [`ErrorKind::Busy`] if the conversation is open in this process or in another running
    /// process. Fails with [`ErrorKind::Journal`] if the conversation cannot be read, for example because a
    /// later version of the library has written it. Fails with [`ErrorKind::Configuration`] if the name is not
    /// valid. Nothing is changed then.
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
        let mut state = open_conversation(self, journal, conversation).await?;
        if state.machine.next() == Action::Finish(Outcome::Answered) {
            state.spending.rest();
        }
        Ok(Chat { state })
    }

    /// Begins a conversation of a journal with the given transcript. Each call in the transcript that has no
    /// result gets the outcome *in doubt*, since nothing records how the call ended.
    ///
    /// # Errors
    /// Fails as [`open`](Self::open) does, with [`ErrorKind::Conflict`] if the conversation already has facts,
    /// and as [`Chat::save`] does if the transcript cannot be written.
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

    /// The inbox of a journal, which answers waiting calls in any conversation. Another process may have the
    /// conversation open.
    pub fn inbox<J: Journal + Clone + 'static>(&self, journal: &J) -> Inbox {
        Inbox { agent: self.clone(), journal: Arc::new(journal.clone()) }
    }

    /// Runs one task to its end, in a new conversation. Nothing happens before the returned value is awaited.
    pub fn run(&self, message: impl Into<Message>) -> Run<'static> {
        Run::owned(ConversationState::new(self.clone()), message.into())
    }

    /// Begins a conversation that is kept in memory and continues from one message to the next.
    pub fn chat(&self) -> Chat {
        Chat { state: ConversationState::new(self.clone()) }
    }

    /// Begins a conversation that continues the given transcript. Each call in the transcript that has no
    /// result gets the outcome *in doubt*, since nothing records how the call ended.
    pub fn chat_from(&self, transcript: Transcript) -> Chat {
        Chat { state: ConversationState::given(self.clone(), transcript) }
    }

    /// Runs one task to its end and blocks this thread meanwhile. Use this method in scripts without a runtime.
    ///
    /// # Errors
    /// Fails as [`run`](Self::run) does. Also fails, and sends nothing, if no runtime can be started, or if the
    /// method is called inside a running runtime, because the call would block that runtime.
    pub fn run_blocking(&self, message: impl Into<Message>) -> Result<Reply, Stopped> {
        block_on(self.run(message), "`run_blocking`", "`agent.run(..).await`")
    }
}
