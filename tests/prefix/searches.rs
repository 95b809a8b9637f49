//! Lives of conversations whose model has searched for tools.

use harness::{
    Chat, Tool,
    agent::AgentBuilder,
    journal::MemoryJournal,
    message::CallOutcome,
    provider::{Settings, ToolChoice},
    testing::PrefixCheck,
    tool::ToolSearch,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Say, Vendor, WIRES, begin, policies::changes, tool, tool_of};

const NAMES: [&str; 9] = ["ant", "bee", "cat", "dog", "elk", "gnu", "hen", "ibis", "jay"];

/// A program with many tools for which the model has to search, and these.
fn program(vendor: &Vendor, more: Vec<Tool>) -> AgentBuilder {
    let many = NAMES.map(|name| tool(name, "Tells of this animal."));
    vendor
        .program("Be brief.", [tool("look", "Looks.")].into_iter().chain(many).chain(more))
        .tool_search(ToolSearch::new().share(0).always(["look"]))
}

fn fox() -> Tool {
    tool("fox", "Tells of the fox.")
}

/// The model searches, and calls what it has found: three pieces of reasoning, after three others.
async fn search(vendor: &Vendor, chat: &mut Chat) {
    begin(vendor, chat).await;
    vendor.says([
        Say::Call("tool_search", json!({"query": "fox"})),
        Say::Call("fox", json!({"city": "Rome"})),
    ]);
    chat.send("Three?").await.unwrap();
}

/// The next program goes on with a conversation in which the model has found the fox. Returns what it tells of.
async fn goes_on(
    wire: &'static str,
    next: impl Fn(&Vendor) -> AgentBuilder,
) -> (Vendor, Vec<Value>) {
    let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
    let journal = MemoryJournal::new();
    let before = program(&vendor, vec![fox()]).build().unwrap();
    let mut chat = before.open(&journal, "c").await.unwrap();
    search(&vendor, &mut chat).await;
    drop(chat);
    let after = next(&vendor).build().unwrap();
    let mut chat = after.open(&journal, "c").await.unwrap();
    let told = changes(&mut chat, "Four?").await;
    drop(chat);
    let mut chat = after.open(&journal, "c").await.unwrap();
    chat.send("Five?").await.unwrap();
    (vendor, told)
}

#[tokio::test]
async fn a_found_tool_is_gone() {
    for wire in WIRES {
        let (vendor, told) = goes_on(wire, |vendor| program(vendor, vec![])).await;
        assert_eq!(told, Vec::<Value>::new());
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (7, 0), "{wire}");
    }
}

#[tokio::test]
async fn a_found_tool_has_another_doc_comment() {
    for wire in WIRES {
        let other = || tool("fox", "Tells all of the fox.");
        let (vendor, told) = goes_on(wire, |vendor| program(vendor, vec![other()])).await;
        assert_eq!(told, Vec::<Value>::new());
        assert!(vendor.last().to_string().contains("Tells of the fox."), "{wire}");
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (7, 0), "{wire}");
    }
}

#[tokio::test]
async fn a_found_tool_takes_other_arguments() {
    for wire in WIRES {
        let other = || tool_of("fox", "Tells of the fox.", json!({"den": {"type": "integer"}}));
        let (vendor, told) = goes_on(wire, |vendor| program(vendor, vec![other()])).await;
        assert_eq!((told.len(), &told[0]["left_out"]), (1, &json!(6)), "{told:?}");
        assert_eq!(told[0]["change"], "the tool `fox`");
        assert!(vendor.last().to_string().contains("den"), "{wire}");
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (1, 0), "{wire}");
    }
}

#[tokio::test]
async fn the_next_program_has_too_few_tools_for_a_search() {
    for wire in WIRES {
        for more in [vec![], vec![fox()]] {
            let next = |vendor: &Vendor| {
                let few = [tool("look", "Looks."), tool("owl", "Tells of the owl.")];
                vendor.program("Be brief.", few.into_iter().chain(more.clone()))
            };
            let (vendor, told) = goes_on(wire, next).await;
            assert_eq!((told.len(), &told[0]["appended"]), (1, &json!(true)), "{told:?}");
            assert_eq!(told[0]["change"], "the tool `owl`");
            assert_eq!((vendor.check.kept(), vendor.check.refusals()), (7, 0), "{wire}");
        }
    }
}

#[tokio::test]
async fn a_run_offers_too_few_tools_for_a_search() {
    for wire in WIRES {
        let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
        let mut chat = program(&vendor, vec![fox()]).build().unwrap().chat();
        search(&vendor, &mut chat).await;
        vendor.says([Say::Call("ant", json!({"city": "Rome"})), Say::Text("No.")]);
        chat.send("Four?").only_tools(["fox", "ant"]).await.unwrap();
        vendor.says([
            Say::Call("tool_search", json!({"query": "gnu"})),
            Say::Call("gnu", json!({"city": "Rome"})),
        ]);
        chat.send("Five?").await.unwrap();
        chat.send("Six?").only_tools(["look"]).await.unwrap();
        let mut kept = 12;
        if wire == "responses" {
            let choice = Some(ToolChoice::Tool("ant".to_owned()));
            let must = Settings { tool_choice: choice, ..Settings::default() };
            chat.send("Seven?").only_tools(["ant"]).settings(must).await.unwrap();
            kept += 1;
        }
        chat.send("Eight?").await.unwrap();
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (kept, 0), "{wire}");
    }
}

/// A conversation that began with few tools has no place for what a search finds, but behind its messages.
#[tokio::test]
async fn the_next_program_has_so_many_tools_that_the_model_searches() {
    for wire in WIRES {
        let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
        let journal = MemoryJournal::new();
        let before = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
        let mut chat = before.open(&journal, "c").await.unwrap();
        begin(&vendor, &mut chat).await;
        drop(chat);
        let after = program(&vendor, vec![fox()]).build().unwrap();
        let mut chat = after.open(&journal, "c").await.unwrap();
        vendor.says([
            Say::Call("tool_search", json!({"query": "fox"})),
            Say::Call("fox", json!({"city": "Rome"})),
        ]);
        chat.send("Three?").await.unwrap();
        chat.send("Four?").await.unwrap();
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (6, 0), "{wire}");
    }
}

/// The vendor of the search refuses a list that names it, or what it has found.
#[tokio::test]
async fn a_typed_answer_beside_a_search() {
    #[derive(Deserialize, JsonSchema)]
    struct Town {
        name: String,
    }
    for wire in WIRES {
        let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
        let mut chat = program(&vendor, vec![fox()]).build().unwrap().chat();
        search(&vendor, &mut chat).await;
        vendor.says([Say::Typed(json!({"name": "Oslo"}))]);
        let town = chat.send("Four?").answer::<Town>().await.unwrap();
        assert_eq!(town.value().name, "Oslo");
        chat.send("Five?").await.unwrap();
        chat.send("Six?").await.unwrap();
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (8, 0), "{wire}");
    }
}

/// The vendors move what a search has found out of the list of tools. A search that has found nothing else says so in
/// words, like one that has found nothing.
#[tokio::test]
async fn the_next_program_lets_the_model_search_for_a_tool_that_it_has() {
    let dens = || tool_of("fox", "Tells of the fox.", json!({"den": {"type": "integer"}}));
    for wire in WIRES {
        for (next, told, query) in [
            (fox(), None, "fox"),
            (fox(), None, "fox gnu"),
            (dens(), Some("the tool `fox`"), "fox gnu"),
        ] {
            let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
            let journal = MemoryJournal::new();
            let always = ToolSearch::new().share(0).always(["look", "fox"]);
            let before = program(&vendor, vec![fox()]).tool_search(always).build().unwrap();
            let mut chat = before.open(&journal, "c").await.unwrap();
            begin(&vendor, &mut chat).await;
            drop(chat);
            let after = program(&vendor, vec![next]).build().unwrap();
            let mut chat = after.open(&journal, "c").await.unwrap();
            let arguments =
                if told.is_some() { json!({"den": 7}) } else { json!({"city": "Rome"}) };
            let fox = || Say::Call("fox", arguments.clone());
            vendor.says([fox(), Say::Call("tool_search", json!({ "query": query })), fox()]);
            let seen = changes(&mut chat, "Three?").await;
            let seen: Vec<_> = seen.iter().map(|it| (&it["change"], &it["appended"])).collect();
            let told = told.map(Value::from);
            assert_eq!(seen, told.iter().map(|it| (it, &Value::Bool(true))).collect::<Vec<_>>());
            let calls = query.contains("gnu").then(|| Say::Call("gnu", json!({"city": "Rome"})));
            let kept = 7 + usize::from(calls.is_some());
            vendor.says(calls);
            chat.send("Four?").await.unwrap();
            let last = vendor.last();
            let references = last.to_string().matches("tool_reference").count();
            let outputs = last.to_string().matches("tool_search_output").count();
            let results = chat.transcript().messages().iter().flat_map(|it| it.results());
            for result in results {
                assert_eq!(result.outcome(), CallOutcome::Succeeded, "{}", result.to_text());
            }
            assert_eq!(references + outputs, kept - 7, "{wire} {last}");
            assert_eq!((vendor.check.kept(), vendor.check.refusals()), (kept, 0), "{wire}");
        }
    }
}

/// Such a server gets all found tools in the list of tools, or behind the messages.
#[tokio::test]
async fn a_server_refuses_what_a_search_has_found_at_its_place() {
    for wire in WIRES {
        let refuses = |body: &Value| {
            let is_found = body.to_string().contains("\"defer_loading\":true");
            is_found.then_some("tools.3.defer_loading: Extra inputs are not permitted")
        };
        let vendor = Vendor::start_refusing(wire, PrefixCheck::refusing(), refuses).await;
        let mut chat = program(&vendor, vec![fox()]).build().unwrap().chat();
        search(&vendor, &mut chat).await;
        chat.send("Four?").await.unwrap();
        let (kept, refusals) = (vendor.check.kept(), vendor.check.refusals());
        vendor.says([
            Say::Call("tool_search", json!({"query": "gnu"})),
            Say::Call("gnu", json!({"city": "Rome"})),
        ]);
        assert_eq!(changes(&mut chat, "Five?").await.len(), 1);
        chat.send("Six?").await.unwrap();
        let all = (vendor.check.kept() - kept, vendor.check.refusals());
        assert_eq!(all, (4, refusals), "{wire} {kept}");
    }
}
