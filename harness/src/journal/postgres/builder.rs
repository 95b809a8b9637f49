//! How a program opens a journal in PostgreSQL.

use std::{fmt, sync::Arc, time::Duration};

use secrecy::{ExposeSecret as _, SecretString};

use super::{PostgresJournal, target::Target};
use crate::error::{Error, ErrorKind};

/// How a [`PostgresJournal`] is opened: see [`PostgresJournal::builder`].
pub struct PostgresBuilder {
    url: SecretString,
    schema: String,
    max_connections: usize,
    time_out: Duration,
    root_certificates: Option<Vec<u8>>,
}

impl PostgresBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url: url.into(),
            schema: "harness".to_owned(),
            max_connections: 8,
            time_out: Duration::from_secs(30),
            root_certificates: None,
        }
    }

    /// Sets the schema of the tables, `harness` unless set. It is made if it does not exist. A
    /// conversation in one schema is another one than that of the same name in another schema.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets how many calls may use the database at the same time, 8 unless set; others wait. One
    /// connection more holds conversations. All processes together must stay below the server's
    /// `max_connections`, which is 100 unless it was changed.
    #[must_use]
    pub fn max_connections(mut self, number: usize) -> Self {
        self.max_connections = number;
        self
    }

    /// Sets the longest that a call may take, with all waiting and connecting, 30 seconds unless
    /// set. The server ends a statement that takes longer, too.
    #[must_use]
    pub fn time_out(mut self, longest: Duration) -> Self {
        self.time_out = longest;
        self
    }

    /// Trusts a server whose certificate is signed by one of these, beside those that the system
    /// trusts: the text of a PEM file, such as the one that a cloud offers for its databases.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates = Some(pem.into());
        self
    }

    /// Connects, and makes the tables if they are not there.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if the address, a certificate or an option cannot be
    /// used, or the server refuses user, password or database, and with [`ErrorKind::Journal`] if it
    /// cannot be reached, or its tables are those of a later version. No error holds the password.
    pub async fn connect(self) -> Result<PostgresJournal, Error> {
        let Self { url, schema, max_connections, time_out, root_certificates } = self;
        if max_connections == 0 || time_out.is_zero() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "a journal in PostgreSQL needs at least one connection, and a time-out above zero",
            ));
        }
        let roots = root_certificates.as_deref();
        let target = Target::new(url.expose_secret(), schema, time_out, roots)?;
        let journal = PostgresJournal::new(Arc::new(target), max_connections);
        journal.check().await?;
        Ok(journal)
    }
}

impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBuilder")
            .field("schema", &self.schema)
            .field("max_connections", &self.max_connections)
            .field("time_out", &self.time_out)
            .finish_non_exhaustive()
    }
}
