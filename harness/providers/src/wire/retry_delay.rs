//! Reads waiting times in the vendors' formats: inside a message, as a duration such as `1m30s`, or as a time such as
//! `2026-11-21T10:00:00Z`.

use std::time::{Duration, SystemTime};

/// The waiting time in a message such as "Please try again in 1.3s" or "retry after 30 seconds".
pub(crate) fn in_words(message: &str) -> Option<Duration> {
    let message = message.to_ascii_lowercase();
    let after = ["try again in ", "retry in ", "try again after ", "retry after "];
    let rest = after.iter().find_map(|words| message.split_once(words))?.1;
    let (wait, _) = read(rest);
    wait
}

/// A duration in a format that some servers use: `6ms`, `1.3s`, `1m30s`, `1h0m0s`. A number without a unit is in
/// seconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (wait, rest) = read(text.trim());
    let seconds = || seconds(text.trim().parse().ok()?);
    wait.filter(|_| rest.is_empty()).or_else(seconds)
}

/// A duration of this number of seconds, at most `Duration::MAX`. `None` for a negative or infinite number, and for
/// NaN.
pub(crate) fn seconds(number: f64) -> Option<Duration> {
    match Duration::try_from_secs_f64(number) {
        Ok(wait) => Some(wait),
        Err(_) => (number.is_finite() && number > 0.0).then_some(Duration::MAX),
    }
}

/// Reads durations such as `1m30s` at the beginning of the text. Returns the sum of the durations, and the rest of the
/// text.
fn read(text: &str) -> (Option<Duration>, &str) {
    let mut wait: Option<Duration> = None;
    let mut rest = text;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let after = after.trim_start_matches(' ');
        let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let factor = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" | "millisecond" | "milliseconds" => 1e-3,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86400.0,
            _ => return (wait, rest),
        };
        let Ok(number) = number.parse::<f64>() else { return (wait, rest) };
        let Some(more) = seconds(number * factor) else { return (wait, rest) };
        wait = Some(wait.unwrap_or_default().saturating_add(more));
        rest = after;
    }
}

/// The time from `now` until an RFC 3339 time; zero if that time is in the past.
pub(crate) fn until(moment: &str, now: SystemTime) -> Option<Duration> {
    let moment = moment.trim();
    let (date, time) = moment.split_at_checked(10)?;
    let time = time.strip_prefix(['T', 't', ' '])?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(zone);

    let mut date = date.split('-');
    let (year, month, day) = (number(date.next()?)?, number(date.next()?)?, number(date.next()?)?);
    if date.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut time = time.split(':');
    let (hour, minute) = (number(time.next()?)?, number(time.next()?)?);
    let seconds: f64 = time.next()?.parse().ok()?;
    let offset = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        (sign, offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            let east = number(hours)? * 3600 + number(minutes)? * 60;
            if sign == "-" { -east } else { east }
        }
    };
    let whole = days(year, month, day) * 86400 + hour * 3600 + minute * 60 - offset;
    let since = Duration::try_from_secs_f64(seconds).ok()?;
    let at = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_secs(u64::try_from(whole).ok()?))?
        .checked_add(since)?;
    Some(at.duration_since(now).unwrap_or_default())
}

fn number(digits: &str) -> Option<i64> {
    let plain = digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

/// The number of days since 1970-01-01 in the Gregorian calendar. Years begin in March here, so that the leap day is
/// the last day of a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_seconds(text: &str) -> Option<f64> {
        duration(text).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn durations_as_servers_write_them() {
        let known = [
            ("6ms", 0.006),
            ("1.3s", 1.3),
            ("1m30s", 90.0),
            ("6m0s", 360.0),
            ("1h2m3.5s", 3723.5),
            ("0", 0.0),
            ("12", 12.0),
            (" 7.66s ", 7.66),
        ];
        for (text, expected) in known {
            assert_eq!(in_seconds(text), Some(expected), "{text}");
        }
        for text in ["", "s", "soon", "-1s", "1x", "1m-3s", "1s later", "1.2.3s", "9e999"] {
            assert_eq!(in_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn waits_in_the_words_of_a_message() {
        let wait = |text| in_words(text).map(|wait| wait.as_millis());
        let known = [
            ("Rate limit reached. Please try again in 1.3s. Visit ..", 1300),
            ("try again in 250ms", 250),
            ("Please try again in 6m0s.", 360_000),
            ("Please retry after 30 seconds", 30_000),
            ("Try again in 2 minutes, or later", 120_000),
        ];
        for (text, expected) in known {
            assert_eq!(wait(text), Some(expected), "{text}");
        }
        for text in ["Please try again later.", "try again in a while", "in 3s it is over"] {
            assert_eq!(wait(text), None, "{text}");
        }
    }

    #[test]
    fn moments() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let wait = |text| until(text, now).map(|wait| wait.as_secs_f64());
        let known = [
            ("2001-09-09T01:46:50Z", 10.0),
            ("2001-09-09T01:46:40.5Z", 0.5),
            ("2001-09-09T03:46:50+02:00", 10.0),
            ("2001-09-08T20:16:50-05:30", 10.0),
            ("2001-09-09T01:46:00Z", 0.0),
            ("2004-02-29T00:00:00Z", 78_012_800.0),
        ];
        for (text, expected) in known {
            assert_eq!(wait(text), Some(expected), "{text}");
        }
        for text in ["", "now", "2001-13-09T01:46:50Z", "2001-09-09", "2001-09-09T01:46:50", "é"] {
            assert_eq!(wait(text), None, "{text}");
        }
    }
}
