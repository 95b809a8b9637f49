//! Reads from the headers of a response how long to wait before the next try.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use crate::wire::retry_delay;

/// How long the server asks the client to wait. Headers give milliseconds, seconds or a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let seconds = |text: &str| retry_delay::seconds(text.trim().parse().ok()?);
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

/// Estimates the time until the exceeded limit is reset. Servers do not name the exceeded limit. Returns the longest
/// reset time of the limits with nothing remaining. If there is no such limit, returns the shortest reset time.
///
/// Anthropic sends a date (`anthropic-ratelimit-tokens-reset`), OpenAI and compatible servers send
/// a duration (`x-ratelimit-reset-tokens`).
pub(super) fn reset(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
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
        let time = retry_delay::until(given, now).or_else(|| retry_delay::duration(given));
        let Some(time) = time.filter(|time| !time.is_zero()) else { continue };
        if text(headers, &remaining) == Some("0") {
            used_up = used_up.max(Some(time));
        }
        any = Some(any.map_or(time, |any| any.min(time)));
    }
    used_up.or(any)
}

/// The value of a header as trimmed text; `None` if it is missing or blank.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
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
