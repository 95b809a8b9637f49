//! TLS: who asks for it gets it, with a server whose certificate is checked, or an error.

use std::{fs, path::Path, process::Command};

use harness::{
    ErrorKind,
    journal::{ConversationQuery, Journal, PostgresJournal},
};

use crate::server::{Server, server};

fn openssl(folder: &Path, arguments: &str) -> bool {
    let mut openssl = Command::new("openssl");
    let done = openssl.args(arguments.split(' ')).current_dir(folder).output();
    done.is_ok_and(|done| done.status.success())
}

/// An authority, and a server's certificate for `localhost` that it has signed, with this kind of key
/// and this hash.
pub(crate) fn certificates(folder: &Path, key: &str, hash: &str) -> bool {
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .expect("a file");
    openssl(
        folder,
        &format!(
            "req -x509 -{hash} -newkey {key} -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"
        ),
    ) && openssl(
        folder,
        &format!(
            "req -{hash} -newkey {key} -nodes -keyout server.key -out server.csr -subj /CN=localhost"
        ),
    ) && openssl(
        folder,
        &format!(
            "x509 -req -{hash} -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names"
        ),
    )
}

#[tokio::test]
async fn a_certificate_is_checked_and_bound_to_the_password() {
    let mut own = server!(Server::start(&[], ""));
    for (key, hash) in [("rsa:2048", "sha256"), ("rsa:2048", "sha384"), ("rsa:2048", "sha512")] {
        let folder = tempfile::tempdir().expect("a folder");
        if !certificates(folder.path(), key, hash) {
            println!("skipped: there is no openssl");
            return;
        }
        own.stop();
        own.secure(folder.path());
        own.run();
        let root = fs::read(folder.path().join("ca.pem")).expect("the root");
        let url = own.loopback("postgres").replace("127.0.0.1", "localhost");
        let required =
            format!("{url}?sslmode=require&channel_binding=require&application_name=tls");
        let journal = PostgresJournal::builder(&required).root_certificates(root.clone());
        let journal = journal.connect().await.expect("a journal");
        journal.list(&ConversationQuery::new()).await.expect("a page");
        let secured = own.sql(
            "select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) \
             where application_name = 'tls'",
        );
        assert_eq!(secured, "t", "{hash}");

        // Nobody here has signed it.
        let err = PostgresJournal::connect(&required).await.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Journal);
        assert!(err.to_string().contains("root_certificates"), "{err}");
        // It is not the certificate of this name.
        let other = required.replace("localhost", "127.0.0.1");
        let journal = PostgresJournal::builder(other).root_certificates(root);
        let err = journal.connect().await.unwrap_err();
        assert!(err.to_string().contains("certificate"), "{err}");
        // What does not leave the machine needs none.
        PostgresJournal::connect(&url).await.expect("a journal");
        let socket = own.socket("harness", "postgres");
        PostgresJournal::connect(&socket).await.expect("a journal");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let server = server!();
    let url = format!("{}?sslmode=require", server.loopback("postgres"));
    let err = PostgresJournal::connect(&url).await.unwrap_err();
    assert!(err.to_string().contains("sslmode=disable"), "{err}");
    let url = format!("{}?sslmode=disable", server.loopback("postgres"));
    PostgresJournal::connect(&url).await.expect("a journal");

    for pem in ["", "none", "-----BEGIN CERTIFICATE-----\nAA\n"] {
        let url = format!("{}?sslmode=require", server.loopback("postgres"));
        let builder = PostgresJournal::builder(url).root_certificates(pem);
        let err = builder.connect().await.unwrap_err();
        assert!(err.is_configuration() && err.to_string().contains("PEM"), "{err}");
    }
}
