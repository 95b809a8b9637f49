//! Dropped futures: a call whose future is dropped takes effect completely or not at all.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use super::{
    checks::{CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, same},
    hold::in_time,
};
use harness_core::{
    error::Error,
    journal::{Head, Metadata},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "an append that is dropped is done as a whole or not at all" => appends,
    "a fork that is dropped is done as a whole or not at all" => forks,
    "a delete that is dropped is done as a whole or not at all" => deletes,
    "a hold that is dropped before it is given holds nothing" => dropped_hold,
};

/// Polls the future at most `polls` times, lets other tasks run after each poll, and then drops it.
async fn dropped<T>(future: impl Future<Output = Result<T, Error>>, polls: usize) {
    let mut future = pin!(future);
    for _ in 0..polls {
        if poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await.is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// The numbers of polls before a future is dropped. With the number 0, the future is never polled.
const POLLS: [usize; 9] = [0, 1, 1, 1, 2, 3, 8, 30, 200];

async fn appends(store: &CheckedStore) -> CheckResult {
    let name = store.name("dropped appends");
    let mut wanted = Vec::new();
    for (round, polls) in POLLS.into_iter().cycle().take(36).enumerate() {
        let facts = batch(&format!("dropped {round}"), 50);
        let after = wanted.len() as u64;
        dropped(store.one.append(&name, store.head_at(&name, after).await?, &facts), polls).await;
        // The dropped append may still be executed. Exactly one of the two appends must succeed.
        let others = batch(&format!("after {round}"), 2);
        match store.one.append(&name, store.head_at(&name, after).await?, &others).await {
            Ok(_) => wanted.extend(others),
            Err(error) if error.is_conflict() && polls > 0 => wanted.extend(facts),
            Err(error) => return Err(format!("append failed: {error}")),
        }
        store.has(&name, &wanted).await.map_err(|fault| format!("after {polls} polls, {fault}"))?;
    }
    Ok(())
}

async fn forks(store: &CheckedStore) -> CheckResult {
    let base = store.filled("base of dropped forks", 60).await?;
    let facts = store.one.read(&base, 0).await.seen("read")?.facts;
    for (round, polls) in POLLS.into_iter().enumerate() {
        let to = store.name(&format!("dropped fork {round}"));
        dropped(store.one.fork(&base, store.head_at(&base, 40).await?, &to), polls).await;
        let own = batch(&format!("after {round}"), 2);
        match store.one.append(&to, Head::default(), &own).await {
            Ok(_) => store.has(&to, &own).await?,
            Err(error) if error.is_conflict() && polls > 0 => {
                store.has(&to, facts.get(..40).unwrap_or_default()).await?;
            }
            Err(error) => return Err(format!("append failed: {error}")),
        }
    }
    Ok(())
}

async fn deletes(store: &CheckedStore) -> CheckResult {
    for (round, polls) in POLLS.into_iter().enumerate() {
        let top = store.filled(&format!("dropped delete {round}"), 20).await?;
        let part = store.filled(&format!("part of dropped delete {round}"), 20).await?;
        let fork = store.name(&format!("fork of dropped delete {round}"));
        store.one.describe(&part, &Metadata::new().parent(&top)).await.seen("describe")?;
        store.one.fork(&part, store.head_at(&part, 10).await?, &fork).await.seen("fork")?;
        let forked = store.one.read(&fork, 0).await.seen("read")?.facts;
        dropped(store.one.delete(&top), polls).await;
        let count = async |name: &str| -> Result<usize, String> {
            Ok(store.one.read(name, 0).await.seen("read")?.facts.len())
        };
        let (mut of_top, of_part) = (count(&top).await?, count(&part).await?);
        if of_top != of_part {
            // The deletion may have been executed between these two reads, so the first is repeated.
            of_top = count(&top).await?;
        }
        ensure(of_top == of_part && (of_top == 0 || of_top == 20), || {
            format!("after {polls} polls {of_top} facts are left, and {of_part} of its part")
        })?;
        same(&store.two.read(&fork, 0).await.seen("read")?.facts, &forked)?;
    }
    Ok(())
}

async fn dropped_hold(store: &CheckedStore) -> CheckResult {
    for (round, polls) in POLLS.into_iter().enumerate() {
        let name = store.name(&format!("dropped hold {round}"));
        dropped(store.one.hold(&name), polls).await;
        let held = in_time(&*store.one, &name).await;
        drop(held.seen(&format!("hold after one was dropped after {polls} polls"))?);
        drop(in_time(&*store.two, &name).await.seen("hold in the other handle")?);
    }
    Ok(())
}
