//! Measures the cost of large answers and of many secrets: CPU time and memory at a size and at twice that size.
//!
//!     cargo bench -p harness --bench growth
//!
//! After `--`, a part of a name selects the cases whose names contain it. Each measurement is a separate process. The
//! time is the CPU time of its thread, so other programs affect it little. The memory is the peak during the case minus
//! the memory before the case. This program has no limits. The package `instructions` counts the instructions of the
//! same cases at small sizes, and checks limits.

use std::{
    env, fs,
    hint::black_box,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    iter,
    net::{SocketAddr, TcpListener},
    process::Command,
    thread,
};

use futures_util::{StreamExt as _, stream};
use harness::wire::WIRES;
use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, Limits, Message, OpenAIProvider, Provider,
    SideEffect, SideEffects, StreamEvent, Tool, Transcript,
    message::Block,
    policy::Guardrails,
    provider::{self, EventStream, Request, StopReason},
    secret::Secrets,
    wire,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[path = "../answers/mod.rs"]
mod answers;
#[path = "../rendered/mod.rs"]
mod rendered;

const MIB: usize = 1024 * 1024;

/// The number of measurements of a short turn.
const TURNS: u32 = 20;

/// The number of bytes that a socket returns at once.
const CHUNK: usize = 16 * 1024;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [run, case, size] = arguments.as_slice()
        && run == "--run"
    {
        run_case(case, size.parse().expect("a size"));
        return;
    }
    let wanted = arguments.iter().find(|word| !word.starts_with("--"));
    let mut cases =
        vec![("secrets/plain".to_owned(), 50_000), ("secrets/escaped".to_owned(), 50_000)];
    for wire in WIRES {
        for cut in ["1-byte-deltas", "4-kib-deltas", "1-byte-pieces"] {
            cases.push((format!("arguments/{cut}/{wire}"), 2 * MIB - 1024));
        }
        cases.push((format!("calls/{wire}"), 2048));
        for how in ["ready", "kept", "anew"] {
            cases.push((format!("turn/{how}/{wire}"), 5 * MIB));
        }
    }
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>6} {:>9} {:>9}",
        "case", "size", "ms", "of twice", "ratio", "peak MiB", "of twice"
    );
    for (case, size) in cases {
        if wanted.is_some_and(|wanted| !case.contains(wanted)) {
            continue;
        }
        let [one, two] = [size, 2 * size].map(|size| measure(&case, size));
        let ratio = two.0 / one.0;
        println!(
            "{case:<34} {size:>9} {:>9.1} {:>9.1} {ratio:>6.2} {:>9.1} {:>9.1}",
            one.0, two.0, one.1, two.1
        );
    }
}

/// The milliseconds and the MiB of a case: the minimum of three runs.
fn measure(case: &str, size: usize) -> (f64, f64) {
    let runs = (0..3).map(|_| {
        let run = Command::new(env::current_exe().expect("the path of this program"))
            .args(["--run", case, &size.to_string()])
            .output()
            .expect("the program runs");
        let told = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(run.status.success(), "{case}: {}", String::from_utf8_lossy(&run.stderr));
        let mut words = told.split_whitespace().map(|word| word.parse().expect("a number"));
        (words.next().expect("a time"), words.next().expect("a size"))
    });
    runs.reduce(|a: (f64, f64), b| (a.0.min(b.0), a.1.min(b.1))).expect("a run")
}

/// Runs a case and prints its cost.
fn count(run: impl FnOnce()) {
    // Resets the peak, because the preparation of the case may have used more memory.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = (time(), memory());
    run();
    tell(before, 1);
}

/// Prints the time per repetition since `before`, and the growth of the memory peak.
fn tell((before, held): (f64, f64), times: u32) {
    println!("{} {}", (time() - before) / f64::from(times), memory() - held);
}

/// The CPU time of this thread, in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn time() -> f64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanos: u64 = told.split(' ').next().and_then(|it| it.parse().ok()).expect("a number");
    nanos as f64 / 1e6
}

/// The peak memory of this process, in MiB.
fn memory() -> f64 {
    let told = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024.0
}

fn run_case(case: &str, size: usize) {
    match case.split('/').collect::<Vec<_>>().as_slice() {
        // `size` secrets, and a text with 100 bytes for each secret, which contains each secret once. Plain secrets
        // have one spelling. The other secrets contain characters that are escaped in JSON and in URLs.
        ["secrets", how] => {
            let plain = *how == "plain";
            let secret = |at: usize| match plain {
                true => format!("key-{:032x}", (at as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                false => answers::secret(at),
            };
            let text: String = (0..size).map(|at| format!("{:<100}", secret(at))).collect();
            count(|| {
                let secrets = (0..size).map(secret).fold(Secrets::default(), Secrets::with);
                assert_eq!(secrets.hide(&text).matches("[secret]").count(), size);
            });
        }
        // A whole run with one call whose arguments have `size` bytes.
        ["arguments", cut, wire] => {
            let (delta, piece) = match *cut {
                "1-byte-deltas" => (1, CHUNK),
                "4-kib-deltas" => (4096, CHUNK),
                _ => (4096, 1),
            };
            let text = "a {\"path\": [1, 2]} \\ line\n".repeat(size / 26);
            let mut json = json!({ "path": text }).to_string();
            // An escape sequence has two bytes, so it may have been cut in the middle.
            json.truncate(size - 2);
            while json.ends_with('\\') {
                json.pop();
            }
            json.push_str("\"}");
            run(Asked { wire: known(wire), calls: 1, json, delta, piece });
        }
        // A whole run with `size` calls in one answer.
        ["calls", wire] => {
            let json = r#"{"path":"src/lib.rs"}"#.to_owned();
            run(Asked { wire: known(wire), calls: size, json, delta: 8, piece: CHUNK });
        }
        ["turn", how, wire] => turn(how, wire, size),
        _ => panic!("no case is called `{case}`"),
    }
}

/// Measures a run in which the model makes these calls.
fn run(asked: Asked) {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let reads = SideEffects::of(&[SideEffect::Read]);
    let look =
        Tool::new("look", "Looks.", schema, reads, |_, _| Box::pin(async { Ok("seen".into()) }));
    let calls = asked.calls;
    let agent = Agent::builder(Model { asked })
        .tools([look])
        .guardrails(Guardrails::none())
        .run_limits(Limits::unlimited())
        .build()
        .expect("an agent");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    count(|| {
        let reply = runtime.block_on(agent.run("Go.").into_future()).expect("an answer");
        let results = reply.transcript().messages().iter().flat_map(|it| it.results());
        assert_eq!(results.filter(|result| !result.is_error()).count(), calls);
        black_box(reply);
    });
}

/// An answer with calls.
struct Asked {
    wire: &'static str,
    calls: usize,
    /// The arguments of each call.
    json: String,
    /// The number of bytes of the arguments in a delta (`delta`), and the number of bytes of the stream in a piece
    /// (`piece`).
    delta: usize,
    piece: usize,
}

/// Measures a turn over a socket in a conversation of `size` bytes. With `kept`, the encoded bytes of the previous turn
/// are reused. With `anew`, they are encoded again. `ready` is the minimum cost: a client sends prepared bytes and
/// reads the answer.
fn turn(how: &str, wire: &str, size: usize) {
    let address = serve(wire);
    let url = format!("http://{address}");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let line = "It says \"the quick brown fox\" and jumps over the lazy dog, again and again.\n";
    let words = line.repeat(10_240 / line.len());
    let mut said = Transcript::default();
    for at in 0..2 * (size / 20_480) {
        let message = match at % 2 {
            0 => Message::user(words.as_str()),
            _ => Message::assistant([Block::text(words.as_str())]),
        };
        said.push(message).expect("a message that fits");
    }
    let agent = match wire {
        "anthropic" => {
            AnthropicProvider::builder().api_key("k").base_url(url).build().map(Agent::builder)
        }
        "responses" => {
            OpenAIProvider::builder().api_key("k").base_url(url).build().map(Agent::builder)
        }
        "chat" => {
            ChatCompletionsProvider::builder().base_url(url).model("m").build().map(Agent::builder)
        }
        other => panic!("a wire without a bench: {other}"),
    };
    let agent = agent.expect("a provider").build().expect("an agent");
    let mut chat = agent.chat_from(said.clone());
    runtime.block_on(chat.send("And?").into_future()).expect("an answer");
    if how == "anew" {
        chat = agent.chat_from(chat.transcript().clone());
    }
    if how == "ready" {
        let request = Request::new(chat.transcript()).expect("a transcript that can be sent");
        let (model, settings) = ("m".to_owned(), Default::default());
        let body = match wire {
            "anthropic" => {
                let options =
                    wire::anthropic::Options { settings, ..wire::anthropic::Options::new(model) };
                wire::anthropic::encode(&request, &options)
            }
            "responses" => wire::responses::encode(
                &request,
                &wire::responses::Options { settings, ..wire::responses::Options::new(model) },
            ),
            "chat" => wire::chat::encode(&request, &wire::chat::Options::new(model)),
            other => panic!("a wire without a bench: {other}"),
        };
        let body = body.expect("a body");
        let head = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        return runtime.block_on(async {
            let mut socket = TcpStream::connect(address).await.expect("a connection");
            let (before, mut answer) = ((time(), memory()), vec![0; CHUNK]);
            for _ in 0..TURNS {
                socket.write_all(head.as_bytes()).await.expect("it is read");
                socket.write_all(&body).await.expect("it is read");
                assert_ne!(socket.read(&mut answer).await.expect("an answer"), 0);
            }
            tell(before, TURNS);
        });
    }
    let turns = if how == "kept" { TURNS } else { 1 };
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = (time(), memory());
    for _ in 0..turns {
        runtime.block_on(chat.send("And?").into_future()).expect("an answer");
    }
    tell(before, turns);
}

/// Starts a thread that answers each request with a short answer.
fn serve(wire: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let body = rendered::stream(wire, 3);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, answer) = (BufReader::new(socket.expect("a connection")), answer.clone());
            thread::spawn(move || answer_all(socket, answer.as_bytes()));
        }
    });
    address
}

fn answer_all(mut socket: BufReader<std::net::TcpStream>, answer: &[u8]) {
    let (mut length, mut line) = (0, String::new());
    while socket.read_line(&mut line).is_ok_and(|read| read > 0) {
        let header = line.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if header.is_empty() {
            io::copy(&mut (&mut socket).take(length), &mut io::sink()).expect("a body");
            socket.get_mut().write_all(answer).expect("it is read");
        }
        line.clear();
    }
}

fn known(wire: &str) -> &'static str {
    WIRES.into_iter().find(|known| *known == wire).expect("a wire of this name")
}

impl Asked {
    /// The stream, event by event.
    fn parts(&self) -> impl Iterator<Item = String> + '_ {
        let Self { wire, calls, json, delta, .. } = self;
        let part = |write: &dyn Fn(&mut String)| {
            let mut out = String::new();
            write(&mut out);
            out
        };
        let calls = (0..*calls).flat_map(move |at| {
            let deltas = (0..json.len()).step_by(*delta).map(move |from| {
                let piece = json.get(from..json.len().min(from + delta)).expect("ASCII");
                part(&|out| answers::delta(out, wire, at, piece))
            });
            let start = iter::once_with(move || part(&|out| answers::start(out, wire, at)));
            let end = iter::once_with(move || part(&|out| answers::end(out, wire, at, json)));
            start.chain(deltas).chain(end)
        });
        let begin = iter::once_with(move || part(&|out| answers::begin(out, wire)));
        let complete = iter::once_with(move || part(&|out| answers::complete(out, wire)));
        begin.chain(calls).chain(complete)
    }
}

struct Model {
    asked: Asked,
}

impl Provider for Model {
    fn name(&self) -> &str {
        self.asked.wire
    }

    fn model(&self) -> &str {
        "growth"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        if request.messages().len() > 1 {
            let text = StreamEvent::TextDelta { block: 0, text: "Done.".into() };
            let end = StreamEvent::Completed { stop: StopReason::Complete, usage: Box::default() };
            return stream::iter([Ok(text), Ok(end)]).boxed();
        }
        let limits = provider::ResponseSizeLimits::default();
        let asked = &self.asked;
        macro_rules! decoded {
            ($decoder:expr) => {{
                let mut decoder = $decoder;
                let pieces = asked.parts().flat_map(move |part| {
                    let from = (0..part.len()).step_by(asked.piece);
                    from.map(move |from| {
                        part.bytes().skip(from).take(asked.piece).collect::<Vec<_>>()
                    })
                });
                let events = pieces.map(Some).chain([None]).flat_map(move |piece| {
                    match piece {
                        Some(piece) => decoder.push(&piece).expect("a stream"),
                        None => decoder.finish().expect("a whole stream"),
                    }
                    iter::from_fn(|| decoder.next_event()).map(Ok).collect::<Vec<_>>()
                });
                stream::iter(events).boxed()
            }};
        }
        match asked.wire {
            "anthropic" => decoded!(wire::anthropic::decoder(limits)),
            "responses" => decoded!(wire::responses::decoder(limits)),
            "chat" => decoded!(wire::chat::decoder(limits, wire::chat::DecodeOptions::default())),
            other => panic!("a wire without a bench: {other}"),
        }
    }
}
