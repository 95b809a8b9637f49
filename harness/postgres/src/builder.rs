//! The builder of a journal in PostgreSQL.

use std::{fmt, sync::Arc, time::Duration};

use secrecy::{ExposeSecret as _, SecretString};

use super::{PostgresJournal, auth_guard::PlainPassword, target::DatabaseAddress};
use harness_core::error::{Error, ErrorKind};

/// The options of a [`PostgresJournal`]: see [`PostgresJournal::builder`].
pub struct PostgresBuilder {
    url: SecretString,
    schema: String,
    max_connections: usize,
    time_out: Duration,
    root_certificates: Option<Vec<u8>>,
    plain_password: PlainPassword,
}

impl PostgresBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url: url.into(),
            schema: "harness".to_owned(),
            max_connections: 8,
            time_out: Duration::from_secs(30),
            root_certificates: None,
            plain_password: PlainPassword::Never,
        }
    }

    /// Sets the schema of the tables. Default: `harness`. The schema is created if it does not exist. Two conversations
    /// with the same id in different schemas are different conversations.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets how many calls may use the database at the same time. Further calls wait. Default: 8. One more connection
    /// holds the leases of conversations. All processes together must stay below the server's `max_connections`, whose
    /// default is 100.
    #[must_use]
    pub fn max_connections(mut self, number: usize) -> Self {
        self.max_connections = number;
        self
    }

    /// Sets how long a call may take, including waiting and connecting. Default: 30 seconds. The server also ends a
    /// statement that takes longer.
    #[must_use]
    pub fn time_out(mut self, longest: Duration) -> Self {
        self.time_out = longest;
        self
    }

    /// Trusts these certificate authorities in addition to the authorities of the system. The argument is the text of a
    /// PEM file, such as the file that a cloud provider offers for its databases.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates = Some(pem.into());
        self
    }

    /// Allows the password to be sent in cleartext or as MD5 over TLS, if the server requests that. Use this for a
    /// server that does not check the password itself (LDAP, PAM, RADIUS), for tokens of a cloud provider in place of a
    /// password, and for a role whose password is stored as MD5. The server's certificate is checked. But the server
    /// learns enough to log in elsewhere as the role of the journal. Default: [`connect`](Self::connect) fails if the
    /// server requests the password in cleartext or as MD5.
    #[must_use]
    pub fn allow_plain_password_over_tls(mut self) -> Self {
        self.plain_password = self.plain_password.max(PlainPassword::OverTls);
        self
    }

    /// Allows the password to be sent in cleartext or as MD5 with and without TLS, if the server requests that. Anyone
    /// who can read or change the traffic then learns the password. Use this only on a connection that nobody else can
    /// read or change, such as a network of containers on one machine. Default: [`connect`](Self::connect) fails if the
    /// server requests the password in cleartext or as MD5.
    #[must_use]
    pub fn allow_plain_password_without_tls(mut self) -> Self {
        self.plain_password = PlainPassword::Anywhere;
        self
    }

    /// Connects, and creates the tables if they do not exist.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if the address, a certificate or an option is not valid, if there is no
    /// tokio runtime with sockets and a timer, if the server refuses the user, the password or the database, or if the
    /// server requests the password in a form that [is not allowed](PostgresJournal#how-the-password-is-proved). Fails
    /// with [`ErrorKind::Journal`] if the server cannot be reached, or if its tables were made by a later version. No
    /// error contains the password.
    pub async fn connect(self) -> Result<PostgresJournal, Error> {
        let Self { url, schema, max_connections, time_out, root_certificates, plain_password } =
            self;
        if max_connections == 0 || time_out.is_zero() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "a journal in PostgreSQL needs at least one connection, and a time-out above zero",
            ));
        }
        let roots = root_certificates.as_deref();
        let target =
            DatabaseAddress::new(url.expose_secret(), schema, time_out, roots, plain_password)?;
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
