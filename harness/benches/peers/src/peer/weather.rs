//! What every subject sends beside the messages: the system prompt and the tools, with the function of the tool that
//! the model calls.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::subject::Failure;

pub const SYSTEM: &str = "Be concise.";

/// The name, the description and the parameters of each tool.
pub fn schemas() -> impl Iterator<Item = (&'static str, &'static str, Value)> {
    let parameters = |members: &[(&str, &str)]| {
        let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
        let member = |(name, said): &(&str, &str)| {
            ((*name).to_owned(), json!({"type": "string", "description": said}))
        };
        let members: serde_json::Map<String, Value> = members.iter().map(member).collect();
        json!({
            "type": "object", "properties": members, "required": names, "additionalProperties": false
        })
    };
    [
        ("weather", "Says how warm it is somewhere.", parameters(&[("city", "Such as `Oslo`")])),
        ("send", "Sends a letter.", parameters(&[("to", "Whom to"), ("text", "What it says")])),
    ]
    .into_iter()
}

#[derive(Deserialize)]
struct Arguments {
    city: String,
}

/// Runs `weather` with the arguments that the model wrote.
pub fn run(arguments: &str) -> Result<String, Failure> {
    let Arguments { city } = serde_json::from_str(arguments)?;
    Ok(format!("It rains in {city}."))
}

/// Like [`run`], with parsed arguments.
#[cfg(feature = "genai")]
pub fn run_value(arguments: &Value) -> Result<String, Failure> {
    let Arguments { city } = Arguments::deserialize(arguments)?;
    Ok(format!("It rains in {city}."))
}
