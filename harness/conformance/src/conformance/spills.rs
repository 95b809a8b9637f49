//! Large results are stored in chunks for a conversation and its forks. A large result is deleted with the last
//! of these conversations. A journal that declares no support for large results must refuse them.

use super::checks::{
    CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, refused,
};
use harness_core::{
    error::ErrorKind,
    journal::{Head, Incarnation},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "a large result is read as it was written, in this conversation alone" => kept,
    "a large result is written into a conversation that exists, or not at all" => nowhere,
    "large results are deleted with their conversation" => spills_end_with_conversation,
    "a fork has the large results of its base, whichever is deleted" => forked,
    "what is written at the same time is kept apart" => at_once,
};

/// A chunk of the maximum size that is not valid UTF-8.
fn bytes(seed: usize) -> Vec<u8> {
    let all: Vec<u8> = (0..=255).collect();
    let mut bytes = all.repeat(1024);
    bytes.rotate_left(seed % 256);
    bytes
}

async fn has(
    store: &CheckedStore,
    name: &str,
    spill: &str,
    wanted: &[Option<Vec<u8>>],
) -> CheckResult {
    for (chunk, wanted) in (0..).zip(wanted) {
        let read = store.two.read_spill(name, spill, chunk).await.seen("read_spill")?;
        ensure(read == *wanted, || {
            let long = |it: &Option<Vec<u8>>| it.as_ref().map(Vec::len);
            format!(
                "chunk {chunk} of `{spill}` in `{name}` has {:?} bytes, and {:?} others are due",
                long(&read),
                long(wanted)
            )
        })?;
    }
    Ok(())
}

async fn kept(store: &CheckedStore) -> CheckResult {
    if !store.one.can_keep_spills() {
        return Ok(());
    }
    let (name, other) = (store.filled("spills", 1).await?, store.filled("no spills", 1).await?);
    let chunks = [bytes(1), bytes(2), vec![0, 255, 10], Vec::new()];
    for (number, chunk) in (0..).zip(&chunks) {
        store
            .one
            .write_spill(&name, store.incarnation(&name).await?, "r-1", number, chunk)
            .await
            .seen("write_spill")?;
    }
    store
        .one
        .write_spill(&name, store.incarnation(&name).await?, "r-2", 0, b"another")
        .await
        .seen("write_spill")?;
    let mut wanted: Vec<_> = chunks.into_iter().map(Some).collect();
    wanted.push(None);
    has(store, &name, "r-1", &wanted).await?;
    has(store, &name, "r-2", &[Some(b"another".to_vec()), None]).await?;
    for (conversation, spill) in [(&other, "r-1"), (&name, "R-1"), (&name, "r-%"), (&name, "")] {
        has(store, conversation, spill, &[None]).await?;
    }
    store
        .two
        .write_spill(&name, store.incarnation(&name).await?, "r-1", 1, b"in its place")
        .await
        .seen("write_spill")?;
    has(store, &name, "r-1", &[Some(bytes(1)), Some(b"in its place".to_vec())]).await?;
    store
        .two
        .delete_spill(&name, store.incarnation(&name).await?, "r-1")
        .await
        .seen("delete_spill")?;
    store
        .two
        .delete_spill(&name, store.incarnation(&name).await?, "r-1")
        .await
        .seen("delete_spill of what is gone")?;
    has(store, &name, "r-1", &[None, None, None]).await?;
    has(store, &name, "r-2", &[Some(b"another".to_vec())]).await
}

async fn nowhere(store: &CheckedStore) -> CheckResult {
    let name = store.name("spills of nobody");
    let due = match store.one.can_keep_spills() {
        true => ErrorKind::Conflict,
        false => ErrorKind::Configuration,
    };
    let refusal = store.one.write_spill(&name, Incarnation::random(), "r-1", 0, b"lost").await;
    refused("write_spill into nothing", refusal, due)?;
    store.one.append(&name, Head::default(), &batch("anew", 1)).await.seen("append")?;
    has(store, &name, "r-1", &[None]).await
}

async fn spills_end_with_conversation(store: &CheckedStore) -> CheckResult {
    if !store.one.can_keep_spills() {
        return Ok(());
    }
    let name = store.filled("spills that go", 1).await?;
    store
        .one
        .write_spill(&name, store.incarnation(&name).await?, "r-1", 0, &bytes(3))
        .await
        .seen("write_spill")?;
    let known = store.incarnation(&name).await?;
    ensure(store.two.delete(&name).await.seen("delete")?, || "it was not there".to_owned())?;
    has(store, &name, "r-1", &[None]).await?;
    let refusal = store.one.write_spill(&name, known, "r-1", 1, b"late").await;
    refused("write_spill into what is deleted", refusal, ErrorKind::Conflict)?;
    store.one.append(&name, Head::default(), &batch("anew", 1)).await.seen("append")?;
    has(store, &name, "r-1", &[None, None]).await
}

async fn forked(store: &CheckedStore) -> CheckResult {
    if !store.one.can_keep_spills() {
        return Ok(());
    }
    let (base, fork) = (store.filled("base of spills", 2).await?, store.name("fork with spills"));
    let second = store.name("second fork with spills");
    let wanted = [Some(bytes(4)), Some(bytes(5)), None];
    for (number, chunk) in (0..).zip(wanted.iter().flatten()) {
        store
            .one
            .write_spill(&base, store.incarnation(&base).await?, "r-1", number, chunk)
            .await
            .seen("write_spill")?;
    }
    store.one.fork(&base, store.head_at(&base, 2).await?, &fork).await.seen("fork")?;
    store.one.fork(&fork, store.head_at(&fork, 1).await?, &second).await.seen("fork")?;
    store
        .one
        .write_spill(&fork, store.incarnation(&fork).await?, "r-2", 0, b"of the fork")
        .await
        .seen("write_spill")?;
    for name in [&base, &fork, &second] {
        has(store, name, "r-1", &wanted).await?;
    }
    has(store, &base, "r-2", &[None]).await?;
    store.one.delete(&base).await.seen("delete")?;
    has(store, &base, "r-1", &[None]).await?;
    has(store, &fork, "r-1", &wanted).await?;
    store
        .one
        .delete_spill(&fork, store.incarnation(&fork).await?, "r-1")
        .await
        .seen("delete_spill")?;
    has(store, &fork, "r-1", &[None]).await?;
    has(store, &second, "r-1", &wanted).await?;
    store.one.delete(&second).await.seen("delete")?;
    has(store, &second, "r-1", &[None]).await?;
    has(store, &fork, "r-2", &[Some(b"of the fork".to_vec())]).await
}

async fn at_once(store: &CheckedStore) -> CheckResult {
    if !store.one.can_keep_spills() {
        return Ok(());
    }
    let name = store.filled("spills at once", 1).await?;
    let names: Vec<String> = (0..8).map(|at| format!("r-{at}")).collect();
    let write = |at: usize, journal: &'static str| {
        let (store, name, names) = (&store, &name, &names);
        async move {
            let journal = if journal == "one" { &store.one } else { &store.two };
            for number in 0..4 {
                let chunk = [bytes(at), vec![u8::try_from(number).unwrap_or_default()]].concat();
                let spill = names.get(at).map_or("", String::as_str);
                journal
                    .write_spill(name, store.incarnation(name).await?, spill, number, &chunk)
                    .await
                    .seen("write_spill")?;
            }
            Ok::<(), String>(())
        }
    };
    let all = (0..8).map(|at| write(at, if at % 2 == 0 { "one" } else { "two" }));
    futures_util::future::try_join_all(all).await?;
    for (at, spill) in names.iter().enumerate() {
        let wanted: Vec<_> =
            (0..4).map(|number| Some([bytes(at), vec![number]].concat())).collect();
        has(store, &name, spill, &wanted).await?;
    }
    Ok(())
}
