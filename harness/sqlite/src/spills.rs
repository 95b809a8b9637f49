//! Large results. The body of a result is stored in chunks. A conversation and its forks find the body by its name.

use rusqlite::{OptionalExtension as _, Transaction};

use super::{facts::by_id, store::SqliteStore};
use harness_core::{
    error::Error,
    journal::{Incarnation, unknown},
};

/// The tables of large results. A body is deleted with the last conversation that refers to it.
pub(super) const TABLES: &str = "
    CREATE TABLE spills (
        conversation INTEGER NOT NULL,
        name TEXT NOT NULL,
        body INTEGER NOT NULL,
        PRIMARY KEY (conversation, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX spills_body ON spills (body);
    CREATE TABLE chunks (
        body INTEGER NOT NULL,
        number INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (body, number)
    ) STRICT, WITHOUT ROWID;
";

impl SqliteStore {
    pub(super) fn write_spill(
        &mut self,
        id: &str,
        incarnation: Incarnation,
        name: &str,
        chunk: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        // Chunk and fact are in the same log, so the commit of the fact that names the chunk also makes the chunk
        // durable.
        self.noting(|transaction, _, _| {
            let row = by_id(transaction, id)?.filter(|row| row.incarnation == incarnation);
            let Some(row) = row else { return Err(unknown(id).into()) };
            let body: i64 = transaction
                .prepare_cached(
                    "INSERT INTO spills (conversation, name, body)
                     VALUES (?, ?, (SELECT coalesce(max(body), 0) + 1 FROM spills))
                     ON CONFLICT (conversation, name) DO UPDATE SET body = body RETURNING body",
                )?
                .query_row((row.key, name), |row| row.get(0))?;
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO chunks (body, number, bytes) VALUES (?, ?, ?)",
                )?
                .execute((body, chunk.cast_signed(), bytes))?;
            Ok(())
        })
    }

    pub(super) fn read_spill(
        &mut self,
        id: &str,
        name: &str,
        chunk: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.reading(|transaction, _| {
            let chunk = transaction
                .prepare_cached(
                    "SELECT bytes FROM conversations
                     JOIN spills ON spills.conversation = conversations.key AND name = ?
                     JOIN chunks ON chunks.body = spills.body AND number = ?
                     WHERE id = ?",
                )?
                .query_row((name, chunk.cast_signed(), id), |row| row.get(0))
                .optional()?;
            Ok(chunk)
        })
    }

    pub(super) fn delete_spill(
        &mut self,
        id: &str,
        incarnation: Incarnation,
        name: &str,
    ) -> Result<(), Error> {
        self.noting(|transaction, _, _| {
            let row = by_id(transaction, id)?.filter(|row| row.incarnation == incarnation);
            if let Some(row) = row {
                remove(transaction, row.key, Some(name))?;
            }
            Ok(())
        })
    }
}

/// Lets a fork refer to all large results of its base.
pub(super) fn share(transaction: &Transaction<'_>, from: i64, to: i64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO spills (conversation, name, body)
             SELECT ?, name, body FROM spills WHERE conversation = ?",
        )?
        .execute((to, from))?;
    Ok(())
}

/// Deletes the large results of a conversation, or only the result with this name. Bodies to which a fork also refers
/// are kept.
pub(super) fn remove(
    transaction: &Transaction<'_>,
    conversation: i64,
    name: Option<&str>,
) -> rusqlite::Result<()> {
    let bodies: Vec<i64> = transaction
        .prepare_cached(
            "SELECT body FROM spills WHERE conversation = ?1 AND name = coalesce(?2, name)",
        )?
        .query_map((conversation, name), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    transaction
        .prepare_cached("DELETE FROM spills WHERE conversation = ?1 AND name = coalesce(?2, name)")?
        .execute((conversation, name))?;
    let mut delete = transaction.prepare_cached(
        "DELETE FROM chunks WHERE body = ?1 AND NOT EXISTS (SELECT 1 FROM spills WHERE body = ?1)",
    )?;
    for body in bodies {
        delete.execute([body])?;
    }
    Ok(())
}
