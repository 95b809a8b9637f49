//! With which instructions and tools a model is asked whose reasoning is bound to them, although the program has changed.

use std::sync::Arc;

use harness_schema::{SchemaCache, ToolSchema};
use serde_json::{Map, Value};

use super::{Agent, Chat, Event, run::Run, tool_search::OfferedTools};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Fact, Prefix},
    message::Message,
    provider::{OutputSchema, PrefixAddition, ReasoningBinding, Request},
    tool::ToolRegistry,
    unwind::caught,
};

/// What a conversation does when the program that goes on with it has other instructions or tools than before, and the
/// model's [reasoning is bound](harness_core::provider::ReasoningBinding) to them. Changed instructions and changed arguments
/// always take effect with the next request, and a tool that is gone never runs.
///
/// What changes is sent behind the messages so far, if the vendor has a form for that. If not, the change takes the place of
/// what came first, earlier reasoning is not sent any more, and [`Event::PrefixChanged`] says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrefixPolicy {
    /// A definition of a tool of which only the wording has changed is sent as the conversation began with it, until a
    /// summary replaces the beginning. A tool that is gone, or is not offered in a run, is sent too, and its calls fail.
    #[default]
    Keep,
    /// The model reads each definition as the program has it now. Another wording counts as a change.
    Follow,
}

/// What comes before the messages of a request, and what is sent behind some of them.
#[derive(Debug)]
pub(super) struct SentPrefix {
    /// What this was made for: the address of the offered tools, the number of searches, and the version of the prefix.
    of: (usize, usize, u64),
    form: String,
    pub(super) system: Option<String>,
    pub(super) schemas: Vec<ToolSchema>,
    pub(super) forms: SchemaCache,
    pub(super) additions: Vec<PrefixAddition>,
    /// The tools that are sent and not offered.
    pub(super) hidden: Vec<String>,
}

impl Run<'_> {
    /// What comes before the messages of the next request, if the model's reasoning is bound to it. If that has changed, the
    /// change is recorded.
    pub(super) fn update_prefix(&mut self) -> Result<Option<Arc<SentPrefix>>, Error> {
        let binding = self.chat.reasoning_binding()?;
        if !binding.is_bound && !self.chat.machine.is_reasoning_refused() {
            return Ok(None);
        }
        let of = self.chat.prefix_key();
        let known = self.chat.prefix.as_ref();
        if let Some(sent) = known.filter(|sent| sent.of == of && sent.form == binding.form) {
            return Ok(Some(Arc::clone(sent)));
        }
        // The vendor continues its own answer only if nothing has changed.
        let last = self.chat.transcript().messages().last();
        let is_paused = last.is_some_and(Message::is_paused);
        if let Some(fact) = self.chat.prefix_change(&binding).filter(|_| !is_paused) {
            self.record_prefix(&fact)?;
        }
        self.chat.prefix = self.chat.sent_prefix(&binding).map(Arc::new);
        Ok(self.chat.prefix.clone())
    }

    /// Records that the vendor has refused reasoning, which was then left out of the request that is being answered.
    pub(super) fn record_refused_reasoning(&mut self) -> Result<(), Error> {
        let Some(refusal) = self.reasoning_refused.take() else { return Ok(()) };
        let left_out = self.chat.machine.messages_with_reasoning();
        if left_out == 0 {
            return Ok(());
        }
        let prefix = match self.chat.machine.prefix() {
            Some(_) => None,
            None => Some(Box::new(self.chat.prefix_of_program(&self.chat.reasoning_binding()?))),
        };
        let (appended, change) = (false, String::new());
        let refusal = Some(refusal);
        self.record_prefix(&Fact::PrefixSet { prefix, appended, left_out, change, refusal })
    }

    /// If the server has refused what was sent behind messages, puts it in the place of what came first. Returns whether
    /// the model can be asked again.
    pub(super) fn fold_prefix_after(&mut self, error: &Error) -> Result<bool, Error> {
        const WORDS: [&str; 5] =
            ["system", "role", "tool_addition", "additional_tools", "developer"];
        let says = |word: &&str| error.message().contains(*word);
        let is_refusal = error.last().kind() == ErrorKind::Api && !error.is_retryable();
        let has_additions = !self.chat.machine.prefix_additions().is_empty();
        if !is_refusal || !has_additions || !WORDS.iter().any(says) {
            return Ok(false);
        }
        self.chat.must_not_append = true;
        let prefix = self.chat.prefix_of_program(&self.chat.reasoning_binding()?);
        let left_out = self.chat.machine.messages_with_reasoning();
        let (prefix, change) = (Some(Box::new(prefix)), String::new());
        let refusal = Some(self.chat.agent.secrets().hide(&error.to_string()).into_owned());
        let appended = false;
        self.record_prefix(&Fact::PrefixSet { prefix, appended, left_out, change, refusal })?;
        Ok(true)
    }

    fn record_prefix(&mut self, fact: &Fact) -> Result<(), Error> {
        self.chat.record(fact)?;
        if let Some(event) = changed(fact) {
            self.emit(event);
        }
        Ok(())
    }
}

/// The event of this fact, unless the fact tells of no change.
pub(super) fn changed(fact: &Fact) -> Option<Event<'_>> {
    let Fact::PrefixSet { prefix: _, appended, left_out, change, refusal } = fact else {
        return None;
    };
    let (appended, left_out, refusal) = (*appended, *left_out, refusal.as_deref());
    let is_change = appended || left_out > 0;
    is_change.then_some(Event::PrefixChanged { change, appended, left_out, refusal })
}

/// The request with its instructions and tools: those of the program, if the model's reasoning is not bound.
pub(super) fn behind_prefix<'a>(
    request: Request<'a>,
    agent: &'a Agent,
    (tools, more): (&'a ToolRegistry, Option<&'a OfferedTools>),
    prefix: Option<&'a SentPrefix>,
) -> Request<'a> {
    if let Some(SentPrefix { system, schemas, forms, additions, hidden, .. }) = prefix {
        let request = request.with_system(system.as_deref()).with_tools(schemas).with_forms(forms);
        return request.with_additions(additions).with_hidden_tools(hidden);
    }
    let (schemas, forms) = match more {
        Some(more) => (&*more.schemas, &more.forms),
        None => (tools.schemas(), tools.forms()),
    };
    request.with_system(agent.system()).with_tools(schemas).with_forms(forms)
}

impl Chat {
    /// What the reasoning of the next answer is bound to.
    fn reasoning_binding(&self) -> Result<ReasoningBinding, Error> {
        self.binding_with(self.machine.wanted_schema(self.tools()))
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

    fn prefix_key(&self) -> (usize, usize, u64) {
        let tools = std::ptr::from_ref(self.tools()).addr();
        (tools, self.machine.found().len(), self.machine.prefix_version())
    }

    /// The instructions and the tools as the program has them.
    fn prefix_of_program(&self, binding: &ReasoningBinding) -> Prefix {
        let system = self.agent.system().map(str::to_owned);
        let tools = self.tools_in_prefix(binding).into_iter().cloned().collect();
        Prefix::new(system, tools, binding.form.clone())
    }

    /// The tools that come before the messages.
    fn tools_in_prefix(&self, binding: &ReasoningBinding) -> Vec<&ToolSchema> {
        let own = self.tools().schemas().iter();
        let found = self.found_schemas().filter(|_| !binding.defers_tools);
        own.chain(found).collect()
    }

    /// The tools that the model has searched for and that are offered in this run.
    fn found_schemas(&self) -> impl Iterator<Item = &ToolSchema> {
        let tools = self.tools();
        let names = self.machine.found().iter().flat_map(|found| &found.tools);
        let found = names.filter(|name| tools.is_searched(name));
        found.filter_map(|name| tools.get(name)).map(|tool| tool.schema())
    }

    /// The fact that says how the prefix changes with the next request, if it does.
    fn prefix_change(&self, binding: &ReasoningBinding) -> Option<Fact> {
        let all = |left_out, change| Fact::PrefixSet {
            prefix: Some(Box::new(self.prefix_of_program(binding))),
            appended: false,
            left_out,
            change,
            refusal: None,
        };
        let left_out = || self.machine.messages_with_reasoning();
        // Nobody knows behind what earlier reasoning was made.
        let Some(first) = self.machine.prefix() else {
            return Some(all(left_out(), String::new()));
        };
        let ((system, known), tools) = (self.machine.prefix_now(), self.tools_in_prefix(binding));
        let appends = binding.appends && !self.must_not_append;
        // Additions that a provider cannot send would be lost.
        let has_new_form =
            first.form != binding.form || !appends && !self.machine.prefix_additions().is_empty();
        let has_new_system = system != self.agent.system();
        if !has_new_form && !has_new_system && known == tools {
            return None;
        }
        let left_out = left_out();
        if left_out == 0 {
            return Some(all(0, String::new()));
        }
        let keeps = self.agent.prefix_policy() == PrefixPolicy::Keep;
        let is_known = |tool: &ToolSchema| {
            let known = known.iter().find(|known| known.name == tool.name);
            known.is_some_and(|known| *known == tool || keeps && is_same_but_for_words(known, tool))
        };
        let new: Vec<ToolSchema> =
            tools.into_iter().filter(|tool| !is_known(tool)).cloned().collect();
        let mut change = Vec::new();
        if has_new_system {
            change.push("the instructions".to_owned());
        }
        change.extend(new.iter().map(|tool| format!("the tool `{}`", tool.name)));
        if has_new_form {
            change.push("the form of the request".to_owned());
        }
        if change.is_empty() {
            return None;
        }
        let change = change.join(", ");
        let is_taken_back = has_new_system && self.agent.system().is_none();
        if !appends || has_new_form || is_taken_back {
            return Some(all(left_out, change));
        }
        let system = self.agent.system().filter(|_| has_new_system).map(str::to_owned);
        let prefix = Some(Box::new(Prefix::new(system, new, String::new())));
        Some(Fact::PrefixSet { prefix, appended: true, left_out: 0, change, refusal: None })
    }

    /// What came before the messages of the last request, for one that asks for their summary, and whether reasoning is still
    /// valid behind it: that request has no typed answer.
    pub(super) fn prefix_so_far(&self) -> Option<(SentPrefix, bool)> {
        let binding = self.binding_with(None).ok()?;
        let is_bound = binding.is_bound || self.machine.is_reasoning_refused();
        let is_valid = self.machine.prefix()?.form == binding.form;
        is_bound.then(|| Some((self.sent_prefix(&binding)?, is_valid)))?
    }

    /// What is sent of the prefix.
    fn sent_prefix(&self, binding: &ReasoningBinding) -> Option<SentPrefix> {
        let first = self.machine.prefix()?;
        let (_, known) = self.machine.prefix_now();
        let tools = self.tools();
        let found =
            self.found_schemas().filter(|tool| !known.iter().any(|it| it.name == tool.name));
        let found = found.filter(|_| binding.defers_tools).cloned();
        let schemas: Vec<ToolSchema> = first.tools.iter().cloned().chain(found).collect();
        let forms = match schemas == tools.schemas() {
            true => tools.forms().clone(),
            false => SchemaCache::default(),
        };
        let is_offered = |name: &str| {
            tools.schemas().iter().chain(self.found_schemas()).any(|tool| tool.name == name)
        };
        let hidden = known.iter().map(|tool| &tool.name).filter(|name| !is_offered(name));
        let in_place = |added: &PrefixAddition| {
            let system = added.system.as_deref().map(super::model_notices::new_instructions);
            PrefixAddition::new(added.after.clone(), system, added.tools.clone())
        };
        Some(SentPrefix {
            of: self.prefix_key(),
            form: binding.form.clone(),
            system: first.system.clone(),
            hidden: hidden.cloned().collect(),
            schemas,
            forms,
            additions: self.machine.prefix_additions().iter().map(in_place).collect(),
        })
    }
}

/// Whether a model that has read one of these definitions can call by the other one.
fn is_same_but_for_words(one: &ToolSchema, other: &ToolSchema) -> bool {
    let without = |schema: &Value| {
        let mut schema = schema.clone();
        remove_words(&mut schema);
        schema
    };
    without(&one.input_schema) == without(&other.input_schema)
}

/// Removes what a schema says to a reader alone.
fn remove_words(schema: &mut Value) {
    const WORDS: [&str; 4] = ["description", "title", "examples", "$comment"];
    const VALUES: [&str; 3] = ["const", "enum", "default"];
    const NAMED: [&str; 5] =
        ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(remove_words),
        Value::Object(members) => {
            members.retain(|name, _| !WORDS.contains(&&**name));
            for (name, value) in members {
                match value {
                    _ if VALUES.contains(&&**name) => {}
                    Value::Object(named) if NAMED.contains(&&**name) => remove_in_all(named),
                    value => remove_words(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn remove_in_all(named: &mut Map<String, Value>) {
    named.values_mut().for_each(remove_words);
}
