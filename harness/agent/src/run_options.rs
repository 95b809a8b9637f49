//! The options of one run: the user's values, its permissions, its tools, and the
//! form of its answer.

use std::sync::Arc;

use super::{Agent, Chat, Steering, answer_check::OutputSpec, subagent::SubagentHost};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Fact, Sources},
    policy::{Approver, Permissions},
    provider::{Settings, ToolChoice},
    tool::{ConcurrencyLimit, SharedValues, ToolRegistry},
};

/// The options of a run. None of them is written to the journal.
#[derive(Default)]
pub(super) struct RunOptions {
    pub(super) values: SharedValues,
    pub(super) settings: Option<Settings>,
    pub(super) permissions: Option<Arc<Permissions>>,
    /// Who approves calls, with the name that tells this person from others.
    pub(super) approver: Option<(String, Arc<dyn Approver>)>,
    /// The tools that are offered, if not all are.
    pub(super) tools: Option<Arc<ToolRegistry>>,
    /// Passes on what the user says while the run goes on.
    pub(super) steering: Option<Steering>,
    /// Passes on what a manager of conversations receives while the run goes on.
    pub(super) handed_on: Option<Steering>,
    /// What the program wants of the answer, if that is more than text.
    pub(super) output_spec: Option<OutputSpec>,
    /// Why the run cannot begin.
    pub(super) fault: Option<Error>,
    /// The call of another agent's run that has started this run.
    pub(super) caller: Option<Arc<SubagentHost>>,
    /// Places that are held by a call that this run is part of.
    pub(super) places: Vec<ConcurrencyLimit>,
    /// Whether that call can later continue the conversation where this run leaves it.
    pub(super) is_kept: bool,
}

/// What a run passes on to the agents of its calls for the decisions about their calls.
pub(super) struct CallerRules {
    /// The permissions that apply in the run, those of the runs above it among them.
    pub(super) permissions: Vec<Arc<Permissions>>,
    /// What its conversation has read.
    pub(super) read: Sources,
}

impl RunOptions {
    /// Sets which of the agent's tools are offered.
    pub(super) fn offer(&mut self, agent: &Agent, names: &[String]) {
        match agent.tools().only(names) {
            Ok(tools) => {
                self.tools = Some(Arc::new(tools));
                self.fault = None;
            }
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// The permissions that apply in addition to those of the agent.
    pub(super) fn sides(&self) -> impl Iterator<Item = &Arc<Permissions>> + Clone {
        let above = self.caller.as_ref().map(|caller| caller.rules().permissions.as_slice());
        self.permissions.iter().chain(above.unwrap_or_default())
    }

    /// Everything that passes on what is said while the run goes on.
    pub(super) fn steering(&self) -> impl Iterator<Item = &Steering> {
        self.steering.iter().chain(&self.handed_on)
    }
}

impl Chat {
    /// Sets the options of the current run.
    pub(super) fn set_options(&mut self, options: Option<Box<RunOptions>>) {
        if options.as_ref().is_some_and(|options| options.tools.is_some()) {
            // Other tools may have the same address as those of an earlier run.
            self.prefix = None;
        }
        self.options = options;
        // The run may offer other tools and ask for another length, and an earlier one may have been dropped.
        (self.offered_tools, self.reduced_max_tokens) = (None, None);
        self.report_sources_to_caller();
    }

    /// Tells the call that this run is part of what the conversation has read.
    pub(super) fn report_sources_to_caller(&self) {
        if let Some(caller) = self.options.as_ref().and_then(|options| options.caller.as_ref()) {
            caller.add_sources(self.taint.sources());
        }
    }

    /// Records what the call that gives this run its task may know: the task may repeat it.
    pub(super) fn record_sources_of_caller(&mut self) -> Result<(), Error> {
        let Some(caller) = self.options.as_ref().and_then(|options| options.caller.as_ref()) else {
            return Ok(());
        };
        let sources = caller.known_sources().beyond(self.taint.sources()).all().to_vec();
        match sources.is_empty() {
            true => Ok(()),
            false => self.record(&Fact::SourcesRead { call: None, sources }),
        }
    }

    /// The tools that the model gets in this run, and that can run in it.
    pub(super) fn tools(&self) -> &ToolRegistry {
        offered(&self.agent, self.options.as_deref())
    }

    /// The same tools, in a value that can be kept.
    pub(super) fn offered(&self) -> RunTools {
        let only = self.options.as_ref().and_then(|options| options.tools.clone());
        RunTools { agent: self.agent.clone(), only }
    }

    /// Fails if the run cannot begin with its options.
    pub(super) fn check_options(&mut self) -> Result<(), Error> {
        if let Some(fault) = self.options.as_mut().and_then(|options| options.fault.take()) {
            return Err(fault);
        }
        if let Some(permissions) =
            self.options.as_ref().and_then(|options| options.permissions.as_ref())
        {
            permissions.check_names(self.agent.tools())?;
        }
        let settings = self.options.as_ref().and_then(|options| options.settings.as_ref());
        if let Some(ToolChoice::Tool(name)) = settings.and_then(|it| it.tool_choice.as_ref())
            && self.tools().is_searched(name)
            && !self.machine.found().iter().any(|found| found.tools.contains(name))
        {
            let why = format!(
                "`Settings::tool_choice` names `{name}`, which the model gets only after it has searched for it; \
                 name it in `ToolSearch::always`, or offer it by `only_tools`"
            );
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        self.guard.budget().check()?;
        let brought = self.options.as_ref().map(|options| &options.values);
        let given = [brought, self.values.as_ref()];
        self.agent.check_state(|id| given.iter().flatten().any(|values| values.has(id)))
    }

    /// Whether a call that is denied ends the run.
    pub(super) fn must_stop_on_denial(&self) -> bool {
        let sides = self.options.iter().flat_map(|options| options.sides());
        std::iter::once(self.agent.permissions()).chain(sides).any(|it| it.stops_on_denial())
    }
}

/// The tools of one run. A clone is cheap.
#[derive(Clone)]
pub(super) struct RunTools {
    agent: Agent,
    only: Option<Arc<ToolRegistry>>,
}

impl RunTools {
    pub(super) fn tools(&self) -> &ToolRegistry {
        self.only.as_deref().unwrap_or_else(|| self.agent.tools())
    }
}

/// The tools that are offered in a run with these options.
pub(super) fn offered<'a>(agent: &'a Agent, options: Option<&'a RunOptions>) -> &'a ToolRegistry {
    options.and_then(|options| options.tools.as_deref()).unwrap_or_else(|| agent.tools())
}
