//! What a provider learns of its server from what the server refuses. The question is another one then, and is
//! asked once more at once; the refusal is not counted as a try. Copies of the provider know it, too.

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
    provider::{AnswerWay, Request},
    wire::{Takes, answer, chat},
};

/// What a provider has learnt.
#[derive(Clone, Debug, Default)]
pub(super) struct Lessons {
    /// Whether the server wants turns, where the program has not said it.
    turns: Option<Arc<AtomicBool>>,
    /// How answers can be asked for.
    ways: Arc<Mutex<HashMap<Asked, AnswerWay>>>,
}

/// So many refusals are remembered.
const MOST: usize = 1_000;

/// For which requests a way of asking is learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    with_tools: bool,
    /// A number for the schema, if another one may be taken.
    schema: Option<u64>,
}

/// One thing to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// The server wants turns.
    Turns,
    /// Answers are to be asked for in another way.
    Way(Asked),
}

impl Lessons {
    /// Lets the provider learn whether the server wants turns.
    pub(super) fn of_turns(mut self) -> Self {
        self.turns = Some(Arc::default());
        self
    }

    /// Whether the server wants turns.
    pub(super) fn turns(&self) -> bool {
        self.turns.as_ref().is_some_and(|learnt| learnt.load(Ordering::Relaxed))
    }

    /// How the answer to this request is to be asked for, if that was learnt.
    pub(super) fn way(&self, request: &Request<'_>) -> Option<AnswerWay> {
        let [any, this] = Asked::of(request)?;
        let ways = self.ways();
        let found = [ways.get(&any), ways.get(&this)].into_iter().flatten().copied();
        found.max_by_key(|way| *way == AnswerWay::Words)
    }

    fn ways(&self) -> MutexGuard<'_, HashMap<Asked, AnswerWay>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a refusal of this request could teach something.
    pub(super) fn are_open(&self, request: &Request<'_>) -> bool {
        let open = self.turns.as_ref().is_some_and(|learnt| !learnt.load(Ordering::Relaxed));
        open || request.answer().is_some()
    }

    /// Learns from a refusal of this request, for a model that takes this, and which was sent in turns or not.
    /// Says what it tells, and whether the request is another one with that.
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

    /// Forgets what was learnt, since it was not what the server wanted.
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
    /// All requests like this one, and those with the same schema.
    fn of(request: &Request<'_>) -> Option<[Self; 2]> {
        let with_tools = !request.tools().is_empty();
        let mut hasher = DefaultHasher::new();
        request.answer()?.schema().to_string().hash(&mut hasher);
        let schema = Some(hasher.finish());
        Some([Self { with_tools, schema: None }, Self { with_tools, schema }])
    }
}
