//! The instructions and tools of requests to a model that accepts its earlier reasoning only after the same
//! instructions and tools.

use std::{mem, sync::Arc};

use super::{
    call_states::cannot,
    indexes::Indexes,
    machine::Machine,
    window::{place, signed_reasoning},
};
use harness_core::{
    error::Error,
    journal::{Fact, Prefix},
    message::{Block, Message, Messages, Role},
    provider::PrefixAddition,
    tool::ToolSchema,
};

/// The prefix of requests, and the later additions to the prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixState {
    pub(super) first: Option<Arc<Prefix>>,
    /// The additions: changed instructions or tools, each with the id of the message after which it is sent.
    pub(super) added: Arc<Vec<PrefixAddition>>,
    /// Whether the vendor has refused reasoning of this conversation.
    pub(super) refused: bool,
    /// Whether the server may have refused additions: it has refused a request that had some, and has not
    /// answered yet.
    may_refuse_additions: bool,
    /// The provider whose server has refused additions, and has answered without them.
    refuses_additions: Option<String>,
    /// Whether the next answer was made without this prefix.
    pub(super) is_unused: bool,
    /// How often the prefix has changed.
    pub(super) version: u64,
}

impl PrefixState {
    /// Removes the additions that are not sent any more, because the vendor's own summary has replaced the messages
    /// before them. The reasoning after them is bound to the same prefix as before, so the prefix stays, and the next
    /// request adds what is missing.
    pub(super) fn cut(&mut self, kept: &Messages) {
        self.version = self.version.saturating_add(1);
        let is_sent = |added: &PrefixAddition| kept.iter().any(|it| it.id() == added.after);
        if !self.added.iter().all(is_sent) {
            Arc::make_mut(&mut self.added).retain(is_sent);
        }
    }

    /// Merges the additions into the prefix after a summary has replaced the messages before the additions. The
    /// version always changes, so that the next request gets the program's current definitions.
    pub(super) fn fold(&mut self) {
        self.version = self.version.saturating_add(1);
        if let Some(first) = self.first.as_ref().filter(|_| !self.added.is_empty()) {
            let tools = self.tools().into_iter().cloned().collect();
            let form = first.form.clone();
            let prefix = Prefix::new(self.system().map(str::to_owned), tools, form);
            self.first = Some(Arc::new(prefix.with_found(first.found.clone())));
            self.added = Arc::default();
        }
    }

    /// If the model has not answered since the last addition, moves this addition after the last of all messages,
    /// which the user has just added. Anthropic accepts such an addition only at the end or before an answer.
    pub(super) fn pass(&mut self, all: &Messages, next: &Message) {
        let Some(last) = self.added.last() else { return };
        let earlier = all.iter().rev().skip(1);
        let mut since = earlier.take_while(|message| message.id() != last.after);
        if next.role() != Role::User || since.any(is_said) {
            return;
        }
        if let Some(last) = Arc::make_mut(&mut self.added).last_mut() {
            last.after = next.id().to_owned();
            self.version = self.version.saturating_add(1);
        }
    }

    /// Records how the request without additions has ended: by an answer of this provider, or without an answer.
    pub(super) fn conclude_refusal(&mut self, answered_by: Option<&str>) {
        if mem::take(&mut self.may_refuse_additions) && answered_by.is_some() {
            self.refuses_additions = answered_by.map(str::to_owned);
        }
    }

    /// Whether this provider gets no additions.
    pub(super) fn refuses_additions(&self, provider: &str) -> bool {
        self.may_refuse_additions || self.refuses_additions.as_deref() == Some(provider)
    }

    pub(super) fn has_additions(&self) -> bool {
        !self.added.is_empty()
    }

    /// The current instructions: the last added instructions, or the instructions of the prefix.
    pub(super) fn system(&self) -> Option<&str> {
        let added = self.added.iter().rev().find_map(|it| it.system.as_deref());
        added.or_else(|| self.first.as_ref()?.system.as_deref())
    }

    /// The current tools, in the order in which they were added. A later tool replaces an earlier tool of the
    /// same name.
    pub(super) fn tools(&self) -> Vec<&ToolSchema> {
        let first = self.first.iter().flat_map(|first| &first.tools);
        let mut tools: Vec<&ToolSchema> = Vec::new();
        for tool in first.chain(self.added.iter().flat_map(|it| &it.tools)) {
            match tools.iter_mut().find(|known| known.name == tool.name) {
                Some(known) => *known = tool,
                None => tools.push(tool),
            }
        }
        tools
    }

    /// Adds these instructions and tools after the message with this id.
    fn add(&mut self, after: &str, prefix: &Prefix) {
        if let Some(first) = self.first.as_mut().filter(|_| prefix.found.is_some()) {
            let known = Arc::make_mut(first).found.get_or_insert_default();
            known.extend(prefix.found.iter().flatten().cloned());
        }
        if prefix.system.is_none() && prefix.tools.is_empty() {
            return;
        }
        let added = Arc::make_mut(&mut self.added);
        let (system, tools) = (prefix.system.clone(), prefix.tools.clone());
        match added.last_mut().filter(|last| last.after == after) {
            // The last addition follows the same message, so the two additions are merged.
            Some(last) => {
                last.system = system.or(last.system.take());
                last.tools.retain(|old| !tools.iter().any(|tool| tool.name == old.name));
                last.tools.extend(tools);
            }
            None => added.push(PrefixAddition::new(after.to_owned(), system, tools)),
        }
    }
}

/// Whether this message is an answer of the model that requests contain.
fn is_said(message: &Message) -> bool {
    let speaks = |block: &Block| match block {
        // A request to OpenAI contains the model's own refusal, as vendor data.
        Block::Text(text) if message.is_refused() => text.vendor().is_some(),
        Block::Text(text) => !text.text().trim().is_empty(),
        block => !message.is_refused() && !matches!(block, Block::Reasoning(_)),
    };
    message.role() == Role::Assistant && message.blocks().iter().any(speaks)
}

/// Whether this provider gave the last answer after the last addition. False if two messages of the user follow
/// that answer.
pub(crate) fn has_accepted_additions(machine: &Machine, provider: &str) -> bool {
    let Some(last) = machine.prefix.added.last() else { return false };
    let messages = machine.transcript.messages();
    let after: Vec<&Message> =
        messages.iter().skip_while(|message| message.id() != last.after).skip(1).collect();
    let Some(answer) = after.iter().rposition(|message| is_said(message)) else { return false };
    let of = after.get(answer).and_then(|answer| machine.provenances().get(answer.id()));
    let since = after.iter().skip(answer).filter(|message| message.role() == Role::User);
    of.is_some_and(|of| of.provider == provider) && since.count() < 2
}

/// How many messages are sent with reasoning.
pub(crate) fn messages_with_reasoning(machine: &Machine) -> u64 {
    let own = machine.vendor_sent_view();
    let views = [Some(machine.readable()), own].into_iter().flatten();
    let counts = views.map(|view| {
        view.messages()
            .iter()
            .skip(view.thinking_from)
            .filter(|it| signed_reasoning(it).next().is_some())
            .count()
    });
    u64::try_from(counts.max().unwrap_or(0)).unwrap_or(u64::MAX)
}

pub(super) fn set_prefix(machine: &mut Machine, fact: &Fact) -> Result<(), Error> {
    let Fact::PrefixSet { prefix, appended, left_out, messages, change, refusal } = fact else {
        return Ok(());
    };
    match prefix {
        None => machine.check_can_edit()?,
        Some(_) => machine.asking("the prefix cannot be set")?,
    }
    let (all, known) = (machine.transcript.messages().clone(), machine.transcript.messages().len());
    let mut left = Indexes::default();
    messages.iter().for_each(|at| left.insert(place(*at)));
    if left.last().is_some_and(|last| *last >= known) {
        return Err(cannot("reasoning of a message that does not exist cannot be left out"));
    }
    match (machine.transcript.messages().last().filter(|last| !last.is_paused()), prefix) {
        (Some(last), Some(prefix)) if *appended && machine.prefix.first.is_some() => {
            let after = last.id().to_owned();
            machine.prefix.add(&after, prefix);
        }
        (_, Some(prefix)) if !appended => {
            // The refused request may have had additions that no answer has recorded.
            machine.prefix.may_refuse_additions |=
                refusal.is_some() && (machine.prefix.has_additions() || !change.is_empty());
            machine.prefix.first = Some(Arc::new((**prefix).clone()));
            machine.prefix.added = Arc::default();
        }
        (_, None) if !appended && machine.prefix.first.is_some() => {}
        _ => return Err(cannot("there is no prefix to which something could be added")),
    }
    machine.prefix.refused |= refusal.is_some();
    machine.prefix.version = machine.prefix.version.saturating_add(1);
    if !left.is_empty() {
        machine.window.leave_out_reasoning_of(&all, &left);
    } else if *left_out > 0 {
        machine.window.leave_out_reasoning(&all);
    }
    Ok(())
}

/// Records that the next answer was made without the prefix.
pub(super) fn set_unused(machine: &mut Machine) -> Result<(), Error> {
    machine.asking("a prefix cannot be unused")?;
    if machine.prefix.first.is_none() {
        return Err(cannot("there is no prefix that an answer could be made without"));
    }
    machine.prefix.is_unused = true;
    Ok(())
}
