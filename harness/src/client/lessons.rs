//! Properties of its server that a provider learns from refusals. The provider then changes the
//! request and sends it again at once; the refusal does not count as a try. Clones of the provider
//! share what was learned.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    error::Error,
    message::{Block, Message},
    provider::{About, AnswerWay, Request},
    wire::{Takes, answer, chat, fault},
};

/// The learned properties of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Lessons {
    /// Whether the server requires alternating turns, unless the program has set it.
    turns: Option<Arc<AtomicBool>>,
    /// How answers with a schema can be requested.
    ways: Arc<Mutex<HashMap<Asked, AnswerWay>>>,
    /// The ids of messages: the server has refused the thinking of each of them, or of one before it.
    thinking: Arc<Mutex<HashSet<String>>>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// The server requires alternating turns.
    Turns,
    /// Answers must be requested in another way.
    Way(Asked),
    /// The thinking up to the message with this id must be left out.
    Thinking(String),
}

/// What a provider knows about a server when it sends a request. Another request may learn more meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    in_turns: bool,
    without_thinking: bool,
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

    /// The request without the thinking that the server has refused. Without this, a conversation with such thinking could
    /// never continue: it was made by another model or account, or what came before it has changed.
    pub(super) fn without_refused<'r, 'a>(&self, request: &'r Request<'a>) -> Cow<'r, Request<'a>> {
        let refused = self.thinking();
        if refused.is_empty() {
            return Cow::Borrowed(request);
        }
        let messages = request.messages();
        let is_refused =
            |at: &usize| messages.get(*at).is_some_and(|message| refused.contains(message.id()));
        let last = (0..messages.len()).rev().find(is_refused);
        match last.map(|at| at + 1).filter(|from| *from > request.open_turn()) {
            Some(from) => {
                let all = request.clone().with_thinking_from(from.max(request.thinking_from()));
                Cow::Owned(all.with_open_turn(from))
            }
            None => Cow::Borrowed(request),
        }
    }

    fn thinking(&self) -> MutexGuard<'_, HashSet<String>> {
        self.thinking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ways(&self) -> MutexGuard<'_, HashMap<Asked, AnswerWay>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a refusal of this request could be a lesson.
    pub(super) fn are_open(&self, request: &Request<'_>) -> bool {
        let open = self.turns.as_ref().is_some_and(|learnt| !learnt.load(Ordering::Relaxed));
        open || request.answer().is_some() || last_thinking(request).is_some()
    }

    /// What is known before this request is sent.
    pub(super) fn known(&self, request: &Request<'_>) -> Known {
        let last = last_thinking(request);
        let without_thinking = last.is_some_and(|last| self.thinking().contains(last.id()));
        Known { in_turns: self.turns(), without_thinking }
    }

    /// Learns from a refusal of this request. `takes` describes the model, and `known` is what was known when the request
    /// was sent. Returns the lesson, and whether it changes the request.
    pub(super) fn learn(
        &self,
        request: &Request<'_>,
        takes: &Takes,
        known: Known,
        err: &Error,
    ) -> Option<(Lesson, bool)> {
        if let Some(learnt) = &self.turns
            && chat::wants_turns(err)
            && chat::needs_bridge(request.messages(), takes)
        {
            learnt.store(true, Ordering::Relaxed);
            return Some((Lesson::Turns, !known.in_turns));
        }
        if fault::refuses_thinking(err)
            && let Some(message) = last_thinking(request)
        {
            let mut refused = self.thinking();
            if refused.len() >= MOST {
                refused.clear();
            }
            let id = message.id().to_owned();
            refused.insert(id.clone());
            return Some((Lesson::Thinking(id), !known.without_thinking));
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
                Lesson::Thinking(id) => drop(self.thinking().remove(id)),
            }
        }
    }
}

/// The last message with thinking that is sent back.
fn last_thinking<'a>(request: &Request<'a>) -> Option<&'a Message> {
    let thinks = |message: &&Message| {
        let mut blocks = message.blocks().iter();
        blocks.any(|block| matches!(block, Block::Reasoning(it) if it.vendor().is_some()))
    };
    request.messages().iter().rfind(thinks)
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
