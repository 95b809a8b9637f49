//! The TLS configuration for all connections of the program. Reading the system's certificates
//! takes milliseconds, so the configuration is made once and shared.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{ClientConfig, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::error::{Error, ErrorKind};

/// The shared configuration. Clones share the certificates and the TLS sessions.
///
/// # Errors
/// Fails if the certificates of the system cannot be read.
pub fn shared() -> Result<ClientConfig, Error> {
    static SHARED: Mutex<Option<ClientConfig>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(config) = &*shared {
        return Ok(config.clone());
    }
    let config = make().map_err(unusable)?;
    *shared = Some(config.clone());
    Ok(config)
}

fn make() -> Result<ClientConfig, rustls::Error> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth())
}

/// A configuration that trusts these certificates (in PEM), and also the certificates of the system.
///
/// # Errors
/// Fails if the text contains no certificate, or a certificate that cannot be read.
pub fn trusting(pem: &[u8]) -> Result<ClientConfig, Error> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};

    let unreadable = || {
        Error::new(
            ErrorKind::Configuration,
            "a root certificate cannot be read: give the text of a PEM file, with \
             `-----BEGIN CERTIFICATE-----`",
        )
    };
    let roots = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let roots = roots.map_err(|err| unreadable().with_source(err))?;
    if roots.is_empty() {
        return Err(unreadable());
    }
    also(roots).map_err(unusable)
}

fn also(
    roots: Vec<rustls::pki_types::CertificateDer<'static>>,
) -> Result<ClientConfig, rustls::Error> {
    let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(roots, provider())?;
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// The crypto provider that the program has installed, or `ring`. The library does not install a
/// provider globally, so that the program can still choose one.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default()
        .map_or_else(|| Arc::new(rustls::crypto::ring::default_provider()), Arc::clone)
}

fn unusable(err: rustls::Error) -> Error {
    Error::new(
        ErrorKind::Configuration,
        "TLS cannot be set up: the certificates of the system cannot be used",
    )
    .with_source(err)
}

/// Whether a connection failed because the server's certificate is not trusted.
pub fn has_refused_certificate(err: &(dyn std::error::Error + 'static)) -> bool {
    causes(err).any(|err| matches!(err.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))))
}

/// The error and all its causes. For an I/O error that wraps another error, the wrapped error is
/// the next cause, because `io::Error::source` skips it.
pub fn causes<'a>(
    err: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(err), |err| {
        match err.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => err.source(),
        }
    })
}
