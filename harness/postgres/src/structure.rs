//! Operations on several conversations: forks and deletion. A fork shares facts with the conversation from which it was
//! forked. A deletion leaves these facts to the forks.
//!
//! Forks take the structure lock in shared mode, and a deletion takes it exclusively. So no operation changes the links
//! between conversations while another operation reads these links. An append does not need the structure lock, because
//! it changes no shared facts.

use tokio_postgres::types::Type;

use super::{
    connection::PostgresConnection,
    facts::{head, head_in, kept},
    failure::PostgresFailure,
    leases::SharedLocks,
    spills,
    target::DatabaseAddress,
};
use harness_core::journal::{Head, Incarnation, WriterId, busy, check_base, check_id, conflict};

/// Follows the chain of bases of a conversation, as long as the first `$2` facts are shared with the base. The last row
/// is the best base for a fork with `$2` facts, because the conversation of this row stores the last of these facts.
/// The row also contains the writer of that fact.
const LINE: &str = "
with recursive line(id, base, shared, facts, depth) as (
    select id, base, shared, facts, 0 from conversations where id = $1
  union all
    select base.id, base.base, base.shared, base.facts, line.depth + 1
    from line join conversations base on base.id = line.base
    where $2 <= line.shared
)
select line.id, conversations.incarnation, line.facts, conversations.writer, life
from line join conversations on conversations.id = line.id
    left join facts on conversation = line.id and number = $2 - 1
order by depth";

const FORK: &str = "
insert into conversations as it
    (id, facts, shared, base, incarnation, writer, changed, created_at, updated_at)
select $1, $2, $2, $3, $4, $5, nextval('changes'), now, now
from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now) clock
on conflict (id) do update
set facts = excluded.facts, shared = excluded.shared, base = excluded.base,
    writer = excluded.writer, changed = excluded.changed, updated_at = excluded.updated_at
where it.facts = 0
returning incarnation, facts, writer";

/// Creates `to` with the first facts of `from`, by reference.
pub(super) async fn fork(
    connection: &PostgresConnection,
    target: &DatabaseAddress,
    from: &str,
    at: Head,
    to: &str,
) -> Result<Head, PostgresFailure> {
    let lock = target.lock("structure", "");
    connection.run(&format!("begin; select pg_advisory_xact_lock_shared({lock})")).await?;
    let forked = fork_locked(connection, from, at, to).await;
    end(connection, forked).await
}

async fn fork_locked(
    connection: &PostgresConnection,
    from: &str,
    at: Head,
    to: &str,
) -> Result<Head, PostgresFailure> {
    // No conversation has more than `i64::MAX` facts.
    let shared = i64::try_from(at.facts).unwrap_or(i64::MAX);
    // No conversation can have an invalid id.
    let known = check_id(from).map_or("", |()| from);
    let line = connection.query(LINE, &[(&known, Type::TEXT), (&shared, Type::INT8)]).await?;
    let there = line.first().map_or(Ok(Head::default()), |row| head_in(row, [1, 2, 3]))?;
    // A fork that shares nothing has no base.
    let last = line.last().filter(|_| shared > 0);
    let writer: Option<&str> = last.map(|row| row.try_get(4)).transpose()?.flatten();
    let found = Head { facts: at.facts, writer: writer.and_then(WriterId::parse), ..there };
    check_base(from, at, there, Some(found)).map_err(PostgresFailure::Own)?;
    let base: Option<&str> = last.map(|row| row.try_get(0)).transpose()?;
    let incarnation = Incarnation::random().0.cast_signed();
    let values = [
        (&to as _, Type::TEXT),
        (&shared as _, Type::INT8),
        (&base as _, Type::TEXT),
        (&incarnation as _, Type::INT8),
        (&writer as _, Type::TEXT),
    ];
    let forked = connection.query(FORK, &values).await?;
    let Some(forked) = forked.first() else {
        let there = head(connection, to).await?;
        return Err(PostgresFailure::Own(conflict(to, Head::default(), there)));
    };
    if shared > 0 {
        spills::share(connection, known, to).await?;
    }
    head_in(forked, [0, 1, 2])
}

/// The ids of the conversation and of all its direct and indirect children. `offset 0` prevents a scan of all
/// conversations.
const FAMILY: &str = r#"
with recursive family(id) as (
    select $1 collate "C"
  union
    select child.id from family cross join lateral (
        select id from conversations
        where left(parent, 512) = left(family.id, 512) and parent = family.id
        offset 0
    ) child
)
select id from family"#;

/// Locks the rows of the conversations that are deleted, so that no append changes them. Conversations that are created
/// later are not deleted.
const LOCK: &str = "select id from conversations where id = any($1) order by id for update";

const HELD: &str = "
select id from unnest($1::text[], $2::bigint[]) as it(id, key)
where not pg_try_advisory_xact_lock(key) limit 1";

/// Gives each remaining fork the facts that it shares with the deleted conversations. The new base of the fork is the
/// first remaining conversation in its chain of bases. If no base remains, the fork has no base.
const LEAVE: &str = "
with recursive going(fork, id, base, first, behind) as (
    select fork.id, gone.id, gone.base, gone.shared, fork.shared
    from conversations fork join conversations gone on gone.id = fork.base
    where fork.base = any($1) and fork.id <> all($1)
  union all
    select going.fork, gone.id, gone.base, gone.shared, going.first
    from going join conversations gone on gone.id = going.base
    where going.base = any($1)
), copied as (
    insert into facts
    select going.fork, number, format, version, life, at, elapsed, fact
    from going join facts on conversation = going.id
        and number >= going.first and number < going.behind
)
update conversations fork set shared = going.first, base = going.base
from going
where fork.id = going.fork and (going.base is null or going.base <> all($1))";

/// Deletes a conversation and all conversations that have it as a parent, directly or indirectly. Returns whether the
/// conversation existed.
pub(super) async fn delete(
    connection: &PostgresConnection,
    target: &DatabaseAddress,
    leases: &SharedLocks,
    conversation: &str,
) -> Result<bool, PostgresFailure> {
    let lock = target.lock("structure", "");
    connection.run(&format!("begin; select pg_advisory_xact_lock({lock})")).await?;
    let deleted = delete_locked(connection, target, leases, conversation).await;
    end(connection, deleted).await
}

async fn delete_locked(
    connection: &PostgresConnection,
    target: &DatabaseAddress,
    leases: &SharedLocks,
    conversation: &str,
) -> Result<bool, PostgresFailure> {
    let rows = connection.query(FAMILY, &[(&kept(conversation), Type::TEXT)]).await?;
    let family: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let keys: Vec<i64> = family.iter().map(|id| target.lock("conversation", id)).collect();
    let values = [(&family as _, Type::TEXT_ARRAY), (&keys as _, Type::INT8_ARRAY)];
    let held = connection.query(HELD, &values).await?;
    let held: Option<String> = held.first().map(|row| row.try_get(0)).transpose()?;
    // A lease of this process prevents the deletion even if the server has released the lock.
    if let Some(held) = held.or_else(|| family.iter().find(|id| leases.has(id)).cloned()) {
        return Err(PostgresFailure::Own(busy(&held)));
    }
    let rows = connection.query(LOCK, &[(&family, Type::TEXT_ARRAY)]).await?;
    let there: Vec<&str> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let values = [(&there as _, Type::TEXT_ARRAY)];
    connection.query(LEAVE, &values).await?;
    connection.query("delete from facts where conversation = any($1)", &values).await?;
    spills::delete_of(connection, &there).await?;
    connection.query("delete from conversations where id = any($1)", &values).await?;
    Ok(there.contains(&conversation))
}

/// Ends the transaction: commits if everything succeeded.
async fn end<T>(
    connection: &PostgresConnection,
    done: Result<T, PostgresFailure>,
) -> Result<T, PostgresFailure> {
    match &done {
        Ok(_) => connection.run("commit").await?,
        // The connection works and is used again.
        Err(PostgresFailure::Own(_)) => connection.run("rollback").await?,
        // The connection is closed, which ends the transaction.
        Err(PostgresFailure::Database(_)) => {}
    }
    done
}
