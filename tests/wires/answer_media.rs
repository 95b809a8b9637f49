//! Sources of text, pictures and sound in an answer are kept, can be read, and are sent back where
//! the vendor accepts them.

use harness::{
    Agent, Block, Media, Message, StreamEvent, TextBlock, Transcript,
    agent::Event,
    message::Citation,
    provider::{PromptCache, Request, Settings},
    testing::{ScriptedProvider, reply},
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};

use crate::decoded::{Decoded, both_ways, named, unnamed};

fn messages(citations: &[Value]) -> String {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "m"}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "It is cold."}}),
    ];
    events.extend(citations.iter().map(|citation| {
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "citations_delta", "citation": citation}})
    }));
    events.extend([
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ]);
    named(&events)
}

/// An answer with these annotations, of which so many are told on the way.
fn response(annotations: &[Value], told: usize) -> String {
    let mut events = vec![
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": {"type": "message", "id": "msg_1"}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "It is cold."}),
    ];
    events.extend(annotations.iter().take(told).map(|annotation| {
        json!({"type": "response.output_text.annotation.added", "output_index": 0,
            "content_index": 0, "annotation": annotation})
    }));
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": {
        "type": "message", "id": "msg_1", "content": [
            {"type": "output_text", "text": "It is cold.", "annotations": annotations}]}}));
    events.push(json!({"type": "response.completed", "response": {"status": "completed"}}));
    named(&events)
}

fn chunks(deltas: &[Value], more: &Value) -> String {
    let chunk = |delta: &Value, finish: Option<&str>| {
        let mut chunk = json!({"id": "c", "choices": [{"index": 0, "delta": delta,
            "finish_reason": finish}]});
        chunk.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        chunk
    };
    let mut events: Vec<Value> = deltas.iter().map(|delta| chunk(delta, None)).collect();
    events.push(chunk(&json!({}), Some("stop")));
    unnamed(&events) + "data: [DONE]\n\n"
}

fn read(wire: &str, body: &str) -> Decoded {
    both_ways(wire, body, Default::default())
}

fn words(decoded: &Decoded) -> TextBlock {
    let message = decoded.answer().message.unwrap();
    let text = message.blocks().iter().find_map(|block| match block {
        Block::Text(text) => Some(text.clone()),
        _ => None,
    });
    text.unwrap()
}

fn citation(json: Value) -> Citation {
    serde_json::from_value(json).unwrap()
}

#[test]
fn a_program_reads_where_words_come_from() {
    let page = json!({"type": "web_search_result_location", "url": "https://a.test", "title": "A",
        "cited_text": "cold", "encrypted_index": "x"});
    let document = json!({"type": "char_location", "cited_text": "cold", "document_index": 0,
        "document_title": "D", "start_char_index": 3, "end_char_index": 7});
    let pages = json!({"type": "page_location", "document_title": "D", "start_page_number": 1,
        "end_page_number": 2});
    let url = json!({"type": "url_citation", "url": "https://a.test", "title": "A",
        "start_index": 0, "end_index": 11});
    let file =
        json!({"type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 4});
    let wrapped = json!({"type": "url_citation", "url_citation": {"url": "https://a.test",
        "title": "A", "content": "cold", "start_index": 0, "end_index": 2}});
    let range = |start: u64, end: u64| json!({"start": start, "end": end});
    let table = [
        (
            "anthropic",
            messages(std::slice::from_ref(&page)),
            vec![json!({"kind": "web_search_result_location",
            "url": "https://a.test", "title": "A", "quote": "cold"})],
        ),
        (
            "anthropic",
            messages(&[document, pages]),
            vec![
                json!({"kind": "char_location", "title": "D", "quote": "cold", "in_source": range(3, 7)}),
                json!({"kind": "page_location", "title": "D", "in_source": range(1, 2)}),
            ],
        ),
        (
            "responses",
            response(&[url.clone(), file.clone()], 2),
            vec![
                json!({"kind": "url_citation", "url": "https://a.test", "title": "A",
                "in_answer": range(0, 11)}),
                json!({"kind": "file_citation", "title": "a.pdf", "file": "file_1"}),
            ],
        ),
        // Those that were not told on the way stand at the end.
        (
            "responses",
            response(&[url, file], 1),
            vec![
                json!({"kind": "url_citation", "url": "https://a.test", "title": "A",
                "in_answer": range(0, 11)}),
                json!({"kind": "file_citation", "title": "a.pdf", "file": "file_1"}),
            ],
        ),
        (
            "chat",
            chunks(
                &[
                    json!({"content": "It is cold."}),
                    json!({"annotations": [wrapped.clone()]}),
                    json!({"annotations": [wrapped]}),
                ],
                &json!({}),
            ),
            vec![json!({"kind": "url_citation", "url": "https://a.test", "title": "A",
                "quote": "cold", "in_answer": range(0, 2)})],
        ),
        (
            "chat",
            chunks(
                &[json!({"content": "It is "}), json!({"content": "cold."})],
                &json!({
            "citations": ["https://a.test", "https://b.test"],
            "search_results": [{"title": "A", "url": "https://a.test", "snippet": "cold"}]}),
            ),
            vec![
                json!({"url": "https://a.test", "title": "A", "quote": "cold"}),
                json!({"url": "https://b.test"}),
            ],
        ),
    ];
    for (wire, body, expected) in table {
        let decoded = read(wire, &body);
        let expected: Vec<Citation> = expected.into_iter().map(citation).collect();
        let told: Vec<Citation> = decoded
            .events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::Citation { citation, .. } => Some(Citation::clone(citation)),
                _ => None,
            })
            .collect();
        assert_eq!(told, expected, "{wire}: while it streams");
        let words = words(&decoded);
        assert_eq!((words.text(), words.citations()), ("It is cold.", &*expected), "{wire}");
        let saved = serde_json::to_string(&words).unwrap();
        assert_eq!(serde_json::from_str::<TextBlock>(&saved).unwrap(), words);
    }
    // What names no source is none, and what is no object is passed over.
    for odd in [json!(5), json!("x"), json!({"type": "url_citation", "url": 0.5}), json!({})] {
        let body = chunks(&[json!({"content": "So", "annotations": [odd]})], &json!({}));
        assert!(words(&read("chat", &body)).citations().len() <= 1);
    }
}

fn transcript(message: Message) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Draw.")).unwrap();
    transcript.push(message).unwrap();
    transcript.push(Message::user("And now?")).unwrap();
    let saved = serde_json::to_string(&transcript).unwrap();
    serde_json::from_str(&saved).unwrap()
}

/// What is sent between the two messages of the person.
fn sent(wire: &str, message: Message) -> Vec<Value> {
    let transcript = transcript(message);
    let request = Request::new(&transcript).unwrap();
    let (model, settings) = ("m".to_owned(), Settings::default());
    let body = match wire {
        "anthropic" => anthropic::encode(
            &request,
            &anthropic::Options {
                settings: Settings { prompt_cache: Some(PromptCache::Off), ..settings },
                ..anthropic::Options::new(model)
            },
        ),
        "responses" => responses::encode(
            &request,
            &responses::Options { settings, ..responses::Options::new(model) },
        ),
        _ => chat::encode(&request, &chat::Options::new("m")),
    };
    let body: Value = serde_json::from_slice(&body.unwrap()).unwrap();
    let list = body[if wire == "responses" { "input" } else { "messages" }].as_array().unwrap();
    list[1..list.len() - 1].to_vec()
}

#[test]
fn sources_go_back_to_the_vendor_that_named_them() {
    let page = json!({"type": "web_search_result_location", "url": "https://a.test",
        "encrypted_index": "x"});
    let message =
        read("anthropic", &messages(std::slice::from_ref(&page))).answer().message.unwrap();
    assert_eq!(sent("anthropic", message.clone())[0]["content"][0]["citations"], json!([page]));
    assert_eq!(sent("responses", message)[0]["content"], "It is cold.");

    let url = json!({"type": "url_citation", "url": "https://a.test", "start_index": 0,
        "end_index": 2, "title": "A"});
    let message =
        read("responses", &response(std::slice::from_ref(&url), 0)).answer().message.unwrap();
    let back = sent("responses", message.clone());
    assert_eq!(back[0]["content"][0]["annotations"], json!([url]));
    assert_eq!(back[0]["content"][0]["text"], "It is cold.");
    assert_eq!(sent("chat", message), [json!({"role": "assistant", "content": "It is cold."})]);
}

#[test]
fn what_is_no_source_is_not_sent_back_as_one() {
    let url = json!({"type": "url_citation", "url": "https://a.test", "new": [null]});
    let odd = [
        json!(null),
        json!(5),
        json!("x"),
        json!([]),
        json!([null]),
        json!({}),
        json!({"type": null, "url": "https://a.test"}),
        json!({"type": "", "url": "https://a.test"}),
    ];
    let all: Vec<Value> = odd.iter().cloned().chain([url.clone()]).collect();
    for told in [0, all.len()] {
        let message = read("responses", &response(&all, told)).answer().message.unwrap();
        assert_eq!(sent("responses", message)[0]["content"][0]["annotations"], json!([url]));
    }
    let message = read("responses", &response(&odd, 0)).answer().message.unwrap();
    assert_eq!(sent("responses", message)[0]["content"][0]["annotations"], json!([]));

    let message = read("anthropic", &messages(&all)).answer().message.unwrap();
    assert_eq!(sent("anthropic", message)[0]["content"][0]["citations"], json!([url]));
    let whole = named(&[
        json!({"type": "message_start", "message": {"id": "m", "content": [
            {"type": "text", "text": "It is cold.", "citations": odd}]}}),
        json!({"type": "message_stop"}),
    ]);
    for body in [messages(&odd), whole] {
        let message = read("anthropic", &body).answer().message.unwrap();
        assert_eq!(sent("anthropic", message)[0]["content"][0].get("citations"), None);
    }
}

#[test]
fn an_answer_may_have_as_many_sources_as_its_size_allows() {
    let many: Vec<Value> = (0..5000)
        .map(|at| json!({"type": "url_citation", "url": "https://a.test", "start_index": at, "end_index": at}))
        .collect();
    let urls: Vec<String> = (0..5000).map(|at| format!("https://a.test/{at}")).collect();
    let table = [
        ("anthropic", messages(&many)),
        ("responses", response(&many, many.len())),
        ("responses", response(&many, 0)),
        ("chat", chunks(&[json!({"content": "So", "annotations": many})], &json!({}))),
        ("chat", chunks(&[json!({"content": "So"})], &json!({"citations": urls}))),
    ];
    for (wire, body) in table {
        let decoded = crate::decoded::read(wire, &[body.as_bytes()], Default::default());
        assert_eq!(words(&decoded).citations().len(), 5000, "{wire}");
    }
}

#[test]
fn a_transcript_of_a_later_version_is_read() {
    fn with_more(json: &mut Value) {
        match json {
            Value::Object(members) => {
                members.values_mut().for_each(with_more);
                members.insert("later".to_owned(), json!({"x": [1, null]}));
            }
            Value::Array(list) => list.iter_mut().for_each(with_more),
            _ => {}
        }
    }
    let cited = citation(json!({"url": "https://a.test", "in_answer": {"start": 0, "end": 2},
        "in_source": {"start": 4, "end": 2}, "title": null}));
    let text = TextBlock::new("So").with_citations([cited]);
    let image = Block::Image(Media::from_bytes("image/png", [1]));
    let transcript = transcript(Message::assistant([Block::Text(text), image]));
    let mut json = serde_json::to_value(&transcript).unwrap();
    with_more(&mut json);
    assert_eq!(serde_json::from_value::<Transcript>(json).unwrap(), transcript);
    assert!(serde_json::from_value::<Citation>(json!({"in_answer": {"start": 0}})).is_err());
}

fn pictures(message: &Message) -> Vec<Media> {
    let blocks = message.blocks().iter();
    let pictures = blocks.filter_map(|block| match block {
        Block::Image(image) => Some(image.clone()),
        _ => None,
    });
    pictures.collect()
}

#[test]
fn pictures_of_an_answer_are_pictures() {
    let png = Media::from_bytes("image/png", [1, 2, 3]);
    let item = json!({"type": "image_generation_call", "id": "ig_1", "status": "completed",
        "output_format": "png", "revised_prompt": "a bear", "result": "AQID"});
    let body = named(&[
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ]);
    let message = read("responses", &body).answer().message.unwrap();
    assert_eq!(pictures(&message), std::slice::from_ref(&png));
    // It is kept once, and goes back as the item that it was.
    assert_eq!(serde_json::to_string(&message).unwrap().matches("AQID").count(), 1);
    assert_eq!(sent("responses", message.clone()), [item]);
    for wire in ["anthropic", "chat"] {
        assert_eq!(sent(wire, message.clone()), [Value::Null; 0], "{wire} takes none of the model");
    }

    let image = |url: &str| json!({"images": [{"type": "image_url", "image_url": {"url": url}}]});
    let body = chunks(
        &[
            json!({"content": "Here."}),
            image("data:image/png;base64,AQID"),
            image("https://a.test/b.png"),
            // Some servers send them again at the end, and some send what is none.
            image("data:image/png;base64,AQID"),
            image("data:image/png;base64,!"),
            image("data:image/png;base64,"),
            image("data:text/html;base64,AQID"),
            image("data:;base64,AQID"),
            image("javascript:alert(1)"),
            image("file:///etc/passwd"),
            image(""),
            image("DATA:IMAGE/jpeg;base64,AQID"),
        ],
        &json!({}),
    );
    let message = read("chat", &body).answer().message.unwrap();
    let jpeg = Media::from_bytes("IMAGE/jpeg", [1, 2, 3]);
    assert_eq!(pictures(&message), [png, Media::from_url("https://a.test/b.png"), jpeg]);
    assert_eq!(sent("chat", message), [json!({"role": "assistant", "content": "Here."})]);
}

#[test]
fn what_was_said_aloud_is_kept_and_its_words_are_the_answer() {
    let audio = |audio: Value| json!({"audio": audio});
    let body = chunks(
        &[
            audio(json!({"id": "audio_1", "transcript": "It is "})),
            audio(json!({"data": "AQ"})),
            audio(json!({"transcript": "cold.", "data": "ID"})),
            audio(json!({"expires_at": 17})),
        ],
        &json!({}),
    );
    let message = read("chat", &body).answer().message.unwrap();
    assert_eq!(message.text(), "It is cold.");
    let [Block::Text(_), Block::Audio(sound), Block::Vendor(kept)] = message.blocks() else {
        panic!("{message:?}")
    };
    assert_eq!(*sound, Media::from_bytes("audio/pcm", [1, 2, 3]));
    let kept: Value = serde_json::from_str(kept.json()).unwrap();
    let expected =
        json!({"audio": {"id": "audio_1", "transcript": "It is cold.", "expires_at": 17}});
    assert_eq!(kept, expected);
    assert_eq!(sent("chat", message), [json!({"role": "assistant", "content": "It is cold."})]);
}

#[test]
fn a_sound_that_is_none_does_not_fail_the_answer() {
    let audio = |audio: Value| json!({"audio": audio});
    let words = json!({"content": "Cold."});
    let odd = [
        json!({}),
        json!({"data": ""}),
        json!({"id": "", "data": "", "transcript": ""}),
        json!({"id": null, "data": null, "transcript": null, "expires_at": null}),
        json!([]),
        json!("AQID"),
        json!(5),
        json!({"expires_at": "soon"}),
    ];
    for odd in odd {
        let body = chunks(&[audio(odd.clone()), words.clone()], &json!({}));
        let message = read("chat", &body).answer().message.unwrap();
        assert_eq!(message.blocks().len(), 1, "{odd}: {message:?}");
        assert_eq!(message.text(), "Cold.");
    }
    // What is no base64, or no text, is left out.
    for data in [json!("!"), json!("AQ=ID==="), json!("\u{0}\\\"é"), json!({"x": 1}), json!(7)] {
        let body = chunks(&[audio(json!({"id": "a", "data": data})), words.clone()], &json!({}));
        let message = read("chat", &body).answer().message.unwrap();
        assert_eq!((message.text(), message.blocks().len()), ("Cold.".to_owned(), 2), "{data}");
        assert_eq!(sent("chat", message), [json!({"role": "assistant", "content": "Cold."})]);
    }
    // In an answer that comes in one piece.
    let said = json!({"role": "assistant", "content": null,
        "audio": {"id": "a", "data": "!", "transcript": "Cold.", "expires_at": -1}});
    let whole =
        json!({"id": "c", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]});
    let mut decoder = chat::decoder(Default::default(), chat::DecodeOptions::default());
    decoder.push_whole(whole.to_string().as_bytes()).unwrap();
    assert_eq!(collected(&mut decoder).text(), "Cold.");
}

fn collected(decoder: &mut harness::wire::Decoder<chat::ChatAnswer>) -> Message {
    let mut answer = harness::provider::Accumulator::default();
    while let Some(event) = decoder.next_event() {
        answer.push(&event).unwrap();
    }
    answer.finish().unwrap().message.unwrap()
}

#[test]
fn a_sound_that_is_too_large_is_left_out_and_the_words_stay() {
    let limits =
        harness::provider::ResponseSizeLimits { response: 64 * 1024, ..Default::default() };
    let within = |body: &str| {
        let mut decoder = chat::decoder(limits, chat::DecodeOptions::default());
        decoder.push(body.as_bytes()).unwrap();
        decoder.finish().unwrap();
        collected(&mut decoder)
    };
    let audio = |audio: Value| json!({"audio": audio});
    for (data, times) in
        [("A".repeat(1024), 200), ("A".repeat(200 * 1024), 1), ("\u{0}".repeat(20 * 1024), 1)]
    {
        let mut deltas = vec![audio(json!({"id": "a", "transcript": "It is "}))];
        deltas.extend((0..times).map(|_| audio(json!({"data": data}))));
        deltas.push(audio(json!({"transcript": "cold."})));
        let body = chunks(&deltas, &json!({}));
        let message = within(&body);
        assert_eq!(message.text(), "It is cold.");
        let size: usize = message
            .blocks()
            .iter()
            .map(|block| match block {
                Block::Vendor(data) => data.json().len(),
                Block::Audio(sound) => sound.base64().map_or(0, str::len),
                _ => 0,
            })
            .sum();
        assert!(size < 1024, "{size} bytes are kept");
    }
    // What fits is kept.
    let data = "A".repeat(1024);
    let deltas: Vec<Value> = (0..20).map(|_| audio(json!({"id": "a", "data": data}))).collect();
    let body = chunks(&deltas, &json!({}));
    let message = within(&body);
    let sound = message.blocks().iter().find_map(|block| match block {
        Block::Audio(sound) => sound.base64(),
        _ => None,
    });
    assert_eq!(sound, Some(&*data.repeat(20)));
}

#[test]
fn the_type_of_a_sound_is_told_from_its_bytes() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    for (bytes, mime) in [
        (b"RIFF\0\0\0\0WAVEfmt ".as_slice(), "audio/wav"),
        (b"ID3\x04\0\0\0\0", "audio/mpeg"),
        (b"\xff\xfb\x90\x64\0\0", "audio/mpeg"),
        (b"\xff\xff\xff\xff\0\0", "audio/pcm"),
        (b"\0\0\x01\0", "audio/pcm"),
    ] {
        let audio =
            json!({"audio": {"id": "a", "data": STANDARD.encode(bytes), "transcript": "Hm."}});
        let message = read("chat", &chunks(&[audio], &json!({}))).answer().message.unwrap();
        let [Block::Text(_), Block::Audio(sound), _] = message.blocks() else {
            panic!("{message:?}")
        };
        assert_eq!((sound.mime(), sound.bytes().unwrap().unwrap().as_ref()), (Some(mime), bytes));
    }
}

#[tokio::test]
async fn a_watcher_hears_of_sources_pictures_and_sounds_as_they_come() {
    let source = citation(json!({"url": "https://a.test"}));
    let image = Media::from_url("https://a.test/b.png");
    let sound = Media::from_bytes("audio/wav", b"RIFF");
    let said = reply()
        .text("Cold.")
        .event(StreamEvent::Citation { block: 0, citation: Box::new(source.clone()) })
        .event(StreamEvent::Image { block: 7, image: image.clone() })
        .event(StreamEvent::Audio { block: 8, audio: sound.clone() });
    let agent = Agent::builder(ScriptedProvider::new([said])).build().unwrap();
    let mut heard = Vec::new();
    let watch = |event: Event<'_>| match event {
        Event::Citation(citation) => heard.push(format!("{citation:?}")),
        Event::Image(image) => heard.push(format!("{image:?}")),
        Event::Audio(sound) => heard.push(format!("{sound:?}")),
        _ => {}
    };
    let reply = agent.run("Oslo?").on_event(watch).await.unwrap();
    assert_eq!(heard, [format!("{source:?}"), format!("{image:?}"), format!("{sound:?}")]);
    let last = reply.transcript().messages().last().unwrap();
    assert_eq!(last.blocks().len(), 3);
}

#[test]
fn an_answer_that_broke_off_keeps_its_sources() {
    let body = messages(&[json!({"type": "char_location", "cited_text": "cold"})]);
    let decoded = read("anthropic", &body[..body.find("message_delta").unwrap() - 20]);
    let mut answer = harness::provider::Accumulator::default();
    for event in &decoded.events {
        answer.push(event).unwrap();
    }
    let message = answer.into_partial().unwrap();
    let Some(Block::Text(text)) = message.blocks().last() else { panic!("{message:?}") };
    assert_eq!(text.citations().len(), 1);
    assert!(text.text().ends_with("[interrupted]"));
}
