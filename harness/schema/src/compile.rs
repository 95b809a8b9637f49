//! Compiles a schema once: every part of the schema becomes a node, and every reference becomes the
//! index of a node. So a check of a value reads no keywords.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde_json::{Map, Value};

use super::{
    fault::step,
    node::{
        AllowedValues, ArrayRules, ChoiceRules, ConditionRules, MANY, NodeId, NumberRules,
        ObjectMember, ObjectRules, SchemaNode, StringRules, TypeSet,
    },
    pattern::PatternCompiler,
};

/// The maximum nesting depth of a schema.
const DEEPEST: usize = 128;

/// The maximum length of a chain of schemas in which each schema refers to the next. All schemas of a chain apply to
/// the same value.
const LONGEST_CHAIN: usize = 64;

/// A compiled schema that checks values.
#[derive(Debug)]
pub struct SchemaChecker {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) root: NodeId,
    pub(super) unchecked: Vec<Unchecked>,
    /// Whether the schema describes an answer rather than the arguments of a tool. This affects the
    /// texts of faults.
    pub(super) of_answer: bool,
    patterns: PatternCompiler,
}

/// The reason why a schema is unusable. No value can be checked against an unusable schema.
#[derive(Clone, Debug)]
pub struct UnusableSchema {
    /// The JSON pointer to the unusable part of the schema.
    at: String,
    reason: String,
}

impl fmt::Display for UnusableSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, reason } = self;
        if at.is_empty() { f.write_str(reason) } else { write!(f, "at `{at}`: {reason}") }
    }
}

/// A part of a schema that the library sends to the model but cannot check.
///
/// ```
/// use harness::{SideEffects, Tool};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {
///     "word": {"type": "string", "pattern": "^(?!no)"}}});
/// let tool = Tool::new("say", "Says it.", schema, SideEffects::NONE, |_, _| {
///     Box::pin(async { Ok("".into()) })
/// });
/// let told: Vec<String> = tool.unchecked().iter().map(|part| part.to_string()).collect();
/// assert_eq!(told, ["`pattern` at `/properties/word` is not checked: it looks around"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unchecked {
    pointer: String,
    keyword: String,
    reason: String,
}

impl Unchecked {
    pub(super) fn new(at: &str, keyword: &str, reason: impl Into<String>) -> Self {
        Self { pointer: at.to_owned(), keyword: keyword.to_owned(), reason: reason.into() }
    }

    /// The JSON pointer to the part.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The reason why the part is not checked.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The keyword that is not checked.
    pub fn keyword(&self) -> &str {
        &self.keyword
    }
}

impl fmt::Display for Unchecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, keyword, reason } = self;
        match pointer.as_str() {
            "" => write!(f, "`{keyword}` at the root is not checked: {reason}"),
            pointer => write!(f, "`{keyword}` at `{pointer}` is not checked: {reason}"),
        }
    }
}

impl SchemaChecker {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Fails if the schema refers to something outside of the schema, applies itself to the same
    /// value through references, or has too many levels.
    pub fn new(schema: &Value) -> Result<Self, UnusableSchema> {
        let mut compiler = SchemaCompiler {
            schema,
            nodes: Vec::new(),
            targets: HashMap::new(),
            waiting: Vec::new(),
            unchecked: Vec::new(),
            anchors: None,
            patterns: PatternCompiler::default(),
        };
        let root = compiler.target("#", "")?;
        while let Some((id, pointer, schema)) = compiler.waiting.pop() {
            let node = compiler.node(schema, &pointer, 0)?;
            if let Some(place) = compiler.nodes.get_mut(id) {
                *place = SchemaNode { shared: place.shared, ..node };
            }
        }
        let SchemaCompiler { nodes, targets, mut unchecked, patterns, .. } = compiler;
        // A part that is the target of several references may be compiled more than once.
        let mut seen = HashSet::new();
        unchecked.retain(|part| seen.insert(part.clone()));
        let mut checker = Self { nodes, root, unchecked, of_answer: false, patterns };
        checker.leave_open();
        checker.check_termination(&targets)?;
        Ok(checker)
    }

    /// Compiles the schema of an answer. The texts of faults say "field" instead of "argument".
    ///
    /// # Errors
    /// The same as [`new`](Self::new).
    pub fn of_answer(schema: &Value) -> Result<Self, UnusableSchema> {
        Ok(Self { of_answer: true, ..Self::new(schema)? })
    }

    /// Compiles the schema of a tool's arguments. If the schema lists arguments and has no rule
    /// about unlisted arguments, calls with unlisted arguments are refused.
    ///
    /// # Errors
    /// The same as [`new`](Self::new).
    pub fn of_arguments(schema: &Value) -> Result<Self, UnusableSchema> {
        let mut checker = Self::new(schema)?;
        let never = checker.nodes.len();
        let Some(root) = checker.nodes.get_mut(checker.root) else { return Ok(checker) };
        let is_alone = root.in_place().next().is_none();
        if let Some(rules) = root.object.as_deref_mut()
            && is_alone
            && rules.lists
            && rules.others.is_none()
            && rules.unevaluated.is_none()
            && rules.patterns.is_empty()
            && !rules.unread_patterns
        {
            rules.others = Some(never);
            checker.nodes.push(SchemaNode { never: true, ..SchemaNode::default() });
        }
        Ok(checker)
    }

    /// The parts of the schema that are sent to the model but not checked.
    pub fn unchecked(&self) -> &[Unchecked] {
        &self.unchecked
    }

    /// The total size of the compiled patterns, in KiB.
    pub fn pattern_size(&self) -> usize {
        self.patterns.size
    }

    /// The node at this index. If the index is invalid, returns a node that accepts every value.
    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &SchemaNode {
        static ANY: SchemaNode = SchemaNode {
            never: false,
            kinds: None,
            values: None,
            number: None,
            string: None,
            array: None,
            object: None,
            all: Vec::new(),
            choices: Vec::new(),
            not: None,
            condition: None,
            about: None,
            format: None,
            shared: false,
            unread: false,
            at: None,
        };
        self.nodes.get(id).unwrap_or(&ANY)
    }

    /// Fails if a check would not end, because a node depends on its own result for the same value.
    fn check_termination(&self, targets: &HashMap<String, NodeId>) -> Result<(), UnusableSchema> {
        let place = |id: NodeId| {
            let known = targets.iter().find(|(_, target)| **target == id);
            known.map(|(pointer, _)| pointer.as_str()).unwrap_or_default()
        };
        // The state of each node: `None` if not visited, `Some(None)` if in progress, otherwise the
        // length of the longest chain that begins at the node.
        let mut lengths: Vec<Option<Option<usize>>> = vec![None; self.nodes.len()];
        for start in 0..self.nodes.len() {
            let mut way = vec![(start, false)];
            while let Some((id, is_done)) = way.pop() {
                let Some(length) = lengths.get(id).copied() else { continue };
                if is_done {
                    let below = self.node(id).in_place().map(|next| {
                        lengths.get(next).copied().flatten().flatten().unwrap_or_default()
                    });
                    let own = below.max().unwrap_or_default() + 1;
                    if own > LONGEST_CHAIN {
                        return Err(unusable(
                            place(id),
                            format!(
                                "more than {LONGEST_CHAIN} schemas of it follow each other at one place; nest fewer of `anyOf`, `allOf` and `$ref`"
                            ),
                        ));
                    }
                    if let Some(length) = lengths.get_mut(id) {
                        *length = Some(Some(own));
                    }
                    continue;
                }
                match length {
                    Some(Some(_)) => continue,
                    Some(None) => {
                        return Err(unusable(
                            place(id),
                            "it refers to itself without going deeper into the value, so a check would \
                             not end; a schema may contain itself only below `properties` or `items`",
                        ));
                    }
                    None => {}
                }
                if let Some(length) = lengths.get_mut(id) {
                    *length = Some(None);
                }
                way.push((id, true));
                for next in self.node(id).in_place() {
                    if lengths.get(next).is_some_and(|length| !matches!(length, Some(Some(_)))) {
                        way.push((next, false));
                    }
                }
            }
        }
        Ok(())
    }
}

fn unusable(at: &str, reason: impl Into<String>) -> UnusableSchema {
    UnusableSchema { at: at.to_owned(), reason: reason.into() }
}

struct SchemaCompiler<'a> {
    schema: &'a Value,
    nodes: Vec<SchemaNode>,
    /// The node for each JSON pointer that is the target of a reference.
    targets: HashMap<String, NodeId>,
    /// Targets of references that are not compiled yet.
    waiting: Vec<(NodeId, String, &'a Value)>,
    unchecked: Vec<Unchecked>,
    /// The pointers of all `$anchor` keywords, collected when an anchor is first looked up.
    anchors: Option<HashMap<String, String>>,
    patterns: PatternCompiler,
}

impl<'a> SchemaCompiler<'a> {
    fn add(&mut self, node: SchemaNode) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn not_checked(&mut self, at: &str, keyword: &str, reason: impl Into<String>) {
        self.unchecked.push(Unchecked::new(at, keyword, reason));
    }

    /// The node for the target of a reference. The target itself is compiled later.
    fn target(&mut self, reference: &str, at: &str) -> Result<NodeId, UnusableSchema> {
        let own = self.schema.get("$id").and_then(Value::as_str);
        let local = own.and_then(|own| reference.strip_prefix(own.trim_end_matches('#')));
        let local = local.filter(|rest| rest.is_empty() || rest.starts_with('#'));
        let Some(fragment) = (match local {
            Some(rest) => Some(rest.strip_prefix('#').unwrap_or_default()),
            None => reference.strip_prefix('#'),
        }) else {
            return Err(unusable(
                at,
                format!(
                    "`$ref` names `{reference}`, which is not inside of the schema; nothing is fetched: \
                     put it under `$defs` and write `#/$defs/..`"
                ),
            ));
        };
        let missing =
            || unusable(at, format!("`$ref` names `{reference}`, and there is no such place"));
        let pointer = decoded(fragment).ok_or_else(missing)?;
        let pointer = if pointer.is_empty() || pointer.starts_with('/') {
            pointer
        } else {
            self.anchor(&pointer).ok_or_else(missing)?
        };
        if let Some(id) = self.targets.get(&pointer) {
            if let Some(node) = self.nodes.get_mut(*id) {
                node.shared = true;
            }
            return Ok(*id);
        }
        let schema = self.schema.pointer(&pointer).ok_or_else(missing)?;
        let id = self.add(SchemaNode::default());
        self.targets.insert(pointer.clone(), id);
        self.waiting.push((id, pointer, schema));
        Ok(id)
    }

    fn anchor(&mut self, name: &str) -> Option<String> {
        let schema = self.schema;
        let anchors = self.anchors.get_or_insert_with(|| {
            let mut found = HashMap::new();
            let mut places = vec![(String::new(), schema)];
            while let Some((at, place)) = places.pop() {
                match place {
                    Value::Object(map) => {
                        if let Some(Value::String(name)) = map.get("$anchor") {
                            found.insert(name.clone(), at.clone());
                        }
                        places.extend(
                            map.iter().map(|(name, it)| (format!("{at}{}", step(name)), it)),
                        );
                    }
                    Value::Array(items) => {
                        let items = items.iter().enumerate();
                        places.extend(items.map(|(index, it)| (format!("{at}/{index}"), it)));
                    }
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                }
            }
            found
        });
        anchors.get(name).cloned()
    }

    /// Compiles a part of the schema to a node.
    fn child(
        &mut self,
        schema: &'a Value,
        at: String,
        depth: usize,
    ) -> Result<NodeId, UnusableSchema> {
        let node = self.node(schema, &at, depth + 1)?;
        // If a part consists only of a reference, the node of the target is also the node of the part. If the part has
        // further rules, it gets its own node, which refers to the target.
        if let ([target], true) = (node.all.as_slice(), node.about.is_none()) {
            let target = *target;
            let alone =
                SchemaNode { all: Vec::new(), shared: false, format: None, at: None, ..node };
            if alone.is_silent() {
                return Ok(target);
            }
            return Ok(self.add(SchemaNode { all: vec![target], ..alone }));
        }
        Ok(self.add(node))
    }

    fn children(
        &mut self,
        list: &'a [Value],
        at: &str,
        depth: usize,
    ) -> Result<Vec<NodeId>, UnusableSchema> {
        let list = list.iter().enumerate();
        list.map(|(index, it)| self.child(it, format!("{at}/{index}"), depth)).collect()
    }

    fn node(
        &mut self,
        schema: &'a Value,
        at: &str,
        depth: usize,
    ) -> Result<SchemaNode, UnusableSchema> {
        if depth > DEEPEST {
            let reason = format!("the schema is nested more than {DEEPEST} levels deep");
            return Err(unusable("", reason));
        }
        let before = self.unchecked.len();
        let mut node = SchemaNode::default();
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(open) => return Ok(SchemaNode { never: !open, ..node }),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                self.not_checked(at, "schema", "it is neither an object nor a boolean");
                return Ok(SchemaNode { unread: true, ..node });
            }
        };
        for (word, value) in map {
            let place = || format!("{at}{}", step(word));
            match (word.as_str(), value) {
                ("$ref", Value::String(reference)) => {
                    let id = self.target(reference, at)?;
                    node.all.push(id);
                }
                ("type", Value::String(_) | Value::Array(_)) => {
                    node.kinds = self.kinds(value, at);
                }
                ("enum", Value::Array(list)) => {
                    let list = match map.get("const") {
                        Some(only) => list
                            .iter()
                            .filter(|it| super::number::equal(it, only))
                            .cloned()
                            .collect(),
                        None => list.clone(),
                    };
                    node.values = Some(AllowedValues::new(list));
                }
                ("const", only) if !map.contains_key("enum") => {
                    node.values = Some(AllowedValues::new(vec![only.clone()]));
                }
                ("allOf", Value::Array(list)) => {
                    let all = self.children(list, &place(), depth)?;
                    node.all.extend(all);
                }
                ("anyOf" | "oneOf", Value::Array(list)) => {
                    let ids = self.children(list, &place(), depth)?;
                    node.choices.push(ChoiceRules { ids, one: word == "oneOf" });
                }
                ("not", schema) => node.not = Some(self.child(schema, place(), depth)?),
                ("if", schema) => {
                    let test = self.child(schema, place(), depth)?;
                    let mut branch = |word: &str| {
                        map.get(word)
                            .map(|it| self.child(it, format!("{at}/{word}"), depth))
                            .transpose()
                    };
                    let (then, otherwise) = (branch("then")?, branch("else")?);
                    node.condition =
                        Some(Box::new(ConditionRules { test, is_sure: true, then, otherwise }));
                }
                ("description", Value::String(about)) => {
                    let first = about.lines().map(str::trim).find(|line| !line.is_empty());
                    node.about = first.map(Box::from);
                }
                ("format", Value::String(format)) => node.format = Some(Box::from(&**format)),
                ("$dynamicRef" | "$recursiveRef", _) => {
                    self.not_checked(
                        at,
                        word,
                        "a reference that depends on who asks is not followed",
                    );
                }
                ("$id", _) if !at.is_empty() => {
                    self.not_checked(at, word, "references below it are read from the root");
                }
                // Keywords for a single type are compiled below. The remaining keywords do not restrict values.
                _ => {}
            }
        }
        node.number = self.number(map, at);
        node.string = self.string(map, at);
        node.array = self.array(map, at, depth)?;
        node.object = self.object(map, at, depth)?;
        self.malformed(map, at);
        node.unread = self.unchecked.len() > before;
        if ["not", "if", "oneOf", "maxContains"].iter().any(|word| map.contains_key(*word)) {
            node.at = Some(Box::from(at));
        }
        Ok(node)
    }

    fn kinds(&mut self, value: &Value, at: &str) -> Option<TypeSet> {
        let names = match value {
            Value::String(one) => vec![Some(one.as_str())],
            list => list.as_array().into_iter().flatten().map(Value::as_str).collect(),
        };
        let known: Option<Vec<TypeSet>> =
            names.into_iter().map(|name| TypeSet::one(name?)).collect();
        if known.is_none() {
            self.not_checked(at, "type", format!("{value} is not of the standard"));
        }
        known.map(|known| known.into_iter().fold(TypeSet::NONE, TypeSet::and))
    }

    fn number(&mut self, map: &Map<String, Value>, at: &str) -> Option<Box<NumberRules>> {
        let limit = |word: &str| match map.get(word) {
            Some(Value::Number(number)) => Some(number.clone()),
            _ => None,
        };
        let mut rules = NumberRules {
            least: limit("minimum"),
            most: limit("maximum"),
            above: limit("exclusiveMinimum"),
            below: limit("exclusiveMaximum"),
            multiple: limit("multipleOf"),
        };
        // Before draft 6, `exclusiveMinimum` was a boolean and the limit itself was in `minimum`.
        if map.get("exclusiveMinimum") == Some(&Value::Bool(true)) {
            rules.above = rules.least.take();
        }
        if map.get("exclusiveMaximum") == Some(&Value::Bool(true)) {
            rules.below = rules.most.take();
        }
        if rules.multiple.as_ref().is_some_and(|of| of.as_f64().is_none_or(|of| of <= 0.0)) {
            rules.multiple = None;
            self.not_checked(at, "multipleOf", "it is not a number above 0");
        }
        let NumberRules { least, most, above, below, multiple } = &rules;
        let says = [least, most, above, below, multiple].into_iter().any(Option::is_some);
        says.then(|| Box::new(rules))
    }

    fn string(&mut self, map: &Map<String, Value>, at: &str) -> Option<Box<StringRules>> {
        let pattern = map.get("pattern").and_then(Value::as_str);
        let pattern = pattern.and_then(|text| match self.patterns.compile(text) {
            Ok(regex) => Some((text.to_owned(), regex)),
            Err(reason) => {
                self.not_checked(at, "pattern", format!("it {reason}"));
                None
            }
        });
        let rules = StringRules {
            shortest: count(map, "minLength"),
            longest: count(map, "maxLength"),
            pattern,
        };
        let says = rules.shortest.is_some() || rules.longest.is_some() || rules.pattern.is_some();
        says.then(|| Box::new(rules))
    }

    fn array(
        &mut self,
        map: &'a Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<Option<Box<ArrayRules>>, UnusableSchema> {
        let mut rules = ArrayRules {
            least: count(map, "minItems"),
            most: count(map, "maxItems"),
            unique: map.get("uniqueItems") == Some(&Value::Bool(true)),
            ..ArrayRules::default()
        };
        let mut says = rules.least.is_some() || rules.most.is_some() || rules.unique;
        // Before draft 2020-12, a list in `items` was for the first items, and `additionalItems`
        // was for the remaining items.
        let (first, behind) = match map.get("items") {
            Some(Value::Array(first)) => (Some(("items", first)), "additionalItems"),
            _ => (
                map.get("prefixItems").and_then(Value::as_array).map(|it| ("prefixItems", it)),
                "items",
            ),
        };
        if let Some((word, first)) = first {
            rules.first = self.children(first, &format!("{at}/{word}"), depth)?;
            says = true;
        }
        if let Some(items) = map.get(behind) {
            rules.items = Some(self.child(items, format!("{at}/{behind}"), depth)?);
            says = true;
        }
        if let Some(contained) = map.get("contains") {
            let id = self.child(contained, format!("{at}/contains"), depth)?;
            let least = count(map, "minContains").unwrap_or(1);
            rules.contains = Some((id, least, count(map, "maxContains")));
            says = true;
        }
        if let Some(others) = map.get("unevaluatedItems") {
            rules.unevaluated =
                Some(self.child(others, format!("{at}/unevaluatedItems"), depth)?);
            says = true;
        }
        Ok(says.then(|| Box::new(rules)))
    }

    fn object(
        &mut self,
        map: &'a Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<Option<Box<ObjectRules>>, UnusableSchema> {
        let mut rules = ObjectRules {
            least: count(map, "minProperties"),
            most: count(map, "maxProperties"),
            ..ObjectRules::default()
        };
        let mut says = rules.least.is_some() || rules.most.is_some();
        let required: Vec<&str> = texts(map.get("required"));
        let mut open: HashSet<&str> = required.iter().copied().collect();
        if let Some(Value::Object(properties)) = map.get("properties") {
            says = true;
            rules.lists = true;
            for (name, schema) in properties {
                let id = self.child(schema, format!("{at}/properties{}", step(name)), depth)?;
                let required = open.remove(name.as_str());
                rules.properties.push(ObjectMember { name: name.clone(), id, required });
            }
            if rules.properties.len() >= MANY {
                let names = rules.properties.iter().enumerate();
                rules.index = names.map(|(index, it)| (it.name.clone(), index)).collect();
            }
        }
        rules.required =
            required.into_iter().filter(|name| open.remove(name)).map(str::to_owned).collect();
        says |= !rules.required.is_empty();
        if let Some(Value::Object(patterns)) = map.get("patternProperties") {
            says = true;
            for (pattern, schema) in patterns {
                let place = format!("{at}/patternProperties{}", step(pattern));
                let id = self.child(schema, place, depth)?;
                match self.patterns.compile(pattern) {
                    Ok(regex) => rules.patterns.push((regex, id)),
                    Err(reason) => {
                        rules.unread_patterns = true;
                        let reason = format!("the pattern `{pattern}` {reason}");
                        self.not_checked(at, "patternProperties", reason);
                    }
                }
            }
        }
        for (word, place) in [
            ("additionalProperties", &mut rules.others),
            ("propertyNames", &mut rules.names),
            ("unevaluatedProperties", &mut rules.unevaluated),
        ] {
            if let Some(schema) = map.get(word) {
                *place = Some(self.child(schema, format!("{at}/{word}"), depth)?);
                says = true;
            }
        }
        for word in ["dependentRequired", "dependentSchemas", "dependencies"] {
            let Some(Value::Object(all)) = map.get(word) else { continue };
            for (name, needs) in all {
                says = true;
                if needs.is_array() {
                    let needed = texts(Some(needs)).into_iter().map(str::to_owned).collect();
                    rules.with.push((name.clone(), needed));
                } else {
                    let id = self.child(needs, format!("{at}/{word}{}", step(name)), depth)?;
                    rules.with_schema.push((name.clone(), id));
                }
            }
        }
        Ok(says.then(|| Box::new(rules)))
    }

    /// Reports the keywords whose values have the wrong type. The check ignores these keywords.
    fn malformed(&mut self, map: &Map<String, Value>, at: &str) {
        for (word, value) in map {
            let is_right = match word.as_str() {
                "minimum" | "maximum" | "multipleOf" => value.is_number(),
                "exclusiveMinimum" | "exclusiveMaximum" => value.is_number() || value.is_boolean(),
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
                | "maxProperties" | "minContains" | "maxContains" => whole(value).is_some(),
                "$ref" | "pattern" => value.is_string(),
                "type" => value.is_string() || value.is_array(),
                "enum" | "allOf" | "anyOf" | "oneOf" | "prefixItems" => value.is_array(),
                "required" => {
                    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
                }
                "properties" | "patternProperties" | "dependentRequired" | "dependentSchemas"
                | "dependencies" => value.is_object(),
                "uniqueItems" => value.is_boolean(),
                _ => true,
            };
            if !is_right {
                self.not_checked(
                    at,
                    word,
                    format!("its value is not what the standard says: {value:.60}"),
                );
            }
        }
    }
}

/// A non-negative integer, which may be written as a float such as `3.0`.
fn whole(value: &Value) -> Option<u64> {
    let Value::Number(number) = value else { return None };
    number.as_u64().or_else(|| super::number::written_as_float(number)?.try_into().ok())
}

fn count(map: &Map<String, Value>, word: &str) -> Option<u64> {
    whole(map.get(word)?)
}

fn texts(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The percent-decoded fragment of a reference. `None` if the encoding is invalid.
fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, behind) = behind.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}
