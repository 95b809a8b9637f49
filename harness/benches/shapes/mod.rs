//! Streams with other shapes: streams of servers that are not the vendors' own, and streams of the
//! vendors whose events differ from each other. They are written by hand and imitate recorded
//! streams. `rendered` contains the streams in which nearly all events have the same shape.

use std::fmt::Write as _;

/// One answer.
pub(crate) struct Shape {
    pub(crate) wire: &'static str,
    pub(crate) name: &'static str,
    pub(crate) body: String,
    /// Whether the server flushes each line, so that no piece contains more than one line.
    pub(crate) by_line: bool,
}

/// The names of all shapes.
pub(crate) const NAMES: [(&str, &str); 16] = [
    ("anthropic", "thinking"),
    ("anthropic", "arguments"),
    ("anthropic", "blocks-in-turn"),
    ("anthropic", "by-line"),
    ("anthropic", "short"),
    ("responses", "kinds-in-turn"),
    ("responses", "arguments"),
    ("responses", "by-line"),
    ("responses", "short"),
    ("chat", "usage"),
    ("chat", "timings"),
    ("chat", "details"),
    ("chat", "kinds-in-turn"),
    ("chat", "arguments"),
    ("chat", "by-line"),
    ("chat", "short"),
];

/// The number of deltas in a short answer. Recorded answers have 29 to 85 events.
const SHORT: usize = 40;

const WORDS: [&str; 12] = [
    "The",
    " lamp",
    " on",
    " the",
    " stairs",
    " is",
    r#" \"off\""#,
    ",",
    r"\n",
    " since",
    " Été",
    " 9",
];

fn word(at: usize) -> &'static str {
    WORDS.get(at % WORDS.len()).copied().unwrap_or_default()
}

/// The answer with this name, with this number of deltas.
pub(crate) fn stream(wire: &'static str, name: &'static str, deltas: usize) -> Shape {
    let body = match (wire, name) {
        ("anthropic", "arguments") => {
            anthropic(&[CALL], deltas, |at| (0, INPUT, argument(at, deltas)))
        }
        ("anthropic", "thinking") => anthropic(&[THOUGHT], deltas, |at| (0, THINKING, word(at))),
        ("anthropic", "blocks-in-turn") => anthropic(&[THOUGHT, TEXT], deltas, |at| match at % 2 {
            0 => (0, THINKING, word(at)),
            _ => (1, WORDING, word(at)),
        }),
        ("anthropic", "short") => anthropic(&[TEXT], SHORT, |at| (0, WORDING, word(at))),
        ("anthropic", _) => anthropic(&[TEXT], deltas, |at| (0, WORDING, word(at))),
        ("responses", "kinds-in-turn") => responses(deltas, |at| match at % 2 {
            0 => (0, word(at)),
            _ => (1, word(at)),
        }),
        ("responses", "arguments") => responses(deltas, |at| (2, argument(at, deltas))),
        ("responses", "short") => responses(SHORT, |at| (1, word(at))),
        ("responses", _) => responses(deltas, |at| (1, word(at))),
        (_, "usage") => chat(deltas, |at| (words(word(at)), usage(at))),
        (_, "timings") => chat(deltas, |at| (words(word(at)), timings(at))),
        (_, "details") => chat(deltas, |at| (details(word(at)), String::new())),
        (_, "kinds-in-turn") => chat(deltas, |at| match at % 2 {
            0 => (format!(r#"{{"content":"","reasoning":"{}"}}"#, word(at)), String::new()),
            _ => (words(word(at)), String::new()),
        }),
        (_, "arguments") => chat(deltas, |at| (call(at, argument(at, deltas)), String::new())),
        (_, "short") => chat(SHORT, |at| (words(word(at)), String::new())),
        (_, _) => chat(deltas, |at| (words(word(at)), String::new())),
    };
    Shape { wire, name, body, by_line: name == "by-line" }
}

/// All of them.
pub(crate) fn all(deltas: usize) -> impl Iterator<Item = Shape> {
    NAMES.into_iter().map(move |(wire, name)| stream(wire, name, deltas))
}

/// Splits the bytes of an answer into the pieces that a socket would return.
pub(crate) fn pieces(body: &[u8], by_line: bool) -> Vec<&[u8]> {
    match by_line {
        true => body.split_inclusive(|byte| *byte == b'\n').collect(),
        false => body.chunks(16 * 1024).collect(),
    }
}

/// Piece `at` of one JSON object, which is split into `of` pieces.
fn argument(at: usize, of: usize) -> &'static str {
    match at {
        0 => r#"{\"note\": \""#,
        _ if at + 1 == of => r#"\"}"#,
        _ => ["a door", " and", r" a\\n", " key "].get(at % 4).copied().unwrap_or_default(),
    }
}

const TEXT: &str = r#"{"type":"text","text":""}"#;
const THOUGHT: &str = r#"{"type":"thinking","thinking":"","signature":""}"#;
const CALL: &str =
    r#"{"type":"tool_use","id":"toolu_01Qv7","name":"note","input":{},"caller":{"type":"direct"}}"#;
const WORDING: (&str, &str) = ("text_delta", "text");
const THINKING: (&str, &str) = ("thinking_delta", "thinking");
const INPUT: (&str, &str) = ("input_json_delta", "partial_json");

/// Builds a stream. `delta` returns the number of its block, its type and field, and its text.
fn anthropic(
    blocks: &[&str],
    deltas: usize,
    delta: impl Fn(usize) -> (usize, (&'static str, &'static str), &'static str),
) -> String {
    let mut out = String::new();
    let mut events = 0;
    let mut say = |event: &str, members: &str| {
        let padding = events * 5 % 14;
        let _ = write!(
            out,
            "event: {event}\ndata: {{\"type\":\"{event}\"{members}{:padding$}}}\n\n",
            ""
        );
        events += 1;
    };
    say(
        "message_start",
        r#","message":{"model":"claude-haiku-4-5","id":"msg_01Hk","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":611,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":4,"service_tier":"standard"}}"#,
    );
    for (at, block) in blocks.iter().enumerate() {
        say("content_block_start", &format!(r#","index":{at},"content_block":{block}"#));
    }
    say("ping", "");
    for at in 0..deltas {
        let (index, (kind, field), text) = delta(at);
        say(
            "content_block_delta",
            &format!(r#","index":{index},"delta":{{"type":"{kind}","{field}":"{text}"}}"#),
        );
    }
    for at in 0..blocks.len() {
        say("content_block_stop", &format!(r#","index":{at}"#));
    }
    say(
        "message_delta",
        r#","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":611,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":90}"#,
    );
    say("message_stop", "");
    out
}

/// Builds a stream. `delta` returns the position of its item (a thought, a message or a call) and
/// its text.
fn responses(deltas: usize, delta: impl Fn(usize) -> (usize, &'static str)) -> String {
    const KINDS: [(&str, &str, &str); 3] = [
        ("reasoning", "reasoning_summary_text", r#""summary_index":0"#),
        ("message", "output_text", r#""content_index":0,"logprobs":[]"#),
        ("function_call", "function_call_arguments", ""),
    ];
    let mut out = String::new();
    let mut sequence = 0;
    let mut say = |kind: &str, members: &str| {
        let _ = write!(
            out,
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{sequence}{members}}}\n\n"
        );
        sequence += 1;
    };
    let response = |status: &str, usage: &str| {
        format!(
            r#","response":{{"id":"resp_08c1","object":"response","created_at":1790000000,"status":"{status}","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"gpt-5.6-mini","output":[],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{{"effort":"low","summary":"auto"}},"service_tier":"default","store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}},"verbosity":"medium"}},"tool_choice":"auto","tools":[{{"type":"function","description":"Keeps a note.","name":"note","parameters":{{"type":"object","properties":{{"note":{{"type":"string","description":"The words."}}}},"required":["note"],"additionalProperties":false}},"strict":true}}],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#
        )
    };
    say("response.created", &response("in_progress", "null"));
    say("response.in_progress", &response("in_progress", "null"));
    let items: std::collections::BTreeSet<usize> = (0..deltas).map(|at| delta(at).0).collect();
    for item in &items {
        let (kind, _, _) = KINDS.get(*item).copied().unwrap_or_default();
        say(
            "response.output_item.added",
            &format!(
                r#","output_index":{item},"item":{{"id":"it_{item}4e7","type":"{kind}","status":"in_progress","arguments":"","call_id":"call_H2","name":"note"}}"#
            ),
        );
    }
    for at in 0..deltas {
        let (item, text) = delta(at);
        let (_, kind, members) = KINDS.get(item).copied().unwrap_or_default();
        let comma = if members.is_empty() { "" } else { "," };
        let hidden = "k3Wm9QzT5bRx7c".get(text.len() % 14..).unwrap_or_default();
        say(
            &format!("response.{kind}.delta"),
            &format!(
                r#","item_id":"it_{item}4e7","output_index":{item}{comma}{members},"delta":"{text}","obfuscation":"{hidden}""#
            ),
        );
    }
    for item in &items {
        let (kind, _, _) = KINDS.get(*item).copied().unwrap_or_default();
        let arguments: String = match kind {
            "function_call" => (0..deltas).map(|at| delta(at).1).collect(),
            _ => String::new(),
        };
        say(
            "response.output_item.done",
            &format!(
                r#","output_index":{item},"item":{{"id":"it_{item}4e7","type":"{kind}","status":"completed","summary":[],"content":[],"arguments":"{arguments}","call_id":"call_H2","name":"note"}}"#
            ),
        );
    }
    say(
        "response.completed",
        &response(
            "completed",
            r#"{"input_tokens":83,"input_tokens_details":{"cached_tokens":0},"output_tokens":90,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":173}"#,
        ),
    );
    out
}

fn words(text: &str) -> String {
    format!(r#"{{"content":"{text}"}}"#)
}

/// A delta in the format of OpenRouter, which sends thinking twice.
fn details(text: &str) -> String {
    format!(
        r#"{{"role":"assistant","content":"","reasoning":"{text}","reasoning_details":[{{"type":"reasoning.text","text":"{text}","format":"unknown","index":0}}]}}"#
    )
}

/// A fragment of a call. The first fragment contains the name.
fn call(at: usize, text: &str) -> String {
    match at {
        0 => format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"index":0,"id":"call_8vK","type":"function","function":{{"name":"note","arguments":"{text}"}}}}]}}"#
        ),
        _ => {
            format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":"{text}"}}}}]}}"#)
        }
    }
}

fn usage(at: usize) -> String {
    let total = at + 58;
    format!(
        r#","usage":{{"prompt_tokens":57,"total_tokens":{total},"completion_tokens":{},"prompt_tokens_details":null}}"#,
        at + 1
    )
}

/// The timings that llama.cpp sends on request.
fn timings(at: usize) -> String {
    let at = at + 1;
    format!(
        r#","timings":{{"cache_n":0,"prompt_n":57,"prompt_ms":48.219,"prompt_per_token_ms":0.845947,"prompt_per_second":1182.106638,"predicted_n":{at},"predicted_ms":{at}8.403,"predicted_per_token_ms":8.403125,"predicted_per_second":119.0032{at}}}"#
    )
}

/// Builds a stream. `delta` returns the delta of a chunk, and the members after `choices`.
fn chat(deltas: usize, delta: impl Fn(usize) -> (String, String)) -> String {
    let mut out = String::new();
    let mut say = |choices: &str, more: &str| {
        let _ = write!(
            out,
            "data: {{\"id\":\"chatcmpl-52d0c9\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"qwen3:8b\",\"system_fingerprint\":\"b10499-6d05498\",\"choices\":[{choices}]{more}}}\n\n"
        );
    };
    let choice = |delta: &str, finish: &str| {
        format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#)
    };
    say(&choice(r#"{"role":"assistant","content":""}"#, "null"), "");
    for at in 0..deltas {
        let (delta, more) = delta(at);
        say(&choice(&delta, "null"), &more);
    }
    say(&choice("{}", r#""stop""#), "");
    say("", &usage(deltas));
    out.push_str("data: [DONE]\n\n");
    out
}
