//! The checks of a journal: the one in memory passes them, and journals that break one promise each
//! do not.

use std::sync::Arc;

use harness::{
    Error, ErrorKind,
    journal::{
        ConversationInfo, ConversationPage, ConversationQuery, Envelope, Head, Incarnation,
        Journal, JournalFuture, Lease, MemoryJournal, Metadata, StoredFacts, WriterId,
    },
    testing::{Conformance, journal_conformance},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_in_memory_keeps_all_promises() {
    let journal = MemoryJournal::new();
    let report = journal_conformance(async || Ok(journal.clone())).await;
    report.assert_kept();
    assert!(report.kept().len() > 30, "{report}");
    assert_eq!(report.broken(), []);
}

/// What a broken journal does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    IgnoresAfter,
    AppendsHalf,
    AppendsOneByOne,
    TakesTheFirstFactOnly,
    LosesMetadata,
    LosesTags,
    LosesElapsed,
    LosesTheLife,
    RewritesJson,
    CutsLongFacts,
    TakesFactsOfTheFutureForBroken,
    ReadsFromTheBeginning,
    ReadsOneTooFew,
    IgnoresCase,
    TrimsNames,
    TakesAnyName,
    RefusesLongNames,
    HoldsNothing,
    HoldsInThisHandleOnly,
    HoldsForEver,
    WaitsForTheHold,
    HoldMakesTheConversation,
    ListsTheOldestFirst,
    ListsIgnoringOwner,
    ListsIgnoringParent,
    PagesRepeat,
    PagesLose,
    PagesEndEmpty,
    PagesAreUnlimited,
    TakesAnyCursor,
    HalvesCounts,
    ForgetsWhenItWasMade,
    AppendsNothingAnyhow,
    DeletesWithoutChildren,
    DeletesChildrenOnly,
    DeletesWhatIsHeld,
    DeleteKeepsMetadata,
    DeleteAlwaysSaysTrue,
    DeletesOneGeneration,
    ForksAll,
    ForksTooFew,
    ForkSharesWhatComesLater,
    ForkReplaces,
    ForkCopiesMetadata,
    ForkMakesWhatItRefuses,
    ConflictHasAnotherKind,
    BusyHasAnotherKind,
    DroppedAppendIsHalf,
    DroppedHoldStays,
    SpillChunksSwap,
    SpillsLoseBytes,
    SpillsAreOfEverybody,
    SpillsStayWhenDeleted,
    SpillsAppend,
    SpillsMakeTheConversation,
    SpillsIntoNothingAreLost,
    SpillRefusalHasAnotherKind,
    SpillsOutliveTheConversation,
    ForksWithoutSpills,
    ForksShareSpillsThatComeLater,
    ForkSpillsGoWithTheBase,
    SpillsShareOneSlot,
    KeepsSpillsInSecret,
    IgnoresTheIncarnation,
    IgnoresTheWriter,
    ComparesCounts,
    BeginsAnewWhatIsGone,
    TakesWhatOthersCreate,
    HeadIsOfWhatWasRead,
    ReturnsTheOldHead,
    ForksByCount,
    SpillsIgnoreTheIncarnation,
    SpillDeletionIgnoresTheIncarnation,
}

type Shared<T> = Arc<std::sync::Mutex<Vec<T>>>;

/// Journals that do one thing wrong, around the one in memory.
#[derive(Clone)]
struct Broken {
    wrong: Wrong,
    inner: MemoryJournal,
    /// What is held without an end, and by which handle.
    own: Shared<(String, Arc<Lease>)>,
    is_second: bool,
    /// Forks by reference that go on with their base.
    views: Shared<(String, String)>,
    /// Chunks that it keeps beside the journal: of which conversation, which result, which number.
    chunks: Shared<(String, String, u64, Vec<u8>)>,
}

impl Broken {
    fn new(wrong: Wrong) -> Self {
        let (own, views) = (Arc::default(), Arc::default());
        let inner = MemoryJournal::new();
        Self { wrong, inner, own, is_second: false, views, chunks: Arc::default() }
    }

    fn name<'a>(&self, name: &'a str) -> std::borrow::Cow<'a, str> {
        match self.wrong {
            Wrong::IgnoresCase => name.to_lowercase().into(),
            Wrong::TrimsNames => name.trim_end().into(),
            _ => name.into(),
        }
    }

    fn spoiled(&self, fact: &Envelope) -> Envelope {
        let mut fact = fact.clone();
        match self.wrong {
            Wrong::LosesElapsed => fact.elapsed &= (1 << 53) - 1,
            Wrong::LosesTheLife => fact.life = WriterId::of_this_process(),
            Wrong::RewritesJson => {
                if let Ok(value) = serde_json::from_str::<serde_json::Value>(&fact.fact) {
                    fact.fact = value.to_string().into();
                }
            }
            Wrong::CutsLongFacts if fact.fact.len() > 1 << 24 => fact.fact = "null".into(),
            _ => {}
        }
        fact
    }
}

fn other(kind: ErrorKind) -> Error {
    Error::new(kind, "as a broken journal does")
}

impl Journal for Broken {
    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            let name = self.name(conversation);
            let base = self.views.lock().unwrap().iter().find(|view| view.0 == *name).cloned();
            if let Some((_, base)) = base {
                return self.inner.read(&base, from).await;
            }
            let mut read = match self.wrong {
                Wrong::ReadsFromTheBeginning => self.inner.read(&name, 0).await?,
                Wrong::ReadsOneTooFew => self.inner.read(&name, from.saturating_add(1)).await?,
                _ => self.inner.read(&name, from).await?,
            };
            if self.wrong == Wrong::HeadIsOfWhatWasRead {
                read.head.facts = read.facts.len() as u64;
            }
            if self.wrong == Wrong::TakesFactsOfTheFutureForBroken
                && read.facts.iter().any(|fact| fact.format > harness::journal::FORMAT)
            {
                return Err(other(ErrorKind::Journal));
            }
            for fact in &mut read.facts {
                *fact = self.spoiled(fact);
            }
            Ok(read)
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            let name = self.name(conversation);
            let there = self.inner.read(&name, 0).await?.head;
            let mut after = after;
            match self.wrong {
                Wrong::IgnoresTheIncarnation if after.incarnation.is_some() => {
                    after.incarnation = there.incarnation;
                }
                Wrong::IgnoresTheWriter if after.writer.is_some() => after.writer = there.writer,
                Wrong::ComparesCounts if after.facts == there.facts => after = there,
                Wrong::BeginsAnewWhatIsGone if there.facts == 0 && after.facts == 0 => {
                    after = there;
                }
                Wrong::TakesWhatOthersCreate if there.facts == 0 && after == Head::default() => {
                    after = there;
                }
                Wrong::IgnoresAfter => return self.inner.append(&name, there, facts).await,
                Wrong::AppendsHalf if !after.is_end_of(&there) => {
                    let half = &facts[..facts.len().min(1)];
                    self.inner.append(&name, there, half).await?;
                    return Err(other(ErrorKind::Conflict));
                }
                Wrong::AppendsOneByOne | Wrong::DroppedAppendIsHalf => {
                    if facts.is_empty() {
                        return self.inner.append(&name, after, facts).await;
                    }
                    for fact in facts {
                        after = self.inner.append(&name, after, std::slice::from_ref(fact)).await?;
                        tokio::task::yield_now().await;
                    }
                    return Ok(after);
                }
                Wrong::TakesTheFirstFactOnly => {
                    let first = &facts[..facts.len().min(1)];
                    return self.inner.append(&name, after, first).await;
                }
                Wrong::ConflictHasAnotherKind if !after.is_end_of(&there) => {
                    return Err(other(ErrorKind::Journal));
                }
                Wrong::AppendsNothingAnyhow if there.facts > after.facts && facts.is_empty() => {
                    return Ok(there);
                }
                Wrong::ReturnsTheOldHead => {
                    self.inner.append(&name, after, facts).await?;
                    return Ok(after);
                }
                Wrong::TakesAnyName if conversation.len() > 512 => return Ok(after),
                Wrong::RefusesLongNames if conversation.len() > 255 => {
                    return Err(other(ErrorKind::Configuration));
                }
                _ => {}
            }
            self.inner.append(&name, after, facts).await
        })
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async move {
            let own = format!("{}{conversation}", self.is_second);
            match self.wrong {
                Wrong::HoldsNothing => {
                    harness::journal::check_id(conversation)?;
                    return Ok(Lease::new(()));
                }
                Wrong::HoldsInThisHandleOnly if conversation.len() < 400 => {
                    harness::journal::check_id(conversation)?;
                    return self.inner.hold(&own).await;
                }
                Wrong::BusyHasAnotherKind => {
                    let held = self.inner.hold(conversation).await;
                    let kind = ErrorKind::Journal;
                    return held.map_err(|err| if err.is_busy() { other(kind) } else { err });
                }
                Wrong::HoldMakesTheConversation => {
                    let there = self.inner.read(conversation, 0).await?.head;
                    self.inner.append(conversation, there, &[]).await?;
                }
                Wrong::WaitsForTheHold => loop {
                    match self.inner.hold(conversation).await {
                        Err(err) if err.is_busy() => {
                            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                        }
                        result => return result,
                    }
                },
                _ => {}
            }
            let held = self.inner.hold(conversation).await?;
            if self.wrong == Wrong::DroppedHoldStays {
                let held = Arc::new(held);
                self.own.lock().unwrap().push((own.clone(), held.clone()));
                tokio::task::yield_now().await;
                self.own.lock().unwrap().retain(|(name, _)| *name != own);
                return Ok(Lease::new(held));
            }
            if self.wrong == Wrong::HoldsForEver {
                let held = Arc::new(held);
                self.own.lock().unwrap().push((own, held.clone()));
                return Ok(Lease::new(held));
            }
            Ok(held)
        })
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let mut metadata = metadata.clone();
            match self.wrong {
                Wrong::LosesMetadata => metadata = Metadata::new(),
                Wrong::LosesTags => metadata.tags.clear(),
                Wrong::TakesAnyName if conversation.is_empty() => return Ok(()),
                _ => {}
            }
            self.inner.describe(&self.name(conversation), &metadata).await
        })
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        Box::pin(async move {
            let mut wanted = listing.clone();
            match self.wrong {
                Wrong::ListsIgnoringOwner => wanted.owner = None,
                Wrong::ListsIgnoringParent => wanted.parent = None,
                Wrong::PagesRepeat => wanted.after = None,
                Wrong::TakesAnyCursor if wanted.after.as_deref() == Some("x") => {
                    wanted.after = None;
                }
                _ => {}
            }
            let mut page = self.inner.list(&wanted).await?;
            match self.wrong {
                Wrong::ListsTheOldestFirst => page.conversations.reverse(),
                Wrong::PagesLose if listing.after.is_some() => {
                    page.conversations.pop();
                }
                Wrong::PagesEndEmpty if page.next.is_none() => page.next = Some("0".to_owned()),
                Wrong::PagesAreUnlimited => {
                    while page.next.is_some() {
                        let next = self.inner.list(&wanted.clone().after(&page)).await?;
                        page.next = next.next;
                        page.conversations.extend(next.conversations);
                    }
                }
                Wrong::HalvesCounts => change(&mut page, |summary| summary.facts /= 2),
                Wrong::ForgetsWhenItWasMade => {
                    static NEXT: std::sync::atomic::AtomicU64 =
                        std::sync::atomic::AtomicU64::new(1);
                    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    change(&mut page, |summary| summary.created_at = next);
                }
                _ => {}
            }
            Ok(page)
        })
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        Box::pin(async move {
            let children = self.inner.list(&ConversationQuery::new().parent(conversation)).await?;
            let children: Vec<&ConversationInfo> = children.conversations.iter().collect();
            let orphan = async |all: &[&ConversationInfo]| -> Result<(), Error> {
                for child in all {
                    self.inner.describe(&child.id, &Metadata::new()).await?;
                }
                Ok(())
            };
            match self.wrong {
                Wrong::DeletesWithoutChildren => orphan(&children).await?,
                Wrong::DeletesOneGeneration => {
                    for child in &children {
                        let below =
                            self.inner.list(&ConversationQuery::new().parent(&child.id)).await?;
                        let below = below.conversations;
                        let below: Vec<_> =
                            below.iter().filter(|it| it.id != conversation).collect();
                        orphan(&below).await?;
                    }
                }
                Wrong::DeletesChildrenOnly if !children.is_empty() => {
                    for child in &children {
                        self.inner.delete(&child.id).await?;
                    }
                    return Ok(true);
                }
                Wrong::DeletesWhatIsHeld => {
                    for child in &children {
                        self.inner.describe(&child.id, &Metadata::new()).await?;
                        drop(self.inner.delete(&child.id).await);
                    }
                }
                Wrong::DeleteKeepsMetadata => {
                    let mut listing = ConversationQuery::new().limit(1000);
                    let known = loop {
                        let page = self.inner.list(&listing).await?;
                        let found = page.conversations.iter().find(|it| it.id == conversation);
                        match found {
                            Some(it) => break Some(it.metadata.clone()),
                            None if page.next.is_none() => break None,
                            None => listing = listing.after(&page),
                        }
                    };
                    let was_there = self.inner.delete(conversation).await?;
                    if let Some(known) = known {
                        self.inner.describe(conversation, &known).await?;
                    }
                    return Ok(was_there);
                }
                Wrong::ForkSpillsGoWithTheBase => {
                    let views = self.views.lock().unwrap().clone();
                    for (fork, _) in views.iter().filter(|(_, base)| base == conversation) {
                        let Some(of) = self.inner.read(fork, 0).await?.head.incarnation else {
                            continue;
                        };
                        for name in ["r-1", "r-2"] {
                            self.inner.delete_spill(fork, of, name).await?;
                        }
                    }
                }
                Wrong::DeleteAlwaysSaysTrue => {
                    return self.inner.delete(conversation).await.map(|_| true);
                }
                _ => {}
            }
            self.inner.delete(&self.name(conversation)).await
        })
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            let base = self.inner.read(from, 0).await?;
            let there = base.head;
            match self.wrong {
                Wrong::ForksAll => return self.inner.fork(from, there, to).await,
                Wrong::ForksTooFew if at.facts > there.facts => {
                    return self.inner.fork(from, there, to).await;
                }
                Wrong::ForksByCount if at.facts <= there.facts => {
                    let at = base.head_at(at.facts).expect("it was read");
                    return self.inner.fork(from, at, to).await;
                }
                Wrong::ForkSharesWhatComesLater => {
                    let fork = self.inner.fork(from, at, to).await?;
                    if at.facts == there.facts {
                        self.views.lock().unwrap().push((to.to_owned(), from.to_owned()));
                    }
                    return Ok(fork);
                }
                Wrong::ForksWithoutSpills => {
                    let fork = self.inner.fork(from, at, to).await?;
                    for name in ["r-1", "r-2"] {
                        let of = fork.incarnation.expect("it exists");
                        self.inner.delete_spill(to, of, name).await?;
                    }
                    return Ok(fork);
                }
                Wrong::ForksShareSpillsThatComeLater | Wrong::ForkSpillsGoWithTheBase => {
                    let fork = self.inner.fork(from, at, to).await?;
                    self.views.lock().unwrap().push((to.to_owned(), from.to_owned()));
                    return Ok(fork);
                }
                Wrong::ForkReplaces if to != from && at.facts <= there.facts => {
                    self.inner.delete(to).await?;
                }
                Wrong::ForkCopiesMetadata => {
                    self.inner.describe(to, &Metadata::new().title("copied")).await?;
                }
                Wrong::ForkMakesWhatItRefuses => {
                    let already = self.inner.read(to, 0).await?.head;
                    self.inner.append(to, already, &[]).await?;
                }
                _ => {}
            }
            self.inner.fork(from, at, to).await
        })
    }

    fn can_keep_spills(&self) -> bool {
        self.wrong != Wrong::KeepsSpillsInSecret
    }

    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let inner = &self.inner;
            let now = inner.read(conversation, 0).await?.head.incarnation;
            let incarnation = match (self.wrong, now) {
                (Wrong::SpillsIgnoreTheIncarnation, Some(now)) => now,
                _ => incarnation,
            };
            match self.wrong {
                Wrong::SpillsLoseBytes => {
                    let text = String::from_utf8_lossy(bytes);
                    return inner
                        .write_spill(conversation, incarnation, name, chunk, text.as_bytes())
                        .await;
                }
                Wrong::SpillsAppend => {
                    let there = inner.read_spill(conversation, name, chunk).await?;
                    let all = [&there.unwrap_or_default(), bytes].concat();
                    return inner.write_spill(conversation, incarnation, name, chunk, &all).await;
                }
                Wrong::SpillsMakeTheConversation => {
                    let there = inner.read(conversation, 0).await?.head;
                    let head = inner.append(conversation, there, &[fact()]).await?;
                    let of = head.incarnation.expect("it exists");
                    return inner.write_spill(conversation, of, name, chunk, bytes).await;
                }
                Wrong::SpillsIntoNothingAreLost => {
                    let written =
                        inner.write_spill(conversation, incarnation, name, chunk, bytes).await;
                    return written
                        .or_else(|err| if err.is_conflict() { Ok(()) } else { Err(err) });
                }
                Wrong::SpillRefusalHasAnotherKind => {
                    let written =
                        inner.write_spill(conversation, incarnation, name, chunk, bytes).await;
                    return written.map_err(|_| other(ErrorKind::Journal));
                }
                Wrong::SpillsOutliveTheConversation => {
                    inner.write_spill(conversation, incarnation, name, chunk, bytes).await?;
                    let kept = (conversation.to_owned(), name.to_owned(), chunk, bytes.to_vec());
                    self.chunks.lock().unwrap().push(kept);
                    return Ok(());
                }
                Wrong::ForksShareSpillsThatComeLater => {
                    let views = self.views.lock().unwrap().clone();
                    for (_, base) in views.iter().filter(|(fork, _)| fork == conversation) {
                        let Some(of) = inner.read(base, 0).await?.head.incarnation else {
                            continue;
                        };
                        inner.write_spill(base, of, name, chunk, bytes).await?;
                    }
                }
                Wrong::SpillsShareOneSlot => {
                    // The names are found, and then it writes: another one has written meanwhile.
                    let kept = (conversation.to_owned(), name.to_owned(), chunk, bytes.to_vec());
                    let mut all = self.chunks.lock().unwrap().clone();
                    tokio::task::yield_now().await;
                    all.retain(|it| (&it.0, &it.1, it.2) != (&kept.0, &kept.1, kept.2));
                    inner.write_spill(conversation, incarnation, name, chunk, bytes).await?;
                    all.push(kept);
                    *self.chunks.lock().unwrap() = all;
                    return Ok(());
                }
                Wrong::SpillsAreOfEverybody => {
                    inner.write_spill(conversation, incarnation, name, chunk, bytes).await?;
                    let kept = (conversation.to_owned(), name.to_owned(), chunk, bytes.to_vec());
                    self.chunks.lock().unwrap().push(kept);
                    return Ok(());
                }
                _ => {}
            }
            inner.write_spill(conversation, incarnation, name, chunk, bytes).await
        })
    }

    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let beside = |is: &dyn Fn(&str, &str) -> bool| {
                let chunks = self.chunks.lock().unwrap();
                let of = |it: &&(String, String, u64, Vec<u8>)| is(&it.0, &it.1) && it.2 == chunk;
                chunks.iter().rev().find(of).map(|it| it.3.clone())
            };
            let chunk = match self.wrong {
                Wrong::SpillChunksSwap if chunk < 2 => 1 - chunk,
                Wrong::SpillsAreOfEverybody => return Ok(beside(&|_, at| at == name)),
                Wrong::SpillsOutliveTheConversation | Wrong::SpillsShareOneSlot => {
                    return Ok(beside(&|of, at| (of, at) == (conversation, name)));
                }
                _ => chunk,
            };
            self.inner.read_spill(conversation, name, chunk).await
        })
    }

    fn delete_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            if self.wrong == Wrong::SpillsStayWhenDeleted {
                return Ok(());
            }
            let now = self.inner.read(conversation, 0).await?.head.incarnation;
            let incarnation = match (self.wrong, now) {
                (Wrong::SpillDeletionIgnoresTheIncarnation, Some(now)) => now,
                _ => incarnation,
            };
            self.chunks.lock().unwrap().retain(|it| (&*it.0, &*it.1) != (conversation, name));
            self.inner.delete_spill(conversation, incarnation, name).await
        })
    }
}

fn fact() -> Envelope {
    let message = harness::Message::user("nothing");
    let entry = harness::journal::Fact::UserSaid { message, limits: None };
    Envelope::of(&entry, 0).expect("a fact")
}

fn change(page: &mut ConversationPage, how: impl FnMut(&mut ConversationInfo)) {
    page.conversations.iter_mut().for_each(how);
}

async fn checked(wrong: Wrong) -> Conformance {
    let journal = Broken::new(wrong);
    let opened = std::cell::Cell::new(0);
    let open = async || {
        let is_second = opened.replace(opened.get() + 1) > 0;
        Ok(Broken { is_second, ..journal.clone() })
    };
    journal_conformance(open).await
}

/// The promise that each of them breaks, by words that its name has.
const CAUGHT: &[(Wrong, &str)] = &[
    (Wrong::IgnoresAfter, "is a conflict and appends nothing"),
    (Wrong::AppendsHalf, "is a conflict and appends nothing"),
    (Wrong::AppendsOneByOne, "each as a whole"),
    (Wrong::TakesTheFirstFactOnly, "1,000 facts"),
    (Wrong::LosesMetadata, "is kept unchanged"),
    (Wrong::LosesTags, "is kept unchanged"),
    (Wrong::LosesElapsed, "is read unchanged"),
    (Wrong::LosesTheLife, "is read unchanged"),
    (Wrong::RewritesJson, "is read unchanged"),
    (Wrong::CutsLongFacts, "16 MB"),
    (Wrong::TakesFactsOfTheFutureForBroken, "is read unchanged"),
    (Wrong::ReadsFromTheBeginning, "from a number on"),
    (Wrong::ReadsOneTooFew, "is read unchanged"),
    (Wrong::IgnoresCase, "told apart to the byte"),
    (Wrong::TrimsNames, "told apart to the byte"),
    (Wrong::TakesAnyName, "a name that is none"),
    (Wrong::RefusesLongNames, "told apart to the byte"),
    (Wrong::HoldsNothing, "of several holds"),
    (Wrong::HoldsInThisHandleOnly, "and in another"),
    (Wrong::HoldsForEver, "ends when it is dropped"),
    (Wrong::WaitsForTheHold, "that is held is busy"),
    (Wrong::HoldMakesTheConversation, "does not make the conversation"),
    (Wrong::ListsTheOldestFirst, "is listed first"),
    (Wrong::ListsIgnoringOwner, "narrowed"),
    (Wrong::ListsIgnoringParent, "narrowed"),
    (Wrong::PagesRepeat, "without loss or repeat"),
    (Wrong::PagesLose, "without loss or repeat"),
    (Wrong::PagesEndEmpty, "without loss or repeat"),
    (Wrong::PagesAreUnlimited, "from 1 to 1,000"),
    (Wrong::TakesAnyCursor, "that this journal did not give"),
    (Wrong::HalvesCounts, "is kept unchanged"),
    (Wrong::ForgetsWhenItWasMade, "is kept unchanged"),
    (Wrong::AppendsNothingAnyhow, "is a conflict"),
    (Wrong::DeletesWithoutChildren, "all that are part of it are deleted"),
    (Wrong::DeletesChildrenOnly, "all that are part of it are deleted"),
    (Wrong::DeletesWhatIsHeld, "what is held is not deleted"),
    (Wrong::DeleteKeepsMetadata, "what was deleted is gone"),
    (Wrong::DeleteAlwaysSaysTrue, "what was deleted is gone"),
    (Wrong::DeletesOneGeneration, "all that are part of it are deleted"),
    (Wrong::ForksAll, "begins with the first facts"),
    (Wrong::ForksTooFew, "a fork that cannot be"),
    (Wrong::ForkSharesWhatComesLater, "keeps its facts when its base is deleted"),
    (Wrong::ForkReplaces, "a fork that cannot be"),
    (Wrong::ForkCopiesMetadata, "keeps what was known"),
    (Wrong::ForkMakesWhatItRefuses, "a fork that cannot be"),
    (Wrong::ConflictHasAnotherKind, "is a conflict"),
    (Wrong::BusyHasAnotherKind, "that is held is busy"),
    (Wrong::DroppedAppendIsHalf, "an append that is dropped"),
    (Wrong::DroppedHoldStays, "dropped before it is given"),
    (Wrong::SpillChunksSwap, "a large result is read as it was written"),
    (Wrong::SpillsLoseBytes, "a large result is read as it was written"),
    (Wrong::SpillsAreOfEverybody, "in this conversation alone"),
    (Wrong::SpillsStayWhenDeleted, "a large result is read as it was written"),
    (Wrong::SpillsAppend, "a large result is read as it was written"),
    (Wrong::SpillsMakeTheConversation, "into a conversation that exists, or not at all"),
    (Wrong::SpillsIntoNothingAreLost, "into a conversation that exists, or not at all"),
    (Wrong::SpillRefusalHasAnotherKind, "into a conversation that exists, or not at all"),
    (Wrong::KeepsSpillsInSecret, "into a conversation that exists, or not at all"),
    (Wrong::SpillsOutliveTheConversation, "are deleted with their conversation"),
    (Wrong::ForksWithoutSpills, "a fork has the large results of its base"),
    (Wrong::ForksShareSpillsThatComeLater, "a fork has the large results of its base"),
    (Wrong::ForkSpillsGoWithTheBase, "a fork has the large results of its base"),
    (Wrong::SpillsShareOneSlot, "what is written at the same time is kept apart"),
    (Wrong::IgnoresTheIncarnation, "deleted and begun anew"),
    (Wrong::IgnoresTheWriter, "that its writer has read last"),
    (Wrong::ComparesCounts, "nobody continues a conversation that was deleted"),
    (Wrong::BeginsAnewWhatIsGone, "nobody continues a conversation that was deleted"),
    (Wrong::TakesWhatOthersCreate, "nobody continues a conversation that was created after"),
    (Wrong::HeadIsOfWhatWasRead, "return the head"),
    (Wrong::ReturnsTheOldHead, "return the head"),
    (Wrong::ForksByCount, "nobody forks a conversation"),
    (Wrong::SpillsIgnoreTheIncarnation, "the one that has its name now"),
    (Wrong::SpillDeletionIgnoresTheIncarnation, "the one that has its name now"),
];

#[tokio::test(start_paused = true)]
async fn each_broken_promise_is_caught() {
    all_are_caught(0).await;
}

/// The other half, in a test of its own so that both run at the same time.
#[tokio::test(start_paused = true)]
async fn each_other_broken_promise_is_caught() {
    all_are_caught(1).await;
}

/// Every second one, from this one.
async fn all_are_caught(from: usize) {
    let mut missed = Vec::new();
    for (wrong, words) in CAUGHT.iter().skip(from).step_by(2) {
        let report = checked(*wrong).await;
        if !report.broken().iter().any(|(promise, _)| promise.contains(words)) {
            missed.push(format!("{wrong:?}: {report}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "what was appended is read unchanged: ")]
async fn a_report_says_what_is_broken() {
    checked(Wrong::LosesTheLife).await.assert_kept();
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_a_broken_promise() {
    let report = journal_conformance(async || {
        Err::<MemoryJournal, _>(Error::new(ErrorKind::Journal, "the disk is gone"))
    })
    .await;
    assert!(report.to_string().contains("the disk is gone"), "{report}");
}
