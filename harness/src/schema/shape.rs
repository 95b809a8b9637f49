//! Gives a value the form that its schema says in another spelling: `null` for what may be left out is left
//! out, and `3.0` where an integer is wanted is `3`.

use serde_json::Value;

use super::{compile::Checker, fault::Fault, node::Id, number::written_as_float};

/// So deep is a value followed; one that is deeper does not fit.
const DEEPEST: usize = 400;

impl Checker {
    /// The value if it fits, without what is `null` and may be left out, at every depth, if it fits only
    /// then. Models that are held to a strict form write `null` for what they leave out.
    ///
    /// # Errors
    /// Fails with the value and all that is wrong with it.
    pub(crate) fn read(&self, mut value: Value) -> Result<Value, (Value, Vec<Fault>)> {
        if self.fits(&value) {
            return Ok(value);
        }
        let changed =
            has(&value, &Value::is_null) && self.shape(self.root, &mut value, Spelling::Null, 0);
        if changed && self.fits(&value) {
            return Ok(value);
        }
        let faults = self.faults(&value);
        Err((value, faults))
    }

    /// Writes each integer that is written as `3.0` as `3`, where the schema wants an integer: JSON Schema
    /// counts both as one, and models write it. Says whether something changed.
    pub(crate) fn integers(&self, value: &mut Value) -> bool {
        has(value, &is_float) && self.shape(self.root, value, Spelling::Float, 0)
    }

    /// The same of a member of the object that the schema describes.
    pub(crate) fn integers_of(&self, name: &str, value: &mut Value) -> bool {
        let rules = self.node(self.root).object.as_deref();
        let property = rules.and_then(|rules| rules.property(name));
        has(value, &is_float)
            && property.is_some_and(|it| self.shape(it.id, value, Spelling::Float, 0))
    }

    /// Shapes a value that this part of the schema describes.
    fn shape(&self, id: Id, value: &mut Value, of: Spelling, depth: usize) -> bool {
        if depth > DEEPEST {
            return false;
        }
        let (node, depth) = (self.node(id), depth + 1);
        let mut changed = false;
        let is_integer = node.kinds.is_some_and(|it| it.has("integer") && !it.has("number"));
        if let (Spelling::Float, true, Value::Number(number)) = (of, is_integer, &*value)
            && let Some(integer) = written_as_float(number)
        {
            *value = Value::from(integer);
            return true;
        }
        match (&mut *value, node.object.as_deref(), node.array.as_deref()) {
            (Value::Object(members), Some(rules), _) => {
                if of == Spelling::Null && members.values().any(Value::is_null) {
                    let before = members.len();
                    members.retain(|name, value| {
                        let Some(property) = rules.property(name) else { return true };
                        !value.is_null()
                            || property.required
                            || self.nearly_fits(property.id, value)
                    });
                    changed |= members.len() < before;
                }
                for (name, value) in members {
                    let listed = rules.property(name).map(|property| property.id);
                    let matching = rules.patterns.iter().filter(|(regex, _)| regex.is_match(name));
                    let mut ids: Vec<Id> = matching.map(|(_, id)| *id).chain(listed).collect();
                    if ids.is_empty() {
                        ids.extend(rules.others);
                    }
                    for id in ids {
                        changed |= self.shape(id, value, of, depth);
                    }
                }
            }
            (Value::Array(items), _, Some(rules)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(id) = rules.first.get(index).copied().or(rules.items) {
                        changed |= self.shape(id, item, of, depth);
                    }
                }
            }
            _ => {}
        }
        for id in &node.all {
            changed |= self.shape(*id, value, of, depth);
        }
        for choice in &node.choices {
            // The first one that it fits, as for most readers of a value that may be several things.
            let meant = match choice.ids.as_slice() {
                _ if !matches!(value, Value::Object(_) | Value::Array(_) | Value::Number(_)) => {
                    None
                }
                [only] => Some(*only),
                all => all.iter().copied().find(|id| self.nearly_fits(*id, value)),
            };
            if let Some(meant) = meant {
                changed |= self.shape(meant, value, of, depth);
            }
        }
        if let Some(condition) = node.condition.as_deref() {
            let branch = match self.nearly_fits(condition.test, value) {
                true => condition.then,
                false => condition.otherwise,
            };
            changed |= branch.is_some_and(|branch| self.shape(branch, value, of, depth));
        }
        changed
    }
}

/// Another spelling that is taken for what the schema says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// `null` for what may be left out.
    Null,
    /// `3.0` for `3`.
    Float,
}

fn is_float(value: &Value) -> bool {
    matches!(value, Value::Number(number) if written_as_float(number).is_some())
}

/// Whether a part of the value is so.
fn has(value: &Value, is_so: &dyn Fn(&Value) -> bool) -> bool {
    is_so(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| has(item, is_so)),
            Value::Object(members) => members.values().any(|member| has(member, is_so)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}
