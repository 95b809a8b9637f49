//! Checks arguments against a schema, as far as every vendor's schemas go: all of those of a tool
//! made by hand, and those of a function that its types have refused, to tell the rest of what is
//! wrong. What it does not know it lets pass: a schema may say more than is checked here.

use serde_json::{Map, Value};

use super::{
    fault::{Fault, step},
    nearest::nearest,
};

/// So many faults of one argument are told; a model that is so wrong begins anew.
const MOST: usize = 16;

/// All that is wrong with these arguments, one line each.
pub(crate) fn problems(schema: &Value, arguments: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    let rules = Rules::of(schema);
    let described = |name: &str| rules.properties.and_then(|properties| properties.get(name));
    for name in names(rules.required) {
        let is_missing = match arguments.get(name) {
            None => true,
            // It is there if null is one of its values.
            Some(Value::Null) => {
                described(name).is_some_and(|property| !fits(property, &Value::Null, schema))
            }
            Some(_) => false,
        };
        if is_missing {
            lines.push(Fault::of_all(required(described(name))).line(name));
        }
    }
    for (name, value) in arguments {
        match described(name) {
            // Absence is for the tool to deal with, and `null` is absence.
            Some(_) if value.is_null() => {}
            Some(property) => {
                let faults = faults(property, value, schema);
                lines.extend(faults.iter().map(|fault| fault.line(name)));
            }
            None if rules.is_closed() => {
                lines.push(format!(
                    "`{name}`: {}",
                    unknown(name, rules.properties, ["argument", "this tool"])
                ));
            }
            None if rules.patterns.is_some() => {}
            None => {
                let faults = rules.others.map(|others| faults(others, value, schema));
                lines.extend(faults.into_iter().flatten().map(|fault| fault.line(name)));
            }
        }
    }
    lines
}

/// Takes the arguments that are `null` and may be left out away, for a tool that asks whether they
/// are there.
pub(crate) fn without_nulls(schema: &Value, arguments: Map<String, Value>) -> Map<String, Value> {
    if !arguments.values().any(Value::is_null) {
        return arguments;
    }
    let rules = Rules::of(schema);
    let keep = |name: &str, value: &Value| {
        let property = rules.properties.and_then(|properties| properties.get(name));
        !value.is_null()
            || names(rules.required).any(|required| required == name)
            || property.is_none_or(|property| fits(property, value, schema))
    };
    arguments.into_iter().filter(|(name, value)| keep(name, value)).collect()
}

/// What a schema says, as far as it is checked. It is read in one pass: a schema says few things,
/// and to ask for each of them that it might say costs more than all the rest of a check.
#[derive(Default)]
struct Rules<'a> {
    reference: Option<&'a str>,
    /// The name of a type, or a list of them.
    kind: Option<&'a Value>,
    allowed: Option<&'a Vec<Value>>,
    only: Option<&'a Value>,
    any_of: Option<&'a Vec<Value>>,
    one_of: Option<&'a Vec<Value>>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
    first_items: Option<&'a Vec<Value>>,
    items: Option<&'a Value>,
    properties: Option<&'a Map<String, Value>>,
    required: Option<&'a Value>,
    others: Option<&'a Value>,
    patterns: Option<&'a Value>,
}

impl<'a> Rules<'a> {
    fn of(schema: &'a Value) -> Self {
        let mut rules = Self::default();
        for (word, value) in schema.as_object().into_iter().flatten() {
            match word.as_str() {
                "$ref" => rules.reference = value.as_str(),
                "type" => rules.kind = Some(value),
                "enum" => rules.allowed = value.as_array(),
                "const" => rules.only = Some(value),
                "anyOf" => rules.any_of = value.as_array(),
                "oneOf" => rules.one_of = value.as_array(),
                "minimum" => rules.minimum = value.as_f64(),
                "maximum" => rules.maximum = value.as_f64(),
                "exclusiveMinimum" => rules.above = value.as_f64(),
                "exclusiveMaximum" => rules.below = value.as_f64(),
                "prefixItems" => rules.first_items = value.as_array(),
                "items" => rules.items = Some(value),
                "properties" => rules.properties = value.as_object(),
                "required" => rules.required = Some(value),
                "additionalProperties" => rules.others = Some(value),
                "patternProperties" => rules.patterns = Some(value),
                _ => {}
            }
        }
        rules
    }

    /// Whether an argument that is not listed is a mistake: where the schema says so, and where it
    /// lists some and says nothing of others.
    fn is_closed(&self) -> bool {
        match self.others {
            Some(Value::Bool(open)) => !open,
            Some(_) => false,
            None => self.patterns.is_none() && self.properties.is_some(),
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match self.kind {
            Some(Value::String(one)) => is_of(value, one),
            list => {
                let mut kinds = names(list).peekable();
                kinds.peek().is_none() || kinds.any(|kind| is_of(value, kind))
            }
        }
    }
}

/// What is said of something that has to be there.
fn required(property: Option<&Value>) -> String {
    let expected = property.and_then(known_expectation);
    let about = property.and_then(|property| property.get("description")?.as_str());
    let words = expected.into_iter().chain(about.map(|about| format!("{about:?}")));
    match words.collect::<Vec<_>>().join(", ").as_str() {
        "" => "is required".to_owned(),
        words => format!("is required: {words}"),
    }
}

/// What is said of a name that there is not, among what the tool or an object takes.
fn unknown(
    name: &str,
    properties: Option<&Map<String, Value>>,
    [what, whose]: [&str; 2],
) -> String {
    let known: Vec<&str> =
        properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("there is no such {what}; did you mean `{near}`?"),
        None if known.is_empty() => format!("there is no such {what}; {whose} takes none"),
        None => format!("there is no such {what}; the {what}s are `{}`", known.join("`, `")),
    }
}

fn names(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn fits(schema: &Value, value: &Value, root: &Value) -> bool {
    Check { root, faults: Vec::new(), most: 1 }.fits(schema, value, 0)
}

/// All that is wrong with a value whose schema is a part of `root`.
pub(crate) fn faults(schema: &Value, value: &Value, root: &Value) -> Vec<Fault> {
    let mut check = Check { root, faults: Vec::new(), most: MOST };
    check.value(schema, value, &Place::Root, 0);
    check.faults
}

/// How deep a value or a chain of references is followed; what is below passes.
const DEEPEST: usize = 64;

/// Where a value is inside an argument.
enum Place<'a> {
    Root,
    Name(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Name(parent, name) => parent.pointer() + &step(name),
            Self::Index(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}

/// Finds what is wrong with a value.
struct Check<'a> {
    /// To what references refer.
    root: &'a Value,
    faults: Vec<Fault>,
    /// So many faults are enough. Where it is one, nobody reads it.
    most: usize,
}

impl<'a> Check<'a> {
    fn fault(&mut self, place: &Place<'_>, reason: String) {
        if self.faults.len() < self.most {
            self.faults.push(Fault { at: place.pointer(), reason });
        }
    }

    fn fits(mut self, schema: &'a Value, value: &Value, depth: usize) -> bool {
        self.value(schema, value, &Place::Root, depth);
        self.faults.is_empty()
    }

    fn value(&mut self, schema: &'a Value, value: &Value, place: &Place<'_>, depth: usize) {
        if depth > DEEPEST || self.faults.len() >= self.most {
            return;
        }
        let depth = depth + 1;
        if *schema == Value::Bool(false) {
            return self.fault(place, "nothing is allowed here".to_owned());
        }
        let rules = Rules::of(schema);
        if let Some(path) = rules.reference {
            if let Some(target) = self.target(path) {
                self.value(target, value, place, depth);
            }
            return;
        }
        if !rules.takes(value) {
            let reason = format!("expected {}, found {}", expectation(schema), found(value));
            return self.fault(place, reason);
        }
        if rules.allowed.is_some_and(|allowed| !allowed.contains(value)) {
            let reason = format!("expected {}, found {value}", expectation(schema));
            return self.fault(place, reason);
        }
        if let Some(only) = rules.only.filter(|only| *only != value) {
            return self.fault(place, format!("expected {only}, found {value}"));
        }
        for choices in [rules.any_of, rules.one_of].into_iter().flatten() {
            let check = || Check { root: self.root, faults: Vec::new(), most: 1 };
            if choices.iter().any(|choice| check().fits(choice, value, depth)) {
                continue;
            }
            // Where only the answer counts, nothing is looked at twice: the next choice deeper down
            // would double the work again, and so on.
            if self.most > 1
                && let Some(meant) = self.meant(choices, value)
            {
                return self.value(meant, value, place, depth);
            }
            if let Some((tag, tags)) = self.tag(choices).filter(|_| value.is_object()) {
                let expected = format!("one of {}", tags.join(", "));
                let reason = match value.get(tag) {
                    Some(other) => format!("expected {expected}, found {other}"),
                    None => format!("is required: {expected}"),
                };
                return self.fault(&Place::Name(place, tag), reason);
            }
            let all: Vec<String> = choices.iter().map(expectation).collect();
            let reason = format!("expected {}, found {}", all.join(" or "), found(value));
            return self.fault(place, reason);
        }
        match value {
            Value::Number(_) => self.number(&rules, value, place),
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    let own = rules.first_items.and_then(|items| items.get(index));
                    if let Some(item) = own.or(rules.items) {
                        self.value(item, value, &Place::Index(place, index), depth);
                    }
                }
            }
            Value::Object(values) => self.object(&rules, values, place, depth),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// What a schema says, or the one that it refers to.
    fn rules(&self, schema: &'a Value) -> Rules<'a> {
        let rules = Rules::of(schema);
        let target = rules.reference.and_then(|path| self.target(path));
        target.map_or(rules, Rules::of)
    }

    /// The field that tells the choices apart, and its values as JSON.
    fn tag(&self, choices: &'a [Value]) -> Option<(&'a str, Vec<String>)> {
        let constant = |property: &'a Value| property.get("const").map(Value::to_string);
        let first = self.rules(choices.first()?).properties?;
        let (tag, _) = first.iter().find(|(_, property)| constant(property).is_some())?;
        let tags = choices.iter().map(|choice| constant(self.rules(choice).properties?.get(tag)?));
        Some((tag, tags.collect::<Option<_>>()?))
    }

    /// The one choice that a value is meant to be, which its kind, its tag or its names tell.
    fn meant(&self, choices: &'a [Value], value: &Value) -> Option<&'a Value> {
        let only = |wanted: &dyn Fn(&Rules<'a>) -> bool| {
            let mut found = choices.iter().filter(|choice| {
                let rules = self.rules(choice);
                rules.kind.is_some() && rules.takes(value) && wanted(&rules)
            });
            found.next().filter(|_| found.next().is_none())
        };
        let is_tagged = |rules: &Rules<'a>| {
            rules.properties.into_iter().flatten().all(|(name, property)| {
                property.get("const").is_none_or(|tag| value.get(name) == Some(tag))
            })
        };
        let is_named = |rules: &Rules<'a>| {
            names(rules.required).all(|name| value.get(name).is_some()) && is_tagged(rules)
        };
        only(&is_tagged).or_else(|| only(&is_named))
    }

    fn number(&mut self, rules: &Rules<'_>, value: &Value, place: &Place<'_>) {
        let Some(number) = value.as_f64() else { return };
        let faults = [
            rules.minimum.filter(|limit| number < *limit).map(|limit| ("at least", limit)),
            rules.maximum.filter(|limit| number > *limit).map(|limit| ("at most", limit)),
            rules.above.filter(|limit| number <= *limit).map(|limit| ("more than", limit)),
            rules.below.filter(|limit| number >= *limit).map(|limit| ("less than", limit)),
        ];
        if let Some((words, limit)) = faults.into_iter().flatten().next() {
            self.fault(place, format!("must be {words} {limit}, not {value}"));
        }
    }

    fn object(
        &mut self,
        rules: &Rules<'a>,
        values: &Map<String, Value>,
        place: &Place<'_>,
        depth: usize,
    ) {
        let described = |name: &str| rules.properties.and_then(|properties| properties.get(name));
        for name in names(rules.required).filter(|name| !values.contains_key(*name)) {
            self.fault(&Place::Name(place, name), required(described(name)));
        }
        for (name, value) in values {
            let place = Place::Name(place, name);
            match described(name) {
                Some(property) => self.value(property, value, &place, depth),
                // Deeper down, only what the schema says.
                None if rules.patterns.is_some() => {}
                None if rules.others == Some(&Value::Bool(false)) => {
                    let whose = ["field", "this object"];
                    self.fault(&place, unknown(name, rules.properties, whose));
                }
                None => {
                    if let Some(others) = rules.others {
                        self.value(others, value, &place, depth);
                    }
                }
            }
        }
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match (value, kind) {
        (Value::Number(number), "integer") => {
            !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        (Value::Null, "null")
        | (Value::Bool(_), "boolean")
        | (Value::Number(_), "number")
        | (Value::String(_), "string")
        | (Value::Array(_), "array")
        | (Value::Object(_), "object") => true,
        (_, "null" | "boolean" | "number" | "integer" | "string" | "array" | "object") => false,
        // A type that is not of the standard is not for us to judge.
        _ => true,
    }
}

/// What a schema wants, in a few words.
fn expectation(schema: &Value) -> String {
    known_expectation(schema).unwrap_or_else(|| "another value".to_owned())
}

fn known_expectation(schema: &Value) -> Option<String> {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let all: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Some(format!("one of {}", all.join(", ")));
    }
    let word = |kind: &str| match kind {
        "null" => "null".to_owned(),
        "integer" | "array" | "object" => format!("an {kind}"),
        kind => format!("a {kind}"),
    };
    Some(match schema.get("type")? {
        Value::String(kind) => word(kind),
        kinds => names(Some(kinds)).map(word).collect::<Vec<_>>().join(" or "),
    })
}

fn found(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}
