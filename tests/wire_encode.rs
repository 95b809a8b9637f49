//! A long conversation is not written anew for each question.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use harness::{
    Agent, Message, Provider, StopReason, StreamEvent, Transcript,
    provider::{EventStream, Request, Sent},
    wire::{anthropic, chat, responses},
};

/// A conversation of this many messages of about 1 KiB.
fn conversation(messages: usize) -> Transcript {
    let mut transcript = Transcript::default();
    for n in 0..messages {
        transcript.push(Message::user(format!("{n} {}", "word ".repeat(200)))).unwrap();
    }
    transcript
}

fn options() -> anthropic::Options {
    anthropic::Options::new("m")
}

#[test]
fn what_was_sent_is_the_same_bytes_in_memory_and_not_written_again() {
    let sent = Sent::new();
    let mut transcript = conversation(500);
    let pieces = |transcript: &Transcript| {
        let request = Request::new(transcript).unwrap().with_sent(Some(&sent));
        anthropic::encode_pieces(&request, &options()).unwrap().into_pieces()
    };
    let first = pieces(&transcript);
    transcript.push(Message::user("One more.")).unwrap();
    let second = pieces(&transcript);
    assert_eq!(second[1].as_ptr(), first[1].as_ptr(), "it is shared");
    let new: usize = second[2..].iter().map(|piece| piece.len()).sum();
    assert!(new < 1000, "{new} bytes are new");
}

#[test]
fn what_does_not_fit_is_written_anew() {
    let sent = Sent::new();
    let transcript = conversation(3);
    let other = conversation(3);
    let anthropic = |transcript: &Transcript, sent: Option<&Sent>| {
        let request = Request::new(transcript).unwrap().with_sent(sent);
        anthropic::encode(&request, &options()).unwrap()
    };
    let chat = |system: Option<&str>, sent: Option<&Sent>| {
        let request = Request::new(&transcript).unwrap().with_system(system).with_sent(sent);
        chat::encode(&request, &chat::Options::new("m")).unwrap()
    };
    let responses = |sent: Option<&Sent>| {
        let request = Request::new(&transcript).unwrap().with_sent(sent);
        let options = responses::Options::new("m");
        responses::encode(&request, &options).unwrap()
    };
    for _ in 0..2 {
        assert_eq!(anthropic(&transcript, Some(&sent)), anthropic(&transcript, None));
        // Another conversation, other wires, and a system prompt that leads on one of them.
        assert_eq!(anthropic(&other, Some(&sent)), anthropic(&other, None));
        assert_eq!(responses(Some(&sent)), responses(None));
        assert_eq!(chat(None, Some(&sent)), chat(None, None));
        assert_eq!(chat(Some("Be brief."), Some(&sent)), chat(Some("Be brief."), None));
        // A shorter conversation, as after a fork.
        let short = conversation(1);
        assert_eq!(anthropic(&short, Some(&sent)), anthropic(&short, None));
    }
    sent.forget();
    assert_eq!(sent.size(), 0);
}

/// Writes each request, and notes how much of it was kept from the one before.
struct Writes(Arc<Mutex<Vec<usize>>>);

impl Provider for Writes {
    fn name(&self) -> &str {
        "writes"
    }

    fn model(&self) -> &str {
        "m"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        self.0.lock().unwrap().push(request.sent().map_or(0, Sent::size));
        anthropic::encode_pieces(&request, &options()).unwrap();
        let text = StreamEvent::TextDelta { block: 0, text: "Yes.".into() };
        let end = StreamEvent::Completed { stop: StopReason::Complete, usage: Box::default() };
        stream::iter([Ok(text), Ok(end)]).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_chat_that_is_idle_gives_its_bytes_back_and_one_that_goes_on_does_not() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let agent = Agent::builder(Writes(Arc::clone(&kept))).build().unwrap();
    let mut chat = agent.chat_from(conversation(100));
    for wait in [0, 4, 4, 6, 0] {
        chat.send("And?").await.unwrap();
        tokio::time::sleep(Duration::from_secs(wait)).await;
    }
    chat.send("And?").await.unwrap();
    let kept: Vec<bool> = kept.lock().unwrap().iter().map(|bytes| *bytes > 100_000).collect();
    assert_eq!(kept, [false, true, true, true, false, true]);
}

#[test]
fn what_waits_for_a_chat_to_be_idle_ends_with_it_and_moves_with_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (one, other) = (runtime(), runtime());
    let settled = |runtime: &tokio::runtime::Runtime| {
        runtime.block_on(tokio::task::yield_now());
        runtime.metrics().num_alive_tasks()
    };
    let kept = Arc::new(Mutex::new(Vec::new()));
    let mut chat =
        Agent::builder(Writes(Arc::clone(&kept))).build().unwrap().chat_from(conversation(100));
    one.block_on(async { chat.send("One?").await.unwrap() });
    assert_eq!(settled(&one), 1);
    other.block_on(async { chat.send("Two?").await.unwrap() });
    assert_eq!((settled(&one), settled(&other)), (0, 1));
    // A runtime that has ended takes nothing from the chat but the wait.
    drop(other);
    one.block_on(async { chat.send("Three?").await.unwrap() });
    assert_eq!(settled(&one), 1);
    drop(chat);
    assert_eq!(settled(&one), 0);
    assert_eq!(kept.lock().unwrap().len(), 3);
}

#[test]
fn a_conversation_that_no_vendor_takes_is_not_kept_in_bytes() {
    let sent = Sent::new();
    let mut transcript = Transcript::default();
    for (bytes, kept) in [(30, true), (4, false)] {
        transcript.push(Message::user("x".repeat(bytes * 1024 * 1024))).unwrap();
        let request = Request::new(&transcript).unwrap().with_sent(Some(&sent));
        let body = anthropic::encode_pieces(&request, &options()).unwrap();
        assert!(body.size() > bytes * 1024 * 1024);
        assert_eq!(sent.size() > 0, kept);
    }
}
