//! What one run brings besides its message: the user's values, its permissions, its tools, and the
//! form of its answer.

use std::{collections::HashSet, sync::Arc};

use super::{Agent, Chat, Steering, accept::Wants, caller::CallSite};
use crate::{
    error::{Error, ErrorKind},
    journal::Fact,
    message::{CallOutcome, Message, Transcript},
    policy::{Approver, Exposed, Exposure, Permissions},
    provider::{Settings, ToolChoice},
    tool::{Places, SideEffects, Tool, ToolRegistry, Values},
};

/// What a run brings. None of it is written to the journal.
#[derive(Default)]
pub(super) struct Circumstances {
    pub(super) values: Values,
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
    pub(super) wants: Option<Wants>,
    /// Why the run cannot begin.
    pub(super) fault: Option<Error>,
    /// What the conversation has read, as judged by the run's own permissions: private data and
    /// untrusted content.
    pub(super) exposed: Exposed,
    /// The call of another agent's run that has started this run.
    pub(super) caller: Option<Arc<CallSite>>,
    /// Places that are held by a call that this run is part of.
    pub(super) places: Vec<Places>,
    /// Whether that call can later continue the conversation where this run leaves it.
    pub(super) is_kept: bool,
    /// The permissions of the agents and runs above this run, and what each of them has counted as
    /// read.
    above: Vec<(Arc<Permissions>, Exposed)>,
}

impl Circumstances {
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
    pub(super) fn sides(&self) -> impl Iterator<Item = (&Arc<Permissions>, Exposure)> + Clone {
        let own = self.permissions.as_ref().map(|own| (own, self.exposed.exposure()));
        let above = self.above.iter();
        own.into_iter().chain(above.map(|(above, exposed)| (above, exposed.exposure())))
    }

    /// Everything that passes on what is said while the run goes on.
    pub(super) fn steering(&self) -> impl Iterator<Item = &Steering> {
        self.steering.iter().chain(&self.handed_on)
    }

    /// Applies a fact to what was read.
    pub(super) fn fold(&mut self, fact: &Fact) {
        let own = self.permissions.as_ref().map(|own| (own, &mut self.exposed));
        let above = self.above.iter_mut().map(|(above, exposed)| (&*above, exposed));
        for (permissions, exposed) in own.into_iter().chain(above) {
            if let Some(egress) = permissions.egress_policy() {
                exposed.apply(egress, fact);
            }
        }
    }

    /// Counts what was read before the run, for permissions with an egress policy. What the tools
    /// declared at that time is not stored, so their present declarations count. A tool that is
    /// gone counts as having every side effect.
    fn looks_back(&mut self, agent: &Agent, before: &Transcript) {
        let own = self.permissions.as_ref().map(|own| (own, &mut self.exposed));
        let above = self.above.iter_mut().map(|(above, exposed)| (&*above, exposed));
        for (permissions, exposed) in own.into_iter().chain(above) {
            looks_back(permissions, exposed, agent, before);
        }
    }
}

fn looks_back(
    permissions: &Permissions,
    exposed: &mut Exposed,
    agent: &Agent,
    before: &Transcript,
) {
    let Some(egress) = permissions.egress_policy() else { return };
    let results = before.messages().iter().flat_map(Message::results);
    let unread = results
        .filter(|result| matches!(result.outcome(), CallOutcome::Denied | CallOutcome::NotStarted));
    let unread: HashSet<&str> = unread.map(|result| result.call_id()).collect();
    let calls = before.messages().iter().flat_map(Message::calls);
    for call in calls.filter(|call| !unread.contains(call.id())) {
        let effects = agent.tools().get(call.name()).map(Tool::side_effects);
        exposed.add(egress, call.name(), effects.unwrap_or(SideEffects::ALL));
    }
}

impl Chat {
    /// Sets what the current run has brought.
    pub(super) fn brings(&mut self, own: Option<Box<Circumstances>>) {
        self.own = own;
        // The run may offer other tools and ask for another length, and an earlier one may have been dropped.
        (self.told, self.lowered) = (None, None);
        let Self { own, agent, machine, .. } = self;
        if let Some(own) = own {
            let rules = own.caller.as_ref().map(|caller| caller.rules()).unwrap_or_default();
            own.above =
                rules.iter().map(|(it, read)| (Arc::clone(it), Exposed::of(*read))).collect();
            own.looks_back(agent, machine.transcript());
        }
    }

    /// The tools that the model gets in this run, and that can run in it.
    pub(super) fn tools(&self) -> &ToolRegistry {
        offered(&self.agent, self.own.as_deref())
    }

    /// The same tools, in a value that can be kept.
    pub(super) fn offered(&self) -> Offered {
        let only = self.own.as_ref().and_then(|own| own.tools.clone());
        Offered { agent: self.agent.clone(), only }
    }

    /// Fails if the run cannot begin with what it brings.
    pub(super) fn check_circumstances(&mut self) -> Result<(), Error> {
        if let Some(fault) = self.own.as_mut().and_then(|own| own.fault.take()) {
            return Err(fault);
        }
        if let Some(permissions) = self.own.as_ref().and_then(|own| own.permissions.as_ref()) {
            permissions.check_names(self.agent.tools())?;
        }
        let settings = self.own.as_ref().and_then(|own| own.settings.as_ref());
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
        let brought = self.own.as_ref().map(|own| &own.values);
        let given = [brought, self.values.as_ref()];
        self.agent.check_state(|id| given.iter().flatten().any(|values| values.has(id)))
    }

    /// Whether a call that is denied ends the run.
    pub(super) fn stops_on_denial(&self) -> bool {
        let own = self.own.as_ref().and_then(|own| own.permissions.as_ref());
        let above = self.own.iter().flat_map(|own| &own.above);
        own.is_some_and(|own| own.stops_on_denial())
            || self.agent.permissions().stops_on_denial()
            || above.into_iter().any(|(above, _)| above.stops_on_denial())
    }
}

/// The tools of one run. A clone is cheap.
#[derive(Clone)]
pub(super) struct Offered {
    agent: Agent,
    only: Option<Arc<ToolRegistry>>,
}

impl Offered {
    pub(super) fn tools(&self) -> &ToolRegistry {
        self.only.as_deref().unwrap_or_else(|| self.agent.tools())
    }
}

/// The tools that the model gets in a run which has brought this.
pub(super) fn offered<'a>(agent: &'a Agent, own: Option<&'a Circumstances>) -> &'a ToolRegistry {
    own.and_then(|own| own.tools.as_deref()).unwrap_or_else(|| agent.tools())
}
