//! Messages of the user while a run goes on.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness_core::{
    error::{Error, ErrorKind},
    message::{Message, Role, Transcript},
};

/// Adds messages of the user to a run while it goes on. The model gets a message with its next request, after
/// the results of the open calls. Pass this value to a run by [`Run::steering`](crate::Run::steering). A clone,
/// in any task or thread, adds messages to the same run.
///
/// - A message does not interrupt the model's answer or a call. If the model has just completed its answer, the
///   run continues with the message instead of ending.
/// - A message that the run has taken in is a fact ([`Fact::Steered`](harness_core::journal::Fact::Steered)) and
///   part of the transcript. If the run ends, is stopped or dropped, fails, or waits for an approval before it
///   has taken the message in, the message stays in this value: [`unheard`](Self::unheard) takes it out, or the
///   next run with this value takes it in. If the journal cannot write the fact, the chat in memory has the
///   message, and writes it with the next run or by [`Chat::save`](crate::Chat::save).
/// - A run in the conversation of an agent in a call takes no message in, because only the call speaks there.
/// - Each message is taken in once. If several runs share this value, one of them takes the message in.
/// - The turns after a message count like all other turns. If a limit of the run forbids another turn, the run
///   ends by that limit, and the message is in the transcript. If the vendor has paused an answer, the answer
///   is first sent back unchanged, and the message is taken in after the rest of the answer.
///
/// ```
/// use harness::{
///     Agent,
///     agent::Steering,
///     testing::{ScriptedProvider, reply},
/// };
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([
///     reply().text("Both files are fine."),
///     reply().text("The first file is fine."),
/// ]);
/// let agent = Agent::builder(model).build()?;
/// let mut chat = agent.chat();
/// let steering = Steering::new();
/// let keyboard = steering.clone();
/// let reply = chat
///     .send("Check the files.")
///     .steering(&steering)
///     .on_event(move |event| {
///         if let harness::agent::Event::TurnStarted { turn: 1 } = event {
///             keyboard.say("Only the first file.").expect("a message of the user");
///         }
///     })
///     .await?;
/// assert_eq!(reply.turns(), 2);
/// assert!(steering.unheard().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Steering(Arc<Mutex<VecDeque<Message>>>);

impl Steering {
    /// A value without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message for the current run, or for the next run with this value.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`] if a user cannot send this message.
    pub fn say(&self, message: impl Into<Message>) -> Result<(), Error> {
        self.add(message.into().renewed())
    }

    /// Adds this message with its id.
    pub(crate) fn add(&self, message: Message) -> Result<(), Error> {
        if message.role() != Role::User {
            return Err(Error::new(
                ErrorKind::Transcript,
                "only the user can steer a run; say a message of `Role::User`",
            ));
        }
        message.check_sendable()?;
        Transcript::default().push(message.clone())?;
        self.messages().push_back(message);
        Ok(())
    }

    /// Removes and returns the messages that no run has taken in, in order.
    pub fn unheard(&self) -> Vec<Message> {
        self.messages().drain(..).collect()
    }

    pub(crate) fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steering").field("unheard", &self.messages().len()).finish()
    }
}
