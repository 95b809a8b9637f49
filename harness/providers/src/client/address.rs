//! Builds endpoint URLs from base URLs, which a program may give with or without a path, a version or a final slash.
//! Also determines which parts of a URL may be shown.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose};

use harness_core::http_client::percent_decoded;

/// The URL of `path`, such as `/v1/messages`, on the server at `base`. Parts of the path that the
/// base already contains are not repeated.
pub(super) fn endpoint(base: &str, version: &str, path: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let (base, query) = base.split_once('?').map_or((base, None), |(a, b)| (a, Some(b)));
    let base = base.trim_end_matches('/');
    let mut url = base.to_owned();
    if !base.ends_with(path) {
        let after_scheme = base.split_once("://").map_or(base, |(_, rest)| rest);
        if !after_scheme.contains('/') {
            url.push_str(version);
        }
        url.push_str(path);
    }
    if let Some(query) = query {
        url.push('?');
        url.push_str(query);
    }
    url
}

/// The parts of a URL.
struct UrlParts<'a> {
    /// Everything before `://`; empty if the URL has no `://`.
    scheme: &'a str,
    /// User and password, as written.
    user: Option<&'a str>,
    /// Host and path.
    place: &'a str,
    query: Option<&'a str>,
}

impl<'a> UrlParts<'a> {
    fn of(url: &'a str) -> Self {
        let url = url.trim();
        let (scheme, rest) = match url.find("://") {
            Some(at) => url.split_at(at + 3),
            None => ("", url),
        };
        // In an unparsable URL, the password may be anywhere before an `@`.
        let authority = match reqwest::Url::parse(url) {
            Ok(_) => rest.find(['/', '?', '#']).unwrap_or(rest.len()),
            Err(_) => rest.len(),
        };
        let at = rest.get(..authority).and_then(|authority| authority.rfind('@'));
        let (user, rest) = match at {
            Some(at) => (rest.get(..at), rest.get(at + 1..).unwrap_or_default()),
            None => (None, rest),
        };
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (place, query) = rest.split_once('?').map_or((rest, None), |(a, b)| (a, Some(b)));
        Self { scheme, user, place, query }
    }
}

/// A URL as it may be shown: without user, password and query.
pub(super) fn shown(url: &str) -> String {
    let UrlParts { scheme, user, place, query } = UrlParts::of(url);
    let user = user.map_or("", |_| "[secret]@");
    let query = query.map_or("", |_| "?[secret]");
    format!("{scheme}{user}{place}{query}")
}

/// Checks a base URL. Returns an error message if the URL is not valid. The message does not quote an unparsable URL,
/// because any part of such a URL may be a password.
pub(super) fn check(url: &str) -> Result<(), String> {
    let url = url.trim();
    let read = reqwest::Url::parse(url);
    if !url.contains("://") {
        return Err(match read {
            Ok(read) if matches!(read.scheme(), "http" | "https") => {
                "the base URL names no server: write it after `http://` or `https://`".to_owned()
            }
            Ok(_) | Err(_) => {
                // The URL is not quoted, because it is unknown where its password begins.
                let quoted = match url.contains('@') {
                    true => String::new(),
                    false => format!(" `{}`", shown(url)),
                };
                format!(
                    "the base URL{quoted} has no scheme: write `https://` or `http://` before it"
                )
            }
        });
    }
    match read {
        // A client sends neither the fragment nor a path that is appended after the fragment.
        Ok(read) if read.fragment().is_some() => Err(
            "the base URL holds a `#`, and the part after it is never sent: remove it, or write \
             `%23` in a password or a path"
                .to_owned(),
        ),
        Ok(read) if read.port() == Some(0) => {
            Err(format!("the base URL `{}` has the port 0, which no server can use", shown(url)))
        }
        // In a URL without a host, the parser would read the beginning of the path as the host.
        Ok(_) if url.split_once("://").is_some_and(|(_, rest)| rest.starts_with(['/', '\\'])) => {
            Err("the base URL names no server: write it after `http://` or `https://`".to_owned())
        }
        Ok(read) if matches!(read.scheme(), "http" | "https") => Ok(()),
        Ok(_) => Err(format!(
            "the base URL `{}` is not the URL of an HTTP server: it must begin with `https://` or \
             `http://`",
            shown(url)
        )),
        Err(err) if url.contains('@') => Err(format!(
            "the base URL cannot be read: {err}; write characters such as `/` and `@` in a password \
             as `%2F` and `%40`"
        )),
        Err(err) => Err(format!("the base URL cannot be read: {err}")),
    }
}

/// The names of query parameters whose values are not secret.
const PLAIN: [&str; 9] = [
    "api-version",
    "api_version",
    "version",
    "v",
    "alt",
    "model",
    "deployment",
    "region",
    "location",
];

/// Adds the secret parts of a URL to `values`, in each form in which a server may quote them.
pub(super) fn secrets(url: &str, values: &mut Vec<String>) {
    let UrlParts { user, query, .. } = UrlParts::of(url);
    if let Some(user) = user {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        values.extend([name, password].map(str::to_owned));
        values.extend([name, password].map(percent_decoded));
        // A user name without a password is not secret, unless it is long enough to be a token.
        if !password.is_empty() || name.len() >= 16 {
            let pair = format!("{}:{}", percent_decoded(name), percent_decoded(password));
            // The base64 has no padding, because some servers quote it without padding.
            values.push(general_purpose::STANDARD_NO_PAD.encode(&pair));
            values.extend([pair, user.to_owned()]);
        }
    }
    for (name, value) in query.into_iter().flat_map(|query| query.split('&')).filter_map(|pair| {
        // A query may be a single value without a name.
        Some(pair.split_once('=').unwrap_or(("", pair))).filter(|(_, value)| !value.is_empty())
    }) {
        if !PLAIN.contains(&name.to_ascii_lowercase().as_str()) {
            values.extend([value.to_owned(), percent_decoded(value)]);
        }
    }
}

/// The host of a URL, in lower case and without the port.
pub(super) fn host(url: &str) -> String {
    let (host, _) = host_and_port(url);
    host.to_ascii_lowercase()
}

/// Whether the host of the URL is this machine.
pub(super) fn is_loopback(url: &str) -> bool {
    let host = host(url);
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// The name of a server without a known vendor: its host and, if the URL contains one, the port. A host without a dot,
/// such as `mistral`, always gets its port, because the bare host could be mistaken for a vendor's name.
pub(super) fn server(url: &str) -> String {
    let (host, port) = host_and_port(url);
    let is_domain = host.contains(['.', ':']);
    let port = port.or((!is_domain).then(|| match url.trim().starts_with("https") {
        true => "443",
        false => "80",
    }));
    match port {
        Some(port) => format!("{host}:{port}").to_ascii_lowercase(),
        None => host.to_ascii_lowercase(),
    }
}

fn host_and_port(url: &str) -> (&str, Option<&str>) {
    let url = url.trim();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match authority.rsplit_once(':') {
        Some((host, "")) => (host, None),
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, Some(port)),
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_completed() {
        let messages = |base| endpoint(base, "/v1", "/messages");
        for base in [
            "https://a.test",
            "https://a.test/",
            "https://a.test/v1",
            "https://a.test/v1/",
            "https://a.test/v1/messages",
        ] {
            assert_eq!(messages(base), "https://a.test/v1/messages");
        }
        assert_eq!(
            messages("https://a.test/openai/v1?v=1"),
            "https://a.test/openai/v1/messages?v=1"
        );
    }

    #[test]
    fn an_address_is_shown_without_what_is_secret_of_it() {
        let table = [
            ("https://a.test/v1?v=1", "https://a.test/v1?[secret]"),
            ("https://ann:pass@a.test/v1", "https://[secret]@a.test/v1"),
            ("https://a.test/@cf/v1#top", "https://a.test/@cf/v1"),
            // The URL is malformed: a part of the password is in the position of the host.
            ("https://ann:p/ss@a.test/v1", "https://[secret]@a.test/v1"),
            ("ann:pass@a.test", "[secret]@a.test"),
            ("127.0.0.1:11434", "127.0.0.1:11434"),
            ("", ""),
        ];
        for (url, expected) in table {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn hosts_are_found() {
        assert_eq!(host("http://user@API.a.test:80/v1"), "api.a.test");
        assert_eq!(host("127.0.0.1:11434"), "127.0.0.1");
        assert_eq!(host(" https://api.groq.com:/openai"), "api.groq.com");
    }

    #[test]
    fn a_server_without_a_vendor_has_a_name_that_is_no_vendors() {
        assert_eq!(server("http://user:key@127.0.0.1:11434/v1"), "127.0.0.1:11434");
        assert_eq!(server("https://LLM.a.test/v1"), "llm.a.test");
        assert_eq!(server("http://mistral/v1"), "mistral:80");
        assert_eq!(server("https://mistral"), "mistral:443");
        assert_eq!(server("http://[::1]:8080/v1"), "[::1]:8080");
    }
}
