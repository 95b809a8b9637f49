//! Applies a random failure to an answer of the loopback server.

use std::time::Duration;

use serde_json::json;

use super::answer::{Answer, Point};
use crate::{Fault, chaos_provider::SERVER_ERRORS};

/// Bytes that are no valid event. The first bytes are not even UTF-8.
const NONSENSE: &[u8] = b"\xff\xfe\x00<html>502 Bad Gateway</html>\r\n\r\ndata: {\"half\": \n\n";

impl Answer {
    /// Adds this failure to the answer. `random` decides the details, and `hint` is the retry time
    /// of a rate limit.
    pub(crate) fn spoiled(self, fault: Fault, hint: Duration, random: &mut fastrand::Rng) -> Self {
        let length = self.body.len();
        let place = random.usize(..length.max(1));
        match fault {
            Fault::ServerError => match random.choice(SERVER_ERRORS).unwrap_or(500) {
                502 => Self::bytes(502, "text/html", "<html><h1>502 Bad Gateway</h1></html>"),
                529 => error(529, "overloaded_error"),
                503 => error(503, "server_is_overloaded"),
                status => error(status, "server_error"),
            },
            Fault::RateLimit => error(429, "rate_limit_error"),
            Fault::RateLimitWithHint => error(429, "rate_limit_error")
                .header("retry-after-ms", hint.as_millis().to_string()),
            Fault::Refused if random.bool() => self.reset_at(Point::BeforeHead),
            Fault::Refused => self.cut_at(Point::BeforeHead),
            Fault::StallAtFirst if random.bool() => self.stall_at(Point::BeforeHead),
            Fault::StallAtFirst => self.stall_at(0),
            Fault::StallMidway => self.stall_at(place),
            Fault::Cut => match random.u8(..3) {
                0 => self.cut_at(place),
                1 => self.reset_at(place),
                _ => self.end_at(place),
            },
            Fault::Garbage => {
                let mut answer = self;
                match random.bool() {
                    true => answer.body = NONSENSE.to_vec(),
                    false => {
                        let tail = answer.body.split_off(place);
                        answer.body.extend_from_slice(NONSENSE);
                        answer.body.extend(tail);
                    }
                }
                answer
            }
            Fault::Duplicate => {
                let mut answer = self;
                answer.body = twice(&answer.body, random);
                answer
            }
        }
    }
}

/// An error in the format that is common to all vendors.
fn error(status: u16, kind: &str) -> Answer {
    let error = json!({"type": kind, "code": kind, "message": "chaos"});
    Answer::json(status, &json!({"type": "error", "error": error}))
}

/// The body with one randomly chosen event repeated.
fn twice(body: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut ends: Vec<usize> = Vec::new();
    for (at, pair) in body.windows(2).enumerate() {
        if pair == b"\n\n" {
            ends.push(at + 2);
        }
    }
    let chosen = random.usize(..ends.len().max(1));
    let end = ends.get(chosen).copied().unwrap_or(body.len());
    let start = chosen.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let (head, tail) = body.split_at(end);
    [head, head.get(start..).unwrap_or_default(), tail].concat()
}
