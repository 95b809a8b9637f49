//! Decides whether results have to be cleared, or the conversation summarized, before the next request.

use super::{
    context_usage::{context_usage, estimated_tokens, is_told_window, window_tokens},
    files::files_due,
    gauge::ContextUsage,
    summary_cut::{TRIES, least_after, most_after, summary_cut},
};
use crate::conversation::state::ConversationState;
use harness_core::{
    context::{ContextUse, CopiedLine, clear, clear_arguments, copied_line, tail},
    journal::{ClearedArguments, ClearedResult, Fact},
    message::ToolCall,
    tool::READ_RESULT,
};

/// A conversation with fewer estimated tokens fits into the window of every model. The library checks such a
/// conversation only if the program has set the size of the window.
const SMALL: u64 = 1_000;

/// Results are cleared only if that saves at least one tenth of the window.
const WORTH: u64 = 10;

/// The results and arguments that can be cleared.
#[derive(Default)]
struct ClearableParts {
    results: Vec<ClearedResult>,
    arguments: Vec<ClearedArguments>,
    /// The tokens that the next request saves without these parts.
    saved: u64,
}

/// A change of the context that is due before the next request to the model.
pub(crate) enum ContextEdit {
    /// Clear the results and arguments in this fact.
    Clear(Box<Fact>),
    /// Summarize the oldest part of the conversation.
    Compact,
}

/// The known size of the next request, and the size of the parts that could be cleared.
pub(crate) fn context_use(state: &ConversationState) -> ContextUse {
    let mut gauge = state.requests.gauge;
    let parts = gauge.count(state.sent_view());
    let used = gauge.context_usage(state.sent_view(), state.machine.measured(), state.meter());
    let mut all = ContextUse::default();
    (all.window, all.used, all.parts) = (window_tokens(state), used.tokens, parts);
    all.tool_searches = state.machine.found().len();
    (all.clearable, all.summed_up) = (clearable(state, used).saved, state.machine.summed_up());
    all
}

fn clearable(state: &ConversationState, used: ContextUsage) -> ClearableParts {
    let (machine, seen) = (&state.machine, state.sent_view());
    let all = machine.transcript().messages();
    let window = window_tokens(state).unwrap_or(used.tokens);
    let before = seen.place_of(tail(seen.messages(), used.estimate_of(window)));
    let as_sent = |at: usize, call: &str| {
        seen.sent_for(at)?.results().find(|result| result.call_id() == call)
    };
    let cleared = machine.clearable(before).filter_map(|(at, result)| {
        clear(all, at, result, as_sent(at, result.call_id()).unwrap_or(result))
    });
    let mut found = ClearableParts::default();
    for (result, tokens) in cleared {
        found.results.push(result);
        found.saved = found.saved.saturating_add(tokens);
    }
    // Arguments are cleared only if the model has a tool that can read them again.
    if state.tools().get(READ_RESULT).is_some() {
        let long = machine.long_calls(before);
        for (arguments, tokens) in long.filter_map(|(at, call)| clear_arguments(at, call)) {
            found.arguments.push(arguments);
            found.saved = found.saved.saturating_add(tokens);
        }
    }
    found.saved = used.scaled(found.saved);
    found
}

/// Finds an argument of this call in which the model has copied the placeholder line of a cleared argument.
pub(crate) fn find_copied_line(state: &ConversationState, call: &ToolCall) -> Option<CopiedLine> {
    if !state.machine.has_shortened() {
        return None;
    }
    copied_line(&call.decoded().ok()?)
}

/// The change of the context that is due before the next request to the model. `None` if no change is due.
pub(crate) fn due_context_edit(state: &mut ConversationState) -> Option<ContextEdit> {
    let policy = state.agent.window().clone();
    if policy.is_off() || !state.machine.can_edit_context() {
        return None;
    }
    if let Some(fact) = files_due(state) {
        return Some(ContextEdit::Clear(Box::new(fact)));
    }
    let estimated = estimated_tokens(state);
    let (provider, model) = state.agent.provider_and_model();
    let refused = state.machine.is_refused(provider, model);
    let is_guessed = is_told_window(state) && state.machine.is_guessed(provider, model);
    if !refused && policy.set_tokens().is_none() && estimated < SMALL {
        return None;
    }
    let used = context_usage(state);
    let window = window_tokens(state).or_else(|| refused.then_some(used.tokens))?;
    let is_over = |at: Option<u64>| at.is_some_and(|at| refused || used.tokens >= at);
    let looks = refused || used.tokens >= state.requests.gauge.look_at;
    if looks && is_over(policy.clears_at(window)) {
        let ClearableParts { results, arguments, saved } = clearable(state, used);
        let (before, after) = (used.tokens, used.tokens.saturating_sub(saved));
        let is_some = !results.is_empty() || !arguments.is_empty();
        if is_some && (refused || saved >= window / WORTH) {
            let cleared = Fact::ContextCleared { results, arguments, before, after };
            return Some(ContextEdit::Clear(Box::new(cleared)));
        }
        state.requests.gauge.look_at = used.tokens.saturating_add(window / WORTH / 2);
    }
    let cut =
        is_over(policy.compacts_at(window)).then(|| summary_cut(state, window, used)).flatten()?;
    // After a refused request, the window size is only a guess, and the real window may be larger. So the
    // request is sent unchanged if a summary would free too little or two summaries have failed. The vendor
    // then decides whether the request fits.
    if !refused && is_guessed && state.machine.failed_compactions() >= TRIES {
        return None;
    }
    let may_help = refused
        || !is_guessed
        || least_after(state, &cut, used).is_ok_and(|least| least < most_after(used.tokens));
    may_help.then_some(ContextEdit::Compact)
}
