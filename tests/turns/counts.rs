//! Zeros in a later report of the tokens do not replace what was counted before.

use harness::{
    Agent,
    testing::{Answer, LoopbackServer},
};
use serde_json::{Value, json};

use super::{provider, stream};

async fn usage(wire: &str, events: &[Value]) -> harness::Usage {
    let server = LoopbackServer::start([Answer::sse(stream(events))]).await.unwrap();
    let agent = Agent::builder(provider(wire, &server)).build().unwrap();
    agent.run("?").await.unwrap().usage()
}

fn messages(start: Value, end: Value) -> Vec<Value> {
    vec![
        json!({"type": "message_start", "message": {"id": "a", "usage": start}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end}),
        json!({"type": "message_stop"}),
    ]
}

fn chunks(first: Value, last: Value) -> Vec<Value> {
    vec![
        json!({"id": "a", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}], "usage": first}),
        json!({"id": "a", "choices": [], "usage": last}),
    ]
}

#[tokio::test]
async fn zeros_at_the_end_do_not_replace_counts() {
    let start = json!({"input_tokens": 10, "cache_read_input_tokens": 9_000});
    let end = json!({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5});
    let counted = usage("anthropic", &messages(start, end)).await;
    let counts = (counted.input, counted.cache_read, counted.output);
    assert_eq!(counts, (Some(9_010), Some(9_000), Some(5)));

    let zeros = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    let real = json!({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105});
    let counted = usage("chat", &chunks(real.clone(), zeros.clone())).await;
    assert_eq!((counted.input, counted.output), (Some(100), Some(5)));
    let counted = usage("chat", &chunks(zeros, real)).await;
    assert_eq!((counted.input, counted.output), (Some(100), Some(5)));
}

#[tokio::test]
async fn what_nobody_has_counted_stays_unknown() {
    let counted = usage("anthropic", &messages(json!({}), json!({"output_tokens": 5}))).await;
    assert_eq!((counted.input, counted.output), (None, Some(5)));
    let counted = usage("chat", &chunks(Value::Null, Value::Null)).await;
    assert_eq!((counted.input, counted.output), (None, None));
    let counted =
        usage("chat", &chunks(json!({"prompt_tokens": 7}), json!({"prompt_tokens": null}))).await;
    assert_eq!((counted.input, counted.output), (Some(7), None));
}
