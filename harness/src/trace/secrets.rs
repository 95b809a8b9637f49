//! What must never be written down, and what stands in its place.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use memchr::memmem::Finder;
use serde_json::Value;

/// What stands where something secret was.
const SECRET: &str = "[secret]";

/// Values shorter than this are not looked for elsewhere: they would be found everywhere.
const SHORT: usize = 6;

/// Names of fields that are secret, unless the program gives others.
const NAMES: [&str; 18] = [
    "key",
    "apikey",
    "token",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "authorization",
    "auth",
    "bearer",
    "credential",
    "credentials",
    "cookie",
    "signature",
    "otp",
    "pin",
    "ssn",
];

/// How keys begin that are known by their looks.
const LOOKS: [&str; 11] = [
    "sk-",
    "sk_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "hf_",
];

/// How tokens begin that have three parts with dots between them.
const TOKEN: &str = "eyJ";

/// Looks for each of them. To make one costs more than to search an answer with it.
static FINDERS: LazyLock<Vec<Finder<'static>>> =
    LazyLock::new(|| LOOKS.iter().chain([&TOKEN]).map(Finder::new).collect());

/// What must never be written down.
///
/// Three things are replaced by `[secret]`: the value of a field whose name is on the list
/// (`api_key`, `X-Auth-Token` and `userPassword` end with a word of it) or that was marked for a
/// tool, in JSON and in text such as `password=..`; words that look like a well-known kind of key;
/// and, from then on in that run, every further appearance of a value that was replaced.
///
/// What the user wrote in plain words before a tool was given it is not known to be secret.
#[derive(Clone, Debug)]
pub struct Secrets {
    // Shared with every run, which only adds to what it has seen.
    names: Arc<HashSet<String>>,
    marked: Arc<HashSet<(String, String)>>,
    seen: Vec<String>,
}

impl Default for Secrets {
    fn default() -> Self {
        let names: HashSet<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
        Self { names: Arc::new(names), marked: Arc::default(), seen: Vec::new() }
    }
}

impl Secrets {
    /// Replaces the list of names. A name stands for all that end with it as a word.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let names = names.into_iter().map(|name| words(name.as_ref()).concat());
        self.names = Arc::new(names.collect());
        self
    }

    /// Adds a name to the list.
    #[must_use]
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        Arc::make_mut(&mut self.names).insert(words(name.as_ref()).concat());
        self
    }

    /// Marks a field of the arguments and results of one tool, at whatever depth it stands.
    #[must_use]
    pub fn field(mut self, tool: impl Into<String>, field: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.marked).insert((tool.into(), field.into()));
        self
    }

    /// The text as it may be written down: what a tool of this name, if any, was given or said.
    pub(crate) fn hide(&mut self, text: &str, tool: Option<&str>) -> String {
        let is_json = text.trim_start().starts_with(['{', '[']);
        let value = is_json.then(|| serde_json::from_str::<Value>(text));
        let hidden = match value {
            Some(Ok(mut value)) => match self.hide_value(&mut value, tool) {
                true => value.to_string(),
                // Nothing was hidden: the text stays as the model wrote it.
                false => text.to_owned(),
            },
            Some(Err(_)) | None => self.hide_text(text, tool),
        };
        self.hide_seen(hidden)
    }

    fn is_secret(&self, name: &str, tool: Option<&str>) -> bool {
        if tool.is_some_and(|tool| self.marked.contains(&(tool.to_owned(), name.to_owned()))) {
            return true;
        }
        let words = words(name);
        // Only an end of it that is no longer than the longest name on the list can stand there.
        let longest = self.names.iter().map(String::len).max().unwrap_or(0);
        let mut length = 0;
        let ends = words.iter().rev().take_while(|word| {
            length += word.len();
            length <= longest
        });
        (words.len().saturating_sub(ends.count())..words.len())
            .any(|at| self.names.contains(&words.get(at..).unwrap_or_default().concat()))
    }

    fn hide_value(&mut self, value: &mut Value, tool: Option<&str>) -> bool {
        let mut any = false;
        match value {
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    if !value.is_null() && !value.is_boolean() && self.is_secret(name, tool) {
                        self.remember(value);
                        *value = Value::from(SECRET);
                        any = true;
                    } else {
                        any |= self.hide_value(value, tool);
                    }
                }
            }
            Value::Array(values) => {
                for value in values {
                    any |= self.hide_value(value, tool);
                }
            }
            Value::String(text) => {
                let hidden = self.hide_text(text, tool);
                any = hidden != *text;
                *text = hidden;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        any
    }

    /// Keeps every part of a secret value, so that it is known elsewhere.
    fn remember(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.keep(text),
            Value::Number(number) => self.keep(&number.to_string()),
            Value::Array(values) => values.iter().for_each(|value| self.remember(value)),
            Value::Object(members) => members.values().for_each(|value| self.remember(value)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn keep(&mut self, secret: &str) {
        if secret.len() >= SHORT && secret != SECRET && !self.seen.iter().any(|seen| seen == secret)
        {
            self.seen.push(secret.to_owned());
            // A secret that holds another one must be replaced first.
            self.seen.sort_by_key(|seen| std::cmp::Reverse(seen.len()));
        }
    }

    /// Hides what stands behind a secret name, as in `password=..` and `Authorization: Bearer ..`,
    /// and what looks like a key.
    ///
    /// Whole answers come here, so it looks for what could give a secret away, not at each word.
    fn hide_text(&mut self, text: &str, tool: Option<&str>) -> String {
        let mut hidden = String::with_capacity(text.len());
        let mut keys = keys(text).into_iter().peekable();
        // Up to where the text is written, and from where on it is searched.
        let (mut written, mut from) = (0, 0);
        let upto = |at: usize| text.get(..at).unwrap_or_default();
        loop {
            let rest = text.as_bytes().get(from..).unwrap_or_default();
            let sign = memchr::memchr2(b':', b'=', rest).map(|at| from.saturating_add(at));
            if let Some((start, key)) = keys.next_if(|(start, _)| sign.is_none_or(|at| *start < at))
            {
                if start >= written {
                    self.keep(key);
                    hidden.push_str(upto(start).get(written..).unwrap_or_default());
                    hidden.push_str(SECRET);
                    written = start.saturating_add(key.len());
                    from = written;
                }
                continue;
            }
            let Some(sign) = sign else { break };
            from = sign.saturating_add(1);
            let before = upto(sign).get(written..).unwrap_or_default().trim_end_matches(is_gap);
            let word = before.trim_end_matches(in_word).len();
            let Some(word) = before.get(word..).filter(|word| !word.is_empty()) else { continue };
            let end = written.saturating_add(before.len());
            // In this order: a value may reach to the end of the text.
            if self.is_secret(word, tool)
                && let Some((between, value, after)) = assigned(text.get(end..).unwrap_or_default())
            {
                self.keep(value);
                for part in [before, between, SECRET] {
                    hidden.push_str(part);
                }
                written = text.len().saturating_sub(after.len());
                from = written;
            }
        }
        hidden.push_str(text.get(written..).unwrap_or_default());
        hidden
    }

    fn hide_seen(&self, text: String) -> String {
        self.seen.iter().fold(text, |text, secret| match text.contains(secret.as_str()) {
            true => text.replace(secret.as_str(), SECRET),
            false => text,
        })
    }
}

/// The value that follows a name, with what stands between them and what comes after.
fn assigned(after: &str) -> Option<(&str, &str, &str)> {
    let sign = after.find(|c| !is_gap(c))?;
    let behind = after.get(sign..)?.strip_prefix([':', '='])?;
    let mut value = behind.trim_start_matches(is_gap);
    for scheme in ["Bearer ", "bearer ", "Basic ", "basic ", "Token "] {
        value = value.strip_prefix(scheme).unwrap_or(value);
    }
    let ends =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | '}' | '\\');
    let between = after.get(..after.len() - value.len())?;
    // What is quoted is secret up to its quote, which may have been cut off.
    let end = match between.chars().next_back() {
        Some(quote @ ('"' | '\'')) => value.find([quote, '\\']),
        _ => value.find(ends),
    };
    let end = end.unwrap_or(value.len());
    let (value, after) = value.split_at(end);
    (!value.is_empty()).then_some((between, value, after))
}

fn is_gap(c: char) -> bool {
    matches!(c, ' ' | '\t' | '"' | '\'' | '\\')
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// The words that look like keys, with where they stand, in order.
fn keys(text: &str) -> Vec<(usize, &str)> {
    let mut keys = Vec::new();
    for finder in FINDERS.iter() {
        for at in finder.find_iter(text.as_bytes()) {
            let (before, word) = text.split_at_checked(at).unwrap_or_default();
            if before.ends_with(in_word) {
                continue;
            }
            let word = word.get(..word.find(|c| !in_word(c)).unwrap_or(word.len()));
            let word = word.unwrap_or_default();
            let is_token = finder.needle() != TOKEN.as_bytes() || word.matches('.').count() == 2;
            if is_token && word.len() >= 20 {
                keys.push((at, word));
            }
        }
    }
    keys.sort_unstable();
    keys
}

/// The words of a name, in lower case: `userPassword`, `user-password` and `USER_PASSWORD` have
/// the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut after_lower = false;
    let mut open = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            open = false;
            continue;
        }
        if !open || (after_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        open = true;
        after_lower = c.is_lowercase() || c.is_numeric();
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::Secrets;

    #[test]
    fn secrets_are_known_by_name_by_mark_and_by_looks() {
        let table = [
            (r#"{"api_key":"abcdefgh","n":1}"#, r#"{"api_key":"[secret]","n":1}"#),
            (r#"{"X-Auth-Token":"abc"}"#, r#"{"X-Auth-Token":"[secret]"}"#),
            (r#"{"userPassword":{"a":["b"]}}"#, r#"{"userPassword":"[secret]"}"#),
            (r#"[{"deep":[{"PIN":1234}]}]"#, r#"[{"deep":[{"PIN":"[secret]"}]}]"#),
            (r#"{"code":"1234"}"#, r#"{"code":"[secret]"}"#),
            // Spelled as it was, if there is nothing to hide.
            (r#"{ "max_tokens": 3, "monkey": 1e3 }"#, r#"{ "max_tokens": 3, "monkey": 1e3 }"#),
            ("password=hunter2&x=1", "password=[secret]&x=1"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer [secret]"),
            (r#"{"password": "cut o"#, r#"{"password": "[secret]"#),
            ("SECRET_KEY = 'a b'", "SECRET_KEY = '[secret]'"),
            (
                r#"{"note":"{\"password\": \"a b\", \"n\": 1}"}"#,
                r#"{"note":"{\"password\": \"[secret]\", \"n\": 1}"}"#,
            ),
            ("use sk-ant-0123456789abcdef now", "use [secret] now"),
            (r#"{"note":"token: abc"}"#, r#"{"note":"token: [secret]"}"#),
            ("the key to success", "the key to success"),
            ("a:b sk-ant-0123456789abcdef: pin=1", "a:b [secret]: pin=[secret]"),
            ("ask-ant-0123456789abcdef", "ask-ant-0123456789abcdef"),
            ("pin:key=a;schlüssel-key=b", "pin:[secret];schlüssel-key=[secret]"),
            ("eyJhbGciOiJIUzI1NiJ9.e30.xyz_-", "[secret]"),
            ("größe: 3", "größe: 3"),
        ];
        for (text, expected) in table {
            let mut secrets = Secrets::default().field("login", "code");
            assert_eq!(secrets.hide(text, Some("login")), expected);
        }
        let mut other = Secrets::default().field("login", "code");
        assert_eq!(other.hide(r#"{"code":"1234"}"#, Some("build")), r#"{"code":"1234"}"#);
    }

    #[test]
    fn a_value_that_was_secret_once_stays_secret() {
        let mut secrets = Secrets::default();
        secrets.hide(r#"{"password":"correct horse"}"#, None);
        assert_eq!(secrets.hide("It is correct horse.", None), "It is [secret].");
        // One that holds another one leaves nothing behind.
        secrets.hide(r#"{"password":"a correct horse"}"#, None);
        assert_eq!(secrets.hide("It is a correct horse.", None), "It is [secret].");
        assert_eq!(secrets.hide("horse", None), "horse");
    }

    #[test]
    fn the_list_can_be_replaced() {
        let mut secrets = Secrets::default().names(["iban"]).name("card-number");
        let text = r#"{"key":"abcdefgh","IBAN":"XX00","CardNumber":"4111"}"#;
        let hidden = r#"{"key":"abcdefgh","IBAN":"[secret]","CardNumber":"[secret]"}"#;
        assert_eq!(secrets.hide(text, None), hidden);
    }

    #[test]
    fn a_text_that_looks_secret_everywhere_is_read_in_one_go() {
        // Each of them took minutes when all that follows was read again at each place.
        for piece in ["AKIA", "sk-", "eyJ.", "a:", "ab-", "aB"] {
            let text = format!("x{}==", piece.repeat(200_000 / piece.len()));
            assert_eq!(Secrets::default().hide(&text, None), text);
        }
    }
}
