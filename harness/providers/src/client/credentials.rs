//! Reads keys and base URLs from the environment. Keys are stored as [`SecretString`]. Also collects the secret values
//! in the settings of a provider, so that errors, results and traces can replace them.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::address;
use harness_core::{
    error::{Error, ErrorKind},
    provider::Settings,
    secret::{SecretNames, Secrets, is_secret_name, is_telling},
};

/// The trimmed value of an environment variable; `None` if it is unset or blank.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The key in this environment variable.
pub(super) fn key(name: &str) -> Result<SecretString, Error> {
    variable(name).map(SecretString::from).ok_or_else(|| {
        Error::new(
            ErrorKind::Configuration,
            format!(
                "the environment variable `{name}` is not set: set it to the key of the provider"
            ),
        )
    })
}

/// The given key, or the key in this environment variable. A server on this machine needs no key: then `None` is
/// returned instead of an error.
pub(super) fn key_for(
    url: &str,
    given: Option<SecretString>,
    name: &str,
) -> Result<Option<SecretString>, Error> {
    match given.map_or_else(|| key(name), Ok) {
        Err(_) if address::is_loopback(url) => Ok(None),
        key => key.map(Some),
    }
}

/// The names of members of request bodies whose values are secret.
static NAMES: LazyLock<SecretNames> = LazyLock::new(SecretNames::default);

/// Environment variables with the URL of a proxy, which may contain a password.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// The secret values in the settings of a provider: the key, the headers and `extra` members with secret names, and the
/// user, password and query of the provider's URL and of the proxies' URLs in the environment.
pub(super) fn known(
    key: Option<&SecretString>,
    headers: &[(String, String)],
    url: &str,
    settings: &Settings,
) -> Secrets {
    let mut values: Vec<String> = Vec::new();
    values.extend(key.map(|key| key.expose_secret().to_owned()));
    for (name, value) in headers.iter().filter(|(name, _)| is_secret_name(name)) {
        of_header(name, value, &mut values);
    }
    address::secrets(url, &mut values);
    for proxy in PROXIES.iter().filter_map(|name| variable(name)) {
        address::secrets(&proxy, &mut values);
    }
    of_settings(settings, values)
}

/// Adds the secrets in the settings' `extra` to `values`.
pub(super) fn of_settings(settings: &Settings, mut values: Vec<String>) -> Secrets {
    for (name, value) in &settings.extra {
        of_member(name, value, &mut values);
    }
    values.iter().filter(|value| is_telling(value)).fold(Secrets::default(), Secrets::with)
}

fn of_header(name: &str, value: &str, values: &mut Vec<String>) {
    if name.eq_ignore_ascii_case("cookie") {
        let cookies = value.split(';').filter_map(|cookie| cookie.split_once('='));
        values.extend(cookies.map(|(_, value)| value.trim().to_owned()));
        return;
    }
    let value = value.trim();
    values.push(value.to_owned());
    let Some((scheme, rest)) = value.split_once(' ') else { return };
    let rest = rest.trim();
    values.push(rest.to_owned());
    if scheme.eq_ignore_ascii_case("basic")
        && let Ok(pair) = general_purpose::STANDARD.decode(rest)
        && let Ok(pair) = String::from_utf8(pair)
    {
        let parts = pair.split_once(':').map(|(user, password)| [user, password]);
        values.extend(parts.into_iter().flatten().map(str::to_owned));
        values.push(pair);
    }
}

fn of_member(name: &str, value: &Value, values: &mut Vec<String>) {
    match value {
        // A cache key is the name of a group of requests, and not secret.
        Value::String(_) if name.ends_with("cache_key") => {}
        Value::String(text) if NAMES.has(name) => of_header(name, text, values),
        Value::Array(parts) => parts.iter().for_each(|part| of_member(name, part, values)),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| of_member(name, value, values));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(key: &str, headers: &[(&str, &str)], url: &str, settings: &Settings) -> Secrets {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        known(Some(&SecretString::from(key.to_owned())), &headers, url, settings)
    }

    #[test]
    fn what_is_secret_of_a_setting_is_known() {
        let mut settings = Settings::default();
        let tools =
            json!([{"type": "mcp", "label": "label-0001", "authorization": "Bearer mcp-4711"}]);
        settings.extra.insert("tools".into(), tools);
        settings.extra.insert("prompt_cache_key".into(), "cache-0001".into());
        let secrets = of(
            "sk-live-0001",
            &[
                ("Authorization", "Bearer tok-0002"),
                ("proxy-authorization", "Basic YW5uOnBhc3N3b3JkMw=="),
                ("Cookie", "session=cookie-0004; theme=dark"),
                ("x-title", "title-0005"),
            ],
            "https://ann:pass%400006@a.test/v1?api-version=2025-04-01&code=query-0007",
            &settings,
        );
        for (text, hidden) in [
            ("sk-live-0001", "[secret]"),
            ("Bearer tok-0002", "[secret]"),
            ("tok-0002", "[secret]"),
            ("password3", "[secret]"),
            ("Basic YW5uOnBhc3N3b3JkMw==", "[secret]"),
            ("cookie-0004 dark", "[secret] dark"),
            ("title-0005", "title-0005"),
            ("pass%400006 pass@0006", "[secret] [secret]"),
            // Clients send a user and a password in this form, and servers quote it.
            ("Basic YW5uOnBhc3NAMDAwNg==", "Basic [secret]=="),
            ("query-0007 2025-04-01", "[secret] 2025-04-01"),
            ("mcp-4711 cache-0001 label-0001", "[secret] cache-0001 label-0001"),
        ] {
            assert_eq!(secrets.hide(text), hidden);
        }
    }

    #[test]
    fn words_that_stand_in_for_a_key_are_not_taken_out_of_texts() {
        for key in ["ollama", "lm-studio", "not-needed", "sk-1", ""] {
            assert!(of(key, &[], "http://postgres@127.0.0.1", &Settings::default()).is_empty());
        }
        let words = "correct horse battery staple";
        let long = of(words, &[], "", &Settings::default());
        assert_eq!(long.hide(words), "[secret]");
    }
}
