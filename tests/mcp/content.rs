//! What a tool hands over, after it has gone through a service of this library and come back by its client.

use harness::{
    Agent, Media, Permissions, Tool, ToolContent, ToolOutput,
    mcp::McpService,
    message::Link,
    testing::{ScriptedProvider, reply},
};
use serde_json::{Value, json};

use super::served_http::Served;

/// A tool that hands this over.
fn hands(name: &'static str, output: ToolOutput) -> Tool {
    let schema = json!({"type": "object"});
    Tool::new(name, "Hands it over.", schema, harness::SideEffects::NONE, move |_, _| {
        let output = output.clone();
        Box::pin(async move { Ok(output) })
    })
}

#[tokio::test]
async fn what_a_service_hands_over_comes_back_as_it_was() {
    let number = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let value = || ToolContent::Json(json!({"n": 3}));
    let png = || Media::from_bytes("image/png", [1, 2, 3]);
    let parts: Vec<ToolContent> = vec![
        "words".into(),
        png().into(),
        Media::from_bytes("audio/wav", [4, 5, 6]).into(),
        ToolContent::Document(Media::from_text("text/markdown", "# M").with_uri("file:///m")),
        ToolContent::Document(Media::from_bytes("application/pdf", [7, 255]).with_uri("file:///p")),
        ToolContent::Document(Media::from_bytes("a/b", [7, 255]).with_uri("file:///b")),
        Link::new("https://e.com/l", "l").with_description("A link").with_mime("text/html").into(),
    ];
    let with_value = |output: ToolOutput| output.with_value(&json!({"n": 3})).expect("a value");
    let cases: Vec<(&str, Tool, ToolOutput)> = vec![
        ("parts", hands("parts", parts.clone().into()), parts.into()),
        ("nothing", hands("nothing", ToolOutput::nothing()), ToolOutput::nothing()),
        // The text of a value stays a text where no schema tells that it is one.
        ("text", hands("text", value().into()), r#"{"n":3}"#.into()),
        (
            "value",
            hands("value", value().into()).with_output_schema(number.clone()),
            value().into(),
        ),
        (
            "words",
            hands("words", with_value("Three.".into())).with_output_schema(number.clone()),
            // The words do not have the value, so the model reads both.
            with_value(vec!["Three.".into(), value()].into()),
        ),
        (
            "shown",
            hands("shown", with_value(png().into())).with_output_schema(number.clone()),
            with_value(vec![png().into(), value()].into()),
        ),
    ];
    let served =
        Served::start(McpService::new(cases.iter().map(|(_, tool, _)| tool.clone()))).await;
    let server = served.connect("it").await;
    assert!(server.left_out().is_empty(), "{:?}", server.left_out());
    for (name, _, expected) in &cases {
        let tool = server.only([*name]).expect("the tool").remove(0);
        let output = super::call_with(&tool, json!({})).await.expect("an output");
        assert_eq!(output, *expected, "{name}");
    }
    let words = server.only(["words"]).expect("the tool").remove(0);
    assert_eq!(words.output_schema(), Some(&number));

    let model = ScriptedProvider::new([
        reply().call("it__words", json!({})).call("it__value", json!({})),
        reply().text("Done."),
    ]);
    let agent = Agent::builder(model).tools(server.tools()).permissions(Permissions::allow_all());
    let told = agent.build().expect("an agent").run("Go.").await.expect("a reply");
    for tool in ["it__words", "it__value"] {
        let values: Vec<Value> = told.results().of(tool).expect("values");
        assert_eq!(values, [json!({"n": 3})], "{tool}");
    }
    server.close().await;
}
