//! Keeps what is sent within the model's window: clears old results, and summarizes the oldest
//! part.

use std::time::Duration;

use super::summarize::{TRIES, most_after};
use crate::{
    Agent, Chat, Event, Machine,
    machine::{ContextView, MeasuredRequest},
    run::driver::RunDriver,
};
use harness_core::{
    context::{
        ContextUse, CopiedLine, StatedSizes, clear, clear_arguments, copied_line, percent, sizes,
        tail,
    },
    error::Error,
    journal::{ClearedArguments, ClearedResult, Fact},
    message::{CallOutcome, ToolCall},
    provider::{ContextMeter, ContextTokens},
    tool::{COPIED, READ_RESULT},
};

/// Estimates the size of what is sent, and corrects the estimate by what the vendor has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContextGauge {
    meter: ContextMeter,
    /// The last request that was estimated: the number of its messages, and its tokens.
    asked: (usize, u64),
    /// From how many tokens on it is checked again whether something can be moved.
    look_at: u64,
}

impl ContextGauge {
    pub(crate) fn new(meter: ContextMeter) -> Self {
        Self { meter, ..Self::default() }
    }

    /// The estimate for the next request.
    pub(crate) fn count(&mut self, seen: ContextView<'_>) -> ContextTokens {
        self.meter.count(seen.messages(), seen.thinking_from)
    }

    /// The estimate for a request that is sent now.
    pub(crate) fn estimate_request(&mut self, seen: ContextView<'_>) -> ContextTokens {
        let tokens = self.count(seen);
        self.asked = (seen.messages().len(), tokens.total());
        tokens
    }

    /// How many tokens the next request has. `empty` is a meter that has counted no message.
    fn context_usage(
        &mut self,
        seen: ContextView<'_>,
        known: Option<MeasuredRequest>,
        empty: ContextMeter,
    ) -> ContextUsage {
        let estimated = self.count(seen).total();
        let Some(known) = known else {
            return ContextUsage { tokens: estimated, scale: (1, 1) };
        };
        let sent = seen.messages();
        if self.asked.0 != known.messages {
            let mut meter = empty;
            let then = meter.count(&sent.range(..known.messages), seen.thinking_from);
            self.asked = (known.messages, then.total());
        }
        let then = self.asked.1;
        let scale = scale(known.tokens, then);
        // What the vendor adds to a small request is a large part of it, and says nothing about
        // later growth.
        let growth = if then < MANY { (1, 1) } else { scale };
        let more = scaled(estimated.saturating_sub(then), growth);
        let frames = u64::try_from(sent.len().saturating_sub(known.messages)).unwrap_or(0);
        let more = more.saturating_add(frames.saturating_mul(FRAME));
        ContextUsage { tokens: known.tokens.saturating_add(more), scale }
    }
}

/// A number of tokens, and the factor for estimates as a fraction.
#[derive(Clone, Copy)]
pub(crate) struct ContextUsage {
    pub(crate) tokens: u64,
    scale: (u64, u64),
}

impl ContextUsage {
    /// The estimate that corresponds to this number of tokens.
    pub(crate) fn estimate_of(&self, tokens: u64) -> u64 {
        let (by, of) = self.scale;
        scaled(tokens, (of, by))
    }

    pub(crate) fn scaled(&self, estimated: u64) -> u64 {
        scaled(estimated, self.scale)
    }
}

/// From this many tokens on, the factor for old messages also holds for new ones.
const MANY: u64 = 2_000;

/// About how many tokens the frame of a message costs.
const FRAME: u64 = 10;

/// With fewer tokens than this, the error of an estimate cannot be measured.
const FEW: u64 = 200;

fn scale(counted: u64, estimated: u64) -> (u64, u64) {
    if estimated < FEW || counted == 0 {
        return (1, 1);
    }
    // A server may count something else than what was sent, such as only what was not in its cache.
    let (least, most) = (estimated / 3, estimated.saturating_mul(3));
    (counted.clamp(least, most), estimated)
}

fn scaled(tokens: u64, (by, of): (u64, u64)) -> u64 {
    let scaled = u128::from(tokens) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// A conversation with an estimate of fewer tokens fits into any window whose size was not set.
const SMALL: u64 = 1_000;

/// A `max_tokens` that does not fit is lowered to a multiple of this fraction of the window: one part in sixteen.
const STEPS: u64 = 16;

/// A count of a request that is more times the estimate than this is taken for a mistake.
const WRONG: u64 = 8;

/// Vendors take no `max_tokens` below this.
const LEAST: u64 = 16;

/// How many tokens an answer may have after a refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReducedMaxTokens {
    pub(crate) tokens: u32,
    /// Whether the vendor has counted the request.
    is_counted: bool,
}

/// How many tokens a window has left beside a request with so many, `measured` of which were counted by the vendor. It may
/// count more for the others than is estimated.
fn left(window: u64, used: u64, measured: u64) -> u64 {
    let more = (used.saturating_sub(measured) / 2).min(used / 10);
    window.saturating_sub(used).saturating_sub(more).saturating_sub(window / 32)
}

/// What can be cleared.
#[derive(Default)]
struct ClearableParts {
    results: Vec<ClearedResult>,
    arguments: Vec<ClearedArguments>,
    /// How many tokens clearing it saves.
    saved: u64,
}

/// A change of what is sent that is due before the model is asked.
pub(crate) enum ContextEdit {
    /// Results are to be cleared.
    Clear(Box<Fact>),
    /// The oldest part is to be summarized.
    Compact,
}

impl Agent {
    /// How many tokens the window has by the program's setting or by the table of models.
    fn window_tokens(&self) -> Option<u64> {
        let look_up = || {
            let (name, model) = self.provider_and_model();
            self.models().find(name, model).window
        };
        self.window().set_tokens().or_else(|| *self.known_window().get_or_init(look_up))
    }

    /// The same in a conversation, in which the vendor may have stated it.
    pub(crate) fn window_in(&self, machine: &Machine) -> Option<u64> {
        let (provider, model) = self.provider_and_model();
        let told = machine.stated_window(provider, model);
        self.window_tokens().into_iter().chain(told).min()
    }
}

impl Chat {
    /// How full the model's window is, and what could be cleared. The numbers are estimates,
    /// corrected by what the vendor has counted. [`Reply::context`](crate::Reply::context) has the
    /// numbers of the last request.
    ///
    /// ```
    /// use harness::{Agent, context::Window, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("Hello.").tokens(1_000, 2)]);
    /// let agent = Agent::builder(model).window(Window::new().tokens(8_000)).build()?;
    /// let mut chat = agent.chat();
    /// chat.send("Say hello.").await?;
    /// let context = chat.context();
    /// assert_eq!(context.window, Some(8_000));
    /// assert!(context.used > 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn context(&self) -> ContextUse {
        let mut gauge = self.gauge;
        let parts = gauge.count(self.sent_view());
        let used = gauge.context_usage(self.sent_view(), self.machine.measured(), self.meter());
        let mut all = ContextUse::default();
        (all.window, all.used, all.parts) = (self.window_tokens(), used.tokens, parts);
        all.tool_searches = self.machine.found().len();
        (all.clearable, all.summed_up) = (self.clearable(used).saved, self.machine.summed_up());
        all
    }

    /// How many tokens the window has: the smaller one of the known size and the size that the
    /// vendor has stated.
    pub(crate) fn window_tokens(&self) -> Option<u64> {
        self.agent.window_in(&self.machine)
    }

    /// Whether the size of the window is the one that the vendor has stated.
    pub(crate) fn is_told_window(&self) -> bool {
        let (provider, model) = self.agent.provider_and_model();
        let told = self.machine.stated_window(provider, model);
        told.is_some_and(|told| self.agent.window_tokens().is_none_or(|known| told < known))
    }

    /// Whether a refusal contradicts what is known of the window.
    pub(crate) fn is_contradicted(&self) -> bool {
        self.machine.too_large().is_some() || self.is_told_window()
    }

    /// The size of the window as the program or the table of models has it, if no refusal contradicts that.
    pub(crate) fn trusted_window(&self) -> Option<u64> {
        self.window_tokens().filter(|_| !self.is_contradicted())
    }

    /// How many tokens an answer to the next request may have, if the program or the table of models has the size of the
    /// window. The size in a refusal may be wrong, and would cut off answers.
    pub(crate) fn room_for_answer(&mut self) -> Option<u32> {
        let window = self.agent.window_tokens().filter(|_| !self.agent.window().is_off())?;
        let used = self.context_usage().tokens;
        // In few steps: a vendor may read the conversation anew if its model may think more or less than before.
        let step = (window / STEPS).max(1);
        let room = (left(window, used, self.measured_tokens()) / step * step).max(step);
        // If it is full already, the vendor decides.
        let fits = room >= LEAST && used < window;
        fits.then(|| u32::try_from(room).unwrap_or(u32::MAX))
    }

    /// How many tokens of the next request are measured: counted by the vendor, or estimated by its counts when something was
    /// moved.
    fn measured_tokens(&self) -> u64 {
        self.machine.measured().map_or(0, |measured| measured.tokens)
    }

    /// What can be cleared.
    fn clearable(&self, used: ContextUsage) -> ClearableParts {
        let (machine, seen) = (&self.machine, self.sent_view());
        let all = machine.transcript().messages();
        let window = self.window_tokens().unwrap_or(used.tokens);
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
        // Arguments that nobody could read again are not cleared.
        if self.tools().get(READ_RESULT).is_some() {
            let long = machine.long_calls(before);
            for (arguments, tokens) in long.filter_map(|(at, call)| clear_arguments(at, call)) {
                found.arguments.push(arguments);
                found.saved = found.saved.saturating_add(tokens);
            }
        }
        found.saved = used.scaled(found.saved);
        found
    }

    /// The argument of this call that repeats the line for a cleared argument.
    fn find_copied_line(&self, call: &ToolCall) -> Option<CopiedLine> {
        if !self.machine.has_shortened() {
            return None;
        }
        copied_line(&call.decoded().ok()?)
    }

    /// The change of what is sent that is due before the model is asked, if there is one.
    pub(crate) fn due(&mut self) -> Option<ContextEdit> {
        let policy = self.agent.window().clone();
        if policy.is_off() || !self.machine.can_edit_context() {
            return None;
        }
        if let Some(fact) = self.files_due() {
            return Some(ContextEdit::Clear(Box::new(fact)));
        }
        let estimated = self.estimated();
        let (provider, model) = self.agent.provider_and_model();
        let refused = self.machine.is_refused(provider, model);
        let is_guessed = self.is_told_window() && self.machine.is_guessed(provider, model);
        if !refused && policy.set_tokens().is_none() && estimated < SMALL {
            return None;
        }
        let used = self.context_usage();
        let window = self.window_tokens().or_else(|| refused.then_some(used.tokens))?;
        let is_over = |at: Option<u64>| at.is_some_and(|at| refused || used.tokens >= at);
        let looks = refused || used.tokens >= self.gauge.look_at;
        if looks && is_over(policy.clears_at(window)) {
            let ClearableParts { results, arguments, saved } = self.clearable(used);
            let (before, after) = (used.tokens, used.tokens.saturating_sub(saved));
            let is_some = !results.is_empty() || !arguments.is_empty();
            if is_some && (refused || saved >= window / WORTH) {
                let cleared = Fact::ContextCleared { results, arguments, before, after };
                return Some(ContextEdit::Clear(Box::new(cleared)));
            }
            self.gauge.look_at = used.tokens.saturating_add(window / WORTH / 2);
        }
        let cut = is_over(policy.compacts_at(window)).then(|| self.cut(window, used)).flatten()?;
        // A window that is only guessed from a refused request may be larger. If a summary would free too little, or two
        // have failed, the request is sent as it is, and the vendor decides.
        if !refused && is_guessed && self.machine.failed_compactions() >= TRIES {
            return None;
        }
        let may_help = refused
            || !is_guessed
            || self.least_after(&cut, used).is_ok_and(|least| least < most_after(used.tokens));
        may_help.then_some(ContextEdit::Compact)
    }

    /// How many tokens the next request has.
    pub(crate) fn context_usage(&mut self) -> ContextUsage {
        let mut gauge = self.gauge;
        let used = gauge.context_usage(self.sent_view(), self.machine.measured(), self.meter());
        self.gauge = gauge;
        used
    }

    /// The estimate for the next request, whatever a vendor has counted before.
    fn estimated(&mut self) -> u64 {
        let mut gauge = self.gauge;
        let estimated = gauge.count(self.sent_view()).total();
        self.gauge = gauge;
        estimated
    }

    /// What is sent to the agent's model.
    pub(crate) fn sent_view(&self) -> ContextView<'_> {
        let (provider, model) = self.agent.provider_and_model();
        self.machine.sent_view_for(provider, model)
    }

    /// How many tokens the window has. If that is not known, it counts as full.
    pub(crate) fn window_or(&self, used: ContextUsage) -> u64 {
        self.window_tokens().unwrap_or(used.tokens)
    }

    /// The same for a summary: if a request for one was refused as too large, the window is not larger than that one.
    pub(crate) fn window_to_sum_up(&self, used: ContextUsage) -> u64 {
        let window = self.window_or(used);
        self.machine.too_large().map_or(window, |refused| refused.min(window))
    }

    /// Resets the estimate, because what is sent has changed.
    pub(crate) fn reset_estimate(&mut self) {
        self.gauge = ContextGauge::new(self.meter());
    }
}

/// Results are cleared if that saves at least this fraction of the window: one part in ten.
const WORTH: u64 = 10;

impl RunDriver<'_> {
    /// Makes a change of what is sent.
    pub(crate) async fn edit_context(&mut self, due: ContextEdit) -> Result<(), Error> {
        match due {
            ContextEdit::Clear(fact) => self.apply_clearing(&fact),
            ContextEdit::Compact => self.compact_full_window().await,
        }
    }

    pub(crate) fn apply_clearing(&mut self, fact: &Fact) -> Result<(), Error> {
        self.chat.record(fact)?;
        if let Fact::ContextCleared { results, arguments, before, after } = fact {
            let (results, arguments) = (results.len(), arguments.len());
            let (before, after) = (*before, *after);
            self.emit(Event::ContextCleared { results, arguments, before, after });
        }
        Ok(())
    }

    /// Lowers `max_tokens` if the vendor has refused a request because its answer might not fit, and has named the sizes.
    /// Returns whether the request is sent again. `before` is the value in the refused request, if it was lowered already:
    /// then it is lowered once more if the vendor has counted the request only now, and further as long as it does not know
    /// the size.
    pub(crate) fn lower_max_tokens_after(
        &mut self,
        error: &Error,
        before: Option<ReducedMaxTokens>,
    ) -> bool {
        let is_last = error.last().is_context_full();
        if !(is_last || error.is_context_full()) || self.chat.agent.window().is_off() {
            return false;
        }
        let last = if is_last { error.last() } else { error };
        let StatedSizes { window: Some(window), request, is_least } = sizes(last) else {
            return false;
        };
        let counted = request.filter(|_| !is_least);
        let before_counted = before.is_some_and(|it| it.is_counted);
        let rest = request.map(|tokens| window.saturating_sub(tokens));
        // The refused `max_tokens`, if it is known. A vendor that has stopped counting has named the window less `max_tokens`.
        let was =
            before.map(|it| u64::from(it.tokens)).into_iter().chain(rest.filter(|_| is_least));
        let was = was.min();
        let room = match counted {
            Some(tokens) if !before_counted => window.saturating_sub(tokens),
            None if is_least => {
                left(window, self.chat.context_usage().tokens, self.chat.measured_tokens())
            }
            _ => return false,
        };
        // If the refused value would fit by these sizes, they are wrong: half of it is tried, and so on.
        let room = match was {
            Some(was) if room >= was => was / 2,
            _ => room,
        };
        let tokens = u32::try_from(room).unwrap_or(u32::MAX);
        if u64::from(tokens) < LEAST.max(window / STEPS) {
            return false;
        }
        self.chat.reduced_max_tokens =
            Some(ReducedMaxTokens { tokens, is_counted: counted.is_some() });
        self.chat.is_strict = true;
        let cause = &*self.chat.agent.secrets().hide(&error.to_string()).into_owned();
        let (attempt, of, wait) = (2, 2, Duration::ZERO);
        self.chat.tracer.retry(attempt, of, wait, cause);
        self.emit(Event::Retrying { attempt, of, wait, cause });
        true
    }

    /// Reacts to a vendor that has refused a request because it is too large. Returns whether
    /// something can be moved, so that the model can be asked again. This is done once for each
    /// answer.
    pub(crate) fn edit_context_after(&mut self, error: &Error) -> Result<bool, Error> {
        if self.drop_refused_summary(error)? {
            return Ok(true);
        }
        let Chat { agent, machine, .. } = &*self.chat;
        let (name, model) = agent.provider_and_model();
        let refused_before = machine.last_refused(name, model);
        // The first failure may be another one, after which a second try or another provider was asked.
        let is_last = error.last().is_context_full();
        if !(is_last || error.is_context_full()) || agent.window().is_off() {
            return Ok(false);
        }
        // While the first provider cools down, the agent falls back without saying so.
        let error = if is_last { error.last() } else { error };
        let by_other = error.provider().is_some_and(|by| by != name) || error.is_by_fallback();
        let fallback = is_last && (self.fell_back || by_other);
        let StatedSizes { window, request: tokens, is_least } = sizes(error);
        // If the vendor has counted only a part, the size is not known, unless that part nearly fills the window.
        let is_most = |tokens: u64| window.is_some_and(|window| tokens >= percent(window, 75));
        let tokens = tokens.filter(|tokens| !is_least || is_most(*tokens));
        let estimated = self.chat.context_usage().tokens;
        // A size that is many times the estimate is wrong. If it counted, all later requests would seem too large. But the
        // vendor may have counted less than all of the requests before.
        let most = estimated.max(self.chat.estimated());
        let tokens = tokens.filter(|tokens| *tokens / WRONG <= most);
        // The request was small: what did not fit was the answer that it allows (`max_tokens`).
        let is_small = window.is_some_and(|window| match tokens {
            Some(tokens) => tokens < percent(window, 75),
            None => estimated < percent(window, 25),
        });
        if is_small {
            return Ok(false);
        }
        let had_doubts = self.chat.machine.is_window_doubtful();
        self.record_overflow(fallback, (window, tokens, estimated))?;
        if self.chat.machine.is_window_doubtful() && !had_doubts {
            // The request is sent again as it is. If it is refused again, the window is what was named.
            return Ok(true);
        }
        // If no size is named, the window is found by halves.
        let is_smaller = |before: u64| estimated <= before.saturating_sub(before / 6);
        let is_new = window.is_none() && refused_before.is_some_and(is_smaller);
        Ok((refused_before.is_none() || is_new) && self.chat.due().is_some())
    }

    /// Records that a request was refused because it is too large: how many tokens the window and the request have, if
    /// that was stated, and how many the request has by the estimate.
    pub(crate) fn record_overflow(
        &mut self,
        fallback: bool,
        (window, tokens, estimated): (Option<u64>, Option<u64>, u64),
    ) -> Result<(), Error> {
        let (provider, model) = self.chat.agent.provider_and_model();
        let (provider, model) = (provider.to_owned(), model.to_owned());
        let fact = Fact::ContextOverflowed { provider, model, fallback, window, tokens, estimated };
        self.chat.record(&fact)
    }

    /// Answers a call whose argument repeats the line for a cleared argument of an earlier call.
    /// Such a call does not run. Returns whether it was one.
    pub(crate) fn refuse_copy(&mut self, call: &ToolCall) -> Result<bool, Error> {
        let Some(CopiedLine { argument, name }) = self.chat.find_copied_line(call) else {
            return Ok(false);
        };
        let reads = match name.filter(|_| self.chat.can_read_results()) {
            Some(name) => format!("; `{READ_RESULT}` reads those of the earlier call as `{name}`"),
            None => String::new(),
        };
        let text = format!(
            "{COPIED}`{argument}` has words of the line that stands in the record of an earlier call in the place of what \
             was left out there. Nothing of this call has happened. Give the argument itself{reads}. If these very words are \
             meant, give them in two calls, a part of them in each. To find such a line in a file, give only the end of it."
        );
        let tools = self.chat.agent.tools();
        let result = tools.readable_now(call.id(), CallOutcome::NotStarted, vec![text.into()]);
        let result = self.chat.guard.noted(call, result);
        self.emit(Event::ToolResult { call, result: &result, elapsed: Duration::ZERO });
        self.record_result(result)?;
        Ok(true)
    }
}
