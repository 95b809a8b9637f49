//! Reads files in which users list their servers. The list is named `mcpServers`, as in several programs, or `servers`.

use std::{cell::RefCell, fmt, path::Path};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{McpServer, McpServerBuilder, tool_name};
use harness_core::error::{Error, ErrorKind};

impl McpServer {
    /// Reads the servers that a JSON text lists under `mcpServers` or `servers`, in the order of the text. Each server
    /// has `command`, `args`, `env` and `cwd`, or `url` and `headers`. `type` may be `stdio`, or `http`,
    /// `streamable-http` or `streamableHttp`. In texts, `${VAR}` and `${env:VAR}` are replaced by the program's
    /// environment variable with this name, and `${VAR:-word}` by `word` if the variable is not set. Only names in
    /// `variables` are allowed: the author of the text could otherwise send every key of the program to a server of
    /// their own. Servers with `"disabled": true` or `"enabled": false` are left out. `envFile` is an error. All other
    /// members are ignored.
    ///
    /// Reading starts no server. The text cannot grant any trust: set on the returned builders what the tools may do.
    /// But a server with a `command` can run any program with the rights of this program's user, so start only servers
    /// that this user has written or seen.
    ///
    /// ```
    /// use harness::mcp::McpServer;
    ///
    /// let text = r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "a-server", "${HOME_OF_FILES:-.}"]}}}"#;
    /// let servers = McpServer::from_json(text, &["HOME_OF_FILES", "GITHUB_TOKEN"])?;
    /// assert_eq!(servers[0].server_name(), "files");
    /// # Ok::<(), harness::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the text is not JSON or has no object of servers, if a server or a member is listed twice, if a server
    /// has neither `command` nor `url` or has both, if a name or a member is not valid, and if a variable is missing or
    /// not allowed. The error names the server and the member.
    pub fn from_json(text: &str, variables: &[&str]) -> Result<Vec<McpServerBuilder>, Error> {
        listed(text, variables, "the list of MCP servers")
    }

    /// Reads the servers that a file lists, as [`from_json`](Self::from_json) does.
    ///
    /// # Errors
    /// Fails if the file cannot be read. Also fails like `from_json`.
    pub fn from_file(
        path: impl AsRef<Path>,
        variables: &[&str],
    ) -> Result<Vec<McpServerBuilder>, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|err| {
            let why = format!("the list of MCP servers `{}` cannot be read", path.display());
            Error::new(ErrorKind::Configuration, why).with_source(err)
        })?;
        let path = path.display().to_string();
        listed(&text, variables, &format!("the list of MCP servers `{}`", path.escape_debug()))
    }
}

fn listed(text: &str, allowed: &[&str], what: &str) -> Result<Vec<McpServerBuilder>, Error> {
    let variable = |name: &str| {
        let value = std::env::var(name).ok();
        match value.is_none() || allowed.contains(&name) {
            true => Ok(value),
            false => Err(format!(
                "the program does not let it have the variable `{}`: add that to the `variables` of `McpServer::from_json` \
                 or `from_file`, if the servers may get it",
                name.escape_debug()
            )),
        }
    };
    read(text, &variable).map_err(|why| {
        Error::new(ErrorKind::Configuration, format!("{what} cannot be used: {why}"))
    })
}

/// The value of a variable; `None` if the variable is not set. Fails if the name is not allowed.
type VariableLookup<'a> = &'a dyn Fn(&str) -> Result<Option<String>, String>;

fn read(text: &str, variables: VariableLookup<'_>) -> Result<Vec<McpServerBuilder>, String> {
    let value = read_with_unique_names(text)?;
    let listed = match (value.get("mcpServers"), value.get("servers")) {
        (Some(_), Some(_)) => {
            return Err(
                "it has both `mcpServers` and `servers`: put all servers into one".to_owned()
            );
        }
        (listed, other) => listed.or(other).and_then(Value::as_object),
    };
    let listed = listed.ok_or("it has no object `mcpServers` or `servers`")?;
    let one = |(name, server): (&String, &Value)| {
        let wrong = |why| format!("`{}`: {why}", name.escape_debug());
        let server = server
            .as_object()
            .ok_or_else(|| format!("`{}` is not an object", name.escape_debug()))?;
        let entry = ServerEntry { server, variables };
        if !entry.is_enabled().map_err(wrong)? {
            return Ok(None);
        }
        if let Some(why) = tool_name::fault(name) {
            return Err(format!("the name `{}` cannot be used: {why}", name.escape_debug()));
        }
        entry.builder(name).map_err(wrong).map(Some)
    };
    listed.iter().filter_map(|listed| one(listed).transpose()).collect()
}

struct ServerEntry<'a> {
    server: &'a Map<String, Value>,
    variables: VariableLookup<'a>,
}

impl ServerEntry<'_> {
    fn is_enabled(&self) -> Result<bool, String> {
        let says = |member: &str| match self.server.get(member) {
            None => Ok(None),
            Some(Value::Bool(says)) => Ok(Some(*says)),
            Some(_) => Err(format!("`{member}` is neither true nor false")),
        };
        Ok(says("disabled")? != Some(true) && says("enabled")? != Some(false))
    }

    fn builder(&self, name: &str) -> Result<McpServerBuilder, String> {
        if self.server.contains_key("envFile") {
            let why = "`envFile` is not read: write its variables to `env`, where `${VAR}` is one of the program's";
            return Err(why.to_owned());
        }
        let (command, url) = (self.text("command")?, self.text("url")?);
        let kind = self.text("type")?;
        let mut builder = match (command, url, kind.as_deref()) {
            (Some(command), None, None | Some("stdio")) if command.is_empty() => {
                return Err("`command` is empty: name the program of the server".to_owned());
            }
            (Some(command), None, None | Some("stdio")) => {
                McpServer::command(command, self.list("args")?)
            }
            (None, Some(url), None | Some("http" | "streamable-http" | "streamableHttp")) => {
                McpServer::url(url)
            }
            (Some(_), Some(_), _) => return Err("it has both `command` and `url`".to_owned()),
            (None, None, _) => return Err("it has neither `command` nor `url`".to_owned()),
            (_, _, kind) => {
                let kind = kind.unwrap_or_default();
                return Err(format!(
                    "its `type` is `{}`; `stdio` goes with `command`, `http` with `url`",
                    kind.escape_debug()
                ));
            }
        };
        builder = builder.name(name);
        for (key, value) in self.texts("env")? {
            if key.is_empty() || key.contains(['=', '\0']) {
                let key = key.escape_debug();
                return Err(format!("`env` names `{key}`, and no variable can have this name"));
            }
            builder = builder.env(key, value);
        }
        let headers = self.texts("headers")?;
        for (at, (key, value)) in headers.iter().enumerate() {
            // The names of headers are compared without regard to case.
            let others = headers.iter().take(at).map(|(other, _)| other);
            if let Some(other) = others.into_iter().find(|other| other.eq_ignore_ascii_case(key)) {
                let (other, key) = (other.escape_debug(), key.escape_debug());
                return Err(format!(
                    "`headers`: `{other}` and `{key}` are one header, listed twice"
                ));
            }
            builder = builder.header(key.as_str(), value.as_str());
        }
        if let Some(folder) = self.text("cwd")? {
            builder = builder.folder(folder);
        }
        Ok(builder)
    }

    fn text(&self, member: &str) -> Result<Option<String>, String> {
        self.server.get(member).map(|value| self.filled(member, value)).transpose()
    }

    fn list(&self, member: &str) -> Result<Vec<String>, String> {
        match self.server.get(member) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| self.filled(member, item)).collect()
            }
            Some(_) => Err(format!("`{member}` is not a list of texts")),
        }
    }

    fn texts(&self, member: &str) -> Result<Vec<(String, String)>, String> {
        match self.server.get(member) {
            None => Ok(Vec::new()),
            Some(Value::Object(texts)) => {
                let one = |(key, value): (&String, &Value)| {
                    Ok((key.clone(), self.filled(member, value)?))
                };
                texts.iter().map(one).collect()
            }
            Some(_) => Err(format!("`{member}` is not an object of texts")),
        }
    }

    /// Replaces the variables in a text.
    fn filled(&self, member: &str, value: &Value) -> Result<String, String> {
        let mut rest =
            value.as_str().ok_or_else(|| format!("`{member}` has a value that is not a text"))?;
        let mut filled = String::new();
        while let Some((before, named)) = rest.split_once("${") {
            let (named, after) = named
                .split_once('}')
                .ok_or_else(|| format!("`{member}` has a `${{` without `}}`"))?;
            let (name, word) = match named.split_once(":-") {
                Some((name, word)) => (name, Some(word)),
                None => (named, None),
            };
            if word.is_some_and(|word| word.contains("${")) {
                return Err(format!(
                    "`{member}` has a variable within `${{{}:-..}}`, which this program does not replace: write a word \
                     without one",
                    name.escape_debug()
                ));
            }
            let whole = name.escape_debug();
            let name = name.strip_prefix("env:").unwrap_or(name);
            let shown = name.escape_debug();
            let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(format!(
                    "`{member}` has `${{{whole}}}`, which this program does not know: write the value itself, or \
                     `${{VAR}}` for a variable of the program"
                ));
            }
            let known = (self.variables)(name).map_err(|why| format!("`{member}`: {why}"))?;
            let known = known.filter(|value| word.is_none() || !value.is_empty());
            let value = known.or_else(|| word.map(str::to_owned));
            let value = value.ok_or_else(|| {
                let other = match EDITORS.contains(&name) {
                    true => " by this program, though editors fill it in",
                    false => "",
                };
                format!("`{member}` names the variable `{shown}`, which is not set{other}; set it, or write `${{{shown}:-word}}`")
            })?;
            filled.push_str(before);
            // The value of a variable is not searched for further variables.
            filled.push_str(&value);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// Variables that editors replace, but this library does not.
const EDITORS: [&str; 5] =
    ["workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "cwd"];

/// Parses JSON. Fails if an object has a name twice.
fn read_with_unique_names(text: &str) -> Result<Value, String> {
    let twice = RefCell::default();
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = UniqueNames { path: &[], twice: &twice }.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value)).map_err(|err| {
        format!("it is not JSON: {err}; JSON has no comments and no comma after the last value")
    })?;
    let twice = twice.into_inner();
    match twice.is_empty() {
        true => Ok(value),
        false => Err(twice.join("; ")),
    }
}

/// Parses the value at this path, and collects names that occur twice.
#[derive(Clone, Copy)]
struct UniqueNames<'a> {
    path: &'a [String],
    twice: &'a RefCell<Vec<String>>,
}

impl UniqueNames<'_> {
    fn note_duplicate(self, name: &str) {
        let name = name.escape_debug();
        self.twice.borrow_mut().push(match self.path {
            [] => format!("`{name}` is listed twice"),
            [_] => format!("the server `{name}` is listed twice: give one of them another name"),
            [_, server, ..] => format!("`{}`: `{name}` is listed twice", server.escape_debug()),
        });
    }
}

impl<'de> DeserializeSeed<'de> for UniqueNames<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueNames<'_> {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let path = [self.path, std::slice::from_ref(&name)].concat();
            let value = members.next_value_seed(UniqueNames { path: &path, ..self })?;
            if all.insert(name.clone(), value).is_some() {
                self.note_duplicate(&name);
            }
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(name: &str) -> Result<Option<String>, String> {
        Ok(match name {
            "KEY" => Some("secret-of-the-test".to_owned()),
            "NESTED" => Some("${KEY}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn only_variables_that_the_program_allows_are_filled_in() {
        // Cargo sets this variable for each test.
        let name = "CARGO_PKG_NAME";
        for text in [
            r#"{"servers": {"a": {"url": "https://h.example/?k=${CARGO_PKG_NAME}"}}}"#,
            r#"{"servers": {"a": {"url": "https://h.example", "headers": {"k": "${env:CARGO_PKG_NAME}"}}}}"#,
            r#"{"servers": {"a": {"command": "x", "env": {"K": "${CARGO_PKG_NAME:-word}"}}}}"#,
        ] {
            let err = McpServer::from_json(text, &["OTHER"]).expect_err("not allowed").to_string();
            assert!(
                err.contains(name) && err.contains("`a`") && err.contains("from_json"),
                "{err}"
            );
            assert_eq!(McpServer::from_json(text, &["OTHER", name]).expect("a server").len(), 1);
        }
        let unset =
            r#"{"servers": {"a": {"command": "x", "args": ["${NO_SUCH_VARIABLE:-word}"]}}}"#;
        assert_eq!(McpServer::from_json(unset, &[]).expect("a server").len(), 1);
    }

    #[test]
    fn servers_are_read_in_both_forms_and_show_no_secret() {
        let text = r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "${NESTED}", "${NONE:-.}", "${EMPTY:-x}"], "env": {"K": "${KEY}"}, "cwd": "/tmp"},
            "web": {"type": "http", "url": "https://example.com/mcp?key=${KEY}", "headers": {"authorization": "Bearer ${KEY}"}}
        }}"#;
        let servers = read(text, &variables).expect("two servers");
        let shown = format!("{servers:?}");
        assert_eq!(servers.len(), 2);
        assert!(
            shown.contains("files") && shown.contains("web") && shown.contains("authorization"),
            "{shown}"
        );
        assert!(!shown.contains("secret-of-the-test"), "{shown}");
        assert!(shown.contains("hints: false, tools: {}"), "{shown}");
        let one = r#"{"servers": {"a": {"command": "b"}}}"#;
        assert_eq!(read(one, &variables).expect("one").len(), 1);
        // An editor has written a byte order mark at the beginning of the file.
        assert_eq!(read(&format!("\u{feff}{one}"), &variables).expect("one").len(), 1);
    }

    #[test]
    fn a_variable_is_filled_once_and_a_missing_one_is_an_error() {
        let server = Map::new();
        let entry = ServerEntry { server: &server, variables: &variables };
        let filled = |text: &str| entry.filled("args", &text.into());
        assert_eq!(filled("a ${NESTED} b").as_deref(), Ok("a ${KEY} b"));
        assert_eq!(filled("${NONE:-}${EMPTY:-x}$").as_deref(), Ok("x$"));
        assert!(filled("${NONE}").is_err_and(|why| why.contains("`NONE`")));
        assert!(filled("${KEY").is_err());
    }

    #[test]
    fn servers_that_a_file_has_turned_off_are_left_out_and_nothing_of_them_is_read() {
        let text = r#"{"servers": {
            "off": {"command": "x", "args": ["${NONE}"], "disabled": true},
            "out": {"enabled": false},
            "on": {"command": "x", "disabled": false, "enabled": true, "alwaysAllow": ["all"], "timeout": 7}
        }}"#;
        let servers = read(text, &variables).expect("one server");
        let names: Vec<&str> = servers.iter().map(McpServerBuilder::server_name).collect();
        assert_eq!(names, ["on"]);
        assert!(read(r#"{"servers": {}}"#, &variables).expect("a list").is_empty());
    }

    #[test]
    fn each_name_of_streamable_http_and_of_a_variable_is_read() {
        for kind in ["http", "streamable-http", "streamableHttp"] {
            let text = format!(
                r#"{{"servers": {{"a": {{"url": "https://example.com", "type": "{kind}"}}}}}}"#
            );
            assert_eq!(read(&text, &variables).expect(kind).len(), 1);
        }
        let server = Map::new();
        let entry = ServerEntry { server: &server, variables: &variables };
        assert_eq!(entry.filled("args", &"${env:KEY}".into()).as_deref(), Ok("secret-of-the-test"));
        assert_eq!(entry.filled("args", &"${env:NONE:-word}".into()).as_deref(), Ok("word"));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_place() {
        for (text, why) in [
            ("{", "not JSON"),
            ("[]", "mcpServers"),
            (r#"{"servers": {"a": 1}}"#, "`a`"),
            (r#"{"servers": {"a": {}}}"#, "neither"),
            (r#"{"servers": {"a": {"command": "x", "url": "y"}}}"#, "both"),
            (r#"{"servers": {"a": {"command": "x", "type": "http"}}}"#, "`type`"),
            (r#"{"servers": {"a": {"url": "x", "type": "sse"}}}"#, "`type`"),
            (r#"{"servers": {"a": {"command": "x", "args": "y"}}}"#, "`args`"),
            (r#"{"servers": {"a": {"command": "x", "args": [1]}}}"#, "`args`"),
            (r#"{"servers": {"a__b": {"command": "x"}}}"#, "a__b"),
            (r#"{"servers": {}, "mcpServers": {}}"#, "both `mcpServers` and `servers`"),
            (r#"{"servers": {"a": {"command": "x"}}, "servers": {}}"#, "`servers` is listed twice"),
            (
                r#"{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#,
                "the server `a` is listed twice",
            ),
            (
                r#"{"servers": {"a": {"disabled": true}, "a": {"command": "y"}}}"#,
                "the server `a` is listed twice",
            ),
            (
                r#"{"servers": {"a": {"command": "x", "command": "y"}}}"#,
                "`a`: `command` is listed twice",
            ),
            (
                r#"{"servers": {"a": {"command": "x", "env": {"K": "1", "K": "2"}}}}"#,
                "`a`: `K` is listed twice",
            ),
            (
                r#"{"servers": {"a": {"command": "x", "disabled": "yes"}}}"#,
                "`a`: `disabled` is neither",
            ),
            (
                r#"{"servers": {"a": {"command": "x", "envFile": ".env"}}}"#,
                "`a`: `envFile` is not read",
            ),
            (r#"{"servers": {"a": {"command": "x",}}}"#, "no comma after the last value"),
            ("// mine\n{\"servers\": {}}", "comments"),
            (
                r#"{"servers": {"a": {"command": "x", "args": ["${input:token}"]}}}"#,
                "`${input:token}`, which this program does not know",
            ),
            (
                r#"{"servers": {"a": {"command": "x", "args": ["${env:}"]}}}"#,
                "`${env:}`, which this program does not know",
            ),
            (
                r#"{"servers": {"a": {"command": "x", "args": ["${NONE:-${KEY}}"]}}}"#,
                "`args` has a variable within `${NONE:-..}`",
            ),
            (
                r#"{"servers": {"a": {"url": "x", "headers": {"A-b": "1", "a-B": "2"}}}}"#,
                "`a`: `headers`: `A-b` and `a-B` are one header, listed twice",
            ),
            (r#"{"servers": {"a": {"command": "x", "env": {"A=B": "1"}}}}"#, "`env` names `A=B`"),
            (r#"{"servers": {"a": {"command": "x", "env": {"": "1"}}}}"#, "`env` names ``"),
            (r#"{"servers": {"a": {"command": "${EMPTY}"}}}"#, "`command` is empty"),
            (
                r#"{"servers": {"a": {"command": "x", "args": ["${workspaceFolder}"]}}}"#,
                "though editors fill it in",
            ),
            (
                r#"{"servers": {"a": {"command": "x", "args": ["${env:NONE}"]}}}"#,
                "write `${NONE:-word}`",
            ),
        ] {
            let err = read(text, &variables).expect_err(text);
            assert!(err.contains(why), "{text}: {err}");
        }
    }
}
