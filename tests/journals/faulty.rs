//! The journal that fails: by a script and by chance, before and after, with counts.

use std::time::Duration;

use harness::{
    ErrorKind, Message,
    journal::{Envelope, Fact, Head, Journal, MemoryJournal},
    testing::{FaultyJournal, JournalCall, JournalFault, journal_conformance},
};

fn facts(words: &[&str]) -> Vec<Envelope> {
    let said = |text: &&str| Fact::UserSaid { message: Message::user(*text), limits: None };
    words.iter().map(|text| Envelope::of(&said(text), 0).unwrap()).collect()
}

async fn there(journal: &FaultyJournal<MemoryJournal>) -> usize {
    journal.inner().read("chat", 0).await.unwrap().facts.len()
}

#[tokio::test(start_paused = true)]
async fn each_fault_does_what_it_says() {
    let cases = [
        (JournalFault::FailBefore, Some(Err(ErrorKind::Journal)), 0),
        (JournalFault::FailAfter, Some(Err(ErrorKind::Journal)), 2),
        (JournalFault::StopBefore, None, 0),
        (JournalFault::StopAfter, None, 2),
        (JournalFault::Repeat, Some(Err(ErrorKind::Conflict)), 2),
        (JournalFault::Delay(Duration::from_secs(5)), Some(Ok(())), 2),
    ];
    for (fault, answer, written) in cases {
        let journal = FaultyJournal::new(MemoryJournal::new());
        journal.fail(JournalCall::Append, 0, fault);
        let begin = tokio::time::Instant::now();
        let hour = Duration::from_secs(3600);
        let batch = facts(&["a", "b"]);
        let said =
            tokio::time::timeout(hour, journal.append("chat", Head::default(), &batch)).await.ok();
        assert_eq!(
            said.map(|said| said.map(|_| ()).map_err(|err| err.kind())),
            answer,
            "{fault:?}"
        );
        assert_eq!(there(&journal).await, written, "{fault:?}");
        if let JournalFault::Delay(time) = fault {
            assert_eq!(begin.elapsed(), time);
        }
        // Only that one.
        let last = journal.inner().read("chat", 0).await.unwrap().head;
        journal.append("chat", last, &facts(&["c"])).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_called_is_counted() {
    let journal = FaultyJournal::new(MemoryJournal::new());
    journal.fail(JournalCall::Append, 1, JournalFault::FailBefore);
    let batch = facts(&["a", "b"]);
    let bytes = batch.iter().map(|fact| fact.fact.len() as u64).sum::<u64>();
    let program = journal.clone();
    let last = program.append("chat", Head::default(), &batch).await.unwrap();
    program.append("chat", last, &batch).await.unwrap_err();
    program.read("chat", 0).await.unwrap();
    drop(program.hold("chat").await.unwrap());
    let counts = journal.counts();
    assert_eq!((counts.appends, counts.facts, counts.bytes), (2, 4, 2 * bytes));
    assert_eq!((counts.reads, counts.calls, counts.faults), (1, 4, 1));
}

#[tokio::test(start_paused = true)]
async fn chance_comes_from_a_seed() {
    let faults = async |seed| {
        let journal = FaultyJournal::new(MemoryJournal::new());
        journal.fail_by_chance(seed, 0.4, JournalFault::ANSWERED);
        let mut seen = Vec::new();
        for _ in 0..50 {
            let after = journal.inner().read("chat", 0).await.unwrap().head;
            let said = journal.append("chat", after, &facts(&["a"])).await;
            seen.push((said.map(|_| ()).map_err(|err| err.kind()), there(&journal).await));
        }
        (seen, journal.counts().faults)
    };
    let (first, count) = faults(7).await;
    assert_eq!(faults(7).await, (first.clone(), count));
    assert_ne!(faults(8).await.0, first);
    assert!((10..30).contains(&count), "{count}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_faults_it_is_the_journal_inside() {
    let journal = FaultyJournal::new(MemoryJournal::new());
    journal.fail_by_chance(1, 1.0, JournalFault::ANSWERED);
    journal.mend();
    journal_conformance(async || Ok(journal.clone())).await.assert_kept();
}
