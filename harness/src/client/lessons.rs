//! Properties of its server that a provider learns from refusals. The provider then changes the
//! request and sends it again at once; the refusal does not count as a try. Clones of the provider
//! share what was learned.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    error::Error,
    provider::{About, AnswerWay, Request},
    wire::{Takes, answer, chat},
};

/// The learned properties of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Lessons {
    /// Whether the server requires alternating turns, unless the program has set it.
    turns: Option<Arc<AtomicBool>>,
    /// How answers with a schema can be requested.
    ways: Arc<Mutex<HashMap<Asked, AnswerWay>>>,
}

/// The maximum number of refusals that are remembered.
const MOST: usize = 1_000;

/// The requests to which a learned way of asking applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    with_tools: bool,
    /// Whether the request wants an answer alone or continues a conversation. What was learned for one kind does not hold
    /// for another.
    about: About,
    /// A hash of the schema, if the refusal was about this schema only.
    schema: Option<u64>,
}

/// One learned property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// The server requires alternating turns.
    Turns,
    /// Answers must be requested in another way.
    Way(Asked),
}

impl Lessons {
    /// Lets the provider learn whether the server requires alternating turns.
    pub(super) fn of_turns(mut self) -> Self {
        self.turns = Some(Arc::default());
        self
    }

    /// Whether the server requires alternating turns.
    pub(super) fn turns(&self) -> bool {
        self.turns.as_ref().is_some_and(|learnt| learnt.load(Ordering::Relaxed))
    }

    /// The learned way to request the answer, if there is one.
    pub(super) fn way(&self, request: &Request<'_>) -> Option<AnswerWay> {
        let [any, this] = Asked::of(request)?;
        let ways = self.ways();
        let found = [ways.get(&any), ways.get(&this)].into_iter().flatten().copied();
        found.max_by_key(|way| *way == AnswerWay::Words)
    }

    fn ways(&self) -> MutexGuard<'_, HashMap<Asked, AnswerWay>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a refusal of this request could be a lesson.
    pub(super) fn are_open(&self, request: &Request<'_>) -> bool {
        let open = self.turns.as_ref().is_some_and(|learnt| !learnt.load(Ordering::Relaxed));
        open || request.answer().is_some()
    }

    /// Learns from a refusal of this request. `takes` describes the model, and `in_turns` is
    /// whether the request had alternating turns. Returns the lesson, and whether it changes the
    /// request.
    pub(super) fn learn(
        &self,
        request: &Request<'_>,
        takes: &Takes,
        in_turns: bool,
        err: &Error,
    ) -> Option<(Lesson, bool)> {
        if let Some(learnt) = &self.turns
            && chat::wants_turns(err)
            && chat::needs_bridge(request.messages(), takes)
        {
            learnt.store(true, Ordering::Relaxed);
            return Some((Lesson::Turns, !in_turns));
        }
        let way = request.answer()?.way()?;
        if !answer::refuses(way, err) {
            return None;
        }
        let [any, this] = Asked::of(request)?;
        let asked = if answer::refuses_all(err) { any } else { this };
        let next = match way {
            AnswerWay::Schema => AnswerWay::Tool,
            AnswerWay::Tool | AnswerWay::Words => AnswerWay::Words,
        };
        let mut ways = self.ways();
        if ways.len() >= MOST {
            ways.clear();
        }
        ways.insert(asked, next);
        Some((Lesson::Way(asked), true))
    }

    /// Forgets lessons that did not help.
    pub(super) fn forget(&self, lessons: &[Lesson]) {
        for lesson in lessons {
            match lesson {
                Lesson::Turns => {
                    if let Some(learnt) = &self.turns {
                        learnt.store(false, Ordering::Relaxed);
                    }
                }
                Lesson::Way(asked) => drop(self.ways().remove(asked)),
            }
        }
    }
}

impl Asked {
    /// The key for all requests like this one, and the key for those with the same schema.
    fn of(request: &Request<'_>) -> Option<[Self; 2]> {
        let (with_tools, answer) = (!request.tools().is_empty(), request.answer()?);
        let mut hasher = DefaultHasher::new();
        answer.schema().to_string().hash(&mut hasher);
        let schema = Some(hasher.finish());
        let this = Self { with_tools, about: answer.about(), schema };
        Some([Self { schema: None, ..this }, this])
    }
}
