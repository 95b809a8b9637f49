//! Writes the facts of a conversation, and applies the answers that other writers have written meanwhile.

use super::{
    durable::{WriteOutcome, guarded, is_answer},
    spilling::LargeResultStore,
    state::ConversationState,
};
use crate::{
    OpenCall,
    approval::{CallResolution, is_over, waiting},
    machine::folding::fold_facts,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Awaited, Envelope, Fact, Metadata, now},
    unwind::caught,
};

impl ConversationState {
    /// Records a decision, an outcome or the end of a deadline for an open call, and writes it.
    pub(crate) async fn resolve_call(&mut self, resolution: &CallResolution) -> Result<(), Error> {
        let resolved = resolution.resolve(&self.machine, self.agent.tools())?;
        let (is_result, spilling) = (resolved.is_result(), LargeResultStore::of(self));
        let mut fact = resolved.into_fact(&self.machine, self.agent.tools(), &spilling).await;
        if !self.machine.waiting().any(|(call, _)| call.id() == resolution.call()) {
            // Only this fact records what the agents of the call in doubt have spent.
            if let Fact::CallSettled { spent, .. } | Fact::CallCleared { spent, .. } = &mut fact {
                *spent = self.spending.agents.take_unstated(resolution.call(), None);
            }
            // Other processes are not allowed to answer a call in doubt, so no answer has to be read first.
            self.record(&fact)?;
            self.has_waited = true;
            return self.save().await;
        }
        if is_result {
            // While a large result was stored, another process may have answered the call.
            self.catch_up_before_change().await?;
            resolution.check(&self.machine, self.agent.tools())?;
        }
        self.write_resolution(&fact, resolution).await
    }

    /// Writes an answer to a call, and then applies the answer. Another process may have answered the call
    /// first, so the answer is checked against the facts in the journal. If the write fails or the future is
    /// dropped, the answer is written with the next facts.
    async fn write_resolution(
        &mut self,
        fact: &Fact,
        resolution: &CallResolution,
    ) -> Result<(), Error> {
        let elapsed = self.spending.elapsed();
        let has_journal = self.durable.as_ref().is_some_and(|it| it.journal().is_some());
        if !has_journal {
            return self.record(fact);
        }
        if self.is_behind() {
            self.only_looked_at = false;
            if let Err(error) = self.write_down().await {
                self.machine.apply(fact)?;
                if let Some(durable) = &mut self.durable {
                    durable.add(fact, elapsed)?;
                }
                self.note_unwritten(fact);
                return Err(error);
            }
            resolution.check(&self.machine, self.agent.tools())?;
        }
        loop {
            self.machine.clone().apply(fact)?;
            let Some(durable) = &mut self.durable else { return Ok(()) };
            durable.add(fact, elapsed)?;
            self.note_append();
            let mut taken_in = TakenIn { state: self, fact: Some(fact) };
            let Some(durable) = &mut taken_in.state.durable else { return Ok(()) };
            let written = durable.write().await;
            let Ok(WriteOutcome::Behind(facts)) = written else {
                drop(taken_in);
                let written = written.map(|_| true);
                self.append_ended(written.as_ref().copied());
                return written.map(drop);
            };
            // An append that failed may have written the answer, and other writers may have added facts after
            // it.
            let is_written = durable.take_pending().is_empty();
            if !is_written {
                taken_in.fact = None;
            }
            drop(taken_in);
            let news = self.apply_external(facts).await.map(|()| is_written);
            self.append_ended(news.as_ref().copied());
            if news? {
                return Ok(());
            }
            resolution.check(&self.machine, self.agent.tools())?;
        }
    }

    /// Reads and applies the answers that other writers have written meanwhile.
    pub(crate) async fn take_external_answers(&mut self) -> Result<(), Error> {
        if self.machine.waiting().next().is_none() {
            return Ok(());
        }
        let Some(durable) = &mut self.durable else { return Ok(()) };
        let news = durable.read_external_facts().await?;
        let taken_in = self.apply_external(news).await;
        self.trace_loss();
        taken_in
    }

    /// Applies facts by which other writers have answered waiting calls. In the journal, these facts come
    /// before the pending facts.
    pub(crate) async fn apply_external(&mut self, envelopes: Vec<Envelope>) -> Result<(), Error> {
        match envelopes.is_empty() {
            true => Ok(()),
            // Boxed, because this future is large and rarely needed.
            false => Box::pin(self.apply_answers(envelopes)).await,
        }
    }

    async fn apply_answers(&mut self, envelopes: Vec<Envelope>) -> Result<(), Error> {
        self.apply_written_answers();
        let Some(durable) = &mut self.durable else { return Ok(()) };
        let facts: Result<Vec<Fact>, Error> = envelopes.iter().map(Envelope::fact).collect();
        let Ok(facts) = facts else { return Err(durable.mark_lost()) };
        if !facts.iter().all(is_answer) {
            return Err(durable.mark_lost());
        }
        if durable.is_behind() {
            let Some(journal) = durable.journal().cloned() else { return Ok(()) };
            // The pending facts are kept until they were checked: this future may be dropped, and a journal
            // that cannot be read now may be readable later.
            let mut read = guarded(|| journal.read(durable.id(), 0)).await?;
            let known = durable.written().saturating_add(envelopes.len() as u64);
            read.facts.truncate(usize::try_from(known).unwrap_or(usize::MAX));
            let machine =
                fold_facts(&read.facts).await.and_then(|machine| durable.apply_pending(machine));
            let Ok(machine) = machine else { return Err(durable.mark_lost()) };
            durable.add_known(&envelopes);
            // If the journal has another answer to a call, the pending answer was dropped and does not count as
            // unwritten any more.
            self.unwritten.retain(|it| durable.pending().contains(it));
            for (fact, envelope) in facts.iter().zip(&envelopes) {
                self.fold_beside_machine(fact);
                self.trace_external_fact(fact, envelope.at);
            }
            self.machine = machine;
            return Ok(());
        }
        durable.add_known(&envelopes);
        for (fact, envelope) in facts.iter().zip(&envelopes) {
            if self.fold(fact).is_err() {
                let Some(durable) = &mut self.durable else { return Ok(()) };
                return Err(durable.mark_lost());
            }
            self.trace_external_fact(fact, envelope.at);
        }
        Ok(())
    }

    /// Keeps an answer that only the machine has applied. The journal may or may not have this answer.
    fn note_unwritten(&mut self, fact: &Fact) {
        self.only_looked_at = false;
        let pending = self.durable.as_ref().and_then(|durable| durable.pending().last());
        self.unwritten.extend(pending.cloned());
        // If another process answers the call first, that answer ends the wait. So the wait times are restored.
        let wait_times = self.wait_times.clone();
        self.tell(fact);
        self.wait_times = wait_times;
    }

    /// Applies the unwritten answers that are written by now to everything except the machine, which has
    /// already applied these answers.
    pub(crate) fn apply_written_answers(&mut self) {
        let Some(durable) = self.durable.as_ref().filter(|_| !self.unwritten.is_empty()) else {
            return;
        };
        let (still, written) =
            self.unwritten.drain(..).partition(|it| durable.pending().contains(it));
        self.unwritten = still;
        let written: Vec<Envelope> = written;
        for fact in written.iter().filter_map(|it| it.fact().ok()) {
            self.wait_times.note(&fact, now);
            self.fold_beside_machine(&fact);
        }
    }

    /// Ends the waits whose deadline has passed, unless they were answered in time.
    pub(crate) async fn expire(&mut self) -> Result<(), Error> {
        loop {
            let over = self.machine.waiting().find(|(_, wait)| is_over(wait));
            let Some((call, _)) = over else { return Ok(()) };
            let resolution = CallResolution::Expire(call.id().to_owned());
            match Box::pin(self.resolve_call(&resolution)).await {
                Err(error) if error.kind() == ErrorKind::NotWaiting => {}
                ended => ended?,
            }
        }
    }

    /// Whether a call waits for an agent that could not continue.
    pub(crate) fn has_cut_off_child(&self) -> bool {
        self.machine
            .waiting()
            .any(|(_, wait)| matches!(wait.awaited, Awaited::Agent { cut_off: true, .. }))
    }

    /// Passes the waiting calls to the program's hook. The caller has to write the waits before it calls this
    /// method.
    pub(crate) fn tell_waiting(&self) {
        let told = self.waiting_hook().zip(self.conversation());
        let Some((hook, conversation)) = told else { return };
        let nobody_has_to = |open: &OpenCall| {
            let wait = open.wait.as_ref();
            wait.is_some_and(|it| matches!(it.awaited, Awaited::Agent { cut_off: true, .. }))
        };
        for open in waiting(&self.machine, self.conversation())
            .into_iter()
            .filter(|open| !nobody_has_to(open))
        {
            let _ = caught(|| hook(conversation, &open));
        }
    }

    /// The number of facts in the journal when this process last wrote or read it.
    pub(crate) fn written(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.written())
    }

    /// Writes all pending facts, then reads and applies the answers that other writers have written meanwhile.
    pub(crate) async fn catch_up(&mut self) -> Result<(), Error> {
        self.write_down().await?;
        self.take_external_answers().await
    }

    /// Does the same as [`catch_up`](Self::catch_up), before a change that may be refused. If nothing has
    /// happened since the conversation was opened, the fact of the opening is written later, together with the
    /// change.
    pub(crate) async fn catch_up_before_change(&mut self) -> Result<(), Error> {
        self.save().await?;
        self.take_external_answers().await
    }

    pub(crate) async fn write_down(&mut self) -> Result<(), Error> {
        if !self.is_behind() {
            return Ok(());
        }
        self.note_append();
        let written = self.write_all().await.map(|()| true);
        self.append_ended(written.as_ref().copied());
        written.map(|_| ())
    }

    async fn write_all(&mut self) -> Result<(), Error> {
        loop {
            let Some(durable) = self.durable.as_mut().filter(|durable| durable.is_behind()) else {
                return Ok(());
            };
            match durable.write().await? {
                WriteOutcome::All => return Ok(()),
                WriteOutcome::Behind(facts) => self.apply_external(facts).await?,
            }
        }
    }

    /// Whether some facts are not written yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.is_behind())
    }

    /// Whether another owner has continued the conversation, so that no more facts can be written here.
    pub(crate) fn is_lost(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.is_lost())
    }

    /// The name of the conversation in its journal. `None` if it has no journal.
    pub(crate) fn conversation(&self) -> Option<&str> {
        self.durable.as_ref().map(|durable| &**durable.id())
    }

    /// Replaces the metadata of the conversation in the journal.
    pub(crate) async fn describe(&mut self, metadata: &Metadata) -> Result<(), Error> {
        self.save().await?;
        let Some(durable) = self.durable.as_mut().filter(|it| it.journal().is_some()) else {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the conversation is in no journal that could describe it: open it with `agent.open(&journal, ..)`",
            ));
        };
        let described = durable.describe(metadata).await;
        self.trace_loss();
        described
    }

    /// How many facts there are, written or pending. 0 without a journal.
    pub(crate) fn facts(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.count())
    }

    /// Writes the pending facts, unless the conversation was only opened and nothing else has happened.
    pub(crate) async fn save(&mut self) -> Result<(), Error> {
        match self.only_looked_at {
            true => Ok(()),
            false => self.write_down().await,
        }
    }
}

/// Applies `fact` when this value is dropped. `fact` is set to `None` if another answer was used instead.
struct TakenIn<'a> {
    state: &'a mut ConversationState,
    fact: Option<&'a Fact>,
}

impl Drop for TakenIn<'_> {
    fn drop(&mut self) {
        let Some(fact) = self.fact else { return };
        // The fact was applied to a copy of the machine before, so this does not fail.
        if self.state.machine.apply(fact).is_err() {
            return;
        }
        match self.state.is_behind() {
            true => self.state.note_unwritten(fact),
            false => {
                self.state.only_looked_at = false;
                self.state.fold_beside_machine(fact);
                self.state.tell(fact);
            }
        }
    }
}
