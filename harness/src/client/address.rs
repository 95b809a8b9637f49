//! Where an endpoint is: bases are written with and without a path, a version or a slash.

/// The address of `path`, such as `/v1/messages`, on the server at `base`. What of the path the
/// base names already is not repeated.
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

/// The name of the server in an address, in lower case and without the port.
pub(super) fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    host.to_ascii_lowercase()
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
    fn hosts_are_found() {
        assert_eq!(host("http://user@API.a.test:80/v1"), "api.a.test");
        assert_eq!(host("127.0.0.1:11434"), "127.0.0.1");
    }
}
