//! The tables, their version, and their creation on first use.

use tokio_postgres::types::Type;

use super::{
    connection::PostgresConnection, failure::PostgresFailure, spills, target::DatabaseAddress,
};
use harness_core::error::{Error, ErrorKind};

/// The version of the tables that this version of the library uses. Versions 1 and 2 existed only during the
/// development of the library.
const VERSION: i32 = 3;

/// `base` is the conversation from which this conversation was forked. The first `shared` facts of the base are also
/// the first facts of this conversation. `shared` is always larger than the `shared` of the base. `incarnation`,
/// `facts` and `writer` are the head. `changed` is the order in which conversations have changed. Names are sorted and
/// compared by their bytes (`C`), so that an index stays valid after an update of the operating system's collations. An
/// index contains only the beginning of a long text.
const TABLES: &str = r#"
create table conversations (
    id text collate "C" primary key,
    incarnation bigint not null,
    facts bigint not null default 0,
    writer text,
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
"#;

/// Creates the tables if they do not exist. A lock ensures that concurrent processes create the tables only once.
pub(super) async fn make(
    connection: &PostgresConnection,
    target: &DatabaseAddress,
) -> Result<(), PostgresFailure> {
    if exist(connection, target).await? {
        return Ok(());
    }
    let lock = target.lock("tables", "");
    connection.run(&format!("begin; select pg_advisory_xact_lock({lock})")).await?;
    // On an error, the caller closes the connection, which ends the transaction.
    make_locked(connection, target).await?;
    connection.run("commit").await?;
    Ok(())
}

async fn make_locked(
    connection: &PostgresConnection,
    target: &DatabaseAddress,
) -> Result<(), PostgresFailure> {
    // Another process may have created the tables meanwhile.
    if exist(connection, target).await? {
        return Ok(());
    }
    let schema = &target.schema;
    let known = "select 1 from pg_namespace where nspname = $1";
    // `if not exists` would require the right to create a schema even if the schema exists.
    if connection.query(known, &[(schema, Type::TEXT)]).await?.is_empty() {
        connection.run(&format!("create schema \"{}\"", schema.replace('"', "\"\""))).await?;
    }
    connection.run(TABLES).await?;
    connection.run(spills::TABLES).await?;
    connection.run(&format!("insert into journal_version values ({VERSION})")).await?;
    Ok(())
}

/// Whether the tables exist. Fails if this library does not know their version.
async fn exist(
    connection: &PostgresConnection,
    target: &DatabaseAddress,
) -> Result<bool, PostgresFailure> {
    // `to_regclass` could return a result from before the lock was taken.
    let named = "select 1 from pg_class join pg_namespace on pg_namespace.oid = relnamespace \
                 where nspname = $1 and relname = 'journal_version'";
    if connection.query(named, &[(&target.schema, Type::TEXT)]).await?.is_empty() {
        return Ok(false);
    }
    let rows = connection.query("select version from journal_version", &[]).await?;
    let version: Option<i32> = match rows.as_slice() {
        [row] => Some(row.try_get(0)?),
        _ => None,
    };
    let DatabaseAddress { schema, place, .. } = target;
    let fault = match version {
        Some(VERSION) => return Ok(true),
        Some(version) if version > VERSION => format!(
            "the tables in schema `{schema}` of PostgreSQL at {place} have version {version}; \
             version {} of the library knows only version {VERSION}. Use a later version of the \
             library, or another schema",
            env!("CARGO_PKG_VERSION")
        ),
        Some(version @ 1..) => format!(
            "the tables in schema `{schema}` of PostgreSQL at {place} have version {version}, which \
             the library had before its first release and cannot read any more. Use another schema, \
             or drop this one with all its conversations"
        ),
        _ => format!(
            "the table `journal_version` in schema `{schema}` of PostgreSQL at {place} does not \
             name one version: the schema is used by something else, or was changed. Use another \
             schema, or restore it from a backup"
        ),
    };
    Err(PostgresFailure::Own(Error::new(ErrorKind::Journal, fault)))
}
