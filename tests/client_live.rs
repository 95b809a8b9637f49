//! Real servers, where some are running: set `HARNESS_LIVE` to the address of a server on this
//! machine that speaks all three protocols, such as llama.cpp's, and `HARNESS_LIVE_MODEL` to its
//! model if it wants one. Unset, these tests skip with a word.

use futures_util::StreamExt as _;
use harness::{
    AnthropicProvider, Block, CallOutcome, Error, ErrorKind, LocalProvider, Message,
    OpenAIProvider, Provider, Role, StopReason, StreamEvent, ToolResult, Transcript,
    provider::{ProviderResponse, Request, Settings, ToolChoice, accumulate},
    tool::ToolSchema,
};
use serde_json::json;

fn server() -> Option<String> {
    let url = std::env::var("HARNESS_LIVE").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        eprintln!("skipped: `HARNESS_LIVE` names no server");
    }
    url
}

fn providers(url: &str) -> Vec<Box<dyn Provider>> {
    let model = std::env::var("HARNESS_LIVE_MODEL").unwrap_or_else(|_| "default".to_owned());
    let (key, max) = ("sk-live", 120);
    vec![
        Box::new(
            AnthropicProvider::builder()
                .api_key(key)
                .base_url(url)
                .model(&model)
                .max_tokens(max)
                .build()
                .unwrap(),
        ),
        Box::new(
            OpenAIProvider::builder()
                .api_key(key)
                .base_url(url)
                .model(&model)
                .max_tokens(max)
                .build()
                .unwrap(),
        ),
        Box::new(
            LocalProvider::builder()
                .api_key(key)
                .base_url(url)
                .model(&model)
                .max_tokens(max)
                .build()
                .unwrap(),
        ),
    ]
}

fn tools() -> [ToolSchema; 1] {
    [ToolSchema {
        name: "get_weather".to_owned(),
        description: "Says the weather.".to_owned(),
        input_schema: json!({"type": "object", "required": ["city", "days"], "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}}}),
    }]
}

async fn ask(
    provider: &dyn Provider,
    transcript: &Transcript,
    settings: &Settings,
) -> Result<ProviderResponse, Error> {
    let tools = tools();
    let request = Request::new(transcript)?.with_tools(&tools).with_settings(Some(settings));
    accumulate(provider.stream(request.with_system(Some("Be brief.")))).await
}

#[tokio::test]
async fn a_conversation_with_calls_goes_on_and_moves_between_all_providers() {
    let Some(url) = server() else { return };
    let providers = providers(&url);
    let forced = Settings { tool_choice: Some(ToolChoice::Required), ..Settings::default() };
    let mut transcript = Transcript::default();
    for (turn, provider) in providers.iter().chain(&providers).enumerate() {
        transcript.push(Message::user(format!("Weather, question {turn}?"))).unwrap();
        let settings = if turn % 2 == 0 { forced.clone() } else { Settings::default() };
        let answer = ask(provider, &transcript, &settings)
            .await
            .unwrap_or_else(|err| panic!("turn {turn} with {}: {err:?}", provider.name()));
        eprintln!("{}: {:?} {:?}", provider.name(), answer.stop, answer.usage);
        assert!(answer.usage.input.is_some() && answer.usage.output.is_some());
        let Some(message) = answer.message else { continue };
        let calls: Vec<_> = message.calls().cloned().collect();
        if answer.stop == StopReason::ToolCalls {
            assert!(!calls.is_empty());
        }
        transcript.push(message).unwrap();
        if !calls.is_empty() {
            let results = calls.iter().map(|call| {
                Block::ToolResult(ToolResult::new(
                    call.id(),
                    CallOutcome::Succeeded,
                    ["rain".into()],
                ))
            });
            transcript.push(Message::new(Role::Tool, results)).unwrap();
        }
    }
}

#[tokio::test]
async fn dropping_an_answer_in_the_middle_leaves_the_server_free() {
    let Some(url) = server() else { return };
    for provider in providers(&url) {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Tell a long story.")).unwrap();
        for _ in 0..3 {
            let mut stream = provider.stream(Request::new(&transcript).unwrap());
            while let Some(event) = stream.next().await {
                let event = event.unwrap();
                if matches!(
                    event,
                    StreamEvent::TextDelta { .. } | StreamEvent::ReasoningDelta { .. }
                ) {
                    break;
                }
            }
        }
        ask(&provider, &transcript, &Settings::default()).await.unwrap();
    }
}

#[tokio::test]
async fn too_long_a_prompt_is_an_error_with_the_servers_words() {
    let Some(url) = server() else { return };
    for provider in providers(&url) {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("word ".repeat(200_000))).unwrap();
        let err = ask(&provider, &transcript, &Settings::default()).await.unwrap_err();
        eprintln!("{}: {err}", provider.name());
        assert_eq!((err.kind(), err.status()), (ErrorKind::Api, Some(400)));
        assert!(err.code().is_some() && !err.is_retryable());
    }
}
