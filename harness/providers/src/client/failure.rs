//! Builds the error of an unsuccessful response.

use std::time::SystemTime;

use reqwest::header::HeaderMap;

use super::retry_after::{reset, retry_after, text};
use crate::wire::fault;
use harness_core::error::Error;

/// The error of a response with this status, these headers and this body. The body may have any format.
pub(super) fn of_answer(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    with_headers(fault::of_body(status, body), headers)
}

/// Adds data from the headers of a response to its error: the request id, how long to wait, and whether to retry.
pub(super) fn with_headers(mut err: Error, headers: &HeaderMap) -> Error {
    // The id of the header replaces the id in the body, because proxies log the header.
    if let Some(id) = ["request-id", "x-request-id", "x-amzn-requestid", "apim-request-id"]
        .iter()
        .find_map(|name| text(headers, name))
    {
        err = err.with_request_id(id);
    }
    let now = SystemTime::now();
    let wait = retry_after(headers, now).or_else(|| match err.retry_after() {
        // The time in the error message is more exact than the time at which all limits are reset.
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

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

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
