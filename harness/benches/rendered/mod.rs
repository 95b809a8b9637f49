//! Streams as the vendors send them, written out ahead: so many text deltas between what begins
//! and what ends an answer. The benchmarks of one program read them, and the server of the peers
//! sends them.

use std::fmt::Write as _;

/// What the deltas say, again and again: mostly plain words, some with what JSON escapes.
const WORDS: [&str; 16] = [
    "The",
    " quick",
    " brown",
    " fox",
    " jumps",
    " over",
    " the",
    " lazy",
    " dog",
    ".",
    " Then",
    r#" \"it\""#,
    " rests",
    " by",
    " the",
    r"\n\n",
];

/// The body of an answer of so many text deltas.
pub(crate) fn stream(wire: &str, deltas: usize) -> String {
    let words = (0..deltas).filter_map(|at| WORDS.get(at % WORDS.len()));
    match wire {
        "anthropic" => anthropic(words, deltas),
        "responses" => responses(words, deltas),
        _ => chat(words, deltas),
    }
}

fn anthropic<'a>(words: impl Iterator<Item = &'a &'a str>, deltas: usize) -> String {
    let mut out = String::new();
    let mut say = |event: &str, data: &str| {
        let _ = write!(out, "event: {event}\ndata: {data}\n\n");
    };
    say(
        "message_start",
        r#"{"type":"message_start","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-sonnet-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}"#,
    );
    say(
        "content_block_start",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    );
    say("ping", r#"{"type":"ping"}"#);
    for word in words {
        say(
            "content_block_delta",
            &format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{word}"}}}}"#
            ),
        );
    }
    say("content_block_stop", r#"{"type":"content_block_stop","index":0}"#);
    say(
        "message_delta",
        &format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{{"output_tokens":{deltas}}}}}"#
        ),
    );
    say("message_stop", r#"{"type":"message_stop"}"#);
    out
}

fn responses<'a>(words: impl Iterator<Item = &'a &'a str>, deltas: usize) -> String {
    const ID: &str = "msg_67ccd2bf17f0819081ff3bb2cf6508e60bb6a6b452d3795b";
    let response = |status: &str, output: &str, usage: &str| {
        format!(
            r#"{{"id":"resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b","object":"response","created_at":1741476542,"status":"{status}","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"gpt-5.6","output":[{output}],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{{"effort":null,"summary":null}},"store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#
        )
    };
    let mut out = String::new();
    let mut sequence = 0;
    let mut say = |kind: &str, rest: &str| {
        let _ = write!(
            out,
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{sequence},{rest}}}\n\n"
        );
        sequence += 1;
    };
    let empty = response("in_progress", "", "null");
    say("response.created", &format!(r#""response":{empty}"#));
    say("response.in_progress", &format!(r#""response":{empty}"#));
    say(
        "response.output_item.added",
        &format!(
            r#""output_index":0,"item":{{"id":"{ID}","type":"message","status":"in_progress","role":"assistant","content":[]}}"#
        ),
    );
    say(
        "response.content_part.added",
        &format!(
            r#""item_id":"{ID}","output_index":0,"content_index":0,"part":{{"type":"output_text","annotations":[],"logprobs":[],"text":""}}"#
        ),
    );
    let mut text = String::new();
    for (at, word) in words.enumerate() {
        text.push_str(word);
        let padding = "aB3dE6gH9jK2mN".get(..at % 13 + 1).unwrap_or_default();
        say(
            "response.output_text.delta",
            &format!(
                r#""item_id":"{ID}","output_index":0,"content_index":0,"delta":"{word}","logprobs":[],"obfuscation":"{padding}""#
            ),
        );
    }
    say(
        "response.output_text.done",
        &format!(
            r#""item_id":"{ID}","output_index":0,"content_index":0,"text":"{text}","logprobs":[]"#
        ),
    );
    let part =
        format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}"#);
    say(
        "response.content_part.done",
        &format!(r#""item_id":"{ID}","output_index":0,"content_index":0,"part":{part}"#),
    );
    let item = format!(
        r#"{{"id":"{ID}","type":"message","status":"completed","role":"assistant","content":[{part}]}}"#
    );
    say("response.output_item.done", &format!(r#""output_index":0,"item":{item}"#));
    let usage = format!(
        r#"{{"input_tokens":37,"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{deltas},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
        deltas + 37
    );
    say("response.completed", &format!(r#""response":{}"#, response("completed", &item, &usage)));
    out
}

fn chat<'a>(words: impl Iterator<Item = &'a &'a str>, deltas: usize) -> String {
    let mut out = String::new();
    let mut say = |choices: &str, usage: &str| {
        let _ = write!(
            out,
            "data: {{\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\"model\":\"gpt-5.6\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_06737a9306\",\"choices\":[{choices}],\"usage\":{usage}}}\n\n"
        );
    };
    let choice = |delta: &str, finish: &str| {
        format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#)
    };
    say(&choice(r#"{"role":"assistant","content":"","refusal":null}"#, "null"), "null");
    for word in words {
        say(&choice(&format!(r#"{{"content":"{word}"}}"#), "null"), "null");
    }
    say(&choice("{}", r#""stop""#), "null");
    let usage = format!(
        r#"{{"prompt_tokens":19,"completion_tokens":{deltas},"total_tokens":{}}}"#,
        deltas + 19
    );
    say("", &usage);
    out.push_str("data: [DONE]\n\n");
    out
}
