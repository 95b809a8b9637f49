//! Writes the events of streams with calls, one at a time, and secrets for texts.

use std::fmt::Write as _;

use serde_json::json;

pub(crate) fn secret(at: usize) -> String {
    // The secrets are not sorted, and many begin with the same letters.
    format!("tok/{:08x}\"{at}", (at as u64).wrapping_mul(0x9e37_79b9) % 0xffff_fffb)
}

fn say(out: &mut String, data: &serde_json::Value) {
    let _ = write!(out, "data: {data}\n\n");
}

pub(crate) fn begin(out: &mut String, wire: &str) {
    match wire {
        "anthropic" => say(out, &json!({"type": "message_start", "message": {"id": "m"}})),
        "responses" => say(out, &json!({"type": "response.created", "response": {"id": "r"}})),
        "chat" => {}
        other => panic!("a wire without a bench: {other}"),
    }
}

pub(crate) fn start(out: &mut String, wire: &str, at: usize) {
    let (id, name) = (format!("call_{at}"), "look");
    match wire {
        "anthropic" => {
            let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            let start = json!({"type": "content_block_start", "index": at, "content_block": block});
            say(out, &start);
        }
        "responses" => {
            let item = json!({"type": "function_call", "id": format!("fc_{at}"), "call_id": id,
                "name": name, "arguments": ""});
            let added =
                json!({"type": "response.output_item.added", "output_index": at, "item": item});
            say(out, &added);
        }
        "chat" => {
            let function = json!({"name": name, "arguments": ""});
            let call = json!({"index": at, "id": id, "type": "function", "function": function});
            say(out, &json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}));
        }
        other => panic!("a wire without a bench: {other}"),
    }
}

pub(crate) fn delta(out: &mut String, wire: &str, at: usize, piece: &str) {
    match wire {
        "anthropic" => {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            say(out, &json!({"type": "content_block_delta", "index": at, "delta": delta}));
        }
        "responses" => {
            let kind = "response.function_call_arguments.delta";
            say(out, &json!({"type": kind, "output_index": at, "delta": piece}));
        }
        "chat" => {
            let call = json!({"index": at, "function": {"arguments": piece}});
            say(out, &json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}));
        }
        other => panic!("a wire without a bench: {other}"),
    }
}

pub(crate) fn end(out: &mut String, wire: &str, at: usize, arguments: &str) {
    match wire {
        "anthropic" => say(out, &json!({"type": "content_block_stop", "index": at})),
        "responses" => {
            let item = json!({"type": "function_call", "id": format!("fc_{at}"),
                "call_id": format!("call_{at}"), "name": "look", "arguments": arguments});
            let done =
                json!({"type": "response.output_item.done", "output_index": at, "item": item});
            say(out, &done);
        }
        "chat" => {}
        other => panic!("a wire without a bench: {other}"),
    }
}

pub(crate) fn complete(out: &mut String, wire: &str) {
    match wire {
        "anthropic" => {
            say(out, &json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
            say(out, &json!({"type": "message_stop"}));
        }
        "responses" => {
            let response = json!({"id": "r", "status": "completed", "output": []});
            say(out, &json!({"type": "response.completed", "response": response}));
        }
        "chat" => {
            say(
                out,
                &json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
            );
            out.push_str("data: [DONE]\n\n");
        }
        other => panic!("a wire without a bench: {other}"),
    }
}
