//! Hides secrets in a trace: registered secrets, and secrets that are recognized by their name or their format.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use serde_json::Value;

use super::{
    hidden_values::HiddenValues,
    secret_shapes::{SecretShape, in_word, shapes, user},
};
use crate::secret::{HIDDEN, SecretNames, Secrets, united, without};

/// What a trace treats as secret, in addition to the registered [`Secrets`](crate::secret::Secrets).
///
/// `[secret]` replaces three kinds of values:
///
/// - the value of a field whose name is on the list or is marked for the tool, in JSON and in text such as
///   `password=..` or `--token ..` (`api_key`, `X-Auth-Token` and `userPassword` are on the list, because each ends
///   with a listed word);
/// - text with the format of a secret: keys of well-known services, private keys, user and password of a URL,
///   `curl -u ..`;
/// - later occurrences of a replaced value in the same run, for the first few thousand values.
///
/// Only the trace is changed. A secret that the user writes as plain text is not recognized: register such a secret
/// with `AgentBuilder::secret`.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    names: Arc<SecretNames>,
    marked: Arc<HashMap<String, HashSet<String>>>,
}

impl Redaction {
    /// Replaces the list of names. The listed name `token` also matches `access_token`, but not `mytoken`.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.names = Arc::new(SecretNames::of(names));
        self
    }

    /// Adds a name to the list.
    #[must_use]
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        Arc::make_mut(&mut self.names).add(name.as_ref());
        self
    }

    /// Marks a field of one tool as secret, at any depth of the tool's arguments and results.
    #[must_use]
    pub fn field(mut self, tool: impl Into<String>, field: impl Into<String>) -> Self {
        let marked = Arc::make_mut(&mut self.marked);
        marked.entry(tool.into()).or_default().insert(field.into());
        self
    }

    /// The names and marked fields of both.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        if !Arc::ptr_eq(&both.names, &other.names) {
            Arc::make_mut(&mut both.names).add_all(&other.names);
        }
        for (tool, fields) in &*other.marked {
            let marked = Arc::make_mut(&mut both.marked).entry(tool.clone()).or_default();
            marked.extend(fields.iter().cloned());
        }
        both
    }
}

/// Hides secrets in the trace of one run, and remembers the hidden values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    rules: Redaction,
    known: Secrets,
    remembered: HiddenValues,
}

impl Redactor {
    pub(super) fn new(rules: &Redaction, known: &Secrets) -> Self {
        let (rules, known) = (rules.clone(), known.clone());
        Self { rules, known, remembered: HiddenValues::default() }
    }

    /// The text for the trace, without secrets. If the text is the arguments or the result of a call, `tool` is the
    /// name of the call's tool.
    pub(super) fn hide(&mut self, text: &str, tool: Option<&str>) -> String {
        let is_json = text.trim_start().starts_with(['{', '[']);
        let value = is_json.then(|| serde_json::from_str::<Value>(text));
        let Some(Ok(mut value)) = value else { return self.hide_text(text, tool, true) };
        // A search of the JSON text misses escaped letters (`\u0061`), so `hide_value` searches the decoded texts.
        let escaped = text.contains("\\u");
        let hidden = match self.hide_value(&mut value, tool, escaped) {
            true => Cow::Owned(value.to_string()),
            // Nothing was hidden, so the text keeps the model's spelling.
            false => Cow::Borrowed(text),
        };
        let mut found = Vec::new();
        self.find_again(&hidden, &mut found);
        match found.is_empty() {
            true => hidden.into_owned(),
            false => without(&hidden, &united(found)),
        }
    }

    fn is_secret(&self, name: &str, tool: Option<&str>) -> bool {
        let marked = tool.and_then(|tool| self.rules.marked.get(tool));
        marked.is_some_and(|fields| fields.contains(name)) || self.rules.names.has(name)
    }

    /// Hides secrets in a JSON value: the values of members with a secret name, and secrets inside of texts. With
    /// `again`, also hides registered secrets and remembered values. Returns whether anything was hidden.
    fn hide_value(&mut self, value: &mut Value, tool: Option<&str>, again: bool) -> bool {
        let mut any = false;
        match value {
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    if !value.is_null() && !value.is_boolean() && self.is_secret(name, tool) {
                        self.remember(value);
                        *value = Value::from(HIDDEN);
                        any = true;
                    } else {
                        any |= self.hide_value(value, tool, again);
                    }
                }
            }
            Value::Array(values) => {
                for value in values {
                    any |= self.hide_value(value, tool, again);
                }
            }
            Value::String(text) => {
                let hidden = self.hide_text(text, tool, again);
                any = hidden != *text;
                *text = hidden;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        any
    }

    /// Remembers every part of a secret value, so that other occurrences are hidden.
    fn remember(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.remembered.add(text),
            Value::Number(number) => self.remembered.add(&number.to_string()),
            Value::Array(values) => values.iter().for_each(|value| self.remember(value)),
            Value::Object(members) => members.values().for_each(|value| self.remember(value)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn hide_text(&mut self, text: &str, tool: Option<&str>, again: bool) -> String {
        let mut found = Vec::new();
        for shape in shapes(text, &self.rules.names) {
            self.remembered.add(shape.value);
            found.push(shape.hidden);
        }
        self.find_named(text, tool, &mut found);
        if again {
            self.find_again(text, &mut found);
        }
        match found.is_empty() {
            true => text.to_owned(),
            false => without(text, &united(found)),
        }
    }

    /// Finds registered secrets and remembered values.
    fn find_again(&mut self, text: &str, found: &mut Vec<Range<usize>>) {
        found.append(&mut self.known.find(text));
        self.remembered.find(text, found);
    }

    /// Finds values after a secret name, such as `password=..` and `Authorization: Bearer ..`.
    ///
    /// The text may be a long answer, so only the word before each `:` or `=` is examined.
    fn find_named(&mut self, text: &str, tool: Option<&str>, found: &mut Vec<Range<usize>>) {
        // `read` is the end of the last value found, `from` the position from which the search continues.
        let (mut read, mut from) = (0, 0);
        while let Some(sign) = text
            .as_bytes()
            .get(from..)
            .and_then(|rest| memchr::memchr2(b':', b'=', rest))
            .map(|at| from + at)
        {
            from = sign + 1;
            if let Some(SecretShape { hidden, value }) = user(text, sign) {
                self.remembered.add(value);
                (read, from) = (hidden.end, hidden.end);
                found.push(hidden);
                continue;
            }
            let before = text.get(read..sign).unwrap_or_default().trim_end_matches(is_gap);
            let word = before.trim_end_matches(in_word).len();
            let Some(word) = before.get(word..).filter(|word| !word.is_empty()) else { continue };
            if !self.is_secret(word, tool) {
                continue;
            }
            let whole_line = word.to_ascii_lowercase().ends_with("cookie");
            let Some(value) = assigned(text, from, whole_line) else { continue };
            self.remembered.add(text.get(value.clone()).unwrap_or_default());
            (read, from) = (value.end, value.end);
            found.push(value);
        }
    }
}

/// The range of the value that follows a `:` or `=`. `from` is the position directly after this character.
fn assigned(text: &str, from: usize, whole_line: bool) -> Option<Range<usize>> {
    let behind = text.get(from..)?;
    let mut value = behind.trim_start_matches(is_gap);
    for scheme in ["Bearer ", "bearer ", "Basic ", "basic ", "Token ", "token "] {
        value = value.strip_prefix(scheme).unwrap_or(value);
    }
    let between = behind.get(..behind.len() - value.len())?;
    let ends =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | '}' | '\\');
    // A quoted value ends at its closing quote, or at the end of the text if the quote is missing.
    let end = match between.chars().next_back() {
        Some(quote @ ('"' | '\'')) => value.find([quote, '\\']),
        _ if whole_line => value.find(['\n', '\r', '"', '\'', '\\']),
        _ => value.find(ends),
    };
    let start = text.len() - value.len();
    let end = start + end.unwrap_or(value.len());
    (start < end).then_some(start..end)
}

fn is_gap(c: char) -> bool {
    matches!(c, ' ' | '\t' | '"' | '\'' | '\\')
}

#[cfg(test)]
mod tests {
    use super::{Redaction, Redactor};
    use crate::secret::{Secrets, work};

    fn redactor(rules: Redaction) -> Redactor {
        Redactor::new(&rules, Secrets::none())
    }

    #[test]
    fn secrets_are_known_by_name_by_mark_and_by_looks() {
        let table = [
            (r#"{"api_key":"abcdefgh","n":1}"#, r#"{"api_key":"[secret]","n":1}"#),
            (r#"{"X-Auth-Token":"abc"}"#, r#"{"X-Auth-Token":"[secret]"}"#),
            (r#"{"userPassword":{"a":["b"]}}"#, r#"{"userPassword":"[secret]"}"#),
            (r#"[{"deep":[{"PIN":1234}]}]"#, r#"[{"deep":[{"PIN":"[secret]"}]}]"#),
            (r#"{"code":"1234"}"#, r#"{"code":"[secret]"}"#),
            // A text without a secret must stay unchanged.
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
            let mut secrets = redactor(Redaction::default().field("login", "code"));
            assert_eq!(secrets.hide(text, Some("login")), expected);
        }
        let mut other = redactor(Redaction::default().field("login", "code"));
        assert_eq!(other.hide(r#"{"code":"1234"}"#, Some("build")), r#"{"code":"1234"}"#);
    }

    #[test]
    fn a_value_that_was_secret_once_stays_secret() {
        let mut secrets = redactor(Redaction::default());
        secrets.hide(r#"{"password":"correct horse"}"#, None);
        assert_eq!(secrets.hide("It is correct horse.", None), "It is [secret].");
        // A value that contains a remembered value is hidden completely.
        secrets.hide(r#"{"password":"a correct horse"}"#, None);
        assert_eq!(secrets.hide("It is a correct horse.", None), "It is [secret].");
        assert_eq!(secrets.hide("horse", None), "horse");
    }

    #[test]
    fn the_list_can_be_replaced() {
        let mut secrets = redactor(Redaction::default().names(["iban"]).name("card-number"));
        let text = r#"{"key":"abcdefgh","IBAN":"XX00","CardNumber":"4111"}"#;
        let hidden = r#"{"key":"abcdefgh","IBAN":"[secret]","CardNumber":"[secret]"}"#;
        assert_eq!(secrets.hide(text, None), hidden);
    }

    #[test]
    fn a_text_that_looks_secret_everywhere_is_read_in_one_go() {
        // A search that reads the rest of the text at each position needs minutes for each of these texts.
        for piece in ["AKIA", "sk-", "eyJ.", "a:", "ab-", "aB"] {
            let text = format!("x{}==", piece.repeat(200_000 / piece.len()));
            assert_eq!(redactor(Redaction::default()).hide(&text, None), text);
        }
    }

    #[test]
    fn what_is_written_as_a_secret_is_hidden() {
        let table = [
            ("curl -u admin:secret https://a.test", "curl -u [secret] https://a.test"),
            ("curl -u 'ad@min:se cret' https://a.test", "curl -u '[secret]' https://a.test"),
            ("curl --user=admin:secret https://a.test", "curl --user=[secret] https://a.test"),
            ("curl -H 'Cookie: a=b; c=d' -x y", "curl -H 'Cookie: [secret]' -x y"),
            ("curl -H \"Authorization: Basic YTpi\"", "curl -H \"Authorization: Basic [secret]\""),
            ("wget https://ann:pass@a.test/x", "wget https://[secret]@a.test/x"),
            ("postgres://app:p%40ss@db:5432/app", "postgres://[secret]@db:5432/app"),
            ("redis://:pass@db", "redis://[secret]@db"),
            ("PGPASSWORD=hunter2 psql", "PGPASSWORD=[secret] psql"),
            ("export AWS_SECRET_ACCESS_KEY=a/b+c", "export AWS_SECRET_ACCESS_KEY=[secret]"),
            ("tool --api-key abc --verbose", "tool --api-key [secret] --verbose"),
            ("tool --token \"a b\" -v", "tool --token \"[secret]\" -v"),
            (
                r#"{"command":"curl -u admin:secret \"https://a.test\""}"#,
                r#"{"command":"curl -u [secret] \"https://a.test\""}"#,
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----",
                "-----BEGIN PRIVATE KEY-----[secret]-----END PRIVATE KEY-----",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(redactor(Redaction::default()).hide(text, None), expected);
        }
        let harmless = [
            "git push -u origin main",
            "rsync -u host:path .",
            "docker run -u 1000:1000 https://a.test",
            "date -u +%H:%M # http",
            "git clone ssh://git@a.test/x",
            "tool --password-file path",
            "tool --key --verbose",
            "see https://a.test/@cf/x and a@b.test",
        ];
        for text in harmless {
            assert_eq!(redactor(Redaction::default()).hide(text, None), text);
        }
        let mut again = redactor(Redaction::default());
        again.hide("curl -u admin:letmein7 https://a.test", None);
        assert_eq!(again.hide("it is letmein7", None), "it is [secret]");
    }

    #[test]
    fn what_is_known_is_hidden_however_it_is_spelled() {
        let known = Secrets::default().with("tok/0001\"x");
        let mut secrets = Redactor::new(&Redaction::default(), &known);
        let table = [
            (r#"{"a":"tok/0001\"x"}"#, r#"{"a":"[secret]"}"#),
            (r#"{"a":"tok\/0001\"x"}"#, r#"{"a":"[secret]"}"#),
            (r#"{"a":"\u0074ok/0001\"x"}"#, r#"{"a":"[secret]"}"#),
            ("tok%2F0001%22x", "[secret]"),
        ];
        for (text, expected) in table {
            assert_eq!(secrets.hide(text, None), expected);
        }
        assert_eq!(known.hide("call_tok/0001\"x"), "call_[secret]");
    }

    /// JSON texts of `results` tool results. Each result has `rows` rows, and each row has its own value of `key`.
    fn tables(results: usize, rows: usize) -> Vec<String> {
        let row =
            |result: usize, row: usize| format!(r#"{{"key":"key-{result}-{row}","n":{row}}}"#);
        let table = |result| {
            let rows: Vec<String> = (0..rows).map(|at| row(result, at)).collect();
            format!("[{}]", rows.join(","))
        };
        (0..results).map(table).collect()
    }

    #[test]
    fn twice_as_much_that_looks_secret_is_twice_the_work() {
        let of = |results: usize, rows: usize| {
            let tables = tables(results, rows);
            work(|| {
                let mut secrets = redactor(Redaction::default());
                for table in &tables {
                    let hidden = secrets.hide(table, None);
                    assert_eq!(hidden.matches("[secret]").count(), rows);
                }
            })
        };
        // One result, several results, and more values than are remembered.
        for (small, large) in [((1, 500), (1, 1000)), ((4, 250), (8, 250)), ((40, 250), (80, 250))]
        {
            let (one, two) = (of(small.0, small.1), of(large.0, large.1));
            assert!(two < one * 3, "{small:?}: {one} steps, {large:?}: {two} steps");
        }
        let bytes: usize = tables(50, 1000).iter().map(String::len).sum();
        let steps = of(50, 1000);
        assert!(steps < 12 * bytes as u64, "{steps} steps for {bytes} bytes");
    }

    #[test]
    fn values_that_begin_or_end_alike_cost_no_more() {
        let of = |bytes: usize| {
            let mut secrets = redactor(Redaction::default());
            for length in 6..400 {
                secrets.hide(&format!("password={}", "a".repeat(length)), None);
            }
            let text = format!("{}b", "a".repeat(bytes));
            work(|| assert_eq!(secrets.hide(&text, None), "[secret]b"))
        };
        let (one, two) = (of(20_000), of(40_000));
        assert!(two < one * 3, "{one} steps, then {two}");
        assert!(one < 40 * 20_000, "{one} steps");
    }
}
