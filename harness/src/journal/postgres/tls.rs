//! TLS around a connection to PostgreSQL, with the certificates and algorithms of the HTTP client.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{ClientConfig, client::Resumption, pki_types::ServerName};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::TlsConnector;

/// Sets up TLS for the connections of one journal.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn new(mut config: ClientConfig) -> Self {
        // The protocol name for PostgreSQL 17 and later; earlier versions ignore it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        // TLS sessions of web servers on the same host are of no use here.
        config.resumption = Resumption::default();
        Self(Arc::new(config))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Secured;
    type TlsConnect = Connect;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Connect, Self::Error> {
        let host = ServerName::try_from(host)?.to_owned();
        Ok(Connect { connector: Arc::clone(&self.0).into(), host })
    }
}

/// Sets up TLS for one connection.
pub(super) struct Connect {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl TlsConnect<Socket> for Connect {
    type Stream = Secured;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.host, stream).await.map(Secured) })
    }
}

/// A connection with TLS.
pub(super) struct Secured(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Secured {
    /// Binds the proof of the password to the server's certificate (`tls-server-end-point`, RFC
    /// 5929, section 4.1), so that an attacker between the two cannot pass on the proof.
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let hash = certificate.and_then(|it| hash_of(it));
        hash.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// Hashes a certificate with the hash algorithm of its signature; SHA-256 replaces older
/// algorithms. `None` if the signature has no separate hash, as with Ed25519, or names it
/// elsewhere, as with RSA-PSS.
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

/// The content of a part of a DER structure, and the bytes after the part.
fn part(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first().filter(|_| *first == tag)?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // The length has this number of bytes; no part is longer than 4 GB.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
