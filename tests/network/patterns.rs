//! Patterns of a model for `search_files`.

use harness::{ToolContext, toolbox::Files};
use serde_json::json;

#[tokio::test]
async fn patterns_with_many_classes_are_refused_before_they_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.txt"), "one two\n").expect("a file");
    let tools = Files::in_folder(folder.path()).expect("a folder").tools();
    let search = tools.iter().find(|tool| tool.name() == "search_files").expect("a tool").clone();
    let search = async |pattern: &str| {
        let found = search.call(&ToolContext::new("call_1"), json!({"pattern": pattern})).await;
        found.map_err(|err| err.to_string())
    };
    for hostile in [
        format!("[{}]", r"\w".repeat(1900)),
        format!("[{}]", r"\p{L}".repeat(700)),
        format!("(?i){}", r"[\x00-\x{10ffff}]".repeat(200)),
        format!("(?i)[{}]", r"[\x00-\x{ffff}]".repeat(200)),
        format!("[{}]", r"\w&&".repeat(120) + r"\w"),
        r"\pL".repeat(1300),
        format!("[{}]", ('a'..='z').cycle().take(3900).collect::<String>()),
    ] {
        let err = search(&hostile).await.expect_err("it is refused");
        assert!(err.contains("character classes") && err.contains("search for a part"), "{err}");
    }
    for good in [r"\w+\s\w+", "[a-z]{3}", r"(?i)^[\p{L}\s]+$", &r"\w?".repeat(50)] {
        let found = search(good).await.unwrap_or_else(|err| panic!("{good}: {err}"));
        assert!(format!("{found:?}").contains("one two"), "{good}");
    }
}
