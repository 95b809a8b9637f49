//! Answers of Anthropic's Messages API: from the vendor, and from other servers with this API,
//! which sort the members of an object by name.

use std::fmt::Write as _;

use super::{Answer, letters, tokens};

/// The parts of an answer.
struct Plan {
    name: &'static str,
    /// The number of thinking deltas (`None` without thinking), and the number of text deltas.
    thoughts: Option<usize>,
    words: usize,
    /// The number of tokens in a delta. The vendor sends many tokens at once.
    tokens: usize,
    by_name: bool,
}

pub fn answers() -> Vec<Answer> {
    let plan =
        |name, thoughts, words, tokens, by_name| Plan { name, thoughts, words, tokens, by_name };
    let plans = [
        plan("a word", None, 2, 3, false),
        plan("a sentence", None, 3, 7, false),
        plan("an answer", None, 9, 12, false),
        plan("a long answer", None, 46, 18, false),
        plan("thinking", Some(6), 8, 11, false),
        plan("thinking that is not shown", Some(0), 12, 14, false),
        plan("by name, a sentence", None, 3, 7, true),
        plan("by name, thinking", Some(9), 12, 16, true),
    ];
    plans.iter().map(|plan| Answer { name: plan.name, body: body(plan) }).collect()
}

fn body(plan: &Plan) -> String {
    let mut out = String::new();
    let mut events = 0;
    // The vendor pads its events with spaces.
    let mut say = |event: &str, vendor: &str, by_name: &str| {
        let padding = if plan.by_name || event == "message_start" { 0 } else { events * 7 % 16 };
        let data = if plan.by_name { by_name } else { vendor };
        let _ = write!(out, "event: {event}\ndata: {data}{:padding$}}}\n\n", "");
        events += 1;
    };
    say(
        "message_start",
        r#"{"type":"message_start","message":{"model":"claude-sonnet-5","id":"msg_01PqXc7wZrT4bLmN9vKsYd3H","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":412,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":5,"service_tier":"standard","inference_geo":"global"}}"#,
        r#"{"message":{"content":[],"id":"msg_7f21","model":"claude-opus-4-7","role":"assistant","stop_details":null,"stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"inference_geo":"global","input_tokens":102,"output_tokens":8,"service_tier":"standard"}},"type":"message_start""#,
    );
    let mut index = 0;
    let mut at = 0;
    if let Some(thoughts) = plan.thoughts {
        say(
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}"#,
            r#"{"content_block":{"signature":"","thinking":"","type":"thinking"},"index":0,"type":"content_block_start""#,
        );
        say("ping", r#"{"type":"ping""#, r#"{"type":"ping""#);
        for _ in 0..thoughts {
            let text = tokens(at, plan.tokens);
            at += plan.tokens;
            say(
                "content_block_delta",
                &format!(
                    r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"thinking_delta","thinking":"{text}"}}"#
                ),
                &format!(
                    r#"{{"delta":{{"thinking":"{text}","type":"thinking_delta"}},"index":0,"type":"content_block_delta""#
                ),
            );
        }
        let signature = letters(3, 340);
        say(
            "content_block_delta",
            &format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"signature_delta","signature":"{signature}"}}"#
            ),
            &format!(
                r#"{{"delta":{{"signature":"{signature}","type":"signature_delta"}},"index":0,"type":"content_block_delta""#
            ),
        );
        say(
            "content_block_stop",
            r#"{"type":"content_block_stop","index":0"#,
            r#"{"index":0,"type":"content_block_stop""#,
        );
        index = 1;
    }
    say(
        "content_block_start",
        &format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"text","text":""}}"#
        ),
        &format!(
            r#"{{"content_block":{{"text":"","type":"text"}},"index":{index},"type":"content_block_start""#
        ),
    );
    if index == 0 {
        say("ping", r#"{"type": "ping""#, r#"{"type":"ping""#);
    }
    for word in 0..plan.words {
        // The deltas have different sizes.
        let count = (plan.tokens * (word % 3 + 1)).div_ceil(2);
        let text = tokens(at, count);
        at += count;
        say(
            "content_block_delta",
            &format!(
                r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"{text}"}}"#
            ),
            &format!(
                r#"{{"delta":{{"text":"{text}","type":"text_delta"}},"index":{index},"type":"content_block_delta""#
            ),
        );
    }
    say(
        "content_block_stop",
        &format!(r#"{{"type":"content_block_stop","index":{index}"#),
        &format!(r#"{{"index":{index},"type":"content_block_stop""#),
    );
    say(
        "message_delta",
        &format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null,"stop_details":null}},"usage":{{"input_tokens":412,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{at}}}"#
        ),
        &format!(
            r#"{{"delta":{{"stop_details":null,"stop_reason":"end_turn","stop_sequence":null}},"type":"message_delta","usage":{{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":102,"output_tokens":{at},"output_tokens_details":{{"thinking_tokens":17}}}}"#
        ),
    );
    say("message_stop", r#"{"type":"message_stop""#, r#"{"type":"message_stop""#);
    out
}
