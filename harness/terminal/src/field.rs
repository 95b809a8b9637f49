//! One field of a form: how it is shown, and how a typed line is parsed.

use harness_schema::SchemaChecker;
use serde_json::{Map, Number, Value};

use super::{
    secrets::{has_words_of_a_secret, is_secret_name},
    sheet::{RowSheet, RowStyle},
};

/// The input that means an empty text.
const EMPTY: &str = "\"\"";

/// The input that means an empty list.
const NONE: &str = "-";

/// The maximum number of bytes in a line from a terminal. A line of this length may have been cut.
const LINE: usize = 4095;

/// The error for a line that may be a mistyped command.
const SLASH: &str = "a line that begins with a slash is a command: /back, /decline or /cancel; type // for a text that begins with a slash";

/// The warning for a field that seems to request a secret.
pub(super) const SECRET: &str = "Warning: this seems to ask for a secret. A form must not. What you type stands on the \
                                 screen, and the requester gets it.";

/// A field of a form, and the value that was entered.
#[derive(Clone, Debug)]
pub(super) struct FormField {
    name: String,
    is_required: bool,
    schema: Value,
    kind: FieldKind,
    /// The entered value, or `None` for a field without a value.
    given: Option<Value>,
    /// The positions of the entered choices, because two choices may have the same value.
    places: Vec<usize>,
}

/// The kind of value that a field takes.
#[derive(Clone, Debug)]
enum FieldKind {
    Text,
    Number,
    Truth,
    One(Vec<FieldChoice>),
    Several(Vec<FieldChoice>),
    /// Any other value, which is entered as JSON.
    Json,
}

/// A value that a person can choose.
#[derive(Clone, Debug)]
struct FieldChoice {
    value: Value,
    title: Option<String>,
}

/// The fields of a form, in the order of its schema.
pub(super) fn fields(schema: &Value) -> Vec<FormField> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let field = |(name, schema): (&String, &Value)| FormField {
        name: name.clone(),
        is_required: required.contains(&name.as_str()),
        schema: schema.clone(),
        kind: FieldKind::of(schema),
        given: None,
        places: Vec::new(),
    };
    properties.map(field).collect()
}

impl FieldKind {
    fn of(schema: &Value) -> Self {
        if let Some(choices) = choices(schema) {
            return Self::One(choices);
        }
        match schema["type"].as_str() {
            Some("string") => Self::Text,
            Some("number" | "integer") => Self::Number,
            Some("boolean") => Self::Truth,
            Some("array") => choices(&schema["items"]).map_or(Self::Json, Self::Several),
            _ => Self::Json,
        }
    }
}

/// The choices in a schema, with their titles, or `None` for a schema without choices.
fn choices(schema: &Value) -> Option<Vec<FieldChoice>> {
    if let Some(values) = schema["enum"].as_array() {
        let title = |at: usize| schema["enumNames"].get(at).and_then(Value::as_str);
        let choice = |(at, value): (usize, &Value)| FieldChoice {
            value: value.clone(),
            title: title(at).map(str::to_owned),
        };
        return Some(values.iter().enumerate().map(choice).collect());
    }
    let listed = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array())?;
    let choice = |it: &Value| {
        let title = it["title"].as_str().map(str::to_owned);
        Some(FieldChoice { value: it.get("const")?.clone(), title })
    };
    listed.iter().map(choice).collect()
}

impl FormField {
    /// The value of a keyword of the schema, if it is a string.
    fn word(&self, member: &str) -> Option<&str> {
        self.schema.get(member)?.as_str()
    }

    /// The default value in the schema, if this value is valid.
    fn default(&self) -> Option<&Value> {
        self.schema.get("default").filter(|value| self.faults(value).is_empty())
    }

    /// Adds the requester's description of the field, with a bar on each row, and then the program's instruction,
    /// without a bar.
    pub(super) fn tell(&self, sheet: &mut RowSheet) {
        sheet.line("field", &self.name);
        if let Some(title) = self.word("title") {
            sheet.line("titled", title);
        }
        if let Some(description) = self.word("description") {
            sheet.text("about", description, |_| RowStyle::Plain);
        }
        self.tell_limits(sheet);
        if let FieldKind::One(choices) | FieldKind::Several(choices) = &self.kind {
            for (place, choice) in choices.iter().enumerate() {
                sheet.line(&format!("[{}]", place + 1), &choice.description());
            }
        }
        if let Some(default) = self.default() {
            self.tell_value(sheet, "default", default, &[]);
        }
        if let Some(given) = &self.given {
            self.tell_value(sheet, "given", given, &self.places);
        }
        let title = self.word("title").unwrap_or_default();
        let about = self.word("description").unwrap_or_default();
        sheet.own(&self.wanted());
        if is_secret_name(&self.name) || is_secret_name(title) || has_words_of_a_secret(about) {
            sheet.own(SECRET);
        }
    }

    /// Describes what Enter does on an empty line.
    pub(super) fn enter(&self) -> &'static str {
        match (&self.given, self.default(), self.is_required) {
            (Some(_), ..) => "[Enter] keeps what you gave",
            (None, Some(_), _) => "[Enter] takes the default",
            (None, None, false) => "[Enter] leaves it out",
            (None, None, true) => "it must be given",
        }
    }

    /// Parses a typed line and stores it as the value of the field.
    ///
    /// # Errors
    /// Fails with all faults of the line, as texts for the person.
    pub(super) fn take(&mut self, line: &str) -> Result<(), Vec<String>> {
        if line.len() >= LINE {
            return Err(vec![format!("a terminal takes {} bytes in a line", LINE - 1)]);
        }
        match line.is_empty() {
            false => {
                let (value, places) = self.read(line)?;
                (self.given, self.places) = (Some(value), places);
            }
            true if self.given.is_some() => {}
            true => {
                self.places.clear();
                self.given = self.default().cloned();
                if self.given.is_none() && self.is_required {
                    return Err(vec!["this field must be given".to_owned()]);
                }
            }
        }
        Ok(())
    }

    /// Adds the value that will be sent, or a note that the field is left out.
    pub(super) fn tell_given(&self, sheet: &mut RowSheet) {
        sheet.line("field", &self.name);
        match &self.given {
            Some(value) => self.tell_value(sheet, "value", value, &self.places),
            None => sheet.line("left out", ""),
        }
    }

    /// Adds a value of this field. `places` lists the positions of the typed choices.
    fn tell_value(&self, sheet: &mut RowSheet, label: &str, value: &Value, places: &[usize]) {
        let told = |value: &Value, typed: Option<&usize>| match &self.kind {
            FieldKind::One(choices) | FieldKind::Several(choices) => {
                let first = || choices.iter().position(|choice| choice.value == *value);
                let place = typed.copied().or_else(first)?;
                // The title follows the number, so the title cannot be mistaken for another part of the row.
                Some(format!("[{}] {}", place + 1, choices.get(place)?.description()))
            }
            _ => None,
        };
        match value {
            Value::Array(items) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    let told = told(item, places.get(at));
                    sheet.line(label, &told.unwrap_or_else(|| item.to_string()));
                }
            }
            Value::Array(_) => sheet.line(label, "[]"),
            value => match (told(value, places.first()), value) {
                (Some(told), _) => sheet.line(label, &told),
                (None, Value::String(text)) => sheet.text(label, text, |_| RowStyle::Plain),
                (None, value) => sheet.line(label, &value.to_string()),
            },
        }
    }

    /// The program's instruction that tells the person what to type.
    fn wanted(&self) -> String {
        let is_integer = self.word("type") == Some("integer");
        match &self.kind {
            FieldKind::Text => format!(
                "Type a text. {EMPTY} is an empty one, and // begins one that starts with a slash."
            ),
            FieldKind::Number if is_integer => "Type a whole number.".to_owned(),
            FieldKind::Number => "Type a number.".to_owned(),
            FieldKind::Truth => "Type yes or no.".to_owned(),
            FieldKind::One(_) => "Type the number of one of these.".to_owned(),
            FieldKind::Several(_) => {
                format!("Type the numbers of some of these, with spaces between. {NONE} is none.")
            }
            FieldKind::Json => "Type a value as JSON.".to_owned(),
        }
    }

    /// Adds the limits in the schema, each with its name.
    fn tell_limits(&self, sheet: &mut RowSheet) {
        let limits = [
            "format",
            "pattern",
            "minLength",
            "maxLength",
            "minimum",
            "maximum",
            "minItems",
            "maxItems",
        ];
        let set = limits.iter().filter_map(|name| Some((name, self.schema.get(*name)?)));
        for (name, limit) in set {
            match limit {
                Value::String(limit) => sheet.line("limit", &format!("{name}: {limit}")),
                limit => sheet.line("limit", &format!("{name}: {limit}")),
            }
        }
    }

    /// Parses a typed line. Returns the value and the positions of the typed choices.
    ///
    /// # Errors
    /// Fails with all faults of the line, as texts for the person.
    fn read(&self, line: &str) -> Result<(Value, Vec<usize>), Vec<String>> {
        let typed = line.trim();
        let mut places = Vec::new();
        let wrong = |text: &str| Err(vec![text.to_owned()]);
        let value = match &self.kind {
            FieldKind::Text if typed == EMPTY => Value::from(""),
            FieldKind::Text => {
                if line.chars().any(char::is_control) {
                    return wrong("a key was pressed that is not a character; type it again");
                }
                match line.strip_prefix('/') {
                    None => Value::from(line),
                    Some(text) if text.starts_with('/') => Value::from(text),
                    Some(_) => return wrong(SLASH),
                }
            }
            FieldKind::Number => match serde_json::from_str::<Number>(typed) {
                Ok(number) => Value::Number(number),
                Err(_) => return wrong("it is not a number, such as 17 or -2.5"),
            },
            FieldKind::Truth => match typed.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Value::Bool(true),
                "n" | "no" | "false" => Value::Bool(false),
                _ => return wrong("it is neither yes nor no"),
            },
            FieldKind::One(choices) => match chosen(choices, typed) {
                Some((place, value)) => {
                    places.push(place);
                    value
                }
                None => return wrong("none of these has this number; type the one in brackets"),
            },
            FieldKind::Several(_) if typed == NONE => Value::Array(Vec::new()),
            FieldKind::Several(choices) => {
                let typed = typed.split([' ', ',']).filter(|word| !word.is_empty());
                let mut all: Vec<Value> = Vec::new();
                for word in typed {
                    match chosen(choices, word) {
                        Some((place, value)) if !all.contains(&value) => {
                            places.push(place);
                            all.push(value);
                        }
                        Some(_) => {}
                        None => return wrong("one of these numbers is not in the list"),
                    }
                }
                Value::Array(all)
            }
            FieldKind::Json => match serde_json::from_str(typed) {
                Ok(value) => value,
                Err(err) => return Err(vec![format!("it is not JSON: {err}")]),
            },
        };
        let faults = self.faults(&value);
        if faults.is_empty() { Ok((value, places)) } else { Err(faults) }
    }

    /// The faults of a value according to the schema. If the schema cannot be compiled, this function returns no
    /// faults, and only the requester checks the value.
    fn faults(&self, value: &Value) -> Vec<String> {
        let Ok(checker) = SchemaChecker::new(&self.schema) else { return Vec::new() };
        checker.faults(value).iter().map(ToString::to_string).collect()
    }
}

impl FieldChoice {
    fn description(&self) -> String {
        let value = match &self.value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        match &self.title {
            Some(title) if *title != value => format!("{title} ({value})"),
            _ => value,
        }
    }
}

/// The position and the value of the choice whose number was typed.
fn chosen(choices: &[FieldChoice], typed: &str) -> Option<(usize, Value)> {
    let place = typed.parse::<usize>().ok()?.checked_sub(1)?;
    choices.get(place).map(|choice| (place, choice.value.clone()))
}

/// The entered values, as the object that the form describes.
pub(super) fn object(fields: Vec<FormField>) -> Map<String, Value> {
    fields.into_iter().filter_map(|field| Some((field.name, field.given?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{FormField, RowSheet, fields};

    fn field(schema: &Value) -> FormField {
        let schema = json!({"type": "object", "properties": {"it": schema}, "required": ["it"]});
        fields(&schema).remove(0)
    }

    fn shown(tell: impl Fn(&mut RowSheet)) -> String {
        let mut sheet = RowSheet::new(80);
        tell(&mut sheet);
        sheet.rows.into_iter().map(|row| row.text + "\n").collect()
    }

    #[test]
    fn a_line_that_may_be_a_mistyped_command_is_no_value() {
        for typed in ["/", "/etc/passwd", "/Decline", "/declin", "/cancel it", "/no", "/ x"] {
            let mut path = field(&json!({"type": "string"}));
            let faults = path.take(typed).expect_err(typed);
            assert!(faults[0].contains("type // for a text"), "{faults:?}");
            assert_eq!(path.given, None, "{typed}");
        }
        for (typed, value) in
            [("//", "/"), ("//etc", "/etc"), ("///x", "//x"), (" /etc", " /etc"), ("a/b", "a/b")]
        {
            let mut path = field(&json!({"type": "string"}));
            path.take(typed).expect(typed);
            assert_eq!(path.given, Some(value.into()), "{typed}");
        }
    }

    #[test]
    fn the_choice_that_was_typed_is_shown_though_another_one_has_its_value() {
        let mut one =
            field(&json!({"enum": ["a", "b", "a"], "enumNames": ["No", "Yes", "Delete"]}));
        one.take("3").expect("a choice");
        for tell in [FormField::tell, FormField::tell_given] {
            let rows = shown(|sheet| tell(&one, sheet));
            assert!(rows.contains("| [3] Delete (a)"), "{rows}");
        }
        one.take("").expect("it keeps its value");
        assert!(shown(|sheet| one.tell_given(sheet)).contains("[3] Delete"));
        let items = json!({"enum": ["a", "b", "a"], "enumNames": ["No", "Yes", "Delete"]});
        let mut several = field(&json!({"type": "array", "items": items}));
        several.take("3 2").expect("choices");
        let rows = shown(|sheet| several.tell_given(sheet));
        assert!(rows.contains("[3] Delete (a)") && rows.contains("[2] Yes (b)"), "{rows}");
    }
}
