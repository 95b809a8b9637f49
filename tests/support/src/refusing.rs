//! An address that refuses connections for as long as the test holds it.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port that is bound and does not listen, so each connection to it is refused. A port that is only free can be taken by
/// another test at any time.
#[derive(Debug)]
pub struct RefusingPort(TcpSocket);

impl RefusingPort {
    pub fn bind() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        Self(socket)
    }

    pub fn number(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.number())
    }
}
