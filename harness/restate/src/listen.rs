//! The listener of a worker.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens at an address for the engine. Pass the result to `HttpServer::serve`. On Unix, several workers on one
/// machine may listen at the same address.
///
/// The connections send data at once (`TCP_NODELAY`, which they inherit from the listener on Linux). Without this
/// option, a step waits about 40 ms until the engine has acknowledged the previous step. The engine's SDK does not set
/// this option, so do not use `HttpServer::listen_and_serve`.
///
/// # Errors
/// Fails if the system does not allow this process to listen there. Must be called within a tokio runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_nodelay(true)?;
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn what_a_worker_writes_is_sent_at_once() {
        let listener = super::listen(([127, 0, 0, 1], 0).into()).expect("a port");
        let address = listener.local_addr().expect("an address");
        // A second worker on the same port.
        drop(super::listen(address).expect("the same port"));
        let _engine = TcpStream::connect(address).await.expect("a connection");
        let (taken, _) = listener.accept().await.expect("a connection");
        assert!(taken.nodelay().expect("an option"));
    }
}
