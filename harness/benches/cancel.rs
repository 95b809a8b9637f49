//! Measures how soon a stop reaches the socket while a thousand other streams are active. The time is from `cancel` to
//! the moment at which the server sees that the connection is closed. The same run measures two comparisons. A bare
//! task waits for the same signal and closes its own connection. Another task drops an answer of the bare HTTP client,
//! whose connection is a separate task that has to wake up later. Compare the ratios.
//!
//!     cargo bench -p harness --bench cancel --features testing -- [STREAMS]
//!
//! A separate process sends the streams. Threads of this process read the measured connections, so that one clock
//! measures both ends.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use harness::{Agent, CancellationToken, ChatCompletionsProvider, RetryPolicy};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
};

/// The default number of streams that are active during the measurement.
const STREAMS: usize = 1000;
/// The pause between two events of each stream.
const PAUSE: Duration = Duration::from_millis(10);
/// The number of stops. Each of the three kinds of tasks gets a third of them.
const ROUNDS: usize = 600;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const EVENT: &str = concat!(
    r#"data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"#,
    r#""delta":{"content":" word"},"finish_reason":null}]}"#,
    "\n\n"
);

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.first().map(String::as_str) {
        Some("--serve") => serve(),
        Some("--measure") => {
            let streams = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(STREAMS);
            for threads in ["one thread", "two threads"] {
                measure(streams, threads);
            }
        }
        // A process may usually have only about a thousand sockets. The shell raises this limit to the maximum.
        number => {
            let this = env::current_exe().expect("the path of this program");
            let status = Command::new("sh")
                .args(["-c", "ulimit -n \"$(ulimit -Hn)\"; exec \"$0\" \"$@\""])
                .arg(this)
                .arg("--measure")
                .args(number)
                .status()
                .expect("a shell");
            assert!(status.success(), "the measurement failed");
        }
    }
}

fn runtime(threads: &str) -> Runtime {
    let mut builder = match threads {
        "one thread" => tokio::runtime::Builder::new_current_thread(),
        _ => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        }
    };
    builder.enable_all().build().expect("a runtime")
}

/// Answers every request with one event after another, until the client closes the connection.
fn serve() {
    runtime("one thread").block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { continue };
            tokio::spawn(async move {
                let mut asked = [0; 4096];
                let read = stream.read(&mut asked).await;
                if read.is_err() || stream.write_all(HEAD.as_bytes()).await.is_err() {
                    return;
                }
                while stream.write_all(EVENT.as_bytes()).await.is_ok() {
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
    });
}

/// A server in a separate process. Dropping this value ends the server.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server() -> (Server, SocketAddr) {
    let this = env::current_exe().expect("the path of this program");
    let mut child =
        Command::new(this).arg("--serve").stdout(Stdio::piped()).spawn().expect("a server");
    let mut line = String::new();
    let out = child.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("its address");
    (Server(child), line.trim().parse().expect("an address"))
}

/// An event on a measured connection.
enum Seen {
    /// The answer has begun.
    Begun,
    Closed(Instant),
}

/// Starts a server that answers each connection with one event, and reports when the client closes the connection.
fn watched() -> (SocketAddr, mpsc::Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, seen) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut buffer = [0; 4096];
            let asked = stream.read(&mut buffer);
            if asked.is_err() || stream.write_all(format!("{HEAD}{EVENT}").as_bytes()).is_err() {
                continue;
            }
            let _ = tell.send(Seen::Begun);
            while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
            if tell.send(Seen::Closed(Instant::now())).is_err() {
                return;
            }
        }
    });
    (address, seen)
}

fn agent(address: SocketAddr) -> Agent {
    let provider =
        ChatCompletionsProvider::builder().base_url(format!("http://{address}")).model("m");
    let provider = provider.build().expect("a provider").with_retry(RetryPolicy::none());
    Agent::builder(provider).build().expect("an agent")
}

fn measure(streams: usize, threads: &str) {
    let runtime = runtime(threads);
    let (_server, address) = server();
    let herd = agent(address);
    // A separate thread drives the runtime, as in an ordinary program.
    let over = CancellationToken::new();
    let handle = runtime.handle().clone();
    let driven = {
        let over = over.clone();
        thread::spawn(move || runtime.block_on(over.cancelled()))
    };
    for at in 0..streams {
        let herd = herd.clone();
        handle.spawn(async move { herd.run("Go.").await });
        if at % 100 == 99 {
            thread::sleep(Duration::from_millis(50));
        }
    }
    thread::sleep(Duration::from_secs(2));
    let (address, seen) = watched();
    let agent = agent(address);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().build().expect("a client");
    let (mut ours, mut returned, mut bare, mut woken, mut http) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let stop = CancellationToken::new();
        let token = stop.clone();
        let (heard, hears) = mpsc::channel();
        let task = if round % 3 == 2 {
            let client = client.clone();
            handle.spawn(async move {
                let asking = client.post(format!("http://{address}/")).body("{}").send();
                let mut answer = asking.await.expect("an answer");
                let _ = answer.chunk().await;
                let _ = heard.send(());
                tokio::select! {
                    _ = answer.chunk() => {}
                    () = token.cancelled() => {}
                }
                Instant::now()
            })
        } else if round % 3 == 0 {
            let agent = agent.clone();
            handle.spawn(async move {
                let mut chat = agent.chat();
                let run = chat.send("Go.").cancel_with(token);
                let run = run.on_event(move |event| {
                    if let harness::Event::Text(_) = event {
                        let _ = heard.send(());
                    }
                });
                run.await.expect_err("it was stopped");
                Instant::now()
            })
        } else {
            handle.spawn(async move {
                let mut stream = tokio::net::TcpStream::connect(address).await.expect("a server");
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("a request");
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let _ = heard.send(());
                tokio::select! {
                    _ = stream.read(&mut buffer) => {}
                    () = token.cancelled() => {}
                }
                Instant::now()
            })
        };
        assert!(matches!(seen.recv().expect("a server"), Seen::Begun));
        hears.recv().expect("the first word");
        // The wait differs from round to round, so that the stops are not synchronous with the streams.
        thread::sleep(Duration::from_micros(fastrand(round)));
        let begun = Instant::now();
        stop.cancel();
        let Seen::Closed(closed) = seen.recv().expect("a server") else { panic!("not closed") };
        let ended = handle.block_on(task).expect("a task");
        let (closed, ended) = (closed - begun, ended - begun);
        match round % 3 {
            0 => {
                ours.push(closed);
                returned.push(ended);
            }
            1 => {
                bare.push(closed);
                woken.push(ended);
            }
            _ => http.push(closed),
        }
    }
    over.cancel();
    let _ = driven.join();
    println!("beside {streams} streams, on {threads}: microseconds (median, nine in ten, largest)");
    for (name, times) in [
        ("a bare task wakes", &mut woken),
        ("a bare task closes its socket", &mut bare),
        ("the HTTP client closes its socket", &mut http),
        ("a chat closes its socket", &mut ours),
        ("a chat returns", &mut returned),
    ] {
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).map_or(0, Duration::as_micros);
        println!("  {name:<34} {:>8} {:>8} {:>8}", at(50), at(90), at(99));
    }
    let half = |times: &[Duration]| times[times.len() / 2].as_secs_f64();
    let chat = half(&ours);
    for (name, times) in [
        ("a bare task's wake-up", &woken),
        ("a bare task that closes its socket", &bare),
        ("the HTTP client that closes its socket", &http),
    ] {
        println!("  a chat that closes its socket, to {name}: {:.2}", chat / half(times));
    }
}

/// A wait between one and nine milliseconds, in microseconds. It differs from round to round.
fn fastrand(round: usize) -> u64 {
    1000 + (round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 8000
}
