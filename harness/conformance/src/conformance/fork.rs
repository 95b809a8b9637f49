//! Forks: a fork begins with the first facts of another conversation, and is independent from then on.

use super::checks::{
    CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, refused, same,
};
use harness_core::{
    error::ErrorKind,
    journal::{ConversationQuery, Envelope, Head, Metadata},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "a fork begins with the first facts of its base" => fork_has_first_facts,
    "a fork and its base go on apart" => apart,
    "a fork that cannot be is refused and changes nothing" => impossible,
    "a fork keeps what was known of its name" => known,
    "a fork can be forked" => chain,
    "a fork keeps its facts when its base is deleted or begun anew" => outlives,
};

fn first(facts: &[Envelope], count: usize) -> &[Envelope] {
    facts.get(..count).unwrap_or_default()
}

async fn fork_has_first_facts(store: &CheckedStore) -> CheckResult {
    let base = store.name("base");
    let facts = batch("base", 5);
    store.one.append(&base, Head::default(), &facts).await.seen("append")?;
    for count in 0..=5 {
        let to = store.name(&format!("fork of {count}"));
        store.one.fork(&base, store.head_at(&base, count as u64).await?, &to).await.seen("fork")?;
        store.has(&to, first(&facts, count)).await?;
        for from in 0..=6 {
            let read = store.two.read(&to, from as u64).await.seen("read")?.facts;
            let wanted = first(&facts, count).get(from..).unwrap_or_default();
            same(&read, wanted).map_err(|fault| format!("{count} facts from {from}: {fault}"))?;
        }
        let page = store.two.list(&ConversationQuery::new().limit(1)).await.seen("list")?;
        let listed = page.conversations.first();
        ensure(listed.is_some_and(|it| it.id == to && it.facts == count as u64), || {
            format!("a fork of {count} facts is listed as {listed:?}")
        })?;
    }
    let to = store.name("fork of nothing");
    let from = store.name("base that was never made");
    store
        .one
        .fork(&from, store.head_at(&from, 0).await?, &to)
        .await
        .seen("fork of no facts of no conversation")?;
    store.has(&to, &[]).await
}

async fn apart(store: &CheckedStore) -> CheckResult {
    let (base, fork) = (store.name("apart"), store.name("apart fork"));
    let facts = batch("apart", 4);
    let (of_base, of_fork) = (batch("apart base", 2), batch("apart fork", 3));
    store.one.append(&base, Head::default(), &facts).await.seen("append")?;
    store.one.fork(&base, store.head_at(&base, 2).await?, &fork).await.seen("fork")?;
    for after in [0, 1, 4] {
        let refusal = store.two.append(&fork, store.head_at(&fork, after).await?, &of_fork).await;
        refused(&format!("append after {after} of 2 facts"), refusal, ErrorKind::Conflict)?;
    }
    store
        .two
        .append(&fork, store.head_at(&fork, 2).await?, &of_fork)
        .await
        .seen("append to the fork")?;
    store
        .two
        .append(&base, store.head_at(&base, 4).await?, &of_base)
        .await
        .seen("append to the base")?;
    let forked = [first(&facts, 2), &of_fork].concat();
    store.has(&base, &[facts, of_base].concat()).await?;
    store.has(&fork, &forked).await?;
    for from in 0..=6 {
        let read = store.two.read(&fork, from as u64).await.seen("read")?.facts;
        same(&read, forked.get(from..).unwrap_or_default())
            .map_err(|fault| format!("the fork from {from}: {fault}"))?;
    }
    // The base does not depend on its fork.
    let read = store.one.read(&base, 0).await.seen("read")?.facts;
    store.one.delete(&fork).await.seen("delete")?;
    store.has(&fork, &[]).await?;
    store.has(&base, &read).await
}

async fn impossible(store: &CheckedStore) -> CheckResult {
    let (base, taken) = (store.filled("impossible", 3).await?, store.filled("taken", 2).await?);
    let (of_base, of_taken) = (
        store.one.read(&base, 0).await.seen("read")?.facts,
        store.one.read(&taken, 0).await.seen("read")?.facts,
    );
    let to = store.name("impossible fork");
    let kind = ErrorKind::Configuration;
    for count in [4, 5, u64::from(u32::MAX) + 1, u64::MAX] {
        let what = format!("a fork of {count} of 3 facts");
        refused(&what, store.one.fork(&base, store.head_at(&base, count).await?, &to).await, kind)?;
    }
    let missing = store.name("never made");
    refused(
        "a fork of 1 of 0 facts",
        store.one.fork(&missing, store.head_at(&missing, 1).await?, &to).await,
        kind,
    )?;
    store.has(&to, &[]).await?;
    let page = store.two.list(&ConversationQuery::new().limit(1)).await.seen("list")?;
    ensure(page.conversations.first().is_some_and(|it| it.id == taken), || {
        format!("what could not be forked is listed: {:?}", page.conversations)
    })?;
    let refusal = store.one.fork(&base, store.head_at(&base, 2).await?, &taken).await;
    refused("a fork to what has facts", refusal, ErrorKind::Conflict)?;
    let refusal = store.one.fork(&base, store.head_at(&base, 2).await?, &base).await;
    refused("a fork to itself", refusal, ErrorKind::Conflict)?;
    store.has(&base, &of_base).await?;
    store.has(&taken, &of_taken).await
}

async fn known(store: &CheckedStore) -> CheckResult {
    let (base, fork) = (store.filled("known", 2).await?, store.name("known fork"));
    let (of_base, of_fork) = (Metadata::new().title("the base"), Metadata::new().title("the fork"));
    store.one.describe(&base, &of_base).await.seen("describe")?;
    store.one.describe(&fork, &of_fork).await.seen("describe")?;
    store
        .one
        .fork(&base, store.head_at(&base, 2).await?, &fork)
        .await
        .seen("fork to what has no facts")?;
    let page = store.two.list(&ConversationQuery::new().limit(2)).await.seen("list")?;
    let listed: Vec<_> = page.conversations.iter().map(|it| (&it.id, &it.metadata)).collect();
    ensure(listed == [(&fork, &of_fork), (&base, &of_base)], || format!("they are {listed:?}"))
}

async fn chain(store: &CheckedStore) -> CheckResult {
    let mut wanted = batch("chain", 4);
    let top = store.name("chain");
    store.one.append(&top, Head::default(), &wanted).await.seen("append")?;
    let mut names = vec![top];
    let mut all = vec![wanted.clone()];
    // Each fork has the facts of the previous conversation without the last fact, and two further facts.
    for depth in 1..6 {
        let (from, to) = (names.last().ok_or("a name")?, store.name(&format!("chain {depth}")));
        wanted.pop();
        store
            .one
            .fork(from, store.head_at(from, wanted.len() as u64).await?, &to)
            .await
            .seen("fork")?;
        let own = batch(&format!("chain {depth}"), 2);
        store
            .two
            .append(&to, store.head_at(&to, wanted.len() as u64).await?, &own)
            .await
            .seen("append")?;
        wanted.extend(own);
        names.push(to);
        all.push(wanted.clone());
    }
    // All facts of this fork come from the base of its base.
    let short = store.name("chain, short");
    store
        .one
        .fork(
            names.last().ok_or("a name")?,
            store.head_at(names.last().ok_or("a name")?, 2).await?,
            &short,
        )
        .await
        .seen("fork")?;
    names.push(short);
    all.push(first(&wanted, 2).to_vec());
    for (name, facts) in names.iter().zip(&all) {
        store.has(name, facts).await?;
    }
    // The forks are deleted from the middle, from the beginning and from the end.
    let mut left: Vec<_> = names.iter().zip(&all).collect();
    for at in [2, 0, 2, 1, 0, 1, 0] {
        let (name, _) = left.remove(at);
        ensure(store.one.delete(name).await.seen("delete")?, || format!("no `{name}`"))?;
        store.has(name, &[]).await?;
        for (name, facts) in &left {
            store.has(name, facts).await?;
        }
    }
    Ok(())
}

async fn outlives(store: &CheckedStore) -> CheckResult {
    let base = store.name("outlived");
    let facts = batch("outlived", 4);
    store.one.append(&base, Head::default(), &facts).await.seen("append")?;
    let forks: Vec<String> = (0..3).map(|n| store.name(&format!("outlives {n}"))).collect();
    for (count, fork) in (2..).zip(&forks) {
        store.one.fork(&base, store.head_at(&base, count).await?, fork).await.seen("fork")?;
    }
    // This fork has the base as its parent, so it is deleted with the base.
    let part = store.name("outlives not");
    store.one.fork(&base, store.head_at(&base, 3).await?, &part).await.seen("fork")?;
    store.one.describe(&part, &Metadata::new().parent(&base)).await.seen("describe")?;
    let below = store.name("outlives the part");
    store.one.fork(&part, store.head_at(&part, 3).await?, &below).await.seen("fork")?;

    store.two.delete(&base).await.seen("delete")?;
    for name in [&base, &part] {
        store.has(name, &[]).await?;
    }
    let anew = batch("anew", 6);
    store.one.append(&base, Head::default(), &anew).await.seen("append")?;
    store.one.append(&part, Head::default(), &anew).await.seen("append")?;
    for (count, fork) in (2..).zip(&forks) {
        store.has(fork, first(&facts, count)).await?;
        store
            .one
            .append(fork, store.head_at(fork, count as u64).await?, &anew)
            .await
            .seen("append")?;
        store.has(fork, &[first(&facts, count), &anew].concat()).await?;
    }
    store.has(&below, first(&facts, 3)).await?;
    store.has(&base, &anew).await
}
