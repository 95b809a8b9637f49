//! Many readers, many runs, and large bodies.

use std::{fs, time::Duration};

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{Chunks, Service, numbers, said, words};

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
    let list: Value =
        serde_json::from_str(&service.get("/api/chats").await.text().await.unwrap()).unwrap();
    assert_eq!(list["conversations"], json!([]));
}
