//! Streams of real servers, if they are available beside the project, in `shared/corpus`. Each is
//! read whole, byte by byte and cut anywhere, and the result is compared with that of the vendors'
//! own libraries.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use harness::{
    ErrorKind, StopReason, StreamEvent,
    provider::ProviderResponse,
    wire::{self, chat},
};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde::Deserialize;
use serde_json::Value;

use crate::decoded::{self, Call, Decoded};

/// What the vendor's library makes of a stream.
#[derive(Deserialize)]
struct Expected {
    file: String,
    text: String,
    #[serde(default)]
    refusal: Option<String>,
    reasoning_text: String,
    tool_calls: Vec<ExpectedCall>,
    input_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    output_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    stop_reason: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ExpectedCall {
    id: Option<String>,
    name: Option<String>,
    args: Value,
    args_valid: bool,
    #[serde(default)]
    kind: Option<String>,
}

fn corpus() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let corpus = root.parent()?.join("shared/corpus");
    if corpus.join("index.jsonl").is_file() {
        return Some(corpus);
    }
    eprintln!("skipped: there are no recorded streams at {}", corpus.display());
    None
}

fn expected(corpus: &Path) -> Vec<Expected> {
    let lines = fs::read_to_string(corpus.join("expected.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn read(wire: &str, pieces: &[&[u8]]) -> Decoded {
    decoded::read(wire, pieces, chat::DecodeOptions::default())
}

/// An event that is cut is put together first, and one that is unusual is left to `serde_json`: all
/// ways must read the same.
#[test]
fn any_cut_gives_the_same_events() {
    let Some(corpus) = corpus() else { return };
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut files = 0;
    for Expected { file, .. } in expected(&corpus) {
        let wire = file.split('/').next().unwrap();
        let body = fs::read(corpus.join(&file)).unwrap();
        let whole = read(wire, &[&body]);
        let unusual = read(wire, &[&decoded::unusual(&body)]);
        assert!(whole.said() == unusual.said(), "{file}: `serde_json` reads it otherwise");
        let whole = format!("{whole:?}");
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert!(whole == format!("{:?}", read(wire, &bytes)), "{file}: byte by byte is different");
        for _ in 0..3 {
            let mut pieces = Vec::new();
            let mut rest = &body[..];
            while !rest.is_empty() {
                let at = 1 + random.next_u32() as usize % rest.len().min(700);
                let (piece, more) = rest.split_at(at);
                pieces.push(piece);
                rest = more;
            }
            assert!(
                whole == format!("{:?}", read(wire, &pieces)),
                "{file}: another cut is different"
            );
        }
        files += 1;
    }
    assert!(files > 600, "only {files} streams were read");
}

#[test]
fn a_cut_off_stream_is_never_taken_for_a_whole_one() {
    let Some(corpus) = corpus() else { return };
    for Expected { file, .. } in expected(&corpus) {
        let wire = file.split('/').next().unwrap();
        let body = fs::read(corpus.join(&file)).unwrap();
        let cut = &body[..body.len() / 2];
        let Decoded { events, end, .. } = read(wire, &[cut]);
        let complete = events.iter().any(|event| matches!(event, StreamEvent::Completed { .. }));
        assert!(!complete, "{file}: half of it counts as whole");
        let kind = end.unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::CutOff | ErrorKind::Api), "{file}: {kind:?}");
    }
}

/// Where ours is right and the vendor's library is not: the file (or the beginning of its name),
/// the field (or all), and why.
const DIFFERENT: &[(&str, &str, &str)] = &[
    (
        "chat/pydantic-ai__test_snowflake-test_snowflake_model_streaming.sse",
        "error",
        "no reason to stop is given: only for servers that never give one is that an end, and \
         `DecodeOptions::done_is_enough` says so",
    ),
    (
        "anthropic/anthropic-sdk-python__lib-streaming-refusal_response.sse",
        "output_tokens",
        "a zero at the end replaces no count, since some servers end with zeros; the first count is 1",
    ),
    (
        "anthropic/rig__anthropic-streaming-gateway_message_delta_metadata.sse",
        "error",
        "the library fails on `[DONE]` after the last event of a whole answer",
    ),
    (
        "anthropic/vercel-ai__anthropic-src-spliced-message-start.sse",
        "error",
        "two answers are mixed in one stream; the library hands out their mixture",
    ),
    (
        "responses/pydantic-ai__test_tool_search-test_openai_client_tool_search_streaming.sse",
        "stop",
        WANTS,
    ),
    ("responses/vercel-ai__openai-src-responses-openai-shell-tool.1.sse", "stop", WANTS),
    ("chat/rig__deepseek-truncation_matrix-streaming_budget_16_", "calls", EMPTY),
    (
        "chat/rig__mistral-tool_truncation_matrix-streaming_ministral_3b_low_agent.sse",
        "calls",
        EMPTY,
    ),
    (
        "chat/rig__mistral-tool_truncation_matrix-streaming_mistral_small_low_agent.sse",
        "calls",
        EMPTY,
    ),
    ("chat/ruby_llm__chat_with_extended_thinking_mistral_mistral-small-latest_streams", "", LIST),
    ("chat/vercel-ai__mistral-src-mistral-reasoning.sse", "", LIST),
    (
        "chat/fantasy__TestOpenAICompatibleCommon-xai-grok-4-fast-tool_streaming.1.sse",
        "output_tokens",
        XAI,
    ),
    (
        "chat/fantasy__TestOpenAICompatibleCommon-xai-grok-code-fast-multi_tool_streaming.1.sse",
        "output_tokens",
        XAI,
    ),
    (
        "chat/fantasy__TestOpenAICompatibleCommon-xai-grok-code-fast-tool_streaming.sse",
        "output_tokens",
        XAI,
    ),
    (
        "chat/fantasy__TestOpenAICompatibleThinking-xai-grok-3-mini-thinking-streaming.sse",
        "output_tokens",
        XAI,
    ),
    ("chat/vercel-ai__xai-src-xai-text.sse", "output_tokens", XAI),
    (
        "responses/pydantic-ai__test_tool_search-test_openai_client_tool_search_streaming.sse",
        "calls",
        SEARCH,
    ),
    (
        "responses/vercel-ai__openai-src-responses-openai-shell-container.1.sse",
        "text",
        "made by hand: the last event holds other words than the deltas, which a reader has seen",
    ),
];

const WANTS: &str = "the library does not say that the answer waits for the program";

const SEARCH: &str = "a search for tools that the program runs is a call here";
const EMPTY: &str = "the answer was cut off before the arguments: they are not known to be empty";
const LIST: &str = "the library fails on content that is a list";
const XAI: &str = "the vendor leaves thinking out of the completion's tokens; the total shows it";

#[test]
fn answers_are_what_the_vendors_libraries_make_of_them() {
    let Some(corpus) = corpus() else { return };
    let mut wrong = Vec::new();
    let mut met = vec![false; DIFFERENT.len()];
    let mut counts: HashMap<String, usize> = HashMap::new();
    for one in expected(&corpus) {
        let wire = one.file.split('/').next().unwrap();
        let body = fs::read(corpus.join(&one.file)).unwrap();
        let ours = read(wire, &[&body]);
        for (field, ours, theirs) in differences(wire, &one, &body, &ours) {
            let known = DIFFERENT.iter().position(|(file, of, _)| {
                one.file.starts_with(file) && (of.is_empty() || *of == field)
            });
            match known {
                Some(at) => met[at] = true,
                None => {
                    wrong.push(format!("{} {field}\n ours:   {ours}\n theirs: {theirs}", one.file))
                }
            }
        }
        *counts.entry(wire.to_owned()).or_default() += 1;
    }
    eprintln!("read: {counts:?}");
    for ((file, field, _), _) in DIFFERENT.iter().zip(met).filter(|(_, met)| !met) {
        wrong.push(format!("{file} {field}: there is no difference any more"));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

fn differences(
    wire: &str,
    one: &Expected,
    body: &[u8],
    ours: &Decoded,
) -> Vec<(&'static str, String, String)> {
    let mut found = Vec::new();
    let mut differ = |field, ours: String, theirs: String| {
        if ours != theirs {
            found.push((field, ours, theirs));
        }
    };
    if let Err(err) = &ours.end {
        let theirs = one.error.as_ref().map(|err| err["message"].to_string());
        differ("error", format!("{:?}", err.message()), theirs.unwrap_or_default());
        return found;
    }
    if let Some(err) = &one.error {
        differ("error", String::new(), err.to_string());
    }
    let ProviderResponse { stop, usage, .. } = ours.answer();
    let refusal = one.refusal.as_deref().unwrap_or_default();
    differ("text", ours.text(), format!("{}{refusal}", one.text));
    // The library has no field for summaries, so they are taken from the stream itself.
    let theirs = match one.reasoning_text.as_str() {
        "" if wire == "responses" => summaries(body),
        text => text.to_owned(),
    };
    let squeeze = |text: &str| text.replace("\n\n", "");
    differ("reasoning", squeeze(&ours.reasoning()), squeeze(&theirs));

    let calls: Vec<String> = ours
        .calls()
        .into_iter()
        .map(|Call { id, name, arguments, ended }| {
            let args = match arguments.as_str() {
                "" if ended => Ok(Value::Object(Default::default())),
                text => serde_json::from_str(text).map(sorted),
            };
            let valid = args.is_ok();
            format!("{id} {name} {} {valid}", args.unwrap_or_default())
        })
        .collect();
    let server = |call: &&ExpectedCall| {
        !matches!(call.kind.as_deref(), Some("server_tool_use" | "mcp_tool_use"))
    };
    let theirs: Vec<String> = one
        .tool_calls
        .iter()
        .filter(server)
        .map(|call| {
            let (id, name) =
                (call.id.as_deref().unwrap_or("-"), call.name.as_deref().unwrap_or("-"));
            let args = if call.args_valid { sorted(call.args.clone()) } else { Value::Null };
            format!("{id} {name} {args} {}", call.args_valid)
        })
        .collect();
    differ("calls", calls.join("; "), theirs.join("; "));

    // What summing up used, the library leaves out.
    let (summed_up, summary) = compaction(body);
    let input = one.input_tokens.map(|input| match wire {
        "anthropic" => input + one.cached_tokens.unwrap_or(0) + cache_written(body) + summed_up,
        _ => input,
    });
    let output = one.output_tokens.map(|output| output + summary);
    differ("input_tokens", format!("{:?}", usage.input), format!("{input:?}"));
    differ("output_tokens", format!("{:?}", usage.output), format!("{output:?}"));
    let zero_is_none = |n: Option<u64>| n.filter(|n| *n > 0);
    differ(
        "reasoning_tokens",
        format!("{:?}", zero_is_none(usage.reasoning)),
        format!("{:?}", zero_is_none(one.reasoning_tokens)),
    );
    differ("stop", format!("{:?}", Some(stop)), format!("{:?}", stop_of(one)));
    found
}

fn stop_of(one: &Expected) -> Option<StopReason> {
    let calls = one
        .tool_calls
        .iter()
        .any(|call| call.kind.as_deref().is_none_or(|kind| kind == "custom_tool_call"));
    Some(match one.stop_reason.as_deref()? {
        "length" | "max_tokens" | "incomplete:max_output_tokens" => StopReason::Truncated,
        "pause_turn" => StopReason::Paused,
        "refusal" | "content_filter" => StopReason::Refused,
        _ if one.refusal.is_some() => StopReason::Refused,
        _ if calls => StopReason::ToolCalls,
        _ => StopReason::Complete,
    })
}

/// Recorded answers that are no success keep their status, code and words.
#[test]
fn recorded_errors_keep_what_they_say() {
    let Some(corpus) = corpus() else { return };
    let lines = fs::read_to_string(corpus.join("errors.jsonl")).unwrap();
    let mut count = 0;
    for line in lines.lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        let status = u16::try_from(one["status"].as_u64().unwrap()).unwrap();
        let body = &one["body"];
        let err = wire::error_of(status, body.to_string().as_bytes());
        let text = |at: &[&str]| at.iter().find_map(|at| body.pointer(at).and_then(Value::as_str));
        let message = text(&["/error/message", "/error", "/detail", "/message"]).unwrap();
        let code = text(&["/error/code", "/code", "/error/type", "/type"]).map(str::to_owned);
        let number = ["/error/code", "/code"].iter().find_map(|at| body.pointer(at)?.as_u64());
        let code = code.or(number.map(|number| number.to_string()));
        assert!(matches!(err.kind(), ErrorKind::Api | ErrorKind::ContextFull), "{line}");
        assert_eq!(err.status(), Some(status), "{line}");
        assert_eq!(err.message(), message, "{line}");
        assert_eq!(err.code().map(str::to_owned), code, "{line}");
        count += 1;
    }
    assert_eq!(count, 52);
}

/// The JSON of each `data` line.
fn data(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body).into_owned();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn summaries(body: &[u8]) -> String {
    let done = |event: &Value| event["type"] == "response.output_item.done";
    let mut all = String::new();
    for event in data(body).iter().filter(|event| done(event)) {
        for part in event["item"]["summary"].as_array().into_iter().flatten() {
            all.push_str(part["text"].as_str().unwrap_or_default());
        }
    }
    all
}

fn cache_written(body: &[u8]) -> u64 {
    let name = "cache_creation_input_tokens";
    let written = |event: &Value| {
        event["usage"][name].as_u64().or_else(|| event["message"]["usage"][name].as_u64())
    };
    data(body).iter().filter_map(written).next_back().unwrap_or(0)
}

/// The tokens sent and said of the last event that tells of steps in which the vendor summed up.
fn compaction(body: &[u8]) -> (u64, u64) {
    let steps = |event: &Value| event["usage"]["iterations"].as_array().cloned();
    let steps = data(body).iter().filter_map(steps).next_back().unwrap_or_default();
    let of = |names: &[&str]| {
        let steps = steps.iter().filter(|step| step["type"] == "compaction");
        steps.flat_map(|step| names.iter().filter_map(|name| step[*name].as_u64())).sum()
    };
    let input = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    (of(&input), of(&["output_tokens"]))
}

/// The same value with its members in one order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(list) => list.into_iter().map(sorted).collect(),
        value => value,
    }
}
