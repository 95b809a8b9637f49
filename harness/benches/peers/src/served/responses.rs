//! Answers of the Responses API: from the vendor, and from servers that sort the members of an object by name.

use std::fmt::Write as _;

use super::{Answer, letters, tokens};

/// The parts of an answer.
struct Plan {
    name: &'static str,
    thinks: Thinks,
    words: usize,
    /// The number of tools that the response repeats.
    tools: usize,
    by_name: bool,
}

#[derive(Clone, Copy)]
enum Thinks {
    No,
    /// An encrypted item with this number of letters.
    Hidden(usize),
    /// A summary with this number of deltas.
    Summary(usize),
}

pub fn answers() -> Vec<Answer> {
    let plan = |name, thinks, words, tools, by_name| Plan { name, thinks, words, tools, by_name };
    let plans = [
        plan("a word", Thinks::No, 2, 0, false),
        plan("a sentence", Thinks::No, 9, 1, false),
        plan("an answer", Thinks::No, 60, 2, false),
        plan("thinking that is hidden", Thinks::Hidden(1100), 14, 1, false),
        plan("thinking in a summary", Thinks::Summary(70), 90, 0, false),
        plan("a long answer", Thinks::Hidden(2200), 380, 2, false),
        plan("by name, thinking in a summary", Thinks::Summary(34), 12, 2, true),
        plan("by name, a sentence", Thinks::No, 11, 0, true),
    ];
    plans.iter().map(|plan| Answer { name: plan.name, body: body(plan) }).collect()
}

const TOOL: &str = r#"{"type":"function","description":"Looks a ship up in the register.","name":"ship","parameters":{"type":"object","properties":{"name":{"type":"string","description":"The name on the bow."}},"required":["name"],"additionalProperties":false},"strict":true}"#;

/// The response object in the first two events and in the last event.
fn response(plan: &Plan, status: &str, output: &str, usage: &str) -> String {
    let tools = vec![TOOL; plan.tools].join(",");
    let finished = if status == "completed" { "1790000002" } else { "null" };
    match plan.by_name {
        false => format!(
            r#"{{"id":"resp_03b7f1c2d9e4a86500","object":"response","created_at":1790000000,"status":"{status}","background":false,"completed_at":{finished},"error":null,"frequency_penalty":0.0,"incomplete_details":null,"instructions":"Answer in as few words as will do.","max_output_tokens":null,"max_tool_calls":null,"model":"gpt-5.2-mini","moderation":null,"output":[{output}],"parallel_tool_calls":true,"presence_penalty":0.0,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":"in_memory","reasoning":{{"context":"current_turn","effort":"low","mode":"standard","summary":"auto"}},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}},"verbosity":"medium"}},"tool_choice":"auto","tools":[{tools}],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#
        ),
        true => format!(
            r#"{{"background":false,"completed_at":{finished},"created_at":1790000000,"error":null,"frequency_penalty":0.0,"id":"resp_03b7","incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{{}},"model":"grok-4.3","object":"response","output":[{output}],"parallel_tool_calls":true,"presence_penalty":0.0,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{{"effort":null,"summary":null}},"safety_identifier":null,"service_tier":"default","status":"{status}","store":false,"temperature":0.7,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[{tools}],"top_logprobs":0,"top_p":0.95,"truncation":"disabled","usage":{usage},"user":null}}"#
        ),
    }
}

fn body(plan: &Plan) -> String {
    let mut out = String::new();
    let mut number = 0;
    // Writes an event. `vendor` and `by_name` are its members in both orders. The number of the event is one of the
    // members.
    let mut say = |event: &str, vendor: &str, by_name: &str| {
        let number_said = number.to_string();
        let members = match plan.by_name {
            false => format!(r#""type":"{event}",{vendor},"sequence_number":{number_said}"#),
            true => format!(
                r#"{},"type":"{event}""#,
                by_name.replace("@number", &format!(r#""sequence_number":{number_said}"#))
            ),
        };
        let _ = write!(out, "event: {event}\ndata: {{{members}}}\n\n");
        number += 1;
    };
    let begun = response(plan, "in_progress", "", "null");
    for event in ["response.created", "response.in_progress"] {
        say(event, &format!(r#""response":{begun}"#), &format!(r#""response":{begun},@number"#));
    }
    let mut at = 0;
    let mut output = String::new();
    let mut index = 0;
    match plan.thinks {
        Thinks::No => {}
        Thinks::Hidden(count) => {
            let item = |count| {
                format!(
                    r#"{{"id":"rs_03b7f1c2d9e4a86501","type":"reasoning","encrypted_content":"{}","summary":[]}}"#,
                    letters(count, count)
                )
            };
            let (begun, done) = (item(count * 2 / 3), item(count));
            say("response.output_item.added", &format!(r#""item":{begun},"output_index":0"#), "");
            say("response.output_item.done", &format!(r#""item":{done},"output_index":0"#), "");
            output = done + ",";
            index = 1;
        }
        Thinks::Summary(count) => {
            let begun = r#"{"id":"rs_03b7f1c2d9e4a86501","type":"reasoning","summary":[]}"#;
            let begun_by_name =
                r#"{"id":"rs_03b7","status":"in_progress","summary":[],"type":"reasoning"}"#;
            say(
                "response.output_item.added",
                &format!(r#""item":{begun},"output_index":0"#),
                &format!(r#""item":{begun_by_name},"output_index":0,@number"#),
            );
            say(
                "response.reasoning_summary_part.added",
                r#""item_id":"rs_03b7f1c2d9e4a86501","output_index":0,"part":{"type":"summary_text","text":""},"summary_index":0"#,
                r#""item_id":"rs_03b7","output_index":0,"part":{"text":"","type":"summary_text"},@number,"summary_index":0"#,
            );
            for event in 0..count {
                let (text, pad) = (tokens(at, 1), letters(at * 3, 4 + event * 5 % 12));
                at += 1;
                say(
                    "response.reasoning_summary_text.delta",
                    &format!(
                        r#""delta":"{text}","item_id":"rs_03b7f1c2d9e4a86501","obfuscation":"{pad}","output_index":0,"summary_index":0"#
                    ),
                    &format!(
                        r#""delta":"{text}","item_id":"rs_03b7","output_index":0,@number,"summary_index":0"#
                    ),
                );
            }
            let said = tokens(0, count);
            say(
                "response.reasoning_summary_text.done",
                &format!(
                    r#""item_id":"rs_03b7f1c2d9e4a86501","output_index":0,"summary_index":0,"text":"{said}""#
                ),
                &format!(
                    r#""item_id":"rs_03b7","output_index":0,@number,"summary_index":0,"text":"{said}""#
                ),
            );
            say(
                "response.reasoning_summary_part.done",
                &format!(
                    r#""item_id":"rs_03b7f1c2d9e4a86501","output_index":0,"part":{{"type":"summary_text","text":"{said}"}},"summary_index":0"#
                ),
                &format!(
                    r#""item_id":"rs_03b7","output_index":0,"part":{{"text":"{said}","type":"summary_text"}},@number,"summary_index":0"#
                ),
            );
            let done = match plan.by_name {
                false => format!(
                    r#"{{"id":"rs_03b7f1c2d9e4a86501","type":"reasoning","summary":[{{"type":"summary_text","text":"{said}"}}]}}"#
                ),
                true => format!(
                    r#"{{"id":"rs_03b7","status":"completed","summary":[{{"text":"{said}","type":"summary_text"}}],"type":"reasoning"}}"#
                ),
            };
            say(
                "response.output_item.done",
                &format!(r#""item":{done},"output_index":0"#),
                &format!(r#""item":{done},"output_index":0,@number"#),
            );
            output = done + ",";
            index = 1;
        }
    }
    say(
        "response.output_item.added",
        &format!(
            r#""item":{{"id":"msg_03b7f1c2d9e4a86502","type":"message","status":"in_progress","content":[],"role":"assistant"}},"output_index":{index}"#
        ),
        &format!(
            r#""item":{{"content":[],"id":"msg_03b7","role":"assistant","status":"in_progress","type":"message"}},"output_index":{index},@number"#
        ),
    );
    say(
        "response.content_part.added",
        &format!(
            r#""content_index":0,"item_id":"msg_03b7f1c2d9e4a86502","output_index":{index},"part":{{"type":"output_text","annotations":[],"logprobs":[],"text":""}}"#
        ),
        &format!(
            r#""content_index":0,"item_id":"msg_03b7","output_index":{index},"part":{{"annotations":[],"logprobs":[],"text":"","type":"output_text"}},@number"#
        ),
    );
    let first = at;
    for event in 0..plan.words {
        let (text, pad) = (tokens(at, 1), letters(at * 3, 4 + event * 5 % 12));
        at += 1;
        say(
            "response.output_text.delta",
            &format!(
                r#""content_index":0,"delta":"{text}","item_id":"msg_03b7f1c2d9e4a86502","logprobs":[],"obfuscation":"{pad}","output_index":{index}"#
            ),
            &format!(
                r#""content_index":0,"delta":"{text}","item_id":"msg_03b7","logprobs":[],"output_index":{index},@number"#
            ),
        );
    }
    let said = tokens(first, plan.words);
    say(
        "response.output_text.done",
        &format!(
            r#""content_index":0,"item_id":"msg_03b7f1c2d9e4a86502","logprobs":[],"output_index":{index},"text":"{said}""#
        ),
        &format!(
            r#""content_index":0,"item_id":"msg_03b7","logprobs":[],"output_index":{index},@number,"text":"{said}""#
        ),
    );
    say(
        "response.content_part.done",
        &format!(
            r#""content_index":0,"item_id":"msg_03b7f1c2d9e4a86502","output_index":{index},"part":{{"type":"output_text","annotations":[],"logprobs":[],"text":"{said}"}}"#
        ),
        &format!(
            r#""content_index":0,"item_id":"msg_03b7","output_index":{index},"part":{{"annotations":[],"logprobs":[],"text":"{said}","type":"output_text"}},@number"#
        ),
    );
    let done = match plan.by_name {
        false => format!(
            r#"{{"id":"msg_03b7f1c2d9e4a86502","type":"message","status":"completed","content":[{{"type":"output_text","annotations":[],"logprobs":[],"text":"{said}"}}],"role":"assistant"}}"#
        ),
        true => format!(
            r#"{{"content":[{{"annotations":[],"logprobs":[],"text":"{said}","type":"output_text"}}],"id":"msg_03b7","role":"assistant","status":"completed","type":"message"}}"#
        ),
    };
    say(
        "response.output_item.done",
        &format!(r#""item":{done},"output_index":{index}"#),
        &format!(r#""item":{done},"output_index":{index},@number"#),
    );
    let usage = format!(
        r#"{{"input_tokens":64,"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{at},"output_tokens_details":{{"reasoning_tokens":{first}}},"total_tokens":{}}}"#,
        at + 64
    );
    let whole = response(plan, "completed", &(output + &done), &usage);
    say(
        "response.completed",
        &format!(r#""response":{whole}"#),
        &format!(r#""response":{whole},@number"#),
    );
    out
}
