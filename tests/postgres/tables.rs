//! The tables are made once, and those that are not known are left alone.

use harness::{
    ErrorKind,
    journal::{Envelope, Journal, Life, Listing, Metadata, PostgresJournal},
};

use crate::server::{Server, fact, fresh, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_journals_make_the_tables_together() {
    let server = server!();
    for _ in 0..10 {
        let schema = fresh("together");
        let journals = (0..12).map(|_| server.builder(&schema).connect());
        futures_util::future::try_join_all(journals).await.expect("journals");
        assert_eq!(server.sql(&format!("select * from {schema}.journal_version")), "2");
    }
}

/// The tables of the first version, as it made them, with a conversation and a fork of it.
const FIRST: &str = r#"
create table conversations (
    id text collate "C" primary key,
    facts bigint not null default 0,
    base text collate "C" references conversations,
    shared bigint not null default 0,
    metadata text not null default '{}',
    owner text collate "C",
    parent text collate "C",
    changed bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    check (shared <= facts),
    check ((base is null) = (shared = 0))
);
create unique index conversations_changed on conversations (changed);
create index conversations_owner on conversations (left(owner, 512), changed) where owner is not null;
create index conversations_parent on conversations (left(parent, 512), changed) where parent is not null;
create index conversations_base on conversations (base) where base is not null;
create table facts (
    conversation text collate "C" not null,
    number bigint not null,
    format bigint not null,
    version text not null,
    life text not null,
    at bigint not null,
    elapsed bigint not null,
    fact text not null,
    primary key (conversation, number)
);
create sequence changes;
create table journal_version (version integer not null);
insert into journal_version values (1);
insert into conversations values
    ('old', 5, null, 0, '{"owner":"ann"}', 'ann', null, nextval('changes'), 10, 20),
    ('fork', 4, 'old', 3, '{}', null, null, nextval('changes'), 11, 21);
insert into facts
    select 'old', n, 1, '0.1.0', '0123456789abcdef', 7, n, '{"n":' || n || '}' from generate_series(0, 4) n;
insert into facts values ('fork', 3, 1, '0.1.0', '0123456789abcdef', 7, 4, '{"n":4}');
"#;

/// A schema of the first version.
fn first_version(server: &Server) -> String {
    let schema = fresh("first");
    server.sql(&format!("create schema {schema}; set search_path = {schema}; {FIRST}"));
    schema
}

async fn has_all(journal: &PostgresJournal) {
    let life = Life::parse("0123456789abcdef").expect("a life");
    let fact = |n| Envelope::stored(1, "0.1.0", life, 7, n, format!("{{\"n\":{n}}}"));
    let all: Vec<Envelope> = (0..5).map(fact).collect();
    assert_eq!(journal.read("old", 0).await.expect("facts"), all);
    assert_eq!(journal.read("fork", 0).await.expect("facts"), [&all[..3], &all[4..]].concat());
    let page = journal.list(&Listing::new().owner("ann")).await.expect("a page");
    let [old] = &page.conversations[..] else { panic!("{page:?}") };
    assert_eq!((&*old.id, old.facts, old.created_at, old.updated_at), ("old", 5, 10, 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_the_first_version_are_brought_up_to_date_once_and_keep_all() {
    let server = server!();
    for _ in 0..5 {
        let schema = first_version(server);
        // Each journal has connections of its own, as processes have.
        let journals = (0..8).map(|_| server.builder(&schema).connect());
        let journals = futures_util::future::try_join_all(journals).await.expect("journals");
        assert_eq!(server.sql(&format!("select * from {schema}.journal_version")), "2");
        for journal in &journals[..2] {
            has_all(journal).await;
        }
        journals[0].write_spill("old", "r-1", 0, b"large").await.expect("written");
        journals[1].fork("old", 5, "second").await.expect("forked");
        assert!(journals[2].delete("old").await.expect("deleted"));
        let large = journals[3].read_spill("second", "r-1", 0).await.expect("read");
        assert_eq!(large, Some(b"large".to_vec()));
    }
}

/// Whoever brings the tables up to date is killed at the end of it, before the commit: it waits there for a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_killed_while_it_brings_tables_up_to_date_leaves_them_as_they_were() {
    let server = server!();
    let schema = first_version(server);
    // The new tables can be made, and the version cannot be written.
    let lock = server.open(&format!("lock table {schema}.journal_version in exclusive mode"));
    let url = format!("{}?application_name={schema}", server.socket("harness", "postgres"));
    let builder = PostgresJournal::builder(url).schema(&schema).max_connections(1);
    let connecting = tokio::spawn(async move { builder.connect().await.map(drop) });
    let waits = format!(
        "select 1 from pg_stat_activity where application_name = '{schema}' \
         and wait_event_type = 'Lock' and query like 'update journal_version%'"
    );
    server.until(&waits).await;
    server.sql(&format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{schema}'"
    ));
    let err = connecting.await.expect("no panic").expect_err("it was killed");
    assert_eq!(err.kind(), ErrorKind::Journal, "{err}");
    drop(lock);
    let new = format!(
        "select count(*) from pg_class where relnamespace = '{schema}'::regnamespace \
         and relname in ('spills', 'chunks')"
    );
    assert_eq!(server.sql(&new), "0");
    assert_eq!(server.sql(&format!("select * from {schema}.journal_version")), "1");
    has_all(&server.journal(&schema).await).await;
    assert_eq!(server.sql(&format!("select * from {schema}.journal_version")), "2");
}

/// What there is in a schema.
fn contents(schema: &str) -> String {
    format!(
        "select relname, relkind from pg_class where relnamespace = '{schema}'::regnamespace order by 1"
    )
}

#[tokio::test]
async fn tables_of_a_later_version_are_left_alone() {
    let server = server!();
    let schema = fresh("later");
    let journal = server.journal(&schema).await;
    journal.append("a", 0, &[fact(Life::random(), "said")]).await.expect("appended");
    server.sql(&format!(
        "update {schema}.journal_version set version = 3; alter table {schema}.facts drop column at"
    ));
    let before = server.sql(&contents(&schema));
    let err = server.builder(&schema).connect().await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Journal);
    let told = err.to_string();
    assert!(told.contains("version 3") && told.contains("later version of the library"), "{told}");
    assert!(told.contains(&schema), "{told}");
    assert_eq!(server.sql(&contents(&schema)), before);

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
    let facts = [fact(Life::random(), "Größe 漢字")];
    journal.append("Größe", 0, &facts).await.expect("appended");
    assert_eq!(journal.read("Größe", 0).await.expect("facts"), facts);
    journal.describe("Größe", &Metadata::new().owner("漢字")).await.expect("described");
    let page = journal.list(&Listing::new().owner("漢字")).await.expect("a page");
    assert_eq!(page.conversations[0].id, "Größe");
}

/// Two schemas of one database know nothing of each other.
#[tokio::test]
async fn schemas_are_apart() {
    let server = server!();
    let [one, two] = [server.journal(&fresh("one")).await, server.journal(&fresh("two")).await];
    let facts = [fact(Life::random(), "said")];
    one.append("a", 0, &facts).await.expect("appended");
    assert_eq!(two.read("a", 0).await.expect("none"), []);
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
         select 'c' || n, 3, null, 0, '{{}}', 'o' || n % 1000, 'c' || n / 10, nextval('changes'), 0, 0
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
        journal.append(&old, 3, &[fact(Life::random(), "said")]).await.expect("appended");
        assert_eq!(journal.read(&old, 1).await.expect("facts").len(), 3);
        journal.fork(&old, 2, &new).await.expect("forked");
        journal.fork(&new, 1, &format!("newer {n}")).await.expect("forked");
        journal.describe(&new, &Metadata::new().parent("new")).await.expect("described");
        for listing in [Listing::new(), Listing::new().owner("o5"), Listing::new().parent("c5")] {
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
