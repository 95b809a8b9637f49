//! The metadata of conversations, and their list.

use super::checks::{
    CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, refused,
};
use harness_core::{
    error::ErrorKind,
    journal::{ConversationInfo, ConversationPage, ConversationQuery, Journal, Metadata},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "what is known of a conversation is kept unchanged" => described,
    "the conversation that changed last is listed first" => ordered,
    "pages follow each other without loss or repeat" => paged,
    "a list is narrowed to an owner and a parent" => narrowed,
    "a page has from 1 to 1,000 conversations" => clamped,
    "a page that this journal did not give is refused" => foreign,
};

async fn list(
    journal: &dyn Journal,
    listing: &ConversationQuery,
) -> Result<ConversationPage, String> {
    journal.list(listing).await.seen("list")
}

fn ids(page: &ConversationPage) -> Vec<&str> {
    page.conversations.iter().map(|summary| summary.id.as_str()).collect()
}

/// The first conversation of the list.
async fn first(store: &CheckedStore) -> Result<ConversationInfo, String> {
    let page = list(&*store.two, &ConversationQuery::new().limit(1)).await?;
    page.conversations.into_iter().next().ok_or_else(|| "nothing is listed".to_owned())
}

async fn described(store: &CheckedStore) -> CheckResult {
    let name = store.name("described");
    let hostile = "zwölf 日本 \u{1F600} ' \" ; -- % _ \\ \n\t";
    let parent = store.name("described parent's \"%_ ü");
    let full = Metadata::new().owner(hostile).title(hostile).parent(parent);
    let full = full.tag(hostile, hostile).tag("", "").tag("nul", "a\0b").tag("a", "1");
    let cases = [
        ("all of it", full),
        ("empty texts", Metadata::new().owner("").title("").parent("").tag("", "")),
        ("a long title", Metadata::new().title("é".repeat(100_000))),
        ("nothing", Metadata::new()),
    ];
    let mut made = None;
    for (what, metadata) in cases {
        store.one.describe(&name, &metadata).await.seen("describe")?;
        let summary = first(store).await?;
        ensure(summary.id == name, || format!("{} is listed first", summary.id))?;
        ensure(summary.metadata == metadata, || {
            format!("{what}: {:?} was kept of {metadata:?}", summary.metadata)
        })?;
        ensure(summary.facts == 0, || format!("it has {} facts", summary.facts))?;
        ensure(summary.created_at > 0 && summary.updated_at > 0, || {
            format!("it was made at {} and changed at {}", summary.created_at, summary.updated_at)
        })?;
        let made = *made.get_or_insert(summary.created_at);
        ensure(summary.created_at == made, || "when it was made has changed".to_owned())?;
    }
    let known = Metadata::new().owner("o").tag("k", "v");
    store.two.describe(&name, &known).await.seen("describe")?;
    store
        .one
        .append(&name, store.head_at(&name, 0).await?, &batch("described", 3))
        .await
        .seen("append")?;
    let summary = first(store).await?;
    ensure(summary.metadata == known && summary.facts == 3, || {
        format!("after an append it is {summary:?}")
    })?;
    ensure(Some(summary.created_at) == made, || "an append changed when it was made".to_owned())
}

async fn ordered(store: &CheckedStore) -> CheckResult {
    let owner = store.name("owner of the order");
    let (a, b, c) = (store.name("order 1"), store.name("order 2"), store.name("order 3"));
    let metadata = Metadata::new().owner(&owner);
    let listing = ConversationQuery::new().owner(&owner);
    let is = async |step: &str, wanted: &[&String]| {
        let page = list(&*store.two, &listing).await?;
        ensure(ids(&page) == wanted, || format!("{step} the order is {:?}", ids(&page)))
    };
    for name in [&a, &b, &c] {
        store.one.describe(name, &metadata).await.seen("describe")?;
    }
    is("after three were made", &[&c, &b, &a]).await?;
    store.two.append(&a, store.head_at(&a, 0).await?, &batch("a", 2)).await.seen("append")?;
    is("after an append to the first", &[&a, &c, &b]).await?;
    store.one.describe(&b, &metadata).await.seen("describe")?;
    is("after the second was described", &[&b, &a, &c]).await?;
    let refusal = store.one.append(&c, store.head_at(&c, 7).await?, &batch("c", 1)).await;
    refused("an append", refusal, ErrorKind::Conflict)?;
    is("after a conflict in the third", &[&b, &a, &c]).await?;
    store.one.fork(&a, store.head_at(&a, 1).await?, &c).await.seen("fork")?;
    is("after a fork to the third", &[&c, &b, &a]).await
}

async fn paged(store: &CheckedStore) -> CheckResult {
    let owner = store.name("owner of pages");
    let metadata = Metadata::new().owner(&owner);
    let mut names: Vec<String> = (0..12).map(|n| store.name(&format!("page {n}"))).collect();
    for name in &names {
        store.one.describe(name, &metadata).await.seen("describe")?;
    }
    names.reverse();
    for size in [1, 2, 5, 6, 11, 12, 13] {
        let mut seen: Vec<String> = Vec::new();
        let mut listing = ConversationQuery::new().owner(&owner).limit(size);
        loop {
            let page = list(&*store.two, &listing).await?;
            seen.extend(ids(&page).into_iter().map(str::to_owned));
            ensure(page.conversations.len() <= size && !page.conversations.is_empty(), || {
                format!("a page of {size} has {}", page.conversations.len())
            })?;
            ensure(seen.len() <= names.len(), || format!("pages of {size} repeat: {seen:?}"))?;
            ensure(page.next.is_some() == (seen.len() < names.len()), || {
                format!("after {} of {} the next page is {:?}", seen.len(), names.len(), page.next)
            })?;
            if page.next.is_none() {
                break;
            }
            listing = listing.after(&page);
        }
        ensure(seen == names, || format!("pages of {size} have {seen:?}, and {names:?} are due"))?;
    }
    Ok(())
}

async fn narrowed(store: &CheckedStore) -> CheckResult {
    let (ann, bob) = (store.name("ann' OR 1=1 --"), store.name("bob%"));
    let (top, other) = (store.name("top_"), store.name("topx"));
    let known = [
        (store.name("n1"), Metadata::new().owner(&ann)),
        (store.name("n2"), Metadata::new().owner(&ann).parent(&top)),
        (store.name("n3"), Metadata::new().owner(&bob).parent(&top)),
        (store.name("n4"), Metadata::new().owner(&bob).parent(&other)),
        (store.name("n5"), Metadata::new().owner(store.name("bob-is-another")).parent(&other)),
        (store.name("n6"), Metadata::new()),
    ];
    for (name, metadata) in &known {
        store.one.describe(name, metadata).await.seen("describe")?;
    }
    let n = |at: usize| known.get(at - 1).map(|(name, _)| name.as_str()).unwrap_or_default();
    let cases = [
        ("an owner", ConversationQuery::new().owner(&ann), vec![n(2), n(1)]),
        ("another owner", ConversationQuery::new().owner(&bob), vec![n(4), n(3)]),
        ("a parent", ConversationQuery::new().parent(&top), vec![n(3), n(2)]),
        ("another parent", ConversationQuery::new().parent(&other), vec![n(5), n(4)]),
        ("both", ConversationQuery::new().owner(&ann).parent(&top), vec![n(2)]),
        ("none of both", ConversationQuery::new().owner(&ann).parent(&other), vec![]),
        ("nobody", ConversationQuery::new().owner(store.name("nobody")), vec![]),
    ];
    for (what, listing, wanted) in cases {
        let page = list(&*store.two, &listing).await?;
        ensure(ids(&page) == wanted && page.next.is_none(), || {
            format!("of {what} there are {:?}, next {:?}", ids(&page), page.next)
        })?;
    }
    // A replaced owner does not own the conversation any more.
    store.two.describe(n(1), &Metadata::new().owner(&bob)).await.seen("describe")?;
    let page = list(&*store.one, &ConversationQuery::new().owner(&ann)).await?;
    ensure(ids(&page) == [n(2)], || format!("of the former owner there are {:?}", ids(&page)))
}

async fn clamped(store: &CheckedStore) -> CheckResult {
    let owner = store.name("owner of thousands");
    let metadata = Metadata::new().owner(&owner);
    for n in 0..1001 {
        let name = store.name(&format!("one of thousands {n}"));
        store.one.describe(&name, &metadata).await.seen("describe")?;
    }
    for (limit, wanted) in [(0, 1), (1, 1), (50, 50), (1001, 1000), (usize::MAX, 1000)] {
        let page = list(&*store.one, &ConversationQuery::new().owner(&owner).limit(limit)).await?;
        let there = page.conversations.len();
        ensure(there == wanted && page.next.is_some(), || {
            format!("with the limit {limit} a page has {there}, and {wanted} are due")
        })?;
    }
    Ok(())
}

async fn foreign(store: &CheckedStore) -> CheckResult {
    store.filled("listed", 1).await?;
    let long = "9".repeat(100);
    for cursor in ["", "x", "-1", "1 OR 1=1", "'; --", "\u{1F600}", &long] {
        let page = ConversationPage::new(Vec::new(), Some(cursor.to_owned()));
        let refusal = store.one.list(&ConversationQuery::new().after(&page)).await;
        refused(&format!("a list after {cursor:?}"), refusal, ErrorKind::Configuration)?;
    }
    Ok(())
}
