//! How much of the window a conversation takes.

use super::gauge::ContextUsage;
use crate::conversation::state::ConversationState;

/// A `max_tokens` that does not fit is lowered to a multiple of this fraction of the window: one part in sixteen.
pub(crate) const STEPS: u64 = 16;

/// Vendors take no `max_tokens` below this.
pub(crate) const LEAST: u64 = 16;

/// How many tokens the window has: the smaller one of the known size and the size that the
/// vendor has stated.
pub(crate) fn window_tokens(state: &ConversationState) -> Option<u64> {
    state.agent.window_in(&state.machine)
}

/// Whether the size of the window is the one that the vendor has stated.
pub(crate) fn is_told_window(state: &ConversationState) -> bool {
    let (provider, model) = state.agent.provider_and_model();
    let told = state.machine.stated_window(provider, model);
    told.is_some_and(|told| state.agent.window_tokens().is_none_or(|known| told < known))
}

/// Whether a refusal contradicts what is known of the window.
pub(crate) fn is_contradicted(state: &ConversationState) -> bool {
    state.machine.too_large().is_some() || is_told_window(state)
}

/// The size of the window as the program or the table of models has it, if no refusal contradicts that.
pub(crate) fn trusted_window(state: &ConversationState) -> Option<u64> {
    window_tokens(state).filter(|_| !is_contradicted(state))
}

/// How many tokens an answer to the next request may have, if the program or the table of models has the size of the
/// window. The size in a refusal may be wrong, and would cut off answers.
pub(crate) fn room_for_answer(state: &mut ConversationState) -> Option<u32> {
    let window = state.agent.window_tokens().filter(|_| !state.agent.window().is_off())?;
    let used = context_usage(state).tokens;
    // In few steps: a vendor may read the conversation anew if its model may think more or less than before.
    let step = (window / STEPS).max(1);
    let room = (left(window, used, measured_tokens(state)) / step * step).max(step);
    // If it is full already, the vendor decides.
    let fits = room >= LEAST && used < window;
    fits.then(|| u32::try_from(room).unwrap_or(u32::MAX))
}

/// How many tokens of the next request are measured: counted by the vendor, or estimated by its counts when something was
/// moved.
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

/// The estimate for the next request from its text alone, not scaled by what a vendor has counted.
pub(crate) fn estimated_tokens(state: &mut ConversationState) -> u64 {
    let mut gauge = state.requests.gauge;
    let estimated = gauge.count(state.sent_view()).total();
    state.requests.gauge = gauge;
    estimated
}

/// How many tokens the window has. If that is not known, it counts as full.
pub(crate) fn window_or(state: &ConversationState, used: ContextUsage) -> u64 {
    window_tokens(state).unwrap_or(used.tokens)
}

/// The same for a summary: if a request for one was refused as too large, the window is not larger than that one.
pub(crate) fn window_to_sum_up(state: &ConversationState, used: ContextUsage) -> u64 {
    let window = window_or(state, used);
    state.machine.too_large().map_or(window, |refused| refused.min(window))
}

/// How many tokens a window has left beside a request with so many, `measured` of which were counted by the vendor. It may
/// count more for the others than is estimated.
pub(crate) fn left(window: u64, used: u64, measured: u64) -> u64 {
    let more = (used.saturating_sub(measured) / 2).min(used / 10);
    window.saturating_sub(used).saturating_sub(more).saturating_sub(window / 32)
}
