//! Servers whose certificates are not trusted.

use std::{net::TcpListener, process::Command, sync::Arc, thread};

use harness::{Agent, AnthropicProvider, ErrorKind};
use rustls::{
    ServerConfig, ServerConnection,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

#[tokio::test]
async fn a_refused_certificate_is_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]);
    openssl.args(["-keyout", "key.pem", "-out", "server.pem"]).current_dir(folder.path());
    if !openssl.output().is_ok_and(|done| done.status.success()) {
        println!("skipped: there is no openssl");
        return;
    }
    let certificate = CertificateDer::from_pem_file(folder.path().join("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.path().join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = Arc::new(config);
    let server = thread::spawn(move || {
        let mut connections = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut first = [0];
            // The test says with an empty connection that it has ended.
            if stream.peek(&mut first).unwrap() == 0 {
                return connections;
            }
            connections += 1;
            let mut session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let _ = session.complete_io(&mut stream);
        }
        connections
    });
    let url = format!("https://localhost:{}", address.port());
    let provider = AnthropicProvider::builder().api_key("k").base_url(url).build().unwrap();
    let stopped = Agent::builder(provider).build().unwrap().run("Oslo?").await.unwrap_err();
    let error = stopped.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.to_string().contains("certificate"), "{error}");
    drop(std::net::TcpStream::connect(address).unwrap());
    assert_eq!(server.join().unwrap(), 1);
}
