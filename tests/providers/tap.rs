//! Recorded HTTP traffic is exact, except for secrets.

use std::{fs, path::Path, time::Duration};

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, ErrorKind, Message, OpenAIProvider,
    Provider, RetryPolicy, StreamEvent, Transcript,
    client::Tap,
    provider::{Request, ResponseSizeLimits, accumulate},
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
    wire,
};

use serde_json::json;

use crate::wire_providers::WIRES;

const KEY: &str = "sk-0123456789-abcdef";

fn provider(wire: &str, url: &str, tap: Tap) -> Box<dyn Provider> {
    match wire {
        "anthropic" => {
            let builder = AnthropicProvider::builder().api_key(KEY).base_url(url);
            Box::new(builder.build().unwrap().with_tap(tap))
        }
        "responses" => {
            let builder = OpenAIProvider::builder().api_key(KEY).base_url(url);
            Box::new(builder.build().unwrap().with_tap(tap))
        }
        _ => {
            let builder = ChatCompletionsProvider::builder().api_key(KEY).base_url(url).model("m");
            Box::new(builder.build().unwrap().with_tap(tap))
        }
    }
}

fn says(wire: &str, text: &str) -> Answer {
    match wire {
        "anthropic" => anthropic::body().text(text).answer(),
        "responses" => responses::body().text(text).answer(),
        _ => chat::body().text(text).answer(),
    }
}

fn file(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|err| panic!("{name}: {err}"))
}

/// The words in the recorded body of an answer.
fn words(wire: &str, body: &str) -> String {
    macro_rules! read {
        ($decoder:expr) => {{
            let mut decoder = $decoder;
            decoder.push(body.as_bytes()).and_then(|()| decoder.finish()).unwrap();
            std::iter::from_fn(|| decoder.next_event()).collect::<Vec<_>>()
        }};
    }
    let limits = ResponseSizeLimits::default();
    let events = match wire {
        "anthropic" => read!(wire::anthropic::decoder(limits)),
        "responses" => read!(wire::responses::decoder(limits)),
        _ => read!(wire::chat::decoder(limits, wire::chat::DecodeOptions::default())),
    };
    let words = events.into_iter().filter_map(|event| match event {
        StreamEvent::TextDelta { text, .. } => Some(text),
        _ => None,
    });
    words.collect()
}

#[tokio::test]
async fn each_try_is_recorded_and_the_answer_can_be_decoded() {
    for wire in WIRES {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a/b");
        let overloaded = Answer::json(529, &json!({"error": {"message": "full"}}));
        let server =
            LoopbackServer::start([overloaded, says(wire, "Cold, as ever."), says(wire, "Warm.")])
                .await
                .unwrap();
        let tap = Tap::to_folder(&folder).unwrap();
        let agent = Agent::builder(provider(wire, &server.url(), tap.clone())).build().unwrap();
        agent.run("Oslo?").await.unwrap();
        agent.run("Rome?").await.unwrap();
        drop(agent);
        assert_eq!(tap.problem(), None);

        for (number, request) in server.requests().iter().enumerate() {
            let name = |what: &str| format!("{:06}-{what}", number + 1);
            let recorded: serde_json::Value =
                serde_json::from_str(&file(&folder, &name("request.json"))).unwrap();
            assert_eq!(recorded, request.json(), "{wire}");
            let head = file(&folder, &name("head.txt"));
            let to = format!("POST {}{}\n", server.url(), request.path());
            assert!(head.starts_with(&to), "{to}{head}");
            assert!(head.contains("[secret]") && !head.contains(KEY), "{head}");
        }
        assert!(file(&folder, "000001-head.txt").contains("\n529"));
        assert!(file(&folder, "000001-answer.txt").contains("full"));
        assert!(file(&folder, "000002-head.txt").contains("\n200 OK\n"));
        assert_eq!(words(wire, &file(&folder, "000002-answer.txt")), "Cold, as ever.");
        assert_eq!(words(wire, &file(&folder, "000003-answer.txt")), "Warm.");
    }
}

/// Most of a key is as dangerous as the whole key.
#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_within_a_key_does_not_show_it() {
    let body = format!("data: {{\"k\":\"{KEY}\"}}\n\n");
    let key = body.find(KEY).unwrap();
    for end in [key + 6, key + KEY.len() - 1] {
        let folder = tempfile::tempdir().unwrap();
        let server = LoopbackServer::start([Answer::sse(body.as_str()).cut_at(end)]).await.unwrap();
        let tap = Tap::to_folder(folder.path()).unwrap();
        let agent = Agent::builder(provider("anthropic", &server.url(), tap)).build().unwrap();
        agent.run("Oslo?").await.unwrap_err();
        drop(agent);
        let written = file(folder.path(), "000001-answer.txt");
        assert_eq!(written, "data: {\"k\":\"[secret]");
    }
}

#[tokio::test]
async fn secret_headers_of_the_server_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let answer = anthropic::body().text("Cold.").answer();
    let answer = answer.header("set-cookie", "session=cookie-0001");
    let answer = answer.header("x-refresh-token", "token-0002").header("x-region", "north");
    let server = LoopbackServer::start([answer]).await.unwrap();
    // No file of a tap, though it begins like one.
    fs::write(folder.path().join(format!("{}-x", u64::MAX)), "").unwrap();
    let tap = Tap::to_folder(folder.path()).unwrap();
    let agent = Agent::builder(provider("anthropic", &server.url(), tap)).build().unwrap();
    agent.run("Oslo?").await.unwrap();
    drop(agent);
    let head = file(folder.path(), "000001-head.txt");
    assert!(
        head.contains("set-cookie: [secret]\nx-refresh-token: [secret]\nx-region: north"),
        "{head}"
    );
}

#[tokio::test]
async fn tokens_in_headers_are_not_written_whatever_these_are_called() {
    let folder = tempfile::tempdir().unwrap();
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtYXJrLTAwMDEifQ.bWFyay0wMDAy";
    let mut answer = anthropic::body().text("Cold.").answer();
    for name in
        ["x-jwt", "x-pass", "x-session-id", "x-auth-user", "x-csrf", "x-goog-iap-jwt-assertion"]
    {
        answer = answer.header(name, "mark-0003");
    }
    for (name, value) in [
        ("location", "https://ada:mark-0004@h.example/back?code=mark-0005&x=1#token=mark-0006"),
        ("content-location", "/back?code=mark-0007"),
        ("link", "<https://h.example/next?sid=mark-0008>; rel=\"next\", <https://h.example/last>"),
        ("x-anything", jwt),
        ("x-more", &format!("v=1;t={jwt}, rest")),
        ("x-region", "north"),
        ("anthropic-ratelimit-tokens-remaining", "12"),
    ] {
        answer = answer.header(name, value);
    }
    let server = LoopbackServer::start([answer]).await.unwrap();
    let tap = Tap::to_folder(folder.path()).unwrap();
    let agent = Agent::builder(provider("anthropic", &server.url(), tap)).build().unwrap();
    agent.run("Oslo?").await.unwrap();
    drop(agent);
    let head = file(folder.path(), "000001-head.txt");
    assert!(!head.contains("mark-") && !head.contains("eyJ"), "{head}");
    for kept in [
        "x-jwt: [secret]\n",
        "location: https://[secret]@h.example/back?[secret]\n",
        "content-location: /back?[secret]\n",
        "link: <https://h.example/next?[secret]>; rel=\"next\", <https://h.example/last>\n",
        "x-region: north\n",
        "anthropic-ratelimit-tokens-remaining: 12\n",
    ] {
        assert!(head.contains(kept), "{kept}{head}");
    }
}

#[tokio::test]
async fn a_key_that_comes_back_in_pieces_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let told = json!({"error": {"message": format!("bad key {KEY} of you")}});
    let answer = Answer::json(401, &told).in_pieces(3, Duration::ZERO);
    let server = LoopbackServer::start([answer]).await.unwrap();
    let tap = Tap::to_folder(folder.path()).unwrap();
    let agent = Agent::builder(provider("anthropic", &server.url(), tap)).build().unwrap();
    agent.run("Oslo?").await.unwrap_err();
    drop(agent);
    let written = file(folder.path(), "000001-answer.txt");
    assert_eq!(written, told.to_string().replace(KEY, "[secret]"));
}

#[tokio::test]
async fn the_head_names_the_address_that_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let server = LoopbackServer::start([Answer::json(400, &json!({}))]).await.unwrap();
    let tap = Tap::to_folder(folder.path()).unwrap();
    let mut said = Transcript::default();
    said.push(Message::user("Oslo?")).unwrap();
    let request = Request::new(&said).unwrap().with_summary_wanted();
    accumulate(provider("responses", &server.url(), tap).stream(request)).await.unwrap_err();
    assert!(server.requests()[0].path().ends_with("/responses/compact"));
    let head = file(folder.path(), "000001-head.txt");
    assert!(head.starts_with(&format!("POST {}/v1/responses/compact\n", server.url())), "{head}");
}

#[tokio::test]
async fn what_came_before_a_break_is_there_and_numbers_go_on() {
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=2 {
        let answers = [anthropic::body().text("Never heard.").answer().cut_at(400)];
        let server = LoopbackServer::start(answers).await.unwrap();
        let tap = Tap::to_folder(folder.path()).unwrap();
        let provider = AnthropicProvider::builder().api_key(KEY).base_url(server.url());
        let provider = provider.build().unwrap().with_retry(RetryPolicy::none()).with_tap(tap);
        Agent::builder(provider).build().unwrap().run("Oslo?").await.unwrap_err();
        let head = file(folder.path(), &format!("{number:06}-head.txt"));
        assert!(head.contains("\n200 OK\n") && head.contains("The connection broke: "), "{head}");
        let answer = file(folder.path(), &format!("{number:06}-answer.txt"));
        assert!(answer.starts_with("event: message_start"), "{answer}");
    }
}

#[tokio::test]
async fn a_run_goes_on_if_nothing_can_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone");
    let tap = Tap::to_folder(&path).unwrap();
    fs::remove_dir(&path).unwrap();
    let server = LoopbackServer::start([says("anthropic", "Cold.")]).await.unwrap();
    let agent = Agent::builder(provider("anthropic", &server.url(), tap.clone())).build().unwrap();
    assert_eq!(agent.run("Oslo?").await.unwrap().text(), "Cold.");
    let problem = tap.problem().unwrap();
    assert!(problem.contains("gone"), "{problem}");

    fs::write(&path, "a file").unwrap();
    let err = Tap::to_folder(&path).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Configuration);
    assert!(err.to_string().contains("gone"), "{err}");
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_what_was_said() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let server = LoopbackServer::start([says("anthropic", "Cold.")]).await.unwrap();
    let tap = Tap::to_folder(&path).unwrap();
    let agent = Agent::builder(provider("anthropic", &server.url(), tap)).build().unwrap();
    agent.run("Oslo?").await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let mut files = 0;
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        files += 1;
    }
    assert_eq!(files, 3);
}
