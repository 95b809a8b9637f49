//! Faults of the server and of the role: each is an error that says what to do, and changes nothing.

use harness::{
    ErrorKind,
    journal::{Head, Journal, Metadata, PostgresJournal, WriterId},
};

use crate::server::{Server, fact, fresh, head_at, server};

#[tokio::test]
async fn a_role_that_may_only_read_reads() {
    let server = server!();
    let schema = fresh("readonly");
    let facts = [fact(WriterId::random(), "said")];
    let first = server.journal(&schema).await;
    let last = first.append("a", Head::default(), &facts).await.expect("appended");
    let role = fresh("reader");
    server.sql(&format!(
        "create role {role} login; grant usage on schema {schema} to {role}; \
         grant select on all tables in schema {schema} to {role}"
    ));
    let url = server.socket(&role, "postgres");
    let journal =
        PostgresJournal::builder(&url).schema(&schema).connect().await.expect("a journal");
    assert_eq!(journal.read("a", 0).await.expect("facts").facts, facts);
    let told = [
        journal.append("a", last, &facts).await.unwrap_err(),
        journal.append("b", Head::default(), &facts).await.unwrap_err(),
        journal.describe("a", &Metadata::new()).await.unwrap_err(),
        journal.fork("a", last, "b").await.unwrap_err(),
        journal.delete("a").await.unwrap_err(),
        // It may not make tables of its own either.
        PostgresJournal::builder(&url).schema(fresh("none")).connect().await.unwrap_err(),
    ];
    for err in told {
        assert_eq!(err.kind(), ErrorKind::Journal);
        assert!(err.to_string().contains("permission denied"), "{err}");
        assert!(err.to_string().contains("GRANT"), "{err}");
    }
    // The connections are still of use.
    assert_eq!(journal.read("a", 0).await.expect("facts").facts, facts);

    server.sql(&format!("grant insert, update, delete on all tables in schema {schema} to {role}; grant usage on all sequences in schema {schema} to {role}"));
    journal.append("a", last, &facts).await.expect("appended");
}

#[tokio::test]
async fn a_standby_says_so() {
    let server = server!();
    let schema = fresh("standby");
    let facts = [fact(WriterId::random(), "said")];
    let first = server.journal(&schema).await;
    let last = first.append("a", Head::default(), &facts).await.expect("appended");
    let role = fresh("standby");
    server.sql(&format!(
        "create role {role} login superuser; \
         alter role {role} set default_transaction_read_only = on"
    ));
    let journal = PostgresJournal::builder(server.socket(&role, "postgres")).schema(&schema);
    let journal = journal.connect().await.expect("a journal");
    assert_eq!(journal.read("a", 0).await.expect("facts").facts, facts);
    let err = journal.append("a", last, &facts).await.unwrap_err();
    assert!(err.to_string().contains("target_session_attrs"), "{err}");
}

/// What a role or database sets otherwise would break what is promised.
#[tokio::test]
async fn settings_of_a_role_do_not_weaken_it() {
    let server = server!();
    let role = fresh("weak");
    server.sql(&format!(
        "create role {role} login superuser; \
         alter role {role} set synchronous_commit = off; \
         alter role {role} set default_transaction_isolation = 'serializable'; \
         alter role {role} set search_path = 'nowhere'"
    ));
    let schema = fresh("we\"ak");
    let url = server.socket(&role, "postgres");
    let journals = [0; 2].map(|_| PostgresJournal::builder(&url).schema(&schema).connect());
    let journals = futures_util::future::try_join_all(journals).await.expect("journals");
    let mut last = Head::default();
    for _ in 0..100 {
        let facts = [fact(WriterId::random(), "said")];
        let [one, two] = [0, 1].map(|at| journals[at].append("a", last, &facts));
        let (one, two) = tokio::join!(one, two);
        last = *one.as_ref().or(two.as_ref()).expect("one has won");
        let lost = [one, two].into_iter().find_map(Result::err).expect("one has lost");
        assert!(lost.is_conflict(), "{lost}");
    }
    let lives =
        server.sql(&format!("select count(*) from \"{}\".facts", schema.replace('"', "\"\"")));
    assert_eq!(lives, "100");
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_leaves_no_half() {
    // A file may have 24 MB, which the facts soon have.
    let own = server!(Server::start(&[], "49152"));
    let journal = own.journal("full").await;
    let mut random = fastrand::Rng::with_seed(1);
    let mut last = Head::default();
    let err = loop {
        let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(500_000).collect();
        let facts = [fact(WriterId::random(), &text), fact(WriterId::random(), "second")];
        match journal.append("a", last, &facts).await {
            Ok(head) => last = head,
            Err(err) => break err,
        }
        assert!(last.facts < 400, "nothing was ever full");
    };
    assert_eq!(err.kind(), ErrorKind::Journal);
    assert!(err.to_string().contains("too large"), "{err}");
    assert_eq!(journal.read("a", 0).await.expect("facts").facts.len() as u64, last.facts);
    // Small facts still find a place.
    journal.append("a", last, &[fact(WriterId::random(), "small")]).await.expect("appended");
}

#[tokio::test]
async fn tables_that_somebody_has_changed_are_not_believed() {
    let server = server!();
    let schema = fresh("damaged");
    let journal = server.journal(&schema).await;
    let facts: Vec<_> = (0..5).map(|n| fact(WriterId::random(), &n.to_string())).collect();
    for conversation in ["first", "middle", "last", "life"] {
        journal.append(conversation, Head::default(), &facts).await.expect("appended");
    }
    journal.append("whole", Head::default(), &facts).await.expect("appended");
    server.sql(&format!(
        "delete from {schema}.facts where (conversation, number) in \
         (('first', 0), ('middle', 2), ('last', 4)); \
         update {schema}.facts set life = 'nobody' where conversation = 'life' and number = 3; \
         update {schema}.conversations set metadata = 'none' where id = 'life'"
    ));
    for (conversation, number) in [("first", 0), ("middle", 2), ("last", 4), ("life", 3)] {
        let err = journal.read(conversation, 0).await.unwrap_err();
        let told =
            format!("fact {number} of the conversation `{conversation}` is missing or damaged");
        assert!(err.to_string().contains(&told), "{err}");
    }
    assert_eq!(journal.read("middle", 3).await.expect("facts").facts, facts[3..]);
    let at = head_at(&server.journal(&schema).await, "whole", 2).await;
    let incarnation = journal.read("middle", 3).await.expect("read").head.incarnation;
    let at = Head::new(incarnation.expect("it exists"), 2, at.writer);
    journal.fork("middle", at, "saved").await.expect("forked");
    assert_eq!(journal.read("saved", 0).await.expect("facts").facts, facts[..2]);
    assert_eq!(journal.read("whole", 0).await.expect("facts").facts, facts);
    let err = journal.list(&harness::journal::ConversationQuery::new()).await.unwrap_err();
    assert!(err.to_string().contains("`life`"), "{err}");
}
