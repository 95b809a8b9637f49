//! The registry of an agent's tools.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use harness_schema::{SchemaCache, ToolSchema, misspelt};
use serde_json::{Map, Value};

use super::{
    Review, SharedValues, StateType, Tool, ToolLimits,
    large_results::{READ_RESULT, read_result},
    search::{FEW_TOOLS, TOOL_SEARCH, ToolIndex, tool_search},
};
use crate::{
    error::{Error, ErrorKind},
    message::Arguments,
    secret::Secrets,
};

/// A list of tools, such as `tools![..]`, or the `tools()` of a toolset. Do not implement this trait: every iterator of
/// [`Tool`]s already implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of tools",
    label = "not a list of tools",
    note = "a function with `#[tool]` is listed by its name: `tools![add]`; the methods of a toolset are listed by `value.tools()`; one `Tool` is `[tool]`",
    note = "an agent is listed as a tool by `[agent.as_tool(\"review\", \"Reviews code.\")]`, the tools of an MCP server by `server.tools()`"
)]
pub trait ToolList {
    /// The tools, in their order.
    fn into_tools(self) -> impl Iterator<Item = Tool>;
}

#[diagnostic::do_not_recommend]
impl<I: IntoIterator<Item = Tool>> ToolList for I {
    fn into_tools(self) -> impl Iterator<Item = Tool> {
        self.into_iter()
    }
}

/// All tools of an agent, with unique names, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct ToolRegistry {
    tools: Arc<Vec<Tool>>,
    schemas: OnceLock<Vec<ToolSchema>>,
    forms: SchemaCache,
    limits: ToolLimits,
    secrets: Secrets,
    /// The names of tools that exist but are not offered now.
    left_out: Vec<String>,
    /// Whether large results are kept, so that `read_result` is one of the tools.
    reads_results: bool,
    /// The tools that the model has to search for; `None` if the model gets all tools at once.
    searched: Option<Arc<ToolIndex>>,
}

impl ToolRegistry {
    /// Creates a registry of these tools.
    ///
    /// # Errors
    /// Fails if two tools have the same name, or if a tool is not valid: see [`Self::add`].
    pub fn new(tools: impl ToolList) -> Result<Self, Error> {
        let mut registry = Self::default();
        for tool in tools.into_tools() {
            registry.add(tool)?;
        }
        Ok(registry)
    }

    /// Sets the limits of every call.
    #[must_use]
    pub fn with_limits(mut self, limits: ToolLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the secrets that are removed from every result.
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Adds the tool `read_result`, which reads large results.
    #[doc(hidden)]
    pub fn reading_results(mut self) -> Result<Self, Error> {
        self.add(read_result())?;
        self.reads_results = true;
        Ok(self)
    }

    /// Adds a search tool for the tools with these names. The model gets these tools only after a search has found
    /// them.
    #[doc(hidden)]
    pub fn searching(mut self, names: &HashSet<String>) -> Result<Self, Error> {
        let index = ToolIndex::of(self.tools.iter().filter(|tool| names.contains(tool.name())));
        let index = Arc::new(index);
        self.add(tool_search(Arc::clone(&index)))?;
        self.searched = Some(index);
        Ok(self)
    }

    /// Whether the model gets this tool only after a search has found it.
    #[doc(hidden)]
    pub fn is_searched(&self, name: &str) -> bool {
        self.searched().is_some_and(|names| names.contains(name))
    }

    /// The name of the search tool; `None` if no tool has to be searched for.
    #[doc(hidden)]
    pub fn search(&self) -> Option<&'static str> {
        self.searched.as_ref().map(|_| TOOL_SEARCH)
    }

    /// The names of the tools that the model has to search for; `None` if the model gets all tools at once.
    #[doc(hidden)]
    pub fn searched(&self) -> Option<&HashSet<String>> {
        self.searched.as_deref().map(ToolIndex::names)
    }

    /// Whether the library itself has added this tool.
    #[doc(hidden)]
    pub fn is_built_in(&self, name: &str) -> bool {
        self.reads_results && name == READ_RESULT || self.searched.is_some() && name == TOOL_SEARCH
    }

    /// The names of the tools that a search with these arguments finds.
    #[doc(hidden)]
    pub fn find(&self, arguments: Map<String, Value>) -> Vec<String> {
        let Some(index) = &self.searched else { return Vec::new() };
        // Decode the arguments as for a call of the search tool.
        let arguments = self.get(TOOL_SEARCH).and_then(|search| search.as_read(arguments));
        arguments.map(|arguments| index.find(&arguments)).unwrap_or_default()
    }

    /// The secrets that are removed from results and errors.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The review of a call with these arguments, without known secrets: see [`Tool::review_off_loop`].
    pub async fn review_off_loop(&self, tool: &Tool, arguments: &Arguments) -> Option<Review> {
        let review = tool.review_off_loop(arguments).await?;
        Some(review.without_secrets(&self.secrets))
    }

    /// Creates a registry with only this tool, and with the limits and the secrets of `self`.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    #[doc(hidden)]
    pub fn with_only(&self, tool: Tool) -> Result<Self, Error> {
        let (limits, secrets) = (self.limits.clone(), self.secrets.clone());
        let mut only = Self { limits, secrets, ..Self::default() };
        only.add(tool)?;
        Ok(only)
    }

    /// Creates a registry with only these tools of `self`, in the same order. The other tools are not offered.
    ///
    /// # Errors
    /// Fails if names are unknown; the error lists all unknown names. Also fails if the names include the search tool,
    /// but no tool to search for.
    #[doc(hidden)]
    pub fn only(&self, names: &[String]) -> Result<Self, Error> {
        let unknown = names.iter().filter(|name| self.get(name).is_none());
        let unknown: Vec<String> = unknown.map(|name| self.unknown(name)).collect();
        if !unknown.is_empty() {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "`only_tools` names tools that the agent does not have: {}",
                    unknown.join("; ")
                ),
            ));
        }
        // `read_result` is always offered, so that the model can read the rest of cut results. The search tool is
        // replaced by a search tool for the offered tools.
        let searches = |tool: &&Tool| self.searched.is_some() && tool.name() == TOOL_SEARCH;
        let offered = |tool: &&Tool| {
            self.is_built_in(tool.name()) || names.iter().any(|name| name == tool.name())
        };
        let all = self.tools.iter().filter(|tool| !searches(tool));
        let (offered, others): (Vec<&Tool>, Vec<&Tool>) = all.partition(offered);
        let deferred = offered.iter().filter(|tool| self.is_searched(tool.name()));
        let deferred: HashSet<String> = deferred.map(|tool| tool.name().to_owned()).collect();
        let wants_search = self.searched.is_some() && names.iter().any(|name| name == TOOL_SEARCH);
        if wants_search && deferred.is_empty() {
            let why = format!(
                "`only_tools` names `{TOOL_SEARCH}`, but none of the other tools that it names has to be searched for: \
                 leave it out, or name tools that it can find"
            );
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        let only = Self {
            tools: Arc::new(offered.into_iter().cloned().collect()),
            schemas: OnceLock::new(),
            forms: SchemaCache::default(),
            limits: self.limits.clone(),
            secrets: self.secrets.clone(),
            left_out: others.into_iter().map(|tool| tool.name().to_owned()).collect(),
            reads_results: self.reads_results,
            searched: None,
        };
        // A few tools need no search: the model gets them at once, unless the names include the search tool.
        let are_few = deferred.len() <= FEW_TOOLS && !wants_search;
        if are_few { Ok(only) } else { only.searching(&deferred) }
    }

    /// The name of a tool that is similar to this unknown name. If a tool runs an agent, the agent's tools are
    /// searched, too.
    pub(crate) fn misspelt(&self, name: &str) -> Option<&str> {
        let names = || self.tools.iter().flat_map(Tool::names);
        if names().any(|known| known == name) || self.is_left_out(name) {
            return None;
        }
        misspelt(name, names())
    }

    /// Whether a tool of this name exists but is not offered now.
    pub(super) fn is_left_out(&self, name: &str) -> bool {
        self.left_out.iter().any(|left_out| left_out == name)
    }

    /// The limits of every call.
    pub fn limits(&self) -> &ToolLimits {
        &self.limits
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// Fails and changes nothing if a tool of this name already exists. For a tool that was not created by `#[tool]`,
    /// this method also fails if vendors do not accept the name, if the schema does not describe an object, or if the
    /// schema cannot be checked. A schema cannot be checked if it refers to another document, or endlessly to itself.
    pub fn add(&mut self, tool: Tool) -> Result<(), Error> {
        if let Some(other) = self.get(tool.name()) {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "two tools are both named `{}`: one is described as {:?}, the other as {:?}; give one \
                     of them another name, {}",
                    tool.name(),
                    first_line(other.description()),
                    first_line(tool.description()),
                    tool.how_to_name(),
                ),
            ));
        }
        if let Some(problem) = tool.problem() {
            return Err(Error::new(ErrorKind::Configuration, problem));
        }
        // The cached schemas are outdated.
        self.schemas.take();
        self.forms = SchemaCache::default();
        Arc::make_mut(&mut self.tools).push(tool);
        Ok(())
    }

    /// Checks what the compiler cannot check in functions with `#[tool]`. Defaults must fit their parameters (the
    /// compiler has checked only literals). Ranges that constants define must not be empty. The keys of maps in
    /// parameter types must be representable as strings. Each tool is checked once in a program. The check also creates
    /// the schema of the tool. Building an agent calls this method.
    ///
    /// # Errors
    /// Fails with the first fault.
    pub fn check(&self) -> Result<(), Error> {
        match self.tools.iter().find_map(Tool::late_problem) {
            Some(problem) => Err(Error::new(ErrorKind::Configuration, problem)),
            None => Ok(()),
        }
    }

    /// Checks that the values that the tools take as [`State<T>`](super::State) are available. For each value, either
    /// the agent has the value, or the program has announced that each run sets its own value.
    ///
    /// # Errors
    /// Fails with all missing values.
    pub fn check_state(
        &self,
        given: &SharedValues,
        later: impl Fn(&StateType) -> bool,
    ) -> Result<(), Error> {
        let mut missing: Vec<String> = Vec::new();
        for tool in &*self.tools {
            for needed in tool.state_types() {
                if given.has(needed.id()) || later(&needed) {
                    continue;
                }
                let (tool, ty) = (tool.name(), needed.name());
                let near = match given.has(needed.shared_id()) {
                    true => format!(
                        " An `Arc` of it is given, which is another type: take \
                         `State<Arc<{ty}>>`, or give the value itself."
                    ),
                    false => String::new(),
                };
                let text =
                    format!("the tool `{tool}` takes `State<{ty}>`, which is not given.{near}");
                if !missing.contains(&text) {
                    missing.push(text);
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let help = "Give the value to all runs with `AgentBuilder::state(..)`, or announce with \
                    `AgentBuilder::state_per_run::<T>()` that each run brings its own";
        Err(Error::new(ErrorKind::Configuration, format!("{} {help}", missing.join(" "))))
    }

    /// The tool of this name; `None` for an unknown name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// All tools, in the order in which they were added.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// All tools, shared with the contexts of calls.
    pub(super) fn shared(&self) -> &Arc<Vec<Tool>> {
        &self.tools
    }

    /// The names, descriptions and schemas that the first request already contains, in the order of the tools. Tools
    /// that have to be [searched](super::ToolSearch) for are not included.
    pub fn schemas(&self) -> &[ToolSchema] {
        let told = || self.tools.iter().filter(|tool| !self.is_searched(tool.name()));
        self.schemas.get_or_init(|| told().map(|tool| tool.schema().clone()).collect())
    }

    /// The encoded forms of the schemas, cached from one request to the next.
    #[doc(hidden)]
    pub fn forms(&self) -> &SchemaCache {
        &self.forms
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
