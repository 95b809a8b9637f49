//! The side effects of a server's tools: set by the program, or taken from the server's hints if the program trusts
//! them.

use std::collections::BTreeMap;

use serde_json::Value;

use harness_core::tool::{SideEffect, SideEffects};

/// The program's decisions about a server's tools.
#[derive(Clone, Debug, Default)]
pub(super) struct EffectsTrust {
    /// Whether the server's hints are trusted.
    pub(super) hints: bool,
    /// The side effects that the program has set, by the server's names of the tools.
    pub(super) tools: BTreeMap<String, SideEffects>,
}

impl EffectsTrust {
    /// The side effects of a tool with these annotations, and whether calls of the tool may be repeated.
    pub(super) fn of(&self, tool: &str, annotations: Option<&Value>) -> (SideEffects, bool) {
        if let Some(effects) = self.tools.get(tool) {
            return (*effects, false);
        }
        match annotations {
            Some(Value::Object(_)) if self.hints => hinted(annotations),
            _ => (SideEffects::ALL, false),
        }
    }
}

/// Reads a tool's side effects from the hints, and whether calls of the tool may be repeated. A missing or invalid hint
/// has the default of the specification: not read-only, destructive, open to the world, not idempotent
/// (<https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations>).
fn hinted(annotations: Option<&Value>) -> (SideEffects, bool) {
    let hint = |name| annotations?.get(name)?.as_bool();
    let reads = hint("readOnlyHint") == Some(true);
    let mut effects = SideEffects::of(&[SideEffect::Read]);
    if hint("openWorldHint") != Some(false) {
        effects = effects.union(SideEffects::of(&[SideEffect::Network]));
    }
    if !reads {
        effects = effects.union(SideEffects::of(&[SideEffect::Write]));
    }
    if !reads && hint("destructiveHint") != Some(false) {
        effects = effects.union(SideEffects::of(&[SideEffect::Mutate]));
    }
    (effects, reads || hint("idempotentHint") == Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);

    fn any_hint() -> Value {
        match fastrand::u8(..5) {
            0 => json!(true),
            1 => json!(false),
            2 => json!("false"),
            3 => Value::Null,
            _ => json!({"readOnlyHint": true}),
        }
    }

    #[test]
    fn no_hint_counts_without_the_programs_word() {
        let names =
            ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "sideEffects"];
        let trust =
            EffectsTrust { hints: false, tools: BTreeMap::from([("known".to_owned(), READ)]) };
        for _ in 0..10_000 {
            let kept = names.iter().filter(|_| fastrand::bool());
            let annotations: serde_json::Map<String, Value> =
                kept.map(|name| ((*name).to_owned(), any_hint())).collect();
            let annotations = Value::Object(annotations);
            assert_eq!(trust.of("other", Some(&annotations)), (SideEffects::ALL, false));
            assert_eq!(trust.of("known", Some(&annotations)), (READ, false));
        }
    }

    #[test]
    fn hints_that_are_trusted_mean_what_the_specification_says() {
        let trust = EffectsTrust { hints: true, tools: BTreeMap::new() };
        let told = |hints: Value| {
            let (effects, idempotent) = trust.of("tool", Some(&hints));
            (effects.to_string(), idempotent)
        };
        let said = |text: &str, idempotent| (text.to_owned(), idempotent);
        assert_eq!(told(json!({})), said("read, write, network, mutate", false));
        assert_eq!(told(json!({"readOnlyHint": true})), said("read, network", true));
        let closed = json!({"readOnlyHint": true, "openWorldHint": false, "destructiveHint": true});
        assert_eq!(told(closed), said("read", true));
        let write =
            json!({"destructiveHint": false, "openWorldHint": false, "idempotentHint": true});
        assert_eq!(told(write), said("read, write", true));
        assert_eq!(
            told(json!({"readOnlyHint": "true"})),
            said("read, write, network, mutate", false)
        );
        assert_eq!(trust.of("tool", None), (SideEffects::ALL, false));
        assert_eq!(trust.of("tool", Some(&json!("read"))), (SideEffects::ALL, false));
    }
}
