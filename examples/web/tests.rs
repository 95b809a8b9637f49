//! The handlers over a real socket.

use std::{net::SocketAddr, time::Duration};

use harness::{
    Agent,
    agent::{Chats, Event, Numbered},
    journal::MemoryJournal,
    testing::{Gate, ScriptedProvider, reply},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A server that is stopped with it, and what it serves.
async fn serve(model: ScriptedProvider) -> (SocketAddr, Chats) {
    let agent = Agent::builder(model).build().expect("an agent");
    let chats = Chats::new(&agent, &MemoryJournal::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(axum::serve(listener, crate::app(chats.clone())).into_future());
    (address, chats)
}

async fn ask(to: SocketAddr, method: &str, path: &str, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(to).await.expect("a connection");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all((head + body).as_bytes()).await.expect("a request");
    socket
}

/// Asks as a browser does that has lost its connection after the event of this id.
async fn again(to: SocketAddr, seen: &str) -> reqwest::Response {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client.get(format!("http://{to}/chats/17")).header("last-event-id", seen);
    let response = request.send().await.expect("a response");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response
}

/// Reads to the end of the run.
async fn to_the_end(mut response: reqwest::Response) -> String {
    let mut text = Vec::new();
    loop {
        let piece = response.chunk().await.expect("more").expect("the end of the run");
        text.extend_from_slice(&piece);
        let so_far = String::from_utf8_lossy(&text);
        if so_far.split_once("run_ended").is_some_and(|(_, rest)| rest.contains('\n')) {
            return so_far.into_owned();
        }
    }
}

/// The ids of the events in a response, in order.
fn ids(response: &str) -> Vec<&str> {
    response.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
}

async fn whole(mut socket: TcpStream) -> String {
    let mut text = String::new();
    socket.read_to_string(&mut text).await.expect("a response");
    text
}

/// Reads to the end of the line in which this is said.
async fn until(socket: &mut TcpStream, words: &str) -> String {
    let mut text = Vec::new();
    let whole_line = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        text.split_once(words).is_some_and(|(_, rest)| rest.contains('\n'))
    };
    while !whole_line(&text) {
        let mut piece = [0; 1024];
        let length = socket.read(&mut piece).await.expect("more");
        assert!(length > 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..length]);
    }
    String::from_utf8(text).expect("text")
}

fn words(response: &str) -> String {
    let data = response.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.map(|data| serde_json::from_str::<Numbered>(data).expect("an event"));
    let texts = events.filter_map(|numbered| match numbered.event.as_event() {
        Event::Text(text) => Some(text.to_owned()),
        _ => None,
    });
    texts.collect()
}

async fn idle(chats: &Chats) {
    while chats.is_busy("17") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_message_is_answered_by_its_events() {
    let (address, _chats) = serve(ScriptedProvider::new([reply().text("It is so.")])).await;
    let response = whole(ask(address, "POST", "/chats/17", "Is it?").await).await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("content-type: text/event-stream"), "{response}");
    assert_eq!(words(&response), "It is so.");
}

#[tokio::test]
async fn a_closed_tab_stops_the_run_or_not_by_choice() {
    for (path, expected) in [("/chats/17", "Once upon a time."), ("/chats/17?stops=true", "Once ")]
    {
        let gate = Gate::new();
        let model = reply().text_in(["Once "]).wait_for(&gate).text_in(["upon a time."]);
        let (address, chats) = serve(ScriptedProvider::new([model])).await;
        let mut tab = ask(address, "POST", path, "Tell.").await;
        until(&mut tab, "Once ").await;
        drop(tab);
        if expected == "Once " {
            idle(&chats).await;
        }
        gate.open();
        idle(&chats).await;
        // The tab is opened again, and sees the run from its beginning.
        let mut tab = ask(address, "GET", "/chats/17", "").await;
        assert_eq!(words(&until(&mut tab, "run_ended").await), expected);
        chats.close().await;
    }
}

#[tokio::test]
async fn a_tab_that_connects_again_goes_on_after_the_last_event_that_it_has_seen() {
    let gate = Gate::new();
    let pieces = ["Once ", "upon ", "a ", "time ", "there "];
    let model = reply().text_in(pieces).wait_for(&gate).text_in(["was ", "a king."]);
    let (address, chats) = serve(ScriptedProvider::new([model])).await;
    let mut tab = ask(address, "POST", "/chats/17", "Tell.").await;
    let seen = until(&mut tab, "Once ").await;
    let first = ids(&seen).first().copied().expect("an id").to_owned();
    let (run, _) = first.rsplit_once('/').expect("a run and a number");
    // Others have joined the words meanwhile.
    let mut other = ask(address, "GET", "/chats/17", "").await;
    until(&mut other, "there ").await;
    let mut parts = Vec::new();
    for number in 1..=7 {
        parts.push((number, again(address, &format!("{run}/{number}")).await));
    }
    gate.open();
    let all = until(&mut other, "run_ended").await;
    assert!(all.contains("a king."), "{all}");
    let whole = "Once upon a time there was a king.";
    let mut texts = Vec::new();
    for (number, tab) in parts {
        let response = to_the_end(tab).await;
        let text = words(&response);
        assert!(whole.ends_with(&text), "{number}: {text}");
        let numbers = ids(&response).into_iter().map(|id| id.rsplit_once('/').expect("one").1);
        let numbers: Vec<u64> = numbers.map(|it| it.parse().expect("a number")).collect();
        assert!(numbers.first().is_some_and(|it| *it > number), "{number}: {numbers:?}");
        assert!(numbers.is_sorted_by(|one, next| one < next), "{number}: {numbers:?}");
        texts.push(text.len());
    }
    assert!(texts.is_sorted_by(|one, next| one >= next), "{texts:?}");
    assert_eq!(texts[0], whole.len());
    assert!(texts[6] < whole.len() - 10, "{texts:?}");
    // An id of no event that is kept begins with the last run.
    for id in ["run_0/3", "3", "run_0", &format!("{run}/x")] {
        assert_eq!(words(&to_the_end(again(address, id).await).await), whole, "{id}");
    }
    chats.close().await;
}

#[tokio::test]
async fn what_cannot_be_is_an_error_with_its_status() {
    let gate = Gate::new();
    let (address, chats) = serve(ScriptedProvider::new([reply().wait_for(&gate)])).await;
    let response = whole(ask(address, "POST", "/chats/a%0Ab", "Hello").await).await;
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    let response = whole(ask(address, "DELETE", "/chats/17", "").await).await;
    assert!(response.starts_with("HTTP/1.1 404"), "{response}");
    let mut tab = ask(address, "POST", "/chats/17", "Hello").await;
    until(&mut tab, "run_started").await;
    let response = whole(ask(address, "DELETE", "/chats/17", "").await).await;
    assert!(response.starts_with("HTTP/1.1 204"), "{response}");
    until(&mut tab, "cancelled").await;
    chats.close().await;
    let response = whole(ask(address, "POST", "/chats/17", "Hello").await).await;
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
}

#[test]
fn the_handlers_have_at_most_thirty_lines() {
    let lines = include_str!("handlers.rs").lines();
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    assert!(code <= 30, "{code} lines");
}

#[tokio::test]
async fn a_browser_gets_a_page_with_the_conversation() {
    let (address, _chats) = serve(ScriptedProvider::new([])).await;
    let mut page = String::new();
    ask(address, "GET", "/", "").await.read_to_string(&mut page).await.expect("text");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("text/html"), "{page}");
    assert!(page.contains("new EventSource(address)"), "{page}");
}
