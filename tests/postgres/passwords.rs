//! A password does not leave in a form that could be used elsewhere, whatever the server asks for.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use harness::journal::{PostgresBuilder, PostgresJournal};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::{
    secure::certificates,
    server::{PASSWORD, Server, server},
};

/// What a server asks for that nobody runs.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Cleartext,
    Md5,
    /// SCRAM with one iteration.
    Weak,
    /// SCRAM, and in place of its next message the password.
    CleartextInScram,
}

/// Whether a server speaks TLS when it is asked.
enum Tls {
    Refused,
    Spoken(Arc<ServerConfig>),
}

/// A message of a server.
fn message(kind: u8, code: u32, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len() + 8).expect("a short message");
    [&[kind], &length.to_be_bytes()[..], &code.to_be_bytes(), rest].concat()
}

/// Reads a message of the client: its length, with or without a type before it.
fn read(stream: &mut dyn Read, has_kind: bool) -> Vec<u8> {
    let mut head = [0; 5];
    let head = &mut head[usize::from(!has_kind)..];
    if stream.read_exact(head).is_err() {
        return Vec::new();
    }
    let length: [u8; 4] = head[head.len() - 4..].try_into().expect("four bytes");
    let mut rest = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("a length") - 4];
    let _ = stream.read_exact(&mut rest);
    rest
}

/// Asks for the password. The answer is what the client sends for it.
fn ask(stream: &mut (impl Read + Write), asked: Asked) -> Vec<u8> {
    // Each byte comes alone.
    let send = |stream: &mut dyn Write, message: Vec<u8>| {
        let sent = message.iter().try_for_each(|byte| {
            stream.write_all(&[*byte])?;
            stream.flush()
        });
        // A client that has seen enough is gone.
        let _ = sent;
    };
    let scram = message(b'R', 10, b"SCRAM-SHA-256\0\0");
    match asked {
        Asked::Cleartext => send(stream, message(b'R', 3, b"")),
        Asked::Md5 => send(stream, message(b'R', 5, b"salt")),
        Asked::Weak => {
            send(stream, scram);
            let first = String::from_utf8_lossy(&read(stream, true)).into_owned();
            let nonce = first.split("r=").nth(1).expect("a nonce").to_owned();
            let first = format!("r={nonce}more,s=c2FsdA==,i=1");
            send(stream, message(b'R', 11, first.as_bytes()));
        }
        Asked::CleartextInScram => {
            send(stream, scram);
            read(stream, true);
            send(stream, message(b'R', 3, b""));
        }
    }
    read(stream, true)
}

/// A server that lies once. Its port, and what it gets for it.
fn lie(tls: Tls, asked: Asked) -> (u16, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let lies = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut start = read(&mut stream, false);
        if start == [0x04, 0xd2, 0x16, 0x2f] {
            match tls {
                Tls::Refused => stream.write_all(b"N").expect("written"),
                Tls::Spoken(config) => {
                    stream.write_all(b"S").expect("written");
                    let session = ServerConnection::new(config).expect("a session");
                    let mut stream = StreamOwned::<_, TcpStream>::new(session, stream);
                    read(&mut stream, false);
                    return ask(&mut stream, asked);
                }
            }
            start = read(&mut stream, false);
        }
        assert!(start.starts_with(&[0, 3, 0, 0]), "{start:?}");
        ask(&mut stream, asked)
    });
    (port, lies)
}

fn journal(host: &str, port: u16, options: &str) -> PostgresBuilder {
    PostgresJournal::builder(format!("postgres://app:{PASSWORD}@{host}:{port}/app?{options}"))
}

async fn told(journal: PostgresBuilder) -> String {
    let err = journal.connect().await.unwrap_err();
    let words = format!("{err:?} {err}");
    assert!(!words.contains(PASSWORD), "{words}");
    words
}

const ASKED: [(Asked, &str); 3] = [
    (Asked::Cleartext, "in clear (`password`)"),
    (Asked::Md5, "as MD5 (`md5`)"),
    (Asked::Weak, "with 1 iterations"),
];

#[tokio::test]
async fn a_server_without_tls_gets_no_password() {
    for (asked, named) in ASKED {
        // TLS is refused on the way to another machine, not asked for, and not wanted.
        for (host, options) in [
            ("db.example", "hostaddr=0.0.0.0"),
            ("127.0.0.1", "sslmode=prefer"),
            ("127.0.0.1", "sslmode=disable"),
        ] {
            for builder in
                [PostgresBuilder::allow_plain_password_over_tls, |it: PostgresBuilder| it]
            {
                let (port, lies) = lie(Tls::Refused, asked);
                let told = told(builder(journal(host, port, options))).await;
                let got = lies.join().expect("no panic");
                assert_eq!(String::from_utf8_lossy(&got), "", "{asked:?} {options}");
                assert!(told.contains(named) && told.contains(&port.to_string()), "{told}");
                assert!(told.contains("Configuration") && told.contains("scram-sha-256"), "{told}");
            }
        }
    }
    let (port, lies) = lie(Tls::Refused, Asked::CleartextInScram);
    told(journal("127.0.0.1", port, "")).await;
    assert_eq!(lies.join().expect("no panic"), b"");
}

#[tokio::test]
async fn a_server_with_tls_gets_no_password() {
    let folder = tempfile::tempdir().expect("a folder");
    if !certificates(folder.path(), "rsa:2048", "sha256") {
        println!("skipped: there is no openssl");
        return;
    }
    let config = server_config(folder.path());
    let root = fs::read(folder.path().join("ca.pem")).expect("the root");
    let journal = |port| {
        journal("localhost", port, "sslmode=require&hostaddr=127.0.0.1")
            .root_certificates(root.clone())
    };
    for (asked, named) in ASKED {
        let (port, lies) = lie(Tls::Spoken(Arc::clone(&config)), asked);
        let told = told(journal(port)).await;
        assert_eq!(lies.join().expect("no panic"), b"", "{asked:?}");
        assert!(told.contains(named), "{told}");
        assert!(told.contains("allow_plain_password_over_tls"), "{told}");
    }
    // A program that says so gives it away.
    let (port, lies) = lie(Tls::Spoken(config), Asked::Cleartext);
    told(journal(port).allow_plain_password_over_tls()).await;
    assert_eq!(lies.join().expect("no panic"), format!("{PASSWORD}\0").as_bytes());
}

fn server_config(folder: &Path) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(folder.join("server.pem")).expect("a file");
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).expect("a file");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    Arc::new(config.with_single_cert(vec![certificate], key).expect("a certificate"))
}

#[tokio::test]
async fn a_password_that_is_stored_as_md5_is_sent_where_the_program_says_so() {
    let mut own = server!(Server::start(&[], ""));
    own.sql(&format!(
        "set password_encryption = 'md5'; create role old login superuser password '{PASSWORD}'"
    ));
    let url = own.loopback("postgres");
    let old = url.replace("harness:", "old:");
    for (method, role, is_asked) in [
        ("scram-sha-256", &url, None),
        // A server that could take MD5 takes SCRAM where the password is stored so.
        ("md5", &url, None),
        ("md5", &old, Some("`md5`")),
        ("password", &url, Some("`password`")),
    ] {
        own.stop();
        let allowed = format!("local all all trust\nhost all all 127.0.0.1/32 {method}\n");
        fs::write(own.folder.join("data/pg_hba.conf"), allowed).expect("written");
        own.run();
        match is_asked {
            None => drop(PostgresJournal::connect(role).await.expect("a journal")),
            Some(named) => {
                let told = told(PostgresJournal::builder(role)).await;
                assert!(told.contains(named), "{told}");
            }
        }
        let journal = PostgresJournal::builder(role).allow_plain_password_without_tls();
        journal.connect().await.expect("a journal");
    }
}

#[tokio::test]
async fn a_password_does_not_go_to_a_socket_that_everybody_could_have_made() {
    use std::os::unix::fs::PermissionsExt as _;

    let server = server!();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = format!(".s.PGSQL.{}", server.port);
    std::os::unix::fs::symlink(server.folder.join(&socket), folder.path().join(&socket))
        .expect("a link");
    let open = |is_open| {
        let mode = if is_open { 0o1777 } else { 0o755 };
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("permissions");
    };
    let encoded = folder.path().display().to_string().replace('/', "%2F");
    let url =
        |password: &str| format!("postgres://harness{password}@{encoded}:{}/postgres", server.port);
    let with_password = url(&format!(":{PASSWORD}"));
    open(true);
    let told = told(PostgresJournal::builder(&with_password)).await;
    assert!(told.contains("unix_socket_directories"), "{told}");
    let allowed = PostgresJournal::builder(&with_password).allow_plain_password_without_tls();
    allowed.connect().await.expect("a journal");
    PostgresJournal::connect(url("")).await.expect("a journal");
    open(false);
    PostgresJournal::connect(&with_password).await.expect("a journal");
}
