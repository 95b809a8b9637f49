//! Files in which people list their servers: under `mcpServers`, as several programs write it, or under `servers`.

use std::path::Path;

use serde_json::{Map, Value};

use super::{McpServer, McpServerBuilder, name};
use crate::error::{Error, ErrorKind};

impl McpServer {
    /// Reads the servers that a JSON text lists, in its order: under `mcpServers`, or `servers`. Each has
    /// `command`, `args`, `env` and `cwd`, or `url` and `headers`; `type` may be `stdio` or `http`. In texts,
    /// `${VAR}` is replaced by the program's variable of this name, and `${VAR:-word}` by `word` if the variable is
    /// not set.
    ///
    /// Nothing is started. The text cannot grant any trust: set on the returned builders what tools may do.
    ///
    /// ```
    /// use harness::mcp::McpServer;
    ///
    /// let text = r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "a-server", "${HOME_OF_FILES:-.}"]}}}"#;
    /// let servers = McpServer::from_json(text)?;
    /// assert_eq!(servers[0].name(), "files");
    /// # Ok::<(), harness::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the text is not JSON or lists no servers, if a server has neither `command` nor `url` or has both,
    /// if a name or a member is not valid, and if a variable is missing. The error names the server and the member.
    pub fn from_json(text: &str) -> Result<Vec<McpServerBuilder>, Error> {
        read(text, &|name| std::env::var(name).ok()).map_err(|why| {
            Error::new(
                ErrorKind::Configuration,
                format!("the list of MCP servers cannot be used: {why}"),
            )
        })
    }

    /// Reads the servers that a file lists: see [`from_json`](Self::from_json).
    ///
    /// # Errors
    /// Fails if the file cannot be read, and as `from_json` does.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Vec<McpServerBuilder>, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|err| {
            let why = format!("the list of MCP servers `{}` cannot be read", path.display());
            Error::new(ErrorKind::Configuration, why).because(err)
        })?;
        Self::from_json(&text)
    }
}

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

fn read(text: &str, variables: Variables<'_>) -> Result<Vec<McpServerBuilder>, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|err| format!("it is not JSON: {err}"))?;
    let listed =
        value.get("mcpServers").or_else(|| value.get("servers")).and_then(Value::as_object);
    let listed = listed.ok_or("it has no object `mcpServers` or `servers`")?;
    let one = |(name, server): (&String, &Value)| {
        if let Some(why) = name::fault(name) {
            return Err(format!("the name `{}` cannot be used: {why}", name.escape_debug()));
        }
        let server = server.as_object().ok_or_else(|| format!("`{name}` is not an object"))?;
        Entry { server, variables }.builder(name).map_err(|why| format!("`{name}`: {why}"))
    };
    listed.iter().map(one).collect()
}

/// The entry of one server.
struct Entry<'a> {
    server: &'a Map<String, Value>,
    variables: Variables<'a>,
}

impl Entry<'_> {
    fn builder(&self, name: &str) -> Result<McpServerBuilder, String> {
        let (command, url) = (self.text("command")?, self.text("url")?);
        let kind = self.text("type")?;
        let mut builder = match (command, url, kind.as_deref()) {
            (Some(command), None, None | Some("stdio")) => {
                McpServer::command(command, self.list("args")?)
            }
            (None, Some(url), None | Some("http" | "streamable-http")) => McpServer::url(url),
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
        builder = builder.named(name);
        for (key, value) in self.texts("env")? {
            builder = builder.env(key, value);
        }
        for (key, value) in self.texts("headers")? {
            builder = builder.header(key, value);
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

    /// The text with its variables replaced.
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
            let known = (self.variables)(name).filter(|value| word.is_none() || !value.is_empty());
            let value = known.or_else(|| word.map(str::to_owned));
            let value = value.ok_or_else(|| {
                format!("`{member}` names the variable `{}`, which is not set; set it, or write `${{{}:-word}}`", name.escape_debug(), name.escape_debug())
            })?;
            filled.push_str(before);
            // The value of a variable is not searched for variables.
            filled.push_str(&value);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("secret-of-the-test".to_owned()),
            "NESTED" => Some("${KEY}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
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
        assert_eq!(
            read(r#"{"servers": {"a": {"command": "b"}}}"#, &variables).expect("one").len(),
            1
        );
    }

    #[test]
    fn a_variable_is_filled_once_and_a_missing_one_is_an_error() {
        let server = Map::new();
        let entry = Entry { server: &server, variables: &variables };
        let filled = |text: &str| entry.filled("args", &text.into());
        assert_eq!(filled("a ${NESTED} b").as_deref(), Ok("a ${KEY} b"));
        assert_eq!(filled("${NONE:-}${EMPTY:-x}$").as_deref(), Ok("x$"));
        assert!(filled("${NONE}").is_err_and(|why| why.contains("`NONE`")));
        assert!(filled("${KEY").is_err());
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
        ] {
            let err = read(text, &variables).expect_err(text);
            assert!(err.contains(why), "{text}: {err}");
        }
    }
}
