//! Many tools, and a choice of a tool: whoever sets it, the vendor is told of the tools that it names.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, ErrorKind, OpenAIProvider, Provider,
    provider::{Settings, ToolChoice},
    testing::{LoopbackServer, ScriptedProvider, reply},
    tool::ToolSearch,
};
use serde_json::{Value, json};

use crate::tool_search::{calls_on, many, says_on, tool_names};

const WANTED: &str = "jira__list_album";

fn provider_with(wire: &str, url: &str, settings: Settings) -> Box<dyn Provider> {
    match wire {
        "anthropic" => {
            let built = AnthropicProvider::builder().api_key("k").model("claude-sonnet-4-5");
            Box::new(built.base_url(url).settings(settings).build().unwrap())
        }
        "chat" => {
            let built = ChatCompletionsProvider::builder().api_key("k").model("m");
            Box::new(built.base_url(url).settings(settings).build().unwrap())
        }
        _ => {
            let built = OpenAIProvider::builder().api_key("k").model("gpt-5.6");
            Box::new(built.base_url(url).settings(settings).build().unwrap())
        }
    }
}

/// The tools are searched for in a window of any size.
fn search() -> ToolSearch {
    ToolSearch::new().share(0)
}

fn must() -> Settings {
    Settings { tool_choice: Some(ToolChoice::Tool(WANTED.to_owned())), ..Settings::default() }
}

fn extra(name: &str, value: Value) -> Settings {
    Settings { extra: [(name.to_owned(), value)].into_iter().collect(), ..Settings::default() }
}

/// A server that says something, for each request.
async fn saying(wire: &'static str) -> LoopbackServer {
    LoopbackServer::answering(move |_| says_on(wire, "Done.")).await.unwrap()
}

#[tokio::test]
async fn a_choice_of_a_tool_that_the_request_lacks_is_not_sent_wherever_it_is_set() {
    let allowed = json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": WANTED}]});
    for (wire, of_provider, of_run) in [
        ("anthropic", must(), None),
        ("responses", must(), None),
        ("chat", must(), None),
        ("anthropic", extra("tool_choice", json!({"type": "tool", "name": WANTED})), None),
        ("responses", extra("tool_choice", json!({"type": "function", "name": WANTED})), None),
        ("responses", Settings::default(), Some(extra("tool_choice", allowed))),
        (
            "chat",
            Settings::default(),
            Some(extra("tool_choice", json!({"type": "function", "function": {"name": WANTED}}))),
        ),
    ] {
        let server = saying(wire).await;
        let provider = provider_with(wire, &server.url(), of_provider.clone());
        let agent = Agent::builder(provider)
            .tools(many(&Arc::default()))
            .tool_search(search())
            .build()
            .unwrap();
        let run = agent.run("List it.");
        let run = match of_run {
            Some(settings) => run.settings(settings),
            None => run,
        };
        let failed = run.await.unwrap_err();
        let error = failed.error().expect("an error");
        assert_eq!(error.kind(), ErrorKind::Configuration, "{wire}: {error}");
        for part in [WANTED, "name it in `ToolSearch::always`"] {
            assert!(error.to_string().contains(part), "{wire}: {error}");
        }
        assert!(server.requests().is_empty(), "{wire}: nothing was sent");
        // With the way out it is.
        let provider = provider_with(wire, &server.url(), of_provider);
        let agent = Agent::builder(provider).tools(many(&Arc::default()));
        let agent = agent.tool_search(search().always([WANTED])).build().unwrap();
        agent.run("List it.").await.unwrap();
        assert_eq!(server.requests().len(), 1, "{wire}");
    }
}

/// What names no tool, and what the program has added itself, is sent as it is.
#[tokio::test]
async fn other_choices_are_sent_as_they_are() {
    let mut own = extra("tools", json!([{"type": "function", "name": "mine", "parameters": {}}]));
    own.tool_choice = Some(ToolChoice::Tool("mine".to_owned()));
    let mut none = extra("tool_choice", json!("none"));
    none.tool_choice = must().tool_choice;
    for settings in [own, none, extra("tool_choice", json!("required"))] {
        let server = saying("responses").await;
        let provider = provider_with("responses", &server.url(), settings.clone());
        let agent = Agent::builder(provider)
            .tools(many(&Arc::default()))
            .tool_search(search())
            .build()
            .unwrap();
        agent.run("List it.").await.unwrap_or_else(|err| panic!("{settings:?}: {err}"));
        let tools = tool_names(&server.requests()[0].json());
        assert!(tools.len() <= 2, "{tools:?}");
    }
}

/// Only the agent's own tools are hidden.
#[tokio::test]
async fn a_choice_of_a_tool_that_the_agent_does_not_have_is_sent_as_it_is() {
    let hosted =
        json!([{"type": "mcp", "server_label": "wiki", "server_url": "https://x.example"}]);
    let within = json!([{"type": "function", "name": "ask", "parameters": {}}]);
    let within = json!([{"type": "namespace", "name": "wiki", "tools": within}]);
    for (tools, choice) in [
        (hosted.clone(), json!({"type": "mcp", "server_label": "wiki", "name": "ask"})),
        (
            hosted,
            json!({"type": "allowed_tools", "mode": "required", "tools": [
                {"type": "mcp", "server_label": "wiki", "name": "ask"},
            ]}),
        ),
        (within, json!({"type": "function", "name": "ask"})),
        // The name of a server is not that of a tool.
        (
            json!([{"type": "mcp", "server_label": WANTED, "server_url": "https://x.example"}]),
            json!({"type": "mcp", "server_label": WANTED}),
        ),
    ] {
        let mut settings = extra("tools", tools);
        settings.extra.insert("tool_choice".to_owned(), choice.clone());
        let server = saying("responses").await;
        let provider = provider_with("responses", &server.url(), settings);
        let agent = Agent::builder(provider).tools(many(&Arc::default())).tool_search(search());
        let agent = agent.build().unwrap();
        agent.run("Ask.").await.unwrap_or_else(|err| panic!("{choice}: {err}"));
        assert_eq!(server.requests()[0].json()["tool_choice"], choice);
    }
}

/// It would be there twice after the search.
#[tokio::test]
async fn a_tool_of_extra_with_the_name_of_a_hidden_one_is_refused_before_anything_is_sent() {
    let server = saying("responses").await;
    let own = json!([{"type": "function", "name": WANTED, "parameters": {}}]);
    let provider = provider_with("responses", &server.url(), extra("tools", own));
    let agent = Agent::builder(provider).tools(many(&Arc::default())).tool_search(search());
    let failed = agent.build().unwrap().run("List it.").await.unwrap_err();
    let error = failed.error().expect("an error").to_string();
    assert!(error.contains(WANTED) && error.contains("another name"), "{error}");
    assert!(server.requests().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn tools_of_the_program_that_are_in_the_way_of_a_search_are_refused() {
    let tool_search = json!([{"type": "function", "name": "tool_search", "parameters": {}}]);
    for (tools, said) in [
        (tool_search, "has a tool `tool_search`"),
        (json!([{"type": "tool_search"}]), "turn the agent's search off by `ToolSearch::off`"),
    ] {
        let server = saying("responses").await;
        let provider = provider_with("responses", &server.url(), extra("tools", tools));
        let agent = Agent::builder(provider)
            .tools(many(&Arc::default()))
            .tool_search(search())
            .build()
            .unwrap();
        let failed = agent.run("List it.").await.unwrap_err();
        let error = failed.error().expect("an error").to_string();
        assert!(error.contains("`extra(\"tools\")`") && error.contains(said), "{error}");
        assert!(server.requests().is_empty(), "nothing was sent");
    }
}

/// The vendor wants a tool that has to be called in the list of tools, and not in the output of the search.
#[tokio::test]
async fn a_found_tool_that_extra_names_is_in_the_list_of_tools() {
    let turn = AtomicUsize::new(0);
    let server = LoopbackServer::answering(move |_| match turn.fetch_add(1, Ordering::Relaxed) {
        0 => calls_on("openai", "c1", "tool_search", json!({"query": WANTED, "limit": 1})),
        _ => says_on("responses", "Done."),
    });
    let server = server.await.unwrap();
    let provider = provider_with("responses", &server.url(), Settings::default());
    let agent = Agent::builder(provider)
        .tools(many(&Arc::default()))
        .tool_search(search())
        .build()
        .unwrap();
    let mut chat = agent.chat();
    chat.send("Look for albums.").await.unwrap();
    let choice = json!({"type": "function", "name": WANTED});
    chat.send("List them.").settings(extra("tool_choice", choice)).await.unwrap();
    let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
    let [_, found, forced] = bodies.as_slice() else { panic!("{} requests", bodies.len()) };
    assert!(found.to_string().contains("tool_search_output"), "{found}");
    assert_eq!(tool_names(forced), ["tool_search", WANTED]);
    assert!(!forced.to_string().contains("tool_search_output"), "{forced}");
}

#[tokio::test]
async fn a_found_tool_that_is_named_is_not_deferred_at_anthropic() {
    for settings in [must(), extra("tool_choice", json!({"type": "tool", "name": WANTED}))] {
        let turn = AtomicUsize::new(0);
        let answer = move |_: &_| match turn.fetch_add(1, Ordering::Relaxed) {
            0 => calls_on("anthropic", "c1", "tool_search", json!({"query": WANTED, "limit": 1})),
            _ => says_on("anthropic", "Done."),
        };
        let server = LoopbackServer::answering(answer).await.unwrap();
        let provider = provider_with("anthropic", &server.url(), Settings::default());
        let agent = Agent::builder(provider).tools(many(&Arc::default())).tool_search(search());
        let agent = agent.build().unwrap();
        let mut chat = agent.chat();
        chat.send("Look for albums.").await.unwrap();
        chat.send("List them.").settings(settings).await.unwrap();
        let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
        let [_, found, forced] = bodies.as_slice() else { panic!("{} requests", bodies.len()) };
        assert!(found.to_string().contains("tool_reference"), "{found}");
        assert_eq!(tool_names(forced), ["tool_search", WANTED]);
        assert!(!forced.to_string().contains("defer_loading"), "{forced}");
        assert!(!forced.to_string().contains("tool_reference"), "{forced}");
    }
}

#[tokio::test]
async fn a_run_that_names_the_search_keeps_it_or_is_told_that_it_finds_nothing() {
    let model = ScriptedProvider::answering(|_| reply().text("Done."));
    let always = search().always(["slack__list_ticket"]);
    let agent = Agent::builder(model.clone()).tools(many(&Arc::default())).tool_search(always);
    let agent = agent.build().unwrap();
    agent.run("List it.").only_tools([WANTED, "tool_search"]).await.unwrap();
    agent.run("List it.").only_tools([WANTED]).await.unwrap();
    let requests = model.requests();
    assert_eq!(requests[0].tool_names(), ["tool_search"]);
    assert_eq!(requests[1].tool_names(), [WANTED]);
    for others in [vec!["tool_search"], vec!["slack__list_ticket", "tool_search"]] {
        let failed = agent.run("List it.").only_tools(others).await.unwrap_err();
        let error = failed.error().expect("an error");
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("`only_tools` names `tool_search`"), "{error}");
    }
    assert_eq!(model.requests().len(), 2, "nothing else was sent");
}
