//! Decides where a conversation is cut for a summary, and calculates the size of the shortened conversation.

use super::{
    context_usage::{is_contradicted, trusted_window, window_or},
    gauge::{ContextGauge, ContextUsage},
};
use crate::conversation::state::ConversationState;
use harness_core::{
    context::{OpenCalls, SummaryCut, TAILS, cut, percent},
    error::{Error, ErrorKind},
    journal::{Fact, SummaryRequest, VendorSummary},
    message::Role,
    provider::tokens_of,
    tool::READ_RESULT,
};

/// How often a summary is requested in one run before the run fails.
pub(crate) const TRIES: u32 = 2;

/// The largest size of a summary, in percent of the window.
pub(crate) const SUMMARY: u8 = 10;

/// The longest answer, in tokens, that is requested of an unknown model. Every known model can give longer
/// answers.
const LONGEST: u64 = 1_600;

/// If the size of the window is known, the conversation in short form gets at least one eighth of the window.
const SHORT: u64 = 8;

/// Whether the model has the tool that reads large results.
pub(crate) fn can_read_results(state: &ConversationState) -> bool {
    state.agent.tools().get(READ_RESULT).is_some()
}

/// The longest answer of the model, in tokens.
pub(crate) fn longest_answer(state: &ConversationState) -> u64 {
    let (name, model) = state.agent.provider_and_model();
    state.agent.models().find(name, model).output.map_or(LONGEST, u64::from)
}

/// Where the conversation is cut for a summary. `None` if nothing can be summarized. The cut keeps as much as
/// possible of the newest turns and of the user's messages, but the summary must still free enough tokens.
pub(crate) fn summary_cut(
    state: &ConversationState,
    window: u64,
    used: ContextUsage,
) -> Option<SummaryCut> {
    if !state.machine.can_edit_context() {
        return None;
    }
    let all = state.machine.transcript().messages();
    // A cut must not separate calls from their results.
    let may_cut = |at: usize| all.get(at).is_none_or(|message| message.role() != Role::Tool);
    // The program can request a summary while most of the window is free. So the sizes of the kept parts are
    // shares of the current request, and not of the window.
    let window = used.estimate_of(window.min(used.tokens));
    let mut found = None;
    for shares in TAILS {
        let Some(next) = cut_at(state, window, shares, may_cut) else { continue };
        let frees = |after| after < most_after(used.tokens);
        let is_enough = least_after(state, &next, used).is_ok_and(frees);
        found = Some(next);
        if is_enough {
            break;
        }
    }
    found
}

/// Where the conversation is cut if the newest turns get `tail` percent of the window, and the user's messages
/// `words` percent of their largest size. `may_cut` returns whether a cut before this message is possible.
pub(super) fn cut_at(
    state: &ConversationState,
    window: u64,
    (tail, words): (u8, u8),
    may_cut: impl Fn(usize) -> bool,
) -> Option<SummaryCut> {
    let (machine, seen) = (&state.machine, state.sent_view());
    let (all, as_sent) = (machine.transcript().messages(), |at: usize| seen.sent_for(at));
    let is_users = |at: usize| !machine.is_own_message(at);
    let late_end = |call: &str| machine.late_end_of(call);
    let calls = OpenCalls { reads: can_read_results(state), late_end: &late_end };
    let user_tokens = state.agent.window().user_tokens(window);
    let room = (percent(window, tail), percent(user_tokens, words));
    cut(all, machine.summed_up(), as_sent, may_cut, is_users, room, calls)
}

/// Checks that a request for a summary in short form fits into the window, with room for a part of the
/// conversation. `asks` is the size of the request without the conversation. The answer needs four tokens per
/// word.
pub(crate) fn check_room_for_summary(
    state: &ConversationState,
    asks: u64,
    words: u64,
) -> Result<(), Error> {
    let answer = words.saturating_mul(4);
    // The size in an error of the vendor may be wrong, so only a trusted size counts.
    let window = trusted_window(state);
    let needs = asks.saturating_add(answer);
    let is_small = |window: &u64| needs > percent(*window, 100 - SUMMARY) - window / SHORT;
    let Some(window) = window.filter(is_small) else { return Ok(()) };
    Err(Error::new(
        ErrorKind::ContextFull,
        format!(
            "a window of {window} tokens is too small to summarize the conversation: besides the conversation, the \
             request for a summary has about {asks} tokens, with the system prompt, and its answer up to {answer}. \
             Use a model with a larger window or a shorter system prompt"
        ),
    ))
}

/// The least number of tokens that the conversation gets in a request for a summary in short form.
pub(crate) fn least_in_short(state: &ConversationState, used: ContextUsage) -> u64 {
    window_or(state, used) / if is_contradicted(state) { 64 } else { SHORT }
}

/// The fact by which a summary replaces the oldest part of the conversation.
pub(crate) fn compaction_fact(
    state: &ConversationState,
    cut: &SummaryCut,
    text: &str,
    vendor: Option<Box<VendorSummary>>,
    request: Box<SummaryRequest>,
    (before, after): (u64, u64),
) -> Fact {
    let number = |at: usize| u64::try_from(at).unwrap_or(u64::MAX);
    Fact::ContextCompacted {
        messages: number(cut.messages),
        kept: cut.kept.iter().map(|at| number(*at)).collect(),
        summary: cut.summary(text, state.machine.pins()),
        vendor,
        request,
        before,
        after,
    }
}

/// How many tokens a request would have with this summary.
pub(crate) fn tokens_after(
    state: &ConversationState,
    cut: &SummaryCut,
    text: &str,
    used: ContextUsage,
) -> Result<u64, Error> {
    after_fact(state, &compaction_fact(state, cut, text, None, Box::default(), (0, 0)), used)
}

/// The tokens of a request whose summary is as long as the earlier summary.
pub(crate) fn least_after(
    state: &ConversationState,
    cut: &SummaryCut,
    used: ContextUsage,
) -> Result<u64, Error> {
    let earlier = state.machine.readable().summary().map_or(0, tokens_of);
    Ok(tokens_after(state, cut, "", used)?.saturating_add(used.scaled(earlier)))
}

/// How many tokens a request would have after this fact.
pub(crate) fn after_fact(
    state: &ConversationState,
    fact: &Fact,
    used: ContextUsage,
) -> Result<u64, Error> {
    let mut machine = state.machine.clone();
    machine.apply(fact)?;
    let (provider, model) = match fact {
        Fact::ContextCompacted { vendor: Some(made), .. } => (&*made.provider, &*made.model),
        _ => state.agent.provider_and_model(),
    };
    let seen = machine.sent_view_for(provider, model);
    let estimated = ContextGauge::new(state.agent.meter()).count(seen).total();
    Ok(used.scaled(estimated))
}

/// The largest size of a request after a summary, in tokens. The request had `before` tokens before the
/// summary.
pub(crate) fn most_after(before: u64) -> u64 {
    before.saturating_sub(before / 4)
}
