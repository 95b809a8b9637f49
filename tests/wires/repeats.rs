//! A call that a server sends twice is one call, on every wire; calls that only look alike are two.

use std::collections::{BTreeSet, HashSet};

use harness::wire::WIRES;
use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, Permissions, Provider,
    StreamEvent, ToolCall,
    provider::{Accumulator, ProviderResponse},
    testing::{Answer, LoopbackServer},
};
use proptest::{
    prelude::Rng as _,
    test_runner::{RngAlgorithm, TestRng},
};
use serde_json::{Value, json};

use crate::{
    decoded::{Decoded, both_ways, named, unnamed},
    probe::{Log, READ, WRITE, Work, tool},
};

/// A call as a server sends it once.
#[derive(Clone, Debug)]
struct Sent {
    /// The number by which the stream names it.
    index: usize,
    id: String,
    name: String,
    /// The text of the arguments, in the pieces in which it comes.
    pieces: Vec<String>,
    /// Whether the end of the call says all of it once more (Responses), or the beginning does
    /// (Messages).
    whole: bool,
}

impl Sent {
    fn new(index: usize, id: &str, name: &str, arguments: &str) -> Self {
        let (id, name, pieces) = (id.to_owned(), name.to_owned(), vec![arguments.to_owned()]);
        Self { index, id, name, pieces, whole: false }
    }
}

/// The body of an answer with these calls.
fn body(wire: &str, calls: &[Sent]) -> String {
    match wire {
        "anthropic" => messages(calls),
        "responses" => responses(calls),
        _ => chat(calls),
    }
}

fn messages(calls: &[Sent]) -> String {
    let mut events = vec![json!({"type": "message_start", "message": {"id": "msg_1"}})];
    for Sent { index, id, name, pieces, whole } in calls {
        let whole_input = Some(pieces.concat()).filter(|_| *whole);
        let input = whole_input.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let is_whole = input.is_some();
        let mut block =
            json!({"type": "tool_use", "name": name, "input": input.unwrap_or(json!({}))});
        if !id.is_empty() {
            block["id"] = json!(id);
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for piece in pieces.iter().filter(|_| !is_whole) {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    events.push(json!({"type": "message_stop"}));
    named(&events)
}

fn responses(calls: &[Sent]) -> String {
    let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_1"}})];
    for (at, Sent { index, id, name, pieces, whole }) in calls.iter().enumerate() {
        let all = pieces.concat();
        let mut item = json!({"type": "function_call", "name": name, "arguments": ""});
        if !id.is_empty() {
            item["call_id"] = json!(id);
            // Items have ids of their own, which say nothing.
            item["id"] = json!(format!("fc_{at}"));
        }
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": item}),
        );
        let kind = "response.function_call_arguments.delta";
        for piece in pieces.iter().filter(|_| !whole) {
            events.push(json!({"type": kind, "output_index": index, "delta": piece}));
        }
        item["arguments"] = json!(all);
        let kind = "response.function_call_arguments.done";
        events.push(json!({"type": kind, "output_index": index, "arguments": all}));
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
    }
    events.push(json!({"type": "response.completed", "response": {"status": "completed"}}));
    named(&events)
}

fn chat(calls: &[Sent]) -> String {
    let chunk = |call: Option<Value>, finish: Option<&str>| {
        let delta = call.map_or(json!({}), |call| json!({"tool_calls": [call]}));
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        json!({"id": "c_1", "object": "chat.completion.chunk", "choices": [choice]})
    };
    let mut events = Vec::new();
    for Sent { index, id, name, pieces, whole } in calls {
        // Some servers repeat id and name in each fragment.
        let fragment = |first: bool, text: &str| {
            let mut call = json!({"index": index, "function": {"arguments": text}});
            if (first || *whole) && !id.is_empty() {
                call["id"] = json!(id);
            }
            if first || *whole {
                call["function"]["name"] = json!(name);
            }
            chunk(Some(call), None)
        };
        for (at, piece) in pieces.iter().enumerate() {
            events.push(fragment(at == 0, piece));
        }
    }
    events.push(chunk(None, Some("tool_calls")));
    unnamed(&events) + "data: [DONE]\n\n"
}

fn decode(wire: &str, calls: &[Sent]) -> Decoded {
    let decoded = both_ways(wire, &body(wire, calls), Default::default());
    assert!(decoded.end.is_ok(), "{wire}: {:?}", decoded.end);
    decoded
}

/// The calls of the whole answer, a line each.
fn calls(answer: ProviderResponse) -> Vec<String> {
    let message = answer.message.expect("calls");
    message
        .calls()
        .map(|call| format!("{} {} {}", call.id(), call.name(), call.arguments()))
        .collect()
}

#[test]
fn a_call_that_comes_twice_is_one_and_a_call_that_looks_like_it_is_another() {
    let a = r#"{"x": 1, "y": "a"}"#;
    let one = |arguments: &str| Sent::new(0, "a", "add", arguments);
    let at = |index: usize, arguments: &str| Sent::new(index, "a", "add", arguments);
    let first = format!("a add {a}");
    let first = first.as_str();
    let table: Vec<(&str, Vec<Sent>, Vec<&str>)> = vec![
        ("whole, where it was", vec![one(a), one(a)], vec![first]),
        ("under another number", vec![one(a), at(1, a)], vec![first]),
        ("three times", vec![one(a), at(1, a), at(2, a)], vec![first]),
        ("spelled otherwise", vec![one(a), at(1, r#"{"y":"\u0061","x":1.0}"#)], vec![first]),
        ("in a string", vec![one(a), at(1, &json!(a).to_string())], vec![first]),
        ("in a string, where it was", vec![one(a), one(&json!(a).to_string())], vec![first]),
        ("cut off", vec![one(a), at(1, r#"{"x":1,"y"#)], vec![first]),
        ("only begun", vec![one(a), at(1, "")], vec![first]),
        ("not JSON, twice", vec![one("{x}"), at(1, "{x}")], vec!["a add {x}"]),
        (
            "a member twice, twice",
            vec![one(r#"{"x":1,"x":2}"#), at(1, r#"{"x":1,"x":2}"#)],
            vec![r#"a add {"x":1,"x":2}"#],
        ),
        (
            "with other arguments",
            vec![one(a), at(1, r#"{"x":2}"#)],
            vec![first, r#"a_2 add {"x":2}"#],
        ),
        (
            "with other arguments, where it was",
            vec![one(a), one(r#"{"x":2}"#)],
            vec![first, r#"a_2 add {"x":2}"#],
        ),
        (
            "each of two, twice",
            vec![one(a), at(1, r#"{"x":2}"#), at(2, a), at(3, r#"{"x":2}"#)],
            vec![first, r#"a_2 add {"x":2}"#],
        ),
        ("broken, but otherwise", vec![one(a), at(1, r#"{"z"#)], vec![first, r#"a_2 add {"z"#]),
        (
            "with another name",
            vec![one(a), Sent::new(1, "a", "sub", a)],
            vec![first, r#"a_2 sub {"x": 1, "y": "a"}"#],
        ),
        (
            "with another id",
            vec![one(a), Sent::new(1, "b", "add", a)],
            vec![first, r#"b add {"x": 1, "y": "a"}"#],
        ),
        (
            "with another id, where it was",
            vec![one(a), Sent::new(0, "b", "add", a)],
            vec![first, r#"b add {"x": 1, "y": "a"}"#],
        ),
    ];
    for wire in WIRES {
        for (name, sent, expected) in &table {
            assert_eq!(calls(decode(wire, sent).answer()), *expected, "{wire}: {name}");
        }
    }
}

#[test]
fn without_ids_a_call_is_one_only_where_it_was() {
    let call = |index| Sent::new(index, "", "add", r#"{"x":1}"#);
    let other = Sent::new(0, "", "add", r#"{"x":2}"#);
    for wire in WIRES {
        let count = |sent: &[Sent]| {
            let lines = calls(decode(wire, sent).answer());
            let ids: HashSet<&str> =
                lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
            assert_eq!(ids.len(), lines.len(), "{wire}: {lines:?}");
            lines.len()
        };
        assert_eq!(count(&[call(0), call(0)]), 1, "{wire}");
        assert_eq!(count(&[call(0), call(1)]), 2, "{wire}");
        assert_eq!(count(&[call(0), other.clone()]), 2, "{wire}");
        assert_eq!(count(&[call(0), other.clone(), call(0), other.clone()]), 2, "{wire}");
    }
}

/// The chunks of an answer in Chat Completions whose fragments are these.
fn fragments(list: &[Value]) -> Vec<String> {
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        json!({"id": "c_1", "object": "chat.completion.chunk", "choices": [choice]})
    };
    let mut events: Vec<Value> =
        list.iter().map(|call| chunk(json!({"tool_calls": [call]}), None)).collect();
    events.push(chunk(json!({}), Some("tool_calls")));
    let body = unnamed(&events) + "data: [DONE]\n\n";
    calls(both_ways("chat", &body, Default::default()).answer())
}

#[test]
fn gateways_sum_up_in_ways_of_their_own() {
    let whole = r#"{"city":"Oslo"}"#;
    let wrapped = json!(whole).to_string();
    let one = ["a look {\"city\":\"Oslo\"}"];
    let part = |id: Value, name: Value, text: &str| json!({"index": 0, "id": id, "function": {"name": name, "arguments": text}});
    let pieces = |id: &Value| {
        vec![
            part(json!("a"), json!("look"), ""),
            part(id.clone(), Value::Null, "{\"city\":"),
            part(id.clone(), Value::Null, "\"Oslo\"}"),
        ]
    };
    let with = |id: Value, last: Value| fragments(&[pieces(&id), vec![last]].concat());
    // The id on every fragment, and all of it once more at the end, as a string in a string.
    assert_eq!(with(json!("a"), part(json!("a"), json!("look"), &wrapped)), one);
    assert_eq!(with(json!("a"), part(json!("a"), json!("look"), whole)), one);
    // The arguments once more, without a name, without an id, or with an id of their own.
    for id in [Value::Null, json!(""), json!("a"), json!("b")] {
        for name in [Value::Null, json!("")] {
            for text in [whole, wrapped.as_str()] {
                let last = part(id.clone(), name.clone(), text);
                assert_eq!(with(Value::Null, last), one, "{id} {name} {text}");
            }
        }
    }
    // Under another number, without a name.
    let last = json!({"index": 1, "id": "a", "function": {"arguments": whole}});
    assert_eq!(with(Value::Null, last), one);
    // Once more in pieces.
    let again = [pieces(&Value::Null), pieces(&Value::Null)].concat();
    assert_eq!(fragments(&again), one);
    // An empty object before the real arguments takes their place.
    let mut early = pieces(&Value::Null);
    early[0]["function"]["arguments"] = json!("{}");
    assert_eq!(fragments(&early), one);
    // The form before calls had ids.
    let function = json!({"name": "look", "arguments": whole});
    let chunk = |delta: Value, finish: Option<&str>| json!({"id": "c_1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let old = chunk(json!({"function_call": function}), None);
    let body = unnamed(&[old.clone(), old, chunk(json!({}), Some("function_call"))]);
    let told = calls(both_ways("chat", &body, Default::default()).answer());
    assert_eq!(told, ["c_1_2 look {\"city\":\"Oslo\"}"]);
}

#[test]
fn a_beginning_that_comes_twice_is_not_a_second_call() {
    let start = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "a", "name": "look", "input": {}}});
    let delta = |text: &str| {
        json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": text}})
    };
    let stop = json!({"type": "content_block_stop", "index": 0});
    let answer = |events: &[Value]| {
        let begin = json!({"type": "message_start", "message": {"id": "msg_1"}});
        let end = json!({"type": "message_stop"});
        let body = named(&[&[begin], events, &[end]].concat());
        calls(both_ways("anthropic", &body, Default::default()).answer())
    };
    let one = ["a look {\"x\":1}"];
    let all = || vec![delta("{\"x\":"), delta("1}")];
    assert_eq!(
        answer(&[vec![start.clone(), start.clone()], all(), vec![stop.clone()]].concat()),
        one
    );
    // Once more from the beginning, without an end in between.
    let twice =
        [vec![start.clone()], all(), vec![start.clone()], all(), vec![stop.clone()]].concat();
    assert_eq!(answer(&twice), one);
    // The end comes, and then the beginning once more.
    let late = [vec![start.clone()], all(), vec![stop.clone(), start, stop]].concat();
    assert_eq!(answer(&late), one);
}

#[test]
fn what_only_the_repeat_holds_for_the_vendor_is_kept() {
    use harness::{message::VendorData, provider::VendorPart};
    let mut answer = Accumulator::default();
    for block in [0, 1] {
        let start = StreamEvent::ToolCallStart { block, id: "a".into(), name: "look".into() };
        answer.push(&start).unwrap();
        answer.push(&StreamEvent::ToolCallDelta { block, json: "{}".into() }).unwrap();
        answer.push(&StreamEvent::ToolCallEnd { block }).unwrap();
    }
    let data = VendorData::new("chat", r#"{"signature":"s"}"#).unwrap();
    let kept = StreamEvent::Vendor { block: 1, part: VendorPart::ToolCall, data: data.clone() };
    answer.push(&kept).unwrap();
    let done =
        StreamEvent::Completed { stop: harness::StopReason::ToolCalls, usage: Box::default() };
    answer.push(&done).unwrap();
    let message = answer.finish().unwrap().message.unwrap();
    let calls: Vec<&ToolCall> = message.calls().collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].vendor(), Some(&data));
}

#[test]
fn of_an_answer_that_broke_off_in_a_repeat_the_call_is_kept_once() {
    for wire in WIRES {
        let call = |index| Sent::new(index, "a", "add", r#"{"x":1}"#);
        let whole = body(wire, &[call(0), call(1)]);
        let mut kept = BTreeSet::new();
        for end in 0..whole.len() {
            let decoded = both_ways(wire, &whole[..end], Default::default());
            if decoded.completed().is_some() {
                continue;
            }
            let mut answer = Accumulator::default();
            for event in &decoded.events {
                answer.push(event).unwrap();
            }
            kept.insert(answer.into_partial().map_or(0, |partial| partial.calls().count()));
        }
        let expected: &[usize] = if wire == "chat" { &[0] } else { &[0, 1] };
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), expected, "{wire}");
    }
}

/// Every call that could have started while these events came, as the loop would start it.
fn started(events: &[StreamEvent]) -> Vec<ToolCall> {
    let mut answer = Accumulator::default();
    let mut started: Vec<ToolCall> = Vec::new();
    for event in events {
        answer.push(event).unwrap();
        let written = match event {
            StreamEvent::ToolCallDelta { block, json } if json.trim_end().ends_with('}') => {
                answer.written_call(*block)
            }
            StreamEvent::ToolCallEnd { block } => answer.written_call(*block),
            _ => None,
        };
        let Some(call) = written else { continue };
        assert!(answer.count_up_to(&call, |_| true).is_some());
        if !started.iter().any(|other| other.id() == call.id()) {
            started.push(call);
        }
    }
    started
}

/// Repeats at random places of random answers change no call, and none starts that is not there.
#[test]
fn repeats_anywhere_change_nothing() {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[31; 32]);
    let mut below = |limit: usize| random.next_u32() as usize % limit;
    let rounds = crate::times(300);
    for round in 0..rounds {
        let wire = WIRES[round % 3];
        let (plain, repeated) = answers(wire, &mut below);
        let (expected, found) = (decode(wire, &plain), decode(wire, &repeated));
        let about = || format!("round {round}, {wire}\n{plain:#?}\n{}", body(wire, &repeated));
        let [plain, with] = [expected.answer(), found.answer()]
            .map(|answer| answer.message.map(|message| message.calls().cloned().collect()));
        let (plain, with): (Vec<ToolCall>, Vec<ToolCall>) = (plain.unwrap(), with.unwrap());
        let prints =
            |calls: &[ToolCall]| calls.iter().map(ToolCall::fingerprint).collect::<Vec<_>>();
        assert_eq!(prints(&with), prints(&plain), "{with:#?}: {}", about());
        let ids: HashSet<&str> = with.iter().map(ToolCall::id).collect();
        assert_eq!(ids.len(), with.len(), "{with:#?}: {}", about());
        for (plain, with) in plain.iter().zip(&with) {
            // A call keeps its id. Of several calls with one id the others get ids of their own.
            assert!(plain.id() == with.id() || plain.id().contains('_'), "{with:?}: {}", about());
        }
        for call in started(&found.events) {
            let is_it = |with: &&ToolCall| with.id() == call.id();
            let with = with.iter().find(is_it).map(ToolCall::fingerprint);
            assert_eq!(with, Some(call.fingerprint()), "{call:?} started: {}", about());
        }
    }
}

/// Calls, and the same calls with repeats among them.
fn answers(wire: &str, below: &mut impl FnMut(usize) -> usize) -> (Vec<Sent>, Vec<Sent>) {
    const ARGUMENTS: [&str; 5] = [
        r#"{"x":1,"y":[{"a":"}{"},2.0]}"#,
        r#"{"x":2}"#,
        r#"{"text":"\"{ü\\"}"#,
        "{}",
        r#"{"x":1,"y":[{"a":"}{"},2.5]}"#,
    ];
    let (mut plain, mut repeated): (Vec<Sent>, Vec<Sent>) = (Vec::new(), Vec::new());
    // Where no further repeat may follow, since one was cut off.
    let mut closed = HashSet::new();
    let mut index = 0;
    for number in 0..=below(5) {
        let arguments = ARGUMENTS[below(ARGUMENTS.len())];
        let name = ["look", "add"][below(2)];
        // An id may come again with other arguments: it is another call then, unless one of them has
        // none.
        let earlier = plain.get(below(plain.len() + 2)).filter(|earlier| {
            let is_known = |call: &&Sent| {
                let text = call.pieces.concat();
                let is_empty = text == "{}" || arguments == "{}";
                call.id == earlier.id && (text == arguments || is_empty)
            };
            earlier.name == name && !plain.iter().any(|call| is_known(&call))
        });
        let id = earlier.map_or_else(
            || ["a", "b", "c", "d", "e"][number].to_owned(),
            |earlier| earlier.id.clone(),
        );
        if closed.contains(&id) {
            continue;
        }
        let call = Sent {
            whole: below(2) == 0,
            pieces: cut(arguments, below),
            ..Sent::new(index, &id, name, "")
        };
        index += 1;
        plain.push(call.clone());
        repeated.push(call);
        while below(3) == 0 {
            let of = &plain[below(plain.len())];
            if closed.contains(&of.id) {
                continue;
            }
            let mut again = of.clone();
            // Where it was, if nothing else has come since, or under a new number.
            let is_last = repeated.last().is_some_and(|last| last.index == of.index);
            if !is_last || below(2) == 0 {
                again.index = index;
                index += 1;
            }
            let text = of.pieces.concat();
            let text = match below(6) {
                0 => respelled(&serde_json::from_str(&text).unwrap()),
                1 => json!(text).to_string(),
                2 if text != "{}" => {
                    closed.insert(of.id.clone());
                    let at = below(text.len());
                    text[..(0..=at).rfind(|at| text.is_char_boundary(*at)).unwrap()].to_owned()
                }
                _ => text,
            };
            again.pieces = cut(&text, below);
            again.whole = below(2) == 0;
            if wire == "chat" && below(4) == 0 && again.index == of.index {
                again.name.clear();
                again.whole = false;
            }
            repeated.push(again);
        }
    }
    // The numbers are the same in both.
    (plain, repeated)
}

/// A text in up to four pieces.
fn cut(text: &str, below: &mut impl FnMut(usize) -> usize) -> Vec<String> {
    let mut at: BTreeSet<usize> = [0, text.len()].into();
    for _ in 0..below(4) {
        let place = below(text.len() + 1);
        at.insert((0..=place).rfind(|at| text.is_char_boundary(*at)).unwrap());
    }
    let at: Vec<usize> = at.into_iter().collect();
    let pieces: Vec<String> = at.windows(2).map(|pair| text[pair[0]..pair[1]].to_owned()).collect();
    if pieces.is_empty() { vec![String::new()] } else { pieces }
}

/// The same value with other spaces, another order of members, and floats for numbers.
fn respelled(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[ {} ]", items.iter().map(respelled).collect::<Vec<_>>().join(" ,"))
        }
        Value::Object(members) => {
            let one =
                |(name, value): (&String, &Value)| format!("{}: {}", json!(name), respelled(value));
            format!("{{ {}\n}}", members.iter().rev().map(one).collect::<Vec<_>>().join(" , "))
        }
        Value::Number(number) if number.is_u64() => format!("{number}.0"),
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

/// The tools that ran when a server sent these bodies, one an answer.
async fn ran<P: Provider + 'static>(
    make: impl Fn(&LoopbackServer) -> P,
    bodies: [String; 2],
) -> Vec<String> {
    let server = LoopbackServer::start(bodies.map(Answer::sse)).await.unwrap();
    let log = Log::default();
    let tools =
        [tool("pay", WRITE, &log, Work::Steps(2)), tool("look", READ, &log, Work::Steps(2))];
    let agent = Agent::builder(make(&server)).tools(tools).permissions(Permissions::allow_all());
    agent.build().unwrap().run("Go.").await.unwrap();
    log.lines()
}

#[tokio::test]
async fn what_a_server_sends_twice_runs_once() {
    let call = |index, id: &str, name: &str| Sent::new(index, id, name, "{}");
    let twice =
        [call(0, "a", "look"), call(1, "a", "look"), call(2, "b", "pay"), call(3, "b", "pay")];
    let done = json!({"id": "c_2", "choices": [{"index": 0, "delta": {"content": "Done."},
        "finish_reason": "stop"}]});
    let answer = named(&[
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Done."}),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ]);
    let expected = ["begin look", "end look", "begin pay", "end pay"];
    let anthropic = |server: &LoopbackServer| {
        let provider = AnthropicProvider::builder().api_key("k").base_url(server.url());
        provider.model("m").build().unwrap()
    };
    let last = harness::testing::anthropic::body().text("Done.").to_string();
    assert_eq!(ran(anthropic, [body("anthropic", &twice), last]).await, expected);
    let openai = |server: &LoopbackServer| {
        OpenAIProvider::builder().api_key("k").base_url(server.url()).model("m").build().unwrap()
    };
    assert_eq!(ran(openai, [body("responses", &twice), answer]).await, expected);
    let local = |server: &LoopbackServer| {
        ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap()
    };
    assert_eq!(ran(local, [body("chat", &twice), unnamed(&[done])]).await, expected);
}
