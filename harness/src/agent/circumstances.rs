//! What one run brings beside its message: whom it serves, what may be done for them, by which tools,
//! and how the model answers.

use std::{collections::HashSet, sync::Arc};

use super::{Agent, Chat, Steering, accept::Wants, caller::CallSite};
use crate::{
    error::{Error, ErrorKind},
    journal::Entry,
    message::{CallOutcome, Message, Transcript},
    policy::{Approver, Exposed, Exposure, Permissions},
    provider::{Settings, ToolChoice},
    tool::{Places, SideEffects, Tool, ToolRegistry, Values},
};

/// What a run brings. Nothing of it is written down.
#[derive(Default)]
pub(super) struct Circumstances {
    pub(super) values: Values,
    pub(super) settings: Option<Settings>,
    pub(super) permissions: Option<Arc<Permissions>>,
    /// Who is asked, and whom this person is told from others by.
    pub(super) approver: Option<(String, Arc<dyn Approver>)>,
    /// The tools that are offered, if not all are.
    pub(super) tools: Option<Arc<ToolRegistry>>,
    /// By what the user speaks while the run goes on.
    pub(super) steering: Option<Steering>,
    /// By what a manager of conversations hands on what is said meanwhile.
    pub(super) handed_on: Option<Steering>,
    /// What is wanted of the answer, if it is more than words.
    pub(super) wants: Option<Wants>,
    /// Why the run cannot begin.
    pub(super) fault: Option<Error>,
    /// What the conversation has read by what the run's own permissions take for private and for
    /// words of strangers.
    pub(super) exposed: Exposed,
    /// The call of another agent's run that has started it.
    pub(super) caller: Option<Arc<CallSite>>,
    /// The places of which a call has one that the run is inside of.
    pub(super) places: Vec<Places>,
    /// Whether that call finds the conversation where this run leaves it.
    pub(super) is_kept: bool,
    /// The permissions of the agents and runs above it, and what was read by each of them.
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

    /// The permissions that hold beside those of the agent.
    pub(super) fn sides(&self) -> impl Iterator<Item = (&Arc<Permissions>, Exposure)> + Clone {
        let own = self.permissions.as_ref().map(|own| (own, self.exposed.exposure()));
        let above = self.above.iter();
        own.into_iter().chain(above.map(|(above, exposed)| (above, exposed.exposure())))
    }

    /// All by which somebody speaks while the run goes on.
    pub(super) fn steering(&self) -> impl Iterator<Item = &Steering> {
        self.steering.iter().chain(&self.handed_on)
    }

    /// Takes a fact into what was read.
    pub(super) fn fold(&mut self, entry: &Entry) {
        let own = self.permissions.as_ref().map(|own| (own, &mut self.exposed));
        let above = self.above.iter_mut().map(|(above, exposed)| (&*above, exposed));
        for (permissions, exposed) in own.into_iter().chain(above) {
            if let Some(egress) = permissions.egress_policy() {
                exposed.apply(egress, entry);
            }
        }
    }

    /// Folds what was read before the run, for permissions that ask for it. What the tools declared then
    /// is not kept, so it is what they declare now, and everything of a tool that is gone.
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
    /// What the run that goes on has brought.
    pub(super) fn brings(&mut self, own: Option<Box<Circumstances>>) {
        self.own = own;
        // They may be others now.
        self.told = None;
        let Self { own, agent, machine, .. } = self;
        if let Some(own) = own {
            let rules = own.caller.as_ref().map(|caller| caller.rules()).unwrap_or_default();
            own.above =
                rules.iter().map(|(it, read)| (Arc::clone(it), Exposed::of(*read))).collect();
            own.looks_back(agent, machine.transcript());
        }
    }

    /// The tools that the model is told of in this run, which are those that run.
    pub(super) fn tools(&self) -> &ToolRegistry {
        offered(&self.agent, self.own.as_deref())
    }

    /// The same, to be kept.
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
                "`Settings::tool_choice` names `{name}`, which the model is not told of before it has searched for it; \
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

/// The tools that the model is told of in a run which has brought this.
pub(super) fn offered<'a>(agent: &'a Agent, own: Option<&'a Circumstances>) -> &'a ToolRegistry {
    own.and_then(|own| own.tools.as_deref()).unwrap_or_else(|| agent.tools())
}
