//! The sizes of a schema that vendors limit, and the remaining limits of one request.

use serde_json::Value;

use super::strict::NotStrict;

/// The unused part of the vendor's limits for one request.
pub(super) struct StrictBudget {
    pub(super) tools: usize,
    pub(super) optional: usize,
    pub(super) unions: usize,
}

impl StrictBudget {
    pub(super) fn take(&mut self, form: &Value) -> Result<(), NotStrict> {
        let size = SchemaSize::of(form, 1);
        let wanted = [
            (1, &mut self.tools, "strict tools"),
            (size.optional, &mut self.optional, "members that may be left out"),
            (size.unions, &mut self.unions, "members of several types"),
        ];
        for (found, left, what) in &wanted {
            if found > &**left {
                let reason = format!("the request has more {what} than the vendor takes");
                return Err(NotStrict::new("", reason));
            }
        }
        for (found, left, _) in wanted {
            *left -= found;
        }
        Ok(())
    }
}

/// The quantities of a schema that vendors limit.
#[derive(Default)]
pub(super) struct SchemaSize {
    pub(super) properties: usize,
    pub(super) levels: usize,
    pub(super) values: usize,
    pub(super) characters: usize,
    pub(super) optional: usize,
    pub(super) unions: usize,
}

impl SchemaSize {
    pub(super) fn of(schema: &Value, level: usize) -> Self {
        let mut size = Self::default();
        size.add(schema, level);
        size
    }

    fn add(&mut self, schema: &Value, level: usize) {
        let Value::Object(map) = schema else { return };
        let several = map.get("type").is_some_and(Value::is_array) || map.contains_key("anyOf");
        self.unions += usize::from(several);
        if let Some(Value::Array(values)) = map.get("enum") {
            self.values += values.len();
            self.characters += values.iter().filter_map(Value::as_str).map(str::len).sum::<usize>();
        }
        if let Some(Value::Object(properties)) = map.get("properties") {
            let required = map.get("required").and_then(Value::as_array).map_or(0, Vec::len);
            self.levels = self.levels.max(level);
            self.properties += properties.len();
            self.optional += properties.len().saturating_sub(required);
            for (name, property) in properties {
                self.characters += name.len();
                self.add(property, level + 1);
            }
        }
        if let Some(Value::Object(definitions)) = map.get("$defs") {
            definitions.iter().for_each(|(name, it)| {
                self.characters += name.len();
                self.add(it, level + 1);
            });
        }
        map.get("items").into_iter().for_each(|items| self.add(items, level));
        for choice in map.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
            self.add(choice, level);
        }
    }
}
