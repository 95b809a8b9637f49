//! Streams as the vendors send them, prepared in advance. A stream has a given number of text
//! deltas between its first and last events. Each event has all fields of a real event, in the
//! vendor's order and with the vendor's padding. The benchmarks of this library read these streams,
//! and the server of the peers sends them.

use std::fmt::Write as _;

/// The text of the deltas, which is repeated as necessary. Each element is one token. Most tokens
/// are plain words. Some contain JSON escapes, and one is not ASCII.
const WORDS: [&str; 32] = [
    "The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", ",", " says",
    r#" \"it"#, r#"\","#, " and", " then", " rests", " by", " a", " river", " —", " quietly", ".",
    r"\n\n", "Later", " that", " day", " it", " wakes", " up", " again", ",", " 17",
];

/// Padding that hides the length of a delta.
const PADDING: &str = "aB3dE6gH9jK2mN5p";

/// The body of an answer with this number of text deltas.
pub(crate) fn stream(wire: &str, deltas: usize) -> String {
    match wire {
        "anthropic" => anthropic(deltas),
        "responses" => responses(deltas),
        "chat" => chat(deltas),
        other => panic!("a wire without a bench: {other}"),
    }
}

/// The token at this position, with JSON escapes.
fn word(at: usize) -> &'static str {
    WORDS.get(at % WORDS.len()).copied().unwrap_or_default()
}

/// A length of padding, from 0 to 15. It differs from event to event.
fn uneven(at: usize) -> usize {
    at * 7 % 16
}

/// Each delta has one to five tokens, and up to 15 spaces before its last brace.
fn anthropic(deltas: usize) -> String {
    let mut out = String::new();
    let mut events = 0;
    let mut say = |event: &str, data: &str| {
        let padding = uneven(events);
        let _ = write!(out, "event: {event}\ndata: {data}{:padding$}}}\n\n", "");
        events += 1;
    };
    say(
        "message_start",
        r#"{"type":"message_start","message":{"model":"claude-sonnet-5","id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard","inference_geo":"global"}}"#,
    );
    say(
        "content_block_start",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}"#,
    );
    say("ping", r#"{"type": "ping""#);
    let mut words = 0;
    for at in 0..deltas {
        let text: String = (words..=words + at % 5).map(word).collect();
        words += at % 5 + 1;
        say(
            "content_block_delta",
            &format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}"#
            ),
        );
    }
    say("content_block_stop", r#"{"type":"content_block_stop","index":0"#);
    say(
        "message_delta",
        &format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null,"stop_details":null}},"usage":{{"input_tokens":25,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{words}}}"#
        ),
    );
    say("message_stop", r#"{"type":"message_stop""#);
    out
}

/// Each delta has one token. The token and its padding together have a multiple of 16 bytes.
fn responses(deltas: usize) -> String {
    const ID: &str = "msg_0a7c31d85e94f2b60069f2d41b8c5081a3be6d07f9124c8e53";
    let response = |status: &str, completed: &str, output: &str, usage: &str| {
        format!(
            r#"{{"id":"resp_0a7c31d85e94f2b60069f2d41a77e081a39c40b5d2e8f61374","object":"response","created_at":1793244186,"status":"{status}","background":false,"completed_at":{completed},"error":null,"frequency_penalty":0.0,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"gpt-5.6","moderation":null,"output":[{output}],"parallel_tool_calls":true,"presence_penalty":0.0,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":"24h","reasoning":{{"context":"all_turns","effort":"none","mode":"standard","summary":null}},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}},"verbosity":"medium"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":0.98,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#
        )
    };
    let mut out = String::new();
    let mut sequence = 0;
    let mut say = |kind: &str, rest: &str| {
        let _ = write!(
            out,
            "event: {kind}\ndata: {{\"type\":\"{kind}\",{rest},\"sequence_number\":{sequence}}}\n\n"
        );
        sequence += 1;
    };
    let empty = response("in_progress", "null", "", "null");
    say("response.created", &format!(r#""response":{empty}"#));
    say("response.in_progress", &format!(r#""response":{empty}"#));
    say(
        "response.output_item.added",
        &format!(
            r#""item":{{"id":"{ID}","type":"message","status":"in_progress","content":[],"phase":"final_answer","role":"assistant"}},"output_index":0"#
        ),
    );
    say(
        "response.content_part.added",
        &format!(
            r#""content_index":0,"item_id":"{ID}","output_index":0,"part":{{"type":"output_text","annotations":[],"logprobs":[],"text":""}}"#
        ),
    );
    let mut text = String::new();
    for word in (0..deltas).map(word) {
        text.push_str(word);
        let padding = PADDING.get(word.len() % 16..).unwrap_or_default();
        say(
            "response.output_text.delta",
            &format!(
                r#""content_index":0,"delta":"{word}","item_id":"{ID}","logprobs":[],"obfuscation":"{padding}","output_index":0"#
            ),
        );
    }
    let place = format!(r#""content_index":0,"item_id":"{ID}""#);
    say(
        "response.output_text.done",
        &format!(r#"{place},"logprobs":[],"output_index":0,"text":"{text}""#),
    );
    let part =
        format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}"#);
    say("response.content_part.done", &format!(r#"{place},"output_index":0,"part":{part}"#));
    let item = format!(
        r#"{{"id":"{ID}","type":"message","status":"completed","content":[{part}],"phase":"final_answer","role":"assistant"}}"#
    );
    say("response.output_item.done", &format!(r#""item":{item},"output_index":0"#));
    let usage = format!(
        r#"{{"input_tokens":37,"input_tokens_details":{{"cache_write_tokens":0,"cached_tokens":0}},"output_tokens":{deltas},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
        deltas + 37
    );
    let whole = response("completed", "1793244195", &item, &usage);
    say("response.completed", &format!(r#""response":{whole}"#));
    out
}

/// Each delta has one token, and the padding that the vendor adds for `include_usage`.
fn chat(deltas: usize) -> String {
    let mut out = String::new();
    let mut chunks = 0;
    let mut say = |choices: &str, usage: &str| {
        let padding = PADDING.get(uneven(chunks)..).unwrap_or_default();
        let _ = write!(
            out,
            "data: {{\"id\":\"chatcmpl-DuLe4Rk8ZbVw2mXq7NcT1yHs5PjGa\",\"object\":\"chat.completion.chunk\",\"created\":1793244186,\"model\":\"gpt-5.6-2026-08-12\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_4c1e07a9d3\",\"choices\":[{choices}],\"usage\":{usage},\"obfuscation\":\"{padding}\"}}\n\n"
        );
        chunks += 1;
    };
    let choice = |delta: &str, finish: &str| {
        format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#)
    };
    say(&choice(r#"{"role":"assistant","content":"","refusal":null}"#, "null"), "null");
    for word in (0..deltas).map(word) {
        say(&choice(&format!(r#"{{"content":"{word}"}}"#), "null"), "null");
    }
    say(&choice("{}", r#""stop""#), "null");
    let usage = format!(
        r#"{{"prompt_tokens":19,"completion_tokens":{deltas},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":0,"audio_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}}"#,
        deltas + 19
    );
    say("", &usage);
    out.push_str("data: [DONE]\n\n");
    out
}
