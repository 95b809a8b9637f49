//! The errors of the database. Each error names the place, the fault and the remedy.

use std::error::Error as _;

use tokio_postgres::error::{DbError, SqlState};

use super::{auth_guard::AuthRefusal, target::DatabaseAddress};
use harness_core::error::{Error, ErrorKind};

/// Why a call failed.
pub(super) enum PostgresFailure {
    /// The database, or the connection to it, failed.
    Database(tokio_postgres::Error),
    /// Any other error, which is returned unchanged.
    Own(Error),
}

impl From<tokio_postgres::Error> for PostgresFailure {
    fn from(err: tokio_postgres::Error) -> Self {
        Self::Database(err)
    }
}

impl From<Error> for PostgresFailure {
    fn from(err: Error) -> Self {
        Self::Own(err)
    }
}

impl PostgresFailure {
    /// Whether the server reports that it lacks memory, disk space or connections.
    pub(super) fn is_lack_of_room(&self) -> bool {
        match self {
            Self::Database(err) => err.code().is_some_and(|code| code.code().starts_with("53")),
            Self::Own(_) => false,
        }
    }
}

impl DatabaseAddress {
    /// The error for the program. `what` describes the call, such as "a conversation was to be read".
    pub(super) fn error(&self, what: &str, failure: PostgresFailure) -> Error {
        let err = match failure {
            PostgresFailure::Own(err) => return err,
            PostgresFailure::Database(err) => err,
        };
        let (kind, fault) = match (err.as_db_error(), AuthRefusal::find(&err)) {
            (Some(said), _) => (kind(said.code()), self.server_text(said)),
            (None, Some(refused)) => (ErrorKind::Configuration, self.refused(refused)),
            (None, None) => (self.kind_of_way(&err), self.lost(&err)),
        };
        let error = Error::new(kind, format!("{what}, but PostgreSQL at {} {fault}", self.place));
        // Only the message of a server's error is kept. The details of the error can quote the written row, which must
        // not be in a log.
        let error = match err.as_db_error() {
            Some(_) => error,
            None => match err.into_source() {
                Some(cause) => error.with_source(cause),
                None => error,
            },
        };
        error.cleaned(&self.secrets)
    }

    /// The error of a call that exceeded its time limit.
    pub(super) fn too_late(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::Journal,
            format!(
                "{what}, but PostgreSQL at {} did not answer within {:?}: it cannot be reached, is \
                 overloaded, or all connections of this journal are in use",
                self.place, self.time_out
            ),
        )
    }

    /// The server's message, with a remedy.
    fn server_text(&self, said: &DbError) -> String {
        let schema = &self.schema;
        let code = said.code();
        let help = if *code == SqlState::INVALID_PASSWORD
            || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        {
            "; check user and password in the address, and the server's `pg_hba.conf`".to_owned()
        } else if *code == SqlState::INVALID_CATALOG_NAME {
            "; create it with `createdb`, or correct the address".to_owned()
        } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
            format!(
                "; the role needs `GRANT USAGE ON SCHEMA \"{schema}\"`, `GRANT SELECT, INSERT, UPDATE, \
                 DELETE ON ALL TABLES IN SCHEMA \"{schema}\"` and `GRANT USAGE ON ALL SEQUENCES IN \
                 SCHEMA \"{schema}\"`, and on first use `GRANT CREATE ON DATABASE`"
            )
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            "; it is a standby, or the role may only read. With several hosts, add \
             `target_session_attrs=read-write` to the address"
                .to_owned()
        } else if *code == SqlState::TOO_MANY_CONNECTIONS {
            "; lower `max_connections` of the journal, or raise that of the server".to_owned()
        } else if *code == SqlState::OUT_OF_MEMORY {
            "; each conversation that is held, or deleted with others, takes a lock: raise \
             `max_locks_per_transaction` of the server, or hold fewer at a time"
                .to_owned()
        } else if *code == SqlState::QUERY_CANCELED {
            format!("; a statement may take {:?}", self.time_out)
        } else if *code == SqlState::DUPLICATE_TABLE || *code == SqlState::DUPLICATE_OBJECT {
            format!("; the schema `{schema}` is used by something else, so name another one")
        } else {
            String::new()
        };
        format!("says: {} ({}){help}", said.message(), code.code())
    }

    /// Describes why the journal refused to send the password in the form that the server requested.
    fn refused(&self, refused: &AuthRefusal) -> String {
        let help = match refused {
            AuthRefusal::Cleartext | AuthRefusal::Md5 | AuthRefusal::Weak(_) => {
                "which was not sent: with it, whoever answers there could log in elsewhere. Let the \
                 server ask for `scram-sha-256` (`pg_hba.conf`), with a password that was set while \
                 `password_encryption` was `scram-sha-256` and `scram_iterations` at least 4096. Or \
                 call `allow_plain_password_over_tls` on the journal's builder, or, without TLS and \
                 if nobody else can read the connection, `allow_plain_password_without_tls`"
            }
            AuthRefusal::TooLong => "so something else answers there: correct the address",
        };
        format!("{refused}, {help}")
    }

    /// Describes why the connection was lost or could not be made.
    fn lost(&self, err: &tokio_postgres::Error) -> String {
        let mut words = err.to_string();
        let mut cause = err.source();
        while let Some(next) = cause {
            words = format!("{words}: {next}");
            cause = next.source();
        }
        let help = if words.contains("certificate") {
            "; if the server's certificate is not signed by an authority that the system trusts, give \
             its root with `root_certificates`"
        } else if words.contains("does not support TLS") {
            "; turn TLS on there, or write `sslmode=disable` if the network is safe"
        } else if words.contains("password missing") {
            "; add a password to the address"
        } else {
            ""
        };
        format!("cannot be connected to: {words}{help}")
    }

    /// The kind of a connection error. If the address is incomplete, the program has to correct it. All other errors
    /// count as errors of the journal, which may be temporary.
    fn kind_of_way(&self, err: &tokio_postgres::Error) -> ErrorKind {
        match err.to_string().as_str() {
            "invalid configuration" | "authentication error" => ErrorKind::Configuration,
            _ => ErrorKind::Journal,
        }
    }
}

/// The kind of an error that the server reports. If the address has a wrong user, password or database, the program has
/// to correct it.
fn kind(code: &SqlState) -> ErrorKind {
    let wrong = [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
    ];
    if wrong.contains(code) { ErrorKind::Configuration } else { ErrorKind::Journal }
}
