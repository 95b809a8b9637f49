//! What really happens: what a person was shown and has decided, what tools did and what they may do, and what models know.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use harness::policy::{Approval, ApprovalDecision, ApprovalRequest};
use serde_json::{Map, Value};

/// What a call does, or what a person was shown of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct What {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// What the tool declares and takes.
    pub(crate) definition: String,
    pub(crate) folder: String,
}

impl What {
    /// Where it goes to, which is what a wide *always* is about.
    fn to(&self) -> Option<&str> {
        self.arguments.get("to")?.as_str()
    }
}

/// Arguments without what is not there.
pub(crate) fn present(arguments: &Map<String, Value>) -> Value {
    let there = arguments.iter().filter(|(_, value)| !value.is_null());
    Value::Object(there.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// A call of a conversation. An agent that is not kept has no name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) conversation: Option<String>,
    pub(crate) call: String,
}

impl Place {
    /// The call with this idempotency key: `conversation/message/call/fingerprint`.
    pub(crate) fn of_key(key: &str) -> Self {
        let mut parts = key.rsplitn(4, '/');
        let call = parts.nth(1).unwrap_or_default().to_owned();
        Self { conversation: parts.nth(1).map(str::to_owned), call }
    }

    fn of(question: &ApprovalRequest) -> Self {
        let is_named = ["chat", "fork"].iter().any(|name| question.conversation.starts_with(name));
        let conversation = is_named.then(|| question.conversation.clone());
        Self { conversation, call: question.call.clone() }
    }
}

#[derive(Clone, Debug)]
struct Allowed {
    place: Place,
    what: What,
    scope: Scope,
}

/// How far an answer holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    Once,
    /// For these arguments.
    Always,
    /// For all calls to the same address.
    Wide,
}

#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    ids: u64,
    /// What questions showed, by their nonces.
    asked: HashMap<String, (Place, What)>,
    /// Questions that were answered, or whose time was over when they were asked.
    over: HashSet<String>,
    allowed: Vec<Allowed>,
    effects: Vec<(Place, What)>,
    /// Calls of models that had read private data and words of strangers.
    carrying: HashSet<String>,
    counts: BTreeMap<&'static str, u64>,
    broken: Vec<String>,
    happened: Vec<String>,
}

impl World {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("unpoisoned")
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.inner().counts.clone().into_iter().collect()
    }

    pub(crate) fn broken(&self) -> Vec<String> {
        self.inner().broken.clone()
    }

    pub(crate) fn happened(&self) -> Vec<String> {
        self.inner().happened.clone()
    }

    pub(crate) fn count(&self, what: &'static str) {
        *self.inner().counts.entry(what).or_default() += 1;
    }

    pub(crate) fn breaks(&self, what: String) {
        let mut inner = self.inner();
        inner.happened.push(format!("BROKEN {what}"));
        inner.broken.push(what);
    }

    pub(crate) fn notes(&self, what: impl FnOnce() -> String) {
        if crate::is_shown() {
            self.inner().happened.push(what());
        }
    }

    /// An id that no other call has.
    pub(crate) fn next_id(&self) -> String {
        let mut inner = self.inner();
        inner.ids += 1;
        format!("c{}", inner.ids)
    }

    /// A model that has read both makes this call.
    pub(crate) fn carries(&self, call: &str) {
        self.inner().carrying.insert(call.to_owned());
    }

    /// A person is asked. What was decided about the same call does not hold any more. If another version of the program
    /// asks, and ends before it has written that, what was decided of the call as it was before still holds.
    pub(crate) fn asks(&self, question: &ApprovalRequest, definition: String) {
        let mut arguments = Map::clone(&question.arguments);
        arguments.extend(Map::clone(&question.defaults));
        let folder = question.folder.as_ref().map(|folder| folder.display().to_string());
        let what = What {
            tool: question.tool.clone(),
            arguments: present(&arguments),
            definition,
            folder: folder.unwrap_or_default(),
        };
        let place = Place::of(question);
        let mut inner = self.inner();
        inner.allowed.retain(|it| it.place != place || it.scope != Scope::Once || it.what != what);
        inner.asked.insert(question.nonce.clone(), (place, what));
    }

    /// The question counts no more from the moment in which it was asked.
    pub(crate) fn is_over(&self, nonce: &str) {
        self.inner().over.insert(nonce.to_owned());
    }

    /// Whether an answer to this question may count.
    pub(crate) fn may_count(&self, nonce: &str) -> bool {
        !self.inner().over.contains(nonce)
    }

    /// A person has answered, and it counts.
    pub(crate) fn decides(&self, approval: &Approval) {
        let mut inner = self.inner();
        let Some((place, what)) = inner.asked.get(&approval.question.nonce).cloned() else {
            return;
        };
        let allow = |scope| Allowed { place: place.clone(), what: what.clone(), scope };
        match &approval.answer {
            ApprovalDecision::Yes => inner.allowed.push(allow(Scope::Once)),
            ApprovalDecision::Always { scope } => {
                let is_wide = scope.key().starts_with("to:");
                let scope = if is_wide { Scope::Wide } else { Scope::Always };
                inner.allowed.extend([allow(Scope::Once), allow(scope)]);
            }
            ApprovalDecision::No { .. } => {
                inner.allowed.retain(|it| it.place != place || it.scope != Scope::Once);
            }
            ApprovalDecision::Later { .. } => {}
        }
    }

    /// A copy of a conversation has the *always* of the original.
    pub(crate) fn forks(&self, from: &str, to: &str) {
        let mut inner = self.inner();
        let holds = |it: &&Allowed| {
            it.place.conversation.as_deref() == Some(from) && it.scope != Scope::Once
        };
        let copies: Vec<Allowed> = inner.allowed.iter().filter(holds).cloned().collect();
        inner.allowed.extend(copies.into_iter().map(|mut it| {
            it.place.conversation = Some(to.to_owned());
            it
        }));
    }

    /// The program was told to do it.
    pub(crate) fn hands_over(&self, place: Place, what: What) {
        self.inner().allowed.push(Allowed { place, what, scope: Scope::Once });
    }

    /// An *always* is taken back.
    /// A person may have given two for one call, each in a scope of its own.
    pub(crate) fn revokes(&self, conversation: &str, asked: &str, key: &str) {
        let scope = if key.starts_with("to:") { Scope::Wide } else { Scope::Always };
        self.inner().allowed.retain(|it| {
            it.scope != scope
                || it.place.conversation.as_deref() != Some(conversation)
                || it.place.call != asked
        });
    }

    /// A tool does it, now. `asks` says whether a person had to decide about it.
    pub(crate) fn does(&self, place: Place, what: What, asks: Asks) {
        let mut inner = self.inner();
        inner.happened.push(format!("   {what:?} by {place:?}"));
        *inner.counts.entry("effects").or_default() += 1;
        // No two calls of models have one id, and a call of a copy runs only in the original.
        if inner.effects.iter().any(|(before, _)| before.call == place.call) {
            inner.broken.push(format!("twice: {what:?} by {place:?}"));
        }
        let must = match asks {
            Asks::Each => true,
            Asks::Carrying => inner.carrying.contains(&place.call),
            Asks::Nobody => false,
        };
        if must {
            let is_near = |it: &Allowed| it.place.conversation == place.conversation;
            let is_allowed = |it: &&Allowed| match it.scope {
                Scope::Once => it.place == place && it.what == what,
                Scope::Always => is_near(it) && it.what == what,
                Scope::Wide => {
                    let arguments = it.what.arguments.clone();
                    is_near(it)
                        && it.what.to() == what.to()
                        && it.what == What { arguments, ..what.clone() }
                }
            };
            match inner.allowed.iter().find(is_allowed).map(|it| it.scope) {
                Some(Scope::Once) => *inner.counts.entry("effects decided").or_default() += 1,
                Some(_) => *inner.counts.entry("effects by always").or_default() += 1,
                None => {
                    *inner.counts.entry("UNASKED").or_default() += 1;
                    let near = inner.allowed.iter().filter(|it| it.place.call == place.call);
                    let near: Vec<Allowed> = near.cloned().collect();
                    inner.broken.push(format!("unasked: {what:?} by {place:?}, decided {near:?}"));
                }
            }
        }
        inner.effects.push((place, what));
    }

    /// How often a call has run, in this conversation or in any.
    pub(crate) fn ran(&self, conversation: Option<&str>, call: &str) -> usize {
        let inner = self.inner();
        let here = |place: &Place| {
            conversation.is_none_or(|name| place.conversation.as_deref() == Some(name))
        };
        inner.effects.iter().filter(|(place, _)| place.call == call && here(place)).count()
    }

    /// How much has happened in the conversations below a call.
    pub(crate) fn ran_below(&self, conversation: &str, call: &str) -> usize {
        let begins = format!("{conversation}/{call}");
        let below = |place: &Place| {
            let name = place.conversation.as_deref().and_then(|it| it.strip_prefix(&begins));
            name.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.inner().effects.iter().filter(|(place, _)| below(place)).count()
    }
}

/// When a person has to decide about a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    Each,
    /// If its model had read private data and words of strangers.
    Carrying,
    Nobody,
}
