//! The table of models: each model is found by its own name, and not by a similar one.

use std::fs;

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, FallbackProvider, Message, OpenAIProvider,
    StreamEvent, Transcript, Usage,
    journal::MemoryJournal,
    models::{self, Model, Models, Price, Thinking},
    provider::{Effort, PromptCache, Request, Settings},
    testing::{ScriptedProvider, reply},
    wire::anthropic,
};
use serde_json::Value;

fn find(provider: &str, model: &str) -> Model {
    Models::default().find(provider, model)
}

/// What a million tokens cost that are sent and said, in cents.
fn cents(provider: &str, model: &str) -> Option<(u32, u32)> {
    let price = find(provider, model).price?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
    let cents = |price: f64| (price * 100.0).round() as u32;
    Some((cents(price.input), cents(price.output)))
}

#[test]
fn the_default_model_of_each_vendor_has_a_price_and_a_window() {
    let defaults = [
        ("anthropic", AnthropicProvider::DEFAULT_MODEL),
        ("openai", OpenAIProvider::DEFAULT_MODEL),
    ];
    for (provider, model) in defaults {
        let known = find(provider, model);
        assert!(known.price.is_some_and(|price| price.input > 0.0), "{model}: {known:?}");
        assert!(known.window.is_some_and(|window| window >= 200_000), "{model}: {known:?}");
        assert!(known.output.is_some_and(|output| output >= 64_000), "{model}: {known:?}");
        let efforts = known.efforts.unwrap_or_default();
        assert_eq!(known.thinking, Some(Thinking::Effort), "{model}");
        assert!(efforts.contains(&Effort::Off) && efforts.contains(&Effort::High), "{efforts:?}");
        assert_eq!((known.images, known.documents), (Some(true), Some(true)), "{model}");
        assert_eq!(known.strict_tools, Some(true), "{model}");
    }
    // Whatever a server on this machine holds, nobody knows what it costs.
    assert_eq!(find("ollama", ChatCompletionsProvider::DEFAULT_MODEL), Model::default());
}

/// All models stand in one table: no other module names one.
#[test]
fn no_other_module_names_a_model() {
    let library = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../harness"));
    let packages =
        ["core", "providers", "agent", "mcp", "toolbox", "terminal", "sqlite", "postgres"];
    let mut folders: Vec<_> =
        packages.iter().map(|package| library.join(package).join("src")).collect();
    let mut named = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if !path.ends_with("models") {
                    folders.push(path);
                }
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a text file");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in lines {
                if ["\"claude", "\"gpt-", "\"gemini", "\"grok", "sonnet", "opus"]
                    .iter()
                    .any(|name| line.contains(name))
                {
                    named.push(format!("{}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    assert!(named.is_empty(), "belongs into `models`:\n{}", named.join("\n"));
}

#[test]
fn a_model_is_found_by_every_name_that_vendors_give_it() {
    let sonnet = Some((300, 1500));
    let table = [
        ("anthropic", "claude-sonnet-4-5", sonnet),
        ("anthropic", "claude-sonnet-4-5-20250929", sonnet),
        ("anthropic", "Claude-Sonnet-4-5", sonnet),
        ("openrouter", "anthropic/claude-sonnet-4.5", sonnet),
        ("vertex", "claude-sonnet-4-5@20250929", sonnet),
        ("vertex", "claude-sonnet-4-5@default", sonnet),
        ("ollama", "claude-sonnet-4-5", sonnet),
        ("ollama", "openrouter/anthropic/claude-sonnet-4.5", sonnet),
        ("ollama", "vertex_ai/claude-sonnet-4-5@20250929", sonnet),
        ("google", "projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-5", sonnet),
        // Regions on Bedrock cost a tenth more; `global` does not.
        ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", Some((330, 1650))),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some((330, 1650))),
        ("ollama", "us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", Some((330, 1650))),
        ("anthropic", "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", Some((330, 1650))),
        ("bedrock", "claude-sonnet-4-5-20250929", Some((330, 1650))),
        ("bedrock", "global.anthropic.claude-sonnet-4-5-20250929-v1:0", sonnet),
        (
            "bedrock",
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-5-20251101-v1:0",
            Some((550, 2750)),
        ),
        ("anthropic", "claude-3-7-sonnet-latest", sonnet),
        ("anthropic", "claude-opus-4-20250514", Some((1500, 7500))),
        ("anthropic", "claude-opus-4-5-20251101", Some((500, 2500))),
        ("openai", "gpt-5", Some((125, 1000))),
        ("openai", "gpt-5-2025-08-07", Some((125, 1000))),
        ("azure", "gpt-5-2025-08-07", Some((125, 1000))),
        ("azure", "gpt-35-turbo", Some((50, 150))),
        ("openai", "gpt-5-mini", Some((25, 200))),
        ("openai", "gpt-5-mini-2025-08-07", Some((25, 200))),
        ("openai", "gpt-5-pro", Some((1500, 12000))),
        ("openai", "gpt-5-pro-2025-10-06", Some((1500, 12000))),
        ("openai", "gpt-4o-2024-05-13", Some((500, 1500))),
        ("openai", "gpt-4o-2024-08-06", Some((250, 1000))),
        ("openai", "o3", Some((200, 800))),
        ("openai", "o3-mini", Some((110, 440))),
        ("google", "models/gemini-2.5-pro", Some((125, 1000))),
        ("ollama", "gemini/gemini-2.5-flash", Some((30, 250))),
        ("gemini", "gemini-2.5-flash-preview-05-20", Some((15, 60))),
        ("gemini", "gemini-2.0-flash-001", Some((10, 40))),
        ("xai", "grok-4", Some((300, 1500))),
        ("xai", "grok-4-fast", Some((20, 50))),
        ("groq", "llama-3.3-70b-versatile", Some((59, 79))),
        ("groq", "openai/gpt-oss-120b", Some((15, 60))),
        ("mistral", "mistral-large-2512", Some((50, 150))),
        // The price by day, which is the higher one.
        ("deepseek", "deepseek-reasoner", Some((55, 219))),
    ];
    for (provider, model, expected) in table {
        assert_eq!(cents(provider, model), expected, "`{model}` at {provider}");
    }
}

#[test]
fn a_name_that_is_only_alike_is_unknown() {
    let table = [
        ("openai", "gpt-5-ultra"),
        ("openai", "gpt-5.9"),
        ("openai", "gpt-5-pro-max"),
        ("openai", "gpt-50"),
        ("openai", "gpt"),
        ("openai", "ft:gpt-4o-2024-08-06:me::abc"),
        ("openai", "gpt-oss-120b"),
        ("ollama", "openai/gpt-oss-120b"),
        ("anthropic", "claude-sonnet-4-7"),
        ("anthropic", "claude-sonnet-9"),
        ("anthropic", "claude-opus-4-8-fast"),
        ("openrouter", "anthropic/claude-opus-4.8:batch"),
        ("openrouter", "anthropic/claude-opus-4.8-fast"),
        ("openrouter", "me/claude-sonnet-5"),
        ("ollama", "my-claude-sonnet-5"),
        ("ollama", "deepseek-r1"),
        ("ollama", "mistral-small-latest"),
        ("openrouter", "deepseek/deepseek-chat"),
        ("mistral", "ministral-3b-latest"),
        ("bedrock", "us.anthropic.claude-sonnet-9-v1:0"),
        ("bedrock", "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc123"),
        ("google", "gemini-2.5-pro-preview-tts"),
        ("google", "gemini-2.5-flash-image"),
        ("", ""),
        ("openai", "/"),
        ("openai", "."),
        ("openai", "anthropic/"),
    ];
    for (provider, model) in table {
        assert_eq!(cents(provider, model), None, "`{model}` at {provider}");
    }
}

#[test]
fn what_a_long_prompt_costs_is_part_of_the_table() {
    let price = find("openai", "gpt-5.6").price.expect("listed");
    let of = |input| {
        let usage = Usage { input: Some(input), output: Some(1_000_000), ..Usage::default() };
        price.of(&usage).expect("known")
    };
    let (short, long) = (of(272_000), of(272_001));
    assert!(long > short * 1.4, "{short} and then {long}");
}

#[test]
fn what_models_can_do_is_known_under_each_of_their_names() {
    let budget = Some(Thinking::Budget);
    let table = [
        ("anthropic", "claude-3-5-haiku-20241022", Some(8_192), Some(Thinking::Never)),
        ("anthropic", "claude-3-5-haiku-latest", Some(8_192), Some(Thinking::Never)),
        ("anthropic", "claude-sonnet-4-5-20250929", Some(64_000), budget),
        ("openrouter", "anthropic/claude-sonnet-4.5", Some(64_000), budget),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some(64_000), budget),
        ("bedrock", "global.anthropic.claude-opus-5-5", Some(128_000), Some(Thinking::Always)),
        ("anthropic", "claude-sonnet-5-5", Some(128_000), Some(Thinking::BetweenCalls)),
        ("openai", "gpt-5", Some(128_000), Some(Thinking::Always)),
        ("openai", "gpt-5-chat-latest", Some(16_384), Some(Thinking::Never)),
        ("openai", "gpt-4.1-mini", Some(32_768), Some(Thinking::Never)),
        ("anthropic", "claude-unheard-of", None, None),
    ];
    for (provider, model, output, thinking) in table {
        let known = find(provider, model);
        assert_eq!((known.output, known.thinking), (output, thinking), "`{model}` at {provider}");
    }
    assert_eq!(find("gemini", "gemini-2.5-pro").window, Some(1_048_576), "the list lacks it");
}

#[test]
fn an_answer_may_be_as_long_as_its_model_can_make_it() {
    let asked = |model: &str, effort| {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("?")).expect("it can be said");
        let request = Request::new(&transcript).expect("it can be sent");
        let settings = Settings { effort, ..Settings::default() };
        let options = anthropic::Options {
            settings: Settings { prompt_cache: Some(PromptCache::Off), ..settings },
            ..anthropic::Options::new(model)
        };
        let body = anthropic::encode(&request, &options).expect("a body");
        serde_json::from_slice::<Value>(&body).expect("JSON")
    };
    let table = [
        ("claude-sonnet-5", 125_000),
        ("claude-sonnet-4-5", 25_000),
        ("claude-3-5-haiku-20241022", 8_192),
        ("claude-3-haiku-20240307", 4_096),
        ("glm-9", 16_384),
    ];
    for (model, expected) in table {
        assert_eq!(asked(model, None)["max_tokens"], expected, "{model}");
    }
    // Models that cannot think are not asked to.
    let body = asked("claude-3-5-haiku-20241022", Some(Effort::High));
    assert_eq!((&body["thinking"], &body["output_config"]), (&Value::Null, &Value::Null));
}

#[test]
fn the_table_says_from_when_it_is() {
    let parts: Vec<usize> = models::DATE.split('-').map(str::len).collect();
    assert_eq!(parts, [4, 2, 2], "{}", models::DATE);
    assert!(models::SOURCE.starts_with("genai-prices "), "{}", models::SOURCE);
}

#[test]
fn a_program_can_replace_and_add_entries() {
    let own = Models::default()
        .with("claude-sonnet-5", Price::new(0.1, 0.2))
        .with("house-*", Model { window: Some(9), ..Model::default() });
    let known = own.find("anthropic", "claude-sonnet-5-20260630");
    assert_eq!(known.price, Some(Price::new(0.1, 0.2)));
    assert_eq!(known.window, Some(1_000_000), "what it leaves open stays");
    assert_eq!(own.find("ollama", "house-7").window, Some(9));
    let other = own.find("bedrock", "us.anthropic.claude-sonnet-5-v1:0").price;
    assert_eq!(other.map(|price| price.input), Some(2.2), "another name is another model");
    assert_eq!(Models::none().find("anthropic", "claude-sonnet-5"), Model::default());
}

/// A model that is asked by one name and answers under another one.
fn renamed(asked: &str, answers: &'static str) -> ScriptedProvider {
    let started = move || StreamEvent::Started { id: None, model: Some(answers.to_owned()) };
    let said = move || reply().event(started()).text("Yes.").tokens(1_000_000, 0);
    ScriptedProvider::answering(move |_| said()).with_model(asked)
}

#[tokio::test]
async fn the_price_of_the_name_that_was_asked_holds_where_a_server_answers_under_another_one() {
    let house = || Models::default().with("house", Price::new(0.5, 0.5));
    let both = || house().with("/srv/*", Price::new(0.25, 0.25));
    // What the program says of either name counts before the table, and of the name that answers first.
    for (answers, models, cost) in [
        ("house", house(), Some(0.5)),
        ("/srv/house.gguf", house(), Some(0.5)),
        ("claude-sonnet-5", house(), Some(0.5)),
        ("/srv/house.gguf", both(), Some(0.25)),
        ("claude-sonnet-5", Models::default(), Some(2.0)),
        ("/srv/house.gguf", Models::default(), None),
    ] {
        let builder = Agent::builder(renamed("house", answers)).models(models.clone());
        let agent = builder.build().expect("an agent");
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, "chat").await.expect("a conversation");
        let answer = chat.send("Is it?").await.expect("an answer");
        assert_eq!((answer.cost(), answer.model()), (cost, answers));
        drop(chat);
        let chat = agent.open(&journal, "chat").await.expect("a conversation");
        assert_eq!(chat.budget().spent().cost, cost, "it costs the same when it is read again");

        let down =
            ScriptedProvider::answering(|_| reply().overloaded()).with_model("claude-opus-5-5");
        let provider =
            FallbackProvider::new(down).or(renamed("house", answers).with_name("second"));
        let agent = Agent::builder(provider).models(models).build().expect("an agent");
        let answer = agent.run("Is it?").await.expect("an answer");
        assert_eq!((answer.cost(), answer.provider()), (cost, "second"));
    }
}
