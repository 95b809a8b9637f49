//! Facts: a journal returns all appended facts in order and unchanged, and a failed append stores nothing.

use super::checks::{
    CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, fact, refused,
    same,
};
use harness_core::{
    error::ErrorKind,
    journal::{ConversationQuery, Envelope, FORMAT, Head, WriterId},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "what was appended is read unchanged" => round_trip,
    "a fact may have 16 MB" => long,
    "a batch may have 1,000 facts" => many,
    "an append after another number of facts is a conflict and appends nothing" => conflicts,
    "an append of nothing makes the conversation" => nothing,
    "facts are read from a number on" => from,
    "names are told apart to the byte" => distinct_names,
    "a name that is none is refused" => bad_names,
};

async fn round_trip(store: &CheckedStore) -> CheckResult {
    let texts = [
        r#"{"fact":"user_said","message":null}"#,
        // White space and the order of members are part of the text.
        "{ \"b\" : 1,\n\t\"a\":\r\n2.50e+1 }",
        r#"{"text":"\u0000 \\u0000 \" ' ; -- \\ % _ $1 ?1 :a @b"}"#,
        "{\"text\":\"zwölf Ölfässer, 日本語, \u{1F469}\u{200D}\u{1F680}, e\u{301}, \u{202E}\u{FEFF}\u{10FFFF}\"}",
        r#"{"lone":"\ud800","number":123456789012345678901234567890.000000000000000000001}"#,
        r#"{"twice":1,"twice":2}"#,
        "null",
        "not even JSON",
        "",
    ];
    let mut facts: Vec<Envelope> = texts.into_iter().map(fact).collect();
    let life = WriterId::random();
    let zero = WriterId::parse("0000000000000000").ok_or("a life")?;
    let last = WriterId::parse("ffffffffffffffff").ok_or("a life")?;
    facts.extend([
        Envelope::stored(FORMAT + 1, "99.0.0-next+build.1", life, 1, 2, r#"{"fact":"dreamt"}"#),
        Envelope::stored(u32::MAX, "", last, u64::MAX, u64::MAX, "{}"),
        Envelope::stored(0, "ü", zero, 0, 0, "{}"),
        Envelope::stored(1, "0.0.1", life, i64::MAX.unsigned_abs(), 1 << 63, "{}"),
    ]);
    let (whole, single) = (store.name("whole"), store.name("single"));
    store.one.append(&whole, Head::default(), &facts).await.seen("append")?;
    for (number, fact) in (0..).zip(&facts) {
        store
            .one
            .append(&single, store.head_at(&single, number).await?, std::slice::from_ref(fact))
            .await
            .seen("append")?;
    }
    store.has(&whole, &facts).await?;
    store.has(&single, &facts).await
}

async fn long(store: &CheckedStore) -> CheckResult {
    let name = store.name("long");
    let text = format!("{{\"text\":\"{}\"}}", "ä\\n\u{1F600}x".repeat(16 * 1024 * 1024 / 9));
    let facts = [fact("{}"), fact(text), fact("{}")];
    store.one.append(&name, Head::default(), &facts).await.seen("append")?;
    store.has(&name, &facts).await
}

async fn many(store: &CheckedStore) -> CheckResult {
    let facts = batch("many", 1000);
    let name = store.name("many");
    store.one.append(&name, Head::default(), &facts).await.seen("append")?;
    store.has(&name, &facts).await
}

async fn conflicts(store: &CheckedStore) -> CheckResult {
    let name = store.name("conflicts");
    let (facts, others) = (batch("conflicts", 3), batch("others", 3));
    for after in [1, 2, u64::MAX] {
        let refusal = store.one.append(&name, store.head_at(&name, after).await?, &others).await;
        refused(&format!("an append after {after} of 0 facts"), refusal, ErrorKind::Conflict)?;
    }
    store.has(&name, &[]).await?;
    store.one.append(&name, Head::default(), &facts).await.seen("append")?;
    for journal in [&store.one, &store.two] {
        for after in [0, 1, 2, 4, u64::from(u32::MAX) + 4, u64::MAX] {
            let refusal = journal.append(&name, store.head_at(&name, after).await?, &others).await;
            refused(&format!("an append after {after} of 3 facts"), refusal, ErrorKind::Conflict)?;
            let refusal = journal.append(&name, store.head_at(&name, after).await?, &[]).await;
            let what = format!("an append of nothing after {after} of 3 facts");
            refused(&what, refusal, ErrorKind::Conflict)?;
        }
    }
    store.has(&name, &facts).await?;
    store.two.append(&name, store.head_at(&name, 3).await?, &others).await.seen("append")?;
    store.has(&name, &[facts, others].concat()).await
}

async fn nothing(store: &CheckedStore) -> CheckResult {
    let name = store.name("nothing");
    store.one.append(&name, Head::default(), &[]).await.seen("append of nothing")?;
    store.has(&name, &[]).await?;
    let page = store.two.list(&ConversationQuery::new().limit(1)).await.seen("list")?;
    let first = page.conversations.first();
    ensure(first.is_some_and(|first| first.id == name && first.facts == 0), || {
        format!("it is not listed first and without facts, but {first:?}")
    })
}

async fn from(store: &CheckedStore) -> CheckResult {
    let facts = batch("from", 5);
    let name = store.name("from");
    store.one.append(&name, Head::default(), &facts).await.seen("append")?;
    for from in [0, 1, 4, 5, 6, u64::from(u32::MAX) + 1, 1 << 63, u64::MAX] {
        let read = store.two.read(&name, from).await.seen("read")?.facts;
        let wanted = usize::try_from(from).ok().and_then(|from| facts.get(from..));
        same(&read, wanted.unwrap_or_default()).map_err(|fault| format!("from {from}: {fault}"))?;
    }
    let read =
        store.one.read(&store.name("never made"), 0).await.seen("read of no conversation")?.facts;
    same(&read, &[])
}

async fn distinct_names(store: &CheckedStore) -> CheckResult {
    let run = store.name("");
    let mut names: Vec<String> = [
        "a",
        "A",
        "a ",
        " a",
        "ä",
        "a\u{308}",
        "ａ",
        "a/b",
        "a\\b",
        "../a",
        "a'b",
        "a\"b",
        "a`b",
        "a''b",
        "'; DROP TABLE facts; --",
        "%",
        "_",
        "a%",
        "a_",
        "ab",
        "?1",
        "$1",
        "\u{1F600}",
        "\u{FEFF}a",
        "a\u{200B}",
        "null",
        "0",
        "00",
        "1e0",
    ]
    .into_iter()
    .map(|name| format!("{run}{name}"))
    .collect();
    // Names of the maximum length in bytes. They differ only in the last character.
    let filled = |last: &str| format!("{run}{}{last}", "é".repeat((508 - run.len()) / 2));
    for last in ["x", "y", "é"] {
        let name = filled(last);
        names.push(format!("{}{name}", "-".repeat(512 - name.len())));
    }
    for (at, name) in names.iter().enumerate() {
        let what = format!("append to `{name}`");
        store.one.append(name, Head::default(), &batch(name, at % 3 + 1)).await.seen(&what)?;
    }
    for (at, name) in names.iter().enumerate() {
        let read = store.two.read(name, 0).await.seen("read")?.facts;
        let texts = |facts: &[Envelope]| facts.iter().map(|f| f.fact.clone()).collect::<Vec<_>>();
        ensure(texts(&read) == texts(&batch(name, at % 3 + 1)), || {
            format!("`{name}` has the facts of another conversation")
        })?;
    }
    Ok(())
}

async fn bad_names(store: &CheckedStore) -> CheckResult {
    let long = "x".repeat(513);
    let longer = "é".repeat(257);
    let metadata = harness_core::journal::Metadata::new();
    for name in ["", "a\0b", "a\nb", "\u{7f}", "a\u{85}", &long, &longer] {
        let about = |call: &str| format!("{call} of {name:?}");
        let kind = ErrorKind::Configuration;
        refused(
            &about("append"),
            store.one.append(name, Head::default(), &batch("bad", 1)).await,
            kind,
        )?;
        refused(&about("hold"), store.one.hold(name).await, kind)?;
        refused(&about("describe"), store.one.describe(name, &metadata).await, kind)?;
        let base = store.name("base of bad names");
        refused(
            &about("fork"),
            store.one.fork(&base, store.head_at(&base, 0).await?, name).await,
            kind,
        )?;
    }
    Ok(())
}
