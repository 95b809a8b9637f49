//! The server: it takes whatever comes and answers with a stream that is ready. Its processor time
//! is nobody's.

use std::{io::Read, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{DELTAS, Failure, WIRES, rendered};

/// Serves until its standard input is closed.
pub fn serve() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers: Arc<Vec<Vec<u8>>> = Arc::new(
        WIRES
            .iter()
            .flat_map(|wire| [DELTAS, 1].map(|deltas| answer(&rendered::stream(wire, deltas))))
            .collect(),
    );
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    runtime.block_on(async {
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::spawn(connection(socket, Arc::clone(&answers)));
        }
    })
}

fn answer(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

async fn connection(socket: TcpStream, answers: Arc<Vec<Vec<u8>>>) -> std::io::Result<()> {
    let mut socket = BufReader::with_capacity(1 << 20, socket);
    let mut line = String::new();
    loop {
        let (mut length, mut chunked, mut path) = (0, false, String::new());
        loop {
            line.clear();
            if socket.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let header = line.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if path.is_empty() {
                path = header;
            } else if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            } else if header.starts_with("transfer-encoding:") {
                chunked = true;
            }
        }
        if chunked {
            eprintln!("a body without a length cannot be read: {path}");
            return Ok(());
        }
        while length > 0 {
            let read = socket.fill_buf().await?.len().min(length);
            if read == 0 {
                return Ok(());
            }
            socket.consume(read);
            length -= read;
        }
        let wire = match () {
            () if path.contains("/messages") => 0,
            () if path.contains("/responses") => 1,
            () => 2,
        };
        let short = usize::from(path.contains("/short/"));
        let answer = answers.get(wire * 2 + short).map(Vec::as_slice).unwrap_or_default();
        socket.get_mut().write_all(answer).await?;
    }
}

/// Reads what is said of a body in a head: how long it is.
pub async fn read_answer(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    buffer.clear();
    let mut wanted = None;
    let mut seen = 0;
    loop {
        let mut chunk = [0; 64 * 1024];
        let read = socket.read(&mut chunk).await?;
        seen += read;
        if wanted.is_none() {
            buffer.extend_from_slice(chunk.get(..read).unwrap_or_default());
            let head = memchr::memmem::find(buffer, b"\r\n\r\n");
            if let Some(head) = head {
                let text = String::from_utf8_lossy(buffer.get(..head).unwrap_or_default());
                let length = text.split("content-length: ").nth(1).unwrap_or_default();
                let length: usize =
                    length.split("\r\n").next().unwrap_or_default().parse().unwrap_or(0);
                wanted = Some(head + 4 + length);
            }
        }
        if read == 0 || wanted.is_some_and(|wanted| seen >= wanted) {
            return Ok(seen);
        }
    }
}
