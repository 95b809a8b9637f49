//! One session of the server: connected, configured, and with the tables created.

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
    failure::PostgresFailure,
    schema,
    target::{DatabaseAddress, KEEPALIVE},
};
use harness_core::error::{Error, ErrorKind};

/// A parameter of a statement, with its type.
pub(super) type SqlValue<'a> = (&'a (dyn ToSql + Sync), Type);

/// One session, and the task that communicates with the server. The session and the task end together.
pub(super) struct PostgresConnection {
    client: Client,
    task: JoinHandle<()>,
    /// The statements that were prepared in this session. Parsing and planning a statement takes as long as running it.
    learnt: Mutex<HashMap<&'static str, Statement>>,
    /// When the session was last known to work.
    pub(super) used: Instant,
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PostgresConnection {
    /// Connects, and creates the tables if they do not exist.
    pub(super) async fn open(target: &DatabaseAddress) -> Result<Self, PostgresFailure> {
        let (client, task) = match target.connector.clone() {
            None => {
                let (client, connection) = target.config.connect(NoTls).await?;
                (client, tokio::spawn(async { drop(connection.await) }))
            }
            Some(connector) => {
                let (client, connection) = target.config.connect(connector).await?;
                (client, tokio::spawn(async { drop(connection.await) }))
            }
        };
        let connection = Self { client, task, learnt: Mutex::default(), used: Instant::now() };
        connection.set_up(target).await?;
        schema::make(&connection, target).await?;
        Ok(connection)
    }

    /// Configures this session. These settings override the settings of the server, the database and the role.
    async fn set_up(&self, target: &DatabaseAddress) -> Result<(), PostgresFailure> {
        // The server also ends a statement that exceeds the time limit, because the caller no longer waits for it.
        let time_out = target.time_out.as_millis().clamp(1, 2_147_483_647).to_string();
        let keepalive = KEEPALIVE.as_secs().to_string();
        let schema = format!("\"{}\"", target.schema.replace('"', "\"\""));
        let settings = [
            // Appended facts must not be lost if the server stops.
            ("synchronous_commit", "if off"),
            // Concurrent appends to one conversation rely on this level: the second append waits for the first append,
            // and then sees its result.
            ("default_transaction_isolation", "read committed"),
            ("search_path", &schema),
            ("statement_timeout", &time_out),
            ("idle_in_transaction_session_timeout", &time_out),
            // An idle session may hold leases, and must not be ended.
            ("idle_session_timeout", "0"),
            // A statement may wait for a lock as long as `statement_timeout` allows.
            ("lock_timeout", "0"),
            ("transaction_timeout", "0"),
            // Keepalives let the server release the locks of a machine that disappears.
            ("tcp_keepalives_idle", &keepalive),
            ("tcp_keepalives_interval", &keepalive),
            ("tcp_keepalives_count", "3"),
            // The statements are short. Without statistics about new tables, the server would estimate high costs and
            // compile the statements.
            ("jit", "off"),
        ];
        // Older servers do not know all of these settings.
        let (names, values): (Vec<&str>, Vec<&str>) = settings.into_iter().unzip();
        let set = "select set_config(name, case \
                       when value <> 'if off' then value \
                       when current_setting(name) = 'off' then 'on' \
                       else current_setting(name) end, false), \
                   current_setting('server_encoding') \
                   from unnest($1::text[], $2::text[]) as it(name, value) \
                   where current_setting(name, true) is not null";
        let values: [SqlValue<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&values, Type::TEXT_ARRAY)];
        let rows = self.query(set, &values).await?;
        let encoding: String =
            rows.first().map(|row| row.try_get(1)).transpose()?.unwrap_or_default();
        if !["UTF8", "SQL_ASCII"].contains(&encoding.as_str()) {
            return Err(PostgresFailure::Own(Error::new(
                ErrorKind::Configuration,
                format!(
                    "PostgreSQL at {} stores text as {encoding}, which does not have all characters; \
                     create the database with `createdb --encoding=UTF8 --template=template0`",
                    target.place
                ),
            )));
        }
        Ok(())
    }

    /// Runs a statement and returns its rows, in one round trip. The first use of a statement prepares it, which takes
    /// another round trip.
    pub(super) async fn query(
        &self,
        statement: &'static str,
        values: &[SqlValue<'_>],
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

    /// Runs statements without parameters and without result rows.
    pub(super) async fn run(&self, statements: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(statements).await
    }

    /// Checks that the server answers.
    pub(super) async fn check(&self) -> Result<(), tokio_postgres::Error> {
        self.client.check_connection().await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.task.is_finished()
    }
}
