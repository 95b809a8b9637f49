//! Makes an error of an answer that is no success.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use crate::{error::Error, wire::fault};

/// The error of an answer with this status, these headers and this body, whatever its shape.
pub(super) fn of_answer(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    with_headers(fault::of_body(status, body), headers)
}

/// Adds what the headers of an answer say about its error.
pub(super) fn with_headers(mut err: Error, headers: &HeaderMap) -> Error {
    // The header wins: it is the same id, and proxies log it.
    if let Some(id) = ["request-id", "x-request-id", "x-amzn-requestid", "apim-request-id"]
        .iter()
        .find_map(|name| text(headers, name))
    {
        err = err.with_request_id(id);
    }
    if let Some(wait) = retry_after(headers, SystemTime::now()) {
        err = err.with_retry_after(wait);
    }
    match text(headers, "x-should-retry") {
        Some("true") => err.with_should_retry(true),
        Some("false") => err.with_should_retry(false),
        _ => err,
    }
}

/// How long the server asks to wait: milliseconds, then seconds, then a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let seconds = |text: &str| {
        let seconds: f64 = text.trim().parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    };
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
}
