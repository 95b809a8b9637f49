//! The table of conversations: metadata, listing, forks and deletion.

use std::collections::HashMap;

use rusqlite::{Transaction, types::Value};

use super::{
    facts::{ConversationRow, ROW, base_of, by_id, by_key, row, writer_of},
    fault::{self, SqliteFault},
    spills,
    store::SqliteStore,
};
use harness_core::{
    error::Error,
    journal::{
        ConversationInfo, ConversationPage, ConversationQuery, Head, Incarnation, Metadata,
        check_base, conflict, foreign_page, now,
    },
};

/// The prefix of a page's cursor. A cursor of another kind of journal does not have this prefix and is refused.
const PLACE: &str = "sqlite-";

/// Creates the conversation if it does not exist, updates the time of its last change, and returns its key and its
/// incarnation.
pub(super) fn changed(
    transaction: &Transaction<'_>,
    id: &str,
) -> rusqlite::Result<(i64, Incarnation)> {
    let now = now().cast_signed();
    transaction
        .prepare_cached(
            "INSERT INTO conversations
                (id, metadata, created_at, updated_at, changed, facts, base_facts, incarnation)
             VALUES (?1, '{}', ?2, ?2, (SELECT coalesce(max(changed), 0) + 1 FROM conversations),
                     0, 0, ?3)
             ON CONFLICT (id) DO UPDATE SET updated_at = ?2, changed = excluded.changed
             RETURNING key, incarnation",
        )?
        .query_row((id, now, Incarnation::random().0.cast_signed()), |row| {
            Ok((row.get(0)?, Incarnation(row.get::<_, i64>(1)?.cast_unsigned())))
        })
}

impl SqliteStore {
    pub(super) fn describe(&mut self, id: &str, metadata: &Metadata) -> Result<(), Error> {
        let known = serde_json::to_string(metadata).map_err(|err| {
            fault::of(self.path(), "cannot store this metadata: it cannot be written as JSON")
                .with_source(err)
        })?;
        self.writing(|transaction, _, _| {
            let (key, _) = changed(transaction, id)?;
            transaction
                .prepare_cached(
                    "UPDATE conversations SET metadata = ?, owner = ?, parent = ? WHERE key = ?",
                )?
                .execute((known, &metadata.owner, &metadata.parent, key))?;
            Ok(())
        })
    }

    pub(super) fn list(&mut self, listing: &ConversationQuery) -> Result<ConversationPage, Error> {
        let before = match &listing.after {
            None => i64::MAX,
            Some(place) => place_of(place)?,
        };
        let (mut wanted, mut values) = (vec!["changed < ?"], vec![Value::from(before)]);
        let narrowed = [("owner = ?", &listing.owner), ("parent = ?", &listing.parent)];
        for (words, value) in narrowed {
            if let Some(value) = value {
                wanted.push(words);
                values.push(value.clone().into());
            }
        }
        let size = listing.page_size();
        // One more row shows whether there is another page.
        values.push(Value::from(i64::try_from(size).unwrap_or(i64::MAX - 1) + 1));
        let query = format!(
            "SELECT changed, id, metadata, facts, created_at, updated_at FROM conversations
             WHERE {} ORDER BY changed DESC LIMIT ?",
            wanted.join(" AND ")
        );
        self.reading(|transaction, path| {
            let mut select = transaction.prepare_cached(&query)?;
            let mut rows = select.query(rusqlite::params_from_iter(values))?;
            let (mut page, mut last, mut next) = (Vec::new(), 0_i64, None);
            while let Some(row) = rows.next()? {
                if page.len() == size {
                    next = Some(format!("{PLACE}{last}"));
                    break;
                }
                last = row.get(0)?;
                let (id, metadata): (String, String) = (row.get(1)?, row.get(2)?);
                let metadata = serde_json::from_str(&metadata)
                    .map_err(|err| fault::is_strange(path, &id, "the metadata").with_source(err))?;
                let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
                page.push(ConversationInfo::new(id, metadata, number(3)?, number(4)?, number(5)?));
            }
            Ok(ConversationPage::new(page, next))
        })
    }

    pub(super) fn fork(&mut self, from: &str, at: Head, to: &str) -> Result<Head, Error> {
        self.writing(|transaction, _, _| {
            let base = by_id(transaction, from)?;
            let there = base.map(|base| base.head()).unwrap_or_default();
            let owner = match base {
                Some(base) if at.facts > 0 => Some(owner_of(transaction, base, at.facts)?),
                _ => None,
            };
            let writer = match (owner, at.facts.checked_sub(1)) {
                (Some(owner), Some(last)) => writer_of(transaction, owner, last)?,
                _ => None,
            };
            check_base(from, at, there, Some(Head { facts: at.facts, writer, ..there }))?;
            let taken = by_id(transaction, to)?.map(|row| row.head()).unwrap_or_default();
            if taken.facts > 0 {
                return Err(conflict(to, Head::default(), taken).into());
            }
            let (key, incarnation) = changed(transaction, to)?;
            if let Some(base) = &base {
                spills::share(transaction, base.key, key)?;
            }
            transaction
                .prepare_cached(
                    "UPDATE conversations SET facts = ?1, base = ?2, base_facts = ?1, writer = ?3
                     WHERE key = ?4",
                )?
                .execute((
                    at.facts.cast_signed(),
                    owner,
                    writer.map(|writer| writer.to_string()),
                    key,
                ))?;
            Ok(Head::new(incarnation, at.facts, writer))
        })
    }

    pub(super) fn delete(&mut self, id: &str) -> Result<bool, Error> {
        let (was_there, dead) = self.writing(|transaction, _, holds| {
            holds.settle(transaction)?;
            let mut dead = Vec::new();
            let family = family(transaction, id)?;
            for id in &family {
                dead.extend(holds.check_free(transaction, id)?);
            }
            let mut rows: HashMap<i64, ConversationRow> = HashMap::new();
            for id in &family {
                rows.extend(by_id(transaction, id)?.map(|row| (row.key, row)));
            }
            let was_there = by_id(transaction, id)?.is_some();
            // A fork is deleted before its base. Otherwise facts of the base would be copied to a fork that is deleted
            // next.
            while let Some(key) = without_fork(&rows) {
                rows.remove(&key);
                remove(transaction, key)?;
            }
            Ok((was_there, dead))
        })?;
        self.settled(dead);
        Ok(was_there)
    }
}

fn place_of(place: &str) -> Result<i64, Error> {
    let number = place.strip_prefix(PLACE).and_then(|number| number.parse().ok());
    number.ok_or_else(|| foreign_page(place))
}

/// The base for a fork with this number of facts: the conversation that stores the last of these facts itself. A fork
/// of a fork gets this base directly, so that reads visit fewer conversations.
fn owner_of(
    transaction: &Transaction<'_>,
    mut row: ConversationRow,
    facts: u64,
) -> rusqlite::Result<i64> {
    while facts <= row.base_facts
        && let Some(base) = base_of(transaction, &row)?
        && base.base_facts < row.base_facts
    {
        row = base;
    }
    Ok(row.key)
}

/// The ids of the conversation and of all its direct and indirect children.
fn family(transaction: &Transaction<'_>, id: &str) -> rusqlite::Result<Vec<String>> {
    transaction
        .prepare_cached(
            "WITH RECURSIVE family (id) AS (
                 VALUES (?)
                 UNION
                 SELECT c.id FROM conversations c JOIN family ON c.parent = family.id
             ) SELECT id FROM family",
        )?
        .query_map([id], |row| row.get(0))?
        .collect()
}

/// A conversation in `rows` that is not the base of another conversation in `rows`.
fn without_fork(rows: &HashMap<i64, ConversationRow>) -> Option<i64> {
    let is_base = |key| rows.values().any(|row| row.base == Some(key));
    // This library never writes rows that are bases of each other. Such rows are deleted in any order.
    rows.keys().copied().find(|key| !is_base(*key)).or_else(|| rows.keys().next().copied())
}

/// Deletes one conversation. Each of its forks gets copies of the facts that it shares with the conversation, and gets
/// the conversation's base as its new base.
fn remove(transaction: &Transaction<'_>, key: i64) -> Result<(), SqliteFault> {
    let Some(gone) = by_key(transaction, key)? else { return Ok(()) };
    let forks: Vec<ConversationRow> = transaction
        .prepare_cached(&format!("{ROW} WHERE base = ?"))?
        .query_map([key], row)?
        .collect::<rusqlite::Result<_>>()?;
    for fork in forks {
        transaction
            .prepare_cached(
                "INSERT INTO facts (conversation, number, format, version, life, at, elapsed, fact)
                 SELECT ?, number, format, version, life, at, elapsed, fact FROM facts
                 WHERE conversation = ? AND number < ?",
            )?
            .execute((fork.key, key, fork.base_facts.cast_signed()))?;
        let base_facts = fork.base_facts.min(gone.base_facts);
        transaction
            .prepare_cached("UPDATE conversations SET base = ?, base_facts = ? WHERE key = ?")?
            .execute((gone.base, base_facts.cast_signed(), fork.key))?;
    }
    spills::remove(transaction, key, None)?;
    for table in
        ["DELETE FROM facts WHERE conversation = ?", "DELETE FROM conversations WHERE key = ?"]
    {
        transaction.prepare_cached(table)?.execute([key])?;
    }
    Ok(())
}
