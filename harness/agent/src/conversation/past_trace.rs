//! The trace of a conversation in a journal, made from its facts.

use std::{
    collections::{HashMap, HashSet},
    mem,
    time::Duration,
};

use super::{durable::guarded, inbox::Inbox, observed::CallWaitTimes};
use crate::{
    Action, Agent, Machine, Outcome,
    machine::folding::{for_each_fact, unreadable},
    subagent::agent_names::conversations_below,
};
use harness_core::{
    error::Error,
    journal::{Envelope, Fact, check_id},
    message::{Message, ToolCall},
    trace::{CallOfRun, Happened, RunParticipants, TraceEvent, Tracer},
};

impl Inbox {
    /// The trace of a conversation and of the agents in its calls, made from their facts, also if no run was traced. The
    /// events are in the order of time, and have no secrets that the agent's [trace](crate::AgentBuilder::trace) would
    /// hide. This method does not open the conversation and changes nothing.
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
    /// Fails with [`ErrorKind::Journal`](crate::error::ErrorKind::Journal) if a conversation cannot be read, and with
    /// [`ErrorKind::Configuration`](crate::error::ErrorKind::Configuration) if the name is not valid.
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
    /// The run of each call, by the name of the conversation and the id of the call.
    runs: HashMap<(String, String), String>,
}

/// The run that the facts are in.
struct PastRun {
    tracer: Tracer,
    machine: Machine,
    name: String,
    /// The index of the run's first event.
    begins: Option<usize>,
    turn: u32,
    /// The cost of the turns; `None` if a part of it is unknown.
    cost: Option<f64>,
    /// The time of the last fact.
    at: u64,
    calls: HashMap<String, (ToolCall, Option<u64>)>,
    waits: CallWaitTimes,
}

impl<'a> PastTrace<'a> {
    fn new(agent: &'a Agent) -> Self {
        Self { agent, events: Vec::new(), runs: HashMap::new() }
    }

    /// Adds the events of a conversation. Returns `false` if the conversation is neither the first one nor that of an agent in
    /// a call of a conversation that was added before.
    async fn add_conversation(
        &mut self,
        name: &str,
        facts: &[Envelope],
        is_first: bool,
    ) -> Result<bool, Error> {
        let is_of_call = |envelope: &Envelope| match envelope.fact() {
            Ok(Fact::CalledBy { conversation, call, .. }) => {
                self.runs.contains_key(&(conversation, call))
            }
            _ => false,
        };
        if !is_first && !facts.iter().any(is_of_call) {
            return Ok(false);
        }
        let mut run = PastRun {
            tracer: Tracer::of_past(self.agent.trace()),
            machine: Machine::new(),
            name: name.to_owned(),
            begins: None,
            turn: 0,
            cost: None,
            at: 0,
            calls: HashMap::new(),
            waits: CallWaitTimes::default(),
        };
        // What happened before the first run.
        run.tracer.within(&format!("{name}#0"));
        let take = |(number, envelope): (usize, &Envelope)| {
            let fact = envelope.fact();
            let added = fact.and_then(|fact| self.add_fact(&mut run, number, &fact, envelope.at));
            added.map_err(|err| unreadable(number, err))
        };
        for_each_fact(facts.iter().enumerate(), take).await?;
        self.end(&mut run);
        Ok(true)
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
        self.end(run);
        (run.turn, run.cost) = (0, Some(0.0));
        run.tracer.within(&format!("{}#{number}", run.name));
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

    /// Ends the run, if the facts say how it ended.
    fn end(&mut self, run: &mut PastRun) {
        let outcome = match run.machine.next() {
            Action::Finish(outcome) => outcome,
            Action::AwaitAnswers => Outcome::Waiting,
            _ => return,
        };
        if run.begins.take().is_none() {
            return;
        }
        run.tracer.end(Happened::RunEnded {
            outcome: outcome.to_string(),
            answered: outcome == Outcome::Answered,
            turns: run.turn,
            usage: run.machine.usage(),
            cost: run.cost,
        });
        self.take(run, run.at);
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
        let before = mem::replace(&mut run.at, at);
        match fact {
            Fact::UserSaid { message, .. } => self.begin(run, number, Some(message), at),
            // A run that waited continues.
            Fact::Resumed { limits: None, .. } if run.machine.is_asking() => {}
            Fact::Resumed { .. } => self.begin(run, number, None, at),
            Fact::ModelReplied { message, .. } | Fact::Interrupted { message, asked: true, .. } => {
                run.turn = run.turn.saturating_add(1);
                run.tracer.turn(run.turn);
                self.take(run, before);
                for call in message.iter().flat_map(Message::calls) {
                    run.calls.insert(call.id().to_owned(), (call.clone(), None));
                    let key = (run.name.clone(), call.id().to_owned());
                    self.runs.insert(key, run.tracer.run_name().to_owned());
                }
            }
            _ => {}
        }
        run.machine.apply(fact)?;
        let waited = run.waits.note(fact, || at);
        match fact {
            Fact::ModelReplied { usage, provider, model, asked_model, .. } => {
                let models = self.agent.models();
                let price = models.price(provider, model, asked_model.as_deref());
                let cost = price.and_then(|price| price.of(usage));
                run.cost = run.cost.zip(cost).map(|(sum, cost)| sum + cost);
                if let Some(Happened::RunStarted { provider: by, model: name, .. }) =
                    self.beginning(run)
                    && by.is_empty()
                {
                    by.clone_from(provider);
                    name.clone_from(model);
                }
            }
            Fact::Interrupted { asked: true, .. } => run.cost = None,
            Fact::CalledBy { conversation, call, .. } => {
                let outer = self.runs.get(&(conversation.clone(), call.clone())).cloned();
                if let Some((outer, Happened::RunStarted { caller, .. })) =
                    outer.zip(self.beginning(run))
                {
                    *caller = Some(CallOfRun::new(outer, call));
                }
            }
            Fact::CallStarted { call } => {
                if let Some((call, since)) = run.calls.get_mut(call) {
                    *since = Some(at);
                    run.tracer.call(call, false);
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
