//! What the conformance suite of the Model Context Protocol asks of a server with tools, and of a client: `conformance.sh`
//! runs the suite against both.
//!
//!     cargo run -p harness-mcp-examples --bin mcp_conformance -- server --listen 127.0.0.1:8080
//!     cargo run -p harness-mcp-examples --bin mcp_conformance -- client http://127.0.0.1:8080/mcp
//!
//! Source of names and texts: <https://github.com/modelcontextprotocol/conformance>, 0.2.0-alpha.12.

mod asked;
mod beside;
#[path = "../program.rs"]
mod program;
mod served;

use std::{process::ExitCode, time::Duration};

use base64::Engine as _;
use harness::{
    Media, Progress, SideEffects, Tool, ToolContent, ToolContext, ToolError, mcp::McpService, tool,
    tools,
};
use serde_json::{Value, json};

use self::beside::Beside;

const USAGE: &str = "mcp_conformance server --listen 127.0.0.1:PORT: the tools that the conformance suite calls; \
    mcp_conformance client URL: what it asks of a client";

/// One pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\
    \0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";
/// No sample.
const WAV: &[u8] =
    b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0";

/// Says a text.
#[tool(side_effects = "none")]
fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

/// Shows a picture.
#[tool(side_effects = "none")]
fn test_image_content() -> ToolContent {
    picture()
}

fn picture() -> ToolContent {
    ToolContent::Image(Media::from_bytes("image/png", PNG))
}

/// Plays a sound.
#[tool(side_effects = "none")]
fn test_audio_content() -> ToolContent {
    ToolContent::Audio(Media::from_bytes("audio/wav", WAV))
}

/// Hands a resource over.
#[tool(side_effects = "none")]
fn test_embedded_resource() -> ToolContent {
    let text = Media::from_text("text/plain", "This is an embedded resource content.");
    ToolContent::Document(text.with_uri("test://embedded-resource"))
}

/// Hands several kinds over.
#[tool(side_effects = "none")]
fn test_multiple_content_types() -> Vec<ToolContent> {
    let json = Media::from_text("application/json", r#"{"test":"data","value":123}"#);
    let resource = ToolContent::Document(json.with_uri("test://mixed-content-resource"));
    vec!["Multiple content types test:".into(), picture(), resource]
}

/// Fails.
#[tool(side_effects = "none")]
fn test_error_handling() -> Result<(), String> {
    Err("This tool intentionally returns an error for testing".to_owned())
}

/// Says how far it is.
#[tool(side_effects = "none")]
async fn test_tool_with_progress(progress: Progress) -> &'static str {
    for done in ["0 of 100", "50 of 100", "100 of 100"] {
        progress.report(done);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "Done."
}

/// Asks a person by this form, and says what came.
fn asked(
    context: &ToolContext,
    message: &str,
    properties: Value,
    required: &[&str],
) -> Result<String, ToolError> {
    match context.answered() {
        Some(answered) => {
            Ok(format!("Elicitation completed: action=accept, content={}", answered.answer))
        }
        None => {
            let form = json!({"type": "object", "properties": properties, "required": required});
            Err(ToolError::asks(message, json!(null)).with_form(form))
        }
    }
}

/// Asks for a name and an address.
#[tool(side_effects = "none")]
fn test_elicitation(
    /// What the person reads
    message: String,
    context: &ToolContext,
) -> Result<String, ToolError> {
    let fields = json!({
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    });
    asked(context, &message, fields, &["username", "email"])
}

/// Asks with values that are there already.
#[tool(side_effects = "none")]
fn test_elicitation_sep1034_defaults(context: &ToolContext) -> Result<String, ToolError> {
    let fields = json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    });
    asked(context, "Please check the values.", fields, &[])
}

/// Asks with choices of every kind.
#[tool(side_effects = "none")]
fn test_elicitation_sep1330_enums(context: &ToolContext) -> Result<String, ToolError> {
    let titled = |word: &str| {
        let one = |n: u8, name: &str| json!({"const": format!("value{n}"), "title": format!("{name} {word}")});
        json!([one(1, "First"), one(2, "Second"), one(3, "Third")])
    };
    let plain = ["option1", "option2", "option3"];
    let fields = json!({
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    });
    asked(context, "Please choose.", fields, &[])
}

fn form(name: &str, kind: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]})
}

/// Asks for a name.
#[tool(side_effects = "none")]
fn test_input_required_result_elicitation(context: &ToolContext) -> Result<String, ToolError> {
    match context.answered() {
        Some(answered) => {
            Ok(format!("Hello, {}!", answered.answer["name"].as_str().unwrap_or("you")))
        }
        None => {
            Err(ToolError::asks("What is your name?", json!(null))
                .with_form(form("name", "string")))
        }
    }
}

/// Asks, and looks whether what it had said comes back.
#[tool(side_effects = "none")]
fn test_input_required_result_request_state(context: &ToolContext) -> Result<String, ToolError> {
    match context.answered() {
        Some(answered) if answered.token == "said" => Ok("state-ok".to_owned()),
        Some(answered) => Err(ToolError::new(format!("{} came back", answered.token))),
        None => {
            Err(ToolError::asks("Please confirm", json!("said")).with_form(form("ok", "boolean")))
        }
    }
}

/// Asks twice.
#[tool(side_effects = "none")]
fn test_input_required_result_multi_round(context: &ToolContext) -> Result<String, ToolError> {
    let Some(answered) = context.answered() else {
        let asks = ToolError::asks("Step 1: What is your name?", json!({"step": 1}));
        return Err(asks.with_form(form("name", "string")));
    };
    if answered.token["step"] == 1 {
        let state = json!({"step": 2, "name": answered.answer["name"]});
        let asks = ToolError::asks("Step 2: What is your favorite color?", state);
        return Err(asks.with_form(form("color", "string")));
    }
    Ok(format!("{} likes {}.", answered.token["name"], answered.answer["color"]))
}

/// Asks, and its state is changed on the way back.
#[tool(side_effects = "none")]
fn test_input_required_result_tampered_state(context: &ToolContext) -> Result<String, ToolError> {
    match context.answered() {
        Some(_) => Ok("state-ok".to_owned()),
        None => {
            Err(ToolError::asks("Please confirm", json!("said")).with_form(form("ok", "boolean")))
        }
    }
}

/// Tools whose schema is written by hand: what they declare is told as it stands.
fn by_hand() -> [Tool; 2] {
    let address = json!({
        "$anchor": "addressDef", "type": "object",
        "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
    });
    let dialect = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": address},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    let in_header = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    });
    let made = |name: &'static str, description: &'static str, schema| {
        Tool::new(name, description, schema, SideEffects::NONE, |_, given| {
            Box::pin(async move { Ok(format!("It was given {}.", Value::from(given)).into()) })
        })
    };
    [
        made("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", dialect),
        made("test_header_parameter", "Takes a value that stands in a header too.", in_header),
    ]
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let given = program::arguments()?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let address = match given.as_slice() {
        ["server", "--listen", address] => address,
        ["client", url] => {
            asked::client(url).await?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {
            let why = format!("expected `server --listen ADDRESS` or `client URL`; {USAGE}");
            return Err(program::wrong(why));
        }
    };
    let tools = tools![
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_tool_with_progress,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_input_required_result_elicitation,
        test_input_required_result_request_state,
        test_input_required_result_multi_round,
        test_input_required_result_tampered_state,
    ];
    let tools = tools.into_iter().chain(by_hand());
    let png = base64::engine::general_purpose::STANDARD.encode(PNG);
    let service = McpService::new(tools).beside(Beside { png }).name("conformance", "1.0");
    // The suite plays a page of this very server.
    let service = service.allow_origin(format!("http://{address}"));
    served::over_http(service, address).await?;
    Ok(ExitCode::SUCCESS)
}
