//! Tools with which a model reads the resources and prompts of a server.

use std::{fmt::Write as _, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    McpServer,
    resources_and_prompts::{prompt, prompts, read_resource, resources},
    server_connection::ServerConnection,
    tool_name,
};
use harness_core::{
    error::Error,
    message::{Role, ToolContent},
    tool::{SideEffects, Tool, ToolContext, ToolError, ToolOutput},
};

impl McpServer {
    /// Creates two tools with which a model finds and reads the [resources](Self::resources): `server__list_resources`
    /// and `server__read_resource`. The program sets the side effects of both tools, because the library cannot know
    /// what a server does when a resource is read: for a server that only reads on this machine, use
    /// `SideEffects::of(&[SideEffect::Read])`. The list is empty if the server does not declare resources.
    pub fn resource_tools(&self, effects: impl Into<SideEffects>) -> Vec<Tool> {
        let effects = effects.into();
        if !self.has_resources {
            return Vec::new();
        }
        let server = &self.connection.name;
        let list = format!(
            "Lists what the server `{server}` lets others read: addresses, names and descriptions."
        );
        let words = json!({"search": {
            "type": "string", "description": "Only those that have this word, in any case"
        }});
        let read = format!(
            "Reads a resource of the server `{server}` by its address, as `{}` lists it.",
            tool_name::of(server, "list_resources")
        );
        let address = json!({"uri": {"type": "string", "description": "The address"}});
        vec![
            self.offer(
                "list_resources",
                list,
                &words,
                &[],
                effects,
                |connection, arguments| async move {
                    list_resources(&connection, &word(&arguments, "search")).await
                },
            ),
            self.offer(
                "read_resource",
                read,
                &address,
                &["uri"],
                effects,
                |connection, arguments| async move {
                    read_resource(&connection, &word(&arguments, "uri")).await.map(ToolOutput::from)
                },
            ),
        ]
    }

    /// Creates two tools with which a model finds and reads the [prompts](Self::prompts): `server__list_prompts` and
    /// `server__get_prompt`. The program sets the side effects of both tools, as for
    /// [`resource_tools`](Self::resource_tools). The list is empty if the server does not declare prompts.
    pub fn prompt_tools(&self, effects: impl Into<SideEffects>) -> Vec<Tool> {
        let effects = effects.into();
        if !self.has_prompts {
            return Vec::new();
        }
        let server = &self.connection.name;
        let list = format!(
            "Lists the prompts of the server `{server}`: instructions for tasks, with what is filled in."
        );
        let words = json!({"search": {
            "type": "string", "description": "Only those that have this word, in any case"
        }});
        let get = format!("Reads a prompt of the server `{server}`.");
        let filled = json!({
            "name": {"type": "string", "description": "The name of the prompt"},
            "arguments": {
                "type": "object", "description": "What is filled in, by its name",
                "additionalProperties": {"type": "string"},
            },
        });
        vec![
            self.offer(
                "list_prompts",
                list,
                &words,
                &[],
                effects,
                |connection, arguments| async move {
                    list_prompts(&connection, &word(&arguments, "search")).await
                },
            ),
            self.offer(
                "get_prompt",
                get,
                &filled,
                &["name"],
                effects,
                |connection, arguments| async move {
                    let filled = arguments.get("arguments").and_then(Value::as_object);
                    let filled = filled.cloned().unwrap_or_default();
                    let said = prompt(&connection, &word(&arguments, "name"), filled).await?;
                    let parts = said.into_iter().flat_map(|(role, part)| {
                        let who = match role {
                            Role::Assistant => "The assistant:",
                            _ => "The user:",
                        };
                        [who.into(), part]
                    });
                    Ok(parts.collect::<Vec<ToolContent>>().into())
                },
            ),
        ]
    }

    fn offer<F>(
        &self,
        tool: &str,
        description: String,
        properties: &Value,
        required: &[&str],
        effects: SideEffects,
        run: impl Fn(Arc<ServerConnection>, Map<String, Value>) -> F + Send + Sync + 'static,
    ) -> Tool
    where
        F: Future<Output = Result<ToolOutput, Error>> + Send + 'static,
    {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let connection = Arc::clone(&self.connection);
        let run = move |context: ToolContext, arguments: Map<String, Value>| {
            let asked = run(Arc::clone(&connection), arguments);
            let running = async move {
                tokio::select! {
                    answer = asked => answer.map_err(|err| ToolError::new(err.to_string())),
                    () = context.cancellation().cancelled() => {
                        Err(ToolError::new("the call was stopped before the server has answered"))
                    }
                }
            };
            Box::pin(running) as harness_core::tool::ToolFuture
        };
        Tool::new(tool_name::of(&self.connection.name, tool), description, schema, effects, run)
    }
}

fn word(arguments: &Map<String, Value>, name: &str) -> String {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Whether one of these texts contains the word, without regard to case.
fn has(word: &str, texts: &[Option<&str>]) -> bool {
    let word = word.trim().to_lowercase();
    word.is_empty() || texts.iter().flatten().any(|text| text.to_lowercase().contains(&word))
}

async fn list_resources(connection: &ServerConnection, search: &str) -> Result<ToolOutput, Error> {
    let all = resources(connection).await?;
    let mut lines = String::new();
    for it in &all {
        let (title, description) = (it.title.as_deref(), it.description.as_deref());
        if !has(search, &[Some(&it.uri), Some(&it.name), title, description]) {
            continue;
        }
        let template = if it.is_template { " (a template: fill in what is in braces)" } else { "" };
        let mime = it.mime.as_deref().map(|mime| format!(", {mime}")).unwrap_or_default();
        let _ = write!(lines, "{}{template}: {}{mime}", it.uri, title.unwrap_or(&it.name));
        let _ = match description {
            Some(description) => writeln!(lines, ". {description}"),
            None => writeln!(lines),
        };
    }
    Ok(found(lines, all.len(), "resources"))
}

async fn list_prompts(connection: &ServerConnection, search: &str) -> Result<ToolOutput, Error> {
    let all = prompts(connection).await?;
    let mut lines = String::new();
    for it in &all {
        let (title, description) = (it.title.as_deref(), it.description.as_deref());
        if !has(search, &[Some(&it.name), title, description]) {
            continue;
        }
        let arguments = it.arguments.iter().map(|argument| match argument.required {
            true => format!("`{}` (required)", argument.name),
            false => format!("`{}`", argument.name),
        });
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let words = description.or(title).unwrap_or_default();
        let _ = writeln!(lines, "{}: {words} Arguments: [{arguments}]", it.name);
    }
    Ok(found(lines, all.len(), "prompts"))
}

fn found(lines: String, all: usize, what: &str) -> ToolOutput {
    match (lines.is_empty(), all) {
        (true, 0) => format!("The server has no {what}.").into(),
        (true, _) => format!("None of the {all} {what} has this word.").into(),
        _ => lines.into(),
    }
}
