//! Many readers, many runs, and large bodies.

use std::{fs, time::Duration};

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{Chunks, Service, numbers, said, texts, words};

/// How many kilobytes of memory the process has had at most.
fn most_memory(service: &Service) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", service.child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_readers_get_each_event_once_and_in_order() {
    let service = Service::start();
    let mut first = Chunks::of(service.say("a", "count to 60").await);
    first.until_words("1 ").await;
    let before = most_memory(&service);
    // Some never read.
    let mut idle = Vec::new();
    for _ in 0..50 {
        let mut socket = TcpStream::connect(&service.address).await.expect("a connection");
        let head = "GET /api/chat/a/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
        socket.write_all(head.as_bytes()).await.expect("a request");
        idle.push(socket);
    }
    let read = async |at: u64| {
        // They come one after the other, while the run goes on.
        tokio::time::sleep(Duration::from_millis(at * 10)).await;
        let mut chunks = Chunks::of(service.get("/api/chat/a/stream").await);
        let all = chunks.until("finish").await;
        let places: Vec<(u64, u64)> = chunks.ids.iter().map(|id| place(id)).collect();
        (words(&all), places, all)
    };
    let readers = join_all((0..450).map(read)).await;
    for (words, places, all) in &readers {
        assert_eq!(*words, numbers(60));
        assert!(places.is_sorted(), "{places:?}");
        for once in ["start", "text-start", "text-end", "finish"] {
            assert_eq!(all.iter().filter(|it| it["type"] == once).count(), 1, "{once}: {all:#?}");
        }
    }
    if let Some((before, after)) = before.zip(most_memory(&service)) {
        assert!(after < before + 100_000, "{before} kB before, {after} kB after");
    }
}

/// How many chunks and bytes come before the one with this id.
fn place(id: &str) -> (u64, u64) {
    let (chunks, bytes) =
        id.rsplit_once('/').and_then(|(_, it)| it.split_once('.')).expect("a place");
    (chunks.parse().expect("a number"), bytes.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn more_runs_than_may_go_on_at_once_are_refused() {
    let service = Service::start();
    let runs = (0..64).map(async |at: u32| {
        let mut chunks = Chunks::of(service.say(&format!("run-{at}"), "count to 1000").await);
        chunks.until_words("1 ").await;
        chunks
    });
    let runs = join_all(runs).await;
    let refused = service.say("one-more", "Hello").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.text().await.unwrap(), "64 runs at once are the limit: try again later");
    service.post("/api/chat/run-7/stop", &json!({})).await;
    service.idle("run-7").await;
    // The place of a run is free when its end is written.
    while service.say("one-more", "Hello").await.status() != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(runs);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let service = Service::start();
    // A little more than it takes: the server has read all of it when it answers, and does not break the connection.
    let response = service.post("/api/chat", &said("a", &"x".repeat(4 << 20))).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let text = response.text().await.unwrap();
    assert_eq!(text, "the body of the request has more than 4194304 bytes");
    let list: Value =
        serde_json::from_str(&service.get("/api/chats").await.text().await.unwrap()).unwrap();
    assert_eq!(list["conversations"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_run_that_goes_on_takes_no_place_of_another_run() {
    let service = Service::start();
    let mut waiting = Vec::new();
    for id in ["a", "b", "c"] {
        let mut run = Chunks::of(service.say(id, "count to 1000").await);
        run.until_words("1 ").await;
        waiting.push(run);
        for _ in 0..32 {
            let resumed = service.post("/api/chat", &json!({"id": id, "messages": []})).await;
            waiting.push(Chunks::of(resumed));
        }
        let more = service.post("/api/chat", &json!({"id": id, "messages": []})).await;
        assert_eq!(more.status(), StatusCode::CONFLICT);
        assert!(more.text().await.unwrap().contains("busy"));
    }
    let mut other = Chunks::of(service.say("d", "Hello").await);
    assert!(words(&other.until("finish").await).contains("Hello"));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_may_be_open_are_refused() {
    let service = Service::start();
    let mut first = Chunks::of(service.say("a", "count to 1000").await);
    first.until_words("1 ").await;
    let open = async |_| {
        let mut chunks = Chunks::of(service.get("/api/chat/a/stream").await);
        chunks.until_words("1 ").await;
        chunks
    };
    let mut streams = Vec::new();
    for _ in 0..9 {
        streams.extend(join_all((0..111).map(open)).await);
    }
    for path in ["/api/chat/a/stream", "/api/chat/a/stream?follow", "/api/ag-ui/a"] {
        let refused = service.get(path).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        let text = refused.text().await.unwrap();
        assert_eq!(text, "1000 streams at once are the limit: try again later");
    }
    let refused = service.say("b", "Hello").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    // The rest of the service goes on, and a closed tab makes room.
    assert_eq!(texts(&service.messages("a").await), ["count to 1000"]);
    drop(streams);
    while service.get("/api/chat/a/stream").await.status() != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_many_streams_leaves_places_to_others() {
    let service = Service::with_tokens(Some("ada:secret-of-ada,ben:secret-of-ben"));
    let follow = async |name: &str| {
        let request = service.client.get(service.url("/api/chat/a/stream?follow"));
        let request = request.header("authorization", format!("Bearer secret-of-{name}"));
        request.send().await.expect("a response")
    };
    let streams = join_all((0..200).map(|_| follow("ada"))).await;
    assert!(streams.iter().all(|stream| stream.status() == StatusCode::OK));
    let refused = follow("ada").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = refused.text().await.unwrap();
    assert_eq!(text, "200 streams of a user at once are the limit: try again later");
    assert_eq!(follow("ben").await.status(), StatusCode::OK);
    drop(streams);
    while follow("ada").await.status() != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_head_that_comes_slowly_closes_its_connection() {
    let service = Service::start();
    let connect = async || TcpStream::connect(&service.address).await.expect("a connection");
    let (mut silent, mut slow) = (connect().await, connect().await);
    let begun = std::time::Instant::now();
    let trickle = async {
        // As long as the other side takes something, it gets more.
        while slow.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if begun.elapsed() > Duration::from_secs(60) {
                return false;
            }
        }
        true
    };
    let mut nothing = Vec::new();
    let (read, closed) = tokio::join!(silent.read_to_end(&mut nothing), trickle);
    assert!(read.is_ok() && closed, "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn not_all_pages_of_traces_are_made_at_once() {
    let service = Service::start();
    Chunks::of(service.say("a", "weather in Oslo").await).until("finish").await;
    // A file of traces that takes a while to read.
    let file = service.folder.path().join("trace.jsonl");
    let line = fs::read_to_string(&file).unwrap();
    let many = line.repeat((20 << 20) / line.len().max(1));
    fs::write(&file, many).unwrap();
    let all = join_all((0..16).map(|_| service.get("/api/chat/a/trace"))).await;
    let mut refused = 0;
    for response in all {
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            refused += 1;
            let text = response.text().await.unwrap();
            assert_eq!(text, "2 pages of traces at once are the limit: try again later");
        }
    }
    assert!(refused > 0);
    // A file that is too large is not read.
    fs::File::options().write(true).open(&file).unwrap().set_len((64 << 20) + 1).unwrap();
    let response = loop {
        let response = service.get("/api/chat/a/trace").await;
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            break response;
        }
    };
    assert_eq!(response.status(), StatusCode::INSUFFICIENT_STORAGE);
    assert!(response.text().await.unwrap().contains("more than 67108864 bytes"));
}
