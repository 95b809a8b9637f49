//! Parses the header `WWW-Authenticate` of a refusal (RFC 6750 and RFC 9728).

/// The requirements in a server's refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// The URL at which the server lists its authorization servers.
    pub(super) metadata: Option<String>,
    /// The scopes that the token must have.
    pub(super) scopes: Vec<String>,
    pub(super) error: Option<String>,
}

impl Challenge {
    /// Reads the challenge of the scheme `Bearer`. `headers` has the value of one header on each line.
    pub(super) fn read(headers: &str) -> Self {
        let mut read = Self::default();
        headers.lines().for_each(|header| read.add(header));
        read
    }

    fn add(&mut self, header: &str) {
        let mut is_bearer = false;
        for part in parts(header) {
            let part = part.trim();
            // The scheme directly precedes its first parameter.
            let parameter = match part.split_once(|c: char| c.is_ascii_whitespace()) {
                Some((scheme, rest))
                    if !scheme.contains('=') && !rest.trim_start().starts_with('=') =>
                {
                    is_bearer = scheme.eq_ignore_ascii_case("bearer");
                    rest.trim()
                }
                _ if !part.contains('=') => {
                    is_bearer = part.eq_ignore_ascii_case("bearer");
                    continue;
                }
                _ => part,
            };
            let Some((name, value)) = parameter.split_once('=').filter(|_| is_bearer) else {
                continue;
            };
            let value = unquoted(value.trim());
            match name.trim().to_ascii_lowercase().as_str() {
                "resource_metadata" => self.metadata = Some(value),
                "scope" => {
                    self.scopes = value.split_ascii_whitespace().map(str::to_owned).collect()
                }
                "error" => self.error = Some(value),
                _ => {}
            }
        }
    }

    /// Whether the token is valid but lacks a scope.
    pub(super) fn needs_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Splits a header at its commas, except at commas in quotes.
fn parts(header: &str) -> Vec<&str> {
    let (mut parts, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in header.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                parts.push(&header[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&header[from..]);
    parts
}

fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else { return value.to_owned() };
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Challenge;

    #[test]
    fn the_parameters_of_bearer_are_read_and_of_no_other_scheme() {
        let read = Challenge::read(
            r#"Basic realm="a, scope=\"x\"", Bearer error="insufficient_scope", scope="a b" , resource_metadata="https://h/p?a=b,c""#,
        );
        assert!(read.needs_scope());
        assert_eq!(read.scopes, ["a", "b"]);
        assert_eq!(read.metadata.as_deref(), Some("https://h/p?a=b,c"));
        let read = Challenge::read(r#"bearer, DPoP scope="x", error=y"#);
        assert_eq!(read, Challenge::default());
        assert_eq!(Challenge::read("Bearer scope=x").scopes, ["x"]);
        // An unclosed quote ends at the end of its header.
        let read = Challenge::read("Basic realm=\"x\nBearer scope=x");
        assert_eq!(read.scopes, ["x"]);
        assert_eq!(Challenge::read("Bearer\nscope=x"), Challenge::default());
        for odd in
            ["", ",", "\"", "Bearer", "Bearer =", "Bearer scope", "Bearer scope=\"a\\", "é=\"ü"]
        {
            assert_eq!(Challenge::read(odd).metadata, None, "{odd}");
        }
    }
}
