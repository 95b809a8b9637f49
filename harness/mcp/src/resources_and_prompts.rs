//! The resources and prompts of a server.

use std::{collections::HashSet, time::Duration};

use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{
    McpServer,
    content::{self, PARTS},
    server_connection::ServerConnection,
    tool_list::{self, failure_reason, kind},
};
use harness_core::{
    error::{Error, ErrorKind},
    message::{Block, Message, Role, ToolContent},
};

/// The time limit for reading one resource or prompt.
const TIME: Duration = Duration::from_secs(60);

/// The maximum length of a URI or a name, and (`DESCRIPTION`) of a description, in bytes.
const NAME: usize = 8 << 10;
const DESCRIPTION: usize = 16 << 10;

/// An entry in a server's list of resources. A resource is content that the server offers for reading: see
/// [`McpServer::resources`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpResource {
    /// The URI of the resource, or the URI template.
    pub uri: String,
    /// Whether [`uri`](Self::uri) is a template for many URIs, such as `db://row/{id}`. Replace its variables as
    /// described in [RFC 6570](https://www.rfc-editor.org/rfc/rfc6570).
    pub is_template: bool,
    /// The name of the resource.
    pub name: String,
    /// The title to show to people instead of the name.
    pub title: Option<String>,
    /// The server's description of the resource.
    pub description: Option<String>,
    /// The media type of the content.
    pub mime: Option<String>,
}

/// An entry in a server's list of prompts. The server makes one or several messages from a prompt: see
/// [`McpServer::prompts`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpPrompt {
    /// The name of the prompt.
    pub name: String,
    /// The title to show to people instead of the name.
    pub title: Option<String>,
    /// The server's description of the prompt's purpose.
    pub description: Option<String>,
    /// The arguments that the prompt accepts.
    pub arguments: Vec<McpArgument>,
}

/// An argument of a [`McpPrompt`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpArgument {
    /// The name of the argument.
    pub name: String,
    /// The server's description of the argument.
    pub description: Option<String>,
    /// Whether the argument is required.
    pub required: bool,
}

impl McpServer {
    /// Lists the resources of the server, followed by the templates. The list is empty if the server does not declare
    /// resources. Entries without a URI, and repeated entries, are left out. If the server repeats a page, no further
    /// pages are requested.
    ///
    /// # Errors
    /// Fails if the server cannot be reached or refuses the request, and if listing needs more than 30 seconds, 64
    /// pages or 2,048 entries of one kind.
    pub async fn resources(&self) -> Result<Vec<McpResource>, Error> {
        if !self.has_resources {
            return Ok(Vec::new());
        }
        resources(&self.connection).await
    }

    /// Reads the resource at this URI. Returns the parts that the server sends: text, pictures, audio and documents.
    ///
    /// ```no_run
    /// # async fn example(server: harness::mcp::McpServer) -> Result<(), harness::Error> {
    /// for resource in server.resources().await?.iter().filter(|resource| !resource.is_template) {
    ///     let parts = server.read_resource(&resource.uri).await?;
    ///     println!("{}: {} parts", resource.name, parts.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the server cannot be reached, refuses the request, or does not answer within 60 seconds.
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<ToolContent>, Error> {
        read_resource(&self.connection, uri).await
    }

    /// Lists the prompts of the server. The list is empty if the server does not declare prompts.
    ///
    /// # Errors
    /// Fails for the same reasons as [`resources`](Self::resources).
    pub async fn prompts(&self) -> Result<Vec<McpPrompt>, Error> {
        if !self.has_prompts {
            return Ok(Vec::new());
        }
        prompts(&self.connection).await
    }

    /// Lets the server make the messages of a prompt. The messages may contain any text, so show them to the user
    /// before you send them.
    ///
    /// ```no_run
    /// # async fn example(server: harness::mcp::McpServer) -> Result<(), harness::Error> {
    /// for message in server.prompt("review", [("file", "main.rs")]).await? {
    ///     println!("{}", message.text());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the server cannot be reached, refuses the request, or does not answer within 60 seconds.
    pub async fn prompt<N: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Vec<Message>, Error> {
        let arguments = arguments.into_iter();
        let arguments = arguments.map(|(name, value)| (name.into(), Value::String(value.into())));
        let said = prompt(&self.connection, name, arguments.collect()).await?;
        Ok(said.into_iter().map(|(role, part)| Message::new(role, [block(part)])).collect())
    }
}

/// Converts a part of a result into a block of a message.
fn block(part: ToolContent) -> Block {
    match part {
        ToolContent::Image(media) => Block::Image(media),
        ToolContent::Audio(media) => Block::Audio(media),
        ToolContent::Document(media) => Block::Document(media),
        words => Block::text(words.to_text().unwrap_or_default()),
    }
}

/// The member with this name, if it is a text with 1 to `most` bytes.
fn text(value: &Value, name: &str, most: usize) -> Option<String> {
    let text = value.get(name)?.as_str()?;
    (!text.is_empty() && text.len() <= most).then(|| text.to_owned())
}

fn members<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

pub(super) async fn resources(connection: &ServerConnection) -> Result<Vec<McpResource>, Error> {
    let session = connection.session().await?;
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut add = |page: &Value, key: &str, address: &str| {
        for resource in members(page, key) {
            let Some(uri) = text(resource, address, NAME) else { continue };
            if seen.insert(uri.clone()) {
                found.push(McpResource {
                    is_template: address != "uri",
                    name: text(resource, "name", NAME).unwrap_or_else(|| uri.clone()),
                    uri,
                    title: text(resource, "title", NAME),
                    description: text(resource, "description", DESCRIPTION),
                    mime: text(resource, "mimeType", NAME),
                });
            }
        }
        members(page, key).count()
    };
    let mut count = 0;
    let request = |params: PaginatedRequestParams| {
        ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params))
    };
    let read = tool_list::pages(&session, ("resources", "resources"), request, |page| {
        count += add(page, "resources", "uri");
        count
    });
    if let Err(failed) = read.await {
        return Err(connection.unread(&session, failed).await);
    }
    let mut count = 0;
    let request = |params: PaginatedRequestParams| {
        let request = ListResourceTemplatesRequest::with_param(params);
        ClientRequest::ListResourceTemplatesRequest(request)
    };
    let kind = ("templates of resources", "resourceTemplates");
    let read = tool_list::pages(&session, kind, request, |page| {
        count += add(page, "resourceTemplates", "uriTemplate");
        count
    });
    match read.await {
        // Many servers have no templates and do not know this request.
        Ok(_) | Err((ErrorKind::Protocol, _)) => Ok(found),
        Err(failed) => Err(connection.unread(&session, failed).await),
    }
}

pub(super) async fn prompts(connection: &ServerConnection) -> Result<Vec<McpPrompt>, Error> {
    let session = connection.session().await?;
    let (mut found, mut seen, mut count) = (Vec::new(), HashSet::new(), 0);
    let request = |params: PaginatedRequestParams| {
        ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params))
    };
    let read = tool_list::pages(&session, ("prompts", "prompts"), request, |page| {
        for prompt in members(page, "prompts") {
            let Some(name) = text(prompt, "name", NAME) else { continue };
            let arguments = members(prompt, "arguments").filter_map(|argument| {
                Some(McpArgument {
                    name: text(argument, "name", NAME)?,
                    description: text(argument, "description", DESCRIPTION),
                    required: argument.get("required") == Some(&Value::Bool(true)),
                })
            });
            if seen.insert(name.clone()) {
                found.push(McpPrompt {
                    name,
                    title: text(prompt, "title", NAME),
                    description: text(prompt, "description", DESCRIPTION),
                    arguments: arguments.take(PARTS).collect(),
                });
            }
        }
        count += members(page, "prompts").count();
        count
    });
    if let Err(failed) = read.await {
        return Err(connection.unread(&session, failed).await);
    }
    Ok(found)
}

/// Requests one resource or prompt.
async fn one(
    connection: &ServerConnection,
    what: &str,
    request: ClientRequest,
) -> Result<Value, Error> {
    let session = connection.session().await?;
    let failed = match timeout(TIME, session.ask(request)).await {
        Ok(Ok(answer)) => match tool_list::unfinished(&answer) {
            None => return Ok(answer),
            Some(kind) => (
                ErrorKind::Protocol,
                format!("did not hand over {what}: {}", tool_list::half(&kind)),
            ),
        },
        Ok(Err(err)) => (kind(&err), format!("did not hand over {what}: {}", failure_reason(&err))),
        Err(_) => {
            let why = format!("did not hand over {what} within {} s", TIME.as_secs());
            (ErrorKind::Timeout, why)
        }
    };
    Err(connection.unread(&session, failed).await)
}

pub(super) async fn read_resource(
    connection: &ServerConnection,
    uri: &str,
) -> Result<Vec<ToolContent>, Error> {
    let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
    let what = "the resource";
    let answer = one(connection, what, ClientRequest::ReadResourceRequest(request)).await?;
    if !answer.get("contents").is_some_and(Value::is_array) {
        return Err(
            connection.error(ErrorKind::Protocol, "answers without the contents of the resource")
        );
    }
    let contents = members(&answer, "contents");
    let mut parts: Vec<ToolContent> = contents.take(PARTS).map(content::resource).collect();
    let left_out = members(&answer, "contents").count().saturating_sub(PARTS);
    if left_out > 0 {
        parts.push(content::more(left_out));
    }
    Ok(parts)
}

pub(super) async fn prompt(
    connection: &ServerConnection,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<Vec<(Role, ToolContent)>, Error> {
    let params = GetPromptRequestParams::new(name).with_arguments(arguments);
    let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
    let answer = one(connection, "the prompt", request).await?;
    if !answer.get("messages").is_some_and(Value::is_array) {
        return Err(
            connection.error(ErrorKind::Protocol, "answers without the messages of the prompt")
        );
    }
    let messages = members(&answer, "messages").take(PARTS).map(|message| {
        let role = match message.get("role").and_then(Value::as_str) {
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        (role, content::part(message.get("content").unwrap_or(&Value::Null)))
    });
    Ok(messages.collect())
}
