//! The methods of [`Chat`] that answer calls of an open conversation or use its journal.

use super::{chat::Chat, fork::fork_conversation};
use crate::{
    OpenCall, Settlement,
    approval::{CallResolution, in_doubt, waiting},
};
use harness_core::{error::Error, journal::Metadata, policy::Approval};

impl Chat {
    /// The name of the conversation in its journal.
    pub fn conversation(&self) -> Option<&str> {
        self.state.conversation()
    }

    /// Whether [`resume`](Self::resume) has something to continue: a run was going on when its process ended,
    /// calls wait, or the last run ended without an answer. If this is false, the conversation is new or the
    /// model has answered.
    pub fn can_resume(&self) -> bool {
        self.state.machine.is_going() || self.state.machine.resumption().is_ok()
    }

    /// The calls that wait for a decision, a result or an answer, in order. When all are answered,
    /// [`resume`](Self::resume) continues the run. If the user sends a new message instead, calls that wait for
    /// a decision do not run, and calls that wait for a result or an answer are in doubt.
    pub fn waiting(&self) -> Vec<OpenCall> {
        waiting(&self.state.machine, self.state.conversation())
    }

    /// The calls whose outcome is not known, in order. The process that ran such a call has ended, and the call
    /// must not run again. A program that finds out the outcome records it by [`settle`](Self::settle). If a
    /// tool can [`reconcile`](macro@harness_core::tool), [`resume`](Self::resume) lets the tool find out the
    /// outcomes of its calls. If the outcome of a call stays unknown, the model gets a notice that the call is
    /// in doubt.
    pub fn in_doubt(&self) -> Vec<OpenCall> {
        in_doubt(&self.state.machine, self.state.conversation())
    }

    /// Records a decision about a call that waits for a decision. The decision is in the journal when this
    /// method returns. [`resume`](Self::resume) continues the run.
    ///
    /// # Errors
    /// Fails, and changes nothing:
    /// - with [`ErrorKind::NotWaiting`](harness_core::error::ErrorKind::NotWaiting) if no call waits for this
    ///   approval or the deadline has passed,
    /// - with [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the journal cannot be read.
    ///
    /// Also fails with the journal's error if the decision cannot be written. In this case the call does not
    /// [wait](Self::waiting) any more, and the next run writes the decision. If an [`Inbox`](crate::Inbox) has
    /// answered the call meanwhile, the answer of the inbox counts. Fails with
    /// [`ErrorKind::Conflict`](harness_core::error::ErrorKind::Conflict) if another owner has continued the
    /// conversation.
    pub async fn decide(&mut self, approval: Approval) -> Result<(), Error> {
        self.state.catch_up_before_change().await?;
        self.state.resolve_call(&CallResolution::Decide(approval)).await
    }

    /// Records the outcome of a call that is in doubt or waits for a result or an answer. The outcome is in the
    /// journal when this method returns. [`resume`](Self::resume) continues the run.
    ///
    /// # Errors
    /// Fails as [`decide`](Self::decide) does. Also fails with
    /// [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if the answer to a tool's question
    /// is nested too deep or a name in it begins with `$serde_json::private::`.
    pub async fn settle(&mut self, settlement: Settlement) -> Result<(), Error> {
        self.state.catch_up_before_change().await?;
        self.state.resolve_call(&CallResolution::Settle(settlement)).await
    }

    /// Begins another conversation of the same journal with the first `facts` facts of this conversation.
    /// Results are kept, and no call runs again. A call that was open at the fork point becomes a call that has
    /// not started, or a call in doubt if it had started. If this conversation has withdrawn an *always* after
    /// the fork point, the *always* is also withdrawn in the new conversation. The owner, title and tags of
    /// this conversation are not copied: [describe](harness_core::journal::Journal::describe) the new
    /// conversation.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if this
    /// conversation is not in a journal or has fewer facts, or if the name is not valid. Fails with
    /// [`ErrorKind::Conflict`](harness_core::error::ErrorKind::Conflict) if the other conversation already has
    /// facts, and with [`ErrorKind::Busy`](harness_core::error::ErrorKind::Busy) if the other conversation is
    /// open elsewhere. Fails with [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the
    /// journal fails or a fact cannot be read.
    pub async fn fork(&mut self, conversation: impl AsRef<str>, facts: u64) -> Result<Self, Error> {
        let state = fork_conversation(&mut self.state, conversation.as_ref(), facts).await?;
        Ok(Self { state })
    }

    /// Replaces the metadata of the conversation: its owner, title and tags. Like
    /// [`Journal::describe`](harness_core::journal::Journal::describe), this method creates the conversation if
    /// it does not exist yet. If the conversation is open here, use this method and not `Journal::describe`: if
    /// other code creates the conversation meanwhile, the first message is refused.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if the conversation
    /// is not in a journal, and as [`save`](Self::save) does.
    pub async fn describe(&mut self, metadata: &Metadata) -> Result<(), Error> {
        self.state.describe(metadata).await
    }

    /// How many facts the conversation has, including the facts that are not written yet. This is the number
    /// that [`fork`](Self::fork) takes.
    pub fn facts(&self) -> u64 {
        self.state.facts()
    }

    /// Writes all facts that are not in the journal yet. A run writes its end before it returns. So this method
    /// is useful after the future of a run was dropped: without this method, the next run writes these facts.
    /// If nothing has happened since the conversation was opened, nothing is written.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the facts cannot be
    /// written, and with [`ErrorKind::Conflict`](harness_core::error::ErrorKind::Conflict) if another owner has
    /// continued the conversation.
    pub async fn save(&mut self) -> Result<(), Error> {
        self.state.save().await
    }
}
