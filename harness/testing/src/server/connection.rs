//! Serves one connection: reads requests, sends answers, and notices when the client closes the
//! connection.

use std::{cmp::min, io, sync::Arc};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    answer::{Answer, AnswerMark, BodyFraming, Point},
    head::{self, ParsedRequest},
    state::{ClosedBy, ServerState},
};

/// Why the answer ended early.
enum AnswerStop {
    Cut,
    Reset,
    /// The server was shut down while the answer was stalled or waited for a gate.
    Shutdown,
    /// The client has closed the connection.
    Gone,
}

impl From<io::Error> for AnswerStop {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// When dropped, records that the server has closed the connection, unless the client has already
/// closed the connection.
struct OpenConnection {
    shared: Arc<ServerState>,
    number: usize,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.shared.closed(self.number, ClosedBy::Server);
    }
}

/// Serves a connection until it is closed.
pub(super) async fn serve(
    mut stream: TcpStream,
    shared: Arc<ServerState>,
    stop: CancellationToken,
) {
    let open = OpenConnection { number: shared.opened(), shared: Arc::clone(&shared) };
    // Each piece becomes a separate packet. Without this option, only the timing is less exact.
    let _ = stream.set_nodelay(true);
    let mut came = Vec::new();
    loop {
        let (mut read, mut write) = stream.split();
        let ParsedRequest { request, used, keep } = tokio::select! {
            next = next_request(&mut read, &mut came, open.number) => match next {
                Ok(Some(parsed)) => parsed,
                Ok(None) => return shared.closed(open.number, ClosedBy::Client),
                Err(fault) => return shared.fault(fault),
            },
            () = stop.cancelled() => return,
        };
        came.drain(..used);
        let answer = shared.answer(request);
        let keep = keep && answer.framing != BodyFraming::UntilClosed;
        let spoken = tokio::select! {
            // `biased` reads from the connection first. Bytes that arrive during the answer belong to the next request.
            biased;
            () = client_gone(&mut read, &mut came) => Err(AnswerStop::Gone),
            spoken = speak(&mut write, &answer, keep, &stop) => spoken,
        };
        match spoken {
            Ok(()) if keep && !answer.closes => {}
            Ok(()) | Err(AnswerStop::Cut | AnswerStop::Shutdown) => return,
            Err(AnswerStop::Gone) => return shared.closed(open.number, ClosedBy::Client),
            Err(AnswerStop::Reset) => {
                // With a linger time of zero, closing the socket resets the connection.
                if let Err(err) = stream.set_zero_linger() {
                    shared.fault(format!("the connection could not be reset: {err}"));
                }
                return;
            }
        }
    }
}

/// Reads the next request. Returns `None` if the client closes the connection before a request.
async fn next_request(
    read: &mut ReadHalf<'_>,
    came: &mut Vec<u8>,
    number: usize,
) -> Result<Option<ParsedRequest>, String> {
    loop {
        if let Some(parsed) = head::parse(came, number)? {
            return Ok(Some(parsed));
        }
        match read.read_buf(came).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    }
}

/// Waits until the client closes the connection. Keeps the bytes that the client sends before the
/// close.
async fn client_gone(read: &mut ReadHalf<'_>, came: &mut Vec<u8>) {
    while read.read_buf(came).await.is_ok_and(|bytes| bytes > 0) {}
}

/// Sends the head and the body of an answer, with all its failures and pauses.
async fn speak(
    write: &mut WriteHalf<'_>,
    answer: &Answer,
    keep: bool,
    stop: &CancellationToken,
) -> Result<(), AnswerStop> {
    let mut marks = answer.marks.iter().peekable();
    while let Some((_, mark)) = marks.next_if(|(place, _)| *place == Point::BeforeHead) {
        happen(mark, stop).await?;
    }
    write.write_all(&head::write(answer, keep)).await?;
    let end = answer.body.len();
    let mut at = 0;
    loop {
        while let Some((_, mark)) = marks.next_if(|(place, _)| *place <= Point::Byte(at)) {
            happen(mark, stop).await?;
        }
        if at == end {
            break;
        }
        let piece = answer.piece.map_or(end, |(bytes, _)| (at / bytes + 1).saturating_mul(bytes));
        let mark = match marks.peek() {
            Some((Point::Byte(place), _)) => *place,
            Some((Point::BeforeHead, _)) | None => end,
        };
        let next = min(end, min(piece, mark));
        send(write, answer.framing, answer.body.get(at..next).unwrap_or_default()).await?;
        at = next;
        if let Some((bytes, pause)) = answer.piece
            && at < end
            && at.is_multiple_of(bytes)
        {
            tokio::time::sleep(pause).await;
        }
    }
    // Marks at positions after the end take effect at the end.
    for (_, mark) in marks {
        happen(mark, stop).await?;
    }
    if answer.framing == BodyFraming::Chunked {
        write.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

async fn send(write: &mut WriteHalf<'_>, framing: BodyFraming, piece: &[u8]) -> io::Result<()> {
    match framing {
        BodyFraming::Length | BodyFraming::UntilClosed => write.write_all(piece).await,
        BodyFraming::Chunked => {
            // A single write, so that a chunk becomes one packet.
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            write.write_all(&chunk).await
        }
    }
}

async fn happen(mark: &AnswerMark, stop: &CancellationToken) -> Result<(), AnswerStop> {
    match mark {
        AnswerMark::Pause(time) => tokio::time::sleep(*time).await,
        AnswerMark::Wait(gate) => tokio::select! {
            () = gate.pass() => {}
            () = stop.cancelled() => return Err(AnswerStop::Shutdown),
        },
        AnswerMark::Stall => {
            stop.cancelled().await;
            return Err(AnswerStop::Shutdown);
        }
        AnswerMark::Cut => return Err(AnswerStop::Cut),
        AnswerMark::Reset => return Err(AnswerStop::Reset),
    }
    Ok(())
}
