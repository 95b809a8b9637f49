//! Providers at servers on this machine, which need no key, and what the environment selects.

use std::process::Command;

use harness::{
    Agent, AnthropicProvider, OpenAIProvider, Provider as _,
    provider::{Effort, Settings},
    provider_from_env,
    testing::{Answer, LoopbackServer},
};
use serde_json::json;

/// Set in a copy of this program that only says which provider the environment selects.
const SAYS: &str = "SAYS_ITS_PROVIDER";

/// Runs in a process of its own, since the environment belongs to the whole process.
#[test]
fn says_its_provider() {
    if std::env::var_os(SAYS).is_none() {
        return;
    }
    let said = match provider_from_env() {
        Ok(provider) => format!("{} {}", provider.name(), provider.model()),
        Err(error) => format!("error: {error}"),
    };
    println!("<{said}>");
}

/// What the copy says with these variables and none of ours besides.
fn selected(variables: &[(&str, &str)]) -> String {
    let mut copy = Command::new(std::env::current_exe().expect("this program"));
    copy.args(["--exact", "local_servers::says_its_provider", "--nocapture"]).env(SAYS, "1");
    for (name, _) in std::env::vars() {
        if ["OPENAI_", "ANTHROPIC_", "CHAT_COMPLETIONS_", "LOCAL_", "PROVIDER", "EFFORT"]
            .iter()
            .any(|ours| name.starts_with(ours))
        {
            copy.env_remove(name);
        }
    }
    let output = copy.envs(variables.iter().copied()).output().expect("a copy");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let said = text.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    said.unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

#[test]
fn the_environment_selects_a_server_of_ones_own_without_a_key() {
    assert_eq!(selected(&[("PROVIDER", "local")]), "127.0.0.1:8000 default");
    let own = [
        ("PROVIDER", "Local"),
        ("LOCAL_BASE_URL", "http://10.0.0.7:9000/v1"),
        ("LOCAL_MODEL", "llama-3.1-8b-instruct"),
    ];
    assert_eq!(selected(&own), "10.0.0.7:9000 llama-3.1-8b-instruct");
    let at_openai = selected(&[("PROVIDER", "openai")]);
    assert!(at_openai.contains("`OPENAI_API_KEY` is not set"), "{at_openai}");
    let here = [("PROVIDER", "openai"), ("OPENAI_BASE_URL", "http://localhost:8000/v1")];
    assert_eq!(selected(&here), "localhost:8000 gpt-5.6");
    let unknown = selected(&[("PROVIDER", "nobody")]);
    assert!(unknown.contains("`nobody`") && unknown.contains("`local`"), "{unknown}");
}

#[test]
fn the_environment_says_how_much_the_model_thinks() {
    assert_eq!(selected(&[("PROVIDER", "local"), ("EFFORT", "high")]), "127.0.0.1:8000 default");
    let unknown = selected(&[("PROVIDER", "local"), ("EFFORT", "lots")]);
    assert!(unknown.contains("`lots`") && unknown.contains("`xhigh`"), "{unknown}");
    assert!(unknown.contains("`EFFORT`"), "{unknown}");
    for (name, level) in [("off", Effort::Off), (" XHigh", Effort::XHigh), ("max", Effort::Max)] {
        assert_eq!(name.parse::<Effort>().expect("a level"), level);
    }
}

#[tokio::test]
async fn a_server_on_this_machine_is_asked_without_a_key_and_gets_none_of_others() {
    let server = LoopbackServer::start([] as [Answer; 0]).await.expect("a port");
    let local = OpenAIProvider::local().base_url(server.url());
    let settings = Settings { effort: Some(Effort::Low), ..Settings::default() };
    let local = local.settings(settings).build().expect("no key is needed");
    // The server has no answer: what matters is what it is asked.
    let _ = Agent::builder(local).build().expect("an agent").run("Hello?").await;
    let asked = server.requests();
    let asked = asked.first().expect("a request");
    assert!(asked.path().ends_with("/v1/responses"), "{}", asked.path());
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.header("openai-organization"), None);
    let body = asked.json();
    assert_eq!((&body["model"], &body["reasoning"]["effort"]), (&json!("default"), &json!("low")));

    if std::env::var_os("ANTHROPIC_API_KEY").is_none() {
        let claude = AnthropicProvider::builder().base_url(server.url()).build();
        let _ =
            Agent::builder(claude.expect("no key")).build().expect("an agent").run("Hello?").await;
        let asked = server.requests();
        assert_eq!(asked.last().expect("a request").header("x-api-key"), None);
        let away = AnthropicProvider::builder().base_url("http://127.0.0.1.example.test").build();
        assert!(away.expect_err("a key is missing").is_configuration());
    }
}

#[test]
fn a_key_that_is_given_is_sent_to_a_server_of_ones_own() {
    let with_key = OpenAIProvider::local().api_key("sk-mine-0001").build().expect("a provider");
    assert_eq!(with_key.name(), "127.0.0.1:8000");
    assert_eq!(with_key.secrets().hide("sk-mine-0001"), "[secret]");
}
