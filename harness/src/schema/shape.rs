//! Gives a value the form that its schema says in another spelling: `null` for what may be left out is left
//! out, and `3.0` where an integer is wanted is `3`.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    check::Spent,
    compile::Checker,
    fault::Fault,
    node::{Id, Node},
    number::written_as_float,
};

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
            has(&value, &Value::is_null) && self.shape(self.root, &mut value, Spelling::Null);
        if changed && self.fits(&value) {
            return Ok(value);
        }
        let faults = self.faults(&value);
        Err((value, faults))
    }

    /// Writes each integer that is written as `3.0` as `3`, where the schema wants an integer: JSON Schema
    /// counts both as one, and models write it. Says whether something changed.
    pub(crate) fn integers(&self, value: &mut Value) -> bool {
        has(value, &is_float) && self.shape(self.root, value, Spelling::Float)
    }

    /// The same of a member of the object that the schema describes.
    pub(crate) fn integers_of(&self, name: &str, value: &mut Value) -> bool {
        let rules = self.node(self.root).object.as_deref();
        let property = rules.and_then(|rules| rules.property(name));
        has(value, &is_float)
            && property.is_some_and(|it| self.shape(it.id, value, Spelling::Float))
    }

    /// Shapes a value that this part of the schema describes. Says whether something changed.
    fn shape(&self, id: Id, value: &mut Value, of: Spelling) -> bool {
        Shaping { checker: self, of, spent: Spent::default() }.value(vec![id], value, 0)
    }
}

/// One walk that shapes a value.
struct Shaping<'a> {
    checker: &'a Checker,
    of: Spelling,
    /// What it took to find out what is meant. A walk that takes too much ends: what is not shaped by then
    /// does not fit.
    spent: Spent,
}

impl<'a> Shaping<'a> {
    /// Shapes a value that these parts of the schema describe together.
    fn value(&mut self, ids: Vec<Id>, value: &mut Value, depth: usize) -> bool {
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

    /// Shapes the value itself, and finds all parts of the schema that look at it, each of them once
    /// however many ways lead to it.
    fn in_place(&mut self, mut open: Vec<Id>, value: &mut Value) -> (Vec<&'a Node>, bool) {
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
                // The first one that it fits, as for most readers of a value that may be several things.
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

    /// Shapes a number, or takes out what is `null`, as one part of the schema says it.
    fn itself(&mut self, node: &Node, value: &mut Value) -> bool {
        let is_integer = node.kinds.is_some_and(|it| it.has("integer") && !it.has("number"));
        match (self.of, value) {
            (Spelling::Float, value @ Value::Number(_)) if is_integer => {
                let Value::Number(number) = &*value else { return false };
                let Some(integer) = written_as_float(number) else { return false };
                *value = Value::from(integer);
                true
            }
            (Spelling::Null, Value::Object(members)) if members.values().any(Value::is_null) => {
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

    fn nearly_fits(&mut self, id: Id, value: &Value) -> bool {
        self.checker.nearly_fits(id, value, &mut self.spent)
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
