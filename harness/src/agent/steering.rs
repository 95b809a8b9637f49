//! What the user says while a run goes on.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Action, Event, Outcome, run::Run};
use crate::{
    error::{Error, ErrorKind},
    journal::Entry,
    message::{Message, Role, Transcript},
};

/// Steers a run while it goes on: what is said here is told to the model before it is asked again, after
/// the results of the calls that are open. A clone steers the same run, from any task or thread. Give it to
/// a run by [`Sending::steering`](super::Sending::steering).
///
/// - A message does not break off the model's answer or a call. If the model has just finished its answer,
///   the run goes on with the message instead of ending.
/// - A message that was heard is a fact ([`Entry::Steered`]) and part of the transcript. One that was not
///   heard, because the run has ended, was stopped, dropped, failed or waits for an approval, is kept here:
///   [`unheard`](Self::unheard) gives it back, or the next run that is given this value hears it.
///   If a journal does not take a message that was heard, the chat in memory has it, and writes it with the
///   next run or by [`Chat::save`](super::Chat::save).
/// - Each message is heard once. Of several runs that are given one value at the same time, one hears it.
/// - Turns that follow count as all others do. If a limit of the run forbids another turn, the run ends by
///   that limit, and the message is in the transcript. An answer that the vendor has paused goes back as it
///   is, so a message is heard after the rest of it.
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
    /// Nothing was said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says something to the run, or to the next one that is given this value.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`] if it is no message that the user can send.
    pub fn say(&self, message: impl Into<Message>) -> Result<(), Error> {
        self.add(message.into().renewed())
    }

    /// Says this very message, which is told from others by its id.
    pub(super) fn add(&self, message: Message) -> Result<(), Error> {
        if message.role() != Role::User {
            return Err(Error::new(
                ErrorKind::Transcript,
                "only the user can steer a run; say a message of `Role::User`",
            ));
        }
        message.says_something()?;
        Transcript::default().push(message.clone())?;
        self.messages().push_back(message);
        Ok(())
    }

    /// Takes back what no run has heard, in the order in which it was said. No run hears it afterwards.
    pub fn unheard(&self) -> Vec<Message> {
        self.messages().drain(..).collect()
    }

    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steering").field("unheard", &self.messages().len()).finish()
    }
}

impl Run<'_> {
    /// Writes down what the user has said meanwhile, where the model can be told of it.
    pub(super) fn hear_steering(&mut self) -> Result<(), Error> {
        while self.is_steered() {
            if let Action::Finish(_) = self.chat.machine.next() {
                // Of an answer that is not kept, calls may have started early.
                self.settle()?;
            }
            let Some((message, steering)) = self.said_meanwhile() else { break };
            let fact = Entry::Steered { message: message.clone() };
            if let Err(error) = self.chat.record(&fact) {
                steering.messages().push_front(message);
                return Err(error);
            }
            self.emit(Event::Steered { message: &message });
        }
        Ok(())
    }

    /// Takes the next message that was said meanwhile.
    fn said_meanwhile(&self) -> Option<(Message, Steering)> {
        let mut steering = self.chat.own.iter().flat_map(|own| own.steering());
        steering.find_map(|by| Some((by.messages().pop_front()?, by.clone())))
    }

    /// Whether the user has said something that the run would go on with.
    pub(super) fn is_steered(&self) -> bool {
        let mut steering = self.chat.own.iter().flat_map(|own| own.steering());
        steering.any(|steering| !steering.messages().is_empty())
            && self.chat.machine.hears()
            && !self.enough()
            && !self.halt.is_cancelled()
    }

    /// Whether a run that has come to this end goes on, since the user has said something meanwhile.
    pub(super) fn goes_on_after(&self, outcome: Outcome) -> bool {
        outcome == Outcome::Answered && self.is_steered()
    }
}
