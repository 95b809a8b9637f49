//! The strict form of a schema. The vendor enforces this form while the model writes. Vendors
//! support different keywords. Unsupported rules are moved to the description. Calls are always
//! checked against the original schema.

use std::{collections::HashSet, fmt};

use serde_json::{Map, Value, json};

use super::{
    derive::ToolSchema,
    fault::step,
    limits::{in_words, said_of},
    node::TypeSet,
    pattern::PatternCompiler,
    short::in_short,
    strict_size::{SchemaSize, StrictBudget},
};

/// A vendor's strict form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StrictForm {
    /// Anthropic's strict tools.
    Anthropic,
    /// OpenAI's strict functions, in both of OpenAI's APIs.
    OpenAI,
    /// The subset of JSON Schema that Gemini accepts. Gemini does not enforce this subset.
    Gemini,
    /// A small common subset, for servers that accept OpenAI's form but do not document which keywords they support.
    Common,
}

/// The reason why a schema has no strict form.
///
/// ```
/// use harness::{tool, tool::StrictForm};
///
/// use std::collections::BTreeMap;
///
/// /// Sets headers.
/// #[tool(side_effects = "none")]
/// fn set(/** by name */ headers: BTreeMap<String, String>) {}
///
/// let reason = set::TOOL.schema().strict(StrictForm::OpenAI).unwrap_err();
/// assert_eq!(reason.to_string(), "`/properties/headers` takes any key");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStrict {
    /// The JSON pointer to the part without a strict form; empty for the whole schema.
    pointer: String,
    reason: String,
}

impl NotStrict {
    pub(super) fn new(pointer: &str, reason: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for NotStrict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, reason } = self;
        if pointer.is_empty() { f.write_str(reason) } else { write!(f, "`{pointer}` {reason}") }
    }
}

impl std::error::Error for NotStrict {}

impl ToolSchema {
    /// The schema in the form that the vendor enforces: all objects are closed, and unsupported rules are in the
    /// descriptions. A call that follows this form has the structure of the original schema.
    ///
    /// # Errors
    /// [`NotStrict`] with the place, if the schema contains a map with arbitrary keys, a tuple, a value of any type,
    /// several schemas for one value, or an invalid type or reference. Also fails if the schema exceeds a limit of the
    /// vendor, or has a recursive type that the vendor does not support.
    ///
    /// ```
    /// use harness::{tool, tool::StrictForm};
    /// use serde_json::json;
    ///
    /// /// Lists.
    /// #[tool(side_effects = "read")]
    /// fn list(/** How many. */ #[param(default = 10, range(1..=99))] limit: u32) {}
    ///
    /// let strict = list::TOOL.schema().strict(StrictForm::OpenAI)?;
    /// assert_eq!(strict["required"], json!(["limit"]));
    /// assert_eq!(strict["properties"]["limit"]["type"], json!(["integer", "null"]));
    /// assert_eq!(strict["properties"]["limit"]["maximum"], 99);
    ///
    /// let strict = list::TOOL.schema().strict(StrictForm::Anthropic)?;
    /// let limit = &strict["properties"]["limit"];
    /// assert_eq!(limit["description"], "How many. At least 1, at most 99. Default: 10.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strict(&self, form: StrictForm) -> Result<Value, NotStrict> {
        let mut writer = StrictWriter::new(form, &self.input_schema);
        let mut schema = self.input_schema.clone();
        writer.root(&mut schema)?;
        form.check_limits(&schema)?;
        Ok(schema)
    }
}

impl StrictForm {
    /// The strict forms of the tools of one request, in order. Vendors limit the strict tools of a request. A tool
    /// above a limit gets no strict form.
    pub fn of_all(self, tools: &[ToolSchema]) -> Vec<Result<Value, NotStrict>> {
        let mut left = self.budget();
        let forms = tools.iter().map(|tool| {
            let form = tool.strict(self)?;
            if let Some(left) = &mut left {
                left.take(&form)?;
            }
            Ok(form)
        });
        forms.collect()
    }

    /// The limits for all strict tools of a request. Sources: Anthropic's documentation of strict tool use, and
    /// Anthropic's error messages.
    const fn budget(self) -> Option<StrictBudget> {
        match self {
            Self::Anthropic => Some(StrictBudget { tools: 20, optional: 24, unions: 16 }),
            Self::OpenAI | Self::Gemini | Self::Common => None,
        }
    }

    /// The schema with only the keywords that the vendor supports, for a vendor that refuses
    /// unsupported keywords. Parts without a strict form are shortened. `None` if the schema does
    /// not describe a single object.
    pub fn readable(self, source: &Value) -> Option<Value> {
        let mut schema = source.clone();
        let mut writer = StrictWriter::new(self, source);
        writer.in_short = true;
        writer.root(&mut schema).ok()?;
        Some(schema)
    }

    /// Whether the vendor enforces this form.
    pub const fn is_held(self) -> bool {
        !matches!(self, Self::Gemini)
    }

    /// Checks the vendor's limits for one schema. Source: OpenAI's documentation of structured
    /// outputs.
    fn check_limits(self, schema: &Value) -> Result<(), NotStrict> {
        if self != Self::OpenAI {
            return Ok(());
        }
        let size = SchemaSize::of(schema, 1);
        let limits = [
            (size.properties, 5_000, "properties"),
            (size.levels, 10, "levels of objects"),
            (size.values, 1_000, "values of `enum`"),
            (size.characters, 120_000, "characters of names and values"),
        ];
        match limits.into_iter().find(|(found, most, _)| found > most) {
            Some((found, most, what)) => {
                Err(NotStrict::new("", format!("has {found} {what}, and the vendor takes {most}")))
            }
            None => Ok(()),
        }
    }

    /// The limiting keywords that the vendor supports.
    const fn kept(self) -> &'static [&'static str] {
        match self {
            Self::OpenAI => &[
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "multipleOf",
                "pattern",
                "minItems",
                "maxItems",
            ],
            Self::Gemini => {
                &["minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems"]
            }
            Self::Anthropic | Self::Common => &[],
        }
    }

    /// Whether the vendor accepts this value of `format`.
    fn is_kept_format(self, format: &str) -> bool {
        match self {
            Self::Anthropic => FORMATS.contains(&format) || format == "uri",
            Self::OpenAI => FORMATS.contains(&format),
            Self::Gemini | Self::Common => false,
        }
    }

    /// Whether an optional member may be missing. Otherwise the member must be present and may be `null`.
    const fn can_omit(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }
}

/// Keywords without rules for values. `nullable` is not part of JSON Schema.
const SILENT: [&str; 10] = [
    "title",
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "deprecated",
    "readOnly",
    "writeOnly",
    "definitions",
    "nullable",
];

/// The values of `format` that OpenAI accepts. Anthropic accepts more.
pub(super) const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Keywords that cannot be removed without changing the meaning of the schema. Each has the reason why a schema with
/// this keyword is refused.
const REFUSED: [(&str, &str); 7] = [
    ("patternProperties", "takes any key of a pattern"),
    ("prefixItems", "is a tuple"),
    ("additionalItems", "is a tuple"),
    ("dependencies", "depends on a condition"),
    ("unevaluatedItems", "depends on other schemas"),
    ("$dynamicRef", "depends on who refers to it"),
    ("$recursiveRef", "depends on who refers to it"),
];

/// The maximum nesting depth of a strict form, the same as for compiled schemas.
const DEEPEST: usize = 128;

/// The maximum number of parts of a schema, counted as if each reference were replaced by its
/// target.
const MOST_PARTS: usize = 5_000;

/// Writes one strict form.
struct StrictWriter<'a> {
    form: StrictForm,
    /// The original schema, in which references are resolved.
    source: &'a Value,
    /// The targets of references, sorted. The definitions of the form have the same stable order,
    /// so that the vendor's cache recognizes the beginning of the request.
    referred: Vec<String>,
    parts: usize,
    /// The depth of the current part.
    depth: usize,
    /// Whether parts without a strict form are shortened. Otherwise such a part is an error.
    in_short: bool,
    patterns: PatternCompiler,
}

impl<'a> StrictWriter<'a> {
    fn new(form: StrictForm, source: &'a Value) -> Self {
        let (referred, patterns) = Default::default();
        Self { form, source, referred, parts: 0, depth: 0, in_short: false, patterns }
    }

    fn root(&mut self, schema: &mut Value) -> Result<(), NotStrict> {
        let refuse = |reason: &str| Err(NotStrict::new("/", reason));
        let Value::Object(map) = schema else { return refuse("is not the schema of an object") };
        if !is(map, "object") || map.contains_key("$ref") || map.contains_key("anyOf") {
            return refuse("is not the schema of one object");
        }
        let definitions = map.shift_remove("$defs");
        let old = map.shift_remove("definitions");
        self.close(schema, "")?;
        let has_recursion = self.referred.iter().any(|name| !name.starts_with("#/$defs/"));
        if has_recursion && old.is_some() {
            return refuse("keeps its definitions in `definitions`; call them `$defs`");
        }
        let mut kept = Map::new();
        let Some(Value::Object(mut definitions)) = definitions else { return Ok(()) };
        // A definition may refer to further definitions.
        loop {
            let next = self.referred.iter().find_map(|name| {
                let name = name.strip_prefix("#/$defs/")?.replace("~1", "/").replace("~0", "~");
                (!kept.contains_key(&name)).then_some(name)
            });
            let Some(name) = next else { break };
            let mut definition = definitions.shift_remove(&name).unwrap_or_default();
            self.close(&mut definition, &format!("/$defs{}", step(&name)))?;
            kept.insert(name, definition);
        }
        if let (Value::Object(map), false) = (schema, kept.is_empty()) {
            map.insert("$defs".to_owned(), Value::Object(kept));
        }
        Ok(())
    }

    fn close(&mut self, schema: &mut Value, pointer: &str) -> Result<(), NotStrict> {
        if self.depth >= DEEPEST {
            if self.in_short {
                *schema = in_short(self.source, schema);
                return Ok(());
            }
            return Err(NotStrict::new(pointer, "is nested too deeply"));
        }
        self.depth += 1;
        let before = self.in_short.then(|| schema.clone());
        let mut closed = self.close_part(schema, pointer);
        if let (Some(before), true) = (before, closed.is_err()) {
            *schema = in_short(self.source, &before);
            closed = Ok(());
        }
        self.depth -= 1;
        closed
    }

    fn close_part(&mut self, schema: &mut Value, pointer: &str) -> Result<(), NotStrict> {
        let refuse = |reason: &str| Err(NotStrict::new(pointer, reason));
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return refuse("is a part of a schema that is too large");
        }
        let Value::Object(map) = schema else { return refuse("takes any value") };
        for word in SILENT {
            map.shift_remove(word);
        }
        if map.contains_key("$ref") {
            return self.refer(schema, pointer);
        }
        self.unwrap(map, pointer)?;
        if let Some((_, reason)) = REFUSED.iter().find(|(word, _)| map.contains_key(*word)) {
            return refuse(reason);
        }
        if map.get("type").is_some_and(|kinds| !is_of_the_standard(kinds)) {
            return refuse("has a type that is not of the standard");
        }
        self.values(map, pointer)?;
        self.words(map, pointer)?;
        if let Some(choices) = map.shift_remove("oneOf")
            && map.insert("anyOf".to_owned(), choices).is_some()
        {
            return refuse("joins several schemas");
        }
        if map.contains_key("anyOf")
            && (map.contains_key("properties") || map.contains_key("items"))
        {
            return refuse("joins several schemas");
        }
        if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
            for (index, choice) in choices.iter_mut().enumerate() {
                self.close(choice, &format!("{pointer}/anyOf/{index}"))?;
            }
            // A type that all choices have is not repeated beside the choices.
            if let Some(kinds) = map.shift_remove("type")
                && !choices_are(map, &kinds)
            {
                return refuse("joins several schemas");
            }
        } else if !map.contains_key("enum") && !map.contains_key("type") {
            return refuse("takes any value");
        }
        if is(map, "object") {
            self.object(map, pointer)?;
        }
        if is(map, "array") {
            match map.get_mut("items") {
                Some(items @ Value::Object(_)) => self.close(items, &format!("{pointer}/items"))?,
                _ => return refuse("is a list of anything"),
            }
        }
        let (is_object, is_array) = (is(map, "object"), is(map, "array"));
        self.kinds(map);
        // A vendor refuses the whole request if it contains an unknown keyword.
        map.retain(|word, value| match word.as_str() {
            "properties" | "required" | "additionalProperties" => is_object,
            "items" => is_array,
            "type" | "enum" | "anyOf" => true,
            "nullable" => self.form == StrictForm::Gemini,
            // Unsupported values of these keywords are already in the description.
            "description" | "format" | "pattern" => value.is_string(),
            "minItems" => value.is_number(),
            word => self.form.kept().contains(&word) && value.is_number(),
        });
        Ok(())
    }

    /// Keeps a reference if the vendor supports it; otherwise replaces it by its target.
    fn refer(&mut self, schema: &mut Value, pointer: &str) -> Result<(), NotStrict> {
        let refuse = |reason: &str| Err(NotStrict::new(pointer, reason));
        let Value::Object(map) = schema else { return refuse("takes any value") };
        let name = map.get("$ref").and_then(Value::as_str).unwrap_or_default().to_owned();
        let only =
            |word: &String| ["$ref", "description", "default", "examples"].contains(&word.as_str());
        if !map.keys().all(only) {
            return refuse("joins several schemas");
        }
        let target = name.strip_prefix('#').and_then(|place| self.source.pointer(place));
        let Some(target) = target else { return refuse("refers to what is not there") };
        let recursive = is_recursive(self.source, &name);
        let stays = self.form == StrictForm::OpenAI && recursive;
        if recursive && !stays {
            return refuse("contains itself");
        }
        self.words(map, pointer)?;
        if stays {
            if !name.starts_with("#/$defs/") {
                return refuse("contains itself, outside of `$defs`");
            }
            if let Err(place) = self.referred.binary_search(&name) {
                self.referred.insert(place, name.clone());
            }
            if map.len() > 1 {
                map.shift_remove("$ref");
                map.insert("anyOf".to_owned(), json!([{ "$ref": name }]));
            }
            return Ok(());
        }
        let mut copy = target.clone();
        if let (Value::Object(copy), Some(about)) = (&mut copy, map.shift_remove("description")) {
            copy.insert("description".to_owned(), about);
        }
        self.close(&mut copy, pointer)?;
        *schema = copy;
        Ok(())
    }

    /// Replaces an `allOf` with a single schema by that schema.
    fn unwrap(&mut self, map: &mut Map<String, Value>, pointer: &str) -> Result<(), NotStrict> {
        let joins = || NotStrict::new(pointer, "joins several schemas");
        let Some(all) = map.shift_remove("allOf") else { return Ok(()) };
        let Value::Array(mut all) = all else { return Err(joins()) };
        let Some(Value::Object(only)) = all.pop().filter(|_| all.is_empty()) else {
            return Err(joins());
        };
        for (word, value) in only {
            if word == "description" && map.contains_key("description") {
                continue;
            }
            if word == "$ref" || map.insert(word, value).is_some() {
                return Err(joins());
            }
        }
        Ok(())
    }

    /// Replaces `const` by an `enum` with one value. Refuses values that are lists or objects.
    fn values(&mut self, map: &mut Map<String, Value>, pointer: &str) -> Result<(), NotStrict> {
        if let Some(value) = map.shift_remove("const") {
            map.insert("enum".to_owned(), json!([value]));
        }
        let Some(Value::Array(values)) = map.get("enum") else { return Ok(()) };
        if values.iter().any(|value| value.is_array() || value.is_object()) {
            return Err(NotStrict::new(pointer, "is one of several lists or objects"));
        }
        let kind = |value: &Value| match value {
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Null => "null",
            Value::Number(number) if number.is_f64() => "number",
            _ => "integer",
        };
        let mut kinds: Vec<&str> = values.iter().map(kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let are_texts = kinds == ["string"];
        if !map.contains_key("type") {
            let kinds = match kinds.as_slice() {
                [one] => json!(one),
                several => json!(several),
            };
            map.insert("type".to_owned(), kinds);
        }
        // Gemini accepts only texts in `enum`.
        if self.form == StrictForm::Gemini
            && !are_texts
            && let Some(Value::Array(values)) = map.shift_remove("enum")
        {
            let listed: Vec<String> = values.iter().map(Value::to_string).collect();
            said_of(map, &format!("One of {}", listed.join(", ")));
        }
        Ok(())
    }

    /// Moves rules that the vendor does not support into the description.
    fn words(&mut self, map: &mut Map<String, Value>, pointer: &str) -> Result<(), NotStrict> {
        let Self { form, patterns, .. } = self;
        let mut kept = |word: &str, value: &Value| match word {
            "format" => value.as_str().is_some_and(|format| form.is_kept_format(format)),
            // A pattern that the vendor's engine cannot compile would make the vendor refuse the
            // whole request.
            "pattern" if form.kept().contains(&word) => {
                value.as_str().is_some_and(|it| patterns.compile(it).is_ok())
            }
            "minItems" if *form == StrictForm::Anthropic => {
                value.as_u64().is_some_and(|least| least <= 1)
            }
            word => form.kept().contains(&word) && value.is_number(),
        };
        let said = in_words(map, &mut kept).map_err(|word| {
            NotStrict::new(pointer, format!("has a `{word}` that is too long to be told in words"))
        })?;
        if !said.is_empty() {
            said_of(map, &said);
        }
        Ok(())
    }

    fn object(&mut self, map: &mut Map<String, Value>, pointer: &str) -> Result<(), NotStrict> {
        let says_others = ["additionalProperties", "unevaluatedProperties"];
        let open = says_others
            .iter()
            .any(|word| map.get(*word).is_some_and(|it| *it != Value::Bool(false)));
        if open || !map.contains_key("properties") && !pointer.is_empty() {
            return Err(NotStrict::new(pointer, "takes any key"));
        }
        map.shift_remove("unevaluatedProperties");
        let required: Vec<String> = match map.get("required") {
            Some(Value::Array(names)) => {
                names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        };
        let mut names = Vec::new();
        if !map.contains_key("properties") {
            map.insert("properties".to_owned(), json!({}));
        }
        if let Some(Value::Object(properties)) = map.get_mut("properties") {
            if let Some(missing) = required.iter().find(|name| !properties.contains_key(*name)) {
                let reason = format!("requires `{missing}`, which it does not describe");
                return Err(NotStrict::new(pointer, reason));
            }
            for (name, property) in properties.iter_mut() {
                let optional = !required.contains(name);
                if optional && self.form.can_omit() {
                    without_null(property);
                }
                self.close(property, &format!("{pointer}/properties{}", step(name)))?;
                if optional && !self.form.can_omit() {
                    or_null(property);
                }
                if !optional || !self.form.can_omit() {
                    names.push(Value::String(name.clone()));
                }
            }
        }
        map.insert("required".to_owned(), Value::Array(names));
        if self.form == StrictForm::Gemini {
            map.shift_remove("additionalProperties");
        } else {
            map.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        Ok(())
    }

    /// Rewrites lists of types, which Gemini does not support: `null` becomes the keyword `nullable`, and several types
    /// become choices.
    fn kinds(&self, map: &mut Map<String, Value>) {
        if self.form != StrictForm::Gemini {
            return;
        }
        if let Some(Value::Array(kinds)) = map.get("type") {
            let mut kinds = kinds.clone();
            let before = kinds.len();
            kinds.retain(|kind| kind != "null");
            // Gemini's `enum` contains only texts, so a value with an `enum` cannot be `null`.
            if kinds.len() < before && !map.contains_key("enum") {
                map.insert("nullable".to_owned(), Value::Bool(true));
            }
            match kinds.as_slice() {
                [one] => map.insert("type".to_owned(), one.clone()),
                several => {
                    let choices = several.iter().map(|kind| json!({ "type": kind })).collect();
                    map.shift_remove("type");
                    map.insert("anyOf".to_owned(), Value::Array(choices))
                }
            };
        }
        if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
            let before = choices.len();
            choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
            if choices.len() < before {
                map.insert("nullable".to_owned(), Value::Bool(true));
            }
        }
    }
}

/// Whether the target of a reference refers to itself, directly or through other references.
fn is_recursive(source: &Value, reference: &str) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![reference.to_owned()];
    while let Some(name) = open.pop() {
        let Some(target) = name.strip_prefix('#').and_then(|place| source.pointer(place)) else {
            continue;
        };
        let mut parts = vec![target];
        while let Some(part) = parts.pop() {
            match part {
                Value::Object(map) => {
                    if let Some(Value::String(next)) = map.get("$ref") {
                        // A reference to a part that contains the current part is recursive, too.
                        if reference == next || reference.starts_with(&format!("{next}/")) {
                            return true;
                        }
                        if seen.insert(next.clone()) {
                            open.push(next.clone());
                        }
                    }
                    parts.extend(map.values());
                }
                Value::Array(items) => parts.extend(items),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }
    false
}

/// Whether these are valid types of JSON Schema.
fn is_of_the_standard(kinds: &Value) -> bool {
    let is_one = |kind: &Value| kind.as_str().is_some_and(|kind| TypeSet::NAMES.contains(&kind));
    match kinds {
        Value::Array(several) => !several.is_empty() && several.iter().all(is_one),
        one => is_one(one),
    }
}

/// Whether every choice has one of these types.
fn choices_are(map: &Map<String, Value>, kinds: &Value) -> bool {
    let of = |kinds: &Value| match kinds {
        Value::Array(several) => several.clone(),
        one => vec![one.clone()],
    };
    let outer = of(kinds);
    let is_one = |kind: &Value| {
        outer.contains(kind) || kind == "integer" && outer.contains(&"number".into())
    };
    let choices = map.get("anyOf").and_then(Value::as_array);
    choices.into_iter().flatten().all(|choice| {
        choice.get("type").is_some_and(|kinds| of(kinds).iter().all(is_one))
            && (choice.get("nullable").is_none() || outer.contains(&"null".into()))
    })
}

/// Whether the schema allows this type, alone or among other types.
pub(super) fn is(map: &Map<String, Value>, kind: &str) -> bool {
    match map.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Allows the model to write `null` for a member instead of omitting the member.
fn or_null(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let null = || Value::String("null".to_owned());
    if let Some(reference) = map.shift_remove("$ref") {
        map.insert("anyOf".to_owned(), json!([{ "$ref": reference }]));
    }
    match map.get_mut("type") {
        Some(Value::Array(kinds)) if kinds.contains(&null()) => {}
        Some(Value::Array(kinds)) => kinds.push(null()),
        Some(kind) if *kind == null() => {}
        Some(kind) => *kind = json!([kind, "null"]),
        None => {}
    }
    if let Some(Value::Array(names)) = map.get_mut("enum")
        && !names.contains(&Value::Null)
    {
        names.push(Value::Null);
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        let takes_null = |choice: &Value| match choice {
            Value::Object(map) => is(map, "null"),
            _ => false,
        };
        if !choices.iter().any(takes_null) {
            choices.push(json!({"type": "null"}));
        }
    }
}

/// Removes the type `null` from an optional member, because a vendor limits the number of members
/// with several types.
fn without_null(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if let Some(Value::Array(kinds)) = map.get_mut("type")
        && kinds.len() > 1
    {
        kinds.retain(|kind| kind != "null");
        if let [one] = kinds.as_slice() {
            let one = one.clone();
            map.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(names)) = map.get_mut("enum")
        && names.len() > 1
    {
        names.retain(|name| !name.is_null());
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf")
        && choices.len() > 1
    {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [only] = choices.as_mut_slice()
            && let Value::Object(only) = only.take()
        {
            map.shift_remove("anyOf");
            for (word, value) in only {
                if word != "description" || !map.contains_key("description") {
                    map.insert(word, value);
                }
            }
        }
    }
}
