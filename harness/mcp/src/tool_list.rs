//! Reads the list of a server's tools. A tool that cannot be used is left out, and the other tools are kept.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use rmcp::{
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams},
    service::ServiceError,
};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{
    memory,
    server_connection::sources,
    session::ClientSession,
    stdout_filter::{LOST, UNREAD, VALUES},
    tool_name,
};
use harness_core::{error::ErrorKind, message::count_values, secret::beginning};

/// The maximum number of pages and of tools of one server, and (`TIME`) the time limit for listing them.
const PAGES: usize = 64;
const TOOLS: usize = 2048;
const TIME: Duration = Duration::from_secs(30);

/// The maximum memory of all pages of a list, in bytes.
const MEMORY: usize = 64 << 20;

/// The maximum length of a name, a description and a schema, in bytes.
const NAME: usize = 256;
const DESCRIPTION: usize = 16 << 10;
const SCHEMA: usize = 256 << 10;

/// The maximum nesting depth of a schema.
const DEEPEST: usize = 64;

/// The tools that a server lists.
#[derive(Debug, Default)]
pub(super) struct ToolListing {
    pub(super) tools: Vec<ListedTool>,
    /// The tools that are left out, each with the reason.
    pub(super) left_out: Vec<String>,
    /// How long the list is valid; `None` if the server does not specify this.
    pub(super) fresh: Option<Duration>,
    /// Whether the server declares resources, and whether it declares prompts.
    pub(super) resources: bool,
    pub(super) prompts: bool,
}

/// One tool, as the server defines it.
#[derive(Clone, Debug)]
pub(super) struct ListedTool {
    pub(super) name: String,
    /// The title to show to people instead of the name.
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) schema: Value,
    /// The output schema; `None` if the tool has no output schema, or if the schema is too large.
    pub(super) output: Option<Value>,
    pub(super) annotations: Option<Value>,
    /// A hash of the tool's hints, and of everything that the model and people read about the tool. The order of
    /// members does not matter.
    pub(super) definition: String,
}

/// The output schema of a tool. A schema that is too large is ignored, because no call needs it.
fn output(schema: Option<&Value>) -> Option<Value> {
    let schema = schema.filter(|schema| schema.is_object())?;
    let is_large = depth(schema) > DEEPEST || schema.to_string().len() > SCHEMA;
    (!is_large).then(|| schema.clone())
}

impl ListedTool {
    /// Whether a schema of the tool contains a pattern.
    pub(super) fn has_patterns(&self) -> bool {
        has_patterns(&self.schema) || self.output.as_ref().is_some_and(has_patterns)
    }
}

fn has_patterns(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(has_patterns),
        Value::Object(members) => members.iter().any(|(name, value)| {
            matches!(name.as_str(), "pattern" | "patternProperties") || has_patterns(value)
        }),
        _ => false,
    }
}

impl ToolListing {
    pub(super) fn definitions(&self) -> BTreeMap<String, String> {
        let all = self.tools.iter();
        all.map(|tool| (tool.name.clone(), tool.definition.clone())).collect()
    }

    /// Adds the tools of one page.
    fn add(&mut self, page: &Value, seen: &mut HashSet<String>) {
        // Source: `ttlMs` of <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>.
        let fresh = page.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis);
        self.fresh = self.fresh.into_iter().chain(fresh).min();
        let tools = page.get("tools").and_then(Value::as_array);
        for tool in tools.into_iter().flatten() {
            match one(tool) {
                Ok(tool) if seen.insert(tool.name.clone()) => self.tools.push(tool),
                Ok(tool) => {
                    let name = tool.name.escape_debug();
                    self.left_out.push(format!("`{name}`: the name comes twice"));
                }
                Err(why) => self.left_out.push(why),
            }
        }
    }
}

/// Reads one tool. Fails with the reason if the tool cannot be used.
fn one(tool: &Value) -> Result<ListedTool, String> {
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() || name.len() > NAME {
        return Err(format!("a tool whose name is not of 1 to {NAME} bytes"));
    }
    let wrong = |why: String| Err(format!("`{}`: {why}", name.escape_debug()));
    let description = match tool.get("description") {
        None | Some(Value::Null) => tool.get("title").and_then(Value::as_str).unwrap_or_default(),
        Some(Value::String(text)) => text,
        Some(_) => return wrong("its description is not a text".to_owned()),
    };
    if description.len() > DESCRIPTION {
        return wrong(format!("its description has more than {DESCRIPTION} bytes"));
    }
    let mut schema = match tool.get("inputSchema") {
        Some(Value::Object(schema)) => schema.clone(),
        _ => return wrong("its `inputSchema` is not an object".to_owned()),
    };
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        Some(Value::Array(kinds)) if !kinds.contains(&json!("object")) => {
            return wrong("its `inputSchema` is not that of an object".to_owned());
        }
        None | Some(Value::Null | Value::Array(_)) => {
            _ = schema.insert("type".to_owned(), json!("object"));
        }
        Some(_) => return wrong("its `inputSchema` is not that of an object".to_owned()),
    }
    let schema = Value::Object(schema);
    let written = schema.to_string();
    if written.len() > SCHEMA || depth(&schema) > DEEPEST {
        return wrong(format!(
            "its `inputSchema` has more than {SCHEMA} bytes or {DEEPEST} levels"
        ));
    }
    let sorted = sorted(&schema).to_string();
    let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let hint = |name| tool.get("annotations").and_then(|hints| hints.get(name)?.as_bool());
    let hints = hints.map(|name| format!("{:?}", hint(name))).concat();
    let hinted = || tool.get("annotations").and_then(|hints| hints.get("title"));
    let title = tool.get("title").or_else(hinted).and_then(Value::as_str);
    let mut described = vec![name, description, &*sorted, &*hints];
    described.extend(title);
    Ok(ListedTool {
        definition: tool_name::hash(&described),
        name: name.to_owned(),
        title: title.map(str::to_owned),
        description: description.to_owned(),
        output: output(tool.get("outputSchema")),
        schema,
        annotations: tool.get("annotations").cloned(),
    })
}

/// The nesting depth of a value. A parsed message has at most 128 levels, so the recursion is bounded.
fn depth(value: &Value) -> usize {
    let deepest = |values: &mut dyn Iterator<Item = &Value>| values.map(depth).max().unwrap_or(0);
    match value {
        Value::Array(items) => 1 + deepest(&mut items.iter()),
        Value::Object(members) => 1 + deepest(&mut Map::values(members)),
        _ => 0,
    }
}

/// Sorts the members of objects by name, because some servers change the order of the members.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let members: BTreeMap<&String, Value> =
                members.iter().map(|(name, value)| (name, sorted(value))).collect();
            members.into_iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        _ => value.clone(),
    }
}

/// The members of a page of tools.
const PAGE: [&str; 6] = ["tools", "nextCursor", "ttlMs", "cacheScope", "resultType", "_meta"];

/// The answer to a request for tools, as one line, without unknown members. `None` if the answer has no unknown
/// members. With an unknown member, the protocol's own type would read the answer as the result of another request,
/// without the tools.
pub(super) fn plain(answer: &[u8]) -> Option<Vec<u8>> {
    if count_values(answer) > VALUES {
        return None;
    }
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    let page = answer.get_mut("result")?.as_object_mut()?;
    let members = page.len();
    page.retain(|name, _| PAGE.contains(&name.as_str()));
    let is_plain = page.len() == members || !page.contains_key("tools");
    (!is_plain).then(|| format!("{answer}\n").into_bytes())
}

/// Requests all pages of the list of tools.
pub(super) async fn read(session: &ClientSession) -> Result<ToolListing, (ErrorKind, String)> {
    let (mut listing, mut seen) = (ToolListing::default(), HashSet::new());
    (listing.resources, listing.prompts) = session.has_resources_and_prompts();
    session.take_listed();
    let request = |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
    let unread = pages(session, ("tools", "tools"), request, |page| {
        listing.add(page, &mut seen);
        listing.tools.len() + listing.left_out.len()
    })
    .await?;
    listing.left_out.extend(unread);
    // The tools are sorted by name, because a server may list them in another order after each start, and requests
    // would then miss the vendor's cache.
    listing.tools.sort_by(|one, other| one.name.cmp(&other.name));
    let is_known = |name: &String| {
        let shown = format!("`{}`:", name.escape_debug());
        seen.contains(name) || listing.left_out.iter().any(|why| why.starts_with(&shown))
    };
    let dropped: Vec<String> =
        session.take_listed().into_iter().filter(|name| !is_known(name)).collect();
    listing.left_out.extend(dropped.iter().map(|name| {
        let name = beginning(name, NAME);
        format!("`{}`: an `x-mcp-header` in its `inputSchema` is not valid", name.escape_debug())
    }));
    Ok(listing)
}

/// Requests all pages of a list. `what` is the list's name in messages, and `key` its name in answers. `add` takes a
/// page and returns the number of items so far. If reading stopped before the end of the list, the result contains the
/// reason.
pub(super) async fn pages(
    session: &ClientSession,
    (what, key): (&str, &str),
    request: impl Fn(PaginatedRequestParams) -> ClientRequest,
    add: impl FnMut(&Value) -> usize,
) -> Result<Option<String>, (ErrorKind, String)> {
    let why = format!("did not list its {what} within {} s", TIME.as_secs());
    let late = |_| (ErrorKind::Timeout, why);
    timeout(TIME, each_page(session, (what, key), request, add)).await.map_err(late)?
}

async fn each_page(
    session: &ClientSession,
    (what, key): (&str, &str),
    request: impl Fn(PaginatedRequestParams) -> ClientRequest,
    mut add: impl FnMut(&Value) -> usize,
) -> Result<Option<String>, (ErrorKind, String)> {
    let wrong = |why: String| Err((ErrorKind::Protocol, why));
    let (mut cursor, mut cursors) = (None::<String>, HashSet::new());
    let mut before = Value::Null;
    let mut memory = 0_usize;
    let same =
        || format!("further {what} were not read: the server lists the same page again and again");
    for _ in 0..PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor.take();
        let page = session.ask(request(params)).await;
        let mut page = page.map_err(|err| {
            (kind(&err), format!("did not list its {what}: {}", failure_reason(&err)))
        })?;
        if let Some(kind) = unfinished(&page) {
            return wrong(format!("did not list its {what}: {}", half(&kind)));
        }
        if !page.get(key).is_some_and(Value::is_array) {
            return wrong(format!("answers the request for its {what} without a list of {what}"));
        }
        memory = memory.saturating_add(memory::of(&page));
        if memory > MEMORY {
            return wrong(format!(
                "lists {what} that need more than {} MiB of memory",
                MEMORY >> 20
            ));
        }
        // Several empty pages in a row are no repetition.
        let repeats = page.get(key) == Some(&before);
        if repeats && before.as_array().is_some_and(|list| !list.is_empty()) {
            return Ok(Some(same()));
        }
        if add(&page) > TOOLS {
            return wrong(format!("lists more than {TOOLS} {what}"));
        }
        match page.get("nextCursor").and_then(Value::as_str) {
            // Some servers send an empty cursor instead of no cursor.
            None | Some("") => return Ok(None),
            Some(next) if !cursors.insert(next.to_owned()) => return Ok(Some(same())),
            Some(next) => cursor = Some(next.to_owned()),
        }
        before = page.get_mut(key).map(Value::take).unwrap_or_default();
    }
    wrong(format!("lists its {what} on more than {PAGES} pages"))
}

/// The type of an incomplete result, such as `input_required`; `None` for a complete result.
///
/// Source: `resultType` of <https://modelcontextprotocol.io/specification/2026-07-28/schema#result>. A missing type
/// means `complete`.
pub(super) fn unfinished(result: &Value) -> Option<String> {
    match result.get("resultType")? {
        Value::Null => None,
        Value::String(kind) if kind == "complete" => None,
        Value::String(kind) => Some(kind.clone()),
        kind => Some(kind.to_string()),
    }
}

/// The error for an incomplete result of a request that is no call.
pub(super) fn half(kind: &str) -> String {
    format!(
        "it has answered with a result of the type `{kind}`, which this program accepts only for calls"
    )
}

/// The kind of error for a failed request: the server has answered, or the connection is broken.
pub(super) fn kind(err: &ServiceError) -> ErrorKind {
    match err {
        ServiceError::McpError(_) => ErrorKind::Protocol,
        _ => ErrorKind::Connect,
    }
}

/// The reason why a request failed, as text for a person.
pub(super) fn failure_reason(err: &ServiceError) -> String {
    match err {
        ServiceError::McpError(err) if [UNREAD, LOST].contains(&err.code) => {
            err.message.to_string()
        }
        ServiceError::McpError(err) => format!("{} (code {})", err.message, err.code.0),
        ServiceError::TransportSend(err) => sources(&*err.error),
        ServiceError::TransportClosed => "the connection was closed".to_owned(),
        ServiceError::Timeout { .. } => "it took too long".to_owned(),
        _ => "it has answered with an unexpected message".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_tool_is_left_out_and_the_others_stay() {
        let page = json!({"tools": [
            {"name": "good", "inputSchema": {}},
            {"name": "bare"},
            {"name": "", "inputSchema": {}},
            {"name": "good", "inputSchema": {"type": "object"}},
            {"name": "wordy", "description": "x".repeat(DESCRIPTION + 1), "inputSchema": {}},
            {"name": "large", "inputSchema": {"description": "x".repeat(SCHEMA)}},
            {"name": "number", "description": 7, "inputSchema": {}},
            17,
        ]});
        let mut listing = ToolListing::default();
        listing.add(&page, &mut HashSet::new());
        let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["good"]);
        assert_eq!(listing.left_out.len(), 7, "{:?}", listing.left_out);
    }

    #[test]
    fn another_description_or_schema_is_another_definition() {
        let of = |tool: Value| one(&tool).expect("a tool").definition;
        let first = of(json!({"name": "a", "description": "x", "inputSchema": {}}));
        assert_eq!(first, of(json!({"name": "a", "description": "x", "inputSchema": {}})));
        assert_ne!(first, of(json!({"name": "a", "description": "y", "inputSchema": {}})));
        let other = json!({"name": "a", "description": "x", "inputSchema": {"properties": {}}});
        assert_ne!(first, of(other));
        // The title is shown to people in the approval request.
        let titled = json!({"name": "a", "title": "A", "description": "x", "inputSchema": {}});
        assert_ne!(first, of(titled));
    }

    #[test]
    fn an_output_schema_that_is_too_large_spoils_no_tool() {
        let of = |schema: Value| {
            one(&json!({"name": "a", "inputSchema": {}, "outputSchema": schema}))
                .expect("a tool")
                .output
        };
        assert!(of(json!({"type": "object"})).is_some());
        for bad in [json!(7), json!({"type": "number", "x": "y".repeat(SCHEMA)})] {
            assert!(of(bad).is_none());
        }
    }
}
