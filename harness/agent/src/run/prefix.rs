//! The prefix of requests: instructions and tools. Some models accept their earlier reasoning only after an
//! unchanged prefix. This file handles the changes that the program makes to the prefix.

use std::{mem, sync::Arc};

use harness_schema::{SchemaCache, ToolSchema};

use super::{
    driver::RunDriver,
    sent_prefix::{PrefixPolicy, SentPrefix, is_same_but_for_words},
};
use crate::{
    Event, Machine,
    conversation::state::ConversationState,
    machine::prefix::{has_accepted_additions, messages_with_reasoning},
    model_notices::new_instructions,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Fact, Prefix},
    message::Message,
    provider::{Accumulator, OutputSchema, PrefixAddition, ReasoningBinding, Request},
    unwind::caught,
};

/// A change of the prefix that the current request has, and that is not recorded yet.
pub(crate) struct PrefixChange {
    fact: Fact,
    /// The conversation with this change.
    pub(crate) machine: Machine,
}

/// The prefix of the next request, if the model's reasoning is bound to it. If the prefix has changed, the
/// change is recorded. A change that leaves out reasoning, or that follows a refusal, is recorded only with an answer:
/// without an answer, the program may go back to the earlier prefix, and nothing is lost.
pub(crate) fn update_prefix(run: &mut RunDriver<'_>) -> Result<Option<Arc<SentPrefix>>, Error> {
    (run.request.prefix_change, run.request.is_without_prefix) = (None, false);
    let binding = run.state.reasoning_binding()?;
    if !binding.is_bound && !run.state.machine.is_reasoning_refused() {
        run.request.is_without_prefix = run.state.machine.prefix().is_some();
        return Ok(None);
    }
    let foreign = run.state.foreign_reasoning(&binding);
    let of = run.state.prefix_key();
    let known = run.state.requests.prefix.as_ref();
    let is_same = foreign.is_empty() && run.state.requests.refused_additions.is_none();
    let is_for = |sent: &&Arc<SentPrefix>| {
        is_same
            && sent.of == of
            && sent.form == binding.form
            && sent.answer_tool == binding.answer_tool
    };
    if let Some(sent) = known.filter(is_for) {
        return Ok(Some(Arc::clone(sent)));
    }
    // A vendor continues a paused answer only if the prefix is unchanged.
    let last = run.state.transcript().messages().last();
    let is_paused = last.is_some_and(Message::is_paused);
    match run.state.prefix_change(&binding, foreign).filter(|_| !is_paused) {
        Some(
            fact @ (Fact::PrefixSet { left_out: 1.., .. }
            | Fact::PrefixSet { refusal: Some(_), .. }),
        ) => {
            let mut machine = run.state.machine.clone();
            machine.apply(&fact)?;
            let recorded = mem::replace(&mut run.state.machine, machine);
            let sent = run.state.sent_prefix(&binding).map(Arc::new);
            let machine = mem::replace(&mut run.state.machine, recorded);
            run.request.prefix_change = Some(Box::new(PrefixChange { fact, machine }));
            return Ok(sent);
        }
        Some(fact) => record_prefix(run, &fact)?,
        None => {}
    }
    let sent = run.state.sent_prefix(&binding).map(Arc::new);
    // The prefix is not cached while an answer is paused, because a pending change is not in the prefix yet.
    run.state.requests.prefix = sent.clone().filter(|_| !is_paused);
    Ok(sent)
}

/// Records, before an answer, with which prefix it was made, if that is not recorded yet. Does nothing if the
/// model has not answered.
pub(crate) fn record_prefix_of_answer(run: &mut RunDriver<'_>) -> Result<(), Error> {
    if run.request.answer.as_ref().is_none_or(Accumulator::is_untouched) {
        return Ok(());
    }
    if mem::take(&mut run.request.is_without_prefix) {
        run.state.record(&Fact::PrefixUnused {})?;
    }
    match run.request.prefix_change.take() {
        Some(change) => record_prefix(run, &change.fact),
        None => Ok(()),
    }
}

/// Records that the vendor has refused reasoning. The current request was sent without this reasoning.
pub(crate) fn record_refused_reasoning(run: &mut RunDriver<'_>) -> Result<(), Error> {
    let Some(refusal) = run.request.reasoning_refused.take() else { return Ok(()) };
    let left_out = messages_with_reasoning(&run.state.machine);
    if left_out == 0 {
        return Ok(());
    }
    let prefix = match run.state.machine.prefix() {
        Some(_) => None,
        None => Some(Box::new(run.state.prefix_of_program(&run.state.reasoning_binding()?))),
    };
    let (appended, messages, change) = (false, Vec::new(), String::new());
    let refusal = Some(refusal);
    record_prefix(run, &Fact::PrefixSet { prefix, appended, left_out, messages, change, refusal })
}

/// Leaves out the reasoning that the model would refuse in a request for a summary.
pub(crate) fn leave_out_foreign_reasoning(run: &mut RunDriver<'_>) -> Result<(), Error> {
    let is_set = run.state.machine.prefix().is_some() && run.state.machine.can_edit_context();
    let binding = run.state.binding_with(None)?;
    let messages = run.state.foreign_reasoning(&binding);
    match is_set && binding.is_bound && !messages.is_empty() {
        true => record_prefix(run, &foreign_left_out(messages)),
        false => Ok(()),
    }
}

/// The fact that leaves out the reasoning of these messages alone.
fn foreign_left_out(messages: Vec<u64>) -> Fact {
    let left_out = u64::try_from(messages.len()).unwrap_or(u64::MAX);
    let (prefix, appended, change, refusal) = (None, false, MODEL.to_owned(), None);
    Fact::PrefixSet { prefix, appended, left_out, messages, change, refusal }
}

/// What has changed, if reasoning of another model is left out.
const MODEL: &str = "the model";

/// Whether a request may have failed because of the additions that were sent after messages. The same request is
/// then sent once with the additions as part of the prefix.
pub(crate) fn may_refuse_additions(run: &RunDriver<'_>, error: &Error) -> bool {
    // Servers have no common words for this refusal.
    let sent = match &run.request.prefix_change {
        Some(change) => &change.machine,
        None => &run.state.machine,
    };
    // A vendor continues its own answer only if nothing has changed.
    let is_paused = run.state.transcript().messages().last().is_some_and(Message::is_paused);
    let provider = run.state.agent.provider().name();
    let last = error.last();
    let is_refusal = last.kind() == ErrorKind::Api
        && matches!(last.status(), Some(400 | 422))
        && !last.is_out_of_quota();
    is_refusal
        && !is_paused
        && !sent.prefix_additions().is_empty()
        && (names_additions(error) || !has_accepted_additions(sent, provider))
}

/// Whether this error is likely to be about additions, although the server has accepted additions before.
fn names_additions(error: &Error) -> bool {
    const WORDS: [&str; 13] = [
        "role 'system'",
        "role \"system\"",
        "role `system`",
        "system role",
        "`system` message",
        "'developer'",
        "developer role",
        "tool_addition",
        "additional_tools",
        "anthropic-beta",
        "inline-tools-",
        "not found in 'tools' parameter",
        "any expected variant",
    ];
    WORDS.iter().any(|word| error.message().contains(word))
}

fn record_prefix(run: &mut RunDriver<'_>, fact: &Fact) -> Result<(), Error> {
    run.state.record(fact)?;
    if let Some(event) = changed(fact) {
        run.emit(event);
    }
    Ok(())
}
/// The event of this fact. `None` if nothing changes for the model.
pub(crate) fn changed(fact: &Fact) -> Option<Event<'_>> {
    let Fact::PrefixSet { appended, left_out, change, refusal, .. } = fact else { return None };
    let (appended, left_out, refusal) = (*appended, *left_out, refusal.as_deref());
    let is_change = appended && !change.is_empty() || left_out > 0;
    is_change.then_some(Event::PrefixChanged { change, appended, left_out, refusal })
}

impl ConversationState {
    /// The instructions and tools to which the model's next reasoning is bound: see [`ReasoningBinding`].
    fn reasoning_binding(&self) -> Result<ReasoningBinding, Error> {
        let wanted = || self.machine.wanted_schema(self.tools());
        let binding = self.binding_with(wanted())?;
        let Some(first) = self.machine.prefix().filter(|first| first.form != binding.form) else {
            return Ok(binding);
        };
        // A tool for the answer can be sent after the messages. The vendor's own format has to come before
        // the messages.
        let by_tool = match wanted().filter(|_| self.can_append(&binding)) {
            Some(wanted) => self.binding_with(Some(wanted.only_by_tool()))?,
            None => return Ok(binding),
        };
        Ok(if by_tool.form == first.form { by_tool } else { binding })
    }

    fn can_append(&self, binding: &ReasoningBinding) -> bool {
        binding.appends
            && self.requests.refused_additions.is_none()
            && !self.machine.refuses_additions(self.agent.provider().name())
    }

    fn binding_with(&self, wanted: Option<OutputSchema>) -> Result<ReasoningBinding, Error> {
        let tools = self.tools();
        let settings = self.options.as_ref().and_then(|options| options.settings.as_ref());
        let request = Request::new(self.machine.sent())?
            .with_tools(tools.schemas())
            .with_settings(settings)
            .with_answer(wanted.as_ref());
        let provider = self.agent.provider();
        Ok(caught(|| provider.reasoning_binding(&request)).unwrap_or_default())
    }

    /// The indexes of the messages whose reasoning this model would refuse, because another model has made it after
    /// other content.
    fn foreign_reasoning(&self, binding: &ReasoningBinding) -> Vec<u64> {
        self.machine.foreign_reasoning(self.agent.provider_and_model(), binding.wire)
    }

    fn prefix_key(&self) -> (usize, usize, u64) {
        let tools = std::ptr::from_ref(self.tools()).addr();
        (tools, self.machine.found().len(), self.machine.prefix_version())
    }

    /// The prefix with the instructions and tools that the program has now.
    fn prefix_of_program(&self, binding: &ReasoningBinding) -> Prefix {
        let system = self.agent.system().map(str::to_owned);
        let defers = binding.defers_tools && self.tools().search().is_some();
        let tools = self.tools_in_prefix(binding, defers).into_iter().cloned().collect();
        let found = defers.then(|| self.found_schemas().into_iter().cloned().collect());
        Prefix::new(system, tools, binding.form.clone()).with_found(found)
    }

    /// The tools that come before the messages. If `defers` is set, found tools are sent at the positions of
    /// the searches.
    fn tools_in_prefix<'a>(
        &'a self,
        binding: &'a ReasoningBinding,
        defers: bool,
    ) -> Vec<&'a ToolSchema> {
        let mut tools: Vec<&ToolSchema> = self.tools().schemas().iter().collect();
        if !defers {
            tools.extend(self.found_schemas());
        }
        tools.extend(&binding.answer_tool);
        tools
    }

    /// The tools that the model has found by searching and that are offered in this run.
    pub(crate) fn found_schemas(&self) -> Vec<&ToolSchema> {
        let tools = self.tools();
        let mut schemas = Vec::new();
        for found in self.machine.found() {
            for name in &found.tools {
                if let Some(tool) = tools.get(name).filter(|_| tools.is_searched(name)) {
                    schemas.push(tool.schema());
                }
            }
        }
        schemas
    }

    /// The fact about the change of the prefix with the next request. `None` if the prefix does not change.
    fn prefix_change(&self, binding: &ReasoningBinding, foreign: Vec<u64>) -> Option<Fact> {
        let refusal = self.requests.refused_additions.clone();
        let all = |left_out, change| Fact::PrefixSet {
            prefix: Some(Box::new(self.prefix_of_program(binding))),
            appended: false,
            left_out,
            messages: Vec::new(),
            change,
            refusal,
        };
        let left_out = || messages_with_reasoning(&self.machine);
        // The prefix to which earlier reasoning is bound is not known.
        let Some(first) = self.machine.prefix() else {
            return Some(all(left_out(), String::new()));
        };
        let (system, known) = self.machine.prefix_now();
        let (defers, sent) = (first.found.is_some(), first.found.as_deref().unwrap_or_default());
        let tools = self.tools_in_prefix(binding, defers);
        let is_other = |tool: &&ToolSchema| {
            let mut all = known.iter().copied().chain(sent);
            defers && !all.any(|known| known.name == tool.name)
        };
        let found = self.found_schemas();
        let is_found_as_before = !defers || found.iter().copied().eq(sent);
        let found: Vec<ToolSchema> = found.into_iter().filter(is_other).cloned().collect();
        let appends = self.can_append(binding);
        // Additions that a provider cannot send would be lost, and so would found tools.
        let moved: &[PrefixAddition] = if appends { &[] } else { self.machine.prefix_additions() };
        let has_new_form = first.form != binding.form || defers && !binding.defers_tools;
        let has_new_system = system != self.agent.system();
        let is_new = has_new_form || has_new_system || !moved.is_empty() || !foreign.is_empty();
        if !is_new && known == tools && is_found_as_before {
            return None;
        }
        let left_out = left_out();
        if left_out == 0 {
            return Some(all(0, String::new()));
        }
        let keeps = self.agent.prefix_policy() == PrefixPolicy::Keep;
        let is_known = |tool: &ToolSchema| {
            let mut all = known.iter().copied().chain(sent);
            let known = all.find(|known| known.name == tool.name);
            known.is_some_and(|known| known == tool || keeps && is_same_but_for_words(known, tool))
        };
        // What the model has needs no search, even if the program now lets it search for this tool.
        let own = self.tools();
        let had = known.iter().copied().chain(sent).filter(|tool| own.is_searched(&tool.name));
        let had = had.filter_map(|tool| Some(own.get(&tool.name)?.schema()));
        let had: Vec<&ToolSchema> = had.filter(|tool| !tools.contains(tool)).collect();
        let now = tools.into_iter().chain(had);
        let new: Vec<ToolSchema> = now.filter(|tool| !is_known(tool)).cloned().collect();
        // A found tool can only be sent in the form in which the search found the tool.
        let is_sent = |tool: &ToolSchema| sent.iter().any(|known| known.name == tool.name);
        let has_changed_found = new.iter().any(is_sent);
        let mut change = Vec::new();
        if has_new_system || moved.iter().any(|added| added.system.is_some()) {
            change.push("the instructions".to_owned());
        }
        let names: Vec<&str> = new.iter().map(|tool| &*tool.name).collect();
        let others = moved.iter().flat_map(|added| &added.tools).map(|tool| &*tool.name);
        let others = others.filter(|name| !names.contains(name));
        change.extend(names.iter().copied().chain(others).map(|name| format!("the tool `{name}`")));
        if has_new_form {
            change.push("the format of the answer, strict tools, or another provider".to_owned());
        }
        let change = change.join(", ");
        let is_taken_back = has_new_system && self.agent.system().is_none();
        let must_replace = !appends || has_new_form || is_taken_back || has_changed_found;
        if must_replace && !change.is_empty() {
            return Some(all(left_out, change));
        }
        if change.is_empty() && found.is_empty() {
            return (!foreign.is_empty()).then(|| foreign_left_out(foreign));
        }
        let system = self.agent.system().filter(|_| has_new_system).map(str::to_owned);
        let found = Some(found).filter(|found| !found.is_empty());
        let prefix = Prefix::new(system, new, String::new()).with_found(found);
        let model = if foreign.is_empty() { "" } else { MODEL };
        let change = [&*change, model].into_iter().filter(|it| !it.is_empty());
        let (change, messages) = (change.collect::<Vec<_>>().join(", "), foreign);
        let left_out = u64::try_from(messages.len()).unwrap_or(u64::MAX);
        let (prefix, appended, refusal) = (Some(Box::new(prefix)), true, None);
        Some(Fact::PrefixSet { prefix, appended, left_out, messages, change, refusal })
    }

    /// The prefix of the last request, for a summary request. Also returns whether earlier reasoning is still
    /// valid after the prefix: the form may differ, because a summary request never asks for a typed answer.
    pub(crate) fn prefix_so_far(&self) -> Option<(SentPrefix, bool)> {
        let binding = self.binding_with(None).ok()?;
        let is_bound = binding.is_bound || self.machine.is_reasoning_refused();
        let is_valid = self.machine.prefix()?.form == binding.form;
        is_bound.then(|| Some((self.sent_prefix(&binding)?, is_valid)))?
    }

    /// The prefix in the form in which it is sent.
    fn sent_prefix(&self, binding: &ReasoningBinding) -> Option<SentPrefix> {
        let first = self.machine.prefix()?;
        let (_, known) = self.machine.prefix_now();
        let tools = self.tools();
        let found = first.found.iter().flatten();
        let schemas: Vec<ToolSchema> = first.tools.iter().chain(found.clone()).cloned().collect();
        let forms = match schemas == tools.schemas() {
            true => tools.forms().clone(),
            false => SchemaCache::default(),
        };
        // A tool that the model already has needs no search.
        let is_offered = |name: &str| {
            let mut offered = tools.schemas().iter().chain(&binding.answer_tool);
            tools.is_searched(name) || offered.any(|tool| tool.name == name)
        };
        let known = known.into_iter().chain(found).map(|tool| &tool.name);
        let hidden = known.filter(|name| !is_offered(name));
        let in_place = |added: &PrefixAddition| {
            let system = added.system.as_deref().map(new_instructions);
            PrefixAddition::new(added.after.clone(), system, added.tools.clone())
        };
        Some(SentPrefix {
            of: self.prefix_key(),
            form: binding.form.clone(),
            answer_tool: binding.answer_tool.clone(),
            system: first.system.clone(),
            hidden: hidden.cloned().collect(),
            before_searches: first.found.is_some().then_some(first.tools.len()),
            schemas,
            forms,
            additions: self.machine.prefix_additions().iter().map(in_place).collect(),
        })
    }
}
