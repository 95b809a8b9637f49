//! A deletion removes either a conversation with all its direct and indirect children, or nothing.

use super::{
    checks::{
        CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, refused,
    },
    hold::in_time,
};
use harness_core::{
    error::ErrorKind,
    journal::{ConversationQuery, Head, Metadata},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "what was deleted is gone, and can be begun anew" => delete_forgets,
    "with a conversation all that are part of it are deleted" => family,
    "conversations that are part of each other are deleted once" => cycle,
    "what is held is not deleted, nor anything with it" => held,
};

/// Checks that each of these conversations has `wanted` facts.
async fn facts(store: &CheckedStore, names: &[&String], wanted: usize) -> CheckResult {
    for name in names {
        let there = store.two.read(name, 0).await.seen("read")?.facts.len();
        ensure(there == wanted, || format!("`{name}` has {there} facts, and {wanted} are due"))?;
    }
    Ok(())
}

/// Creates a conversation with one fact and this parent.
async fn part(store: &CheckedStore, of: &str, parent: Option<&String>) -> Result<String, String> {
    let name = store.filled(of, 1).await?;
    let owner = Metadata::new().owner(store.name("owner of families"));
    let metadata = match parent {
        Some(parent) => owner.parent(parent),
        None => owner,
    };
    store.one.describe(&name, &metadata).await.seen("describe")?;
    Ok(name)
}

async fn delete_forgets(store: &CheckedStore) -> CheckResult {
    let name = store.filled("gone", 5).await?;
    let owner = store.name("owner of what is gone");
    store.one.describe(&name, &Metadata::new().owner(&owner)).await.seen("describe")?;
    let known = store.head_at(&name, 5).await?;
    let was_there = store.two.delete(&name).await.seen("delete")?;
    ensure(was_there, || "it says that the conversation was not there".to_owned())?;
    store.has(&name, &[]).await?;
    let page = store.one.list(&ConversationQuery::new().owner(&owner)).await.seen("list")?;
    ensure(page.conversations.is_empty(), || "it is still listed".to_owned())?;
    let was_there = store.one.delete(&name).await.seen("delete")?;
    ensure(!was_there, || "it says that what was deleted was there".to_owned())?;

    let refusal = store.one.append(&name, known, &batch("gone", 1)).await;
    refused("an append after facts that are gone", refusal, ErrorKind::Conflict)?;
    let facts = batch("anew", 2);
    store.one.append(&name, Head::default(), &facts).await.seen("append")?;
    store.has(&name, &facts).await?;
    let page = store.one.list(&ConversationQuery::new().limit(1)).await.seen("list")?;
    let first = page.conversations.first();
    ensure(first.is_some_and(|first| first.id == name && first.metadata == Metadata::new()), || {
        format!("begun anew it is {first:?}")
    })
}

async fn family(store: &CheckedStore) -> CheckResult {
    let top = part(store, "top", None).await?;
    let child = part(store, "child", Some(&top)).await?;
    let second = part(store, "second child", Some(&top)).await?;
    let grandchild = part(store, "grandchild", Some(&child)).await?;
    let empty = store.name("child without facts");
    store.one.describe(&empty, &Metadata::new().parent(&grandchild)).await.seen("describe")?;
    let below = part(store, "below the grandchild", Some(&grandchild)).await?;
    let stranger = part(store, "stranger", None).await?;
    let nephew = part(store, "nephew", Some(&stranger)).await?;
    // The parent of this conversation was changed to a conversation outside of the family.
    let left = part(store, "left", Some(&top)).await?;
    store.one.describe(&left, &Metadata::new().parent(&stranger)).await.seen("describe")?;

    store.two.delete(&child).await.seen("delete")?;
    facts(store, &[&child, &grandchild, &below], 0).await?;
    facts(store, &[&top, &second, &stranger, &nephew, &left], 1).await?;
    store.two.delete(&top).await.seen("delete")?;
    facts(store, &[&top, &second], 0).await?;
    facts(store, &[&stranger, &nephew, &left], 1).await?;
    let page = store.one.list(&ConversationQuery::new().parent(&grandchild)).await.seen("list")?;
    ensure(page.conversations.is_empty(), || "a child without facts is still listed".to_owned())
}

async fn cycle(store: &CheckedStore) -> CheckResult {
    let (one, two) = (store.name("cycle 1"), store.name("cycle 2"));
    let three = part(store, "cycle 3", Some(&two)).await?;
    part(store, "cycle 1", Some(&three)).await?;
    part(store, "cycle 2", Some(&one)).await?;
    let own = store.name("its own parent");
    part(store, "its own parent", Some(&own)).await?;
    for name in [&two, &own] {
        ensure(store.one.delete(name).await.seen("delete")?, || "it was not there".to_owned())?;
    }
    facts(store, &[&one, &two, &three, &own], 0).await
}

async fn held(store: &CheckedStore) -> CheckResult {
    let top = part(store, "held top", None).await?;
    let child = part(store, "held child", Some(&top)).await?;
    let grandchild = part(store, "held grandchild", Some(&child)).await?;
    let family = [&top, &child, &grandchild];
    for name in family {
        for (holder, other) in [(&store.one, &store.two), (&store.two, &store.one)] {
            let held = in_time(&**holder, name).await.seen("hold")?;
            refused("delete of what is held", holder.delete(&top).await, ErrorKind::Busy)?;
            let refusal = other.delete(&top).await;
            refused("delete of what another handle holds", refusal, ErrorKind::Busy)?;
            facts(store, &family, 1).await?;
            drop(held);
        }
    }
    // A lease of a conversation outside the deleted family does not prevent the deletion.
    let _held = store.one.hold(&top).await.seen("hold")?;
    drop(in_time(&*store.one, &child).await.seen("hold")?);
    drop(in_time(&*store.one, &grandchild).await.seen("hold")?);
    ensure(store.one.delete(&child).await.seen("delete")?, || "it was not there".to_owned())?;
    facts(store, &[&child, &grandchild], 0).await?;
    facts(store, &[&top], 1).await
}
