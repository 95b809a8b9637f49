//! Random schemas and values, from a seed, for tests that compare what is said about them.

use serde_json::{Map, Value, json};

/// Where random schemas and values come from.
pub(crate) struct Random {
    pub(crate) dice: fastrand::Rng,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d1", "e/~"];
const TEXTS: [&str; 9] = ["", "a", "b", "ab", "abc", "c3", "aaaa", "é😀", "2026-11-22"];
const PATTERNS: [&str; 6] = ["^a", "b$", "^[a-c]+$", r"\d", "^.{1,3}$", "^(a|d)"];

/// How many definitions a schema has.
const DEFINITIONS: usize = 3;

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: fastrand::Rng::with_seed(seed) }
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.dice.usize(..of.len())]
    }

    fn sometimes(&mut self, of: u32) -> bool {
        self.dice.u32(..of) == 0
    }

    /// The schema of an object with the one member `x`, which has to be there.
    pub(crate) fn arguments(&mut self) -> Value {
        let mut definitions = Map::new();
        for number in 0..DEFINITIONS {
            definitions.insert(format!("d{number}"), self.schema(3, Some(number)));
        }
        json!({
            "type": "object",
            "properties": {"x": self.schema(4, None)},
            "required": ["x"],
            "additionalProperties": false,
            "$defs": definitions,
        })
    }

    /// A schema. Of definitions that look at the same value, only one behind `inside` is named.
    fn schema(&mut self, depth: usize, inside: Option<usize>) -> Value {
        if depth == 0 {
            return self.plain();
        }
        let below = depth - 1;
        let mut schema = match self.dice.u32(..12) {
            0..=3 => self.plain(),
            4..=5 => self.array(below),
            6..=8 => self.object(below, inside),
            9 => {
                let first = inside.map_or(0, |inside| inside + 1);
                if first >= DEFINITIONS {
                    return self.plain();
                }
                return json!({"$ref": format!("#/$defs/d{}", self.dice.usize(first..DEFINITIONS))});
            }
            10 => {
                let word = *self.one(&["anyOf", "oneOf", "allOf"]);
                let count = self.dice.usize(1..4);
                let all: Vec<Value> = (0..count).map(|_| self.schema(below, inside)).collect();
                json!({ word: all })
            }
            _ => match self.dice.u32(..4) {
                0 => json!({"not": self.schema(below, inside)}),
                1 => Value::Bool(!self.sometimes(4)),
                _ => {
                    let mut map = Map::new();
                    map.insert("if".to_owned(), self.schema(below, inside));
                    for word in ["then", "else"] {
                        if !self.sometimes(3) {
                            map.insert(word.to_owned(), self.schema(below, inside));
                        }
                    }
                    Value::Object(map)
                }
            },
        };
        if self.sometimes(8)
            && let Some(map) = schema.as_object_mut()
        {
            let choices = vec![self.schema(below, inside), self.schema(below, inside)];
            map.insert((*self.one(&["anyOf", "oneOf"])).to_owned(), Value::Array(choices));
        }
        schema
    }

    /// What is below a member or an item may name any definition.
    fn below(&mut self, depth: usize) -> Value {
        if self.sometimes(6) {
            return json!({"$ref": format!("#/$defs/d{}", self.dice.usize(..DEFINITIONS))});
        }
        self.schema(depth, None)
    }

    fn plain(&mut self) -> Value {
        let mut map = Map::new();
        let kind = *self.one(&["null", "boolean", "integer", "number", "string"]);
        match self.dice.u32(..8) {
            0 => {
                let values: Vec<Value> =
                    (0..self.dice.usize(1..4)).map(|_| self.value(1)).collect();
                map.insert("enum".to_owned(), Value::Array(values));
                return Value::Object(map);
            }
            1 => {
                map.insert("const".to_owned(), self.value(1));
                return Value::Object(map);
            }
            2 => {
                map.insert("type".to_owned(), json!([kind, self.one(&["array", "object"])]));
            }
            3 => {}
            _ => {
                map.insert("type".to_owned(), json!(kind));
            }
        }
        for word in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
            if self.sometimes(5) {
                map.insert(word.to_owned(), self.number());
            }
        }
        if self.sometimes(5) {
            map.insert(
                "multipleOf".to_owned(),
                self.one(&[json!(2), json!(3), json!(0.5)]).clone(),
            );
        }
        for word in ["minLength", "maxLength"] {
            if self.sometimes(4) {
                map.insert(word.to_owned(), json!(self.dice.u32(..4)));
            }
        }
        if self.sometimes(4) {
            map.insert("pattern".to_owned(), json!(self.one(&PATTERNS)));
        }
        Value::Object(map)
    }

    fn array(&mut self, depth: usize) -> Value {
        let mut map = Map::new();
        if !self.sometimes(5) {
            map.insert("type".to_owned(), json!("array"));
        }
        if !self.sometimes(4) {
            map.insert("items".to_owned(), self.below(depth));
        }
        if self.sometimes(4) {
            let first = vec![self.below(depth), self.below(depth)];
            map.insert("prefixItems".to_owned(), Value::Array(first));
        }
        if self.sometimes(4) {
            map.insert("uniqueItems".to_owned(), json!(true));
        }
        for word in ["minItems", "maxItems"] {
            if self.sometimes(4) {
                map.insert(word.to_owned(), json!(self.dice.u32(..4)));
            }
        }
        if self.sometimes(5) {
            map.insert("contains".to_owned(), self.below(depth));
            for word in ["minContains", "maxContains"] {
                if self.sometimes(3) {
                    map.insert(word.to_owned(), json!(self.dice.u32(..3)));
                }
            }
        }
        if self.sometimes(8) {
            map.insert("unevaluatedItems".to_owned(), self.below(depth));
        }
        Value::Object(map)
    }

    fn object(&mut self, depth: usize, inside: Option<usize>) -> Value {
        let mut map = Map::new();
        if !self.sometimes(5) {
            map.insert("type".to_owned(), json!("object"));
        }
        let mut properties = Map::new();
        for name in NAMES {
            if self.sometimes(2) {
                properties.insert(name.to_owned(), self.below(depth));
            }
        }
        if !self.sometimes(6) {
            map.insert("properties".to_owned(), Value::Object(properties));
        }
        if !self.sometimes(3) {
            let names: Vec<&str> = NAMES.into_iter().filter(|_| self.sometimes(3)).collect();
            map.insert("required".to_owned(), json!(names));
        }
        match self.dice.u32(..4) {
            0 => drop(map.insert("additionalProperties".to_owned(), json!(false))),
            1 => drop(map.insert("additionalProperties".to_owned(), self.below(depth))),
            _ => {}
        }
        if self.sometimes(5) {
            map.insert(
                "patternProperties".to_owned(),
                json!({ *self.one(&PATTERNS): self.below(depth) }),
            );
        }
        if self.sometimes(8) {
            map.insert("propertyNames".to_owned(), json!({"pattern": self.one(&PATTERNS)}));
        }
        for word in ["minProperties", "maxProperties"] {
            if self.sometimes(6) {
                map.insert(word.to_owned(), json!(self.dice.u32(..4)));
            }
        }
        if self.sometimes(6) {
            map.insert("dependentRequired".to_owned(), json!({"a": ["b"]}));
        }
        if self.sometimes(8) {
            map.insert("dependentSchemas".to_owned(), json!({"b": self.schema(depth, inside)}));
        }
        if self.sometimes(6) {
            map.insert("unevaluatedProperties".to_owned(), self.below(depth));
        }
        Value::Object(map)
    }

    fn number(&mut self) -> Value {
        match self.dice.u32(..10) {
            0 => json!(self.dice.i64(..)),
            1 => json!(self.dice.u64(..)),
            2 => self
                .one(&[
                    json!(1e300),
                    json!(-1e300),
                    json!(9007199254740993_i64),
                    json!(9007199254740992.0),
                ])
                .clone(),
            3..=5 => json!(f64::from(self.dice.i32(-8..8)) / 4.0),
            _ => json!(self.dice.i32(-4..6)),
        }
    }

    /// Any value.
    pub(crate) fn value(&mut self, depth: usize) -> Value {
        match self.dice.u32(..if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.dice.bool()),
            2 | 3 => self.number(),
            4 | 5 => json!(self.one(&TEXTS)),
            6 => (0..self.dice.usize(..4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let mut map = Map::new();
                for name in NAMES {
                    if self.sometimes(2) {
                        map.insert(name.to_owned(), self.value(depth - 1));
                    }
                }
                Value::Object(map)
            }
        }
    }

    /// A value that probably fits a part of `root`.
    pub(crate) fn fitting(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        let Some(map) = schema.as_object().filter(|_| depth > 0) else { return self.value(0) };
        if self.sometimes(25) {
            return self.value(2);
        }
        let below = depth - 1;
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            return self.fitting(
                &root.pointer(&target[1..]).cloned().unwrap_or_default(),
                root,
                below,
            );
        }
        if let Some(only) = map.get("const") {
            return only.clone();
        }
        for word in ["enum", "anyOf", "oneOf", "allOf"] {
            if let Some(all) = map.get(word).and_then(Value::as_array).filter(|all| !all.is_empty())
                && (!map.contains_key("properties") || self.sometimes(2))
            {
                let one = self.one(all).clone();
                return if word == "enum" { one } else { self.fitting(&one, root, below) };
            }
        }
        if let Some(branch) = map.get("then").filter(|_| self.dice.bool()) {
            return self.fitting(branch, root, below);
        }
        let kind = match map.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            Some(Value::Array(kinds)) => self.one(kinds).as_str().unwrap_or_default().to_owned(),
            _ if map.contains_key("properties") => "object".to_owned(),
            _ if map.contains_key("items") => "array".to_owned(),
            _ if map.contains_key("pattern") => "string".to_owned(),
            _ => return self.value(2),
        };
        match kind.as_str() {
            "null" => Value::Null,
            "boolean" => json!(self.dice.bool()),
            "integer" => {
                let low =
                    map.get("minimum").and_then(Value::as_i64).unwrap_or(-3).clamp(-100, 1000);
                let integer = low + self.dice.i64(0..6);
                if self.sometimes(6) { json!(integer as f64) } else { json!(integer) }
            }
            "number" => self.number(),
            "string" => json!(self.one(&TEXTS)),
            "array" => {
                let least = map.get("minItems").and_then(Value::as_u64);
                let least = least.and_then(|least| usize::try_from(least).ok()).unwrap_or(0);
                let first =
                    map.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default();
                let count = least + self.dice.usize(..3);
                let any = Value::Bool(true);
                let items = map.get("items").unwrap_or(&any);
                (0..count)
                    .map(|index| self.fitting(first.get(index).unwrap_or(items), root, below))
                    .collect()
            }
            _ => {
                let mut members = Map::new();
                let required =
                    map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
                let properties =
                    map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
                for name in NAMES {
                    let is_required = required.iter().any(|it| it == name);
                    match properties.get(name) {
                        Some(_) if !is_required && self.sometimes(5) => {
                            members.insert(name.to_owned(), Value::Null);
                        }
                        Some(property) if is_required || self.dice.bool() => {
                            members.insert(name.to_owned(), self.fitting(property, root, below));
                        }
                        None if is_required || self.sometimes(12) => {
                            members.insert(name.to_owned(), self.value(1));
                        }
                        _ => {}
                    }
                }
                Value::Object(members)
            }
        }
    }

    /// The same value with a change at one place.
    pub(crate) fn changed(&mut self, value: &Value) -> Value {
        let goes_on = !self.sometimes(3);
        match value {
            Value::Array(items) if goes_on && !items.is_empty() => {
                let mut items = items.clone();
                let index = self.dice.usize(..items.len());
                items[index] = self.changed(&items[index]);
                Value::Array(items)
            }
            Value::Object(members) if goes_on && !members.is_empty() => {
                let mut members = members.clone();
                let (name, member) = members.iter().nth(self.dice.usize(..members.len())).unwrap();
                let (name, member) = (name.clone(), member.clone());
                if self.sometimes(5) {
                    members.shift_remove(&name);
                } else {
                    members.insert(name, self.changed(&member));
                }
                Value::Object(members)
            }
            _ => self.value(2),
        }
    }
}
