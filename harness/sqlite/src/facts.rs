//! The table of facts: appends after an expected head, and reads that include the bases of a fork.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction};

use super::{
    fault::{self, SqliteFault},
    store::SqliteStore,
};
use harness_core::{
    error::Error,
    journal::{Envelope, Head, Incarnation, StoredFacts, WriterId, conflict},
};

/// The columns of a conversation that describe its facts.
#[derive(Clone, Copy)]
pub(super) struct ConversationRow {
    pub(super) key: i64,
    pub(super) facts: u64,
    pub(super) incarnation: Incarnation,
    writer: Option<WriterId>,
    /// The conversation that stores the first `base_facts` facts.
    pub(super) base: Option<i64>,
    pub(super) base_facts: u64,
}

pub(super) const ROW: &str =
    "SELECT key, facts, base, base_facts, incarnation, writer FROM conversations";

impl ConversationRow {
    pub(super) fn head(&self) -> Head {
        Head::new(self.incarnation, self.facts, self.writer)
    }
}

pub(super) fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<ConversationRow> {
    let count = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
    let writer: Option<String> = row.get(5)?;
    Ok(ConversationRow {
        key: row.get(0)?,
        facts: count(1)?,
        base: row.get(2)?,
        base_facts: count(3)?,
        incarnation: Incarnation(count(4)?),
        writer: writer.as_deref().and_then(WriterId::parse),
    })
}

pub(super) fn by_id(db: &Connection, id: &str) -> rusqlite::Result<Option<ConversationRow>> {
    db.prepare_cached(&format!("{ROW} WHERE id = ?"))?.query_row([id], row).optional()
}

pub(super) fn by_key(db: &Connection, key: i64) -> rusqlite::Result<Option<ConversationRow>> {
    db.prepare_cached(&format!("{ROW} WHERE key = ?"))?.query_row([key], row).optional()
}

/// The base of a fork: the conversation that stores the fork's first facts.
pub(super) fn base_of(
    db: &Connection,
    row: &ConversationRow,
) -> rusqlite::Result<Option<ConversationRow>> {
    row.base.map_or(Ok(None), |base| by_key(db, base))
}

impl SqliteStore {
    pub(super) fn read(&mut self, id: &str, from: u64) -> Result<StoredFacts, Error> {
        self.reading(|transaction, path| {
            // A fork is read from its end to its beginning, to find out which conversation stores which part.
            let mut parts = Vec::new();
            let mut next = by_id(transaction, id)?;
            let head = next.map(|row| row.head()).unwrap_or_default();
            let mut end = next.map_or(0, |row| row.facts);
            while from < end {
                let row = next.filter(|row| parts.is_empty() || row.base_facts < end);
                let row = row.ok_or_else(|| {
                    fault::is_strange(path, id, &format!("where the facts before {end} are"))
                })?;
                parts.push((row.key, from.max(row.base_facts), end));
                end = row.base_facts;
                next = base_of(transaction, &row)?;
            }
            let mut facts = Vec::new();
            for (key, from, end) in parts.into_iter().rev() {
                read_part(transaction, path, id, key, from..end, &mut facts)?;
            }
            Ok(StoredFacts::new(head, facts))
        })
    }

    pub(super) fn append(
        &mut self,
        id: &str,
        after: Head,
        facts: &[Envelope],
    ) -> Result<Head, Error> {
        self.writing(|transaction, _, _| {
            let there = by_id(transaction, id)?.map(|row| row.head()).unwrap_or_default();
            if !after.is_end_of(&there) {
                return Err(conflict(id, after, there).into());
            }
            let (key, incarnation) = super::conversations::changed(transaction, id)?;
            let head = Head { incarnation: Some(incarnation), ..after }.after(facts);
            transaction
                .prepare_cached("UPDATE conversations SET facts = ?, writer = ? WHERE key = ?")?
                .execute((head.facts.cast_signed(), head.writer.map(|it| it.to_string()), key))?;
            let mut insert = transaction.prepare_cached(
                "INSERT INTO facts (conversation, number, format, version, life, at, elapsed, fact)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            for (number, fact) in (after.facts..).zip(facts) {
                insert.execute((
                    key,
                    number.cast_signed(),
                    fact.format,
                    &*fact.version,
                    fact.life.to_string(),
                    fact.at.cast_signed(),
                    fact.elapsed.cast_signed(),
                    &*fact.fact,
                ))?;
            }
            Ok(head)
        })
    }
}

/// The writer of a fact that this conversation stores itself.
pub(super) fn writer_of(
    db: &Connection,
    key: i64,
    number: u64,
) -> rusqlite::Result<Option<WriterId>> {
    let writer: Option<String> = db
        .prepare_cached("SELECT life FROM facts WHERE conversation = ? AND number = ?")?
        .query_row((key, number.cast_signed()), |row| row.get(0))
        .optional()?;
    Ok(writer.as_deref().and_then(WriterId::parse))
}

/// Appends the facts with these numbers to `facts`.
fn read_part(
    transaction: &Transaction<'_>,
    path: &Path,
    id: &str,
    key: i64,
    numbers: std::ops::Range<u64>,
    facts: &mut Vec<Envelope>,
) -> Result<(), SqliteFault> {
    let strange = |what: &str| SqliteFault::from(fault::is_strange(path, id, what));
    let mut select = transaction.prepare_cached(
        "SELECT number, format, version, life, at, elapsed, fact FROM facts
         WHERE conversation = ? AND number >= ? AND number < ? ORDER BY number",
    )?;
    let mut rows = select.query((key, numbers.start.cast_signed(), numbers.end.cast_signed()))?;
    for number in numbers {
        let row = rows.next()?.filter(|row| row.get(0) == Ok(number.cast_signed()));
        let row = row.ok_or_else(|| strange(&format!("no fact has the number {number}")))?;
        let life = WriterId::parse(row.get_ref(3)?.as_str().unwrap_or_default());
        facts.push(Envelope::stored(
            row.get::<_, u32>(1)?,
            row.get::<_, std::sync::Arc<str>>(2)?,
            life.ok_or_else(|| strange(&format!("the life of fact {number}")))?,
            row.get::<_, i64>(4)?.cast_unsigned(),
            row.get::<_, i64>(5)?.cast_unsigned(),
            row.get::<_, std::sync::Arc<str>>(6)?,
        ));
    }
    Ok(())
}
