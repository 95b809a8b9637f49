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

/// Adds messages of the user to a run while it goes on. The model gets them with its next request,
/// after the results of the open calls. A clone steers the same run, from any task or thread. Give it
/// to a run by [`Run::steering`](crate::Run::steering).
///
/// - A message does not interrupt the model's answer or a call. If the model has just completed its
///   answer, the run continues with the message instead of ending.
/// - A message that the run has received is a fact ([`Fact::Steered`](harness_core::journal::Fact::Steered)) and part of the transcript. If
///   the run has not received it, because it has ended, was stopped, was dropped, has failed or waits
///   for an approval, the message stays here: [`unheard`](Self::unheard) takes it out, or the next run
///   that is given this value receives it. If a journal cannot write a received message, the chat in
///   memory has it, and writes it with the next run or by [`Chat::save`](crate::Chat::save).
/// - Each message is received once. If several runs have the same value at the same time, one of them
///   receives it.
/// - The turns after it count like all others. If a limit of the run forbids another turn, the run ends
///   by that limit, and the message is in the transcript. An answer that the vendor has paused is sent
///   back unchanged, so a message is received only after the rest of that answer.
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
    /// A steering without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message for the run, or for the next one that is given this value.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`] if the message is not one that the user can send.
    pub fn say(&self, message: impl Into<Message>) -> Result<(), Error> {
        self.add(message.into().renewed())
    }

    /// Adds this very message, with its id.
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

    /// Takes the messages that no run has received, in order. No run will receive them.
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
