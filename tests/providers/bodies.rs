//! Bodies of requests over a real connection: exact to the byte, again and again over the same
//! connection, also when a request is repeated, goes to another server, or is stopped in the
//! middle.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, Block, CancellationToken, Media, Message, Outcome, Role,
    policy::FallbackProvider,
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
};
use serde_json::{Value, json};

use crate::wire_providers::{WIRES, provider};

fn says(wire: &str, text: &str) -> Answer {
    match wire {
        "anthropic" => anthropic::body().text(text).answer(),
        "responses" => responses::body().text(text).answer(),
        _ => chat::body().text(text).answer(),
    }
}

/// Words of every kind, as long as the seed says: about the borders of what is planned and of what is sent at once.
fn words(random: &mut fastrand::Rng) -> String {
    let sizes = [1, 64, 127, 128, 129, 4_096, 16_384, 32_767, 32_768, 32_769, 65_536, 100_000];
    let size = sizes[random.usize(..sizes.len())];
    let letters: &[char] = match random.u32(..4) {
        0 => &['a'],
        1 => &['"', '\\', '\n', '\u{1}'],
        2 => &['é', '😀', '"', '\u{2028}'],
        _ => &['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', '"'],
    };
    let mut text: String = (0..size).map(|_| letters[random.usize(..letters.len())]).collect();
    text.push_str(&format!("#{}", random.u64(..)));
    text
}

/// All texts in a value.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.values().for_each(|member| texts(member, found)),
        _ => {}
    }
}

fn stands_in(body: &[u8], said: &[String]) {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let mut found = Vec::new();
    texts(&body, &mut found);
    for text in said {
        let stands = found.iter().any(|it| it.contains(text.as_str()));
        assert!(stands, "{} bytes are missing", text.len());
    }
}

#[tokio::test(start_paused = true)]
async fn each_body_is_exact_also_after_a_refusal_and_all_over_one_connection() {
    for wire in WIRES {
        let bodies = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
        let seen = Arc::clone(&bodies);
        let server = LoopbackServer::answering(move |request| {
            let length: usize = request.header("content-length").unwrap().parse().unwrap();
            assert_eq!(length, request.body().len());
            let mut seen = seen.lock().unwrap();
            seen.push(request.body().to_vec());
            match seen.len() % 3 {
                0 => Answer::json(529, &json!({"error": {"message": "overloaded"}})),
                _ => says(wire, "Noted."),
            }
        });
        let server = server.await.unwrap();
        let agent = Agent::builder(provider(wire, &server.url())).build().unwrap();
        let mut chat = agent.chat();
        let random = &mut fastrand::Rng::with_seed(7);
        let mut said = Vec::new();
        for turn in 0..8 {
            let (text, notes) = (words(random), words(random));
            said.extend([text.clone(), notes.clone()]);
            let notes = Media::from_text("text/plain", notes);
            let message = Message::new(Role::User, [Block::text(text), Block::Document(notes)]);
            let reply =
                chat.send(message).await.unwrap_or_else(|err| panic!("{wire}, {turn}: {err}"));
            assert_eq!(reply.text(), "Noted.");
            stands_in(bodies.lock().unwrap().last().unwrap(), &said);
        }
        let bodies = bodies.lock().unwrap();
        for (at, body) in bodies.iter().enumerate().filter(|(at, _)| at % 3 == 2) {
            assert!(*body == bodies[at + 1], "{wire}: a request that is repeated is the same one");
        }
        assert_eq!(server.connections(), 1, "{wire}");
        server.assert_finished();
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_goes_whole_to_the_next_server_of_another_wire() {
    for (first, second) in
        [("anthropic", "chat"), ("chat", "responses"), ("responses", "anthropic")]
    {
        let refuses = || Answer::json(529, &json!({"error": {"message": "overloaded"}}));
        let down = LoopbackServer::answering(move |_| refuses()).await.unwrap();
        let up = LoopbackServer::answering(move |_| says(second, "Noted.")).await.unwrap();
        let both =
            FallbackProvider::new(provider(first, &down.url())).or(provider(second, &up.url()));
        let agent = Agent::builder(both).build().unwrap();
        let mut chat = agent.chat();
        let random = &mut fastrand::Rng::with_seed(11);
        let mut said = Vec::new();
        for _ in 0..4 {
            said.push(words(random));
            assert_eq!(chat.send(said.last().unwrap().as_str()).await.unwrap().text(), "Noted.");
            stands_in(up.requests().last().unwrap().body(), &said);
        }
        assert!(!down.requests().is_empty());
        stands_in(down.requests().last().unwrap().body(), &said[..1]);
    }
}

/// The connection of a request that is given up is closed: no other one finds its rest there.
#[tokio::test]
async fn a_request_that_is_given_up_leaves_nothing_for_the_next_one() {
    use tokio::io::AsyncReadExt as _;
    for wire in WIRES {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let agent = Agent::builder(provider(wire, &url)).build().unwrap();
        let mut chat = agent.chat();
        let token = CancellationToken::new();
        let stop = token.clone();
        // Reads the beginning of a body that does not fit into the buffers of the system.
        let reads = async {
            let (mut stream, _) = silent.accept().await.unwrap();
            let mut some = vec![0; 100_000];
            stream.read_exact(&mut some).await.unwrap();
            stop.cancel();
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest).await;
            (some.len() + rest.len(), ended.is_ok())
        };
        let large = "\"".repeat(4_000_000);
        let run = chat.send(large.as_str()).cancel_with(token);
        let (stopped, (read, _)) = tokio::join!(run, reads);
        assert_eq!(stopped.unwrap_err().outcome(), Outcome::Cancelled, "{wire}");
        assert!(read < 2 * large.len(), "{wire}: {read} bytes came of a request that was given up");
        // The same conversation goes to a server that reads.
        let server = LoopbackServer::answering(move |_| says(wire, "Noted.")).await.unwrap();
        let agent = Agent::builder(provider(wire, &server.url())).build().unwrap();
        let mut chat = agent.chat_from(chat.transcript().clone());
        assert_eq!(chat.send("And now?").await.unwrap().text(), "Noted.");
        let body = server.requests()[0].body().to_vec();
        stands_in(&body, &[large, "And now?".to_owned()]);
    }
}

/// A server that takes all at once leaves the sender no pause, so the sender has to make one.
#[tokio::test]
async fn who_stops_a_run_is_heard_while_a_server_takes_all_that_comes() {
    use std::io::Read as _;
    // All wires send through the same transport, so one of them is enough by default.
    for wire in WIRES.into_iter().take(crate::times(1)) {
        let greedy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", greedy.local_addr().unwrap());
        let token = CancellationToken::new();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let reads = tokio::task::spawn_blocking(move || {
            let (mut stream, _) = greedy.accept().unwrap();
            let (mut room, mut read) = (vec![0; 4 << 20], 0);
            let mut begins = Some(begins);
            loop {
                match stream.read(&mut room) {
                    Ok(0) | Err(_) => return read,
                    Ok(count) => read += count,
                }
                if let Some(begins) = begins.take() {
                    let _ = begins.send(());
                }
            }
        });
        let agent = Agent::builder(provider(wire, &url)).build().unwrap();
        let mut chat = agent.chat();
        let large = "x".repeat(64 << 20);
        let stops = async {
            begun.await.unwrap();
            token.cancel();
        };
        let run = chat.send(large.as_str()).cancel_with(token.clone());
        let (stopped, ()) = tokio::join!(run, stops);
        assert_eq!(stopped.unwrap_err().outcome(), Outcome::Cancelled, "{wire}");
        let read = reads.await.unwrap();
        // Between two pauses of the sender some eight million bytes go, and as many may be in the buffers of the system.
        assert!(read < large.len() / 2, "{wire}: {read} bytes came of a request that was stopped");
    }
}
