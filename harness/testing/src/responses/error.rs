//! The response to a failed request.

use serde_json::json;

use crate::Answer;

/// The response to a failed request, with this status and the vendor's error object. Both APIs of
/// the vendor use the same object. `code` is the vendor's name for the error, such as
/// `rate_limit_exceeded`.
///
/// ```
/// use harness::testing::responses;
///
/// let busy = responses::error(429, "rate_limit_exceeded", "Slow down").header("retry-after", "2");
/// # let _ = busy;
/// ```
pub fn error(status: u16, code: &str, message: &str) -> Answer {
    let kind = match status {
        _ if code.contains("quota") => "insufficient_quota",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let error = json!({"message": message, "type": kind, "param": null, "code": code});
    Answer::json(status, &json!({"error": error})).header("x-request-id", "req_01")
}
