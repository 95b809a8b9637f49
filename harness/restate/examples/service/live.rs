//! The conversations that run in this process or that somebody watches here. Their runs are seen at once, and those of
//! other workers when the engine has their facts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt as _, stream};
use harness::agent::{Agent, LiveEvents, LiveWatcher, Numbered};
use harness_restate::{Client, ClientError, Conversation};
use tokio::time::timeout;

use crate::limits::Place;

/// How often the engine is asked for the facts of a conversation, however many tabs watch it.
const OFTEN: Duration = Duration::from_millis(250);

/// A stream without events says after so many of these times that it is there.
const KEEP_ALIVE: u32 = 60;

pub(crate) struct LiveChats {
    pub(crate) agent: Agent,
    pub(crate) client: Client,
    pub(crate) all: Mutex<HashMap<String, Weak<LiveChat>>>,
}

/// A conversation, as long as it runs here or is watched here.
pub(crate) struct LiveChat {
    pub(crate) live: Arc<LiveEvents>,
    read: tokio::sync::Mutex<ReadFacts>,
}

/// What was read from the engine.
#[derive(Default)]
struct ReadFacts {
    next: u32,
    count: usize,
    at: Option<Instant>,
    busy: bool,
}

impl LiveChats {
    pub(crate) fn of(&self, name: &str) -> Arc<LiveChat> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chat) = all.get(name).and_then(Weak::upgrade) {
            return chat;
        }
        all.retain(|_, chat| chat.strong_count() > 0);
        let live = Arc::new(LiveEvents::new(&self.agent));
        let chat = Arc::new(LiveChat { live, read: Default::default() });
        all.insert(name.to_owned(), Arc::downgrade(&chat));
        chat
    }

    /// Opens a conversation with all facts that the engine has.
    pub(crate) async fn open(&self, name: &str) -> Result<Tab, ClientError> {
        let wrong =
            |err: harness::Error| ClientError::Failed { status: 400, message: err.to_string() };
        let (chat, here) = (self.client.conversation(name).map_err(wrong)?, self.of(name));
        // The last facts of a run come a moment before its end.
        let busy = here.read(&chat, Duration::ZERO).await? && here.live.is_going();
        let watcher = here.live.watch();
        Ok(Tab { chat, here, watcher, busy })
    }
}

impl LiveChat {
    /// Reads the new facts, unless that was done within `age`. Returns whether a run goes on.
    async fn read(&self, chat: &Conversation, age: Duration) -> Result<bool, ClientError> {
        let mut read = self.read.lock().await;
        if read.at.is_none_or(|at| at.elapsed() >= age) {
            let new = chat.facts(read.next).await?;
            let unfit =
                |err: harness::Error| ClientError::Failed { status: 500, message: err.to_string() };
            self.live.apply(read.count, &new.facts).map_err(unfit)?;
            let count = read.count + new.facts.len();
            let (next, busy) = (new.next, new.run.is_some());
            *read = ReadFacts { next, count, at: Some(Instant::now()), busy };
        }
        Ok(read.busy)
    }
}

/// Somebody who watches a conversation.
pub(crate) struct Tab {
    pub(crate) chat: Conversation,
    here: Arc<LiveChat>,
    pub(crate) watcher: LiveWatcher,
    /// Whether a run went on when this began.
    pub(crate) busy: bool,
}

impl Tab {
    /// Goes to the next run, unless one goes on.
    pub(crate) fn skip_ended(&mut self) {
        while !self.here.live.is_going() && self.watcher.try_next().is_some() {}
    }

    /// The next event; `None` if nothing has happened for a while.
    async fn next(&mut self) -> Option<Numbered> {
        for _ in 0..KEEP_ALIVE {
            if let Ok(event) = timeout(OFTEN, self.watcher.next()).await {
                return Some(event);
            }
            // While the engine is not reached, nothing is new.
            let _ = self.here.read(&self.chat, OFTEN).await;
        }
        None
    }

    /// What becomes of the events, until one is the last.
    pub(crate) fn encoded(
        self,
        place: Place,
        encode: impl FnMut(&Numbered) -> (String, bool) + Send + 'static,
    ) -> impl Stream<Item = String> + Send {
        let texts =
            stream::unfold((self, encode, Some(place)), async |(mut tab, mut encode, place)| {
                let place = place?;
                let event = tab.next().await;
                let (text, ended) =
                    event.map_or((":\n\n".to_owned(), false), |event| encode(&event));
                Some((text, (tab, encode, (!ended).then_some(place))))
            });
        texts.boxed()
    }
}
