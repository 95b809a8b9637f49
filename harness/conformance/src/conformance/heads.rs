//! Heads: appends, forks and large results are refused for a conversation that has changed or was replaced since the
//! caller has read its head.

use super::checks::{
    CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, refused,
};
use harness_core::{
    error::ErrorKind,
    journal::{Head, Incarnation, Metadata, WriterId},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "an append and a fork return the head that is read then" => returned,
    "nobody continues a conversation that was deleted and begun anew" => anew,
    "nobody continues a conversation that was created after they had found it missing" => created,
    "an append comes after the fact that its writer has read last" => set_back,
    "nobody forks a conversation that was deleted and begun anew" => forked,
    "large results of a deleted conversation do not touch the one that has its name now" => spills,
};

/// The head of a conversation. Checks that reads through both handles return this head, from any fact number.
async fn head(store: &CheckedStore, name: &str) -> Result<Head, String> {
    let head = store.one.read(name, 0).await.seen("read")?.head;
    for from in [0, 1, head.facts, head.facts + 1] {
        let there = store.two.read(name, from).await.seen("read")?.head;
        ensure(there == head, || format!("read from {from}, the head is {there:?}, not {head:?}"))?;
    }
    Ok(head)
}

async fn returned(store: &CheckedStore) -> CheckResult {
    let name = store.name("head");
    ensure(head(store, &name).await? == Head::default(), || {
        "a conversation that does not exist has a head".to_owned()
    })?;
    let mut last = Head::default();
    for count in [0, 1, 3] {
        let facts = batch("head", count);
        let there = store.one.append(&name, last, &facts).await.seen("append")?;
        let due = Head { incarnation: there.incarnation, ..last }.after(&facts);
        ensure(there == due && there.incarnation.is_some(), || {
            format!("an append of {count} facts after {last:?} returns {there:?}")
        })?;
        ensure(last.incarnation.is_none() || last.incarnation == there.incarnation, || {
            "an append made another conversation of it".to_owned()
        })?;
        ensure(head(store, &name).await? == there, || format!("{there:?} is not read"))?;
        last = there;
    }
    for count in [0, 2, 4] {
        let (to, at) =
            (store.name(&format!("head of a fork {count}")), store.head_at(&name, count));
        let at = at.await?;
        let fork = store.two.fork(&name, at, &to).await.seen("fork")?;
        ensure((fork.facts, fork.writer) == (at.facts, at.writer), || {
            format!("a fork at {at:?} returns {fork:?}")
        })?;
        ensure(fork.incarnation.is_some() && fork.incarnation != at.incarnation, || {
            "a fork is the same conversation as its base".to_owned()
        })?;
        ensure(head(store, &to).await? == fork, || format!("{fork:?} of a fork is not read"))?;
        let after = store.one.append(&to, fork, &batch("fork", 1)).await;
        after.seen("an append after the head of a fork")?;
    }
    Ok(())
}

/// Deletes a conversation and creates it again with the same facts, in one of several ways.
async fn begin_anew(
    store: &CheckedStore,
    way: usize,
    name: &str,
    base: &str,
    count: usize,
) -> CheckResult {
    ensure(store.two.delete(name).await.seen("delete")?, || "it was not there".to_owned())?;
    let facts = store.two.read(base, 0).await.seen("read")?.facts;
    let facts = facts.get(..count).unwrap_or_default();
    if way == 1 {
        let at = store.head_at(base, count as u64).await?;
        store.two.fork(base, at, name).await.seen("fork")?;
        return Ok(());
    }
    if way == 2 {
        store.two.describe(name, &Metadata::new().owner("another")).await.seen("describe")?;
    }
    let there = store.two.read(name, 0).await.seen("read")?.head;
    store.two.append(name, there, facts).await.seen("append")?;
    Ok(())
}

async fn anew(store: &CheckedStore) -> CheckResult {
    let base = store.filled("base of what is begun anew", 3).await?;
    for way in 0..3 {
        for count in [0, 1, 3] {
            let name = store.name(&format!("begun anew {way} {count}"));
            let at = store.head_at(&base, count as u64).await?;
            let old = store.one.fork(&base, at, &name).await.seen("fork")?;
            begin_anew(store, way, &name, &base, count).await?;
            let there = store.two.read(&name, 0).await.seen("read")?;
            for journal in [&store.one, &store.two] {
                for facts in [batch("late", 1), Vec::new()] {
                    let refusal = journal.append(&name, old, &facts).await;
                    let what = format!("an append to what was begun anew with {count} facts");
                    refused(&what, refusal, ErrorKind::Conflict)?;
                }
            }
            store.has(&name, &there.facts).await?;
            let more = batch("next", 1);
            store.one.append(&name, there.head, &more).await.seen("append by who has read it")?;
        }
    }
    // A caller with an old head must not create a deleted conversation again.
    let name = store.filled("gone for good", 1).await?;
    let old = head(store, &name).await?;
    store.two.delete(&name).await.seen("delete")?;
    for head in [old, Head { facts: 0, writer: None, ..old }] {
        let refusal = store.one.append(&name, head, &batch("late", 1)).await;
        refused("an append to what was deleted", refusal, ErrorKind::Conflict)?;
    }
    store.has(&name, &[]).await
}

/// Creates a conversation through the second handle, in one of several ways.
async fn create(store: &CheckedStore, way: usize, name: &str, base: &str) -> CheckResult {
    let known = Metadata::new().owner("another");
    match way {
        0 => store.two.describe(name, &known).await.seen("describe")?,
        1 => {
            store.two.append(name, Head::default(), &[]).await.seen("append")?;
        }
        2 => {
            let at = store.head_at(base, 0).await?;
            store.two.fork(base, at, name).await.seen("fork")?;
        }
        3 => {
            store.two.append(name, Head::default(), &batch("other", 1)).await.seen("append")?;
        }
        _ => {
            store.two.append(name, Head::default(), &batch("other", 1)).await.seen("append")?;
            store.two.delete(name).await.seen("delete")?;
            store.two.describe(name, &known).await.seen("describe")?;
        }
    }
    Ok(())
}

async fn created(store: &CheckedStore) -> CheckResult {
    let base = store.filled("base of what is created", 1).await?;
    for way in 0..5 {
        let name = store.name(&format!("created meanwhile {way}"));
        let missing = head(store, &name).await?;
        create(store, way, &name, &base).await?;
        let there = store.two.read(&name, 0).await.seen("read")?;
        for journal in [&store.one, &store.two] {
            for facts in [batch("late", 1), Vec::new()] {
                let refusal = journal.append(&name, missing, &facts).await;
                let what = format!("an append to what was created meanwhile, in way {way}");
                refused(&what, refusal, ErrorKind::Conflict)?;
            }
        }
        store.has(&name, &there.facts).await?;
        let more = batch("next", 1);
        store.one.append(&name, there.head, &more).await.seen("append by who has read it")?;
    }
    Ok(())
}

async fn set_back(store: &CheckedStore) -> CheckResult {
    // After a backup was restored and continued, the number of facts is the same and the last fact is different.
    let name = store.filled("set back", 3).await?;
    let head = head(store, &name).await?;
    for writer in [Some(WriterId::random()), None] {
        let refusal = store.one.append(&name, Head { writer, ..head }, &batch("late", 1)).await;
        refused("an append after a fact of another writer", refusal, ErrorKind::Conflict)?;
        let to = store.name("set back, fork");
        let refusal = store.one.fork(&name, Head { writer, ..head }, &to).await;
        refused("a fork after a fact of another writer", refusal, ErrorKind::Conflict)?;
        store.has(&to, &[]).await?;
    }
    let none = Head { incarnation: None, ..head };
    let refusal = store.one.append(&name, none, &batch("late", 1)).await;
    refused("an append that names no conversation", refusal, ErrorKind::Conflict)?;
    store.one.append(&name, head, &batch("next", 1)).await.seen("append")?;
    Ok(())
}

async fn forked(store: &CheckedStore) -> CheckResult {
    let base = store.filled("base of a stranger", 3).await?;
    for way in 0..3 {
        let name = store.name(&format!("forked anew {way}"));
        let whole = store.head_at(&base, 3).await?;
        store.one.fork(&base, whole, &name).await.seen("fork")?;
        let old = [0, 2, 3].map(|count| store.head_at(&name, count));
        let old = futures_util::future::try_join_all(old).await?;
        begin_anew(store, way, &name, &base, 3).await?;
        let to = store.name(&format!("fork of a stranger {way}"));
        for at in old {
            let refusal = store.one.fork(&name, at, &to).await;
            refused(&format!("a fork at {at:?}"), refusal, ErrorKind::Conflict)?;
        }
        store.has(&to, &[]).await?;
    }
    Ok(())
}

async fn spills(store: &CheckedStore) -> CheckResult {
    if !store.one.can_keep_spills() {
        return Ok(());
    }
    let name = store.filled("spills begun anew", 1).await?;
    let old = store.incarnation(&name).await?;
    store.one.write_spill(&name, old, "r-1", 0, b"old").await.seen("write_spill")?;
    store.two.delete(&name).await.seen("delete")?;
    store.two.append(&name, Head::default(), &batch("anew", 1)).await.seen("append")?;
    let new = store.incarnation(&name).await?;
    store.two.write_spill(&name, new, "r-1", 0, b"new").await.seen("write_spill")?;
    for of in [old, Incarnation::random()] {
        for (spill, chunk) in [("r-1", 0), ("r-1", 1), ("r-2", 0)] {
            let refusal = store.one.write_spill(&name, of, spill, chunk, b"late").await;
            refused("write_spill into what was begun anew", refusal, ErrorKind::Conflict)?;
        }
        store.one.delete_spill(&name, of, "r-1").await.seen("delete_spill of what is gone")?;
    }
    for (spill, chunk, due) in
        [("r-1", 0, Some(b"new".to_vec())), ("r-1", 1, None), ("r-2", 0, None)]
    {
        let read = store.one.read_spill(&name, spill, chunk).await.seen("read_spill")?;
        ensure(read == due, || format!("chunk {chunk} of `{spill}` is not what was written"))?;
    }
    Ok(())
}
