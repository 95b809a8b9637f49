//! A journal in a file, one line a fact: as simple as can be, and one that loses facts.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use harness::{
    Error, ErrorKind,
    journal::{
        ConversationPage, ConversationQuery, Envelope, Head, Incarnation, Journal, JournalFuture,
        Lease, Metadata, StoredFacts, conflict,
    },
};

/// Facts in a file. It is for one conversation, and one process at a time.
pub(crate) struct FileJournal {
    path: PathBuf,
    /// Where facts wait that were acknowledged, if it acknowledges before it writes.
    lazy: Option<Arc<Mutex<Vec<Envelope>>>>,
}

impl FileJournal {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, lazy: None }
    }

    /// One that says of facts that it has them, and writes them together with those that come next.
    pub(crate) fn lazy(path: PathBuf) -> Self {
        Self { path, lazy: Some(Arc::default()) }
    }

    fn written(&self) -> Vec<Envelope> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        // A process can be killed in the middle of a line that is longer than a page.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("a fact")).collect()
    }

    fn all(&self) -> Vec<Envelope> {
        let mut all = self.written();
        if let Some(lazy) = &self.lazy {
            all.extend(lazy.lock().expect("unpoisoned").iter().cloned());
        }
        all
    }

    fn write(&self, facts: &[Envelope]) -> std::io::Result<()> {
        let lines = facts.iter().map(|fact| serde_json::to_string(fact).expect("JSON") + "\n");
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let text = fs::read(&self.path)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        file.set_len(whole as u64)?;
        file.write_all(lines.collect::<String>().as_bytes())?;
        file.sync_data()
    }
}

/// The file is one conversation, which is never deleted.
fn head_of(facts: &[Envelope]) -> Head {
    match facts.is_empty() {
        true => Head::default(),
        false => Head::new(Incarnation(1), 0, None).after(facts),
    }
}

impl Journal for FileJournal {
    fn read<'a>(&'a self, _: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            let mut all = self.all();
            let head = head_of(&all);
            Ok(StoredFacts::new(head, all.split_off(usize::try_from(from).expect("few"))))
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            let there = head_of(&self.all());
            if !after.is_end_of(&there) {
                return Err(conflict(conversation, after, there));
            }
            let written = match &self.lazy {
                None => self.write(facts),
                Some(lazy) => {
                    let mut lazy = lazy.lock().expect("unpoisoned");
                    let before = std::mem::replace(&mut *lazy, facts.to_vec());
                    self.write(&before)
                }
            };
            written
                .map_err(|err| Error::new(ErrorKind::Journal, "not written").with_source(err))?;
            Ok(head_of(&self.all()))
        })
    }

    fn hold<'a>(&'a self, _: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async { Ok(Lease::new(())) })
    }

    fn describe<'a>(&'a self, _: &'a str, _: &'a Metadata) -> JournalFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn list<'a>(&'a self, _: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        Box::pin(async { Ok(ConversationPage::default()) })
    }

    fn delete<'a>(&'a self, _: &'a str) -> JournalFuture<'a, bool> {
        Box::pin(async { Ok(false) })
    }
}
