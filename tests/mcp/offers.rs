//! Resources and prompts of servers: read by the program, and by a model with the program's word.

use harness::{
    Agent, Block, CallOutcome, ErrorKind, Media, Role, SideEffect, SideEffects, ToolContent,
    mcp::McpServer,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use super::{Scripted, call_with, text};

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);

async fn started(scripted: &Scripted, way: &str) -> McpServer {
    scripted.server(way).connect().await.expect("a server")
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    for (way, count) in [("offers", 3), ("offers-no-templates", 2)] {
        let scripted = Scripted::new();
        let server = started(&scripted, way).await;
        let all = server.resources().await.expect("resources");
        let found: Vec<(&str, &str, bool)> =
            all.iter().map(|it| (&*it.uri, &*it.name, it.is_template)).collect();
        let expected = [
            ("db://notes", "notes", false),
            ("db://logo", "logo", false),
            ("db://row/{id}", "row", true),
        ];
        assert_eq!(found, expected[..count], "{way}");
        assert_eq!(all[0].title.as_deref(), Some("All notes"));
        assert_eq!(all[0].mime.as_deref(), Some("text/markdown"));
        let parts = server.read_resource("db://notes").await.expect("contents");
        let notes = Media::from_text("text/markdown", "# Notes").with_uri("db://notes");
        let logo = Media::from_bytes("image/png", [1, 2, 3]).with_uri("db://logo");
        assert_eq!(parts, [ToolContent::Document(notes), ToolContent::Image(logo)]);
        let refused = server.read_resource("db://none").await.expect_err("no such resource");
        assert!(refused.to_string().contains("no such resource (code -32002)"), "{refused}");
        assert_eq!(server.resources().await.expect("it goes on").len(), count);
    }
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in() {
    let scripted = Scripted::new();
    let server = started(&scripted, "offers").await;
    let prompts = server.prompts().await.expect("prompts");
    let [review] = prompts.as_slice() else { panic!("{prompts:?}") };
    assert_eq!(review.name, "review");
    let arguments: Vec<(&str, bool)> =
        review.arguments.iter().map(|it| (&*it.name, it.required)).collect();
    assert_eq!(arguments, [("file", true), ("tone", false)]);
    let said = server.prompt("review", [("file", "main.rs")]).await.expect("messages");
    let roles: Vec<Role> = said.iter().map(harness::Message::role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::User]);
    assert_eq!(said[0].text(), "Review main.rs.");
    assert!(matches!(said[2].blocks()[0], Block::Image(_)));
    assert!(said[3].text().contains("smell"), "{}", said[3].text());
}

#[tokio::test]
async fn a_model_reads_them_by_tools_that_do_what_the_program_says() {
    let scripted = Scripted::new();
    let server = started(&scripted, "offers").await;
    let mut tools = server.resource_tools(READ);
    tools.extend(server.prompt_tools(READ));
    let said = |at: usize, arguments| {
        let tool = tools[at].clone();
        async move { text(call_with(&tool, arguments).await) }
    };
    let all = said(0, json!({})).await;
    assert_eq!(
        all,
        "db://notes: All notes, text/markdown. What was noted.\ndb://logo: logo\n\
         db://row/{id} (a template: fill in what is in braces): row\n"
    );
    assert_eq!(said(0, json!({"search": "LOGO"})).await, "db://logo: logo\n");
    assert_eq!(said(0, json!({"search": "zebra"})).await, "None of the 3 resources has this word.");
    assert!(said(1, json!({"uri": "db://notes"})).await.contains("# Notes"));
    let prompts = said(2, json!({})).await;
    assert_eq!(prompts, "review: Reviews a file. Arguments: [`file` (required), `tone`]\n");
    let filled = json!({"name": "review", "arguments": {"file": "a.rs"}});
    let filled = said(3, filled).await;
    assert!(filled.starts_with("The user:\nReview a.rs.\nThe assistant:\nGladly."), "{filled}");

    for (effects, outcome) in
        [(READ, CallOutcome::Succeeded), (SideEffects::ALL, CallOutcome::Denied)]
    {
        let model = ScriptedProvider::new([
            reply().call("it__read_resource", json!({"uri": "db://notes"})),
            reply().text("Done."),
        ]);
        let agent = Agent::builder(model).tools(server.resource_tools(effects));
        let told = agent.build().expect("an agent").run("Read.").await.expect("a reply");
        let results = told.transcript().messages().iter().flat_map(|it| it.results());
        assert!(results.map(|result| result.outcome()).eq([outcome]), "{effects}");
    }
}

#[tokio::test]
async fn a_server_that_has_none_is_not_asked_and_a_bad_one_ends() {
    let scripted = Scripted::new();
    let server = started(&scripted, "good").await;
    assert!(server.resources().await.expect("none").is_empty());
    assert!(server.prompts().await.expect("none").is_empty());
    assert!(server.resource_tools(READ).is_empty() && server.prompt_tools(READ).is_empty());

    let scripted = Scripted::new();
    let server = started(&scripted, "offers-badly").await;
    // It lists one page again and again.
    let all = server.resources().await.expect("what came");
    assert!(all.iter().all(|it| it.is_template), "{all:?}");
    let empty = server.read_resource("db://notes").await.expect_err("no contents");
    assert_eq!(empty.kind(), ErrorKind::Protocol, "{empty}");
    server.close().await;
    scripted.until_none_lives().await;
}
