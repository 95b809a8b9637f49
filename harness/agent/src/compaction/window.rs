//! Keeps requests within the model's window: clears old results, and summarizes the oldest part.

use std::time::Duration;

use super::{
    context_edit::{ContextEdit, due_context_edit, find_copied_line},
    context_usage::{LEAST, STEPS, context_usage, estimated_tokens, left, measured_tokens},
    files::{BYTES, FileTotals, files_now, leave_out, leave_out_picture, less, tokens},
    gauge::{ContextUsage, ReducedMaxTokens},
    summarize::compact_full_window,
    summary_cut::can_read_results,
    vendors_summary::drop_refused_summary,
};
use crate::{
    Event, conversation::state::ConversationState, model_notices::copied_line_notice,
    run::driver::RunDriver,
};
use harness_core::{
    context::{CopiedLine, FileLimits, StatedSizes, TooMuch, percent, sizes, too_much},
    error::Error,
    journal::{ClearedResult, Fact},
    message::{CallOutcome, ToolCall},
};

/// A count of the vendor that is more than this many times the estimate is treated as a mistake.
const WRONG: u64 = 8;

/// Leaves out files after the vendor has refused a request with too many files. Returns whether the model can
/// be asked again. If leaving out more files would not help, the next request contains the files that were left
/// out since the last answer.
pub(crate) fn leave_out_after(run: &mut RunDriver<'_>, error: &Error) -> Result<bool, Error> {
    let state = &mut *run.state;
    if state.agent.window().is_off()
        || !state.machine.can_edit_context()
        || !state.machine.has_files()
    {
        return Ok(false);
    }
    let used = context_usage(state);
    let sent = state.machine.sent_files();
    let FileTotals { images, bytes } = FileTotals::of(&sent);
    // At least one file has to be left out, whatever limit the server states.
    let fact = match too_much(error.last(), images) {
        None => return Ok(false),
        Some(TooMuch::OneImage) => leave_out_picture(state, used),
        Some(TooMuch::Images(named)) => {
            let fewer = || usize::try_from(less(u64::try_from(images).ok()?)?).ok();
            let most = named.or_else(fewer);
            state.requests.file_limits =
                state.requests.file_limits.and(FileLimits { images: named, bytes: None });
            leave_out(state, FileLimits { images: most, bytes: None }, used)
        }
        Some(TooMuch::Bytes) => {
            let files: u64 = sent.iter().map(|sent| tokens(&sent.files)).sum();
            let rest = used.tokens.saturating_sub(used.scaled(files)).saturating_mul(BYTES);
            // A request that consists mostly of text would be too large even without files.
            let may_help = bytes >= rest || !state.requests.files_before.is_empty();
            let limits = FileLimits { images: None, bytes: less(bytes) };
            may_help.then(|| leave_out(state, limits, used)).flatten()
        }
    };
    let Some(fact) = fact else { return restore_files(run, used).map(|()| false) };
    if let Fact::ContextCleared { results, .. } = &fact {
        for before in files_now(state, results) {
            let is_it =
                |it: &ClearedResult| (&it.call, it.message) == (&before.call, before.message);
            if !state.requests.files_before.iter().any(is_it) {
                state.requests.files_before.push(before);
            }
        }
    }
    apply_clearing(run, &fact).map(|()| true)
}

/// Restores the files that were left out since the last answer.
fn restore_files(run: &mut RunDriver<'_>, used: ContextUsage) -> Result<(), Error> {
    let results = std::mem::take(&mut run.state.requests.files_before);
    if results.is_empty() {
        return Ok(());
    }
    run.state.requests.file_limits = FileLimits::default();
    let (arguments, before) = (Vec::new(), used.tokens);
    run.state.record(&Fact::ContextCleared { results, arguments, before, after: before })
}

/// Carries out a change of the context: clears old results and arguments, or summarizes the oldest part.
pub(crate) async fn edit_context(run: &mut RunDriver<'_>, due: ContextEdit) -> Result<(), Error> {
    match due {
        ContextEdit::Clear(fact) => apply_clearing(run, &fact),
        ContextEdit::Compact => compact_full_window(run).await,
    }
}

fn apply_clearing(run: &mut RunDriver<'_>, fact: &Fact) -> Result<(), Error> {
    run.state.record(fact)?;
    if let Fact::ContextCleared { results, arguments, before, after } = fact {
        let (results, arguments) = (results.len(), arguments.len());
        let (before, after) = (*before, *after);
        run.emit(Event::ContextCleared { results, arguments, before, after });
    }
    Ok(())
}

/// Lowers `max_tokens` after the vendor has refused a request because the answer might not fit into the window.
/// The error must state the sizes. Returns whether the request is sent again. `before` is the lowered limit of
/// the refused request. If that limit was calculated from an exact request size, it is lowered again only if
/// the error states no exact size.
pub(crate) fn lower_max_tokens_after(
    run: &mut RunDriver<'_>,
    error: &Error,
    before: Option<ReducedMaxTokens>,
) -> bool {
    let is_last = error.last().is_context_full();
    if !(is_last || error.is_context_full()) || run.state.agent.window().is_off() {
        return false;
    }
    let last = if is_last { error.last() } else { error };
    let StatedSizes { window: Some(window), request, is_least } = sizes(last) else {
        return false;
    };
    let counted = request.filter(|_| !is_least);
    let before_counted = before.is_some_and(|it| it.is_counted);
    let rest = request.map(|tokens| window.saturating_sub(tokens));
    // The refused `max_tokens`, if known. A vendor that stopped counting early states the window's size minus
    // `max_tokens` as the request's size.
    let was = before.map(|it| u64::from(it.tokens)).into_iter().chain(rest.filter(|_| is_least));
    let was = was.min();
    let room = match counted {
        Some(tokens) if !before_counted => window.saturating_sub(tokens),
        None if is_least => {
            left(window, context_usage(run.state).tokens, measured_tokens(run.state))
        }
        _ => return false,
    };
    // The vendor refused `was` tokens. If the sizes in its error leave room for `was` tokens, these sizes are wrong, and
    // half of `was` is tried.
    let room = match was {
        Some(was) if room >= was => was / 2,
        _ => room,
    };
    let tokens = u32::try_from(room).unwrap_or(u32::MAX);
    if u64::from(tokens) < LEAST.max(window / STEPS) {
        return false;
    }
    run.state.requests.reduced_max_tokens =
        Some(ReducedMaxTokens { tokens, is_counted: counted.is_some() });
    run.state.requests.is_strict = true;
    let cause = &*run.state.agent.secrets().hide(&error.to_string()).into_owned();
    let (attempt, of, wait) = (2, 2, Duration::ZERO);
    run.state.tracer.retry(attempt, of, wait, cause);
    run.emit(Event::Retrying { attempt, of, wait, cause });
    true
}

/// Handles an error by which the vendor refuses a request as too large. Returns whether the model can be asked
/// again, usually with a smaller context. The context is edited once after each answer. Further edits require
/// that the size of the window is not known and that the request is smaller than the last refused request.
pub(crate) fn edit_context_after(run: &mut RunDriver<'_>, error: &Error) -> Result<bool, Error> {
    if drop_refused_summary(run, error)? {
        return Ok(true);
    }
    let ConversationState { agent, machine, .. } = &*run.state;
    let (name, model) = agent.provider_and_model();
    let refused_before = machine.last_refused(name, model);
    // After the first error, the request was sent again, perhaps to another provider. So the last error is
    // checked first.
    let is_last = error.last().is_context_full();
    if !(is_last || error.is_context_full()) || agent.window().is_off() {
        return Ok(false);
    }
    // While the first provider cools down, the agent uses a fallback without an event.
    let error = if is_last { error.last() } else { error };
    let by_other = error.provider().is_some_and(|by| by != name) || error.is_by_fallback();
    let fallback = is_last && (run.request.fell_back || by_other);
    let StatedSizes { window, request: tokens, is_least } = sizes(error);
    // A vendor may stop counting early. Then the request's size is not known, unless the counted part nearly
    // fills the window.
    let is_most = |tokens: u64| window.is_some_and(|window| tokens >= percent(window, 75));
    let tokens = tokens.filter(|tokens| !is_least || is_most(*tokens));
    let estimated = context_usage(run.state).tokens;
    // A size that is many times the estimate is wrong. With that size, all later requests would seem too large.
    // The larger estimate counts, because the vendor may have counted less than the whole of earlier requests.
    let most = estimated.max(estimated_tokens(run.state));
    let tokens = tokens.filter(|tokens| *tokens / WRONG <= most);
    // The request is small, so the vendor has refused it because of a large `max_tokens`.
    let is_small = window.is_some_and(|window| match tokens {
        Some(tokens) => tokens < percent(window, 75),
        None => estimated < percent(window, 25),
    });
    if is_small {
        return Ok(false);
    }
    let had_doubts = run.state.machine.is_window_doubtful();
    record_overflow(run, fallback, (window, tokens, estimated))?;
    if run.state.machine.is_window_doubtful() && !had_doubts {
        // The request is sent again unchanged. If it is refused again, the stated size of the window is
        // accepted.
        return Ok(true);
    }
    // If the vendor states no size, the window is found by making each request smaller.
    let is_smaller = |before: u64| estimated <= before.saturating_sub(before / 6);
    let is_new = window.is_none() && refused_before.is_some_and(is_smaller);
    Ok((refused_before.is_none() || is_new) && due_context_edit(run.state).is_some())
}

/// Records that a request was refused as too large. `window` and `tokens` are the sizes of the window and the
/// request, if the vendor has stated them. `estimated` is the estimated size of the request.
fn record_overflow(
    run: &mut RunDriver<'_>,
    fallback: bool,
    (window, tokens, estimated): (Option<u64>, Option<u64>, u64),
) -> Result<(), Error> {
    let (provider, model) = run.state.agent.provider_and_model();
    let (provider, model) = (provider.to_owned(), model.to_owned());
    let fact = Fact::ContextOverflowed { provider, model, fallback, window, tokens, estimated };
    run.state.record(&fact)
}

/// Gives the call an error result if an argument copies the placeholder line of a cleared argument. The call
/// then does not run. Returns whether the call got this result.
pub(crate) fn refuse_copy(run: &mut RunDriver<'_>, call: &ToolCall) -> Result<bool, Error> {
    let Some(CopiedLine { argument, name }) = find_copied_line(run.state, call) else {
        return Ok(false);
    };
    let name = name.filter(|_| can_read_results(run.state));
    let text = copied_line_notice(&argument, name.as_deref());
    let tools = run.state.agent.tools();
    let result = tools.readable_now(call.id(), CallOutcome::NotStarted, vec![text.into()]);
    let result = run.state.spending.guard().noted(call, result);
    run.emit(Event::ToolResult { call, result: &result, elapsed: Duration::ZERO });
    run.record_result(result)?;
    Ok(true)
}
