//! Connects with or without TLS. TLS uses the same certificates and algorithms as the HTTP client.

use std::{future::Future, io, pin::Pin, sync::Arc};

use rustls::{ClientConfig, client::Resumption, pki_types::ServerName};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::{
    Config, Socket,
    config::{SslMode, SslNegotiation},
    tls::{MakeTlsConnect, TlsConnect},
};

use super::auth_guard::{AuthGuard, PlainPassword};

/// The message that requests TLS from a server.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Sets up all connections of one journal, with and without TLS. `tokio_postgres` itself would set up connections
/// without the guard.
#[derive(Clone)]
pub(super) struct PostgresTls {
    /// `None` for connections without TLS.
    tls: Option<Arc<ClientConfig>>,
    mode: SslMode,
    negotiation: SslNegotiation,
    plain_password: PlainPassword,
}

impl PostgresTls {
    /// Moves the TLS settings of the address from `tokio_postgres` to this connector.
    pub(super) fn new(
        config: &mut Config,
        tls: Option<ClientConfig>,
        plain_password: PlainPassword,
    ) -> Self {
        let tls = tls.map(|mut tls| {
            // The ALPN name that PostgreSQL 17 and later require. Earlier versions ignore it.
            tls.alpn_protocols = vec![b"postgresql".to_vec()];
            // The cache of TLS sessions is separate from the cache of the HTTP client.
            tls.resumption = Resumption::default();
            Arc::new(tls)
        });
        let (mode, negotiation) = (config.get_ssl_mode(), config.get_ssl_negotiation());
        // With these settings, `tokio_postgres` leaves the whole connection to this connector, from the first byte on.
        config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        Self { tls, mode, negotiation, plain_password }
    }

    async fn connect(self, host: String, mut socket: Socket) -> io::Result<AuthGuard> {
        let is_plain_allowed = self.plain_password == PlainPassword::Anywhere;
        let Some(tls) = self.tls else {
            return Ok(AuthGuard::new(socket, None, is_plain_allowed));
        };
        if self.negotiation == SslNegotiation::Postgres {
            socket.write_all(&SSL_REQUEST).await?;
            match (socket.read_u8().await?, self.mode) {
                (b'S', _) => {}
                (b'N', SslMode::Prefer) => {
                    return Ok(AuthGuard::new(socket, None, is_plain_allowed));
                }
                (b'N', _) => return Err(io::Error::other("server does not support TLS")),
                _ => {
                    return Err(io::Error::other(
                        "server answered the request for TLS with an error",
                    ));
                }
            }
        }
        let host = ServerName::try_from(host).map_err(io::Error::other)?;
        let stream = tokio_rustls::TlsConnector::from(tls).connect(host, socket).await?;
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.and_then(|it| hash_of(it));
        let is_plain_allowed = self.plain_password != PlainPassword::Never;
        Ok(AuthGuard::new(stream, certificate, is_plain_allowed))
    }
}

impl MakeTlsConnect<Socket> for PostgresTls {
    type Stream = AuthGuard;
    type TlsConnect = ConnectionTls;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<ConnectionTls> {
        Ok(ConnectionTls { connector: self.clone(), host: host.to_owned() })
    }
}

/// Sets up one connection.
pub(super) struct ConnectionTls {
    connector: PostgresTls,
    host: String,
}

impl TlsConnect<Socket> for ConnectionTls {
    type Stream = AuthGuard;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<AuthGuard>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(self.connector.connect(self.host, socket))
    }
}

/// Hashes a certificate with the hash algorithm of its signature. SHA-256 replaces MD5 and SHA-1. `None` if the
/// algorithm is unknown: a signature with Ed25519 has no separate hash algorithm, and RSA-PSS names the hash algorithm
/// in another field.
fn hash_of(certificate: &[u8]) -> Option<Vec<u8>> {
    // 1.2.840.113549.1.1, the signatures with RSA by PKCS #1.
    const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    // 1.2.840.10045.4, the signatures with ECDSA.
    const ECDSA: [u8; 6] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;

    let (parts, _) = part(certificate, SEQUENCE)?;
    let (_, behind_the_signed) = part(parts, SEQUENCE)?;
    let (signature, _) = part(behind_the_signed, SEQUENCE)?;
    let (name, _) = part(signature, OBJECT_IDENTIFIER)?;
    let rsa = name.strip_prefix(&RSA);
    match (rsa, name.strip_prefix(&ECDSA)) {
        // MD5, SHA-1 and SHA-256 with RSA; SHA-1 and SHA-256 with ECDSA.
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => {
            Some(Sha256::digest(certificate).to_vec())
        }
        (Some([12]), _) | (_, Some([3, 3])) => Some(Sha384::digest(certificate).to_vec()),
        (Some([13]), _) | (_, Some([3, 4])) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The content of an element of a DER structure, and the bytes after the element.
fn part(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first().filter(|_| *first == tag)?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // The low bits are the number of bytes of the length. Four bytes suffice, because no element is longer than 4
        // GB.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}
