//! Checks how a server requests authentication, and refuses to send a password in a form that the server could use
//! elsewhere.
//!
//! `tokio_postgres` answers every authentication method that a server requests. So the server's messages are checked
//! before `tokio_postgres` reads them.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsStream};

use harness_core::tls::causes;

/// The maximum length of a server's message before authentication is complete. `libpq` has the same limit.
const LONGEST: usize = 30_000;

/// The minimum number of SCRAM iterations. With fewer iterations, a server could guess the password from the client's
/// proof. This number is PostgreSQL's default, and the minimum that RFC 7677 recommends.
const LEAST_ITERATIONS: u32 = 4096;

/// The connections on which a password may be sent in cleartext or as MD5.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PlainPassword {
    Never,
    OverTls,
    Anywhere,
}

/// A form of authentication that the server requested and the journal refuses.
#[derive(Debug)]
pub(super) enum AuthRefusal {
    Cleartext,
    Md5,
    /// SCRAM with this number of iterations, which is too small.
    Weak(u32),
    TooLong,
}

impl fmt::Display for AuthRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cleartext => f.write_str("asks for the password in clear (`password`)"),
            Self::Md5 => f.write_str("asks for the password as MD5 (`md5`)"),
            Self::Weak(iterations) => write!(
                f,
                "asks for a proof of the password (`scram-sha-256`) with {iterations} iterations"
            ),
            Self::TooLong => f.write_str("sends a message that no PostgreSQL sends"),
        }
    }
}

impl std::error::Error for AuthRefusal {}

impl AuthRefusal {
    /// Finds this refusal among the causes of a failed connection.
    pub(super) fn find<'a>(err: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        causes(err).find_map(|err| err.downcast_ref())
    }
}

/// A connection to the server, with or without TLS.
pub(super) trait ServerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ServerStream for S {}

/// A connection whose messages are checked until authentication is complete.
pub(super) struct AuthGuard {
    stream: Box<dyn ServerStream>,
    /// The hash of the server's certificate, for channel binding.
    certificate: Option<Vec<u8>>,
    is_plain_allowed: bool,
    /// The beginning of the next message. `None` once authentication is complete.
    message: Option<Vec<u8>>,
}

impl AuthGuard {
    pub(super) fn new(
        stream: impl ServerStream + 'static,
        certificate: Option<Vec<u8>>,
        is_plain_allowed: bool,
    ) -> Self {
        Self { stream: Box::new(stream), certificate, is_plain_allowed, message: Some(Vec::new()) }
    }

    /// Checks the next bytes from the server. A message has one byte for its type, four bytes for its length, and a
    /// body. The length includes its own four bytes.
    fn check(&mut self, bytes: &[u8]) -> Result<(), AuthRefusal> {
        for &byte in bytes {
            let Some(message) = &mut self.message else { return Ok(()) };
            message.push(byte);
            let &[kind, a, b, c, d, ref rest @ ..] = message.as_slice() else { continue };
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
            if length > LONGEST {
                return Err(AuthRefusal::TooLong);
            }
            if rest.len().saturating_add(4) < length {
                continue;
            }
            let is_in = kind == b'R' && is_accepted(rest, self.is_plain_allowed)?;
            self.message = (!is_in).then(Vec::new);
        }
        Ok(())
    }
}

/// Whether this message completes authentication. Fails if the message requests the password in a refused form.
fn is_accepted(request: &[u8], is_plain_allowed: bool) -> Result<bool, AuthRefusal> {
    let Some((code, rest)) = request.split_first_chunk() else { return Ok(false) };
    match u32::from_be_bytes(*code) {
        0 => Ok(true),
        3 if !is_plain_allowed => Err(AuthRefusal::Cleartext),
        5 if !is_plain_allowed => Err(AuthRefusal::Md5),
        // `r=..,s=..,i=4096` is the server's first message in SCRAM. `tokio_postgres` checks the maximum number of
        // iterations.
        11 if !is_plain_allowed => {
            let fields = String::from_utf8_lossy(rest);
            let iterations = fields.split(',').filter_map(|field| field.strip_prefix("i="));
            let least = iterations.map(|count| count.parse().unwrap_or(0)).min();
            match least {
                Some(least) if least < LEAST_ITERATIONS => Err(AuthRefusal::Weak(least)),
                _ => Ok(false),
            }
        }
        _ => Ok(false),
    }
}

impl TlsStream for AuthGuard {
    /// Binds the SCRAM proof to the server's certificate (`tls-server-end-point`, RFC 5929, section 4.1). So an
    /// attacker between client and server cannot use the proof for a connection of the attacker.
    fn channel_binding(&self) -> ChannelBinding {
        let certificate = self.certificate.clone();
        certificate.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for AuthGuard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let new = buffer.filled().get(before..).unwrap_or_default();
        match self.check(new) {
            Ok(()) => read,
            Err(refused) => {
                buffer.set_filled(before);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::PermissionDenied, refused)))
            }
        }
    }
}

impl AsyncWrite for AuthGuard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
