//! Reads and appends facts.

use tokio_postgres::{Row, types::Type};

use super::{connection::PostgresConnection, failure::PostgresFailure};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Envelope, Head, Incarnation, StoredFacts, WriterId, conflict},
};

/// Reads the facts of a conversation, starting at a number. The facts that a fork shares with its base are included.
/// Each row also contains the head of the conversation.
const READ: &str = "
with recursive chain(id, base, first, behind) as (
    select id, base, shared, facts from conversations where id = $1
  union all
    select base.id, base.base, base.shared, chain.first
    from chain join conversations base on base.id = chain.base
    where chain.first > $2
)
select it.facts, fact.number, fact.format, fact.version, fact.life, fact.at, fact.elapsed, fact.fact,
    it.incarnation, it.writer
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
    connection: &PostgresConnection,
    conversation: &str,
    from: u64,
) -> Result<StoredFacts, PostgresFailure> {
    // No conversation has more than `i64::MAX` facts.
    let first = i64::try_from(from).unwrap_or(i64::MAX);
    let values = [(&conversation as _, Type::TEXT), (&first as _, Type::INT8)];
    let rows = connection.query(READ, &values).await?;
    let Some(head) = rows.first() else { return Ok(StoredFacts::default()) };
    let there: i64 = head.try_get(0)?;
    let head = head_in(head, [8, 0, 9])?;
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
    Ok(StoredFacts::new(head, read))
}

/// Reads the head from these columns of a row.
pub(super) fn head_in(
    row: &Row,
    [incarnation, facts, writer]: [usize; 3],
) -> Result<Head, PostgresFailure> {
    let incarnation: i64 = row.try_get(incarnation)?;
    let facts: i64 = row.try_get(facts)?;
    let writer: Option<&str> = row.try_get(writer)?;
    let incarnation = Incarnation(incarnation.cast_unsigned());
    Ok(Head::new(incarnation, facts.cast_unsigned(), writer.and_then(WriterId::parse)))
}

/// The fact in a row; `None` if the row has no fact with this number.
fn fact(row: &Row, number: i64) -> Result<Option<Envelope>, PostgresFailure> {
    let is_next = row.try_get::<_, Option<i64>>(1)? == Some(number);
    if !is_next {
        return Ok(None);
    }
    let Some(life) = WriterId::parse(row.try_get(4)?) else { return Ok(None) };
    let format = u32::try_from(row.try_get::<_, i64>(2)?);
    let Ok(format) = format else { return Ok(None) };
    let (version, fact): (&str, &str) = (row.try_get(3)?, row.try_get(7)?);
    let (at, elapsed): (i64, i64) = (row.try_get(5)?, row.try_get(6)?);
    let (at, elapsed) = (at.cast_unsigned(), elapsed.cast_unsigned());
    Ok(Some(Envelope::stored(format, version, life, at, elapsed, fact)))
}

fn damaged(conversation: &str, number: i64) -> PostgresFailure {
    PostgresFailure::Own(Error::new(
        ErrorKind::Journal,
        format!(
            "fact {number} of the conversation `{conversation}` is missing or damaged in the \
             database: somebody has changed the tables. Restore them from a backup, or fork the \
             conversation before that fact"
        ),
    ))
}

/// The common end of `BEGIN` and `GO_ON`. `moved` must return a row if the conversation had the expected head and now
/// has more facts.
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
select incarnation, facts, writer from moved"
        )
    };
}

/// Creates a conversation with its first facts. If two appends run at the same time, the second append waits until the
/// first append has written the row, and then does nothing.
const BEGIN: &str = append!(
    "
    insert into conversations
        (id, incarnation, facts, writer, changed, created_at, updated_at)
    select $1, $10, $2, $11, nextval('changes'), now, now
    from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now) clock
    on conflict (id) do nothing
    returning incarnation, facts, writer
"
);

/// Appends to an existing conversation. If two appends run at the same time, the second append waits for the first
/// append, and then finds another head.
const GO_ON: &str = append!(
    "
    update conversations
    set facts = facts + $2, writer = $11, changed = nextval('changes'),
        updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint
    where id = $1 and incarnation = $10 and facts = $3 and writer is not distinct from $12
    returning incarnation, facts, writer
"
);

pub(super) async fn append(
    connection: &PostgresConnection,
    conversation: &str,
    after: Head,
    facts: &[Envelope],
) -> Result<Head, PostgresFailure> {
    for (at, fact) in facts.iter().enumerate() {
        if fact.fact.contains('\0') || fact.version.contains('\0') {
            return Err(PostgresFailure::Own(Error::new(
                ErrorKind::Journal,
                format!(
                    "fact {} of the conversation `{conversation}` holds a NUL character, which \
                     PostgreSQL cannot keep in a text. JSON has none: it writes `\\u0000`",
                    after.facts.saturating_add(at as u64)
                ),
            )));
        }
    }
    // No conversation has more than `i64::MAX` facts.
    let Ok(behind) = i64::try_from(after.facts) else {
        return Err(refused(connection, conversation, after).await);
    };
    let number = i64::try_from(facts.len()).unwrap_or(i64::MAX);
    let formats: Vec<i64> = facts.iter().map(|fact| i64::from(fact.format)).collect();
    let versions: Vec<&str> = facts.iter().map(|fact| &*fact.version).collect();
    let lives: Vec<String> = facts.iter().map(|fact| fact.life.to_string()).collect();
    let at: Vec<i64> = facts.iter().map(|fact| fact.at.cast_signed()).collect();
    let elapsed: Vec<i64> = facts.iter().map(|fact| fact.elapsed.cast_signed()).collect();
    let texts: Vec<&str> = facts.iter().map(|fact| &*fact.fact).collect();
    let incarnation = after.incarnation.unwrap_or_else(Incarnation::random).0.cast_signed();
    let [before, writer] = [after, after.after(facts)].map(|it| it.writer.map(|it| it.to_string()));
    let mut values = vec![
        (&conversation as _, Type::TEXT),
        (&number as _, Type::INT8),
        (&behind as _, Type::INT8),
        (&formats as _, Type::INT8_ARRAY),
        (&versions as _, Type::TEXT_ARRAY),
        (&lives as _, Type::TEXT_ARRAY),
        (&at as _, Type::INT8_ARRAY),
        (&elapsed as _, Type::INT8_ARRAY),
        (&texts as _, Type::TEXT_ARRAY),
        (&incarnation as _, Type::INT8),
        (&writer as _, Type::TEXT),
    ];
    let moved = match (after.incarnation, after.facts) {
        (None, 0) => connection.query(BEGIN, &values).await?,
        (None, _) => Vec::new(),
        (Some(_), _) => {
            values.push((&before as _, Type::TEXT));
            connection.query(GO_ON, &values).await?
        }
    };
    match moved.first() {
        Some(row) => head_in(row, [0, 1, 2]),
        None => Err(refused(connection, conversation, after).await),
    }
}

/// The error of an append that found another head than expected.
async fn refused(
    connection: &PostgresConnection,
    conversation: &str,
    after: Head,
) -> PostgresFailure {
    match head(connection, conversation).await {
        Ok(there) => PostgresFailure::Own(conflict(conversation, after, there)),
        Err(failure) => failure,
    }
}

/// The head of a conversation, or the default head if the conversation does not exist.
pub(super) async fn head(
    connection: &PostgresConnection,
    conversation: &str,
) -> Result<Head, PostgresFailure> {
    let head = "select incarnation, facts, writer from conversations where id = $1";
    let rows = connection.query(head, &[(&conversation, Type::TEXT)]).await?;
    rows.first().map_or(Ok(Head::default()), |row| head_in(row, [0, 1, 2]))
}

/// Replaces NUL characters, which PostgreSQL cannot store. Ids of conversations do not change, because they contain no
/// control characters.
pub(super) fn kept(text: &str) -> String {
    text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0")
}
