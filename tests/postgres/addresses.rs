//! Addresses that are wrong, and what is said of them: never the password.

use harness::{ErrorKind, journal::PostgresJournal};

use crate::server::{PASSWORD, server};

async fn refused(url: &str) -> String {
    let err = PostgresJournal::connect(url).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Configuration, "{url}: {err}");
    let mut all = format!("{err} {err:?}");
    let mut cause = std::error::Error::source(&err);
    while let Some(next) = cause {
        all = format!("{all} {next} {next:?}");
        cause = next.source();
    }
    for part in ["hunter2", "hunter", "secret", "of-the-tests"] {
        assert!(!all.contains(part), "{url}: {all}");
    }
    err.to_string()
}

#[tokio::test]
async fn an_address_that_cannot_be_read_does_not_show_its_password() {
    for (url, fault) in [
        ("", "does not begin"),
        ("hunter2", "does not begin"),
        ("postgres:", "does not begin"),
        ("mysql://app:hunter2@db/app", "does not begin"),
        ("mysql://app:hunter2@db/app?secret=1", "not known"),
        ("postgres://", "no host"),
        ("postgres:///app?user=app&password=hunter2", "no host"),
        ("postgres://app:hunter2@secret@db/app", "more than one `@`"),
        ("postgres://app:hun@ter2/secret@db/app", "more than one `@`"),
        ("postgres://app:hun?ter2@secret@db/app", "more than one `@`"),
        ("postgres://app:hunter2@db/secret@db/app", "more than one `@`"),
        ("postgres://app:hunter2@db:secret/app", "`port`"),
        ("postgres://app:hunter2@db:99999/app", "`port`"),
        ("postgres://app:hunter2%zz@db/app?secret=hunter2", "not known"),
        ("postgres://app:hunter2@db/app?sslmode=secret", "`require`"),
        ("postgres://app:hunter2@db/app?sslmode=verify-full", "`require`"),
        ("postgres://app:hunter2@db/app?connect_timeout=secret", "`connect_timeout`"),
        ("postgres://app:hunter2@db/app?hostaddr=secret", "`hostaddr`"),
        ("host=db user=app password=hunter2 secret=1", "not known"),
        ("host=db user=app password='hunter2", ""),
        ("host=db user=app password=hunter2 port=1,2", "ports"),
    ] {
        let told = refused(url).await;
        assert!(told.contains(fault), "{url}: {told}");
        assert!(told.contains("postgres://USER:PASSWORD@HOST:PORT/DATABASE"), "{told}");
    }
}

#[tokio::test]
async fn options_that_cannot_be_are_refused() {
    let url = "postgres://app:hunter2@127.0.0.1:1/app";
    for builder in [
        PostgresJournal::builder(url).max_connections(0),
        PostgresJournal::builder(url).time_out(std::time::Duration::ZERO),
        PostgresJournal::builder(url).schema(""),
        PostgresJournal::builder(url).schema("x".repeat(64)),
        PostgresJournal::builder(url).schema("a\0b"),
    ] {
        assert!(!format!("{builder:?}").contains("hunter2"));
        assert!(builder.connect().await.unwrap_err().is_configuration());
    }
}

#[tokio::test]
async fn a_server_that_refuses_says_why_without_the_password() {
    let server = server!();
    let right = server.loopback("postgres");
    let journal = PostgresJournal::connect(&right).await.expect("a journal");
    assert!(!format!("{journal:?}").contains("hunter2"));

    let place = format!("127.0.0.1:{}", server.port);
    for (url, fault) in [
        (right.replace(PASSWORD, "hunter2-of-yesterday"), "password authentication failed"),
        (right.replace("harness:", "nobody:"), "password authentication failed"),
        (right.replace(&format!(":{PASSWORD}"), ""), "password"),
        (server.loopback("nowhere"), "createdb"),
    ] {
        let told = refused(&url).await;
        assert!(told.contains(fault) && told.contains(&place), "{told}");
    }
}
