//! Makes the error of an unsuccessful response.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use crate::{
    error::Error,
    wire::{fault, wait},
};

/// The error of a response with this status, these headers and this body, which may have any
/// format.
pub(super) fn of_answer(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    with_headers(fault::of_body(status, body), headers)
}

/// Adds the data about an error from the headers of a response.
pub(super) fn with_headers(mut err: Error, headers: &HeaderMap) -> Error {
    // The header has precedence: it is the same id, and proxies log it.
    if let Some(id) = ["request-id", "x-request-id", "x-amzn-requestid", "apim-request-id"]
        .iter()
        .find_map(|name| text(headers, name))
    {
        err = err.with_request_id(id);
    }
    let now = SystemTime::now();
    let wait = retry_after(headers, now).or_else(|| match err.retry_after() {
        // The time in the message is more exact than the time when all limits are reset.
        Some(_) => None,
        None => (err.status() == Some(429)).then(|| reset(headers, now)).flatten(),
    });
    if let Some(wait) = wait {
        err = err.with_retry_after(wait);
    }
    match text(headers, "x-should-retry") {
        Some("true") => err.with_should_retry(true),
        Some("false") => err.with_should_retry(false),
        _ => err,
    }
}

/// The time that the server asks to wait: in milliseconds, in seconds, or until a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let seconds = |text: &str| wait::seconds(text.trim().parse().ok()?);
    if let Some(wait) = text(headers, "retry-after-ms").and_then(seconds) {
        let wait = wait / 1000;
        if !wait.is_zero() {
            return Some(wait);
        }
    }
    let given = text(headers, "retry-after")?;
    seconds(given).or_else(|| {
        let at = httpdate::parse_http_date(given).ok()?;
        Some(at.duration_since(now).unwrap_or_default())
    })
}

/// The time until the exceeded limit is reset: the longest time of the limits with nothing
/// remaining, or otherwise the shortest of all, because the server does not say which limit was
/// exceeded.
///
/// Anthropic sends a date (`anthropic-ratelimit-tokens-reset`), OpenAI and compatible servers send
/// a duration (`x-ratelimit-reset-tokens`).
fn reset(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let mut used_up: Option<Duration> = None;
    let mut any: Option<Duration> = None;
    let limits = [
        ("anthropic-ratelimit-", "requests"),
        ("anthropic-ratelimit-", "tokens"),
        ("anthropic-ratelimit-", "input-tokens"),
        ("anthropic-ratelimit-", "output-tokens"),
        ("x-ratelimit-", "requests"),
        ("x-ratelimit-", "tokens"),
    ];
    for (vendor, what) in limits {
        let (reset, remaining) = match vendor {
            "x-ratelimit-" => {
                (format!("{vendor}reset-{what}"), format!("{vendor}remaining-{what}"))
            }
            _ => (format!("{vendor}{what}-reset"), format!("{vendor}{what}-remaining")),
        };
        let Some(given) = text(headers, &reset) else { continue };
        let time = wait::until(given, now).or_else(|| wait::duration(given));
        let Some(time) = time.filter(|time| !time.is_zero()) else { continue };
        if text(headers, &remaining) == Some("0") {
            used_up = used_up.max(Some(time));
        }
        any = Some(any.map_or(time, |any| any.min(time)));
    }
    used_up.or(any)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn wait(pairs: &[(&'static str, &'static str)]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        retry_after(&headers, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn reads_milliseconds_seconds_and_dates() {
        assert_eq!(wait(&[("retry-after-ms", "1500")]), Some(Duration::from_millis(1500)));
        assert_eq!(wait(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        let date = [("retry-after", "Thu, 01 Jan 1970 00:01:00 GMT")];
        assert_eq!(wait(&date), Some(Duration::from_secs(60)));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "-1")]), None);
        assert_eq!(
            wait(&[("retry-after", "1"), ("retry-after-ms", "0")]),
            Some(Duration::from_secs(1))
        );
    }

    fn failed(status: u16, body: &str, pairs: &[(&'static str, &'static str)]) -> Option<u128> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        of_answer(status, &headers, body.as_bytes()).retry_after().map(|wait| wait.as_millis())
    }

    #[test]
    fn reads_when_a_limit_is_fresh_again() {
        let both = [
            ("x-ratelimit-remaining-requests", "9"),
            ("x-ratelimit-reset-requests", "6ms"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "1m30s"),
        ];
        assert_eq!(failed(429, "", &both), Some(90_000));
        assert_eq!(failed(500, "", &both), None, "only a refusal for too many is about limits");
        assert_eq!(failed(429, "", &both[..2]), Some(6));
        assert_eq!(failed(429, "", &[("x-ratelimit-reset-tokens", "0")]), None);

        let far = [
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2999-01-01T00:00:00Z"),
        ];
        assert!(failed(429, "", &far).is_some_and(|wait| wait > 1_000_000));
    }

    #[test]
    fn what_is_more_exact_wins() {
        let words = r#"{"error": {"message": "Please try again in 1.3s.", "code": "x"}}"#;
        let reset = ("x-ratelimit-reset-tokens", "8s");
        assert_eq!(failed(429, words, &[reset]), Some(1300));
        assert_eq!(failed(429, words, &[reset, ("retry-after", "2")]), Some(2000));
        assert_eq!(failed(429, "", &[reset, ("retry-after", "2")]), Some(2000));
        let both = [reset, ("retry-after", "2"), ("retry-after-ms", "1500")];
        assert_eq!(failed(429, words, &both), Some(1500));
    }
}
