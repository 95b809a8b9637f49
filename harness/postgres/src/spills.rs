//! Large results. The body of a result is stored in chunks. A conversation and its forks find the body by its name.

use tokio_postgres::types::Type;

use super::{connection::PostgresConnection, facts::kept, failure::PostgresFailure};
use harness_core::journal::{Incarnation, unknown};

/// The tables of large results. A body is deleted with the last conversation that refers to it.
pub(super) const TABLES: &str = r#"
create table spills (
    conversation text collate "C" not null,
    name text collate "C" not null,
    body bigint not null,
    primary key (conversation, name)
);
create index spills_body on spills (body);
create table chunks (
    body bigint not null,
    number bigint not null,
    bytes bytea not null,
    primary key (body, number)
);
"#;

/// Writes a large result if the conversation exists. A concurrent deletion of the conversation waits for this
/// statement. After the deletion, this statement writes nothing.
const WRITE: &str = "
with it as (
    select id from conversations where id = $1 and incarnation = $5 for key share
), put as (
    insert into spills as known (conversation, name, body)
    select id, $2, nextval('changes') from it
    on conflict (conversation, name) do update set body = known.body
    returning body
), chunk as (
    insert into chunks select body, $3, $4 from put
    on conflict (body, number) do update set bytes = excluded.bytes
)
select from put";

pub(super) async fn write(
    connection: &PostgresConnection,
    (conversation, incarnation): (&str, Incarnation),
    name: &str,
    chunk: u64,
    bytes: &[u8],
) -> Result<(), PostgresFailure> {
    let (name, chunk) = (kept(name), chunk.cast_signed());
    let incarnation = incarnation.0.cast_signed();
    let values = [
        (&conversation as _, Type::TEXT),
        (&name as _, Type::TEXT),
        (&chunk as _, Type::INT8),
        (&bytes as _, Type::BYTEA),
        (&incarnation as _, Type::INT8),
    ];
    match connection.query(WRITE, &values).await?.is_empty() {
        true => Err(PostgresFailure::Own(unknown(conversation))),
        false => Ok(()),
    }
}

const READ: &str = "
select bytes from spills join chunks on chunks.body = spills.body and number = $3
where conversation = $1 and name = $2";

pub(super) async fn read(
    connection: &PostgresConnection,
    conversation: &str,
    name: &str,
    chunk: u64,
) -> Result<Option<Vec<u8>>, PostgresFailure> {
    let (name, chunk) = (kept(name), chunk.cast_signed());
    let values =
        [(&conversation as _, Type::TEXT), (&name as _, Type::TEXT), (&chunk as _, Type::INT8)];
    let rows = connection.query(READ, &values).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

const DELETE: &str = "
with gone as (
    delete from spills
    where conversation = $1 and name = $2
        and exists (select from conversations where id = $1 and incarnation = $3)
    returning body
)
delete from chunks using gone
where chunks.body = gone.body and not exists (
    select from spills where body = gone.body and (conversation, name) <> ($1, $2)
)";

pub(super) async fn delete(
    connection: &PostgresConnection,
    (conversation, incarnation): (&str, Incarnation),
    name: &str,
) -> Result<(), PostgresFailure> {
    let (name, incarnation) = (kept(name), incarnation.0.cast_signed());
    let values = [
        (&conversation as _, Type::TEXT),
        (&name as _, Type::TEXT),
        (&incarnation as _, Type::INT8),
    ];
    connection.query(DELETE, &values).await?;
    Ok(())
}

const SHARE: &str = "
insert into spills (conversation, name, body)
select $2, name, body from spills where conversation = $1
on conflict (conversation, name) do nothing";

/// Lets the fork `to` refer to all large results of its base `from`. The caller holds a lock that prevents deletions.
pub(super) async fn share(
    connection: &PostgresConnection,
    from: &str,
    to: &str,
) -> Result<(), PostgresFailure> {
    connection.query(SHARE, &[(&from, Type::TEXT), (&to, Type::TEXT)]).await?;
    Ok(())
}

const DELETE_OF: &str = "
with gone as (
    delete from spills where conversation = any($1) returning body
)
delete from chunks using gone
where chunks.body = gone.body and not exists (
    select from spills where body = gone.body and conversation <> all($1)
)";

/// Deletes the large results of these conversations. A result to which a remaining fork also refers is kept.
pub(super) async fn delete_of(
    connection: &PostgresConnection,
    conversations: &[&str],
) -> Result<(), PostgresFailure> {
    connection.query(DELETE_OF, &[(&conversations, Type::TEXT_ARRAY)]).await?;
    Ok(())
}
