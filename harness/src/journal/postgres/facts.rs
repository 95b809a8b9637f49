//! Reads and appends facts.

use tokio_postgres::{Row, types::Type};

use super::{connection::Connection, failure::Failure};
use crate::{
    error::{Error, ErrorKind},
    journal::{Envelope, Life, store::conflict},
};

/// The facts of a conversation from a number on, including those that it shares with the
/// conversation that it was forked from. Each row also has the number of facts of the conversation.
const READ: &str = "
with recursive chain(id, base, first, behind) as (
    select id, base, shared, facts from conversations where id = $1
  union all
    select base.id, base.base, base.shared, chain.first
    from chain join conversations base on base.id = chain.base
    where chain.first > $2
)
select it.facts, fact.number, fact.format, fact.version, fact.life, fact.at, fact.elapsed, fact.fact
from conversations it left join lateral (
    select own.* from chain cross join lateral (
        select * from facts
        where conversation = chain.id
            and number >= greatest(chain.first, $2) and number < chain.behind
        offset 0
    ) own
) fact on true
where it.id = $1
order by fact.number";

pub(super) async fn read(
    connection: &Connection,
    conversation: &str,
    from: u64,
) -> Result<Vec<Envelope>, Failure> {
    // A conversation cannot have so many facts.
    let Ok(first) = i64::try_from(from) else { return Ok(Vec::new()) };
    let values = [(&conversation as _, Type::TEXT), (&first as _, Type::INT8)];
    let rows = connection.query(READ, &values).await?;
    let Some(head) = rows.first() else { return Ok(Vec::new()) };
    let there: i64 = head.try_get(0)?;
    let mut read = Vec::with_capacity(rows.len());
    for (number, row) in (first..there).zip(&rows) {
        match fact(row, number)? {
            Some(envelope) => read.push(envelope),
            None => return Err(damaged(conversation, number)),
        }
    }
    let behind = first.saturating_add(i64::try_from(read.len()).unwrap_or(i64::MAX));
    if behind < there {
        return Err(damaged(conversation, behind));
    }
    Ok(read)
}

/// The fact in a row, if it has this number.
fn fact(row: &Row, number: i64) -> Result<Option<Envelope>, Failure> {
    let is_next = row.try_get::<_, Option<i64>>(1)? == Some(number);
    if !is_next {
        return Ok(None);
    }
    let Some(life) = Life::parse(row.try_get(4)?) else { return Ok(None) };
    let format = u32::try_from(row.try_get::<_, i64>(2)?);
    let Ok(format) = format else { return Ok(None) };
    let (version, fact): (&str, &str) = (row.try_get(3)?, row.try_get(7)?);
    let (at, elapsed): (i64, i64) = (row.try_get(5)?, row.try_get(6)?);
    let (at, elapsed) = (at.cast_unsigned(), elapsed.cast_unsigned());
    Ok(Some(Envelope::stored(format, version, life, at, elapsed, fact)))
}

fn damaged(conversation: &str, number: i64) -> Failure {
    Failure::Own(Error::new(
        ErrorKind::Journal,
        format!(
            "fact {number} of the conversation `{conversation}` is missing or damaged in the \
             database: somebody has changed the tables. Restore them from a backup, or fork the \
             conversation before that fact"
        ),
    ))
}

/// The end of both statements that append. `moved` has a row if the conversation had the expected
/// number of facts and now has more.
macro_rules! append {
    ($moved:literal) => {
        concat!(
            "with moved as (",
            $moved,
            "), put as (
    insert into facts
    select $1, $3 + place - 1, format, version, life, at, elapsed, fact
    from unnest($4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::text[])
        with ordinality as it(format, version, life, at, elapsed, fact, place)
    where exists (select from moved)
)
select from moved"
        )
    };
}

/// Appends the first facts. It creates the conversation, unless that already exists with metadata
/// only. Of two appends at the same time, the second one waits for the row of the first one, and
/// then finds that there are facts.
const BEGIN: &str = append!(
    "
    insert into conversations as it (id, facts, changed, created_at, updated_at)
    select $1, $2, nextval('changes'), now, now
    from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now) clock
    on conflict (id) do update
    set facts = excluded.facts, changed = excluded.changed, updated_at = excluded.updated_at
    where it.facts = $3
    returning 1
"
);

/// Appends later facts. Of two appends at the same time, the second one waits, and then finds
/// another number of facts.
const GO_ON: &str = append!(
    "
    update conversations
    set facts = facts + $2, changed = nextval('changes'),
        updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint
    where id = $1 and facts = $3
    returning 1
"
);

pub(super) async fn append(
    connection: &Connection,
    conversation: &str,
    after: u64,
    facts: &[Envelope],
) -> Result<(), Failure> {
    for (at, fact) in facts.iter().enumerate() {
        if fact.fact.contains('\0') || fact.version.contains('\0') {
            return Err(Failure::Own(Error::new(
                ErrorKind::Journal,
                format!(
                    "fact {} of the conversation `{conversation}` holds a NUL character, which \
                     PostgreSQL cannot keep in a text. JSON has none: it writes `\\u0000`",
                    after.saturating_add(at as u64)
                ),
            )));
        }
    }
    // A conversation cannot have so many facts.
    let Ok(behind) = i64::try_from(after) else {
        let there = count(connection, conversation).await?;
        return Err(Failure::Own(conflict(conversation, after, there)));
    };
    let number = i64::try_from(facts.len()).unwrap_or(i64::MAX);
    let formats: Vec<i64> = facts.iter().map(|fact| i64::from(fact.format)).collect();
    let versions: Vec<&str> = facts.iter().map(|fact| &*fact.version).collect();
    let lives: Vec<String> = facts.iter().map(|fact| fact.life.to_string()).collect();
    let at: Vec<i64> = facts.iter().map(|fact| fact.at.cast_signed()).collect();
    let elapsed: Vec<i64> = facts.iter().map(|fact| fact.elapsed.cast_signed()).collect();
    let texts: Vec<&str> = facts.iter().map(|fact| &*fact.fact).collect();
    let statement = if after == 0 { BEGIN } else { GO_ON };
    let moved = connection
        .query(
            statement,
            &[
                (&conversation, Type::TEXT),
                (&number, Type::INT8),
                (&behind, Type::INT8),
                (&formats, Type::INT8_ARRAY),
                (&versions, Type::TEXT_ARRAY),
                (&lives, Type::TEXT_ARRAY),
                (&at, Type::INT8_ARRAY),
                (&elapsed, Type::INT8_ARRAY),
                (&texts, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    if moved.is_empty() {
        let there = count(connection, conversation).await?;
        return Err(Failure::Own(conflict(conversation, after, there)));
    }
    Ok(())
}

/// How many facts a conversation has.
pub(super) async fn count(connection: &Connection, conversation: &str) -> Result<u64, Failure> {
    let count = "select facts from conversations where id = $1";
    let rows = connection.query(count, &[(&conversation, Type::TEXT)]).await?;
    let there: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(there.unwrap_or(0).cast_unsigned())
}

/// A text of the program in a form that PostgreSQL can store: without NUL characters. Names of
/// conversations stay the same, since they have no control characters.
pub(super) fn kept(text: &str) -> String {
    text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0")
}
