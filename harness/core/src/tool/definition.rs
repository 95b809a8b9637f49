//! A hash of a tool's definition. If the hash has changed since the decision about a call, the tool has changed.

use serde_json::{Map, Value, json};

use super::{Tool, tool::ToolBody};
use crate::{
    error::Error,
    message::{Arguments, ToolCall},
};

/// Schema keywords whose values are only descriptions. A change of these values, for example by a new doc comment, does
/// not change the definition.
const DESCRIBING: [&str; 5] = ["title", "description", "examples", "$comment", "deprecated"];

/// Keywords whose value is an object of schemas: each member of the object is a schema. The keys of the object are
/// names, not keywords.
const NAMING: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

impl Tool {
    /// Sets a hash of the tool's description. An approval is valid only as long as this hash stays the same. Use this
    /// if the description comes from outside of the program, such as from a server.
    pub fn with_definition(mut self, definition: &str) -> Self {
        self.definition = Some(definition.into());
        self
    }

    /// Sets a title that comes from outside of the program. A title that is not one line of visible text is ignored.
    pub fn with_plain_title(self, title: Option<String>) -> Self {
        match title.filter(|title| super::title::is_plain(title)) {
            Some(title) => self.with_title(title),
            None => self,
        }
    }

    /// A hash of the tool's name, side effects and schema, and of what runs its calls (a function, an agent or the
    /// program). Descriptions count only if the tool is described outside of the program. The defaults of top-level
    /// arguments do not count, because a decision about a call records these defaults.
    #[doc(hidden)]
    pub fn definition(&self) -> String {
        let mut schema = self.input_schema().clone();
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            let members = properties.values_mut().filter_map(Value::as_object_mut);
            members.for_each(|member| drop(member.remove("default")));
        }
        remove_docs(&mut schema);
        let described = json!({
            "effects": self.side_effects().to_string(),
            "runs": if self.is_agent() { "agent" } else if self.is_external() { "external" } else { "function" },
            "schema": schema,
            "described": self.definition.as_deref(),
        });
        let Value::Object(described) = described else { return String::new() };
        Arguments::from(described).fingerprint(self.name()).to_string()
    }

    /// The size of the compiled patterns in the schema of the arguments, in KiB.
    pub fn pattern_size(&self) -> usize {
        match &self.body {
            ToolBody::Declared { .. } => 0,
            ToolBody::Made(made) => {
                made.checker().map_or(0, harness_schema::SchemaChecker::pattern_size)
            }
        }
    }

    fn has_defaults(&self) -> bool {
        match &self.body {
            ToolBody::Declared { def, .. } => def.params.iter().any(|param| param.has_default),
            ToolBody::Made(made) => made.has_defaults,
        }
    }

    /// The arguments that the model wrote, plus the defaults of missing arguments.
    ///
    /// # Errors
    /// Fails like [`ToolCall::decoded`].
    #[doc(hidden)]
    pub fn arguments_of(&self, call: &ToolCall) -> Result<Arguments, Error> {
        let mut arguments = call.decoded()?;
        self.fill_defaults(&mut arguments);
        Ok(arguments)
    }

    /// Fills in the defaults of arguments that are missing or `null`. Returns the defaults that were filled in.
    #[doc(hidden)]
    pub fn fill_defaults(&self, arguments: &mut Arguments) -> Arguments {
        if !self.has_defaults() {
            return Arguments::default();
        }
        let Some(Value::Object(properties)) = self.input_schema().get("properties") else {
            return Arguments::default();
        };
        let default = |(name, schema): (&String, &Value)| {
            let default = schema.get("default").filter(|default| !default.is_null())?;
            arguments.get(name).is_none_or(Value::is_null).then(|| (name.clone(), default.clone()))
        };
        let defaults: Map<String, Value> = properties.iter().filter_map(default).collect();
        if !defaults.is_empty() {
            let mut filled = std::mem::take(arguments).into_map();
            filled.extend(defaults.clone());
            *arguments = filled.into();
        }
        defaults.into()
    }
}

/// Removes all descriptive keywords from a schema, at every depth.
fn remove_docs(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|word, _| !DESCRIBING.contains(&word.as_str()));
            for (word, value) in members {
                match value {
                    Value::Object(named) if NAMING.contains(&word.as_str()) => {
                        named.values_mut().for_each(remove_docs);
                    }
                    // The values of these keywords are plain values, not schemas.
                    _ if ["enum", "const", "default"].contains(&word.as_str()) => {}
                    value => remove_docs(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(remove_docs),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::tool::{SideEffects, Tool};

    fn definition(schema: Value) -> String {
        let run = |_, _| -> crate::tool::ToolFuture { Box::pin(async { Ok("".into()) }) };
        Tool::new("pay", "Pays.", schema, SideEffects::NONE, run).definition()
    }

    #[test]
    fn doc_comments_make_no_other_tool_and_everything_else_does() {
        let of = |cents: Value| json!({"type": "object", "properties": {"cents": cents}});
        let plain = definition(of(json!({"type": "integer"})));
        for same in [
            json!({"type": "integer", "description": "How many"}),
            json!({"type": "integer", "title": "Cents", "examples": [1]}),
            json!({"type": "integer", "default": 5}),
        ] {
            assert_eq!(definition(of(same.clone())), plain, "{same}");
        }
        for other in [
            json!({"type": "number"}),
            json!({"type": "integer", "maximum": 5}),
            json!({"type": "integer", "const": {"description": "How many"}}),
        ] {
            assert_ne!(definition(of(other.clone())), plain, "{other}");
        }
        // A parameter may have the same name as a keyword.
        let named = |kind| json!({"type": "object", "properties": {"description": {"type": kind}}});
        assert_ne!(definition(named("string")), definition(named("integer")));
        // Defaults of nested members are not filled in, so they are a part of the definition.
        let inner = |default| of(json!({"properties": {"all": {"default": default}}}));
        assert_ne!(definition(inner(true)), definition(inner(false)));
    }
}
