//! Requests a summary of the oldest part of a conversation, and replaces that part by the summary.

use super::{
    context_usage::{
        context_usage, is_contradicted, is_told_window, room_for_answer, trusted_window,
        window_to_sum_up, window_tokens,
    },
    gauge::ContextUsage,
    summary_cut::{
        SUMMARY, TRIES, check_room_for_summary, compaction_fact, least_after, least_in_short,
        longest_answer, most_after, summary_cut, tokens_after,
    },
    summary_request::{
        SummaryFailure, SummaryForm, SummaryLength, SummaryOutcome, compaction_stopped,
        request_summary, take_summary_request,
    },
    vendors_summary::request_vendor_summary,
};
use crate::{
    Event,
    conversation::state::ConversationState,
    run::{driver::RunDriver, prefix::leave_out_foreign_reasoning},
};
use harness_core::{
    context::{SummaryCut, cost_of_form, fault, in_short, of_answer, percent, summary_request},
    error::{Error, ErrorKind},
    journal::{Fact, InterruptCause, SummaryRequest},
    message::{Messages, Transcript},
    provider::{RequestPurpose, StopReason, tokens_of},
};

/// The token limit of the answer to a short-form summary request, in percent of the window.
const ROOM: u8 = 40;

/// The upper limit for the answer to a summary request in short form, in tokens. The limit is higher if four
/// tokens per word are more. Models that reason need more tokens than the summary has.
const MOST_ROOM: u64 = 4_000;

/// If the window has fewer tokens than this, every request for a summary contains the conversation in short
/// form. A request with the whole conversation would not fit, and no vendor caches so few tokens.
const SMALL: u64 = 4_096;

/// The error after two failed attempts at a summary. If `by_hand` is true, the program has called
/// [`Chat::compact`]. Otherwise the window of a run is getting full.
fn failed_twice(fault: Option<&str>, by_hand: bool) -> Error {
    let fault = fault.map(|fault| format!(": {fault}")).unwrap_or_default();
    let text = match by_hand {
        true => format!(
            "two attempts to summarize the conversation failed{fault}. What is sent has not changed: continue without a \
             summary, or ask for one again"
        ),
        false => format!(
            "the model's window is getting full, and two attempts to summarize the conversation failed{fault}. \
             Nothing of it is lost: set the size of the model's window with `Window::tokens`, if it is smaller than is known \
             here; or continue with a model that has a larger one, or begin a new conversation"
        ),
    };
    Error::new(ErrorKind::ContextFull, text)
}

pub(crate) async fn compact_now(run: &mut RunDriver<'_>) -> Result<(), Error> {
    run.catch_up().await?;
    leave_out_foreign_reasoning(run)?;
    let before = run.state.machine.failed_compactions();
    loop {
        let summed_up = run.state.machine.summed_up();
        let tries = run.state.machine.failed_compactions().saturating_sub(before);
        if tries >= TRIES {
            return Err(failed_twice(run.summary.last_fault.as_deref(), true));
        }
        let used = context_usage(run.state);
        let window = window_to_sum_up(run.state, used);
        let Some(cut) = summary_cut(run.state, window, used) else {
            return Err(Error::new(
                ErrorKind::Transcript,
                "there is nothing to summarize: nothing was said that a summary could replace, too little was \
                 said since the last summary, or calls wait for results",
            ));
        };
        is_worth_it(run, &cut, used)?;
        let refused = run.state.machine.too_large().is_some();
        run.state.spending.may_ask(&run.state.agent)?;
        let asked = match request_vendor_summary(run, used, window).await? {
            Some(asked) => asked,
            None => {
                let in_short = tries > 0 || refused || window < SMALL;
                try_summary(run, &cut, used, window, (in_short, tries)).await?
            }
        };
        match asked {
            None if run.state.machine.summed_up() > summed_up => return Ok(()),
            None => {}
            Some(InterruptCause::Limit { detail, .. }) => {
                let what =
                    format!("the conversation was not summarized: a limit is reached: {detail}");
                return Err(Error::new(ErrorKind::Limit, what));
            }
            Some(_) => {
                let what = "the conversation was not summarized: it was stopped";
                return Err(Error::new(ErrorKind::Transcript, what));
            }
        }
    }
}

/// Checks that enough messages were added since an earlier summary. Without enough messages, a new summary
/// would be about as long as the earlier summary.
fn is_worth_it(run: &RunDriver<'_>, cut: &SummaryCut, used: ContextUsage) -> Result<(), Error> {
    let has_earlier = run.state.machine.readable().summary().is_some();
    if !has_earlier || least_after(run.state, cut, used)? < most_after(used.tokens) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Transcript,
        "there is nothing to summarize: too little was said since the last summary",
    ))
}

/// Summarizes the oldest part, because the window is getting full.
pub(crate) async fn compact_full_window(run: &mut RunDriver<'_>) -> Result<(), Error> {
    let failures = run.state.machine.failed_compactions();
    if failures >= TRIES {
        return Err(failed_twice(run.summary.last_fault.as_deref(), false));
    }
    leave_out_foreign_reasoning(run)?;
    let used = context_usage(run.state);
    let window = window_to_sum_up(run.state, used);
    let Some(cut) = summary_cut(run.state, window, used) else { return Ok(()) };
    if let Some(asked) = request_vendor_summary(run, used, window).await? {
        return asked.map_or(Ok(()), |cause| run.record_interrupt(cause));
    }
    // A request for a summary has one message more than the last request. If the vendor refused the last request
    // as too large, it would refuse the request for a summary, too.
    let (provider, model) = run.state.agent.provider_and_model();
    let is_refused = run.state.machine.is_refused(provider, model);
    let leaves_room = used.tokens.saturating_add(percent(window, SUMMARY)) < window;
    let is_refused = is_refused || run.state.machine.too_large().is_some();
    let in_short = failures > 0 || is_refused || !leaves_room || window < SMALL;
    match try_summary(run, &cut, used, window, (in_short, failures)).await? {
        Some(cause) => run.record_interrupt(cause),
        None => Ok(()),
    }
}

/// Makes one request for a summary and records its outcome. Returns the cause if the run was stopped meanwhile.
async fn try_summary(
    run: &mut RunDriver<'_>,
    cut: &SummaryCut,
    used: ContextUsage,
    window: u64,
    (short, failures): (bool, u32),
) -> Result<Option<InterruptCause>, Error> {
    check_summary_helps(run.state, cut, used, window)?;
    run.emit(Event::Compacting);
    let (outcome, size) = match short {
        false => (request_whole_summary(run, used, window).await?, used.tokens),
        true => request_short_summary(run, used, window, failures).await?,
    };
    let request =
        Box::new(take_summary_request(run, matches!(outcome, SummaryOutcome::Complete(..))));
    let text = match outcome {
        SummaryOutcome::Complete(message, StopReason::Complete) => of_answer(&message.text()),
        SummaryOutcome::Complete(_, stop) => {
            let cause = format!("the model gave no whole summary: it stopped as {stop:?}");
            compaction_failed(run, request, cause, None)?;
            return Ok(None);
        }
        SummaryOutcome::Failed(SummaryFailure { cause, is_full }) => {
            compaction_failed(run, request, cause, is_full.then_some(size))?;
            return Ok(None);
        }
        SummaryOutcome::Stop(cause) => {
            compaction_stopped(run, request)?;
            return Ok(Some(cause));
        }
    };
    let after = tokens_after(run.state, cut, &text, used)?;
    let fault = fault(&text).or_else(|| {
        let most = most_after(used.tokens);
        (after >= most).then(|| {
            format!("it frees too little: {after} tokens would remain, and at most {most} may")
        })
    });
    if let Some(fault) = fault {
        compaction_failed(run, request, fault, None)?;
        return Ok(None);
    }
    let fact = compaction_fact(run.state, cut, &text, None, request, (used.tokens, after));
    run.state.record(&fact)?;
    let (messages, vendor, before) = (cut.messages, false, used.tokens);
    run.emit(Event::ContextCompacted { messages, vendor, before, after });
    Ok(None)
}

/// Fails if even an empty summary would free too few tokens.
fn check_summary_helps(
    state: &ConversationState,
    cut: &SummaryCut,
    used: ContextUsage,
    window: u64,
) -> Result<(), Error> {
    // The size of everything that must be kept, without the text of the summary.
    let least = tokens_after(state, cut, "", used)?;
    if least >= most_after(used.tokens) {
        let advice = "Use a model with a larger window, fewer tools or shorter messages";
        let (place, advice) = match window_tokens(state) {
            Some(_) if is_told_window(state) => {
                (format!(" in a window of {window} tokens (known by a refusal)"), advice)
            }
            Some(_) => (format!(" in a window of {window} tokens"), advice),
            None => (String::new(), "Ask for a summary when more was said"),
        };
        return Err(Error::new(
            ErrorKind::ContextFull,
            format!(
                "a summary of the conversation would free too little{place}: {least} of its {} tokens must be kept, \
                 for the system prompt, the tools, the first and the newest messages of the user, pins, and calls \
                 that were denied or are in doubt. {advice}",
                used.tokens.max(least)
            ),
        ));
    }
    Ok(())
}

/// How many words a summary may have, for a window of this many tokens.
fn words_of_summary(window: u64) -> u64 {
    // A token is about three quarters of a word, and the model may use a few more words than requested.
    (percent(window, SUMMARY) / 2).clamp(60, 1_500)
}

/// Requests a summary as text. The request contains the full conversation, without the cleared parts.
async fn request_whole_summary(
    run: &mut RunDriver<'_>,
    used: ContextUsage,
    window: u64,
) -> Result<SummaryOutcome, Error> {
    let words = words_of_summary(window).min(longest_answer(run.state) / 2);
    let answer = words.saturating_mul(2).min(window.saturating_sub(used.tokens));
    let asks = summary_request(words);
    let with_question = |messages: &Messages| {
        let mut all = messages.clone();
        all.push(asks.clone());
        all
    };
    let all = Transcript::of_sent(with_question(run.state.machine.sent().messages()));
    let vendors = run.state.machine.vendors_view().map(|view| with_question(view.messages));
    let question = used.scaled(tokens_of(&asks));
    let room = room_for_answer(run.state).map(u64::from);
    let room = room.map(|room| room.saturating_sub(question));
    let how = SummaryForm::Whole(SummaryLength { words, tokens: answer, room });
    request_summary(run, &all, vendors.as_ref(), how).await
}

/// Requests a summary of the conversation in short form. Also returns the size of the request in tokens.
async fn request_short_summary(
    run: &mut RunDriver<'_>,
    used: ContextUsage,
    window: u64,
    failures: u32,
) -> Result<(SummaryOutcome, u64), Error> {
    let longest = longest_answer(run.state);
    // The conversation in short form gets half of the window. If the vendor has refused an earlier request for a
    // summary as too large, that request had about twice as many tokens.
    let meter = run.state.agent.meter();
    let room = (window / 2).saturating_sub(meter.tools().saturating_add(meter.system()));
    // In some languages a word can have four tokens. The conversation gets half of the window, and the answer
    // nearly the other half: an answer that is cut off is of no use.
    let words = words_of_summary(window).min(longest / 4);
    let answer = percent(window, ROOM).min(MOST_ROOM).max(words.saturating_mul(4));
    let answer = answer.min(longest);
    // In a small window, the instructions for the summary take a large part.
    let asks = used.scaled(cost_of_form(words, answer).saturating_add(meter.system()));
    check_room_for_summary(run.state, asks, words)?;
    let least = least_in_short(run.state, used);
    let left = percent(window, 100 - SUMMARY).saturating_sub(asks);
    let answer = answer.min(left.saturating_sub(least)).max(words.saturating_mul(4).min(longest));
    let room = room.min(left.saturating_sub(answer)).max(least);
    // The vendor may count more tokens than estimated, so the smaller number is used.
    let tokens = used.estimate_of(room).min(room);
    let shortened = in_short(run.state.machine.sent().messages(), tokens, words);
    let again = failures > 0 && window < SMALL;
    let about = if again { RequestPurpose::AnswerAgain } else { RequestPurpose::Answer };
    let most = match trusted_window(run.state) {
        Some(window) => {
            Some(percent(window, 100 - SUMMARY).saturating_sub(asks).saturating_sub(room))
        }
        // The vendor may have refused the last request because of a large limit on the answer. So no larger
        // limit is set.
        None => is_contradicted(run.state).then_some(answer),
    };
    let length = SummaryLength { words, tokens: answer, room: most };
    // The conversation in short form is not larger than the conversation itself.
    let size = room.min(used.tokens);
    let how = SummaryForm::Short(length, about);
    Ok((request_summary(run, &shortened, None, how).await?, size))
}

fn compaction_failed(
    run: &mut RunDriver<'_>,
    request: Box<SummaryRequest>,
    cause: String,
    too_large: Option<u64>,
) -> Result<(), Error> {
    run.emit(Event::CompactionFailed { cause: &cause });
    run.summary.last_fault = Some(cause.clone());
    let (stopped, vendor) = (false, false);
    run.state.record(&Fact::CompactionFailed { request, cause, stopped, vendor, too_large })
}

/// Records the cost of a request for a summary if the run is dropped before the summary is complete.
pub(crate) fn record_dropped_summary(run: &mut RunDriver<'_>) {
    if run.summary.answer.is_some() || run.state.machine.compacting().is_some() {
        let request = Box::new(take_summary_request(run, false));
        // The run was dropped, so no caller gets the error.
        let _ = compaction_stopped(run, request);
    }
}
