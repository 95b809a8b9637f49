//! Conversations in PostgreSQL, with real servers that the tests start and stop. If PostgreSQL is not
//! installed, they print that they are skipped.

#[cfg(unix)]
#[path = "postgres/addresses.rs"]
mod addresses;
#[cfg(unix)]
#[path = "postgres/conformance.rs"]
mod conformance;
#[cfg(unix)]
#[path = "postgres/faults.rs"]
mod faults;
#[cfg(unix)]
#[path = "postgres/holds.rs"]
mod holds;
#[cfg(unix)]
#[path = "postgres/kills.rs"]
mod kills;
#[cfg(unix)]
#[path = "postgres/model.rs"]
mod model;
#[cfg(unix)]
#[path = "postgres/passwords.rs"]
mod passwords;
#[cfg(unix)]
#[path = "postgres/races.rs"]
mod races;
#[cfg(unix)]
#[path = "postgres/secure.rs"]
mod secure;
#[cfg(unix)]
#[path = "postgres/server.rs"]
mod server;
#[cfg(unix)]
#[path = "postgres/tables.rs"]
mod tables;
