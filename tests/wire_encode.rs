//! A long conversation is not written anew for each question.

use harness::{
    Message, Transcript,
    provider::{Request, Sent, Settings},
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
    anthropic::Options { model: "m".to_owned(), settings: Settings::default(), cache: true }
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
        let options = responses::Options { model: "m".to_owned(), settings: Settings::default() };
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
