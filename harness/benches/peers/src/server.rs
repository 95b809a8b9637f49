//! The server. It accepts every request and answers with a prepared stream. Its CPU time counts for
//! no subject. The beginning of the path selects the answer:
//!
//! - no special path: 2,000 text deltas at once;
//! - `/short`: one text delta;
//! - `/paced/N`: 200 text deltas at intervals of five milliseconds, as soon as N streams are open;
//! - `/held/N`: 20 text deltas at intervals of a quarter of a second, as soon as N streams are open;
//! - `/chosen`: the body that was last sent to `/choose`, at once;
//! - `/turn`: a call of a tool, or forty text deltas if the request contains the result of a tool;
//! - `/calls/N`: a call of a tool, or forty text deltas if the request contains N results (Chat Completions alone).

use std::{collections::HashMap, io::Read, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream},
    sync::{Mutex, watch},
};

use crate::{
    floor,
    herd::raise_file_limit,
    rendered,
    served::turn,
    subject::{Failure, WIRES},
};

/// The number of text deltas in an answer.
pub const DELTAS: usize = 2_000;

/// The kind of an answer.
#[derive(Clone, Copy)]
enum Manner {
    /// This number of deltas at once.
    Whole(usize),
    /// This number of deltas, at this interval.
    Paced(usize, Duration),
    Choose,
    Chosen,
    Turn,
    /// Calls until the request contains this number of results.
    Calls(usize),
}

fn manner(path: &str) -> Manner {
    match path {
        path if path.starts_with("/short") => Manner::Whole(1),
        path if path.starts_with("/paced/") => Manner::Paced(200, Duration::from_millis(5)),
        path if path.starts_with("/held/") => Manner::Paced(20, Duration::from_millis(250)),
        path if path.starts_with("/choose") => Manner::Choose,
        path if path.starts_with("/chosen") => Manner::Chosen,
        path if path.starts_with("/turn") => Manner::Turn,
        path if path.starts_with("/calls/") => Manner::Calls(
            path.split('/').nth(2).and_then(|number| number.parse().ok()).unwrap_or(1),
        ),
        _ => Manner::Whole(DELTAS),
    }
}

/// The text of the answer at this address. Fails if the text is not known in advance.
pub fn expected(wire: &str, base: &str) -> Result<String, Failure> {
    let host = base.strip_prefix("http://").ok_or("no address")?;
    let path = host.find('/').map_or("", |at| host.get(at..).unwrap_or_default());
    match manner(path) {
        Manner::Whole(deltas) | Manner::Paced(deltas, _) => {
            floor::text(wire, &rendered::stream(wire, deltas))
        }
        Manner::Turn | Manner::Calls(_) => {
            let [_, answer] = turn::answers(wire);
            floor::text(wire, &answer.body)
        }
        Manner::Choose | Manner::Chosen => Err("nobody knows what will be chosen".into()),
    }
}

/// The prepared answers, and the streams that wait for other streams.
struct Shared {
    whole: HashMap<(usize, usize), Vec<u8>>,
    paced: HashMap<(usize, usize), Vec<Vec<u8>>>,
    /// The two answers of a turn, for each wire.
    turns: Vec<[Vec<u8>; 2]>,
    chosen: Mutex<Arc<Vec<u8>>>,
    /// The number of open streams for each path.
    open: Mutex<HashMap<String, watch::Sender<usize>>>,
}

/// Serves until the standard input of this process is closed.
pub fn serve() -> Result<(), Failure> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let turn = |wire| turn::answers(wire).map(|each| answer(&each.body));
    let mut shared = Shared {
        whole: HashMap::new(),
        paced: HashMap::new(),
        turns: WIRES.into_iter().map(turn).collect(),
        chosen: Mutex::default(),
        open: Mutex::default(),
    };
    for (at, wire) in WIRES.into_iter().enumerate() {
        for deltas in [DELTAS, 1] {
            shared.whole.insert((at, deltas), answer(&rendered::stream(wire, deltas)));
        }
        for deltas in [200, 20] {
            shared.paced.insert((at, deltas), chunks(&rendered::stream(wire, deltas)));
        }
    }
    let shared = Arc::new(shared);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind("127.0.0.1:0".parse()?)?;
        let listener = socket.listen(16 * 1024)?;
        println!("{}", listener.local_addr()?);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::spawn(connection(socket, Arc::clone(&shared)));
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

/// Splits an answer into pieces: the head, and one chunk for each event. The last piece also
/// contains the end.
fn chunks(body: &str) -> Vec<Vec<u8>> {
    const HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut chunks = vec![HEAD.to_vec()];
    for event in body.split_inclusive("\n\n") {
        chunks.push(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes());
    }
    if let Some(last) = chunks.last_mut() {
        last.extend_from_slice(b"0\r\n\r\n");
    }
    chunks
}

async fn connection(socket: TcpStream, shared: Arc<Shared>) -> std::io::Result<()> {
    // The bodies of most requests are not stored. Requests of the many concurrent streams have only
    // small bodies.
    let mut socket = BufReader::with_capacity(16 * 1024, socket);
    while let Some((path, body)) = request(&mut socket).await? {
        let wire = match () {
            () if path.contains("/messages") => 0,
            () if path.contains("/responses") => 1,
            () => 2,
        };
        match manner(&path) {
            Manner::Whole(deltas) => {
                let answer = shared.whole.get(&(wire, deltas)).map(Vec::as_slice);
                socket.get_mut().write_all(answer.unwrap_or_default()).await?;
            }
            Manner::Choose => {
                *shared.chosen.lock().await = Arc::new(answer(&String::from_utf8_lossy(&body)));
                socket.get_mut().write_all(&answer("")).await?;
            }
            Manner::Chosen => {
                let answer = Arc::clone(&*shared.chosen.lock().await);
                socket.get_mut().write_all(&answer).await?;
            }
            Manner::Turn => {
                let at = usize::from(turn::is_second(&body));
                let answer = shared.turns.get(wire).and_then(|answers| answers.get(at));
                socket.get_mut().write_all(answer.map_or(&[], Vec::as_slice)).await?;
            }
            Manner::Calls(calls) => {
                let results = turn::count_results(&body);
                let next = if results < calls { turn::call(results) } else { turn::answer() };
                socket.get_mut().write_all(&answer(&next)).await?;
            }
            Manner::Paced(deltas, pace) => {
                let chunks = shared.paced.get(&(wire, deltas)).map(Vec::as_slice);
                let turn = gate(&path, &shared).await;
                // The streams begin at different times, so that not all events are sent at the same
                // moment.
                let offset = pace.mul_f64(turn as f64 % 97.0 / 97.0);
                tokio::time::sleep(offset).await;
                let mut ticks = tokio::time::interval(pace);
                for chunk in chunks.unwrap_or_default() {
                    ticks.tick().await;
                    socket.get_mut().write_all(chunk).await?;
                }
            }
        }
    }
    Ok(())
}

/// Waits until the number of streams in the path are open. Returns the position of this stream
/// among them.
async fn gate(path: &str, shared: &Shared) -> usize {
    let wanted = path.split('/').nth(2).and_then(|number| number.parse().ok()).unwrap_or(1);
    let (mut open, turn) = {
        let mut gates = shared.open.lock().await;
        let gate = gates.entry(path.to_owned()).or_insert_with(|| watch::Sender::new(0));
        gate.send_modify(|open| *open += 1);
        let turn = *gate.borrow();
        let open = gate.subscribe();
        if turn >= wanted {
            gates.remove(path);
        }
        (open, turn)
    };
    // This fails if the gate was removed. In that case, the gate is open.
    let _ = open.wait_for(|open| *open >= wanted).await;
    turn
}

/// Reads a whole request. Returns its path, and its body if the server needs it. `None` if the
/// connection is closed.
async fn request(socket: &mut BufReader<TcpStream>) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let (mut line, mut length, mut chunked, mut path) = (String::new(), 0, false, String::new());
    loop {
        line.clear();
        if socket.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if path.is_empty() {
            path = header.split(' ').nth(1).unwrap_or_default().to_owned();
        } else if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        } else if header.starts_with("transfer-encoding:") {
            chunked = true;
        }
    }
    if chunked {
        eprintln!("a body without a length cannot be read: {path}");
        return Ok(None);
    }
    let is_read = matches!(manner(&path), Manner::Choose | Manner::Turn | Manner::Calls(_));
    let mut body = Vec::new();
    while length > 0 {
        let bytes = socket.fill_buf().await?;
        let read = bytes.len().min(length);
        if read == 0 {
            return Ok(None);
        }
        if is_read {
            body.extend_from_slice(bytes.get(..read).unwrap_or_default());
        }
        socket.consume(read);
        length -= read;
    }
    Ok(Some((path, body)))
}

/// Reads a whole answer, whose length is in its head. Returns the number of bytes.
pub async fn read_answer(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    buffer.clear();
    let mut wanted = None;
    let mut seen = 0;
    let mut chunk = vec![0; 64 * 1024];
    loop {
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
