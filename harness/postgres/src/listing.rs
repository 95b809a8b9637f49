//! Stores the metadata of conversations, and lists conversations.

use tokio_postgres::types::Type;

use super::{connection::PostgresConnection, facts::kept, failure::PostgresFailure};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{
        ConversationInfo, ConversationPage, ConversationQuery, Incarnation, Metadata, foreign_page,
    },
};

const DESCRIBE: &str = "
insert into conversations
    (id, metadata, owner, parent, incarnation, changed, created_at, updated_at)
select $1, $2, $3, $4, $5, nextval('changes'), now, now
from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now) clock
on conflict (id) do update
set metadata = excluded.metadata, owner = excluded.owner, parent = excluded.parent,
    changed = excluded.changed, updated_at = excluded.updated_at";

pub(super) async fn describe(
    connection: &PostgresConnection,
    conversation: &str,
    metadata: &Metadata,
) -> Result<(), PostgresFailure> {
    let text = serde_json::to_string(metadata).map_err(|err| {
        Error::new(
            ErrorKind::Journal,
            format!("the metadata of the conversation `{conversation}` cannot be written as JSON"),
        )
        .with_source(err)
    })?;
    let owner = metadata.owner.as_deref().map(kept);
    let parent = metadata.parent.as_deref().map(kept);
    let incarnation = Incarnation::random().0.cast_signed();
    let values = [
        (&conversation as _, Type::TEXT),
        (&text as _, Type::TEXT),
        (&owner as _, Type::TEXT),
        (&parent as _, Type::TEXT),
        (&incarnation as _, Type::INT8),
    ];
    connection.query(DESCRIBE, &values).await?;
    Ok(())
}

/// The server removes unused conditions before it chooses an index.
const LIST: &str = "
select id, metadata, facts, created_at, updated_at, changed
from conversations
where ($1::text is null or left(owner, 512) = left($1, 512) and owner = $1)
    and ($2::text is null or left(parent, 512) = left($2, 512) and parent = $2)
    and ($3::bigint is null or changed < $3)
order by changed desc limit $4";

pub(super) async fn list(
    connection: &PostgresConnection,
    listing: &ConversationQuery,
) -> Result<ConversationPage, PostgresFailure> {
    let before = listing.after.as_deref().map(|cursor| {
        // The sequence begins at one.
        let place = cursor.parse().ok().filter(|place: &i64| *place > 0);
        place.ok_or_else(|| foreign_page(cursor))
    });
    let before = before.transpose()?;
    let owner = listing.owner.as_deref().map(kept);
    let parent = listing.parent.as_deref().map(kept);
    let size = listing.page_size();
    // One more row shows whether there is another page.
    let limit = i64::try_from(size).unwrap_or(i64::MAX).saturating_add(1);
    let values = [
        (&owner as _, Type::TEXT),
        (&parent as _, Type::TEXT),
        (&before as _, Type::INT8),
        (&limit as _, Type::INT8),
    ];
    let rows = connection.query(LIST, &values).await?;
    let mut page = Vec::with_capacity(rows.len().min(size));
    let mut last: Option<i64> = None;
    for row in rows.iter().take(size) {
        let (id, metadata): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        let metadata = serde_json::from_str(metadata).map_err(|err| {
            Error::new(
                ErrorKind::Journal,
                format!(
                    "the metadata of the conversation `{id}` cannot be read; `describe` replaces it"
                ),
            )
            .with_source(err)
        })?;
        let [facts, created_at, updated_at] = [row.try_get(2)?, row.try_get(3)?, row.try_get(4)?]
            .map(|number: i64| number.cast_unsigned());
        page.push(ConversationInfo::new(id, metadata, facts, created_at, updated_at));
        last = Some(row.try_get(5)?);
    }
    let next = last.filter(|_| rows.len() > size).map(|changed| changed.to_string());
    Ok(ConversationPage::new(page, next))
}
