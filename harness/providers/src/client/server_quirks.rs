//! Learns properties of a server from its refusals. After a refusal, the provider changes the request and sends it
//! again at once. The refusal does not count as a try. Clones of a provider share the learned properties.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use crate::wire::{
    ModelCapabilities, RefusedMembers, answer, chat, fault,
    optional::{MemberRefusal, OptionalMember},
};
use harness_core::{
    error::Error,
    message::{Block, Message},
    provider::{OutputMode, Request, RequestPurpose, StreamEvent},
    secret::Secrets,
};

/// The learned properties of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerQuirks {
    /// Whether the server requires alternating turns; `None` if the program has decided this.
    turns: Option<Arc<AtomicBool>>,
    /// How to request an answer with a schema, for each learned kind of request.
    ways: Arc<Mutex<HashMap<LearnedRequest, OutputMode>>>,
    /// The ids of messages up to which the server has refused thinking. Requests leave out the thinking in these
    /// messages and in all earlier messages.
    thinking: Arc<Mutex<HashSet<String>>>,
    /// The optional members that the server refuses.
    refused: Arc<AtomicU32>,
    /// Refused members, each with the server's error, that were not reported yet. The next answer begins with an event
    /// for each of these members.
    untold: Arc<Mutex<Vec<(OptionalMember, String)>>>,
}

/// The properties of one sent request. Learning from a refusal needs these values, because a parallel request may
/// change the learned properties before the refusal arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestTraits {
    /// Whether the turns alternated.
    in_turns: bool,
    /// Whether the request left out thinking that the server had refused before.
    without_thinking: bool,
    /// The optional members of the sent body.
    pub(super) optional: RefusedMembers,
}

/// The maximum number of refusals that are remembered.
const MOST: usize = 1_000;

/// The requests to which a learned output mode applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LearnedRequest {
    with_tools: bool,
    /// The purpose of the request: to ask for an answer alone, or to continue a conversation. An output mode that was
    /// learned for one purpose is not used for another purpose.
    about: RequestPurpose,
    /// A hash of the schema, if the server refused only this schema; `None` if it refused all schemas.
    schema: Option<u64>,
}

/// One learned property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServerQuirk {
    /// The server requires alternating turns.
    Turns,
    /// The server refuses these optional members.
    Refused(RefusedMembers),
    /// These requests need another output mode.
    Way(LearnedRequest),
    /// The thinking up to the message with this id must be left out.
    Thinking(String),
}

impl ServerQuirks {
    /// Turns on learning whether the server requires alternating turns.
    pub(super) fn of_turns(mut self) -> Self {
        self.turns = Some(Arc::default());
        self
    }

    /// Whether the server requires alternating turns.
    pub(super) fn turns(&self) -> bool {
        self.turns.as_ref().is_some_and(|learnt| learnt.load(Ordering::Relaxed))
    }

    /// The learned output mode for this request, if there is one.
    pub(super) fn way(&self, request: &Request<'_>) -> Option<OutputMode> {
        let [any, this] = LearnedRequest::of(request)?;
        let ways = self.ways();
        let found = [ways.get(&any), ways.get(&this)].into_iter().flatten().copied();
        found.max_by_key(|way| *way == OutputMode::Words)
    }

    /// Leaves out the thinking that the server has refused. The server refuses thinking of another model or account,
    /// and thinking after messages that have changed. If requests still contained this thinking, the conversation could
    /// never continue.
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

    fn ways(&self) -> MutexGuard<'_, HashMap<LearnedRequest, OutputMode>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The properties of this request, recorded before the request is sent.
    pub(super) fn sent(&self, request: &Request<'_>) -> RequestTraits {
        let last = last_thinking(request);
        let without_thinking = last.is_some_and(|last| self.thinking().contains(last.id()));
        RequestTraits { in_turns: self.turns(), without_thinking, ..RequestTraits::default() }
    }

    /// The optional members that the server refuses.
    pub(super) fn refused(&self) -> RefusedMembers {
        RefusedMembers::of_bits(self.refused.load(Ordering::Relaxed))
    }

    /// Takes the events that report newly refused optional members. From now on, requests leave these members out.
    pub(super) fn take_untold(&self, secrets: &Secrets) -> Vec<StreamEvent> {
        let untold = std::mem::take(&mut *self.untold());
        let event = |(member, cause): (OptionalMember, String)| StreamEvent::ParameterDropped {
            parameter: member.name().to_owned(),
            cause: secrets.hide(&cause).into_owned(),
        };
        untold.into_iter().map(event).collect()
    }

    fn untold(&self) -> MutexGuard<'_, Vec<(OptionalMember, String)>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns from a refusal of this request. `takes` describes the model. Returns what was learned, and whether the
    /// changed request would differ from the refused request.
    pub(super) fn learn(
        &self,
        request: &Request<'_>,
        takes: &ModelCapabilities,
        sent: RequestTraits,
        err: &Error,
    ) -> Option<(ServerQuirk, bool)> {
        if let Some(learnt) = &self.turns
            && chat::is_alternation_required(err)
            && chat::needs_bridge(request.messages(), takes)
        {
            learnt.store(true, Ordering::Relaxed);
            return Some((ServerQuirk::Turns, !sent.in_turns));
        }
        if fault::is_thinking_refused(err)
            && let Some(message) = last_thinking(request)
        {
            let mut refused = self.thinking();
            if refused.len() >= MOST {
                refused.clear();
            }
            let id = message.id().to_owned();
            refused.insert(id.clone());
            return Some((ServerQuirk::Thinking(id), !sent.without_thinking));
        }
        if let Some(refusal) = MemberRefusal::of(err) {
            let refused = sent.optional.refused_by(&refusal);
            if !refused.is_empty() {
                let before = self.refused.fetch_or(refused.bits(), Ordering::Relaxed);
                let before = RefusedMembers::of_bits(before);
                let new = refused.iter().filter(|member| !before.has(*member));
                self.untold().extend(new.map(|member| (member, err.to_string())));
                return Some((ServerQuirk::Refused(refused), true));
            }
        }
        let way = request.answer()?.way()?;
        if !answer::is_way_refused(way, err) {
            return None;
        }
        let [any, this] = LearnedRequest::of(request)?;
        let asked = if answer::is_every_schema_refused(err) { any } else { this };
        let next = match way {
            OutputMode::Schema => OutputMode::Tool,
            OutputMode::Tool | OutputMode::Words => OutputMode::Words,
        };
        let mut ways = self.ways();
        if ways.len() >= MOST {
            ways.clear();
        }
        ways.insert(asked, next);
        Some((ServerQuirk::Way(asked), true))
    }

    /// Forgets lessons that did not help: the server refused the changed request for the same reason. `before` is the
    /// error that taught the last lesson. `err` is the error of the changed request.
    pub(super) fn forget_vain(&self, lessons: &[ServerQuirk], before: &Error, err: &Error) {
        let refusal = MemberRefusal::of(err);
        let names_again = |members: &RefusedMembers| {
            refusal.as_ref().is_some_and(|refusal| !members.refused_by(refusal).is_empty())
        };
        // Words with digits do not count, because servers add ids and times to their messages.
        let words = |err: &Error| -> Vec<String> {
            let words = err.message().split_whitespace();
            words
                .filter(|it| !it.contains(|it: char| it.is_ascii_digit()))
                .map(str::to_owned)
                .collect()
        };
        let says_it_again = words(before) == words(err);
        for (at, lesson) in (1..).zip(lessons) {
            let is_vain = match lesson {
                ServerQuirk::Refused(members) => names_again(members),
                _ => at == lessons.len() && says_it_again,
            };
            if is_vain {
                self.forget(std::slice::from_ref(lesson));
            }
        }
    }

    /// Removes these lessons, because they did not help.
    pub(super) fn forget(&self, lessons: &[ServerQuirk]) {
        for lesson in lessons {
            match lesson {
                ServerQuirk::Turns => {
                    if let Some(learnt) = &self.turns {
                        learnt.store(false, Ordering::Relaxed);
                    }
                }
                ServerQuirk::Refused(members) => {
                    self.refused.fetch_and(!members.bits(), Ordering::Relaxed);
                    self.untold().retain(|(member, _)| !members.has(*member));
                }
                ServerQuirk::Way(asked) => drop(self.ways().remove(asked)),
                ServerQuirk::Thinking(id) => drop(self.thinking().remove(id)),
            }
        }
    }
}

/// The last message whose thinking the request sends back.
fn last_thinking<'a>(request: &Request<'a>) -> Option<&'a Message> {
    let thinks = |message: &&Message| {
        let mut blocks = message.blocks().iter();
        blocks.any(|block| matches!(block, Block::Reasoning(it) if it.vendor().is_some()))
    };
    request.messages().iter().rfind(thinks)
}

impl LearnedRequest {
    /// Two keys for requests like this one: the first for all schemas, the second only for the schema of this request.
    /// `None` if the request has no schema.
    fn of(request: &Request<'_>) -> Option<[Self; 2]> {
        let (with_tools, answer) = (!request.tools().is_empty(), request.answer()?);
        let mut hasher = DefaultHasher::new();
        answer.schema().to_string().hash(&mut hasher);
        let schema = Some(hasher.finish());
        let this = Self { with_tools, about: answer.about(), schema };
        Some([Self { schema: None, ..this }, this])
    }
}
