//! The options of one run: its state values, permissions, approver and tools, and the form of its answer.

use std::sync::Arc;

use super::steering::Steering;
use crate::{Agent, output::spec::OutputSpec, subagent::host::SubagentHost};
use harness_core::{
    error::Error,
    policy::{Approver, Permissions},
    provider::Settings,
    tool::{ConcurrencyLimit, SharedValues, ToolRegistry},
};

/// The options of a run. None of them is written to the journal.
#[derive(Default)]
pub(crate) struct RunOptions {
    pub(crate) values: SharedValues,
    pub(crate) settings: Option<Settings>,
    pub(crate) permissions: Option<Arc<Permissions>>,
    /// The approver of this run, with the name of the person.
    pub(crate) approver: Option<(String, Arc<dyn Approver>)>,
    /// The tools that are offered. `None` if all tools of the agent are offered.
    pub(crate) tools: Option<Arc<ToolRegistry>>,
    /// The messages that the program adds while the run goes on.
    pub(crate) steering: Option<Steering>,
    /// The messages that `Chats` adds while the run goes on.
    pub(crate) handed_on: Option<Steering>,
    /// The required form of the answer. `None` if the run accepts any text.
    pub(crate) output_spec: Option<OutputSpec>,
    /// The error with which the run fails before it begins.
    pub(crate) fault: Option<Error>,
    /// The call of another agent's run that has started this run.
    pub(crate) caller: Option<Arc<SubagentHost>>,
    /// The concurrency limits that already count the call which started this run.
    pub(crate) places: Vec<ConcurrencyLimit>,
    /// Whether the call that has started this run can later continue the conversation of this run.
    pub(crate) is_kept: bool,
}

impl RunOptions {
    /// Sets which of the agent's tools are offered. If a name is unknown, the run will fail.
    pub(crate) fn offer(&mut self, agent: &Agent, names: &[String]) {
        match agent.tools().only(names) {
            Ok(tools) => {
                self.tools = Some(Arc::new(tools));
                self.fault = None;
            }
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// The permissions that apply in addition to the agent's permissions.
    pub(crate) fn sides(&self) -> Vec<&Arc<Permissions>> {
        let mut sides: Vec<_> = self.permissions.iter().collect();
        if let Some(caller) = &self.caller {
            sides.extend(&caller.rules().permissions);
        }
        sides
    }

    /// All sources of messages that are added while the run goes on.
    pub(crate) fn steering(&self) -> impl Iterator<Item = &Steering> {
        self.steering.iter().chain(&self.handed_on)
    }
}

/// The tools of one run. A clone is cheap.
#[derive(Clone)]
pub(crate) struct RunTools {
    pub(crate) agent: Agent,
    pub(crate) only: Option<Arc<ToolRegistry>>,
}

impl RunTools {
    pub(crate) fn tools(&self) -> &ToolRegistry {
        self.only.as_deref().unwrap_or_else(|| self.agent.tools())
    }
}

/// The tools that are offered in a run with these options.
pub(crate) fn offered<'a>(agent: &'a Agent, options: Option<&'a RunOptions>) -> &'a ToolRegistry {
    options.and_then(|options| options.tools.as_deref()).unwrap_or_else(|| agent.tools())
}
