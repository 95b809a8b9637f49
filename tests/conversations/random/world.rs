//! What really happens in random conversations: tools that write down each effect, and whether it was
//! allowed at that instant by what held then; and a model that calls them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use fastrand::Rng;
use futures_util::FutureExt as _;
use harness::{
    Permissions, SideEffect, SideEffects, Tool, ToolContext, ToolError,
    journal::{Decider, Decision, Fact, Journal, MemoryJournal},
    testing::{ScriptedProvider, reply},
    tool::{Reconciled, Review},
};
use serde_json::json;

use crate::probe::{READ, WRITE};

const NETWORK: SideEffects = SideEffects::of(&[SideEffect::Network]);

/// All tools that there are. `look` reads, and `form` may be answered by the program.
pub(super) const NAMES: [&str; 9] =
    ["look", "note", "put", "mail", "ask", "pay", "form", "draw", "gone"];

/// What a tool did, once.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    conversation: String,
    pub(super) call: String,
    /// A model that is asked again may give one id to a call of another tool.
    pub(super) tool: &'static str,
    key: String,
    /// Whether the tool said at that time that a call of it may be repeated.
    pub(super) repeats: bool,
}

/// What the permissions of an agent or of a run say of a tool by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Says {
    Allow,
    Ask,
    Deny,
}

/// What permissions say, by the names of tools.
#[derive(Clone, Debug, Default)]
pub(super) struct Laws(HashMap<&'static str, Says>);

impl Laws {
    /// Those of some tools, of which so many in ten have any.
    pub(super) fn random(rng: &mut Rng, in_ten: u8) -> Self {
        let names = NAMES.into_iter().filter(|_| rng.u8(..10) < in_ten).collect::<Vec<_>>();
        let says = |rng: &mut Rng| match rng.u8(..3) {
            0 => Says::Allow,
            1 => Says::Ask,
            _ => Says::Deny,
        };
        Self(names.into_iter().map(|name| (name, says(rng))).collect())
    }

    pub(super) fn permissions(&self) -> Permissions {
        self.0.iter().fold(Permissions::default(), |all, (name, says)| match says {
            Says::Allow => all.allow(*name),
            Says::Ask => all.ask(*name),
            Says::Deny => all.deny(*name, "it is forbidden"),
        })
    }

    /// The strictest of both.
    pub(super) fn with(&self, other: &Self) -> Self {
        let strictest = |name: &'static str| {
            let both = [self.0.get(name), other.0.get(name)];
            let any = |says: Says| both.contains(&Some(&says)).then_some((name, says));
            any(Says::Deny).or(any(Says::Ask)).or(any(Says::Allow))
        };
        Self(NAMES.into_iter().filter_map(strictest).collect())
    }
}

/// What holds while a run goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Now {
    pub(super) laws: Laws,
    pub(super) offered: Option<Vec<&'static str>>,
    pub(super) person: Option<String>,
}

/// Whatever any process did, and what was wrong with it.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    effects: Vec<Effect>,
    broken: Vec<String>,
    now: Now,
    /// Where the facts stand, if they are in a journal.
    journal: Option<MemoryJournal>,
}

impl World {
    pub(super) fn watching(journal: &MemoryJournal) -> Self {
        let world = Self::default();
        world.inner().journal = Some(journal.clone());
        world
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().expect("unpoisoned")
    }

    pub(super) fn holds(&self, now: Now) {
        self.inner().now = now;
    }

    pub(super) fn breaks(&self, what: String) {
        self.inner().broken.push(what);
    }

    pub(super) fn broken(&self) -> Vec<String> {
        self.inner().broken.clone()
    }

    /// What was done for a call.
    pub(super) fn of(&self, conversation: &str, tool: &str, call: &str) -> Vec<Effect> {
        let inner = self.inner();
        let those = inner.effects.iter();
        let is_it =
            |it: &&Effect| (&*it.conversation, it.tool, &*it.call) == (conversation, tool, call);
        those.filter(is_it).cloned().collect()
    }

    pub(super) fn all(&self) -> Vec<Effect> {
        self.inner().effects.clone()
    }

    fn has_key(&self, key: &str) -> bool {
        self.inner().effects.iter().any(|it| it.key == key)
    }

    /// A tool does what it does.
    fn does(&self, tool: &Declared, context: &ToolContext) {
        let key = context.idempotency_key().to_owned();
        let conversation = key.split('/').next().unwrap_or_default().to_owned();
        let call = context.call_id().to_owned();
        let before = self.of(&conversation, tool.name, &call);
        if let Some(first) = before.first() {
            if !tool.repeats && !tool.reads() {
                self.breaks(format!("{} {call} is done again, and may not be repeated", tool.name));
            }
            // One that only reads may start early in an answer that is lost.
            if first.key != key && !tool.reads() {
                self.breaks(format!("{call} has another key the second time"));
            }
        }
        let now = self.inner().now.clone();
        let journal = self.inner().journal.clone();
        if now.laws.0.get(tool.name) == Some(&Says::Deny) {
            self.breaks(format!("{} {call} runs though it is denied", tool.name));
        }
        if now.offered.as_ref().is_some_and(|offered| !offered.contains(&tool.name)) {
            self.breaks(format!("{} {call} runs though it is not offered", tool.name));
        }
        if let (Some(journal), false) = (journal, tool.reads()) {
            let facts = journal.read(&conversation, 0).now_or_never();
            let facts = facts.expect("in memory").expect("facts").facts;
            let facts: Vec<Fact> = facts.iter().map(|fact| fact.fact().expect("a fact")).collect();
            let starts =
                |fact: &&Fact| matches!(fact, Fact::CallStarted { call: it } if *it == call);
            if facts.iter().filter(starts).count() <= before.len() {
                self.breaks(format!("{} {call} runs and its start is not written", tool.name));
            }
            if let Some(why) = unfounded(tool, &call, &now, &facts)
                && !stands(tool, &key, &now, &facts)
            {
                self.breaks(format!("{} {call} runs {why} {now:?}", tool.name));
            }
        }
        let repeats = tool.repeats;
        self.inner().effects.push(Effect { conversation, call, tool: tool.name, key, repeats });
    }
}

/// Why a call may not run by these facts, if it may not.
fn unfounded(tool: &Declared, call: &str, now: &Now, facts: &[Fact]) -> Option<String> {
    let decided = facts.iter().enumerate().rev().find_map(|(at, fact)| match fact {
        Fact::CallDecided { call: it, decision } if it == call => Some((at, decision)),
        _ => None,
    });
    let Some((at, Decision::Allow { by, side_effects, .. })) = decided else {
        return Some("though nobody has allowed it".to_owned());
    };
    if !side_effects.has_all(tool.effects) {
        return Some("and declares more than what was allowed".to_owned());
    }
    let asks = match now.laws.0.get(tool.name) {
        Some(Says::Ask) => true,
        Some(Says::Allow) => tool.reviews,
        Some(Says::Deny) => false,
        None => tool.reviews || tool.effects.has(SideEffect::Network),
    };
    if !asks {
        return None;
    }
    match by {
        Decider::Person { .. } => None,
        Decider::Always { call: asked, scope } => {
            let given = facts.iter().position(|fact| match fact {
                Fact::CallDecided { call: it, decision } => {
                    it == asked && always_of(decision) == Some(&now.person)
                }
                _ => false,
            });
            let Some(given) = given.filter(|given| *given < at) else {
                return Some("by an *always* of another person".to_owned());
            };
            let revoked = facts.iter().skip(given).any(|fact| match fact {
                Fact::GrantRevoked { call: it, scope: of } => it == asked && of == scope,
                _ => false,
            });
            revoked.then(|| "by an *always* that was taken back".to_owned())
        }
        by => Some(format!("and only {by:?} was asked")),
    }
}

/// Whether an *always* of this person stands for a call of these arguments, whoever has decided about it
/// before: the key ends with their fingerprint.
fn stands(tool: &Declared, key: &str, now: &Now, facts: &[Fact]) -> bool {
    let exactly = format!("exactly:{}:", key.rsplit('/').next().unwrap_or_default());
    facts.iter().enumerate().any(|(at, fact)| {
        let Fact::CallDecided { call, decision } = fact else { return false };
        let Decision::Allow { by: Decider::Person { always: Some(always), .. }, .. } = decision
        else {
            return false;
        };
        let revoked = facts.iter().skip(at).any(|fact| match fact {
            Fact::GrantRevoked { call: asked, scope } => asked == call && *scope == always.scope,
            _ => false,
        });
        let is_it = always.tool == tool.name && always.scope.key().starts_with(&exactly);
        is_it && always.person == now.person && !revoked
    })
}

/// In whose runs a decision holds for others, too.
fn always_of(decision: &Decision) -> Option<&Option<String>> {
    match decision {
        Decision::Allow { by: Decider::Person { always: Some(always), .. }, .. } => {
            Some(&always.person)
        }
        _ => None,
    }
}

/// What a tool declares in one process.
#[derive(Clone)]
struct Declared {
    name: &'static str,
    effects: SideEffects,
    repeats: bool,
    reviews: bool,
}

impl Declared {
    fn reads(&self) -> bool {
        self.effects.is_read_only()
    }
}

/// The tools of one process: some are gone, and some declare something else than in another.
pub(super) fn tools(rng: &mut Rng, world: &World) -> Vec<Tool> {
    let declared = NAMES.into_iter().filter(|name| match *name {
        "gone" => rng.bool(),
        _ => rng.u8(..20) > 0,
    });
    let names: Vec<&'static str> = declared.collect();
    names.into_iter().map(|name| tool(name, rng, world)).collect()
}

fn tool(name: &'static str, rng: &mut Rng, world: &World) -> Tool {
    let often = rng.u8(..10);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let (effects, repeats) = match name {
        "look" => (READ, false),
        "note" if often < 2 => (NETWORK, false),
        "put" | "gone" => (WRITE, often < 8),
        "mail" => (NETWORK, often < 4),
        "ask" => (WRITE, often < 5),
        _ => (WRITE, false),
    };
    if name == "form" && often < 8 {
        return Tool::external(name, "Asks the program.", schema, effects);
    }
    let declared = Declared { name, effects, repeats, reviews: name == "draw" };
    let (it, does) = (declared.clone(), world.clone());
    let tool = Tool::new(name, "Does it.", schema, effects, move |context, arguments| {
        let (it, does) = (it.clone(), does.clone());
        let gives_way = arguments.get("n").and_then(serde_json::Value::as_u64).unwrap_or(0);
        Box::pin(async move {
            if it.name == "ask" && context.answered().is_none() {
                return Err(ToolError::asks("Which one?", json!(1)));
            }
            for _ in 0..gives_way % 3 {
                tokio::task::yield_now().await;
            }
            does.does(&it, &context);
            for _ in 0..gives_way / 3 {
                tokio::task::yield_now().await;
            }
            Ok("done".into())
        })
    });
    let tool = if repeats { tool.idempotent() } else { tool };
    let tool = match name == "draw" {
        true => tool.with_review(|_| Review::ask("look at it")),
        false => tool,
    };
    if name == "pay" && often < 8 || name == "mail" && often < 5 {
        let (knows, fails) = (world.clone(), often == 0);
        return tool.with_reconcile(move |context, _| {
            let happened = knows.has_key(context.idempotency_key());
            Box::pin(async move {
                tokio::task::yield_now().await;
                match (fails, happened) {
                    (true, _) => Err(ToolError::new("the bank is closed")),
                    (false, true) => Ok(Reconciled::Happened("it was done".into())),
                    (false, false) => Ok(Reconciled::NotHappened),
                }
            })
        });
    }
    tool
}

/// A model that calls tools at random, breaks off and fails at times, and has said enough at last.
pub(super) fn model(seed: u64, names: Vec<&'static str>) -> ScriptedProvider {
    let asked = AtomicU64::new(0);
    ScriptedProvider::answering(move |request| {
        let length = request.messages().len();
        let nth = asked.fetch_add(1, Ordering::SeqCst);
        let mut rng = Rng::with_seed(seed ^ nth << 20 ^ (length as u64) << 40);
        if length > 24 || rng.u8(..10) < 3 {
            return reply().text("That is all.");
        }
        let mut answer = if rng.bool() { reply().text("Let me see.") } else { reply() };
        for at in 0..rng.u8(1..4) {
            let name = names[rng.usize(..names.len())];
            let id = match rng.u8(..5) {
                0 => "same".to_owned(),
                _ => format!("c{length}_{at}"),
            };
            answer = answer.call_with_id(id, name, json!({"n": rng.choice([1, 5, 8])}));
        }
        match rng.u8(..16) {
            0 => answer.cut(),
            1 => answer.overloaded(),
            _ => answer,
        }
    })
}

/// Nothing may be done twice that may not be repeated, whatever else is told.
pub(super) fn twice(effects: &[Effect]) -> bool {
    effects.iter().skip(1).any(|effect| !effect.repeats)
}
