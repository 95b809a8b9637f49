//! A whole turn: an answer that calls the tool `weather`, and the answer to the result of the tool.

use super::Answer;
use crate::rendered;

/// The arguments of the call, one piece for each delta, with JSON escapes.
const ARGUMENTS: [&str; 7] = [r#"{\""#, "city", r#"\":\""#, "Tr", "oms", "ø", r#"\"}"#];

/// The number of deltas in the second answer.
const WORDS: usize = 40;

/// The two answers of a turn.
pub fn answers(wire: &str) -> [Answer; 2] {
    let first = match wire {
        "anthropic" => anthropic(),
        "responses" => responses(),
        _ => chat(),
    };
    let second = rendered::stream(wire, WORDS);
    [Answer { name: "the call", body: first }, Answer { name: "the answer", body: second }]
}

/// Whether the body of a request contains the result of a tool.
pub fn is_second(body: &[u8]) -> bool {
    let marks: [&[u8]; 3] =
        [br#""tool_result""#, br#""function_call_output""#, br#""tool_call_id""#];
    marks.iter().any(|mark| memchr::memmem::find(body, mark).is_some())
}

/// The number of results of tools in the body of a request of Chat Completions.
pub fn count_results(body: &[u8]) -> usize {
    memchr::memmem::find_iter(body, br#""tool_call_id""#).count()
}

/// One of many calls in a turn, on Chat Completions. Each has an id and arguments of its own.
pub fn call(at: usize) -> String {
    chat().replace("call_Zr1", &format!("call_Zr{at}")).replace("Tr\"", &format!("Tr{at}\""))
}

/// The answer after the calls, on Chat Completions.
pub fn answer() -> String {
    rendered::stream("chat", WORDS)
}

fn anthropic() -> String {
    let mut events = vec![
        ("message_start", r#""message":{"model":"claude-sonnet-5","id":"msg_01Ty6","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":412,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":5,"service_tier":"standard","inference_geo":"global"}}"#.to_owned()),
        ("content_block_start", r#""index":0,"content_block":{"type":"tool_use","id":"toolu_01Kq8","name":"weather","input":{},"caller":{"type":"direct"}}"#.to_owned()),
    ];
    for piece in ARGUMENTS {
        events.push((
            "content_block_delta",
            format!(r#""index":0,"delta":{{"type":"input_json_delta","partial_json":"{piece}"}}"#),
        ));
    }
    events.push(("content_block_stop", r#""index":0"#.to_owned()));
    events.push(("message_delta", r#""delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":412,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":39}"#.to_owned()));
    let data = |(event, members): &(&str, String)| {
        format!("event: {event}\ndata: {{\"type\":\"{event}\",{members}}}\n\n")
    };
    let mut out: String = events.iter().map(data).collect();
    out.push_str("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    out
}

fn responses() -> String {
    let response = |status: &str, output: &str, usage: &str| {
        format!(
            r#""response":{{"id":"resp_5f","object":"response","created_at":1790000000,"status":"{status}","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"gpt-5.2-mini","output":[{output}],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{{"effort":"low","summary":null}},"service_tier":"default","store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}},"verbosity":"medium"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#
        )
    };
    let item = |status: &str, arguments: &str| {
        format!(
            r#"{{"id":"fc_5f","type":"function_call","status":"{status}","arguments":"{arguments}","call_id":"call_Zr1","name":"weather"}}"#
        )
    };
    let whole = ARGUMENTS.concat();
    let done = item("completed", &whole);
    let mut events = vec![
        ("response.created", response("in_progress", "", "null")),
        ("response.in_progress", response("in_progress", "", "null")),
        (
            "response.output_item.added",
            format!(r#""item":{},"output_index":0"#, item("in_progress", "")),
        ),
    ];
    for (at, piece) in ARGUMENTS.iter().enumerate() {
        let pad = super::letters(at, 5 + at);
        events.push((
            "response.function_call_arguments.delta",
            format!(
                r#""delta":"{piece}","item_id":"fc_5f","obfuscation":"{pad}","output_index":0"#
            ),
        ));
    }
    events.push((
        "response.function_call_arguments.done",
        format!(r#""arguments":"{whole}","item_id":"fc_5f","output_index":0"#),
    ));
    events.push(("response.output_item.done", format!(r#""item":{done},"output_index":0"#)));
    let usage = r#"{"input_tokens":64,"input_tokens_details":{"cached_tokens":0},"output_tokens":18,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":82}"#;
    events.push(("response.completed", response("completed", &done, usage)));
    let data = |(number, (event, members)): (usize, &(&str, String))| {
        format!(
            "event: {event}\ndata: {{\"type\":\"{event}\",{members},\"sequence_number\":{number}}}\n\n"
        )
    };
    events.iter().enumerate().map(data).collect()
}

fn chat() -> String {
    let choice = |delta: &str, finish: &str| {
        format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#)
    };
    let call =
        |members: &str| choice(&format!(r#"{{"tool_calls":[{{"index":0,{members}}}]}}"#), "null");
    let mut choices = vec![choice(
        r#"{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_Zr1","type":"function","function":{"name":"weather","arguments":""}}],"refusal":null}"#,
        "null",
    )];
    for piece in ARGUMENTS {
        choices.push(call(&format!(r#""function":{{"arguments":"{piece}"}}"#)));
    }
    choices.push(choice("{}", r#""tool_calls""#));
    let chunk = |(at, choices): (usize, &String)| {
        let pad = super::letters(at, 5 + at);
        format!(
            "data: {{\"id\":\"chatcmpl-Zr1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"gpt-5.2-mini\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_9c1e\",\"choices\":[{choices}],\"usage\":null,\"obfuscation\":\"{pad}\"}}\n\n"
        )
    };
    let mut out: String = choices.iter().enumerate().map(chunk).collect();
    out.push_str("data: {\"id\":\"chatcmpl-Zr1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"gpt-5.2-mini\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_9c1e\",\"choices\":[],\"usage\":{\"prompt_tokens\":61,\"completion_tokens\":18,\"total_tokens\":79},\"obfuscation\":\"aQ\"}\n\ndata: [DONE]\n\n");
    out
}
