//! One TLS configuration for all providers of a program: to read the system's certificates takes
//! milliseconds, and they are held once.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::ClientBuilder;
use rustls::{ClientConfig, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::error::{Error, ErrorKind};

/// The configuration. A clone holds the same certificates and the same sessions.
pub(super) fn shared() -> Result<ClientConfig, Error> {
    static SHARED: Mutex<Option<ClientConfig>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(config) = &*shared {
        return Ok(config.clone());
    }
    let config = make().map_err(|err| {
        Error::new(
            ErrorKind::Configuration,
            "TLS cannot be set up: the certificates of the system cannot be used",
        )
        .because(err)
    })?;
    *shared = Some(config.clone());
    Ok(config)
}

fn make() -> Result<ClientConfig, rustls::Error> {
    // What the program has chosen, if it has. It may still choose: nothing is chosen for it here.
    let provider = CryptoProvider::get_default()
        .map_or_else(|| Arc::new(rustls::crypto::ring::default_provider()), Arc::clone);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    config.alpn_protocols = vec!["http/1.1".into()];
    if ClientBuilder::new().http2_adaptive_window(false).speaks_http2() {
        config.alpn_protocols.insert(0, "h2".into());
    }
    Ok(config)
}

/// Whether the program has turned on reqwest's feature `http2`, which is not seen from here otherwise:
/// with it the builder has this method itself, and that one is called.
trait WithoutHttp2 {
    fn http2_adaptive_window(self, on: bool) -> Http1;
}

impl WithoutHttp2 for ClientBuilder {
    fn http2_adaptive_window(self, _: bool) -> Http1 {
        Http1
    }
}

struct Http1;

trait Speaks {
    fn speaks_http2(&self) -> bool;
}

impl Speaks for Http1 {
    fn speaks_http2(&self) -> bool {
        false
    }
}

impl Speaks for ClientBuilder {
    fn speaks_http2(&self) -> bool {
        true
    }
}
