//! Servers that take exactly what they document, and refuse the rest in their own words.

use harness::{
    Agent, ChatCompletionsProvider, Event, SideEffects, Tool,
    policy::RetryPolicy,
    provider::Settings,
    testing::{Answer, LoopbackServer, chat},
};
use serde_json::{Value, json};

/// The members of a request that a server takes, and how it refuses another one.
struct Documented {
    name: &'static str,
    request: &'static str,
    function: &'static str,
    refuse: fn(&str, &str) -> Answer,
    /// What a conversation loses of what it has, without a word from the program.
    dropped: &'static [&'static str],
}

/// Sources: <https://docs.mistral.ai/openapi.yaml> (`additionalProperties: false`); the types of
/// <https://github.com/groq/groq-python>, and <https://github.com/eigent-ai/eigent/issues/1827>.
const SERVERS: [Documented; 2] = [
    Documented {
        name: "Mistral",
        request: "model temperature top_p max_tokens stream stop random_seed metadata messages response_format tools \
            tool_choice presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort \
            guardrails prompt_cache_key safe_prompt",
        function: "name description strict parameters",
        refuse: |at, name| {
            let place: Vec<&str> =
                ["body"].into_iter().chain(at.split('.')).chain([name]).collect();
            let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
            let detail = json!([{"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted", "input": {}}]);
            Answer::json(
                422,
                &json!({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": null, "code": null}),
            )
        },
        dropped: &["stream_options"],
    },
    Documented {
        name: "Groq",
        request: "model temperature top_p max_tokens max_completion_tokens stream stream_options stop seed messages \
            response_format tools tool_choice presence_penalty frequency_penalty n parallel_tool_calls reasoning_effort \
            reasoning_format include_reasoning service_tier user",
        function: "name description strict parameters",
        refuse: |_, name| {
            let words = format!("property '{name}' is unsupported");
            let error = json!({"message": words, "type": "invalid_request_error"});
            Answer::json(400, &json!({ "error": error }))
        },
        dropped: &["prompt_cache_key"],
    },
];

/// The first member that is not among these.
fn unknown<'v>(members: &'v Value, known: &str) -> Option<&'v str> {
    let names = members.as_object().into_iter().flat_map(|members| members.keys());
    names.map(String::as_str).find(|name| known.split_whitespace().all(|it| it != *name))
}

#[tokio::test]
async fn a_conversation_goes_on_with_a_server_that_takes_only_what_it_documents() {
    for Documented { name, request, function, refuse, dropped } in SERVERS {
        let server = LoopbackServer::answering(move |received| {
            let body = received.json();
            if let Some(member) = unknown(&body, request) {
                return refuse("", member);
            }
            let tools = body["tools"].as_array().into_iter().flatten();
            for (at, tool) in tools.enumerate() {
                if let Some(member) = unknown(&tool["function"], function) {
                    return refuse(&format!("tools.{at}.function"), member);
                }
            }
            match body["messages"].as_array().and_then(|all| all.last()) {
                Some(last) if last["role"] == "user" => {
                    chat::body().call("call00001", "look", json!({"at": "x"})).answer()
                }
                _ => chat::body().text("Seen.").answer(),
            }
        });
        let server = server.await.expect("a server");
        let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}});
        let look = Tool::new("look", "Looks.", schema, SideEffects::NONE, |_, _| {
            Box::pin(async { Ok("seen".into()) })
        });
        let settings = Settings {
            cache_key: Some("key".to_owned()),
            strict_tools: Some(true),
            parallel_calls: Some(true),
            max_tokens: Some(1_000),
            temperature: Some(0.5),
            ..Settings::default()
        };
        let builder = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
        let provider = builder.settings(settings).build().expect("a provider");
        let agent = Agent::builder(provider.with_retry(RetryPolicy::none())).tools([look]);
        let agent = agent.build().expect("an agent");
        let (mut chat, mut lost) = (agent.chat(), Vec::new());
        for words in ["Look.", "Look again."] {
            let sent = chat.send(words).on_event(|event| {
                if let Event::ParameterDropped { parameter, .. } = event {
                    lost.push(parameter.to_owned());
                }
            });
            let reply = sent.await.unwrap_or_else(|err| panic!("{name}: {err}"));
            assert_eq!(reply.text(), "Seen.", "{name}");
        }
        assert_eq!(lost, dropped, "{name}");
        assert_eq!(server.requests().len(), 4 + dropped.len(), "{name}");
    }
}
