//! Measures what a person notices, on the clock: how soon a program has sent its request and shows the first word, and
//! how long a turn of many calls takes over a slow link.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};

use crate::{
    figures::Figure,
    folder::median,
    process::{Programs, Server, Worker, itself, take_turns},
    rendered,
    sections::keep,
    subject::Failure,
};

/// The number of times that each program asks.
const PROCESSES: usize = 51;
/// The number of calls in a turn, and the time that a byte needs through the slow link and back.
const CALLS: usize = 20;
const ROUND_TRIP: Duration = Duration::from_millis(25);
const TURNS: usize = 5;

/// Measures the first word of a program beside `curl`, which sends the same request.
pub fn first_word() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let base = format!("http://{}", listener.local_addr()?);
    let harness = || -> Result<Command, Failure> {
        let mut command = itself()?;
        command.args(["say", "chat", &base]);
        Ok(command)
    };
    let (_, body) = FirstWord::measure(harness()?, &listener)?;
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["--silent", "--no-buffer", "--header", "content-type: application/json"]);
        command.args(["--data-binary", &body, &format!("{base}/v1/chat/completions")]);
        command
    };
    let (mut of_harness, mut of_curl) = (Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        of_harness.push(FirstWord::measure(harness()?, &listener)?.0);
        of_curl.push(FirstWord::measure(curl(), &listener)?.0);
    }
    let figure = |subject, words: &[FirstWord]| {
        let value = |of: fn(&FirstWord) -> f64| median(&words.iter().map(of).collect::<Vec<_>>());
        let values = [
            ("ms to the request", value(|word| word.request)),
            ("ms to the first word", value(|word| word.shown)),
        ];
        Figure::new("first_word", "chat", subject, &values)
    };
    keep("first_word", vec![figure("curl", &of_curl), figure("harness", &of_harness)])
}

/// The milliseconds from the start of a process.
struct FirstWord {
    /// Until the server has the first byte of the request.
    request: f64,
    /// Until the process has written the first byte to its output.
    shown: f64,
}

impl FirstWord {
    /// Starts the process, answers its request, and waits for its end. Returns also the body of the request.
    fn measure(mut command: Command, listener: &TcpListener) -> Result<(Self, String), Failure> {
        let begun = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut output = child.stdout.take().ok_or("no output")?;
        let (socket, _) = listener.accept()?;
        let mut first = [0];
        socket.peek(&mut first)?;
        let request = milliseconds(begun);
        let body = answer(socket)?;
        output.read_exact(&mut first)?;
        let shown = milliseconds(begun);
        std::io::copy(&mut output, &mut std::io::sink())?;
        if !child.wait()?.success() {
            return Err("a program failed".into());
        }
        Ok((Self { request, shown }, body))
    }
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

/// Reads a request, and answers it with a short stream. Returns the body of the request.
fn answer(socket: TcpStream) -> Result<String, Failure> {
    let mut reader = BufReader::new(socket);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let stream = rendered::stream("chat", 20);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    reader.get_mut().write_all(format!("{head}{stream}").as_bytes())?;
    Ok(String::from_utf8(body)?)
}

/// Measures a turn of [`CALLS`] calls, one in each answer, over a slow link.
pub fn slow_link() -> Result<(), Failure> {
    const SUBJECTS: [&str; 5] = [
        "async-openai 0.43, by hand",
        "harness",
        "genai 0.7, by hand",
        "llm 1.3, by hand",
        "rig 0.46",
    ];
    let programs = Programs::build()?;
    let server = Server::start()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let link =
        runtime.block_on(open_link(server.address.trim_start_matches("http://").to_owned()))?;
    let base = format!("http://{link}/calls/{CALLS}");
    let mut workers = Vec::new();
    for subject in SUBJECTS {
        let words = ["work", subject, "chat", "0", &base];
        match Worker::start(programs.of(subject), &words, 1) {
            Ok(worker) => workers.push((subject, worker)),
            Err(err) => println!("{subject} is left out: {err}"),
        }
    }
    // What the link alone takes, on an open connection: one round trip for each request.
    let least = ROUND_TRIP.as_secs_f64() * 1e3 * (CALLS + 1) as f64;
    let figures = take_turns(workers, TURNS)?.into_iter().map(|(subject, turn)| {
        let elapsed = turn.elapsed / 1e6;
        let values = [("ms", elapsed), ("\u{d7} the link", elapsed / least)];
        Figure::new("slow_link", "chat", subject, &values)
    });
    keep("slow_link", figures.collect())
}

/// Forwards connections to the address. Bytes arrive half of [`ROUND_TRIP`] later, in both directions. Returns its own
/// address. It ends with the runtime.
async fn open_link(to: String) -> Result<std::net::SocketAddr, Failure> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let to = to.clone();
            tokio::spawn(async move {
                // The handshake.
                tokio::time::sleep(ROUND_TRIP).await;
                let far = tokio::net::TcpStream::connect(to).await?;
                near.set_nodelay(true)?;
                far.set_nodelay(true)?;
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                tokio::try_join!(delay(near_in, far_out), delay(far_in, near_out))
            });
        }
    });
    Ok(address)
}

/// Forwards bytes, each after half of [`ROUND_TRIP`].
async fn delay(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
) -> std::io::Result<()> {
    let (send, mut receive) = mpsc::unbounded_channel();
    let read = async move {
        loop {
            let mut bytes = Vec::with_capacity(64 * 1024);
            let read = from.read_buf(&mut bytes).await?;
            if read == 0
                || send.send((tokio::time::Instant::now() + ROUND_TRIP / 2, bytes)).is_err()
            {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = receive.recv().await {
            tokio::time::sleep_until(due).await;
            to.write_all(&bytes).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write).map(|_| ())
}
