//! What is left of a run that came to no answer: calls in doubt, calls that wait, and what the person
//! says of them.

use std::fs::File;

use harness::{
    Chat, Error,
    journal::Awaited,
    policy::{Approval, ApprovalDecision, ApprovalRequest, Approver as _, TerminalApprover},
};

use crate::{Signals, ending::named, program, screen::one_line, turn::Ended};

/// What is left, and how to go on; nothing if the model has answered.
pub(crate) fn left(chat: &Chat) -> Option<String> {
    if !chat.can_resume() {
        return None;
    }
    let mut lines = Vec::new();
    let in_doubt = chat.in_doubt();
    for (number, open) in (1..).zip(&in_doubt) {
        lines.push(format!(
            "  {number}. in doubt: {}: it had started, and nobody knows what became of it",
            named(&open.call)
        ));
    }
    for open in chat.waiting() {
        let what = match open.wait.map(|wait| wait.awaited) {
            Some(Awaited::Approval { .. }) => "waits for your approval".to_owned(),
            Some(Awaited::Answer { question, .. }) => format!("asks: {}", one_line(&question)),
            _ => "waits for its result".to_owned(),
        };
        lines.push(format!("  {}: {what}", named(&open.call)));
    }
    if !in_doubt.is_empty() {
        lines.push(
            "`/settle N ran WORDS` or `/settle N failed WORDS` says what became of a call in doubt, and \
             `/settle N not` that nothing of it has happened, so that it runs. Of the others the model \
             is told that nobody knows."
                .to_owned(),
        );
    }
    lines.push("`/go` goes on with it; what you say in its place ends it.".to_owned());
    Some(lines.join("\n"))
}

/// Takes what the person says of a call in doubt: its number, what became of it, and words for the
/// model.
///
/// # Errors
/// Fails if that was not said, or if it cannot be written.
pub(crate) async fn settle(chat: &mut Chat, said: &str) -> anyhow::Result<()> {
    let (number, said) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    let (became, words) = said.trim().split_once(char::is_whitespace).unwrap_or((said.trim(), ""));
    let in_doubt = chat.in_doubt();
    let number = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let Some(open) = number.and_then(|at| in_doubt.get(at)) else {
        return Err(program::wrong(match in_doubt.len() {
            0 => "no call is in doubt".to_owned(),
            last => format!("`/settle` needs the number of a call in doubt, 1 to {last}"),
        }));
    };
    let words = words.trim();
    let became = match became {
        "ran" if words.is_empty() => open.succeeded("It ran to its end. Its output is lost."),
        "ran" => open.succeeded(words),
        "failed" if words.is_empty() => open.failed("It failed. Its output is lost."),
        "failed" => open.failed(words),
        "not" => open.not_happened(),
        _ => return Err(program::wrong("say `ran`, `failed` or `not`: `/settle 1 ran WORDS`")),
    };
    Ok(chat.settle(became.by("the person in the chat")).await?)
}

/// Asks the person at the terminal. Where there is none, as in a job in the background, the call waits
/// until the conversation goes on at one.
pub(crate) async fn ask(question: ApprovalRequest) -> Approval {
    match File::open("/dev/tty") {
        Ok(_) => TerminalApprover::default().ask(&question).await,
        Err(_) => question.later(None),
    }
}

/// Asks again about the calls that wait for an approval.
///
/// # Errors
/// Fails if an answer cannot be written.
pub(crate) async fn ask_again(chat: &mut Chat, signals: &mut Signals) -> Result<Ended, Error> {
    let Signals { interrupt, terminate, hang_up } = signals;
    for question in chat.waiting().iter().filter_map(|open| open.question()) {
        let approval = tokio::select! {
            approval = ask(question) => approval,
            _ = interrupt.recv() => return Ok(Ended::Interrupted),
            () = Signals::end(terminate, hang_up) => return Ok(Ended::Quit),
        };
        if !matches!(approval.answer, ApprovalDecision::Later { .. }) {
            chat.decide(approval).await?;
        }
    }
    Ok(Ended::Answered)
}
