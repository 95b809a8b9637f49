//! What the conformance suite asks of a client: it names a scenario by `MCP_CONFORMANCE_SCENARIO`, a version of the
//! protocol by `MCP_CONFORMANCE_PROTOCOL_VERSION` and what else is to be known by `MCP_CONFORMANCE_CONTEXT`.

use std::{env, io, io::Write as _};

use anyhow::Context as _;
use harness::{
    Tool, ToolContext,
    mcp::{McpAnswer, McpForm, McpServer, McpServerBuilder, McpVersion},
};
use serde_json::{Map, Value, json};

/// Connects and calls what the scenario names, or each tool once.
pub(crate) async fn client(url: &str) -> anyhow::Result<()> {
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let context: Value =
        serde_json::from_str(&context).context("MCP_CONFORMANCE_CONTEXT is no JSON")?;
    let server = server(url)?.connect().await?;
    for line in server.left_out() {
        writeln!(io::stderr(), "left out: {line}")?;
    }
    let calls = match context["toolCalls"].as_array() {
        Some(calls) => calls.iter().map(|call| named(&server, call)).collect::<Result<_, _>>()?,
        None => {
            let each = |tool: Tool| {
                let arguments = example(tool.input_schema());
                (tool, arguments)
            };
            server.tools().into_iter().map(each).collect::<Vec<_>>()
        }
    };
    for (number, (tool, arguments)) in calls.into_iter().enumerate() {
        let said = tool.call(&ToolContext::new(format!("call_{number}")), arguments).await;
        match said {
            Ok(output) => writeln!(io::stdout(), "{}: {:?}", tool.name(), output.content())?,
            Err(err) => writeln!(io::stdout(), "{} failed: {err}", tool.name())?,
        }
    }
    server.close().await;
    Ok(())
}

fn server(url: &str) -> anyhow::Result<McpServerBuilder> {
    let server = McpServer::url(url).named("c").on_form(|form| {
        let filled = defaults(&form);
        Box::pin(async move { McpAnswer::Accept(filled) })
    });
    Ok(match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").as_deref() {
        Ok("2026-07-28") => server.version(McpVersion::V2026_07_28),
        _ => server,
    })
}

/// One call of the context.
fn named(server: &McpServer, call: &Value) -> anyhow::Result<(Tool, Value)> {
    let name = call["name"].as_str().context("a call in the context without a name")?;
    let tool = server.only([name])?.remove(0);
    Ok((tool, call["arguments"].clone()))
}

/// What the form itself proposes.
fn defaults(form: &McpForm) -> Map<String, Value> {
    let fields = form.schema["properties"].as_object().into_iter().flatten();
    let filled = fields.filter_map(|(name, field)| {
        let value = match (field.get("default"), field["type"].as_str()) {
            (Some(default), _) => default.clone(),
            (None, Some("boolean")) => json!(true),
            _ => return None,
        };
        Some((name.clone(), value))
    });
    filled.collect()
}

/// Arguments that a schema takes: what is required, and nothing else.
fn example(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let filled = required.map(|name| {
        let value = match schema["properties"][name]["type"].as_str() {
            Some("number" | "integer") => json!(1),
            Some("boolean") => json!(true),
            _ => json!("x"),
        };
        (name.to_owned(), value)
    });
    Value::Object(filled.collect())
}
