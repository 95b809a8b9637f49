//! A picture that a vendor refuses does not make it refuse every later request: the model reads
//! what the picture was. The type of a picture is that of its bytes.

use harness::{
    Block, CallOutcome, Media, Message, Role, ToolCall, ToolContent, ToolResult, Transcript,
    provider::{PromptCache, Request, Settings},
    wire::{anthropic, chat, responses},
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0....";
const GIF: &[u8] = b"GIF89a..";
const WEBP: &[u8] = b"RIFF....WEBPVP8 ";

/// The bodies of a conversation in which a tool and the person have shown this picture.
fn bodies(mime: &str, data: &[u8]) -> [String; 3] {
    let shown = ToolContent::Image(Media::from_bytes(mime, data));
    let result = ToolResult::new("c", CallOutcome::Succeeded, [shown]);
    let mut transcript = Transcript::default();
    for message in [
        Message::new(Role::User, [Block::Image(Media::from_bytes(mime, data))]),
        Message::assistant([Block::text("I see.")]),
        Message::user("Look again."),
        Message::assistant([Block::ToolCall(ToolCall::new("c", "look", "{}"))]),
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ] {
        transcript.push(message).unwrap();
    }
    let request = Request::new(&transcript).unwrap();
    let (model, settings) = ("m".to_owned(), Settings::default());
    let to_anthropic = anthropic::Options {
        settings: Settings { prompt_cache: Some(PromptCache::Off), ..settings.clone() },
        ..anthropic::Options::new(&*model)
    };
    let bodies = [
        anthropic::encode(&request, &to_anthropic),
        responses::encode(
            &request,
            &responses::Options { settings, ..responses::Options::new(model) },
        ),
        chat::encode(&request, &chat::Options::new("m")),
    ];
    bodies.map(|body| String::from_utf8(body.unwrap()).unwrap())
}

/// How often a picture of this type is in a body.
fn shown(body: &str, mime: &str) -> usize {
    let types = [format!("\"media_type\":\"{mime}\""), format!("\"data:{mime};base64,")];
    types.iter().map(|said| body.matches(said).count()).sum()
}

#[test]
fn a_picture_has_the_type_of_its_bytes() {
    for (kind, data) in
        [("image/png", PNG), ("image/jpeg", JPEG), ("image/gif", GIF), ("image/webp", WEBP)]
    {
        for given in [kind, "image/jpg", "IMAGE/PNG", "image/png; charset=binary", "", "text/html"]
        {
            for body in bodies(given, data) {
                assert_eq!(shown(&body, kind), 2, "{given}: {body}");
            }
        }
    }
}

#[test]
fn what_is_no_picture_is_told_in_words() {
    let page = b"<html>not found</html>".as_slice();
    let long = format!("image/{}", "x;".repeat(500));
    for (given, data) in [
        ("image/png", page),
        ("image/png", &[]),
        ("image/svg+xml", b"<svg/>"),
        ("application/pdf", b"%PDF-1.7"),
        ("image/png\"},{\"", &[1]),
        ("", &[1]),
        (&long, &[1]),
    ] {
        for body in bodies(given, data) {
            assert!(!body.contains("base64") && !body.contains("media_type"), "{given}: {body}");
            assert_eq!(body.matches("picture stood here").count(), 2, "{given}: {body}");
            assert!(body.len() < 1500, "{body}");
        }
    }
    // Some servers that speak Chat Completions take more than the others.
    let [anthropic, responses, chat] = bodies("image/heic", &[0, 0, 0, 24]);
    assert_eq!(shown(&chat, "image/heic"), 2);
    assert_eq!(shown(&anthropic, "image/heic") + shown(&responses, "image/heic"), 0);
}
