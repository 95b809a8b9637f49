//! Leases: a conversation has at most one lease at a time, across both handles, until the lease is dropped.

use std::time::Duration;

use super::checks::{
    CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, refused,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{ConversationQuery, Head, Journal, Lease},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "a conversation that is held is busy, in this handle and in another" => busy,
    "a hold ends when it is dropped" => released,
    "a hold keeps nobody from reading and appending" => courtesy,
    "a hold does not make the conversation" => unmade,
    "200 conversations can be held at once" => many,
};

/// Takes the lease of a conversation after another handle has dropped the lease. Retries for a while, because
/// the release may take some time.
pub(super) async fn in_time(journal: &dyn Journal, name: &str) -> Result<Lease, Error> {
    for _ in 0..200 {
        match journal.hold(name).await {
            Err(error) if error.is_busy() => tokio::time::sleep(Duration::from_millis(25)).await,
            result => return result,
        }
    }
    journal.hold(name).await
}

async fn busy(store: &CheckedStore) -> CheckResult {
    let (name, other) = (store.name("busy"), store.name("busy, not"));
    let _held = store.one.hold(&name).await.seen("hold")?;
    refused("a second hold", store.one.hold(&name).await, ErrorKind::Busy)?;
    refused("a hold in another handle", store.two.hold(&name).await, ErrorKind::Busy)?;
    store.two.hold(&other).await.seen("hold of another conversation")?;
    Ok(())
}

async fn released(store: &CheckedStore) -> CheckResult {
    let name = store.name("released");
    for _ in 0..3 {
        let held = store.one.hold(&name).await.seen("hold")?;
        drop(held);
        let again = store.one.hold(&name).await.seen("hold after the first one was dropped")?;
        refused("a second hold", store.two.hold(&name).await, ErrorKind::Busy)?;
        drop(again);
        let there = in_time(&*store.two, &name).await;
        let there = there.seen("hold in the other handle after it was dropped")?;
        refused("a second hold", store.one.hold(&name).await, ErrorKind::Busy)?;
        drop(there);
        drop(in_time(&*store.one, &name).await.seen("hold after the other one was dropped")?);
    }
    Ok(())
}

async fn courtesy(store: &CheckedStore) -> CheckResult {
    let name = store.name("courtesy");
    let facts = batch("courtesy", 3);
    let _held = store.one.hold(&name).await.seen("hold")?;
    store
        .one
        .append(&name, Head::default(), facts.get(..2).unwrap_or_default())
        .await
        .seen("append")?;
    store
        .two
        .append(&name, store.head_at(&name, 2).await?, facts.get(2..).unwrap_or_default())
        .await
        .seen("append")?;
    store.has(&name, &facts).await
}

async fn unmade(store: &CheckedStore) -> CheckResult {
    let (made, held) = (store.filled("made", 1).await?, store.name("unmade"));
    let _held = store.one.hold(&held).await.seen("hold")?;
    let page = store.two.list(&ConversationQuery::new().limit(1)).await.seen("list")?;
    let first = page.conversations.first();
    ensure(first.is_some_and(|first| first.id == made), || format!("{first:?} is listed first"))
}

async fn many(store: &CheckedStore) -> CheckResult {
    let mut held = Vec::new();
    let names: Vec<String> = (0..200).map(|n| store.name(&format!("one of many {n}"))).collect();
    for name in &names {
        held.push(store.one.hold(name).await.seen("hold")?);
    }
    for name in &names {
        refused("a second hold", store.two.hold(name).await, ErrorKind::Busy)?;
    }
    drop(held);
    for name in &names {
        store.one.hold(name).await.seen("hold after it was dropped")?;
    }
    Ok(())
}
