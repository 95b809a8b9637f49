//! Answers to the calls of an open conversation, and its journal.

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

    /// Whether [`resume`](Self::resume) has something to continue: a run was going on when its
    /// process ended, calls wait, or the last run ended without an answer. If not, the conversation
    /// is new or the model has answered.
    pub fn can_resume(&self) -> bool {
        self.state.machine.is_going() || self.state.machine.resumption().is_ok()
    }

    /// The calls that wait for a decision, a result or an answer, in order. When each has one,
    /// [`resume`](Self::resume) continues the run. If the user says something instead, calls that
    /// wait for a decision do not run, and those that wait for a result or an answer are in doubt.
    pub fn waiting(&self) -> Vec<OpenCall> {
        waiting(&self.state.machine, self.state.conversation())
    }

    /// The calls whose outcome is not known, in order: the process that ran them has ended, and
    /// they may not run again. If you can find out what became of one, record it by
    /// [`settle`](Self::settle). With [`resume`](Self::resume), a tool that can find it out
    /// ([`reconcile`](macro@harness_core::tool)) is asked. The model is told that the others are in doubt.
    pub fn in_doubt(&self) -> Vec<OpenCall> {
        in_doubt(&self.state.machine, self.state.conversation())
    }

    /// Records a decision about a call that waits for one. The decision is written when this
    /// returns. [`resume`](Self::resume) continues the run.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`](harness_core::error::ErrorKind::NotWaiting), and changes nothing, if no call waits for this
    /// approval or it comes too late. Fails with [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the journal cannot be
    /// read, and changes nothing, or if the decision cannot be written: then the call is not among those that
    /// [wait](Self::waiting), and the next run tries again, unless an [`Inbox`](crate::Inbox) has answered the call meanwhile: that answer
    /// counts then. Fails with [`ErrorKind::Conflict`](harness_core::error::ErrorKind::Conflict) if another owner
    /// has continued the conversation.
    pub async fn decide(&mut self, approval: Approval) -> Result<(), Error> {
        self.state.catch_up_before_change().await?;
        self.state.resolve_call(&CallResolution::Decide(approval)).await
    }

    /// Records the outcome of a call that waits for a result or an answer, or that is in doubt. It
    /// is written when this returns. [`resume`](Self::resume) continues the run.
    ///
    /// # Errors
    /// Fails as [`decide`](Self::decide) does. Also fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if the
    /// answer to a tool's question is nested too deep.
    pub async fn settle(&mut self, settlement: Settlement) -> Result<(), Error> {
        self.state.catch_up_before_change().await?;
        self.state.resolve_call(&CallResolution::Settle(settlement)).await
    }

    /// Begins another conversation of the same journal with the first `facts` facts of this one.
    /// Results are kept, and no call runs again. In the new conversation, a call that was open at
    /// that fact counts as not started, or as in doubt if it had started. An *always* that was withdrawn later is
    /// withdrawn in the new conversation, too. The owner, title and tags
    /// of this conversation are not copied: [describe](harness_core::journal::Journal::describe) the new
    /// one.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if this conversation is not in a journal or has
    /// fewer facts, or if the name is not valid; with [`ErrorKind::Conflict`](harness_core::error::ErrorKind::Conflict) if the other
    /// conversation has begun; with [`ErrorKind::Busy`](harness_core::error::ErrorKind::Busy) if it is open elsewhere; and with
    /// [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the journal fails or a fact cannot be read.
    pub async fn fork(&mut self, conversation: impl AsRef<str>, facts: u64) -> Result<Self, Error> {
        let state = fork_conversation(&mut self.state, conversation.as_ref(), facts).await?;
        Ok(Self { state })
    }

    /// Replaces what the program has stored about the conversation: its owner, title and tags. It
    /// does what [`Journal::describe`](harness_core::journal::Journal::describe) does, also in a conversation that does not exist yet: the
    /// journal then creates it, and only this method tells the chat which one it is. Its first
    /// message is refused if somebody else has created it.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if the conversation is not in a journal, and as
    /// [`save`](Self::save) does.
    pub async fn describe(&mut self, metadata: &Metadata) -> Result<(), Error> {
        self.state.describe(metadata).await
    }

    /// How many facts the conversation has, including those that are not written yet: the number
    /// that [`fork`](Self::fork) takes.
    pub fn facts(&self) -> u64 {
        self.state.facts()
    }

    /// Writes all facts into the journal that are not there yet. The end of a run is written before
    /// the run returns, so this is useful after the future of a run was dropped; otherwise its
    /// facts are written with the next run. If the conversation was only opened, in the middle of a
    /// run, nothing is written yet.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the facts cannot be written, and with
    /// [`ErrorKind::Conflict`](harness_core::error::ErrorKind::Conflict) if another owner has continued the conversation.
    pub async fn save(&mut self) -> Result<(), Error> {
        self.state.save().await
    }
}
