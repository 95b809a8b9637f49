//! Describes tools to clients.

use std::{borrow::Cow, sync::Arc};

use rmcp::model;

use harness_core::tool::{SideEffect, Tool};

/// Describes a tool in the protocol's format.
pub(super) fn described(tool: &Tool) -> model::Tool {
    let object = |schema: &serde_json::Value| schema.as_object().cloned().map(Arc::new);
    let mut described = model::Tool::new(
        Cow::Owned(tool.name().to_owned()),
        Cow::Owned(tool.description().to_owned()),
        object(tool.input_schema()).unwrap_or_default(),
    )
    .with_annotations(hints(tool));
    if let Some(title) = tool.title() {
        described = described.with_title(title);
    }
    if let Some(schema) = structure(tool).and_then(object) {
        described = described.with_raw_output_schema(schema);
    }
    described
}

/// The output schema, if it describes an object. Older versions of the protocol allow only objects, and other values
/// are sent as text.
pub(super) fn structure(tool: &Tool) -> Option<&serde_json::Value> {
    tool.output_schema().filter(|schema| schema.get("type").is_some_and(|kind| kind == "object"))
}

/// Translates side effects into hints. No hint is weaker than the tool's declaration
/// (<https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations>). Every effect except a pure
/// addition is *destructive*. A tool that declares only the network is also destructive, because its effects on other
/// machines are unknown.
fn hints(tool: &Tool) -> model::ToolAnnotations {
    let effects = tool.side_effects();
    let reads = effects.is_read_only();
    let has = |effect| effects.has(effect);
    // Both hints have no meaning for a tool that only reads.
    let destructive = (!reads).then(|| has(SideEffect::Mutate) || !has(SideEffect::Write));
    let idempotent = (!reads).then(|| tool.is_idempotent());
    let open = has(SideEffect::Network) || has(SideEffect::Mutate);
    model::ToolAnnotations::from_raw(None, Some(reads), destructive, idempotent, Some(open))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use harness_core::tool::SideEffects;

    fn effect_names(effects: &[SideEffect]) -> Value {
        let schema = json!({"type": "object"});
        let tool = Tool::new("t", "T.", schema, SideEffects::of(effects), |_, _| {
            Box::pin(async { Ok("".into()) })
        });
        serde_json::to_value(hints(&tool)).expect("hints")
    }

    #[test]
    fn hints_say_what_a_tool_declares() {
        use SideEffect::{Mutate, Network, Read, Write};

        let reads = |open: bool| json!({"readOnlyHint": true, "openWorldHint": open});
        let acts = |destructive: bool, open: bool| {
            json!({
                "readOnlyHint": false, "destructiveHint": destructive, "idempotentHint": false,
                "openWorldHint": open,
            })
        };
        assert_eq!(effect_names(&[]), reads(false));
        assert_eq!(effect_names(&[Read]), reads(false));
        assert_eq!(effect_names(&[Read, Network]), reads(true));
        assert_eq!(effect_names(&[Write]), acts(false, false));
        assert_eq!(effect_names(&[Read, Write, Network]), acts(false, true));
        assert_eq!(effect_names(&[Network]), acts(true, true));
        assert_eq!(effect_names(&[Mutate]), acts(true, true));
        assert_eq!(effect_names(&[Write, Mutate]), acts(true, true));
    }
}
