//! Compares two traces: the first fact that differs.

use std::{collections::HashMap, mem};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{CallOfRun, Happened, TraceEvent, WaitsFor};
use crate::message::sorted_names;

/// The first fact in which two traces differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The index of the event in the first trace. `None` if the first trace ends before.
    pub left: Option<usize>,
    /// The index of the event in the second trace. `None` if the second trace ends before.
    pub right: Option<usize>,
}

/// Finds the first fact in which two traces differ: what the user or the model said, a call with its arguments, a decision,
/// a result, or a change of what is sent. Returns `None` if all facts are equal.
///
/// Times, tokens, names of models, and ids that are new in each run are not compared, nor are events without a fact, such
/// as the start of a turn or a retry. Calls that run at the same time are compared in the order in which the model made
/// them, and all runs of an agent in a call before the call waits for its agent or gets its result.
///
/// ```
/// use harness::{Agent, testing::{ScriptedProvider, reply}, trace};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let run = async |text: &str| {
///     let agent = Agent::builder(ScriptedProvider::new([reply().text(text)])).build()?;
///     Ok::<_, Box<dyn std::error::Error>>(agent.run("Hello.").await?.trace().events().to_vec())
/// };
/// let (one, same, other) = (run("Hi.").await?, run("Hi.").await?, run("Ho.").await?);
/// assert_eq!(trace::first_difference(&one, &same), None);
/// let differs = trace::first_difference(&one, &other).ok_or("a difference")?;
/// assert!(matches!(
///     differs.left.and_then(|at| one.get(at)).map(|event| &event.what),
///     Some(trace::Happened::ModelReplied { text, .. }) if text == "Hi.",
/// ));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn first_difference(left: &[TraceEvent], right: &[TraceEvent]) -> Option<Difference> {
    let [left, right] = differing_facts(left, right)?.map(|fact| fact.map(|fact| fact.event));
    Some(Difference { left, right })
}

/// The first facts in which two traces differ. `None` stands for the end of a trace.
pub(super) fn differing_facts(
    left: &[TraceEvent],
    right: &[TraceEvent],
) -> Option<[Option<ComparedFact>; 2]> {
    let (mut left, mut right) = (facts(left).into_iter(), facts(right).into_iter());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return None,
            (Some(left), Some(right)) if left.members == right.members => {}
            (left, right) => return Some([left, right]),
        }
    }
}

/// Formats the [first difference](first_difference) of two traces as text. For each trace, the text has its name, the number of
/// the event, and the members of the fact that differ, each from shortly before the first character that differs.
///
/// ```
/// use harness::trace;
///
/// let run = |said: &str| {
///     let event = r#"{"v": 1, "run": "r", "at_us": 0, "event": "run_started", "unix_ms": 0,
///         "provider": "p", "model": "m", "tools": [], "said": "To SAID."}"#;
///     trace::read(&event.replace('\n', "").replace("SAID", said))
/// };
/// let (one, other) = (run("Oslo")?, run("Bergen")?);
/// assert_eq!(
///     trace::comparison_text(("a", &one), ("b", &other)),
///     "a, event 1: run_started\n  said: \"To Oslo.\"\nb, event 1: run_started\n  said: \"To Bergen.\"\n",
/// );
/// # Ok::<(), harness::Error>(())
/// ```
pub fn comparison_text(left: (&str, &[TraceEvent]), right: (&str, &[TraceEvent])) -> String {
    let Some([one, two]) = differing_facts(left.1, right.1) else {
        return "The facts of both traces are the same.\n".to_owned();
    };
    let side = |name: &str, fact: &Option<ComparedFact>, other: &Option<ComparedFact>| match fact {
        Some(fact) => format!("{name}, event {}{}", fact.event.saturating_add(1), fact.text(other)),
        None => format!("{name} ends before.\n"),
    };
    side(left.0, &one, &two) + &side(right.0, &two, &one)
}

/// How many characters of a differing text are shown, and how many of them are the same in both traces.
const SHOWN: (usize, usize) = (160, 40);

/// What is compared of an event.
#[derive(Serialize)]
pub(super) struct ComparedFact {
    /// The index of the event.
    event: usize,
    /// The members that are compared.
    members: Map<String, Value>,
    /// The number of the call whose agent is compared before this fact, in its run.
    #[serde(skip)]
    after_agent: Option<usize>,
}

impl ComparedFact {
    fn kind(&self) -> &str {
        self.members.get("event").and_then(Value::as_str).unwrap_or_default()
    }

    /// The kind of the fact, and a line for each member in which it differs from the other fact.
    fn text(&self, other: &Option<Self>) -> String {
        let other = other.as_ref().filter(|other| other.kind() == self.kind());
        let none = Map::new();
        let (mine, others) = (&self.members, other.map_or(&none, |other| &other.members));
        let names = sorted_names(mine, others);
        let of = |members: &Map<String, Value>, name| match members.get(name) {
            Some(Value::String(text)) => format!("{text:?}"),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let mut shown = format!(": {}\n", self.kind());
        for name in names {
            let (mine, other) = (of(mine, name), of(others, name));
            let same =
                mine.chars().zip(other.chars()).take_while(|(mine, other)| mine == other).count();
            if mine == other || name == "event" {
                continue;
            }
            let from = same.saturating_sub(SHOWN.1);
            let mut rest = mine.chars().skip(from);
            let text: String = rest.by_ref().take(SHOWN.0).collect();
            let (before, after) =
                (if from > 0 { ".. " } else { "" }, if rest.next().is_some() { " .." } else { "" });
            let text = if mine.is_empty() { "is missing" } else { &text };
            shown += &format!("  {name}: {before}{text}{after}\n");
        }
        shown
    }
}

/// The calls of one conversation, numbered in the order in which the model made them.
#[derive(Default)]
struct NumberedCalls<'a> {
    /// The numbers by id. A later call with the same id replaces the earlier one.
    numbers: HashMap<&'a str, usize>,
    count: usize,
}

impl<'a> NumberedCalls<'a> {
    fn number(&mut self, call: &'a str) -> usize {
        self.numbers.get(call).copied().unwrap_or_else(|| self.add(call))
    }

    fn add(&mut self, call: &'a str) -> usize {
        self.count = self.count.saturating_add(1);
        self.numbers.insert(call, self.count);
        self.count
    }
}

#[derive(Default)]
struct ComparedRun {
    facts: Vec<ComparedFact>,
    /// The facts about calls since the last fact about no call, in the order of the calls, each with the number of its
    /// call.
    open: Vec<(usize, ComparedFact)>,
    /// The runs of agents in calls, each after the number of its call, in the order of these numbers.
    inside: Vec<(usize, usize)>,
    has_begun: bool,
}

impl ComparedRun {
    /// Moves the facts about calls behind the other facts.
    fn close(&mut self) {
        self.facts.extend(self.open.drain(..).map(|(_, fact)| fact));
    }

    fn add<'a>(&mut self, calls: &mut NumberedCalls<'a>, at: usize, what: &'a Happened) {
        if let Happened::ModelReplied { calls: made, .. }
        | Happened::Interrupted { calls: made, .. } = what
        {
            self.close();
            for call in made {
                calls.add(&call.call);
            }
        }
        let Some((call, mut members)) = compared(what) else { return };
        for ids in ["in_doubt", "runs_again"] {
            for id in members.get_mut(ids).and_then(Value::as_array_mut).into_iter().flatten() {
                *id = id.as_str().and_then(|id| calls.numbers.get(id)).copied().into();
            }
        }
        let mut fact = ComparedFact { event: at, members, after_agent: None };
        let Some(call) = call else {
            self.close();
            self.facts.push(fact);
            return;
        };
        let number = calls.number(call);
        fact.members.insert("call".to_owned(), number.into());
        let after_agent = matches!(
            what,
            Happened::CallFinished { .. }
                | Happened::CallSettled { .. }
                | Happened::CallWaits { awaited: WaitsFor::Agent, .. }
        );
        fact.after_agent = after_agent.then_some(number);
        let at = self.open.partition_point(|(call, _)| *call <= number);
        self.open.insert(at, (number, fact));
    }
}

/// A run that has facts.
#[derive(Clone, Copy, Default)]
struct WholeRun<'a> {
    /// The runs of a conversation share the numbers of its calls. A call can end in a later run.
    conversation: Option<&'a str>,
    caller: Option<&'a CallOfRun>,
    /// The run that this run only continues.
    continues: Option<&'a str>,
}

/// The facts of a trace in the order in which they are compared. The time is linear in the number of events, apart from
/// sorting.
fn facts<'a>(events: &'a [TraceEvent]) -> Vec<ComparedFact> {
    let mut whole: HashMap<&str, WholeRun<'_>> = HashMap::new();
    // The run in which the user spoke last, by conversation.
    let mut begun: HashMap<(&str, Option<&str>), &str> = HashMap::new();
    for event in events {
        match &event.what {
            Happened::RunStarted { conversation, caller, journaled, said, .. } => {
                let run = whole.entry(&event.run).or_default();
                let name = conversation.as_deref().unwrap_or(&event.run);
                run.conversation = Some(name);
                let chat = (name, journaled.as_deref());
                match (caller, said) {
                    (Some(caller), _) => run.caller = Some(caller),
                    (None, Some(_)) => _ = begun.insert(chat, &event.run),
                    (None, None) => {
                        run.continues = Some(*begun.entry(chat).or_insert(&event.run));
                    }
                }
            }
            Happened::ModelReplied { .. } | Happened::CallFinished { .. } => {
                whole.entry(&event.run).or_default();
            }
            _ => {}
        }
    }
    let whole_run = |run: &str| whole.get(run).copied().unwrap_or_default();
    let conversation_of = |run: &'a str| whole_run(run).conversation.unwrap_or(run);
    // What waits is continued in a later run, and is compared as one run. So are all runs of an agent in a call.
    let place_of = |run: &'a str| match whole_run(run) {
        WholeRun { caller: Some(CallOfRun { run: outer, call }), .. } => {
            (conversation_of(run), Some((conversation_of(outer), &**call)))
        }
        WholeRun { continues, .. } => (continues.unwrap_or(run), None),
    };
    let mut calls: HashMap<&str, NumberedCalls<'_>> = HashMap::new();
    let mut runs: Vec<ComparedRun> = Vec::new();
    let mut places: HashMap<_, usize> = HashMap::new();
    let mut tops = Vec::new();
    for (at, event) in events.iter().enumerate() {
        // An answer of an inbox is in no run. The run that reads it tells it again.
        if !whole.contains_key(&*event.run) {
            continue;
        }
        let place = *places.entry(place_of(&event.run)).or_insert(runs.len());
        if place == runs.len() {
            runs.push(ComparedRun::default());
        }
        let begins = matches!(event.what, Happened::RunStarted { .. });
        let run = runs.get_mut(place).filter(|_| begins);
        if run.is_some_and(|run| !mem::replace(&mut run.has_begun, true)) {
            let outer = whole_run(&event.run).caller.and_then(|caller| {
                let outer = runs.get_mut(*places.get(&place_of(&caller.run))?)?;
                let number = calls.get_mut(conversation_of(&caller.run))?.number(&caller.call);
                let at = outer.inside.partition_point(|(call, _)| *call <= number);
                outer.inside.insert(at, (number, place));
                Some(())
            });
            if outer.is_none() {
                tops.push(place);
            }
        }
        if let Some(run) = runs.get_mut(place) {
            run.add(calls.entry(conversation_of(&event.run)).or_default(), at, &event.what);
        }
    }
    let mut inside: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut left: Vec<_> = Vec::new();
    for mut run in runs {
        run.close();
        inside.push(run.inside);
        left.push(run.facts.into_iter());
    }
    let mut found = Vec::new();
    // A damaged trace can have runs that are inside of each other. Each fact is taken once, whatever run is inside which.
    for top in tops.into_iter().chain(0..left.len()) {
        let mut stack = vec![(top, None)];
        'runs: while let Some((run, fact)) = stack.pop() {
            found.extend(fact);
            let Some(mine) = inside.get_mut(run) else { continue };
            for fact in left.get_mut(run).into_iter().flatten() {
                let below = fact.after_agent.map_or(0..0, |call| {
                    let from = mine.partition_point(|(other, _)| *other < call);
                    from..mine.partition_point(|(other, _)| *other <= call)
                });
                if below.is_empty() {
                    found.push(fact);
                    continue;
                }
                // The runs of the agents come first, then this fact, then the rest of its run.
                stack.push((run, Some(fact)));
                stack.extend(mine.drain(below).rev().map(|(_, run)| (run, None)));
                continue 'runs;
            }
            // The agents of calls that this run has left open.
            stack.extend(mine.drain(..).rev().map(|(_, run)| (run, None)));
        }
    }
    found
}

/// The members of an event that are compared, and the call that the event is about. `None` for an event without a fact.
fn compared(what: &Happened) -> Option<(Option<&str>, Map<String, Value>)> {
    let call = match what {
        Happened::RunStarted { said: Some(_), .. }
        | Happened::ModelReplied { .. }
        | Happened::Interrupted { .. }
        | Happened::Reopened { .. }
        | Happened::Forked { .. }
        | Happened::Steered { .. }
        | Happened::AnswerAccepted {}
        | Happened::AnswerRejected { .. }
        | Happened::ContextCleared { .. }
        | Happened::ContextCompacted { .. }
        | Happened::CompactionFailed { .. }
        | Happened::VendorSummaryRefused { .. }
        | Happened::ContextOverflowed { .. }
        | Happened::ContextPinned { .. }
        | Happened::PrefixChanged { .. } => None,
        Happened::CallDecided { call, .. }
        | Happened::CallWaits { call, .. }
        | Happened::CallAnswered { call, .. }
        | Happened::CallSettled { call, .. }
        | Happened::CallCleared { call, .. }
        | Happened::CallUndecided { call, .. }
        | Happened::GrantRevoked { call, .. }
        | Happened::ToolsFound { call, .. }
        | Happened::CallEnded { call, .. }
        | Happened::CallFinished { call, .. } => Some(&**call),
        // The fact of a start is older than the start, and the run's own events have no fact.
        Happened::CallStarted { .. }
        | Happened::RunStarted { said: None, .. }
        | Happened::TurnStarted { .. }
        | Happened::AnswerBegan { .. }
        | Happened::CallQueued { .. }
        | Happened::CallProgressed { .. }
        | Happened::CallDropped { .. }
        | Happened::ReconcileFailed { .. }
        | Happened::Hold { .. }
        | Happened::Appended { .. }
        | Happened::Retried { .. }
        | Happened::FellBack { .. }
        | Happened::ParameterDropped { .. }
        | Happened::Discarded { .. }
        | Happened::LimitNear { .. }
        | Happened::LimitUnknown { .. }
        | Happened::RunEnded { .. }
        | Happened::LinesLost { .. }
        | Happened::Unknown => return None,
    };
    let mut members = members_of(what)?;
    members.retain(|member, _| match what {
        Happened::RunStarted { .. } => matches!(&**member, "event" | "said"),
        // The question is the name of the agent's conversation.
        Happened::CallWaits { awaited: WaitsFor::Agent, .. } if member == "question" => false,
        _ => !NOT_COMPARED.contains(&&**member),
    });
    if let Some(Value::Object(by)) = members.get_mut("by") {
        by.retain(|member, _| !NOT_COMPARED.contains(&&**member));
    }
    if let Some(Value::Object(cause)) = members.get_mut("cause") {
        cause.remove("call");
    }
    for call in members.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.remove("call");
        }
    }
    Some((call, members))
}

/// The members of an event. They are read from its text, because `to_value` would be a second writer of all events.
fn members_of(what: &Happened) -> Option<Map<String, Value>> {
    #[derive(Serialize)]
    struct Members<'a> {
        // As in `TraceEvent`.
        #[serde(flatten)]
        what: &'a Happened,
    }
    serde_json::from_str(&serde_json::to_string(&Members { what }).ok()?).ok()
}

/// The members of events that can differ between two runs in which the same happened.
const NOT_COMPARED: &[&str] = &[
    "after",
    "always",
    "answer_way",
    "at",
    "at_ms",
    "before",
    "call",
    "context",
    "elsewhere",
    "from",
    "model",
    "provider",
    "ran_us",
    "response",
    "since_ms",
    "tokens",
    "turn",
    "until_ms",
    "usage",
    "waited_ms",
];
