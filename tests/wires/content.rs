//! Files in messages and in results: how each wire sends them, and what happens to files that a
//! model, a protocol or a vendor cannot take.

use std::borrow::Cow;

use harness::{
    Agent, AnthropicProvider, Block, CallOutcome, ChatCompletionsProvider, Error, ErrorKind, Link,
    Media, Message, Outcome, Role, SideEffects, Tool, ToolCall, ToolContent, ToolLimits,
    ToolResult, Transcript,
    models::{Model, Models},
    policy::FallbackProvider,
    provider::{EncodedPrefix, PromptCache, Request, Settings},
    testing::{self, LoopbackServer, ScriptedProvider, outline, reply},
    wire::{ModelCapabilities, anthropic, chat, responses},
};
use serde_json::{Value, json};

use crate::probe::READ;

const PDF: &[u8] = b"%PDF-1.7 ..";
const PDF64: &str = "JVBERi0xLjcgLi4=";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const PNG64: &str = "iVBORw0KGgo=";
const WAV: &[u8] = b"RIFF\0\0\0\0WAVE";
const WAV64: &str = "UklGRgAAAABXQVZF";

/// What each wire is told: of models that take all that the wire has a place for.
const WIRES: [(&str, &str); 3] =
    [("anthropic", "claude-sonnet-5"), ("responses", "gpt-5.6"), ("chat", "hears-and-reads")];

fn known() -> Models {
    let all = Model { documents: Some(true), audio: Some(true), ..Model::default() };
    Models::default().with("hears-and-reads", all)
}

fn takes(wire: &str, model: &str) -> ModelCapabilities {
    let provider = if wire == "responses" { "openai" } else { wire };
    ModelCapabilities::of(provider, model, &known())
}

fn encoded(
    wire: &str,
    model: &str,
    transcript: &Transcript,
    sent: Option<&EncodedPrefix>,
) -> Result<Value, Error> {
    let request = Request::new(transcript)?.with_sent(sent);
    let takes = takes(wire, model);
    let body = match wire {
        "anthropic" => {
            let settings = Settings { prompt_cache: Some(PromptCache::Off), ..Settings::default() };
            let options = anthropic::Options { takes, settings, ..anthropic::Options::new(model) };
            anthropic::encode(&request, &options)
        }
        "responses" => responses::encode(
            &request,
            &responses::Options { takes, ..responses::Options::new(model) },
        ),
        _ => chat::encode(&request, &chat::Options { takes, ..chat::Options::new(model) }),
    };
    Ok(serde_json::from_slice(&body?).unwrap())
}

fn transcript(messages: impl IntoIterator<Item = Message>) -> Transcript {
    let mut transcript = Transcript::default();
    messages.into_iter().for_each(|message| transcript.push(message).unwrap());
    transcript
}

/// The parts of the message of the user, or why it cannot be sent.
fn said(wire: &str, model: &str, block: Block) -> Result<Vec<Value>, String> {
    let asked = transcript([Message::new(Role::User, [Block::text("See:"), block])]);
    let body = encoded(wire, model, &asked, None).map_err(|err| {
        assert!(err.is_content() && err.kind() == ErrorKind::Content && !err.is_retryable());
        err.to_string()
    })?;
    let list = if wire == "responses" { &body["input"] } else { &body["messages"] };
    Ok(match &list[0]["content"] {
        Value::Array(parts) => parts[1..].to_vec(),
        Value::String(text) => vec![json!(text.strip_prefix("See:\n").unwrap())],
        other => panic!("{other}"),
    })
}

/// A conversation in which two tools have answered, the first one with this.
fn results(parts: Vec<ToolContent>) -> Transcript {
    let calls = ["a", "b"].map(|id| Block::ToolCall(ToolCall::new(id, "look", "{}")));
    let first = ToolResult::new("a", CallOutcome::Succeeded, parts);
    let second = ToolResult::new("b", CallOutcome::Succeeded, ["Two.".into()]);
    transcript([
        Message::user("Look."),
        Message::assistant(calls),
        Message::new(Role::Tool, [first, second].map(Block::ToolResult)),
    ])
}

/// What stands in the first result, and what follows the results.
fn returned(wire: &str, model: &str, part: ToolContent) -> (Value, Vec<Value>) {
    let body = encoded(wire, model, &results(vec!["One.".into(), part]), None).unwrap();
    match wire {
        "anthropic" => (body["messages"][2]["content"][0]["content"].clone(), Vec::new()),
        "responses" => (body["input"][3]["output"].clone(), Vec::new()),
        _ => {
            let rest = &body["messages"].as_array().unwrap()[2..];
            assert_eq!(rest[1]["content"], "Two.", "nothing stands between results");
            (rest[0]["content"].clone(), rest[2..].to_vec())
        }
    }
}

fn part(kind: &str, media: Media) -> (Block, ToolContent) {
    match kind {
        "image" => (Block::Image(media.clone()), ToolContent::Image(media)),
        "audio" => (Block::Audio(media.clone()), ToolContent::Audio(media)),
        _ => (Block::Document(media.clone()), ToolContent::Document(media)),
    }
}

/// One row for each kind and source: what the user's message holds on the three wires, or a part of why it
/// cannot.
type Row = (&'static str, Media, [Result<Value, &'static str>; 3]);

fn table() -> Vec<Row> {
    let named = |media: Media| media.with_name("a.pdf");
    let text = "[The document `notes`, `res://n`, text/plain:]\nHi.";
    let notes = Media::from_text("text/plain", "Hi.").with_name("notes").with_uri("res://n");
    let pdf_url = format!("data:application/pdf;base64,{PDF64}");
    let png_url = format!("data:image/png;base64,{PNG64}");
    let docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
    vec![
        (
            "image",
            Media::from_bytes("image/png", PNG),
            [
                Ok(json!({"type": "image", "source": {"type": "base64", "media_type": "image/png",
                    "data": PNG64}})),
                Ok(json!({"type": "input_image", "detail": "auto", "image_url": png_url})),
                Ok(json!({"type": "image_url", "image_url": {"url": png_url}})),
            ],
        ),
        (
            "image",
            Media::from_url("https://a.test/a.png"),
            [
                Ok(
                    json!({"type": "image", "source": {"type": "url", "url": "https://a.test/a.png"}}),
                ),
                Ok(json!({"type": "input_image", "detail": "auto",
                    "image_url": "https://a.test/a.png"})),
                Ok(json!({"type": "image_url", "image_url": {"url": "https://a.test/a.png"}})),
            ],
        ),
        (
            "image",
            Media::from_url("file:///etc/passwd"),
            [Err("neither `https://`"), Err("neither `https://`"), Err("neither `https://`")],
        ),
        (
            "image",
            Media::from_file_id("anthropic", "file_1"),
            [
                Ok(json!({"type": "image", "source": {"type": "file", "file_id": "file_1"}})),
                Err("a file of the provider `anthropic`, and the provider `openai` is asked"),
                Err("this protocol takes no pictures by the id of a file"),
            ],
        ),
        (
            "image",
            Media::from_bytes("application/pdf", PDF),
            [Err("holds no PNG"), Err("holds no PNG"), Err("holds no PNG")],
        ),
        (
            "document",
            named(Media::from_bytes("application/pdf", PDF)),
            [
                Ok(json!({"type": "document", "source": {"type": "base64",
                    "media_type": "application/pdf", "data": PDF64}, "title": "a.pdf"})),
                Ok(json!({"type": "input_file", "filename": "a.pdf", "file_data": pdf_url})),
                Ok(json!({"type": "file", "file": {"filename": "a.pdf", "file_data": pdf_url}})),
            ],
        ),
        (
            // The type is the one that the bytes have.
            "document",
            Media::from_bytes("application/octet-stream", PDF),
            [
                Ok(json!({"type": "document", "source": {"type": "base64",
                    "media_type": "application/pdf", "data": PDF64}})),
                Ok(json!({"type": "input_file", "filename": "document.pdf", "file_data": pdf_url})),
                Ok(json!({"type": "file", "file": {"filename": "document.pdf",
                    "file_data": pdf_url}})),
            ],
        ),
        (
            "document",
            Media::from_url("https://a.test/a.pdf"),
            [
                Ok(json!({"type": "document", "source": {"type": "url",
                    "url": "https://a.test/a.pdf"}})),
                Ok(json!({"type": "input_file", "file_url": "https://a.test/a.pdf"})),
                Err("no documents by their address"),
            ],
        ),
        (
            "document",
            Media::from_file_id("openai", "file-1"),
            [
                Err("a file of the provider `openai`, and the provider `anthropic` is asked"),
                Ok(json!({"type": "input_file", "file_id": "file-1"})),
                Err("a file of the provider `openai`, and the provider `chat` is asked"),
            ],
        ),
        (
            "document",
            Media::from_file_id("chat", "file-1"),
            [
                Err("a file of the provider `chat`"),
                Err("a file of the provider `chat`"),
                Ok(json!({"type": "file", "file": {"file_id": "file-1"}})),
            ],
        ),
        (
            "document",
            notes,
            [
                Ok(json!({"type": "document", "source": {"type": "text",
                    "media_type": "text/plain", "data": "Hi."}, "title": "notes"})),
                Ok(json!({"type": "input_text", "text": text})),
                Ok(json!(text)),
            ],
        ),
        (
            "document",
            Media::from_bytes(docx, b"PK\x03\x04"),
            [
                Err("is no PDF file and no text"),
                Ok(json!({"type": "input_file", "filename": "document.pdf",
                    "file_data": format!("data:{docx};base64,UEsDBA==")})),
                Err("is no PDF file and no text"),
            ],
        ),
        (
            "document",
            Media::from_bytes("application/x-unheard-of", b"\0\x01"),
            [
                Err("given as `application/x-unheard-of`"),
                Err("given as `application/x-unheard-of`"),
                Err("given as `application/x-unheard-of`"),
            ],
        ),
        (
            "document",
            Media::from_bytes("application/pdf", b""),
            [Err("it is empty"), Err("it is empty"), Err("it is empty")],
        ),
        (
            "document",
            Media::from_text("text/plain", " \n"),
            [Err("it is empty"), Err("it is empty"), Err("it is empty")],
        ),
        (
            "audio",
            Media::from_bytes("audio/x-wav", WAV),
            [
                Err("this protocol has no place for sound"),
                Err("this protocol has no place for sound"),
                Ok(json!({"type": "input_audio", "input_audio": {"data": WAV64,
                    "format": "wav"}})),
            ],
        ),
        (
            "audio",
            Media::from_bytes("audio/ogg", b"OggS\0\x02"),
            [Err("no place for sound"), Err("no place for sound"), Err("holds no WAV or MP3 file")],
        ),
        (
            "audio",
            Media::from_url("https://a.test/a.wav"),
            [Err("no place for sound"), Err("no place for sound"), Err("only by its bytes")],
        ),
    ]
}

#[test]
fn a_document_that_is_elsewhere_may_be_sent_as_its_bytes() {
    let elsewhere =
        [Media::from_url("https://a.test/a.pdf"), Media::from_file_id("openai", "file-1")];
    for media in elsewhere {
        let (wire, model) = WIRES[2];
        let fault = said(wire, model, part("document", media).0).unwrap_err();
        assert!(fault.ends_with("; send its bytes or its text, or ask another model"), "{fault}");
    }
}

#[test]
fn what_each_wire_says_of_a_file_of_the_user() {
    for (kind, media, expected) in table() {
        for ((wire, model), expected) in WIRES.iter().zip(expected) {
            let at = format!("{kind} {media:?} on {wire}");
            match (said(wire, model, part(kind, media.clone()).0), expected) {
                (Ok(parts), Ok(expected)) => assert_eq!(parts, [expected], "{at}"),
                (Err(fault), Err(expected)) => {
                    assert!(fault.contains(expected), "{at}: {fault}");
                    assert!(fault.starts_with("nothing was sent: the message holds a "), "{fault}");
                }
                (came, _) => panic!("{at}: {came:?}"),
            }
        }
    }
}

#[test]
fn what_each_wire_says_of_a_file_in_a_result() {
    for (kind, media, expected) in table() {
        for ((wire, model), expected) in WIRES.iter().zip(expected) {
            let at = format!("{kind} {media:?} on {wire}");
            let (result, after) = returned(wire, model, part(kind, media.clone()).1);
            match (expected, *wire) {
                // All that cannot be sent is told where it stood.
                (Err(expected), _) => {
                    let text = result.to_string();
                    assert!(text.contains(expected) && text.contains("stood here"), "{at}: {text}");
                    assert!(after.is_empty() && !text.contains("base64,"), "{at}");
                }
                // Files follow all results on a wire whose results are text.
                (Ok(expected), "chat") if !expected.is_string() => {
                    assert_eq!(result, "One.", "{at}");
                    assert_eq!((after.len(), &after[0]["role"]), (1, &json!("user")), "{at}");
                    assert_eq!(after[0]["content"][1], expected, "{at}");
                }
                (Ok(text), "chat") => {
                    assert_eq!(result, format!("One.\n{}", text.as_str().unwrap()), "{at}");
                    assert!(after.is_empty(), "{at}");
                }
                (Ok(text), "responses") if text["type"] == "input_text" => {
                    assert_eq!(result, format!("One.\n{}", text["text"].as_str().unwrap()), "{at}");
                }
                (Ok(expected), _) => assert_eq!(result[1], expected, "{at}"),
            }
        }
    }
}

/// Whoever writes the JSON of a message may give text in base64.
#[test]
fn text_that_came_in_base64_is_words() {
    let given = json!({"type": "document", "mime": "text/plain", "data": "SGku", "name": "n"});
    let block: Block = serde_json::from_value(given).unwrap();
    for (wire, model) in [("responses", "nobody-knows"), ("chat", "nobody-knows")] {
        let parts = said(wire, model, block.clone()).unwrap();
        assert!(
            parts[0].to_string().contains(r"[The document `n`, text/plain:]\nHi."),
            "{parts:?}"
        );
    }
    let parts = said("anthropic", "claude-sonnet-5", block).unwrap();
    assert_eq!(
        parts[0]["source"],
        json!({"type": "text", "media_type": "text/plain", "data": "Hi."})
    );
}

/// What no vendor could find is refused by each, again and again.
#[test]
fn an_address_or_an_id_that_is_none_is_not_sent() {
    let files = [
        (Media::from_url("https://example.org/a\n.png"), "a space or a control character"),
        (Media::from_url("https://example.org/a b.png"), "a space or a control character"),
        (Media::from_url("https://"), "names no host"),
        (Media::from_url("http:///a.png"), "names no host"),
        (Media::from_file_id("anthropic", ""), "the id of the file is none"),
        (Media::from_file_id("anthropic", "a\nb"), "the id of the file is none"),
    ];
    for (media, why) in files {
        for kind in ["image", "document"] {
            let (block, _) = part(kind, media.clone());
            let err = said("anthropic", "claude-sonnet-5", block).unwrap_err();
            assert!(err.contains(why), "{kind} {media:?}: {err}");
        }
        let (_, part) = part("document", media);
        let (result, _) = returned("anthropic", "claude-sonnet-5", part);
        assert!(result.to_string().contains(why), "{result}");
    }
}

/// A vendor wants a name with a document, and takes no endless one.
#[test]
fn a_document_is_sent_with_a_name_that_is_neither_empty_nor_endless() {
    for (wire, model) in &WIRES[1..] {
        let sent = |name: String| {
            let report = Media::from_bytes("application/pdf", PDF).with_name(name);
            let parts = said(wire, model, Block::Document(report)).unwrap();
            let file = parts[0].get("file").unwrap_or(&parts[0]);
            file["filename"].as_str().unwrap().to_owned()
        };
        assert_eq!(sent(" ".to_owned()), "document.pdf", "{wire}");
        assert_eq!(sent("a.pdf".to_owned()), "a.pdf", "{wire}");
        assert!(sent("n".repeat(10_000)).len() < 300, "{wire}");
    }
}

#[test]
fn a_link_is_words_and_a_result_of_files_alone_says_where_they_are() {
    let link = Link::new("res://2", "two").with_mime("text/plain").with_description("The second.");
    for (wire, model) in WIRES {
        let (result, after) = returned(wire, model, link.clone().into());
        let text = "[A link to `two`, text/plain: res://2] The second.";
        assert!(result.to_string().contains(text) && after.is_empty(), "{result}");
    }
    let picture = ToolContent::from(Media::from_bytes("image/png", PNG));
    let body = encoded("chat", "gpt-4o", &results(vec![picture]), None).unwrap();
    assert_eq!(body["messages"][2]["content"], "(its files follow in the next message)");
}

#[test]
fn what_is_too_large_is_refused_by_the_size_that_the_vendor_counts() {
    let picture = |size: usize| {
        let mut bytes = PNG.to_vec();
        bytes.resize(size / 4 * 3, 0);
        Block::Image(Media::from_bytes("image/png", bytes))
    };
    let most = 5 * 1024 * 1024;
    assert!(said("anthropic", "claude-sonnet-5", picture(most)).is_ok());
    let fault = said("anthropic", "claude-sonnet-5", picture(most + 4)).unwrap_err();
    assert!(fault.contains("5242884 bytes in base64, and the maximum is 5242880"), "{fault}");
    assert!(said("responses", "gpt-5.6", picture(most + 4)).is_ok());
}

/// A model of which the table says no gets no file, and one that nobody knows gets pictures alone.
#[test]
fn the_table_of_models_says_what_a_model_takes() {
    let pdf = || Block::Document(Media::from_bytes("application/pdf", PDF));
    let png = || Block::Image(Media::from_bytes("image/png", PNG));
    let wav = || Block::Audio(Media::from_bytes("audio/wav", WAV));
    for (wire, model, block, expected) in [
        (
            "anthropic",
            "claude-3-haiku-20240307",
            pdf(),
            Some("the model `claude-3-haiku-20240307` takes no documents"),
        ),
        ("anthropic", "claude-3-haiku-20240307", png(), None),
        ("anthropic", "nobody-knows", png(), None),
        (
            "anthropic",
            "nobody-knows",
            pdf(),
            Some("not known whether the model `nobody-knows` takes documents"),
        ),
        ("responses", "o3-mini", png(), Some("takes no pictures")),
        ("chat", "gpt-3.5-turbo", png(), Some("takes no pictures")),
        ("chat", "gpt-audio", wav(), None),
        ("chat", "gpt-audio", png(), Some("takes no pictures")),
        ("chat", "gpt-4o", wav(), Some("takes no sound")),
        ("chat", "gemini-3.7-flash", wav(), None),
        ("chat", "qwen3", wav(), Some("not known whether the model `qwen3` takes sound")),
    ] {
        let came = said(wire, model, block);
        match (&came, expected) {
            (Ok(parts), None) => assert_eq!(parts.len(), 1, "{model}"),
            (Err(fault), Some(expected)) => {
                assert!(fault.contains(expected), "{fault}");
                assert_eq!(fault.contains("`models(..)`"), !fault.contains("a picture"), "{fault}");
            }
            _ => panic!("{wire} {model}: {came:?}"),
        }
    }
    let takes = ModelCapabilities::of("deepseek", "deepseek-chat", &Models::default());
    let asked = transcript([Message::new(Role::User, [png()])]);
    let options = chat::Options { takes, ..chat::Options::new("deepseek-chat") };
    let err = chat::encode(&Request::new(&asked).unwrap(), &options).unwrap_err();
    assert!(err.is_content(), "{err}");
}

/// After a change of the model, an earlier file that it cannot take is a line in the copy that is sent: always
/// the same one, so that each request begins with the one before.
#[test]
fn an_earlier_file_that_a_model_cannot_take_is_a_line_of_text() {
    let report = Media::from_bytes("application/pdf", PDF).with_name("a.pdf");
    let mut said = transcript([
        Message::new(Role::User, [Block::text("Read this."), Block::Document(report)]),
        Message::assistant([Block::text("Done.")]),
        Message::user("And?"),
    ]);
    let line = "[A document named `a.pdf` stood here that cannot be shown: the model \
                `gpt-3.5-turbo` takes no documents.]";
    let sent = EncodedPrefix::default();
    let before = encoded("chat", "gpt-3.5-turbo", &said, Some(&sent)).unwrap();
    // A text alone, since servers of such models take no list.
    assert_eq!(before["messages"][0]["content"], format!("Read this.\n{line}"));
    said.push(Message::assistant([Block::text("It says .")])).unwrap();
    said.push(Message::user("Thanks.")).unwrap();
    let after = encoded("chat", "gpt-3.5-turbo", &said, Some(&sent)).unwrap();
    assert_eq!(after["messages"][0], before["messages"][0]);
    // What was sent to one model is not what another one is sent.
    let other = encoded("chat", "gpt-4o", &said, Some(&sent)).unwrap();
    assert_eq!(other["messages"][0]["content"][1]["type"], "file");
    assert_eq!(said.messages()[0].blocks().len(), 2, "the conversation itself keeps it");
}

/// As long as what the user said last is being answered, its files are not left out in silence.
#[test]
fn a_file_is_missed_also_after_the_calls_of_its_turn() {
    let report = Media::from_bytes("application/pdf", PDF);
    let call = ToolCall::new("a", "look", "{}");
    let result = ToolResult::new("a", CallOutcome::Succeeded, ["One.".into()]);
    let said = transcript([
        Message::new(Role::User, [Block::Document(report)]),
        Message::assistant([Block::ToolCall(call)]),
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ]);
    assert!(encoded("chat", "gpt-4o", &said, None).is_ok());
    assert!(encoded("chat", "gpt-3.5-turbo", &said, None).unwrap_err().is_content());
}

fn body(words: &str) -> testing::chat::ChatBody {
    testing::chat::body().text(words)
}

fn asked_with_report() -> Message {
    let report = Media::from_bytes("application/pdf", PDF).with_name("a.pdf");
    Message::new(Role::User, [Block::text("Read this."), Block::Document(report)])
}

#[tokio::test]
async fn a_file_that_cannot_be_sent_stops_the_run_before_a_request_and_the_conversation_goes_on() {
    let server = LoopbackServer::start([body("What did it say?")]).await.unwrap();
    let provider = ChatCompletionsProvider::builder()
        .base_url(server.url())
        .model("nobody-knows")
        .build()
        .unwrap();
    let mut chat = Agent::builder(provider).build().unwrap().chat();
    let stopped = chat.send(asked_with_report()).await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Failed);
    let err = stopped.error().unwrap();
    assert!(err.is_content() && err.message().contains("`a.pdf`"), "{err}");
    assert_eq!(server.requests().len(), 0, "nothing was sent");
    let answer = chat.send("Never mind.").await.unwrap();
    assert_eq!(answer.text(), "What did it say?");
    let body = server.requests()[0].json();
    let text = body["messages"][0]["content"].as_str().unwrap();
    assert!(text.contains("[A document named `a.pdf` stood here"), "{text}");
}

#[tokio::test]
async fn the_program_says_what_a_model_takes_that_nobody_knows() {
    let server = LoopbackServer::start([body("It says ..")]).await.unwrap();
    let mine = Model { documents: Some(true), ..Model::default() };
    let provider = ChatCompletionsProvider::builder()
        .base_url(server.url())
        .model("mine")
        .models(Models::default().with("mine", mine))
        .build()
        .unwrap();
    let answer = Agent::builder(provider).build().unwrap().run(asked_with_report()).await.unwrap();
    assert_eq!(answer.text(), "It says ..");
    let body = server.requests()[0].json();
    assert_eq!(body["messages"][0]["content"][1]["file"]["filename"], "a.pdf");
}

/// A fallback asks the next one for what the first one cannot take, and the first one stays up.
#[tokio::test]
async fn a_fallback_asks_who_takes_the_file() {
    let words = [body("Words."), body("Words.")];
    let reads_words = LoopbackServer::start(words).await.unwrap();
    let files = [testing::anthropic::body().text("Files.")];
    let reads_files = LoopbackServer::start(files).await.unwrap();
    let first = ChatCompletionsProvider::builder()
        .base_url(reads_words.url())
        .model("gpt-3.5-turbo")
        .build()
        .unwrap();
    let second = AnthropicProvider::builder()
        .api_key("k")
        .base_url(reads_files.url())
        .model("claude-sonnet-5")
        .build()
        .unwrap();
    let provider = FallbackProvider::new(first).or(second);
    let mut chat = Agent::builder(provider).build().unwrap().chat();
    assert_eq!(chat.send("Hello.").await.unwrap().text(), "Words.");
    assert_eq!(chat.send(asked_with_report()).await.unwrap().text(), "Files.");
    assert_eq!(chat.send("Thanks.").await.unwrap().text(), "Words.", "it was never down");
}

#[test]
fn a_file_is_saved_and_read_back_and_shown_without_its_bytes() {
    for (media, json) in [
        (Media::from_bytes("image/png", PNG), json!({"mime": "image/png", "data": PNG64})),
        (Media::from_url("https://a.test"), json!({"url": "https://a.test"})),
        (
            Media::from_file_id("openai", "file-1").with_name("a.pdf"),
            json!({"file": "file-1", "provider": "openai", "name": "a.pdf"}),
        ),
        (
            Media::from_bytes("text/plain", "ä").with_uri("res://a"),
            json!({"mime": "text/plain", "text": "ä", "uri": "res://a"}),
        ),
    ] {
        assert_eq!(serde_json::to_value(&media).unwrap(), json);
        assert_eq!(serde_json::from_value::<Media>(json).unwrap(), media);
    }
    for wrong in [
        json!({}),
        json!({"data": PNG64}),
        json!({"mime": "image/png"}),
        json!({"mime": "a", "data": "", "url": "https://a.test"}),
        json!({"file": "file-1"}),
    ] {
        assert!(serde_json::from_value::<Media>(wrong.clone()).is_err(), "{wrong}");
    }
    let shown = format!("{:?}", Media::from_bytes("application/pdf", PDF).with_name("a.pdf"));
    assert_eq!(shown, "Media(document `a.pdf`, application/pdf, 11 bytes)");
}

#[test]
fn base64_is_checked_and_text_is_kept_as_text() {
    let pdf = Media::from_base64("application/pdf", PDF64).unwrap();
    assert_eq!((pdf.base64(), pdf.size(), pdf.text()), (Some(PDF64), Some(11), None));
    assert_eq!(pdf.bytes().unwrap(), Some(Cow::Borrowed(PDF)));
    let text = Media::from_base64("application/json", "e30=").unwrap();
    assert_eq!((text.text(), text.base64()), (Some("{}"), None));
    for wrong in ["JVBERi0xLjcgLi4", "JVBE Ri0xLjcgLi4=", "!"] {
        let err = Media::from_base64("application/pdf", wrong).unwrap_err();
        assert!(err.message().contains("not base64"), "{err}");
    }
    for (mime, kind) in [("image/png", "image"), ("audio/wav", "audio"), ("text/html", "document")]
    {
        let json = serde_json::to_value(Block::from(Media::from_bytes(mime, "x"))).unwrap();
        assert_eq!(json["type"], kind);
    }
}

/// What a tool hands over counts and is searched as words are, whatever part it stands in.
#[tokio::test]
async fn the_text_of_a_document_is_cut_and_cleaned_as_words_are() {
    let read = Tool::new("read", "Reads.", json!({"type": "object"}), READ, |_, _| {
        let notes = Media::from_text("text/plain", format!("sk-secret-1{}", "x".repeat(10_000)));
        let parts = vec![
            ToolContent::Document(notes.with_uri("res://sk-secret-1")),
            ToolContent::Image(Media::from_url("https://a.test/?key=sk-secret-1")),
            Link::new("res://sk-secret-1", "b").into(),
            ToolContent::Image(Media::from_bytes("image/png", PNG).with_name("sk-secret-1")),
        ];
        Box::pin(async move { Ok(parts.into()) })
    });
    let model = ScriptedProvider::new([reply().call("read", json!({})), reply().text("Done.")]);
    let agent = Agent::builder(model)
        .tools([read])
        .secret("sk-secret-1")
        .tool_limits(ToolLimits::default().output(4096));
    let reply = agent.build().unwrap().run("Read.").await.unwrap();
    let results = reply.results();
    let (_, result) = results.iter().next().unwrap();
    assert!(!serde_json::to_string(result).unwrap().contains("sk-secret"), "{result:?}");
    let [
        ToolContent::Document(notes),
        ToolContent::Text(lost),
        ToolContent::Text(_),
        ToolContent::Image(named),
    ] = result.content()
    else {
        panic!("{result:?}")
    };
    assert!(
        notes.text().unwrap().len() < 4300 && notes.uri() == Some("res://[secret]"),
        "{notes:?}"
    );
    assert!(lost.contains("address holds a secret"), "{lost}");
    assert_eq!(named.name(), Some("[secret]"));
    let trace = reply.trace().to_string();
    assert!(trace.contains("picture `[secret]`, image/png, 8 bytes"), "{trace}");
    assert!(!trace.contains(PNG64));
}

/// A tool made by hand hands over all kinds, as a client of other servers needs them.
#[tokio::test]
async fn a_tool_by_hand_hands_over_every_kind_and_a_script_sees_it() {
    let all =
        Tool::new("all", "Gives all.", json!({"type": "object"}), SideEffects::NONE, |_, _| {
            let parts = vec![
                "One.".into(),
                Media::from_bytes("image/png", PNG).into(),
                Media::from_base64("audio/wav", WAV64).unwrap().into(),
                Media::from_text("text/plain", "Hi.").with_uri("res://t").into(),
                Media::from_bytes("application/pdf", PDF).with_uri("res://b").into(),
                Link::new("res://l", "l").into(),
            ];
            Box::pin(async move { Ok(parts.into()) })
        });
    let model = ScriptedProvider::new([
        reply().call("all", json!({})),
        testing::reply_to(|request| {
            let text = request.last_text();
            assert!(text.contains("Hi.") && text.contains("res://l"), "{text}");
            reply().text("Seen.")
        }),
    ]);
    let answer = Agent::builder(model).tools([all]).build().unwrap().run("Go.").await.unwrap();
    let saved = serde_json::to_string(answer.transcript()).unwrap();
    let read: Transcript = serde_json::from_str(&saved).unwrap();
    assert_eq!(&read, answer.transcript());
    assert!(outline(read.messages()).ends_with("assistant: Seen.\n"));
}
