//! The tables are made once, and those that are not known are left alone.

use harness::{
    ErrorKind,
    journal::{ConversationQuery, Head, Journal, Metadata, PostgresJournal, WriterId},
};

use crate::server::{fact, fresh, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_journals_make_the_tables_together() {
    let server = server!();
    for _ in 0..10 {
        let schema = fresh("together");
        let journals = (0..12).map(|_| server.builder(&schema).connect());
        futures_util::future::try_join_all(journals).await.expect("journals");
        assert_eq!(server.sql(&format!("select * from {schema}.journal_version")), "3");
    }
}

/// What there is in a schema.
fn contents(schema: &str) -> String {
    format!(
        "select relname, relkind from pg_class where relnamespace = '{schema}'::regnamespace order by 1"
    )
}

#[tokio::test]
async fn tables_of_another_version_are_left_alone() {
    let server = server!();
    let schema = fresh("later");
    let journal = server.journal(&schema).await;
    journal
        .append("a", Head::default(), &[fact(WriterId::random(), "said")])
        .await
        .expect("appended");
    server.sql(&format!(
        "update {schema}.journal_version set version = 4; alter table {schema}.facts drop column at"
    ));
    let before = server.sql(&contents(&schema));
    let versions = [
        (4, "later version of the library"),
        (2, "before its first release"),
        (1, "before its first release"),
    ];
    for (version, words) in versions {
        server.sql(&format!("update {schema}.journal_version set version = {version}"));
        let err = server.builder(&schema).connect().await.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Journal);
        let told = err.to_string();
        let says = |words: &str| assert!(told.contains(words), "{told}");
        [&format!("version {version}"), words, &schema].into_iter().for_each(says);
        assert_eq!(server.sql(&contents(&schema)), before);
    }

    server.sql(&format!("delete from {schema}.journal_version"));
    let told = server.builder(&schema).connect().await.unwrap_err().to_string();
    assert!(told.contains("journal_version"), "{told}");
}

#[tokio::test]
async fn a_schema_of_somebody_else_is_left_alone() {
    let server = server!();
    let schema = fresh("theirs");
    server.sql(&format!("create schema {schema}; create table {schema}.facts (theirs text)"));
    let before = server.sql(&contents(&schema));
    let err = server.builder(&schema).connect().await.unwrap_err();
    assert!(err.to_string().contains("name another one"), "{err}");
    assert_eq!(server.sql(&contents(&schema)), before);

    // An empty one is taken.
    let schema = fresh("empty");
    server.sql(&format!("create schema {schema}"));
    server.journal(&schema).await;
}

#[tokio::test]
async fn a_database_must_have_all_characters() {
    let server = server!();
    let latin = fresh("latin");
    server.sql(&format!("create database {latin} encoding 'LATIN1' template template0"));
    let err = PostgresJournal::connect(server.socket("harness", &latin)).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Configuration);
    assert!(err.to_string().contains("LATIN1") && err.to_string().contains("UTF8"), "{err}");

    let bytes = fresh("bytes");
    server.sql(&format!("create database {bytes} encoding 'SQL_ASCII' template template0"));
    let journal =
        PostgresJournal::connect(server.socket("harness", &bytes)).await.expect("a journal");
    let facts = [fact(WriterId::random(), "Größe 漢字")];
    journal.append("Größe", Head::default(), &facts).await.expect("appended");
    assert_eq!(journal.read("Größe", 0).await.expect("facts").facts, facts);
    journal.describe("Größe", &Metadata::new().owner("漢字")).await.expect("described");
    let page = journal.list(&ConversationQuery::new().owner("漢字")).await.expect("a page");
    assert_eq!(page.conversations[0].id, "Größe");
}

/// Two schemas of one database know nothing of each other.
#[tokio::test]
async fn schemas_are_apart() {
    let server = server!();
    let [one, two] = [server.journal(&fresh("one")).await, server.journal(&fresh("two")).await];
    let facts = [fact(WriterId::random(), "said")];
    one.append("a", Head::default(), &facts).await.expect("appended");
    assert_eq!(two.read("a", 0).await.expect("none").facts, []);
    let _one = one.hold("a").await.expect("held");
    let _two = two.hold("a").await.expect("held");
}

/// Each call finds what it needs by an index, however much there is beside it.
#[tokio::test]
async fn no_call_reads_all_that_there_is() {
    let server = server!();
    let schema = fresh("many");
    drop(server.journal(&schema).await);
    server.sql(&format!(
        "set search_path = {schema};
         insert into conversations
         select 'c' || n, n, 3, '0123456789abcdef', null, 0, '{{}}', 'o' || n % 1000, 'c' || n / 10, nextval('changes'), 0, 0
         from generate_series(1, 20000) n;
         insert into facts
         select 'c' || n, k, 1, '0.1.0', '0123456789abcdef', 0, 0, '{{}}'
         from generate_series(1, 20000) n, generate_series(0, 2) k;
         analyze conversations; analyze facts"
    ));
    let whole = format!(
        "select sum(seq_tup_read) + 1 from pg_stat_user_tables \
         where schemaname = '{schema}' and relname in ('conversations', 'facts')"
    );
    let before = server.sql(&whole);
    let url = format!("{}?application_name={schema}", server.socket("harness", "postgres"));
    let builder = PostgresJournal::builder(url).schema(&schema).max_connections(1);
    let journal = builder.connect().await.expect("a journal");
    // A server looks at a statement anew the first times that it runs.
    for n in 0..10_u64 {
        let (old, new) = (format!("c{}", n + 500), format!("new {n}"));
        let known = journal.read(&old, 0).await.expect("facts");
        let (at, last) = (known.head_at(2).expect("it has two"), known.head);
        journal.append(&old, last, &[fact(WriterId::random(), "said")]).await.expect("appended");
        assert_eq!(journal.read(&old, 1).await.expect("facts").facts.len(), 3);
        journal.fork(&old, at, &new).await.expect("forked");
        let at = journal.read(&new, 0).await.expect("facts").head_at(1).expect("it has one");
        journal.fork(&new, at, &format!("newer {n}")).await.expect("forked");
        journal.describe(&new, &Metadata::new().parent("new")).await.expect("described");
        for listing in [
            ConversationQuery::new(),
            ConversationQuery::new().owner("o5"),
            ConversationQuery::new().parent("c5"),
        ] {
            journal.list(&listing.limit(10)).await.expect("a page");
        }
        // With all that are part of it, and a fork that stays.
        journal.delete(&old).await.expect("deleted");
    }
    // A session tells what it did when it ends.
    drop(journal);
    let gone = format!(
        "select 1 from pg_stat_activity where application_name = '{schema}' having count(*) = 0"
    );
    server.until(&gone).await;
    assert_eq!(server.sql(&whole), before);
}
