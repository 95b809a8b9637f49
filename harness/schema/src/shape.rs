//! Converts alternative notations in a value to the notation of its schema: `null` for an optional
//! member is removed, and `3.0` for an integer becomes `3`.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    check::CheckCost,
    compile::SchemaChecker,
    fault::ValueFault,
    node::{NodeId, SchemaNode},
    number::written_as_float,
};

/// The maximum depth of a value. A value parsed from JSON is never deeper. Deeper parts are not
/// converted.
const DEEPEST: usize = 128;

impl SchemaChecker {
    /// Returns the value if it fits. If the value fits only without `null` for optional members,
    /// returns the value without those members, at any depth. Models in strict mode write `null`
    /// for members that they want to omit.
    ///
    /// # Errors
    /// Returns the value and its faults. Some `null` members of the value may be removed.
    pub fn read(&self, mut value: Value) -> Result<Value, (Value, Vec<ValueFault>)> {
        if self.fits(&value) {
            return Ok(value);
        }
        let changed =
            has(&value, &Value::is_null) && self.shape(self.root, &mut value, OtherNotation::Null);
        if changed && self.fits(&value) {
            return Ok(value);
        }
        let faults = self.faults(&value);
        Err((value, faults))
    }

    /// Changes floats such as `3.0` to integers where the schema expects an integer. JSON Schema
    /// accepts both notations, and models write both. Returns whether the value has changed.
    pub fn integers(&self, value: &mut Value) -> bool {
        has(value, &is_float) && self.shape(self.root, value, OtherNotation::Float)
    }

    /// Like [`integers`](Self::integers), for a value that is the member `name` of the object that
    /// the schema describes.
    pub fn integers_of(&self, name: &str, value: &mut Value) -> bool {
        let rules = self.node(self.root).object.as_deref();
        let property = rules.and_then(|rules| rules.property(name));
        has(value, &is_float)
            && property.is_some_and(|it| self.shape(it.id, value, OtherNotation::Float))
    }

    /// Converts a value that this part of the schema describes. Returns whether the value has
    /// changed.
    fn shape(&self, id: NodeId, value: &mut Value, of: OtherNotation) -> bool {
        ValueShaper { checker: self, of, spent: CheckCost::default() }.value(vec![id], value, 0)
    }
}

/// One conversion pass over a value.
struct ValueShaper<'a> {
    checker: &'a SchemaChecker,
    of: OtherNotation,
    /// The work spent so far to find the choices that apply. If this work exceeds the maximum, the remaining parts of
    /// the value are not converted.
    spent: CheckCost,
}

impl<'a> ValueShaper<'a> {
    /// Converts a value to which all these parts of the schema apply.
    fn value(&mut self, ids: Vec<NodeId>, value: &mut Value, depth: usize) -> bool {
        if depth > DEEPEST {
            return false;
        }
        let (nodes, mut changed) = self.in_place(ids, value);
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let mut ids = Vec::new();
                    for rules in nodes.iter().filter_map(|node| node.object.as_deref()) {
                        let before = ids.len();
                        ids.extend(rules.property(name).map(|property| property.id));
                        let spent = &mut self.spent;
                        let matching = rules.patterns.iter();
                        let matching = matching
                            .filter(|(pattern, _)| spent.matches(pattern, name) == Some(true));
                        ids.extend(matching.map(|(_, id)| *id));
                        if ids.len() == before {
                            ids.extend(rules.others);
                        }
                    }
                    changed |= self.value(ids, member, depth + 1);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let rules = nodes.iter().filter_map(|node| node.array.as_deref());
                    let ids = rules.filter_map(|it| it.first.get(index).copied().or(it.items));
                    changed |= self.value(ids.collect(), item, depth + 1);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        changed
    }

    /// Converts the value itself, and collects all parts of the schema that apply to it, each once.
    fn in_place(
        &mut self,
        mut open: Vec<NodeId>,
        value: &mut Value,
    ) -> (Vec<&'a SchemaNode>, bool) {
        let (mut nodes, mut changed, mut seen) = (Vec::new(), false, HashSet::new());
        open.reverse();
        while let Some(id) = open.pop() {
            if !seen.insert(id) || !self.spent.step() {
                continue;
            }
            let node = self.checker.node(id);
            nodes.push(node);
            changed |= self.itself(node, value);
            open.extend(&node.all);
            for choice in &node.choices {
                // Like most deserializers, this code uses the first choice that fits.
                open.extend(match choice.ids.as_slice() {
                    _ if matches!(value, Value::Null | Value::Bool(_) | Value::String(_)) => None,
                    [only] => Some(*only),
                    all => all.iter().copied().find(|id| self.nearly_fits(*id, value)),
                });
            }
            if let Some(condition) = node.condition.as_deref() {
                open.extend(match self.nearly_fits(condition.test, value) {
                    true => condition.then,
                    false => condition.otherwise,
                });
            }
        }
        (nodes, changed)
    }

    /// Converts a number, or removes `null` members, according to one part of the schema.
    fn itself(&mut self, node: &SchemaNode, value: &mut Value) -> bool {
        let is_integer = node.kinds.is_some_and(|it| it.has("integer") && !it.has("number"));
        match (self.of, value) {
            (OtherNotation::Float, value @ Value::Number(_)) if is_integer => {
                let Value::Number(number) = &*value else { return false };
                let Some(integer) = written_as_float(number) else { return false };
                *value = Value::from(integer);
                true
            }
            (OtherNotation::Null, Value::Object(members))
                if members.values().any(Value::is_null) =>
            {
                let Some(rules) = node.object.as_deref() else { return false };
                let before = members.len();
                members.retain(|name, value| {
                    let Some(property) = rules.property(name) else { return true };
                    !value.is_null() || property.required || self.nearly_fits(property.id, value)
                });
                members.len() < before
            }
            _ => false,
        }
    }

    fn nearly_fits(&mut self, id: NodeId, value: &Value) -> bool {
        self.checker.nearly_fits(id, value, &mut self.spent)
    }
}

/// An alternative notation to convert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherNotation {
    /// `null` for an optional member that is missing.
    Null,
    /// A float such as `3.0` for an integer.
    Float,
}

fn is_float(value: &Value) -> bool {
    matches!(value, Value::Number(number) if written_as_float(number).is_some())
}

/// Whether `is_so` is true for any part of the value.
fn has(value: &Value, is_so: &dyn Fn(&Value) -> bool) -> bool {
    is_so(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| has(item, is_so)),
            Value::Object(members) => members.values().any(|member| has(member, is_so)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}
