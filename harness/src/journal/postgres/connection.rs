//! One session of the server, ready to use: connected, set up, with the tables there.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{task::JoinHandle, time::Instant};
use tokio_postgres::{
    Client, NoTls, Row, Statement,
    types::{ToSql, Type},
};

use super::{
    failure::Failure,
    schema,
    target::{KEEPALIVE, Target},
};
use crate::error::{Error, ErrorKind};

/// A value of a statement, with its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// One session, and the task that speaks with the server for it. Both end together.
pub(super) struct Connection {
    client: Client,
    task: JoinHandle<()>,
    /// The statements that the server knows in this session: to read and plan one takes it as long as
    /// to run it.
    learnt: Mutex<HashMap<&'static str, Statement>>,
    /// When it was last known to work.
    pub(super) used: Instant,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects, and makes the tables if they are not there.
    pub(super) async fn open(target: &Target) -> Result<Self, Failure> {
        let (client, task) = match target.tls.clone() {
            None => {
                let (client, connection) = target.config.connect(NoTls).await?;
                (client, tokio::spawn(async { drop(connection.await) }))
            }
            Some(tls) => {
                let (client, connection) = target.config.connect(tls).await?;
                (client, tokio::spawn(async { drop(connection.await) }))
            }
        };
        let connection = Self { client, task, learnt: Mutex::default(), used: Instant::now() };
        connection.set_up(target).await?;
        schema::make(&connection, target).await?;
        Ok(connection)
    }

    /// Sets what this session must have whatever the server, the database or the role says.
    async fn set_up(&self, target: &Target) -> Result<(), Failure> {
        // The server ends what takes too long by itself, too: nobody waits for it any more.
        let time_out = target.time_out.as_millis().clamp(1, 2_147_483_647).to_string();
        let keepalive = KEEPALIVE.as_secs().to_string();
        let schema = format!("\"{}\"", target.schema.replace('"', "\"\""));
        let settings = [
            // What is appended must not be lost if the server stops.
            ("synchronous_commit", "if off"),
            // Two appends to one conversation are told apart by waiting for each other.
            ("default_transaction_isolation", "read committed"),
            ("search_path", &schema),
            ("statement_timeout", &time_out),
            ("idle_in_transaction_session_timeout", &time_out),
            // A session that waits holds conversations, and is not to be ended for it.
            ("idle_session_timeout", "0"),
            // Who waits for another one does so until the end of the statement's time.
            ("lock_timeout", "0"),
            ("transaction_timeout", "0"),
            // If this machine is gone without a word, its locks are soon free.
            ("tcp_keepalives_idle", &keepalive),
            ("tcp_keepalives_interval", &keepalive),
            ("tcp_keepalives_count", "3"),
            // The statements are short. What is not known of fresh tables makes them look long.
            ("jit", "off"),
        ];
        // Some of them are unknown to older servers.
        let (names, values): (Vec<&str>, Vec<&str>) = settings.into_iter().unzip();
        let set = "select set_config(name, case \
                       when value <> 'if off' then value \
                       when current_setting(name) = 'off' then 'on' \
                       else current_setting(name) end, false), \
                   current_setting('server_encoding') \
                   from unnest($1::text[], $2::text[]) as it(name, value) \
                   where current_setting(name, true) is not null";
        let values: [Value<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&values, Type::TEXT_ARRAY)];
        let rows = self.query(set, &values).await?;
        let encoding: String =
            rows.first().map(|row| row.try_get(1)).transpose()?.unwrap_or_default();
        if !["UTF8", "SQL_ASCII"].contains(&encoding.as_str()) {
            return Err(Failure::Own(Error::new(
                ErrorKind::Configuration,
                format!(
                    "PostgreSQL at {} keeps text as {encoding}, which does not have all characters; \
                     make the database with `createdb --encoding=UTF8 --template=template0`",
                    target.place
                ),
            )));
        }
        Ok(())
    }

    /// Runs a statement and returns its rows: in one round trip, but for the first time, when the server
    /// learns it.
    pub(super) async fn query(
        &self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let learnt = self.learnt().get(statement).cloned();
        let learnt = match learnt {
            Some(learnt) => learnt,
            None => {
                let types: Vec<Type> = values.iter().map(|(_, kind)| kind.clone()).collect();
                let learnt = self.client.prepare_typed(statement, &types).await?;
                self.learnt().insert(statement, learnt.clone());
                learnt
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
        self.client.query(&learnt, &values).await
    }

    fn learnt(&self) -> MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs statements that take no values and give no rows.
    pub(super) async fn run(&self, statements: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(statements).await
    }

    /// Asks the server for a sign of life.
    pub(super) async fn check(&self) -> Result<(), tokio_postgres::Error> {
        self.client.check_connection().await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.task.is_finished()
    }
}
