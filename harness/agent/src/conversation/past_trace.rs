//! The trace of a conversation in a journal, made from its facts.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use super::{
    durable::guarded, inbox::Inbox, observed::CallWaitTimes, spending::ConversationSpending,
};
use crate::{
    Action, Agent, Machine, Outcome,
    machine::folding::{for_each_fact, unreadable},
    subagent::agent_names::conversations_below,
};
use harness_core::{
    error::Error,
    journal::{Envelope, Fact, check_id},
    message::{Message, ToolCall},
    trace::{CallOfRun, Happened, RunParticipants, Trace, TraceEvent, Tracer},
};

impl Inbox {
    /// The trace of a conversation and of the agents in its calls, made from their facts, also if no run was traced. The
    /// events are in the order of time, and have no secrets that the agent's [trace](crate::AgentBuilder::trace) would
    /// hide. This method does not open the conversation and changes nothing.
    ///
    /// The events of an agent in a call also have no secrets that this agent's own trace would hide, if the agent is the tool
    /// itself ([`Agent::as_tool`]). The trace of an agent that a function runs is not known here. Such events have no secrets
    /// that the calling agent's trace would hide, so set the redaction and the secrets of both agents on the calling agent.
    ///
    /// The times are those of the facts, in milliseconds, from the first fact of the conversation on. A turn begins with the
    /// fact before it, since no fact says when a request was sent. Events without a fact are missing: retries, progress,
    /// warnings, holds and appends. So are the names of the tools in `run_started`. A run that waited and then continued is
    /// one run.
    ///
    /// ```
    /// use harness::{Agent, journal::MemoryJournal, testing::{ScriptedProvider, reply}, trace};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let journal = MemoryJournal::new();
    /// let agent = Agent::builder(ScriptedProvider::new([reply().text("Noted.")])).build()?;
    /// agent.open(&journal, "chat-17").await?.send("My favourite number is 42.").await?;
    ///
    /// let events = agent.inbox(&journal).trace("chat-17").await?;
    /// assert_eq!(trace::pretty(&events), "user -> \"My favourite number is 42.\"\nmodel -> \"Noted.\"\n");
    /// let page = trace::page(&events);
    /// # assert!(page.contains("Noted."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if a conversation cannot be read, and with
    /// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if the name is not valid.
    pub async fn trace(&self, conversation: &str) -> Result<Vec<TraceEvent>, Error> {
        check_id(conversation)?;
        let mut past = PastTrace::new(&self.agent);
        let mut names = vec![conversation.to_owned()];
        let mut seen = HashSet::new();
        while let Some(name) = names.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let facts = guarded(|| self.journal.read(&name, 0)).await?.facts;
            if !past.add_conversation(&name, &facts, name == conversation).await? {
                continue;
            }
            let below = conversations_below(&*self.journal, &name).await?;
            let mut below: Vec<String> = below.into_iter().collect();
            below.sort_unstable_by(|one, other| other.cmp(one));
            names.extend(below);
        }
        Ok(past.into_events())
    }
}

struct PastTrace<'a> {
    agent: &'a Agent,
    /// The events, with times in milliseconds since the Unix epoch.
    events: Vec<TraceEvent>,
    /// The calls, by the name of the conversation and the id of the call.
    calls: HashMap<(String, String), PastCall>,
    /// The agent of each conversation, and the trace whose rules hide the secrets of the conversation.
    agents: HashMap<String, (&'a Agent, Trace)>,
}

/// A call that may have run an agent.
struct PastCall {
    /// The run and the id of the call, without secrets.
    caller: CallOfRun,
    tool: String,
    /// The time at which the call started, or at which the model made the call.
    at: u64,
}

/// The run that the facts are in.
struct PastRun {
    trace: Trace,
    tracer: Tracer,
    machine: Machine,
    spending: ConversationSpending,
    name: String,
    /// The index of the run's first event.
    begins: Option<usize>,
    /// The end of the run: the index of its event, its time and its event. A message that the user sent during the run can
    /// still continue the run.
    ended: Option<(usize, u64, Happened)>,
    /// Between two runs, the index of the first event that belongs to the next run.
    late: Option<usize>,
    /// The time of the last fact.
    at: u64,
    calls: HashMap<String, (ToolCall, Option<u64>)>,
    waits: CallWaitTimes,
}

impl PastRun {
    fn end(&self, outcome: Outcome) -> Happened {
        Happened::RunEnded {
            outcome: outcome.to_string(),
            answered: outcome == Outcome::Answered,
            turns: self.machine.turns(),
            usage: self.machine.usage(),
            cost: self.spending.cost(),
        }
    }

    /// The id of the run that begins with the fact of this number, without secrets.
    fn id(&self, number: usize) -> String {
        self.tracer.name(&format!("{}#{number}", self.name))
    }
}

impl<'a> PastTrace<'a> {
    fn new(agent: &'a Agent) -> Self {
        let (events, calls, agents) = (Vec::new(), HashMap::new(), HashMap::new());
        Self { agent, events, calls, agents }
    }

    /// Adds the events of a conversation. Returns `false` if the conversation is neither the first one nor that of an agent in
    /// a call of a conversation that was added before.
    async fn add_conversation(
        &mut self,
        name: &str,
        facts: &[Envelope],
        is_first: bool,
    ) -> Result<bool, Error> {
        let (agent, trace, at) = match self.called_agent(facts) {
            Some(called) => called,
            None if is_first => (self.agent, Trace::clone(self.agent.trace()), 0),
            None => return Ok(false),
        };
        self.agents.insert(name.to_owned(), (agent, trace.clone()));
        let mut run = PastRun {
            tracer: Tracer::of_past(&trace),
            trace,
            machine: Machine::new(),
            spending: ConversationSpending::new(agent),
            name: name.to_owned(),
            begins: None,
            ended: None,
            late: Some(self.events.len()),
            at,
            calls: HashMap::new(),
            waits: CallWaitTimes::default(),
        };
        // What happened before the first run.
        let id = run.id(0);
        run.tracer.within(&id);
        let take = |(number, envelope): (usize, &Envelope)| {
            let fact = envelope.fact();
            let added = fact.and_then(|fact| self.add_fact(&mut run, number, &fact, envelope.at));
            added.map_err(|err| unreadable(number, err))
        };
        for_each_fact(facts.iter().enumerate(), take).await?;
        self.end(&mut run, facts.len());
        Ok(true)
    }

    /// The agent of a conversation that a known call has started, the trace with its rules and those of its callers, and the
    /// time of the call.
    fn called_agent(&self, facts: &[Envelope]) -> Option<(&'a Agent, Trace, u64)> {
        let call = facts.iter().find_map(|envelope| match envelope.fact() {
            Ok(Fact::CalledBy { conversation, call, .. }) => {
                self.calls.get_key_value(&(conversation, call))
            }
            _ => None,
        });
        let ((conversation, _), call) = call?;
        let (outer, trace) = self.agents.get(conversation)?;
        let tool = outer.tools().get(&call.tool);
        Some(match tool.and_then(|tool| tool.agent::<Agent>()) {
            Some(agent) => (agent, agent.trace().hiding_also(trace), call.at),
            // The agents that a function runs are not known.
            None => (outer, trace.clone(), call.at),
        })
    }

    /// Takes the events that the tracer has made, which happened at this time.
    fn take(&mut self, run: &mut PastRun, at: u64) {
        for event in run.tracer.run().events() {
            let mut event = TraceEvent { at_us: at, ..event.clone() };
            if let Happened::RunStarted { unix_ms, .. } = &mut event.what {
                (*unix_ms, run.begins) = (at, Some(self.events.len()));
            }
            self.events.push(event);
        }
    }

    /// The fields of the event that began the run.
    fn beginning(&mut self, run: &PastRun) -> Option<&mut Happened> {
        Some(&mut self.events.get_mut(run.begins?)?.what)
    }

    fn begin(&mut self, run: &mut PastRun, number: usize, said: Option<&Message>, at: u64) {
        self.end(run, number);
        let id = run.id(number);
        // Values that are hidden in one run are not remembered for the next one.
        run.tracer = Tracer::of_past(&run.trace);
        run.tracer.within(&id);
        let messages = run.machine.transcript().messages();
        let participants = RunParticipants {
            provider: "",
            model: "",
            tools: Vec::new(),
            conversation: messages.first().or(said).map(Message::id),
            journaled: Some(&run.name),
            earlier: messages.len(),
            caller: None,
        };
        run.tracer.begin(participants, said);
        run.tracer.add_open_calls(run.machine.open_calls());
        self.take(run, at);
    }

    /// Ends the run, if the facts say how it ended. The events after its end belong to the next run, which begins with the
    /// fact of this number.
    fn end(&mut self, run: &mut PastRun, next: usize) {
        let ended = match (run.ended.take(), run.machine.next()) {
            (Some(ended), _) => Some(ended),
            (None, Action::AwaitAnswers) => {
                Some((self.events.len(), run.at, run.end(Outcome::Waiting)))
            }
            (None, _) => None,
        };
        if let (Some((index, at, what)), Some(_)) = (ended, run.begins.take()) {
            let after = self.events.split_off(index.min(self.events.len()));
            run.tracer.end(what);
            self.take(run, at);
            run.late = Some(self.events.len());
            self.events.extend(after);
        }
        let id = run.id(next);
        for event in self.events.iter_mut().skip(run.late.take().unwrap_or(usize::MAX)) {
            event.run.clone_from(&id);
        }
    }

    fn add_fact(
        &mut self,
        run: &mut PastRun,
        number: usize,
        fact: &Fact,
        at: u64,
    ) -> Result<(), Error> {
        // The clocks of the writers differ. The facts of a conversation have an order.
        let at = run.at.max(at);
        match fact {
            Fact::UserSaid { message, .. } => self.begin(run, number, Some(message), at),
            // A run that waited continues.
            Fact::Resumed { limits: None, .. } if run.machine.is_asking() => {}
            Fact::Resumed { .. } => self.begin(run, number, None, at),
            Fact::ModelReplied { message, .. } | Fact::Interrupted { message, asked: true, .. } => {
                run.tracer.turn(run.machine.turns().saturating_add(1));
                self.take(run, run.at);
                for call in message.iter().flat_map(Message::calls) {
                    let (id, tool) = (call.id().to_owned(), call.name().to_owned());
                    let caller = CallOfRun::new(run.tracer.run_name(), run.tracer.name(&id));
                    run.calls.insert(id.clone(), (call.clone(), None));
                    self.calls.insert((run.name.clone(), id), PastCall { caller, tool, at });
                }
            }
            _ => {}
        }
        run.at = at;
        run.machine.apply(fact)?;
        run.spending.apply(fact, run.machine.is_asking());
        let waited = run.waits.note(fact, || at);
        match fact {
            Fact::ModelReplied { provider, model, .. } => {
                let (provider, model) = (run.tracer.name(provider), run.tracer.name(model));
                if let Some(Happened::RunStarted { provider: by, model: name, .. }) =
                    self.beginning(run)
                    && by.is_empty()
                {
                    (*by, *name) = (provider, model);
                }
            }
            Fact::CalledBy { conversation, call, .. } => {
                let outer = self.calls.get(&(conversation.clone(), call.clone()));
                let outer = outer.map(|outer| outer.caller.clone());
                if let Some(Happened::RunStarted { caller, .. }) = self.beginning(run) {
                    *caller = outer;
                }
            }
            Fact::CallStarted { call: id } => {
                if let Some((call, since)) = run.calls.get_mut(id) {
                    let is_first = since.replace(at).is_none();
                    run.tracer.call(call, false);
                    let call = self.calls.get_mut(&(run.name.clone(), id.clone()));
                    if let Some(call) = call.filter(|_| is_first) {
                        call.at = at;
                    }
                }
            }
            Fact::CallFinished { result, .. } => {
                if let Some((call, Some(since))) = run.calls.get(result.call_id()) {
                    run.tracer.ran(call, Duration::from_millis(at.saturating_sub(*since)));
                }
            }
            Fact::Reopened { .. } => {
                run.tracer.reopened(run.machine.in_doubt(), run.machine.to_repeat());
            }
            Fact::Forked {} => {
                let facts = u64::try_from(number).unwrap_or(u64::MAX);
                run.tracer.forked("another conversation", facts);
            }
            _ => {}
        }
        run.tracer.fact(fact, waited);
        self.take(run, at);
        match run.machine.next() {
            Action::Finish(_) if run.ended.is_some() => {}
            Action::Finish(outcome) => {
                run.ended = Some((self.events.len(), at, run.end(outcome)));
            }
            _ => run.ended = None,
        }
        Ok(())
    }

    /// All events in the order of time, with their times since the first one.
    fn into_events(self) -> Vec<TraceEvent> {
        let mut events = self.events;
        events.sort_by_key(|event| event.at_us);
        let began = events.first().map_or(0, |event| event.at_us);
        for event in &mut events {
            event.at_us = event.at_us.saturating_sub(began).saturating_mul(1000);
        }
        events
    }
}
