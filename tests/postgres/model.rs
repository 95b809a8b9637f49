//! What PostgreSQL does is what the journal in memory does.

use harness::journal::{
    ConversationPage, ConversationQuery, Head, Journal, MemoryJournal, Metadata, WriterId,
};

use crate::server::{fact, fresh, head_at, server};

const NAMES: [&str; 6] = ["a", "b", "c", "d\\e", "f'\"; --", "Größe 漢字"];

/// What a page says, but for times.
fn told(page: &ConversationPage) -> Vec<(String, Metadata, u64)> {
    let all = page.conversations.iter();
    all.map(|it| (it.id.clone(), it.metadata.clone(), it.facts)).collect()
}

async fn pages(
    journal: &dyn Journal,
    listing: ConversationQuery,
) -> Vec<Vec<(String, Metadata, u64)>> {
    let mut pages = Vec::new();
    let mut listing = listing.limit(2);
    loop {
        let page = journal.list(&listing).await.expect("a page");
        pages.push(told(&page));
        if page.next.is_none() {
            return pages;
        }
        listing = listing.after(&page);
    }
}

/// Appends, forks, forks of forks, deletions and so on by chance: after each both journals hold the
/// same.
#[tokio::test]
async fn by_chance_both_journals_hold_the_same() {
    let server = server!();
    let postgres = server.journal(&fresh("model")).await;
    for seed in 0..12 {
        let memory = MemoryJournal::new();
        for name in NAMES {
            postgres.delete(name).await.expect("deleted");
        }
        let mut random = fastrand::Rng::with_seed(seed);
        for step in 0..60 {
            let name = NAMES[random.usize(..NAMES.len())];
            let other = NAMES[random.usize(..NAMES.len())];
            let there = memory.read(name, 0).await.expect("facts").facts.len() as u64;
            let journals: [&dyn Journal; 2] = [&memory, &postgres];
            let chance = random.u8(..10);
            let facts: Vec<_> = (0..random.usize(..4))
                .map(|at| fact(WriterId::random(), &format!("{seed} {step} {at}")))
                .collect();
            let after = if random.u8(..8) == 0 { there + 1 } else { there };
            let more = u64::from(random.u8(..8) == 0);
            let shared = random.u64(..=there + more);
            let mut done = Vec::new();
            for journal in journals {
                let told = match chance {
                    0..4 => {
                        let after = head_at(journal, name, after).await;
                        journal.append(name, after, &facts).await.map(|_| true)
                    }
                    4..8 => {
                        let at = head_at(journal, name, shared).await;
                        journal.fork(name, at, other).await.map(|_| true)
                    }
                    8 => {
                        let known = Metadata::new().owner("ada\0\u{1}").parent(other);
                        journal.describe(name, &known).await.map(|()| true)
                    }
                    _ => journal.delete(name).await,
                };
                done.push(told.map_err(|err| (err.kind(), err.to_string())));
            }
            assert_eq!(
                done[0], done[1],
                "seed {seed}, step {step}: {chance} {name} {shared} {other}"
            );
            for name in NAMES {
                let from = random.u64(..4);
                let [a, b] = [memory.read(name, from).await, postgres.read(name, from).await];
                let same = a.expect("facts").facts == b.expect("facts").facts;
                assert!(same, "seed {seed}, step {step}: {name} from {from}");
            }
        }
        for listing in [
            ConversationQuery::new(),
            ConversationQuery::new().owner("ada\0\u{1}"),
            ConversationQuery::new().parent("a"),
        ] {
            let expected = pages(&memory, listing.clone()).await;
            assert_eq!(pages(&postgres, listing).await, expected, "seed {seed}");
        }
    }
}

/// Nothing that an envelope or metadata can hold is changed on the way.
#[tokio::test]
async fn any_envelope_comes_back() {
    let server = server!();
    let journal = server.journal(&fresh("any")).await;
    let mut all =
        fact(WriterId::random(), "NUL \\u0000, \u{1f600}, \u{fffd}, \u{202e}, ' \" \\ $1 {}");
    (all.format, all.at, all.elapsed) = (u32::MAX, u64::MAX, 1 << 63);
    let large = fact(WriterId::random(), &"漢".repeat(3_000_000));
    let facts = [all, large];
    let long = "€".repeat(170);
    journal.append(&long, Head::default(), &facts).await.expect("appended");
    assert_eq!(journal.read(&long, 0).await.expect("facts").facts, facts);
    assert_eq!(journal.read(&long, u64::MAX).await.expect("none").facts, []);
    assert!(
        journal
            .append(&long, head_at(&journal, &long, u64::MAX).await, &facts)
            .await
            .unwrap_err()
            .is_conflict()
    );

    let owner = "x".repeat(100_000);
    let known = Metadata::new().owner(&owner).parent(&owner).title("\0").tag("\0", "\u{1}");
    journal.describe(&long, &known).await.expect("described");
    let page =
        journal.list(&ConversationQuery::new().owner(&owner).parent(&owner)).await.expect("a page");
    assert_eq!(page.conversations[0].metadata, known);

    let mut broken = fact(WriterId::random(), "x");
    broken.fact = "\0".into();
    let err = journal
        .append(&long, head_at(&journal, &long, 2).await, &[broken])
        .await
        .unwrap_err()
        .to_string();
    assert!(err.contains("fact 2") && err.contains("NUL"), "{err}");
    assert_eq!(journal.read(&long, 0).await.expect("facts").facts.len(), 2);
}

/// A fork of a fork of a fork is read from where its facts are, and none is longer than it must be.
#[tokio::test]
async fn forks_share_their_facts() {
    let server = server!();
    let schema = fresh("forks");
    let journal = server.journal(&schema).await;
    let facts: Vec<_> = (0..100).map(|n| fact(WriterId::random(), &n.to_string())).collect();
    journal.append("0", Head::default(), &facts).await.expect("appended");
    for n in 1..50_u64 {
        let (from, to) = ((n - 1).to_string(), n.to_string());
        let at = head_at(&journal, &from, 99 + n).await;
        let fork = journal.fork(&from, at, &to).await.expect("forked");
        let own = fact(WriterId::random(), &to);
        journal.append(&to, fork, &[own]).await.expect("appended");
    }
    assert_eq!(server.sql(&format!("select count(*) from {schema}.facts")), "149");
    let read = journal.read("49", 0).await.expect("facts").facts;
    let last: Vec<&str> = read.iter().skip(99).map(|it| &*it.fact).collect();
    let expected: Vec<_> = std::iter::once(99).chain(1..50).collect();
    let expected: Vec<_> = expected.iter().map(|n| format!("{{\"fact\":\"{n}\"}}")).collect();
    assert_eq!(last, expected);
    // What is taken back again and again shares with the first one.
    let at = head_at(&journal, "49", 50).await;
    journal.fork("49", at, "rewound").await.expect("forked");
    let base = format!("select base from {schema}.conversations where id = 'rewound'");
    assert_eq!(server.sql(&base), "0");
    // All but the last one are deleted.
    for n in (0..49).rev().step_by(2).chain((1..49).step_by(2)) {
        journal.delete(&n.to_string()).await.expect("deleted");
    }
    assert_eq!(journal.read("49", 0).await.expect("facts").facts, read);
    assert_eq!(journal.read("rewound", 0).await.expect("facts").facts, facts[..50]);
}
