//! The table of the guide, line by line: the outcome of each status and body.

use std::{fs, path::Path, time::Duration};

use harness::{
    Error, ErrorKind, Message, Provider as _, Transcript,
    policy::{FallbackProvider, RetryPolicy, RetryVerdict},
    provider::{Request, ResponseSizeLimits, RetryCost, accumulate},
    testing::{ScriptedProvider, reply},
    wire,
};

/// One line of the table: statuses, body, again, another.
fn lines() -> Vec<[String; 4]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness/guide/failing-network.md");
    let guide = fs::read_to_string(path).unwrap();
    let lines = guide.lines().filter_map(|line| {
        let cells: Vec<String> =
            line.strip_prefix("| ")?.split(" |").map(|cell| cell.trim().to_owned()).collect();
        let [status, body, again, another, _] = cells.try_into().ok()?;
        (status != "status").then_some([status, body.trim_matches('`').to_owned(), again, another])
    });
    lines.collect()
}

/// The error as the library makes it of this answer.
fn error(status: &str, body: &str) -> Error {
    if let Ok(status) = status.parse() {
        return wire::error_of(status, body.as_bytes());
    }
    let record = format!("data: {body}\n\n");
    let limits = ResponseSizeLimits::default();
    let result = if body.contains("response.failed") {
        wire::responses::decoder(limits).push(record.as_bytes())
    } else if body.contains("choices") {
        wire::chat::decoder(limits, wire::chat::DecodeOptions::default()).push(record.as_bytes())
    } else {
        wire::anthropic::decoder(limits).push(record.as_bytes())
    };
    result.unwrap_err()
}

async fn another_is_asked(error: Error) -> bool {
    let first = ScriptedProvider::new([reply().error(error)]);
    let second = ScriptedProvider::answering(|_| reply().text("Cold."));
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let provider = FallbackProvider::new(first).or(second.clone());
    let _ = accumulate(provider.stream(Request::new(&transcript).unwrap())).await;
    !second.requests().is_empty()
}

#[tokio::test]
async fn the_guide_says_what_happens() {
    let lines = lines();
    assert!(lines.len() > 30, "the table was not found");
    let policy = RetryPolicy { jitter: false, time: Duration::MAX, ..RetryPolicy::default() };
    let first = RetryCost { attempts: 1, time: Duration::ZERO };
    for [statuses, body, again, another] in lines {
        for status in statuses.split(", ") {
            let error = error(status, &body);
            assert!(
                matches!(error.kind(), ErrorKind::Api | ErrorKind::ContextFull),
                "{status} {body}"
            );
            let told = match policy.decide(&error, first, first, 0.0) {
                RetryVerdict::Wait(wait) if wait == policy.base => "yes".to_owned(),
                RetryVerdict::Wait(wait) => format!("{}s", wait.as_secs_f64()),
                RetryVerdict::GiveUp(_) => "no".to_owned(),
            };
            assert_eq!(told, again, "{status} {body}: {error:?}");
            let asked = if another_is_asked(error).await { "yes" } else { "no" };
            assert_eq!(asked, another, "{status} {body}");
        }
    }
}
