//! Errors inside of the value that a tool returns: the call has failed, each error is reported with
//! its place, and the successful parts stay readable.
#![expect(clippy::type_complexity, reason = "the nesting of the types is what is tested")]

use std::collections::BTreeMap;

use harness::{
    Agent, CallOutcome, Permissions, State, Tool, ToolContent, ToolContext,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::tool_macro::call;

/// Writes each.
#[tool(side_effects = "write")]
fn list() -> Vec<Result<u8, String>> {
    vec![Ok(1), Err("down".to_owned()), Ok(3), Err("full".to_owned())]
}

/// Returns two.
#[tool(side_effects = "read")]
fn pair() -> (&'static str, Result<(), &'static str>) {
    ("read", Err("not marked"))
}

/// Returns by name.
#[tool(side_effects = "read")]
fn by_name() -> Result<BTreeMap<&'static str, Option<Result<u8, Fault>>>, String> {
    let fault = Fault { code: 7, words: "no".to_owned() };
    Ok([("a/b", Some(Err(fault))), ("c", Some(Ok(1))), ("d", None)].into_iter().collect())
}

#[derive(Serialize)]
struct Fault {
    code: u8,
    words: String,
}

/// Returns an error behind another name.
#[tool(side_effects = "read")]
fn behind_a_name() -> Hidden {
    Hidden(Err("gone".to_owned()))
}

#[derive(Serialize)]
struct Hidden(Result<u8, String>);

/// Returns an error in an error.
#[tool(side_effects = "read")]
fn in_each_other() -> Vec<Result<Vec<Result<(), ()>>, Result<u8, u8>>> {
    vec![Ok(vec![Ok(()), Err(())]), Err(Err(1)), Err(Ok(2))]
}

#[tokio::test]
async fn an_error_inside_of_what_is_returned_fails_the_call_and_is_told_with_its_place() {
    let begin = "failed The tool ran to its end, but parts of what it returned are errors:";
    let end =
        "All other parts succeeded and stand: repeat only what failed. This is what it returned:";
    let table = [
        (
            list::tool(),
            "- at `/1`: down\n- at `/3`: full",
            r#"[{"Ok":1},{"Err":"down"},{"Ok":3},{"Err":"full"}]"#,
        ),
        (pair::tool(), "- at `/1`: not marked", r#"["read",{"Err":"not marked"}]"#),
        (
            by_name::tool(),
            r#"- at `/a~1b`: {"code":7,"words":"no"}"#,
            r#"{"a/b":{"Err":{"code":7,"words":"no"}},"c":{"Ok":1},"d":null}"#,
        ),
        (
            in_each_other::tool(),
            "- at `/0/Ok/1`: it gave no reason\n- at `/1`: {\"Err\":1}\n- at `/2`: {\"Ok\":2}",
            r#"[{"Ok":[{"Ok":null},{"Err":null}]},{"Err":{"Err":1}},{"Err":{"Ok":2}}]"#,
        ),
    ];
    for (tool, errors, all) in table {
        let expected = format!("{begin}\n{errors}\n{end}\n{all}");
        assert_eq!(call(&tool, json!({})).await, expected);
    }
    assert_eq!(call(&behind_a_name::tool(), json!({})).await, "failed gone");
}

/// Succeeds.
#[tool(side_effects = "read")]
fn all_well() -> (Vec<Result<u8, String>>, Outcome, BTreeMap<&'static str, u8>) {
    (vec![Ok(1)], Outcome::Err("a word of our own"), [("Err", 1)].into_iter().collect())
}

/// Not a `Result`: nothing failed.
#[derive(Serialize)]
#[allow(dead_code, reason = "the other variant shows that it is like a `Result`")]
enum Outcome {
    Ok(u8),
    Err(&'static str),
}

#[tokio::test]
async fn what_only_looks_like_an_error_is_a_value() {
    let expected = r#"json [[{"Ok":1}],{"Err":"a word of our own"},{"Err":1}]"#;
    assert_eq!(call(&all_well::tool(), json!({})).await, expected);
}

#[tokio::test]
async fn a_write_that_failed_in_part_has_failed_and_is_not_in_doubt() {
    let model = ScriptedProvider::new([reply().call("list", json!({})), reply().text("I see.")]);
    let agent = Agent::builder(model).tools(tools![list]).permissions(Permissions::allow_all());
    let answer = agent.build().unwrap().run("Go.").await.unwrap();
    let result = answer.transcript().messages()[2].results().next().unwrap().clone();
    assert_eq!(result.outcome(), CallOutcome::Failed);
    assert!(result.to_text().contains("- at `/1`: down\n- at `/3`: full"), "{}", result.to_text());
    assert!(result.to_text().contains(r#"{"Ok":3}"#), "{}", result.to_text());
}

/// Many.
#[tool(side_effects = "read")]
fn many() -> Vec<Result<u8, u16>> {
    (0..1_000).map(Err).collect()
}

#[tokio::test]
async fn of_very_many_errors_the_first_are_listed_and_all_are_there() {
    let said = call(&many::tool(), json!({})).await;
    assert_eq!(said.lines().filter(|line| line.starts_with("- at `/")).count(), 50);
    assert!(said.contains("\n- and 950 more, see below\n"), "{said}");
    assert!(said.ends_with(r#",{"Err":999}]"#), "{said}");
}

/// A value with `Result`s anywhere in it.
#[derive(Clone, Debug, Serialize)]
enum Tree {
    Leaf(Option<u8>),
    List(Vec<Tree>),
    Map(BTreeMap<String, Tree>),
    Tried(Box<Result<Tree, String>>),
    Named { a: Box<Tree>, b: (u8, Box<Tree>) },
    Err(u8),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        any::<Option<u8>>().prop_map(Tree::Leaf),
        any::<u8>().prop_map(Tree::Err),
        "[a-z]{1,3}".prop_map(|words| Tree::Tried(Box::new(Err(words)))),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::List),
            prop::collection::btree_map("[a~/]{1,2}", inner.clone(), 0..3).prop_map(Tree::Map),
            inner.clone().prop_map(|tree| Tree::Tried(Box::new(Ok(tree)))),
            (inner.clone(), inner)
                .prop_map(|(a, b)| Tree::Named { a: Box::new(a), b: (1, Box::new(b)) }),
        ]
    })
}

/// The words of each error, in order.
fn errors(tree: &Tree) -> Vec<String> {
    match tree {
        Tree::Leaf(_) | Tree::Err(_) => Vec::new(),
        Tree::List(list) => list.iter().flat_map(errors).collect(),
        Tree::Map(map) => map.values().flat_map(errors).collect(),
        Tree::Tried(tried) => match &**tried {
            Ok(tree) => errors(tree),
            Err(words) => vec![words.clone()],
        },
        Tree::Named { a, b } => [errors(a), errors(&b.1)].concat(),
    }
}

/// Hands over what the program holds.
#[tool(side_effects = "none")]
fn plant(tree: State<Tree>) -> (u8, Tree) {
    (0, Tree::clone(&tree))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every error is listed, in order, at a place where the JSON has it, and the JSON is all there.
    #[test]
    fn every_error_is_listed_where_it_stands(tree in trees()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let context = ToolContext::new("call_1").with(tree.clone());
        let tool: Tool = plant::tool();
        let answer = runtime.block_on(tool.call(&context, json!({})));
        let (whole, errors) = (json!([0, tree]), errors(&tree));
        if errors.is_empty() {
            prop_assert_eq!(answer.unwrap(), ToolContent::Json(whole).into());
            return Ok(());
        }
        let said = answer.unwrap_err().to_string();
        let json: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        prop_assert_eq!(&json, &whole);
        let listed: Vec<(&str, &str)> = said
            .lines()
            .filter_map(|line| line.strip_prefix("- at `")?.split_once("`: "))
            .collect();
        let words: Vec<&str> = listed.iter().map(|(_, words)| *words).collect();
        prop_assert_eq!(words, errors);
        for (place, words) in listed {
            let found = json.pointer(&format!("{place}/Err"));
            prop_assert_eq!(found, Some(&json!(words)), "{}", place);
        }
    }
}
