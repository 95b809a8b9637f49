//! A connected server and its tools.

use std::{collections::HashSet, sync::Arc, time::Duration};

use harness_schema::SchemaChecker;

use super::{
    McpServerBuilder,
    call::RemoteTool,
    effects::EffectsTrust,
    http::ServerAddress,
    process::ServerCommand,
    server_connection::{ServerConnection, ServerEndpoint},
    tool_list::{ListedTool, ToolListing},
    tool_name,
};
use harness_core::{
    error::{Error, ErrorKind},
    tool::{Tool, ToolRegistry},
};

/// A connected MCP server, whose tools the program uses. Feature `mcp`. The connection ends when this value and all
/// tools of the server are dropped, or by [`close`](Self::close). To serve the program's own tools, use `McpService`
/// (feature `mcp-server`).
///
/// [`command`](Self::command) and [`url`](Self::url) describe a server, and
/// [`connect`](McpServerBuilder::connect) starts it or connects to it:
///
/// ```no_run
/// use harness::{Agent, SideEffect, mcp::McpServer, testing::{ScriptedProvider, reply}};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let files = McpServer::command("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."])
///     .name("files")
///     .effects("read_text_file", SideEffect::Read)
///     .connect()
///     .await?;
/// let model = ScriptedProvider::new([reply().text("Hello.")]);
/// let agent = Agent::builder(model).tools(files.tools()).build()?;
/// # Ok(())
/// # }
/// ```
///
/// If the process or the session is lost, the next call starts a new session, at most five times in a row without an
/// answer. If the new session defines a tool differently, a call of this tool fails, and its error asks the program to
/// [`reload`](Self::reload).
#[derive(Clone, Debug)]
pub struct McpServer {
    pub(super) connection: Arc<ServerConnection>,
    sight: ToolSettings,
    /// Whether the server declares resources, and whether it declares prompts.
    pub(super) has_resources: bool,
    pub(super) has_prompts: bool,
    /// The tools, each with the name that the server uses.
    tools: Vec<(String, Tool)>,
    left_out: Vec<String>,
}

/// The maximum total size of the compiled patterns of a server's tools, in KiB. Further patterns are not compiled.
const PATTERNS: usize = 64 * 1024;

/// The program's settings for a server's tools.
#[derive(Clone, Debug)]
pub(super) struct ToolSettings {
    pub(super) trust: EffectsTrust,
    pub(super) time_limit: Option<Duration>,
}

impl McpServer {
    /// Describes a server that is a program, used over its standard input and output. The process leads a new process
    /// group, and the whole group ends with the connection.
    ///
    /// ```
    /// use harness::mcp::McpServer;
    ///
    /// let files = McpServer::command("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."]);
    /// // An empty list of arguments needs a type.
    /// let plain = McpServer::command("my-server", [""; 0]);
    /// # let _ = (files, plain);
    /// ```
    pub fn command<A: Into<String>>(
        program: impl Into<String>,
        arguments: impl IntoIterator<Item = A>,
    ) -> McpServerBuilder {
        McpServerBuilder::at(ServerEndpoint::Command(ServerCommand {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: Default::default(),
            folder: None,
        }))
    }

    /// Describes a server at a URL, used over streamable HTTP. Redirects are not followed.
    pub fn url(url: impl Into<String>) -> McpServerBuilder {
        McpServerBuilder::at(ServerEndpoint::Address(ServerAddress {
            url: url.into(),
            headers: Vec::new(),
            authorization: None,
        }))
    }

    pub(super) fn of(
        connection: Arc<ServerConnection>,
        sight: ToolSettings,
        listing: ToolListing,
    ) -> Result<Self, Error> {
        let ToolListing { tools: listed, mut left_out, resources, prompts, .. } = listing;
        if let Some(unknown) =
            sight.trust.tools.keys().find(|name| !listed.iter().any(|tool| tool.name == **name))
        {
            return Err(no_tool(
                &connection,
                unknown,
                listed.iter().map(|tool| tool.name.as_str()),
            ));
        }
        let (mut tools, mut names) = (Vec::new(), HashSet::new());
        let mut patterns = 0;
        for tool in listed {
            let remote = tool.name.clone();
            if patterns >= PATTERNS && tool.has_patterns() {
                left_out.push(format!(
                    "`{}`: it has a `pattern`, and those of the tools before it have together more than {PATTERNS} KiB",
                    remote.escape_debug()
                ));
                continue;
            }
            let (made, size) = make(&connection, &sight, tool);
            patterns += size;
            match ToolRegistry::new([made.clone()]) {
                Ok(_) if !names.insert(made.name().to_owned()) => left_out.push(format!(
                    "`{}`: another tool has the name `{}`, which it would have here",
                    remote.escape_debug(),
                    made.name()
                )),
                Ok(_) => tools.push((remote, made)),
                Err(err) => left_out.push(format!("`{}`: {err}", remote.escape_debug())),
            }
        }
        let (has_resources, has_prompts) = (resources, prompts);
        Ok(Self { connection, sight, has_resources, has_prompts, tools, left_out })
    }

    /// The program's name for the server.
    pub fn name(&self) -> &str {
        &self.connection.name
    }

    /// The server's tools, for an agent. Each name has the form `server__tool` and at most 64 characters, and is the
    /// same after each start.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.iter().map(|(_, tool)| tool.clone()).collect()
    }

    /// The tools with these names. The names are the server's own names for its tools.
    ///
    /// # Errors
    /// Fails if the server has no tool with one of the names.
    pub fn only<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Tool>, Error> {
        let find = |name: &str| {
            let found = self.tools.iter().find(|(own, _)| own == name);
            let there = self.tools.iter().map(|(own, _)| own.as_str());
            found
                .map(|(_, tool)| tool.clone())
                .ok_or_else(|| no_tool(&self.connection, name, there))
        };
        names.into_iter().map(find).collect()
    }

    /// The listed tools that cannot be used: one line for each, with the reason.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether the tools have changed since the program last listed them. Either the server has announced the change,
    /// or the library has found the change before a call or after a new start. Stays `true` until
    /// [`reload`](Self::reload) succeeds.
    pub fn has_changed(&self) -> bool {
        self.connection.has_changed()
    }

    /// Lists the tools again, over the same connection. Make a new agent with the returned tools. Calls of earlier
    /// tools fail if the server now defines these tools differently.
    ///
    /// # Errors
    /// Fails for the same reasons as [`connect`](McpServerBuilder::connect).
    pub async fn reload(&self) -> Result<Self, Error> {
        let listing = self.connection.list().await?;
        // If the new tools cannot be used, the program still has the old tools, so `has_changed` must stay true.
        Self::of(Arc::clone(&self.connection), self.sight.clone(), listing)
            .inspect_err(|_| self.connection.tell_of_change())
    }

    /// Ends the connection for all tools. A server at a URL has two seconds to end the session. A process has two
    /// seconds to end after its input was closed, and two more after `SIGTERM`; then the process group is killed. A
    /// process that is just being started for a call is killed at once. If a token is being requested, `close` waits
    /// for the request, at most 40 seconds.
    pub async fn close(&self) {
        self.connection.close().await;
    }
}

fn no_tool<'a>(
    connection: &ServerConnection,
    name: &str,
    there: impl Iterator<Item = &'a str>,
) -> Error {
    let there: Vec<String> =
        there.take(20).map(|name| format!("`{}`", name.escape_debug())).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    connection.error(
        ErrorKind::Configuration,
        format!("has no tool `{}`; it has {there}", name.escape_debug()),
    )
}

/// Makes a tool, and returns it with the size of its compiled patterns in KiB.
fn make(
    connection: &Arc<ServerConnection>,
    sight: &ToolSettings,
    tool: ListedTool,
) -> (Tool, usize) {
    let (effects, idempotent) = sight.trust.of(&tool.name, tool.annotations.as_ref());
    let name = tool_name::of(&connection.name, &tool.name);
    // An invalid output schema is ignored, because no call needs it.
    let output = tool.output.and_then(|schema| Some((SchemaChecker::new(&schema).ok()?, schema)));
    let (checker, schema) = output.unzip();
    let size = checker.as_ref().map_or(0, SchemaChecker::pattern_size);
    let remote = RemoteTool {
        connection: Arc::clone(connection),
        name: tool.name,
        definition: tool.definition,
        output: checker.map(Arc::new),
    };
    let remote = Arc::new(remote);
    let definition = remote.definition.clone();
    let mut made =
        Tool::new(name, tool.description, tool.schema, effects, move |context, arguments| {
            let remote = Arc::clone(&remote);
            Box::pin(async move { remote.call(&context, arguments).await })
        })
        .with_definition(&definition)
        .with_plain_title(tool.title);
    if let Some(schema) = schema {
        made = made.with_output_schema(schema);
    }
    if idempotent {
        made = made.idempotent();
    }
    if let Some(limit) = sight.time_limit {
        made = made.with_time_limit(limit);
    }
    let size = size + made.pattern_size();
    (made, size)
}
