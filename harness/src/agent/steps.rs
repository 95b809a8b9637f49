//! The loop one action at a time, for drivers that are not the library's own: an engine that keeps
//! each action and runs it again elsewhere.

use std::sync::Arc;

use super::{
    Action, Agent, Chat, Outcome, durable::Durable, machine::limited, run::Run, sending::Opening,
};
use crate::{
    error::Error,
    journal::{Entry, Envelope, InterruptCause},
    message::{Message, ToolCall, Transcript},
    tool::Values,
    trace::new_run,
};

/// What comes next in a run: the machine's [`Action`], after the limits were asked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// The run stops here, for this cause.
    Stop(InterruptCause),
    /// Ask the model.
    Ask,
    /// Decide about these calls, one after the other.
    Decide {
        /// The calls.
        calls: Vec<ToolCall>,
        /// Calls that are too many for one answer: they do not run.
        surplus: Vec<ToolCall>,
    },
    /// Run these calls; those of one batch may run at the same time.
    Run(Vec<ToolCall>),
    /// Nothing, until the calls that run have their results.
    AwaitResults,
    /// Find out what became of these calls.
    FindOut(Vec<ToolCall>),
    /// Nothing in this run: calls wait for somebody outside of it.
    AwaitAnswers,
    /// Write down the truth about calls that will not run or were stopped.
    Settle,
    /// The run is over.
    Finish(Outcome),
}

impl Chat {
    /// Says what comes next: the machine says what, and the guard whether.
    pub(super) fn step(&mut self) -> Step {
        let Self { machine, guard, agent, .. } = self;
        let next = machine.next();
        let goes_on = matches!(next, Action::Decide(_) | Action::RunCalls(_) | Action::FindOut(_));
        if let Some(reached) = goes_on.then(|| guard.before_going_on()).flatten() {
            return Step::Stop(reached.into());
        }
        match next {
            Action::CallProvider => {
                let (name, model) = agent.answers();
                match guard.before_turn(name, model) {
                    Some(reached) => Step::Stop(reached.into()),
                    None => Step::Ask,
                }
            }
            Action::Decide(mut calls) => {
                let (decided, all) = machine.decided();
                let may = guard.of_one_answer(all).saturating_sub(decided).min(calls.len());
                let surplus = calls.split_off(may);
                match guard.before_calls(calls.len()) {
                    Some(reached) => Step::Stop(reached.into()),
                    None => Step::Decide { calls, surplus },
                }
            }
            Action::RunCalls(calls) => Step::Run(calls),
            Action::AwaitResults => Step::AwaitResults,
            Action::FindOut(calls) => Step::FindOut(calls),
            Action::AwaitAnswers => Step::AwaitAnswers,
            Action::Settle => Step::Settle,
            Action::Finish(outcome) => Step::Finish(outcome),
            // Not met: a run begins with a message.
            Action::AwaitUser => Step::Stop(InterruptCause::Program),
        }
    }
}

/// A conversation whose actions another driver does, one at a time: an engine that keeps what each
/// came to, and does it again elsewhere when a machine dies.
///
/// What an action comes to are facts. They take effect only when they are given back by
/// [`apply`](Self::apply), so that a driver which has kept them applies them without doing the action
/// again. The library's own driver does its actions by the same code.
///
/// ```
/// use harness::{Agent, agent::Step, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
/// let mut steps = agent.steps("chat-17", Vec::new())?;
/// steps.apply(steps.say("Say hello.".into()).await?)?;
/// loop {
///     let facts = match steps.step() {
///         Step::Ask => steps.ask().await?,
///         Step::Decide { calls, surplus } => steps.decide(&calls, &surplus).await?,
///         Step::Run(calls) => {
///             // An engine keeps what `start` says before it begins to `run`.
///             for call in &calls {
///                 let started = steps.start(call)?;
///                 steps.apply(started)?;
///                 if steps.has_started(call) {
///                     let facts = steps.run(call).await?;
///                     steps.apply(facts)?;
///                 }
///             }
///             continue;
///         }
///         Step::FindOut(calls) => steps.find_out(&calls).await?,
///         Step::Stop(cause) => steps.stop(cause)?,
///         Step::Settle => steps.settle()?,
///         _ => break,
///     };
///     steps.apply(facts)?;
/// }
/// assert_eq!(steps.transcript().messages().last().unwrap().text(), "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Steps {
    agent: Agent,
    name: Arc<str>,
    facts: Vec<Envelope>,
    chat: Chat,
    /// What its actions are told as: one run.
    traced: String,
}

impl Agent {
    /// Begins a conversation whose actions another driver does, from the facts that it has so far.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`](crate::ErrorKind::Journal) if the facts cannot be read.
    pub fn steps(
        &self,
        conversation: impl Into<Arc<str>>,
        facts: Vec<Envelope>,
    ) -> Result<Steps, Error> {
        let name = conversation.into();
        let mut chat = Chat::read(self.clone(), &facts)?;
        chat.durable = Some(Durable::collecting(Arc::clone(&name)));
        Ok(Steps { agent: self.clone(), name, facts, chat, traced: new_run() })
    }
}

impl Steps {
    /// The facts so far.
    pub fn facts(&self) -> &[Envelope] {
        &self.facts
    }

    /// What was said so far.
    pub fn transcript(&self) -> &Transcript {
        self.chat.transcript()
    }

    /// Lets facts take effect.
    ///
    /// # Errors
    /// Fails if they cannot follow what has happened.
    pub fn apply(&mut self, facts: Vec<Envelope>) -> Result<(), Error> {
        for envelope in facts {
            self.chat.read_fact(&envelope.entry()?, &envelope)?;
            self.facts.push(envelope);
        }
        Ok(())
    }

    /// Says what comes next.
    pub fn step(&mut self) -> Step {
        self.chat.step()
    }

    /// Whether a call has started and has no result.
    pub fn has_started(&self, call: &ToolCall) -> bool {
        self.chat.machine.has_started(call.id())
    }

    /// The user says something: a run begins. What the run before has left open does not run any more.
    ///
    /// # Errors
    /// Fails if a run cannot begin.
    pub async fn say(&self, message: Message) -> Result<Vec<Envelope>, Error> {
        self.open(Opening::Say(message.renewed())).await
    }

    /// A run that had stopped goes on.
    ///
    /// # Errors
    /// Fails if there is nothing to go on with.
    pub async fn resume(&self) -> Result<Vec<Envelope>, Error> {
        self.open(Opening::Resume).await
    }

    async fn open(&self, opening: Opening) -> Result<Vec<Envelope>, Error> {
        let anew = matches!(opening, Opening::Say(_));
        let mut chat = self.apart()?;
        if anew {
            let budget = chat.budget_of_run();
            chat.begins(budget, true);
        }
        let mut run = Run::one_action(&mut chat);
        run.begin_with(opening, anew, &Values::default()).await?;
        drop(run);
        Ok(collected(chat))
    }

    /// The process that did the actions is gone: calls that had started and may run again are to run
    /// again, and the others are in doubt.
    ///
    /// # Errors
    /// Fails if no run was going on.
    pub fn reopen(&self) -> Result<Vec<Envelope>, Error> {
        let mut chat = self.apart()?;
        let doubtful = chat.doubtful();
        chat.record(&Entry::Reopened { doubtful })?;
        Ok(collected(chat))
    }

    /// Asks the model: its answer, and the results of calls that only read and started while it spoke.
    /// If it fails, the facts say so and the run stops.
    ///
    /// # Errors
    /// Fails if the conversation cannot be sent.
    pub async fn ask(&self) -> Result<Vec<Envelope>, Error> {
        let mut chat = self.apart()?;
        let mut run = Run::one_action(&mut chat);
        run.ask().await?;
        match run.chat.machine.next() {
            Action::Settle => run.settle()?,
            _ if run.early.len() > 0 => run.call(&[]).await?,
            _ => {}
        }
        drop(run);
        Ok(collected(chat))
    }

    /// Decides about calls, one after the other. Those that a person decides about later wait.
    ///
    /// # Errors
    /// Fails if a fact cannot follow what has happened.
    pub async fn decide(
        &self,
        calls: &[ToolCall],
        surplus: &[ToolCall],
    ) -> Result<Vec<Envelope>, Error> {
        let mut chat = self.apart()?;
        let mut run = Run::one_action(&mut chat);
        run.refuse(surplus)?;
        run.decide(calls).await?;
        drop(run);
        Ok(collected(chat))
    }

    /// Checks once more whether an allowed call may run, and says that it starts. Keep these facts
    /// before the call [runs](Self::run). It [has not started](Self::has_started) if it waits, is to be
    /// decided anew, or has its result.
    ///
    /// # Errors
    /// Fails if a fact cannot follow what has happened.
    pub fn start(&self, call: &ToolCall) -> Result<Vec<Envelope>, Error> {
        let mut chat = self.apart()?;
        let agent = self.agent.clone();
        let mut run = Run::one_action(&mut chat);
        run.may_start(&agent, call)?;
        drop(run);
        Ok(collected(chat))
    }

    /// Runs a call that has started, to its end.
    ///
    /// Whoever repeats this must know whether it has begun before: a call that changes something may
    /// run once. [`reopen`](Self::reopen) says what becomes of one of which nobody knows.
    ///
    /// # Errors
    /// Fails if a fact cannot follow what has happened.
    pub async fn run(&self, call: &ToolCall) -> Result<Vec<Envelope>, Error> {
        let mut chat = self.apart()?;
        let mut run = Run::one_action(&mut chat);
        run.finish_started(call).await?;
        drop(run);
        Ok(collected(chat))
    }

    /// Finds out what became of calls in doubt, by their tools if they know how.
    ///
    /// # Errors
    /// Fails if a fact cannot follow what has happened.
    pub async fn find_out(&self, calls: &[ToolCall]) -> Result<Vec<Envelope>, Error> {
        let mut chat = self.apart()?;
        let mut run = Run::one_action(&mut chat);
        if let Some(cause) = run.find_out(calls).await? {
            run.interrupted(cause)?;
        }
        drop(run);
        Ok(collected(chat))
    }

    /// Stops the run.
    ///
    /// # Errors
    /// Fails if no run goes on.
    pub fn stop(&self, cause: InterruptCause) -> Result<Vec<Envelope>, Error> {
        let mut chat = self.apart()?;
        chat.record(&limited(cause))?;
        Ok(collected(chat))
    }

    /// Says the truth about calls that will not run or were stopped.
    ///
    /// # Errors
    /// Fails if a fact cannot follow what has happened.
    pub fn settle(&self) -> Result<Vec<Envelope>, Error> {
        let mut chat = self.apart()?;
        let mut run = Run::one_action(&mut chat);
        run.settle()?;
        drop(run);
        Ok(collected(chat))
    }

    /// The conversation as it is, for one action: what that comes to is kept by the driver, and takes
    /// effect here when it is applied.
    fn apart(&self) -> Result<Chat, Error> {
        let mut chat = Chat::read_apart(self.agent.clone(), &self.facts)?;
        chat.durable = Some(Durable::collecting(Arc::clone(&self.name)));
        chat.tracer.within(&self.traced);
        chat.tracer.meets(chat.machine.open_calls());
        Ok(chat)
    }
}

fn collected(mut chat: Chat) -> Vec<Envelope> {
    chat.durable.as_mut().map(Durable::take_pending).unwrap_or_default()
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steps")
            .field("conversation", &self.name)
            .field("facts", &self.facts.len())
            .finish_non_exhaustive()
    }
}
