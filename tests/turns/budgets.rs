//! How much a model may think, as a number of tokens.

use harness::{
    AnthropicProvider, ErrorKind, Message, OpenAIProvider, Transcript,
    client::ChatCompletionsProvider,
    provider::{Effort, Request, Settings},
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};

fn body(model: &str, effort: Effort, max_tokens: Option<u32>) -> Value {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("?")).unwrap();
    let settings = Settings { effort: Some(effort), max_tokens, ..Settings::default() };
    let options = anthropic::Options { settings, ..anthropic::Options::new(model) };
    let bytes = anthropic::encode(&Request::new(&transcript).unwrap(), &options).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn the_maximum_of_a_model_is_all_of_its_answer() {
    for (model, most) in [("claude-sonnet-4-5", 64_000), ("claude-opus-4-1", 32_000)] {
        let all = body(model, Effort::Max, None);
        assert_eq!(all["max_tokens"], most, "{model}");
        let config = json!({"type": "enabled", "budget_tokens": most - 1});
        assert_eq!(all["thinking"], config, "{model}");
    }
    let part = body("claude-sonnet-4-5", Effort::Max, Some(10_000));
    assert_eq!(part["thinking"]["budget_tokens"], 8_976, "some of the answer is text");
    let much = body("claude-sonnet-4-5", Effort::XHigh, None);
    assert_eq!(much["thinking"]["budget_tokens"], 24_576);
    assert!(much["max_tokens"].as_u64().unwrap() > 24_576);
}

#[test]
fn a_budget_of_tokens_goes_out_exactly() {
    for tokens in [1_024, 4_000, 16_000, 50_000] {
        let config = json!({"type": "enabled", "budget_tokens": tokens});
        for model in ["claude-sonnet-4-5", "my-own"] {
            let all = body(model, Effort::Tokens(tokens), None);
            assert_eq!(all["thinking"], config, "{model}");
            assert!(all["max_tokens"].as_u64().unwrap() > u64::from(tokens), "{model}");
        }
        let all = body("claude-sonnet-4-5", Effort::Tokens(tokens), Some(tokens + 1));
        assert_eq!((&all["thinking"], &all["max_tokens"]), (&config, &json!(tokens + 1)));
    }
    let builder = ChatCompletionsProvider::builder().base_url("https://openrouter.ai/api/v1");
    builder.effort(Effort::Tokens(2_000)).build().unwrap();
    let mut transcript = Transcript::default();
    transcript.push(Message::user("?")).unwrap();
    let settings = Settings { effort: Some(Effort::Tokens(2_000)), ..Settings::default() };
    let options = chat::Options { settings, thinking_budget: true, ..chat::Options::new("m") };
    let bytes = chat::encode(&Request::new(&transcript).unwrap(), &options).unwrap();
    let all: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(all["reasoning"], json!({"max_tokens": 2_000}));
    assert_eq!(all["reasoning_effort"], Value::Null);
}

#[test]
fn a_budget_that_does_not_fit_is_an_error_of_the_builder_that_says_what_does() {
    let of = |model: &str, effort, max_tokens: Option<u32>| {
        let builder = AnthropicProvider::builder().api_key("k").model(model);
        let settings = Settings { effort: Some(effort), max_tokens, ..Settings::default() };
        builder.settings(settings).build().map(drop)
    };
    let table = [
        ("claude-opus-4-8", Effort::Tokens(4_000), None, "Effort::High"),
        ("claude-sonnet-4-5", Effort::Tokens(100), None, "1024"),
        ("claude-sonnet-4-5", Effort::Tokens(4_000), Some(4_000), "larger `max_tokens`"),
        ("claude-sonnet-4-5", Effort::Tokens(64_000), None, "Effort::Max"),
        ("claude-sonnet-4-5", Effort::Low, Some(1_000), "larger `max_tokens`"),
        ("claude-sonnet-4-5", Effort::Max, Some(1_024), "larger `max_tokens`"),
    ];
    for (model, effort, max_tokens, way_out) in table {
        let err = of(model, effort, max_tokens).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Configuration, "{err}");
        assert!(err.message().contains(way_out), "{effort:?}: {err}");
    }
    for (model, effort, max_tokens) in [
        ("claude-sonnet-4-5", Effort::Low, Some(1_500)),
        ("claude-sonnet-4-5", Effort::Off, Some(100)),
        ("claude-opus-4-8", Effort::High, Some(100)),
    ] {
        of(model, effort, max_tokens).unwrap();
    }
    let small = body("claude-sonnet-4-5", Effort::Low, Some(1_500));
    assert_eq!(small["thinking"], json!({"type": "enabled", "budget_tokens": 1_024}));
    let effort = Effort::Tokens(4_000);
    let openai = OpenAIProvider::builder().api_key("k").effort(effort).build().map(drop);
    let local = ChatCompletionsProvider::builder().base_url("http://127.0.0.1:1");
    for err in [openai, local.effort(effort).build().map(drop)].map(Result::unwrap_err) {
        assert_eq!(err.kind(), ErrorKind::Configuration, "{err}");
        assert!(err.message().contains("Effort::High"), "{err}");
    }
    // The settings of one request are looked at, too.
    let mut transcript = Transcript::default();
    transcript.push(Message::user("?")).unwrap();
    let request = Request::new(&transcript).unwrap();
    let settings = Settings { effort: Some(effort), ..Settings::default() };
    let options = responses::Options { settings, ..responses::Options::new("gpt-5") };
    assert_eq!(responses::encode(&request, &options).unwrap_err().kind(), ErrorKind::Configuration);
}
