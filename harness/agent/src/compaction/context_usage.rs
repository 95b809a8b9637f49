//! How much of the model's window a conversation uses.

use super::gauge::ContextUsage;
use crate::conversation::state::ConversationState;

/// A `max_tokens` that does not fit into the window is lowered to a multiple of one sixteenth of the window.
pub(crate) const STEPS: u64 = 16;

/// The smallest `max_tokens` that vendors accept.
pub(crate) const LEAST: u64 = 16;

/// The size of the window in tokens: the smaller of the known size and the size that the vendor has stated.
pub(crate) fn window_tokens(state: &ConversationState) -> Option<u64> {
    state.agent.window_in(&state.machine)
}

/// Whether the vendor has stated a size of the window that is smaller than the known size.
pub(crate) fn is_told_window(state: &ConversationState) -> bool {
    let (provider, model) = state.agent.provider_and_model();
    let told = state.machine.stated_window(provider, model);
    told.is_some_and(|told| state.agent.window_tokens().is_none_or(|known| told < known))
}

/// Whether a refused request has shown that the known size of the window is too large.
pub(crate) fn is_contradicted(state: &ConversationState) -> bool {
    state.machine.too_large().is_some() || is_told_window(state)
}

/// The known size of the window, if no refused request contradicts it.
pub(crate) fn trusted_window(state: &ConversationState) -> Option<u64> {
    window_tokens(state).filter(|_| !is_contradicted(state))
}

/// The token limit of the next answer. `None` unless the program or the table of models has the size of the
/// window. A size in an error of the vendor may be wrong, and a wrong limit could cut off answers.
pub(crate) fn room_for_answer(state: &mut ConversationState) -> Option<u32> {
    let window = state.agent.window_tokens().filter(|_| !state.agent.window().is_off())?;
    let used = context_usage(state).tokens;
    // Rounded down to steps, because some vendors cannot use their cache if the limit on the answer changes.
    let step = (window / STEPS).max(1);
    let room = (left(window, used, measured_tokens(state)) / step * step).max(step);
    // If the window is already full, no limit is set, and the vendor decides whether the request fits.
    let fits = room >= LEAST && used < window;
    fits.then(|| u32::try_from(room).unwrap_or(u32::MAX))
}

/// The tokens of the next request that the vendor has counted, or that were derived from these counts when the
/// context was edited. The remaining tokens are estimated.
pub(crate) fn measured_tokens(state: &ConversationState) -> u64 {
    state.machine.measured().map_or(0, |measured| measured.tokens)
}

/// How many tokens the next request has.
pub(crate) fn context_usage(state: &mut ConversationState) -> ContextUsage {
    let mut gauge = state.requests.gauge;
    let used = gauge.context_usage(state.sent_view(), state.machine.measured(), state.meter());
    state.requests.gauge = gauge;
    used
}

/// The estimate for the next request from its text alone, without correction by the vendor's counts.
pub(crate) fn estimated_tokens(state: &mut ConversationState) -> u64 {
    let mut gauge = state.requests.gauge;
    let estimated = gauge.count(state.sent_view()).total();
    state.requests.gauge = gauge;
    estimated
}

/// The size of the window in tokens. If that size is not known, the size of the next request.
pub(crate) fn window_or(state: &ConversationState, used: ContextUsage) -> u64 {
    window_tokens(state).unwrap_or(used.tokens)
}

/// The size of the window in tokens for a summary request. If the vendor has refused a smaller summary request
/// as too large, the result is at most the size of that request.
pub(crate) fn window_to_sum_up(state: &ConversationState, used: ContextUsage) -> u64 {
    let window = window_or(state, used);
    state.machine.too_large().map_or(window, |refused| refused.min(window))
}

/// The tokens of the window that remain free beside a request of `used` tokens. The vendor has counted
/// `measured` tokens, and the remaining tokens are estimated. Some room stays free, because the vendor may
/// count more than estimated.
pub(crate) fn left(window: u64, used: u64, measured: u64) -> u64 {
    let more = (used.saturating_sub(measured) / 2).min(used / 10);
    window.saturating_sub(used).saturating_sub(more).saturating_sub(window / 32)
}
