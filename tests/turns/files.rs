//! A conversation goes on although its files are more than a server takes in one request.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, AnthropicProvider, Block, Media, Message, Role, Tool, ToolContent,
    client::ChatCompletionsProvider,
    journal::{Fact, Journal as _, MemoryJournal},
    models::Models,
    policy::{Guardrails, Limits, RetryPolicy},
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
    tool::{SideEffect, SideEffects},
    wire::WIRES,
};
use serde_json::json;

use super::{provider, refuses};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";
const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);

/// Each picture is another one: its last bytes are its number.
fn picture(number: usize) -> Media {
    Media::from_bytes("image/png", [PNG, format!("{number:04}").as_bytes()].concat())
}

fn camera() -> Tool {
    let taken = AtomicUsize::new(0);
    Tool::new("look", "Looks.", json!({"type": "object"}), READ, move |_, _| {
        let number = taken.fetch_add(1, Ordering::Relaxed);
        let seen = vec![ToolContent::from("Seen."), ToolContent::Image(picture(number))];
        Box::pin(async move { Ok(seen.into()) })
    })
}

fn pictures(body: &str) -> usize {
    body.matches("iVBORw0KGgo").count()
}

fn asks(wire: &str, number: usize) -> Answer {
    let id = format!("call_{number}");
    match wire {
        "anthropic" => anthropic::body().call(&id, "look", json!({})).answer(),
        "responses" => responses::body().call(&id, "look", json!({})).answer(),
        _ => chat::body().call(&id, "look", json!({})).answer(),
    }
}

fn says(wire: &str) -> Answer {
    match wire {
        "anthropic" => anthropic::body().text("All seen.").answer(),
        "responses" => responses::body().text("All seen.").answer(),
        _ => chat::body().text("All seen.").answer(),
    }
}

/// A server that takes so many pictures, and asks for another one so many times.
async fn server(
    wire: &'static str,
    most: usize,
    turns: usize,
    refused: impl Fn(usize) -> Answer + Send + 'static,
) -> (LoopbackServer, Arc<Mutex<Vec<String>>>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let mut number = 0;
    let server = LoopbackServer::answering(move |request| {
        let body = request.text();
        let count = pictures(&body);
        if count > most {
            return refused(count);
        }
        seen.lock().unwrap().push(body);
        number += 1;
        if number <= turns { asks(wire, number) } else { says(wire) }
    });
    (server.await.unwrap(), bodies)
}

fn cleared(facts: &[harness::journal::Envelope]) -> usize {
    let is_it = |fact: &Fact| matches!(fact, Fact::ContextCleared { .. });
    facts.iter().filter(|fact| is_it(&fact.fact().unwrap())).count()
}

#[tokio::test]
async fn pictures_of_tools_that_add_up_do_not_stop_a_conversation() {
    type Refusal = fn(usize) -> Answer;
    let refusals: [Refusal; 5] = [
        |count| {
            let words = format!(
                "request contains {count} images, exceeding the maximum of 5 allowed per request"
            );
            refuses(400, &words)
        },
        |count| refuses(400, &format!("Too much media: 0 document pages + {count} images > 5")),
        |_| refuses(400, "Too many images in the request."),
        |_| refuses(413, "Request exceeds the maximum size"),
        |_| Answer::bytes(413, "text/html", "<html>413 Request Entity Too Large</html>"),
    ];
    for (wire, refusal) in WIRES.into_iter().flat_map(|wire| refusals.map(|it| (wire, it))) {
        let (server, bodies) = server(wire, 5, 12, refusal).await;
        let rails = Guardrails::default().polling("look");
        let build = || {
            let agent = Agent::builder(provider(wire, &server)).tools([camera()]);
            agent.guardrails(rails.clone()).build().unwrap()
        };
        let journal = MemoryJournal::new();
        let mut chat = build().open(&journal, "a").await.unwrap();
        let said =
            Message::new(Role::User, [Block::text("Compare."), Block::Image(picture(9_999))]);
        let reply = chat.send(said).await.unwrap_or_else(|err| panic!("{wire}: {err}"));
        assert_eq!(reply.text(), "All seen.", "{wire}");
        assert_eq!(chat.send("And now?").await.unwrap().text(), "All seen.", "{wire}");
        drop(chat);
        // What is left out stays left out, also in another process.
        let mut chat = build().open(&journal, "a").await.unwrap();
        assert_eq!(chat.send("Sure?").await.unwrap().text(), "All seen.", "{wire}");

        let bodies = bodies.lock().unwrap().clone();
        let last = bodies.last().unwrap();
        assert!(last.contains("of this result were left out"), "{wire}: {last}");
        assert!(!last.contains("file of the user was left out"), "{wire}: those of the user stay");
        assert_eq!(last.matches("Seen.").count(), 12, "{wire}: the text of the results stays");
        let facts = journal.read("a", 0).await.unwrap().facts;
        let moves = cleared(&facts);
        assert!((1..12).contains(&moves), "{wire}: {moves}");
        let breaks =
            bodies.windows(2).filter(|pair| !pair[1].starts_with(common(&pair[0]))).count();
        assert_eq!(breaks, moves, "{wire}: what was sent before stays as it is");
    }
}

/// What the next body begins with, if nothing has changed.
fn common(body: &str) -> &str {
    body.strip_suffix("]}").unwrap()
}

#[tokio::test]
async fn a_known_limit_is_kept_without_a_refusal() {
    let (server, bodies) = server("anthropic", 100, 130, |_| refuses(400, "no")).await;
    let builder = AnthropicProvider::builder().api_key("k").base_url(server.url());
    let provider = builder.model("claude-haiku-4-5").build().unwrap();
    let agent = Agent::builder(provider.with_retry(RetryPolicy::none())).tools([camera()]);
    let agent = agent.guardrails(Guardrails::none()).run_limits(Limits::unlimited());
    let agent = agent.build().unwrap();
    assert_eq!(agent.run("Look around.").await.unwrap().text(), "All seen.");
    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies.iter().map(|body| pictures(body)).max(), Some(100));
}

#[test]
fn how_many_pictures_a_request_may_have_is_known_by_host_and_window() {
    for (provider, model, most) in [
        ("anthropic", "claude-haiku-4-5", Some(100)),
        ("anthropic", "claude-sonnet-5", Some(600)),
        ("anthropic", "claude-unheard-of", Some(100)),
        ("openai", "gpt-5", Some(1_500)),
        ("azure", "gpt-5", Some(50)),
        ("azure", "my-deployment", Some(50)),
        ("groq", "qwen/qwen3.8-27b", Some(5)),
        ("mistral", "mistral-medium-3-5", Some(8)),
        ("openrouter", "anthropic/claude-sonnet-5", None),
    ] {
        let known = Models::default().find(provider, model);
        assert_eq!(known.request_images, most, "{provider} {model}");
    }
}

#[tokio::test]
async fn files_of_the_user_go_last_and_even_they_do_not_stop_a_conversation() {
    let words = "At most 2 image(s) may be provided in one request.";
    let (server, bodies) = server("chat", 2, 1, |_| refuses(400, words)).await;
    let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
    let provider = provider.build().unwrap().with_retry(RetryPolicy::none());
    let agent = Agent::builder(provider).tools([camera()]).build().unwrap();
    let mut chat = agent.chat();
    let many = (0..5).map(|number| Block::Image(picture(number)));
    let said = Message::new(Role::User, many.chain([Block::text("Compare.")]));
    assert_eq!(chat.send(said).await.unwrap().text(), "All seen.");
    assert_eq!(chat.send("And now?").await.unwrap().text(), "All seen.");
    let bodies = bodies.lock().unwrap();
    assert_eq!(pictures(&bodies[0]), 2, "the newest stay");
    assert!(bodies[0].contains("A file of the user was left out here"), "{}", bodies[0]);
    assert!(bodies.last().unwrap().contains("Seen."));
}

#[tokio::test]
async fn a_refusal_that_is_about_something_else_ends_the_run_as_before() {
    let refusals = [
        refuses(400, "messages.0: unknown field"),
        refuses(413, "Request too large: tokens per minute: Limit 30000, Requested 40000"),
    ];
    for refused in refusals {
        let server = LoopbackServer::start([refused]).await.unwrap();
        let agent = Agent::builder(provider("anthropic", &server)).build().unwrap();
        let said = Message::new(Role::User, [Block::text("?"), Block::Image(picture(1))]);
        agent.run(said).await.unwrap_err();
        assert_eq!(server.requests().len(), 1);
    }
    // Without files, nothing can be left out.
    let server = LoopbackServer::start([refuses(413, "Request exceeds the maximum size")]).await;
    let agent = Agent::builder(provider("anthropic", &server.unwrap())).build().unwrap();
    agent.run("?").await.unwrap_err();
}

/// A picture or another file of so many bytes, with the name `mark` in its base64.
fn large(mime: &str, mark: &str, bytes: usize) -> Media {
    Media::from_bytes(mime, [PNG, mark.repeat(bytes / mark.len()).as_bytes()].concat())
}

fn base64(mark: &str) -> String {
    let media = large("image/png", mark, mark.len() * 2);
    media.base64().expect("data")[16..].to_owned()
}

/// A server that refuses the bodies that `refused` names, and says "All seen." to others. It keeps all bodies.
async fn picky(
    refused: impl Fn(&str) -> Option<Answer> + Send + 'static,
) -> (LoopbackServer, Arc<Mutex<Vec<String>>>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let server = LoopbackServer::answering(move |request| {
        let body = request.text();
        let answer = refused(&body).unwrap_or_else(|| says("anthropic"));
        seen.lock().unwrap().push(body);
        answer
    });
    (server.await.unwrap(), bodies)
}

fn agent(server: &LoopbackServer) -> Agent {
    Agent::builder(provider("anthropic", server)).build().unwrap()
}

#[tokio::test]
async fn one_picture_that_is_too_large_is_left_out_and_no_other_file() {
    for words in [
        "messages.4.content.1.image: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        "messages.4.content.1.image: At least one of the image dimensions exceed max allowed size: 8000 pixels",
    ] {
        let too_large = base64("Huge!!");
        let mark = too_large.clone();
        let (server, bodies) =
            picky(move |body| body.contains(&mark).then(|| refuses(400, words))).await;
        let mut chat = agent(&server).chat();
        let old = [Block::text("One."), Block::Image(large("image/png", "Before", 9_000))];
        chat.send(Message::new(Role::User, old)).await.unwrap();
        let new = [
            Block::text("Compare."),
            Block::Document(Media::from_text("text/plain", "A page.")),
            Block::Image(large("image/png", "Small!", 600)),
            Block::Image(large("image/png", "Huge!!", 6_000)),
        ];
        let said = chat.send(Message::new(Role::User, new)).await;
        assert_eq!(said.unwrap().text(), "All seen.", "{words}");
        let bodies = bodies.lock().unwrap();
        assert_eq!(bodies.len(), 3, "{words}: one refusal");
        let last = bodies.last().unwrap();
        for stays in [base64("Before"), base64("Small!"), "A page.".to_owned()] {
            assert!(last.contains(&stays), "{words}: {last}");
        }
        assert!(last.contains("because the server takes none of this size"), "{last}");
    }
}

#[tokio::test]
async fn files_that_are_not_too_many_stay() {
    let (server, bodies) = picky(|body| {
        (pictures(body) > 2).then(|| refuses(400, "At most 2 image(s) may be provided."))
    })
    .await;
    let all = [Block::text("Compare."), Block::Document(Media::from_text("text/plain", "A page."))];
    let all = all.into_iter().chain((0..4).map(|number| Block::Image(picture(number))));
    agent(&server).run(Message::new(Role::User, all)).await.unwrap();
    let last = bodies.lock().unwrap().last().unwrap().clone();
    assert!(last.contains("A page.") && pictures(&last) == 2, "{last}");

    // A picture whose data is elsewhere makes no request small.
    let mark = base64("Huge!!");
    let (server, bodies) = picky(move |body| {
        body.contains(&mark).then(|| refuses(413, "Request exceeds the maximum size"))
    })
    .await;
    let all = [
        Block::text("Compare."),
        Block::Image(Media::from_url("https://a.example/b.png")),
        Block::Image(large("image/png", "Huge!!", 60_000)),
    ];
    agent(&server).run(Message::new(Role::User, all)).await.unwrap();
    let last = bodies.lock().unwrap().last().unwrap().clone();
    assert!(last.contains("https://a.example/b.png"), "{last}");
}

#[tokio::test]
async fn a_server_that_takes_no_pictures_refuses_one_request() {
    let (server, bodies) = picky(|body| {
        (pictures(body) > 0)
            .then(|| refuses(400, "At most 0 image(s) may be provided in one request."))
    })
    .await;
    let all = (0..8).map(|number| Block::Image(picture(number)));
    let all = Message::new(Role::User, all.chain([Block::text("Compare.")]));
    agent(&server).run(all).await.unwrap();
    assert_eq!(bodies.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn files_whose_absence_does_not_help_are_sent_again() {
    // A long text is too large without its file, too; of large files, some are tried.
    for (text, file, requests) in
        [("x".repeat(200_000), 600, 1), ("Compare.".to_owned(), 30_000, 4)]
    {
        let refusing = Arc::new(AtomicUsize::new(1));
        let refuses_now = Arc::clone(&refusing);
        let (server, bodies) = picky(move |_| {
            let refused = refuses(413, "Request exceeds the maximum size");
            (refuses_now.load(Ordering::Relaxed) == 1).then_some(refused)
        })
        .await;
        let journal = MemoryJournal::new();
        let mut chat = agent(&server).open(&journal, "a").await.unwrap();
        let marks = ["First!", "Second", "Third!"];
        let files = marks.map(|mark| Block::Image(large("image/png", mark, file)));
        let said = Message::new(Role::User, files.into_iter().chain([Block::text(text)]));
        chat.send(said).await.unwrap_err();
        assert_eq!(bodies.lock().unwrap().len(), requests, "{requests}");
        drop(chat);
        refusing.store(0, Ordering::Relaxed);
        let mut chat = agent(&server).open(&journal, "a").await.unwrap();
        chat.send("And now?").await.unwrap();
        let bodies = bodies.lock().unwrap();
        let last = bodies.last().unwrap();
        for mark in marks {
            assert!(last.contains(&base64(mark)), "{requests}: {mark}: {last}");
        }
        assert!(!last.contains("left out"), "{last}");
    }
}
