//! A second opinion on what fits a schema: that of python-jsonschema, where it is installed.
//!
//! `HARNESS_SCHEMAS=20000 HARNESS_PYTHON=/path/to/python3 cargo test -p harness-tests schema_oracle`

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use harness::{SideEffects, Tool, ToolContext, ToolRegistry};
use serde_json::{Value, json};

use crate::{schema_random::Random, setting};

/// Reads `[schema, value]` in each line and answers whether the value fits.
const JUDGE: &str = r#"
import sys, json, jsonschema
sys.setrecursionlimit(10000)
for line in sys.stdin:
    schema, value = json.loads(line)
    try:
        print(json.dumps(jsonschema.Draft202012Validator(schema).is_valid(value)))
    except Exception as err:
        print(json.dumps(repr(err)))
"#;

/// What python says of each pair, or nothing where it has no jsonschema.
pub(crate) fn judged(pairs: &[(Value, Value)]) -> Option<Vec<Value>> {
    let python = std::env::var("HARNESS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_it =
        Command::new(&python).args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    if !has_it.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut child = Command::new(&python)
        .args(["-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it ran before");
    let lines: String =
        pairs.iter().map(|(schema, value)| format!("{}\n", json!([schema, value]))).collect();
    let mut to = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || to.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("an answer");
    writer.join().expect("no panic").expect("written");
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

fn by_hand(schema: &Value) -> Tool {
    Tool::new("t", "T.", schema.clone(), SideEffects::NONE, |_, arguments| {
        Box::pin(async move { Ok(Value::Object(arguments).to_string().into()) })
    })
}

/// What is accepted fits as the tool gets it, and what is refused does not fit.
#[tokio::test]
async fn the_verdict_is_that_of_python_jsonschema() {
    let schemas = setting("HARNESS_SCHEMAS", 400);
    let (mut pairs, mut ours) = (Vec::new(), Vec::new());
    let mut shaped = 0;
    for seed in 0..schemas as u64 {
        let mut random = Random::new(seed);
        let schema = random.arguments();
        let tool = by_hand(&schema);
        ToolRegistry::new([tool.clone()]).unwrap_or_else(|err| panic!("{seed}: {err}: {schema}"));
        let property = schema["properties"]["x"].clone();
        let fitting = json!({"x": random.fitting(&property, &schema, 8)});
        let changed = random.changed(&fitting);
        let any = json!({"x": random.value(3)});
        for value in [fitting, changed, any] {
            if !value.is_object() {
                continue;
            }
            let called = tool.call(&ToolContext::new("c"), value.clone()).await;
            let received = called.as_ref().ok().map(|output| match output.content() {
                [harness::ToolContent::Text(text)] => serde_json::from_str(text).expect("JSON"),
                other => panic!("{other:?}"),
            });
            shaped += usize::from(received.as_ref().is_some_and(|received| *received != value));
            pairs.push((schema.clone(), received.unwrap_or(value)));
            ours.push(called.map(drop).map_err(|err| err.to_string()));
        }
    }
    let Some(theirs) = judged(&pairs) else {
        println!("skipped: there is no python3 with jsonschema (set HARNESS_PYTHON)");
        return;
    };
    assert_eq!(theirs.len(), pairs.len());
    let differ: Vec<String> = (pairs.iter().zip(&ours).zip(&theirs))
        .filter(|((_, ours), theirs)| Value::Bool(ours.is_ok()) != **theirs)
        .map(|(((schema, value), ours), theirs)| {
            format!("{theirs} {ours:?}\n  schema {schema}\n  value {value}")
        })
        .collect();
    let accepted = ours.iter().filter(|verdict| verdict.is_ok()).count();
    println!(
        "{} pairs: {accepted} fit, {} do not, {shaped} were given another spelling, {} differ",
        pairs.len(),
        pairs.len() - accepted,
        differ.len()
    );
    assert!(differ.is_empty(), "{}", differ.iter().take(5).cloned().collect::<Vec<_>>().join("\n"));
    assert!(accepted * 5 > pairs.len() && accepted * 5 < pairs.len() * 4, "both kinds: {accepted}");
}
