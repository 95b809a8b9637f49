//! The settings of a connection to a server.

use std::{fmt, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use super::{
    McpElicitation, McpElicitationAnswer, McpServer, McpVersion,
    effects::EffectsTrust,
    elicitation::OnElicitation,
    process::ServerCommand,
    server::ToolSettings,
    server_connection::{ServerConnection, ServerEndpoint},
    tool_name,
};
use harness_core::{
    error::{Error, ErrorKind},
    tool::SideEffects,
};

/// A server that is not connected yet: see [`McpServer::command`] and [`McpServer::url`].
#[must_use = "nothing is started before `connect`"]
pub struct McpServerBuilder {
    endpoint: ServerEndpoint,
    name: String,
    trust: EffectsTrust,
    time_limit: Option<Duration>,
    on_elicitation: Option<Arc<OnElicitation>>,
    version: Option<McpVersion>,
    #[cfg(feature = "oauth")]
    auth: Option<super::McpAuth>,
    /// The error message for a setting that does not fit the kind of server, such as a header for a command.
    fault: Option<String>,
}

impl fmt::Debug for McpServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerBuilder")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

impl McpServerBuilder {
    pub(super) fn at(endpoint: ServerEndpoint) -> Self {
        let name = "mcp".to_owned();
        let trust = EffectsTrust::default();
        Self {
            endpoint,
            name,
            trust,
            time_limit: None,
            on_elicitation: None,
            version: None,
            #[cfg(feature = "oauth")]
            auth: None,
            fault: None,
        }
    }

    fn command(&mut self, what: &str) -> Option<&mut ServerCommand> {
        match &mut self.endpoint {
            ServerEndpoint::Command(command) => Some(command),
            ServerEndpoint::Address(_) => {
                self.fault = Some(format!(
                    "`{what}` is for a server that is a command, and this one is an address"
                ));
                None
            }
        }
    }

    /// The name of the server, as set by [`name`](Self::name).
    pub fn server_name(&self) -> &str {
        &self.name
    }

    /// Sets the prefix of the names of the server's tools: the tool `read` of the server `files` is called
    /// `files__read`. The name has at most 32 characters of `A-Z`, `a-z`, `0-9`, `_` and `-`, contains no `__` and does
    /// not end with `_`. Default: `mcp`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a variable to the environment of the process. From the program's own environment, the process gets only
    /// `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER`. Errors never show the value.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Some(command) = self.command("env") {
            command.variables.insert(name.into(), value.into());
        }
        self
    }

    /// Sets the folder in which the process starts. Default: the program's current folder.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        if let Some(command) = self.command("folder") {
            command.folder = Some(folder.into());
        }
        self
    }

    /// Adds a header to each request. Errors never show the value.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        match &mut self.endpoint {
            ServerEndpoint::Address(address) => address.headers.push((name.into(), value.into())),
            ServerEndpoint::Command(_) => {
                let fault =
                    "`header` is for a server that is an address, and this one is a command";
                self.fault = Some(fault.to_owned());
            }
        }
        self
    }

    /// Sets how the program obtains a token if the server requires authorization. `connect` then waits until the person
    /// has agreed. A call also waits if the authorization has ended.
    #[cfg(feature = "oauth")]
    pub fn oauth(mut self, auth: super::McpAuth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Creates the authorization from the settings. Called by `connect`, when the name and the URL are known.
    #[cfg(feature = "oauth")]
    fn authorization(&mut self) -> Result<(), Error> {
        let Some(auth) = self.auth.take() else { return Ok(()) };
        let wrong = |why| Error::new(ErrorKind::Configuration, why);
        let ServerEndpoint::Address(address) = &mut self.endpoint else {
            return Err(wrong(
                "`oauth` is for a server that is an address, and this one is a command",
            ));
        };
        if address.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            return Err(wrong(
                "the header `authorization` is set, and `oauth` sets it, too: leave one out",
            ));
        }
        let made = super::oauth::Authorization::new(auth, &self.name, &address.url)?;
        address.authorization = Some(Arc::new(made));
        Ok(())
    }

    /// Trusts the server's hints about its tools (`readOnlyHint` and the other
    /// [annotations](https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations)): a tool that the
    /// server calls read-only may then run without an approval. Default: hints are ignored, and every tool is assumed
    /// to have all side effects.
    pub fn trust_hints(mut self) -> Self {
        self.trust.hints = true;
        self
    }

    /// Sets the side effects of one tool. The server's hints about this tool are ignored. `tool` is the server's own
    /// name for the tool. `effects` is one [`SideEffect`](harness_core::tool::SideEffect), an array of them, or
    /// [`SideEffects`].
    ///
    /// ```
    /// use harness::{SideEffect, mcp::McpServer};
    ///
    /// let server = McpServer::command("files", ["--stdio"])
    ///     .effects("read_file", SideEffect::Read)
    ///     .effects("fetch", [SideEffect::Read, SideEffect::Network]);
    /// # let _ = server;
    /// ```
    pub fn effects(mut self, tool: impl Into<String>, effects: impl Into<SideEffects>) -> Self {
        self.trust.tools.insert(tool.into(), effects.into());
        self
    }

    /// Sets the time limit of each call, in place of the agent's limit.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Sets the version of the protocol. Default: the connection begins with `initialize` of 2025-11-25, because nearly
    /// all servers answer this request at once. If the server refuses that version, the connection tries 2026-07-28 and
    /// keeps the accepted version for later sessions. In the opposite order, the connection would wait for a timeout if
    /// the server ignores unknown methods.
    ///
    /// ```
    /// use harness::mcp::{McpServer, McpVersion};
    ///
    /// let server = McpServer::url("https://mcp.example.com/mcp").version(McpVersion::V2026_07_28);
    /// # let _ = server;
    /// ```
    pub fn version(mut self, version: McpVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets a function that passes questions of the server to a person while a call runs (elicitation). Without a
    /// function, the client tells the server that it cannot ask a person. The time that the person takes counts toward
    /// the time limit of the call. The person gets one question of this server at a time, and at most eight questions
    /// for each call. Further questions are declined. A question is also declined if no call of the server's tools
    /// runs. In version 2025-11-25, a question does not name its call, so the question is counted for one of the
    /// running calls. If no call runs any more, an open question is cancelled.
    ///
    /// ```
    /// use harness::mcp::{McpElicitationAnswer, McpServer};
    ///
    /// let server = McpServer::command("orders", ["--stdio"]).on_elicitation(|form| {
    ///     Box::pin(async move {
    ///         println!("{} asks: {}", form.server, form.message);
    ///         McpElicitationAnswer::Decline
    ///     })
    /// });
    /// # let _ = server;
    /// ```
    pub fn on_elicitation(
        mut self,
        ask: impl Fn(McpElicitation) -> Pin<Box<dyn Future<Output = McpElicitationAnswer> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.on_elicitation = Some(Arc::new(ask));
        self
    }

    /// Shows the server's forms to the person at the terminal of this program, with
    /// [`TerminalForm`](harness_terminal::TerminalForm). If there is no terminal, each question is cancelled. Replaces
    /// [`on_elicitation`](Self::on_elicitation).
    ///
    /// ```no_run
    /// use harness::{mcp::McpServer, policy::TerminalForm};
    ///
    /// let server =
    ///     McpServer::command("orders", ["--stdio"]).form_at_terminal(TerminalForm::default());
    /// # let _ = server;
    /// ```
    #[cfg(all(unix, feature = "terminal"))]
    pub fn form_at_terminal(self, terminal: harness_terminal::TerminalForm) -> Self {
        use harness_terminal::Filled;

        self.on_elicitation(move |form| {
            let terminal = terminal.clone();
            Box::pin(async move {
                match terminal.fill(&form.server, &form.message, &form.schema).await {
                    Ok(Filled::Accepted(values)) => McpElicitationAnswer::Accept(values),
                    Ok(Filled::Declined) => McpElicitationAnswer::Decline,
                    Ok(Filled::Cancelled) | Err(_) => McpElicitationAnswer::Cancel,
                }
            })
        })
    }

    /// Starts the server's process, or connects to its URL, and lists the server's tools.
    ///
    /// # Errors
    /// Fails if a setting is not valid, if the server does not begin a session within 30 seconds or does not list its
    /// tools within 30 more seconds, if a required authorization cannot be obtained, and if [`effects`](Self::effects)
    /// names a tool that the server does not have. The error shows the last lines of the process's standard error, at
    /// most twenty.
    #[cfg_attr(
        not(feature = "oauth"),
        allow(unused_mut, reason = "only the authorization is added")
    )]
    pub async fn connect(mut self) -> Result<McpServer, Error> {
        #[cfg(feature = "oauth")]
        if let Err(err) = self.authorization() {
            let name = self.name.escape_debug();
            return Err(Error::new(err.kind(), format!("the MCP server `{name}`: {err}")));
        }
        let wrong = |why: String| {
            let name = self.name.escape_debug();
            Error::new(ErrorKind::Configuration, format!("the MCP server `{name}`: {why}"))
        };
        if let Some(why) = tool_name::fault(&self.name) {
            return Err(wrong(format!("the name cannot be used: {why}")));
        }
        if let Some(fault) = self.fault {
            return Err(wrong(fault));
        }
        let connection = Arc::new(ServerConnection::new(
            self.name,
            self.endpoint,
            self.on_elicitation,
            self.version,
        ));
        let listing = connection.begin().await?;
        McpServer::of(
            connection,
            ToolSettings { trust: self.trust, time_limit: self.time_limit },
            listing,
        )
    }
}
