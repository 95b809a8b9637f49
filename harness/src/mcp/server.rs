//! A server that is connected, and its tools.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{
    McpServerBuilder,
    call::Remote,
    effects::Trust,
    http::Address,
    link::{Link, Place},
    list::{Listed, Listing},
    name,
    process::Command,
};
use crate::{
    error::{Error, ErrorKind},
    tool::{Tool, ToolRegistry},
};

/// A server of others that is connected, whose tools the program uses. Its tools keep the connection: it ends when this
/// value and all of them are gone, or by [`close`](Self::close). To serve the program's own tools is `McpService` (feature
/// `mcp-server`).
///
/// If the process or the session is lost, the next call starts it again, at most five times without an answer
/// in between. A tool that the server then describes differently is not called: it says that the program has
/// to [`reload`](Self::reload).
#[derive(Clone, Debug)]
pub struct McpServer {
    pub(super) link: Arc<Link>,
    sight: Sight,
    /// Whether the server says that it has resources, and prompts.
    pub(super) has_resources: bool,
    pub(super) has_prompts: bool,
    /// Each with the server's own name.
    tools: Vec<(String, Tool)>,
    left_out: Vec<String>,
}

/// How the program sees a server's tools.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) trust: Trust,
    pub(super) time_limit: Option<Duration>,
}

impl McpServer {
    /// A server that is a program, spoken to over its standard input and output. It leads a process group of its
    /// own, which ends with the connection.
    ///
    /// ```
    /// use harness::mcp::McpServer;
    ///
    /// let files = McpServer::command("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."]);
    /// // Without arguments the type of the empty list has to be said.
    /// let plain = McpServer::command("my-server", [""; 0]);
    /// # let _ = (files, plain);
    /// ```
    pub fn command<A: Into<String>>(
        program: impl Into<String>,
        arguments: impl IntoIterator<Item = A>,
    ) -> McpServerBuilder {
        McpServerBuilder::at(Place::Command(Command {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: Default::default(),
            folder: None,
        }))
    }

    /// A server at an address, spoken to over streamable HTTP. Redirects are not followed.
    pub fn url(url: impl Into<String>) -> McpServerBuilder {
        McpServerBuilder::at(Place::Address(Address {
            url: url.into(),
            headers: Vec::new(),
            authorization: None,
        }))
    }

    pub(super) fn of(link: Arc<Link>, sight: Sight, listing: Listing) -> Result<Self, Error> {
        let Listing { tools: listed, mut left_out, resources, prompts, .. } = listing;
        if let Some(unknown) =
            sight.trust.tools.keys().find(|name| !listed.iter().any(|tool| tool.name == **name))
        {
            return Err(no_tool(&link, unknown, listed.iter().map(|tool| tool.name.as_str())));
        }
        let (mut tools, mut names) = (Vec::new(), HashSet::new());
        for tool in listed {
            let remote = tool.name.clone();
            let made = make(&link, &sight, tool);
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
        Ok(Self { link, sight, has_resources, has_prompts, tools, left_out })
    }

    /// The name that the program has given to it.
    pub fn name(&self) -> &str {
        &self.link.name
    }

    /// Its tools, for an agent. Each has the name `server__tool`, of at most 64 characters and the same after
    /// each start.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.iter().map(|(_, tool)| tool.clone()).collect()
    }

    /// Those of its tools that have these names, the server's own.
    ///
    /// # Errors
    /// Fails if it has no tool of one of the names.
    pub fn only<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Tool>, Error> {
        let find = |name: &str| {
            let found = self.tools.iter().find(|(own, _)| own == name);
            let there = self.tools.iter().map(|(own, _)| own.as_str());
            found.map(|(_, tool)| tool.clone()).ok_or_else(|| no_tool(&self.link, name, there))
        };
        names.into_iter().map(find).collect()
    }

    /// Which of the tools that the server lists cannot be used, and why: one line for each.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether the server has said that its tools have changed since they were read, or it was seen before a call. It stays
    /// so until [`reload`](Self::reload) succeeds.
    pub fn has_changed(&self) -> bool {
        self.link.has_changed()
    }

    /// Reads the tools anew, over the same connection: make an agent of them. Tools that were read before and
    /// that the server now describes differently are not called any more.
    ///
    /// # Errors
    /// Fails as [`connect`](McpServerBuilder::connect) does.
    pub async fn reload(&self) -> Result<Self, Error> {
        let listing = self.link.list().await?;
        // What cannot be used has changed since it was read last, and the program still has the tools of then.
        Self::of(Arc::clone(&self.link), self.sight.clone(), listing)
            .inspect_err(|_| self.link.tell_of_change())
    }

    /// Ends the connection, also for the tools. A process is given two seconds to end after its input was closed
    /// and two more after `SIGTERM`; then its group is killed. A token that is asked for is waited for, for at most 40 seconds.
    pub async fn close(&self) {
        self.link.close().await;
    }
}

fn no_tool<'a>(link: &Link, name: &str, there: impl Iterator<Item = &'a str>) -> Error {
    let there: Vec<String> =
        there.take(20).map(|name| format!("`{}`", name.escape_debug())).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    link.error(
        ErrorKind::Configuration,
        format!("has no tool `{}`; it has {there}", name.escape_debug()),
    )
}

fn make(link: &Arc<Link>, sight: &Sight, tool: Listed) -> Tool {
    let (effects, idempotent) = sight.trust.of(&tool.name, tool.annotations.as_ref());
    let name = name::of(&link.name, &tool.name);
    let (schema, checker) = tool.output.map(|output| (output.schema, output.checker)).unzip();
    let remote = Remote {
        link: Arc::clone(link),
        name: tool.name,
        definition: tool.definition,
        output: checker,
    };
    let remote = Arc::new(remote);
    let definition = remote.definition.clone();
    let mut made =
        Tool::new(name, tool.description, tool.schema, effects, move |context, arguments| {
            let remote = Arc::clone(&remote);
            Box::pin(async move { remote.call(&context, arguments).await })
        })
        .defined_as(&definition)
        .titled(tool.title);
    if let Some(schema) = schema {
        made = made.with_output_schema(schema);
    }
    if idempotent {
        made = made.idempotent();
    }
    match sight.time_limit {
        Some(limit) => made.with_time_limit(limit),
        None => made,
    }
}
