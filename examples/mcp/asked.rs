//! The client for the conformance suite, which names a scenario by `MCP_CONFORMANCE_SCENARIO`, a version of the
//! protocol by `MCP_CONFORMANCE_PROTOCOL_VERSION` and further data by `MCP_CONFORMANCE_CONTEXT`.

use std::{env, io, io::Write as _};

use anyhow::Context as _;
use harness::{
    Error, ErrorKind, Tool, ToolContext,
    mcp::{McpAuth, McpElicitation, McpElicitationAnswer, McpServer, McpServerBuilder, McpVersion},
};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The document that describes the client, with the address that the suite expects. It is never fetched.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Connects and calls the tools that the scenario names, or each tool once.
pub(crate) async fn client(url: &str) -> anyhow::Result<()> {
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let context: Value =
        serde_json::from_str(&context).context("MCP_CONFORMANCE_CONTEXT is no JSON")?;
    let server = server(url, &context)?.connect().await?;
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
        let context = ToolContext::new(format!("call_{number}"));
        let mut said = tool.call(&context, arguments.clone()).await;
        // Repeats a call that did not run and may be made again, as a model would.
        for _ in 0..2 {
            if !said.as_ref().is_err_and(|err| err.to_string().contains("may be made again")) {
                break;
            }
            said = tool.call(&context, arguments.clone()).await;
        }
        match said {
            Ok(output) => writeln!(io::stdout(), "{}: {:?}", tool.name(), output.content())?,
            Err(err) => writeln!(io::stdout(), "{} failed: {err}", tool.name())?,
        }
    }
    server.close().await;
    Ok(())
}

fn server(url: &str, context: &Value) -> anyhow::Result<McpServerBuilder> {
    let server = McpServer::url(url).name("c").on_elicitation(|form| {
        let filled = defaults(&form);
        Box::pin(async move { McpElicitationAnswer::Accept(filled) })
    });
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let server = match scenario.starts_with("auth/") {
        true => server.oauth(auth(&scenario, context)),
        false => server,
    };
    Ok(match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").as_deref() {
        Ok("2026-07-28") => server.version(McpVersion::V2026_07_28),
        _ => server,
    })
}

/// The authorization of the program, with a user who agrees to everything.
fn auth(scenario: &str, context: &Value) -> McpAuth {
    let mut auth = McpAuth::new().metadata(DOCUMENT).on_page(|page| {
        Box::pin(async move {
            let visit = async {
                let back = location(&page.url).await?;
                visited(&back).await.map(drop)
            };
            visit.await.map_err(|err: anyhow::Error| {
                Error::new(ErrorKind::Connect, format!("the page cannot be visited: {err}"))
            })
        })
    });
    if let Some(id) = context["client_id"].as_str() {
        auth = auth.client(id);
    }
    if let Some(secret) = context["client_secret"].as_str() {
        auth = auth.secret(secret);
    }
    if let Some(issuer) = context["issuer"].as_str() {
        auth = auth.issuer(issuer);
    }
    match scenario.starts_with("auth/client-credentials") {
        true => auth.without_person(),
        false => auth,
    }
}

/// The address to which the page redirects.
async fn location(page: &str) -> anyhow::Result<String> {
    let answer = visited(page).await?;
    let line = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then_some(value.trim())
    });
    Ok(line.context("the page leads nowhere")?.to_owned())
}

/// The response at an address of this machine, as a browser would read it.
async fn visited(address: &str) -> anyhow::Result<String> {
    let rest = address.strip_prefix("http://").context("no address of this machine")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// One call of the context.
fn named(server: &McpServer, call: &Value) -> anyhow::Result<(Tool, Value)> {
    let name = call["name"].as_str().context("a call in the context without a name")?;
    let tool = server.only([name])?.remove(0);
    Ok((tool, call["arguments"].clone()))
}

/// The values that the form proposes.
fn defaults(form: &McpElicitation) -> Map<String, Value> {
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

/// Arguments that fit a schema: only the required ones.
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
