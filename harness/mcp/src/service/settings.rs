//! The settings of a service.

use std::{fmt, sync::Arc, time::Duration};

use rmcp::{ServerHandler, model::Implementation};
use tokio::sync::Semaphore;

use super::{
    service_handler::{NoHandler, ServiceHandler, ServiceState},
    tool_descriptions::described,
    tool_questions::StateSeal,
};
use harness_core::{
    error::Error,
    secret::Secrets,
    tool::{SharedValues, Tool, ToolLimits, ToolList, ToolRegistry},
};

/// The default maximum number of concurrent calls.
const AT_ONCE: usize = 32;

/// The default maximum size of a request, in bytes.
const REQUEST: usize = 4 << 20;

/// The default maximum size of a result, in bytes.
const RESULT: usize = 16 << 20;

/// The default time limit for a person's answer while a call waits.
const ASKING: Duration = Duration::from_secs(5 * 60);

/// How long a call continues while its client is disconnected, by default. Most clients reconnect within seconds.
const RESUMING: Duration = Duration::from_secs(30);

/// Serves the program's tools to MCP clients over the Model Context Protocol: over standard input and output, over
/// streamable HTTP, or over any pair of pipes. Feature `mcp-server`. To use the tools of a server, see `McpServer`
/// (feature `mcp`).
///
/// ```no_run
/// use harness::{mcp::McpService, tool, tools};
///
/// /// Adds two numbers.
/// #[tool(side_effects = "none")]
/// fn add(/** One */ a: i64, /** Another */ b: i64) -> i64 {
///     a + b
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// McpService::new(tools![add]).name("sums", "1.0").serve_stdio().await?;
/// # Ok(())
/// # }
/// ```
///
/// The limits apply to all clients of the service together. A clone is a separate service and shares nothing with the
/// original.
#[derive(Clone)]
pub struct McpService<H = NoHandler> {
    pub(super) settings: ServiceSettings,
    beside: H,
}

#[derive(Clone)]
pub(super) struct ServiceSettings {
    tools: Vec<Tool>,
    info: Option<Implementation>,
    instructions: Option<String>,
    values: SharedValues,
    secrets: Secrets,
    limits: ToolLimits,
    at_once: usize,
    pub(super) request: usize,
    result: usize,
    asking: Duration,
    pub(super) resuming: Duration,
    key: Option<[u8; 32]>,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
}

impl McpService {
    /// Creates a service of these tools. Faults of the tools are reported when the service starts.
    pub fn new(tools: impl ToolList) -> Self {
        let settings = ServiceSettings {
            tools: tools.into_tools().collect(),
            info: None,
            instructions: None,
            values: SharedValues::default(),
            secrets: Secrets::default(),
            // Each request runs its tool at most once.
            limits: ToolLimits::default().tries(1),
            at_once: AT_ONCE,
            request: REQUEST,
            result: RESULT,
            asking: ASKING,
            resuming: RESUMING,
            key: None,
            hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into(),
            origins: Vec::new(),
        };
        Self { settings, beside: NoHandler }
    }

    /// Adds a handler of the program for the rest of the protocol, such as prompts and resources. Clients see the
    /// capabilities that the handler declares, together with the tools. The handler's own tools are listed after the
    /// tools of this service. If two tools have the same name, this service's tool is called. The start of a session is
    /// not passed to the handler.
    pub fn beside<H: ServerHandler>(self, handler: H) -> McpService<H> {
        McpService { settings: self.settings, beside: handler }
    }
}

impl<H: ServerHandler> McpService<H> {
    /// Sets the name and the version that clients see. Default: `harness` and its version.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.settings.info = Some(Implementation::new(name, version));
        self
    }

    /// Sets instructions for clients on how to use the tools together. Many clients pass these instructions to their
    /// model.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.settings.instructions = Some(text.into());
        self
    }

    /// Adds a value for tools that take [`State<T>`](harness_core::tool::State), in place of an earlier value of the
    /// same type.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.settings.values.insert(Arc::new(value));
        self
    }

    /// Adds a secret, such as a key of the program. The service removes the secret from results, errors and progress
    /// reports.
    #[must_use]
    pub fn secret(mut self, value: impl AsRef<str>) -> Self {
        self.settings.secrets = self.settings.secrets.with(value);
        self
    }

    /// Sets the limits of each call. Default: [`ToolLimits`] with one attempt. With more attempts, one request may run
    /// a tool again after a transient error, if the tool's declaration allows repetition.
    #[must_use]
    pub fn limits(mut self, limits: ToolLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Sets the maximum number of concurrent calls of all clients together. Default: 32. Further calls do not run.
    /// Their results ask the client to try again later.
    #[must_use]
    pub fn at_once(mut self, calls: usize) -> Self {
        self.settings.at_once = calls;
        self
    }

    /// Sets the maximum size of a request, in bytes. Default: 4 MiB. A larger request gets status 413 over HTTP, and an
    /// error over pipes.
    #[must_use]
    pub fn request_bytes(mut self, bytes: usize) -> Self {
        self.settings.request = bytes;
        self
    }

    /// Sets the maximum size of a result, in bytes, with files counted as base64. Default: 16 MiB. A larger result is
    /// replaced by a text which says that the tool ran and that its result is too large.
    #[must_use]
    pub fn result_bytes(mut self, bytes: usize) -> Self {
        self.settings.result = bytes;
        self
    }

    /// Sets how long a call in a session waits for a person's answer. Default: five minutes. In version 2026-07-28 of
    /// the protocol no call waits, because the client answers in a second call.
    #[must_use]
    pub fn asking_time(mut self, time: Duration) -> Self {
        self.settings.asking = time;
        self
    }

    /// Sets how long a call in a session over HTTP continues while its client is disconnected. Default: 30 seconds. A
    /// client of version 2025-11-25 may reconnect with `Last-Event-ID`. If the client does not reconnect in this time,
    /// its call is cancelled and frees the slot. Clients are asked to reconnect after three seconds, so a shorter time
    /// loses answers. The service also keeps each answer for this time. After that, the client gets status 410. Without
    /// a session (2026-07-28), a call is cancelled when its connection is closed.
    ///
    /// Sources: <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>, "Sending Messages to the
    /// Server" and "Resumability and Redelivery".
    #[must_use]
    pub fn resuming_time(mut self, time: Duration) -> Self {
        self.settings.resuming = time;
        self
    }

    /// Sets the key that seals the state of a question. The client stores this state, and sends it back with the answer
    /// in its second call. The client can neither read nor change the state. Default: a random key for each start. Set
    /// the same random bytes for several processes that serve the same clients, and for a process that has to continue
    /// its questions after a restart.
    #[must_use]
    pub fn asking_key(mut self, key: [u8; 32]) -> Self {
        self.settings.key = Some(key);
        self
    }

    /// Adds a host, such as `mcp.example.com` or `mcp.example.com:8443`, by which clients reach the service over HTTP.
    /// Default: only `localhost`, `127.0.0.1` and `::1`. If all hosts were allowed, a web page could reach a service on
    /// the user's machine through a host name that resolves to this machine.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.settings.hosts.push(host.into());
        self
    }

    /// Adds an origin, such as `https://app.example.com:443` or `http://localhost:*`, whose pages may use the service
    /// over HTTP. Default: none. Clients that are no browsers send no origin and are accepted.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.settings.origins.push(origin.into());
        self
    }

    /// Checks the settings and creates the handler.
    pub(super) fn serving(self) -> Result<ServiceHandler<H>, Error> {
        let Self { settings, beside } = self;
        let refused = |why: String| Error::new(harness_core::error::ErrorKind::Configuration, why);
        let registry = ToolRegistry::new(settings.tools)?;
        registry.check()?;
        registry.check_state(&settings.values, |_| false)?;
        if let Some(external) = registry.tools().iter().find(|tool| tool.is_external()) {
            return Err(refused(format!(
                "the tool `{}` cannot be served: its calls wait for a result that the program gives to a \
                 conversation, and here is none; make it with `#[tool]` or `Tool::new`",
                external.name()
            )));
        }
        if settings.at_once == 0 || settings.at_once > Semaphore::MAX_PERMITS {
            return Err(refused("no call could ever run: `at_once` must be 1 or more".to_owned()));
        }
        let mut info = beside.get_info();
        info.capabilities.tools.get_or_insert_default();
        if let Some(own) = settings.info {
            info.server_info = own;
        }
        info.instructions = settings.instructions.or(info.instructions);
        let tools = registry.tools().iter().map(described).collect();
        Ok(ServiceHandler(Arc::new(ServiceState {
            registry: registry.with_limits(settings.limits).with_secrets(settings.secrets),
            tools,
            values: settings.values,
            calls: Semaphore::new(settings.at_once),
            at_once: settings.at_once,
            result: settings.result,
            asking: settings.asking,
            resuming: settings.resuming,
            seal: StateSeal::new(settings.key)?,
            info,
            beside,
        })))
    }
}

impl<H> fmt::Debug for McpService<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpService").field("tools", &self.settings.tools).finish_non_exhaustive()
    }
}
