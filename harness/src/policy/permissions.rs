//! Whether a call may run: from what its tool declares, unless a rule says otherwise.

use std::{collections::HashMap, fmt, sync::Arc};

use crate::{
    message::ToolCall,
    tool::{SideEffect, SideEffects},
};

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allow,
    /// A person decides. With nobody to ask, it may not.
    Ask,
    /// It may not; the reason is for the model.
    Deny(String),
}

/// A rule for what names and side effects cannot say.
type Rule = dyn Fn(&ToolCall, SideEffects) -> Option<Verdict> + Send + Sync;

/// Which calls may run, which a person decides, and which may not.
///
/// Unless a rule says otherwise, the declared side effects decide:
///
/// | declared | verdict |
/// |---|---|
/// | none, `read`, `read` + `network`, `write` | allow |
/// | `network` that does not only read, anything with `mutate` | ask |
///
/// A rule given by [`rule`](Self::rule) comes first, then one by the tool's name, then the table.
///
/// ```
/// use harness::{SideEffect, SideEffects, ToolCall, policy::{Permissions, Verdict}};
///
/// let permissions = Permissions::default().allow("bash").deny("drop_table", "tables stay");
/// let bash = ToolCall::new("call_1", "bash", r#"{"command": "ls"}"#);
/// assert_eq!(permissions.decide(&bash, SideEffects::ALL), Verdict::Allow);
///
/// let pay = ToolCall::new("call_2", "pay", r#"{"cents": 100}"#);
/// let effects = SideEffects::of(&[SideEffect::Network, SideEffect::Mutate]);
/// assert_eq!(permissions.decide(&pay, effects), Verdict::Ask);
/// ```
#[derive(Clone, Default)]
pub struct Permissions {
    by_name: HashMap<String, Verdict>,
    rule: Option<Arc<Rule>>,
    stops_on_denial: bool,
}

impl Permissions {
    /// Everything may run: for a sandbox, or a program that trusts its model with all its tools.
    pub fn allow_all() -> Self {
        Self::default().rule(|_, _| Some(Verdict::Allow))
    }

    /// The tool of this name may run.
    #[must_use]
    pub fn allow(mut self, tool: impl Into<String>) -> Self {
        self.by_name.insert(tool.into(), Verdict::Allow);
        self
    }

    /// A person decides on each call of the tool of this name.
    #[must_use]
    pub fn ask(mut self, tool: impl Into<String>) -> Self {
        self.by_name.insert(tool.into(), Verdict::Ask);
        self
    }

    /// The tool of this name may not run; the reason is for the model.
    #[must_use]
    pub fn deny(mut self, tool: impl Into<String>, reason: impl Into<String>) -> Self {
        self.by_name.insert(tool.into(), Verdict::Deny(reason.into()));
        self
    }

    /// Decides by the call itself, before names and side effects; `None` leaves it to them.
    #[must_use]
    pub fn rule(
        mut self,
        rule: impl Fn(&ToolCall, SideEffects) -> Option<Verdict> + Send + Sync + 'static,
    ) -> Self {
        self.rule = Some(Arc::new(rule));
        self
    }

    /// Ends the run at the first call that is denied, instead of letting the model try another
    /// way.
    #[must_use]
    pub fn stop_on_denial(mut self) -> Self {
        self.stops_on_denial = true;
        self
    }

    /// Whether a denial ends the run.
    pub fn stops_on_denial(&self) -> bool {
        self.stops_on_denial
    }

    /// Whether this call, of a tool that declares these side effects, may run.
    pub fn decide(&self, call: &ToolCall, effects: SideEffects) -> Verdict {
        let by_rule = self.rule.as_ref().and_then(|rule| rule(call, effects));
        by_rule
            .or_else(|| self.by_name.get(call.name()).cloned())
            .unwrap_or_else(|| by_effects(effects))
    }
}

fn by_effects(effects: SideEffects) -> Verdict {
    let calls_out = effects.has(SideEffect::Network) && !effects.is_read_only();
    if effects.has(SideEffect::Mutate) || calls_out { Verdict::Ask } else { Verdict::Allow }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions")
            .field("by_name", &self.by_name)
            .field("rule", &self.rule.as_ref().map(|_| ".."))
            .field("stops_on_denial", &self.stops_on_denial)
            .finish()
    }
}
