//! The quickstart as a whole: the real provider over real HTTP, the real tools on real files, and
//! the output on the screen.

#[path = "../../examples/screen.rs"]
#[expect(dead_code, reason = "the examples use the rest")]
mod screen;

use std::{path::PathBuf, process::Command};

use harness::{
    Agent, AnthropicProvider, SideEffects,
    testing::{ScriptedProvider, reply},
    toolbox::{Files, calc},
    tools,
};

use crate::offline::model::model;

const TASK: &str = "Write 'hello world' to a file, read it back, and work out 17 * 23 - 100.";

#[tokio::test]
async fn the_scenario_works_and_is_shown_as_it_happens() {
    let server = model().await.expect("a port");
    let provider = AnthropicProvider::builder().api_key("none").base_url(server.url());
    let folder = tempfile::tempdir().expect("a folder");
    let files = Files::in_folder(folder.path()).expect("a folder");
    let agent = Agent::builder(provider.build().expect("a provider"))
        .tools(tools![calc])
        .tools(files.tools())
        .build()
        .expect("an agent");

    let mut seen = Vec::new();
    let mut screen = screen::Screen::new(&mut seen);
    let reply = agent.run(TASK).on_event(|event| screen.show(event)).await.expect("an answer");

    let written = std::fs::read_to_string(folder.path().join("hello.txt")).expect("the file");
    assert_eq!(written, "hello world");
    assert!(reply.text().contains("17 * 23 - 100 = 291"), "{}", reply.text());
    assert_eq!(reply.turns(), 3);
    assert!(reply.usage().input.is_some() && reply.usage().output.is_some());

    let seen = String::from_utf8(seen).expect("text");
    let mut rest = seen.as_str();
    for line in [
        "⚙ write_file({\"path\":\"hello.txt\",\"content\":\"hello world\"})\n→ write_file: ",
        "⚙ read_file({\"path\":\"hello.txt\"})\n",
        "⚙ calc({\"expression\":\"17 * 23 - 100\"})\n",
        "→ calc: 291\n",
        "17 * 23 - 100 = 291\n",
    ] {
        let at = rest.find(line).unwrap_or_else(|| panic!("{line:?} is not in {rest:?}"));
        rest = &rest[at + line.len()..];
    }
}

#[tokio::test]
async fn what_a_model_and_a_tool_say_does_not_act_on_the_screen() {
    let acts = "\u{1b}[8m\u{9b}2J\r\u{202e}\u{7}";
    let says = acts.to_owned();
    let schema = serde_json::json!({"type": "object"});
    let tool = harness::Tool::new("note", "Notes.", schema, SideEffects::NONE, move |_, _| {
        let says = format!("{says}\n→ a line of its own");
        Box::pin(async move { Ok(says.into()) })
    });
    let model = ScriptedProvider::new([
        reply().call_text("note", "{\"a\u{9b}\":\n\"→ 1\"}").call_text(acts, "{}"),
        reply().text(format!("before {acts} behind\nand on")),
    ]);
    let agent = Agent::builder(model).tools([tool]).build().expect("an agent");
    let mut seen = Vec::new();
    let mut screen = screen::Screen::new(&mut seen);
    agent.run(format!("Go.{acts}")).on_event(|event| screen.show(event)).await.expect("an answer");
    let seen = String::from_utf8(seen).expect("text");
    assert!(!seen.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}')), "{seen:?}");
    assert!(!seen.contains("\n→ 1") && !seen.contains("\n→ a line"), "{seen}");
    let spelled = r"before \u{1b}[8m\u{9b}2J\u{d}\u{202e}\u{7} behind";
    assert!(seen.contains(&format!("{spelled}\nand on\n")), "{seen}");
}

/// The built example, if it was built beside this test.
fn example() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let built = test.parent()?.parent()?.join("examples").join("quickstart");
    built.exists().then_some(built)
}

#[test]
fn the_program_says_what_it_needs_and_exits_by_its_rules() {
    let Some(program) = example() else {
        println!("skipped: the example was not built beside this test");
        return;
    };
    let run = |provider: Option<&str>| {
        let mut command = Command::new(&program);
        command.env_remove("ANTHROPIC_API_KEY").env_remove("PROVIDER");
        command.envs(provider.map(|provider| ("PROVIDER", provider)));
        let output = command.output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = run(None);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let first = out.lines().next().expect("a line");
    assert!(first.starts_with("PROVIDER is not set, so a scripted model"), "{first}");
    assert!(first.contains("PROVIDER=anthropic") && !out.contains("claude"), "{out}");
    assert!(out.contains("→ calc: 291") && out.contains("tokens in"), "{out}");

    let (code, _, err) = run(Some("anthropic"));
    assert_eq!((code, err.lines().count()), (Some(2), 1), "{err}");
    assert!(err.contains("ANTHROPIC_API_KEY"), "{err}");

    let (code, _, err) = run(Some("nobody"));
    assert_eq!((code, err.lines().count()), (Some(2), 1), "{err}");
}
