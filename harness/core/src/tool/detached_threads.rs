//! Threads of synchronous tools that still run after their calls were stopped. The library cannot stop a thread, so the
//! thread stays listed until its function returns. Until then, the call is not reported as ended, and no equal call
//! starts.

use std::{
    mem,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use super::{ToolError, ToolOutput, truncate::cut};
use crate::{
    message::{CallOutcome, Fingerprint, ToolContent},
    secret::Secrets,
    tool::SideEffects,
    unwind::{Panicked, caught},
};

/// The maximum number of ended threads that stay listed. A limit is needed because some conversations are never
/// continued.
const KEPT_ENDS: usize = 10_000;

/// The maximum size of the results of all listed threads together, in bytes.
const KEPT: usize = 64 << 20;

/// The maximum length of one part of a result, in bytes. A longer part is cut.
const LARGEST: usize = 16 << 20;

/// A part above the maximum is cut to this length, in bytes. A model would read more than this of a result.
const KEPT_TEXT: usize = 700;

/// The note in a part that was cut.
const LOST: &str = "; the whole was not kept, since the call ended late and its result is too large to wait in memory";

/// Identifies a call and the conversation to which it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct CallIdentity {
    pub conversation: Arc<str>,
    pub call: Arc<str>,
    pub tool: Arc<str>,
    pub effects: SideEffects,
    /// A hash of the tool's name and the arguments.
    pub fingerprint: Fingerprint,
    /// A hash of the call's effect. Equal calls have the same hash: see [`Tool::sameness`](super::Tool::sameness).
    pub sameness: Fingerprint,
}

/// A call that was stopped while its function still runs on its thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StillRunning {
    /// The id of the first message, which identifies the conversation.
    pub conversation: String,
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The side effects that the tool declares. A tool that only reads cannot change anything, but its thread still
    /// keeps the program from ending.
    pub effects: SideEffects,
    /// The start time of the function.
    pub since: Instant,
}

/// How a stopped call ended later.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct LateEnd {
    /// The number of the thread in this process.
    pub number: u64,
    pub identity: CallIdentity,
    pub outcome: CallOutcome,
    pub content: Vec<ToolContent>,
    /// A file whose text is the result, in place of `content`.
    pub file: Option<PathBuf>,
}

impl LateEnd {
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|part| match part {
            ToolContent::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The size of the result's texts, in bytes.
    fn size(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    fn text(&self) -> String {
        self.texts().collect::<Vec<_>>().join("\n")
    }
}

/// Returns all stopped calls of this process whose functions still run, in all conversations. Check them before the
/// program ends.
///
/// A synchronous tool cannot be stopped from outside: it should check
/// [`ToolContext::cancellation`](super::ToolContext::cancellation) and return early. When a tokio runtime is dropped,
/// for example at the end of `main`, the runtime waits for all these functions. [`StillRunning::effects`] shows which
/// functions only read.
pub fn still_running() -> Vec<StillRunning> {
    left()
        .iter()
        .filter(|thread| thread.is_running())
        .map(|thread| thread.text_for_model())
        .collect()
}

/// The stopped calls of one conversation whose functions still run.
#[doc(hidden)]
pub fn still_running_in(conversation: &str) -> Vec<StillRunning> {
    let left = left();
    let of_it = |thread: &&Arc<ToolThread>| *thread.identity.conversation == *conversation;
    left.iter()
        .filter(of_it)
        .filter(|thread| thread.is_running())
        .map(|t| t.text_for_model())
        .collect()
}

/// Whether this call was stopped and its function still runs.
#[doc(hidden)]
pub fn is_still_running(call: &CallIdentity) -> bool {
    left().iter().any(|thread| thread.identity == *call && thread.is_running())
}

/// Returns the id of a stopped call in this conversation that has the same effect (`sameness`) and whose function still
/// runs.
#[doc(hidden)]
pub fn equal_still_running(
    conversation: &str,
    sameness: impl FnOnce() -> Fingerprint,
) -> Option<String> {
    let left = left();
    if left.is_empty() {
        return None;
    }
    let sameness = sameness();
    let equal = left.iter().filter(|thread| thread.matters()).find(|thread| {
        let identity = &thread.identity;
        *identity.conversation == *conversation
            && identity.sameness == sameness
            && thread.is_running()
    });
    equal.map(|thread| thread.identity.call.to_string())
}

/// The stopped calls of this conversation whose functions have ended in the meantime. Only calls for which `wants`
/// returns true are returned. The calls stay listed, because several chats may continue from one transcript, and each
/// chat needs a report.
#[doc(hidden)]
pub fn ended_in(conversation: &str, wants: impl Fn(u64, &CallIdentity) -> bool) -> Vec<LateEnd> {
    let of_it = |thread: &&Arc<ToolThread>| *thread.identity.conversation == *conversation;
    let wanted = |thread: &&Arc<ToolThread>| wants(thread.number, &thread.identity);
    let end = |thread: &Arc<ToolThread>| match &*thread.state() {
        ThreadState::Ended(end) => Some(end.clone()),
        ThreadState::Waiting | ThreadState::Running | ThreadState::Left | ThreadState::Done => None,
    };
    left().iter().filter(of_it).filter(wanted).filter_map(end).collect()
}

/// The threads whose calls were stopped before the functions ended.
static LEFT: Mutex<Vec<Arc<ToolThread>>> = Mutex::new(Vec::new());

/// The number of functions that were started on their own threads so far.
static COUNT: AtomicU64 = AtomicU64::new(0);

fn left() -> MutexGuard<'static, Vec<Arc<ToolThread>>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tool's function on its own thread.
#[derive(Debug)]
pub(super) struct ToolThread {
    number: u64,
    identity: CallIdentity,
    since: Instant,
    /// The secrets that are removed from the result.
    secrets: Secrets,
    /// Whether a conversation has recorded the late end.
    is_reported: AtomicBool,
    state: Mutex<ThreadState>,
}

#[derive(Debug)]
enum ThreadState {
    /// The function has not started.
    Waiting,
    /// The function runs, and the call waits for the result.
    Running,
    /// The function runs, but its call was stopped.
    Left,
    /// The function has ended after its call was stopped.
    Ended(LateEnd),
    /// The function has ended, and no late end has to be reported.
    Done,
}

impl ToolThread {
    pub(super) fn of(identity: CallIdentity, secrets: Secrets) -> Arc<Self> {
        let state = Mutex::new(ThreadState::Waiting);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (since, is_reported) = (Instant::now(), AtomicBool::new(false));
        Arc::new(Self { number, identity, since, secrets, is_reported, state })
    }

    /// Called when the function is about to start. Returns false if the call was already stopped, so that the function
    /// must not run.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.state();
        let begins = matches!(*state, ThreadState::Waiting);
        if begins {
            *state = ThreadState::Running;
        }
        begins
    }

    /// Called when the function has returned or panicked.
    pub(super) fn ended(&self, end: &Result<Result<ToolOutput, ToolError>, Panicked>) {
        let mut state = self.state();
        *state = match mem::replace(&mut *state, ThreadState::Done) {
            ThreadState::Left if self.matters() => ThreadState::Ended(self.end(end)),
            ThreadState::Left => ThreadState::Done,
            ThreadState::Waiting
            | ThreadState::Running
            | ThreadState::Ended(_)
            | ThreadState::Done => return,
        };
        drop(state);
        match self.matters() {
            true => make_room(self.number),
            false => left().retain(|thread| thread.number != self.number),
        }
    }

    /// Called when the call is over. Lists the thread if the function still runs.
    pub(super) fn left(self: &Arc<Self>) {
        // Lock order: the list before the state.
        let mut list = left();
        let mut state = self.state();
        *state = match *state {
            ThreadState::Running => {
                list.push(Arc::clone(self));
                ThreadState::Left
            }
            ThreadState::Waiting => ThreadState::Done,
            ThreadState::Left | ThreadState::Ended(_) | ThreadState::Done => return,
        };
    }

    fn end(&self, end: &Result<Result<ToolOutput, ToolError>, Panicked>) -> LateEnd {
        let (number, identity) = (self.number, self.identity.clone());
        // Displaying an error runs code of the program, which may panic.
        let (outcome, content) = caught(|| self.content(end)).unwrap_or_else(|panicked| {
            (CallOutcome::InDoubt, vec![format!("displaying its error {panicked}").into()])
        });
        let file = match end {
            Ok(Ok(output)) => output.path().map(Path::to_owned),
            _ => None,
        };
        LateEnd { number, identity, outcome, content, file }
    }

    fn content(
        &self,
        end: &Result<Result<ToolOutput, ToolError>, Panicked>,
    ) -> (CallOutcome, Vec<ToolContent>) {
        let (outcome, content) = match end {
            Ok(Ok(output)) => (CallOutcome::Succeeded, output.content().to_vec()),
            Ok(Err(err)) if err.is_in_doubt() => {
                (CallOutcome::InDoubt, vec![err.text_for_model(&self.secrets).into()])
            }
            Ok(Err(err)) => (CallOutcome::Failed, vec![err.text_for_model(&self.secrets).into()]),
            Err(panicked) => {
                (CallOutcome::InDoubt, vec![format!("its function {panicked}").into()])
            }
        };
        let kept = content.into_iter().filter_map(|part| {
            let text = match (part.to_text(), part.media()) {
                (Some(text), _) => text,
                (None, Some((_, media))) => {
                    let mime = media.mime().unwrap_or("a file");
                    format!(
                        "[A part of the result, {mime}, was not kept, since the call ended late.]"
                    )
                }
                (None, None) => return None,
            };
            // Secrets are removed before the cut, because half a secret would not be found.
            let text = self.secrets.hide(&text);
            Some(match text.len() > LARGEST {
                true => cut(&text, KEPT_TEXT, LOST).into(),
                false => text.into_owned().into(),
            })
        });
        (outcome, kept.collect())
    }

    /// Whether a late end of the function has to be reported. No report is needed if the tool only reads.
    fn matters(&self) -> bool {
        !self.identity.effects.is_read_only()
    }

    fn is_running(&self) -> bool {
        matches!(*self.state(), ThreadState::Left)
    }

    fn text_for_model(&self) -> StillRunning {
        let CallIdentity { conversation, call, tool, effects, .. } = &self.identity;
        StillRunning {
            conversation: conversation.to_string(),
            call: call.to_string(),
            tool: tool.to_string(),
            effects: *effects,
            since: self.since,
        }
    }

    fn state(&self) -> MutexGuard<'_, ThreadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks this late end as recorded by a conversation. From then on, the library may drop the result to make room for
/// other results.
#[doc(hidden)]
pub fn mark_reported(number: u64) {
    let list = left();
    let thread = list.iter().find(|thread| thread.number == number);
    thread.into_iter().for_each(|thread| thread.is_reported.store(true, Ordering::Relaxed));
}

/// Makes room for the newest late end. Results that were already recorded are dropped first. If more room is needed,
/// the newest result is cut. If there are more than `KEPT_ENDS` late ends, the oldest late ends are dropped.
fn make_room(newest: u64) {
    let mut list = left();
    let sizes = list.iter().filter_map(|thread| match &*thread.state() {
        ThreadState::Ended(end) => Some(end.size()),
        ThreadState::Waiting | ThreadState::Running | ThreadState::Left | ThreadState::Done => None,
    });
    let sizes: Vec<usize> = sizes.collect();
    let mut surplus = sizes.len().saturating_sub(KEPT_ENDS);
    let mut bytes: usize = sizes.iter().sum();
    for thread in list.iter().filter(|thread| thread.is_reported.load(Ordering::Relaxed)) {
        if let ThreadState::Ended(end) = &mut *thread.state()
            && bytes > KEPT
        {
            bytes -= end.size();
            end.content = vec!["(its result is not kept any more)".into()];
        }
    }
    let new = list.iter().find(|thread| thread.number == newest);
    if let Some(new) = new.filter(|_| bytes > KEPT)
        && let ThreadState::Ended(end) = &mut *new.state()
    {
        end.content = vec![cut(&end.text(), KEPT_TEXT, LOST).into()];
    }
    list.retain(|thread| {
        let has_ended = matches!(*thread.state(), ThreadState::Ended(_));
        let forget = surplus > 0 && has_ended;
        surplus -= usize::from(forget);
        !forget
    });
}
