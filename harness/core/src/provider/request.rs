//! The request to a provider.

use std::{borrow::Cow, sync::Arc, time::Duration};

use harness_schema::{EncodedSchema, SchemaCache, SchemaForm, ToolSchema};
use tokio_util::sync::CancellationToken;

use super::{
    Effort, EncodedPrefix, OutputSchema, PrefixAddition, RetryAccounting, RetryCost, Settings,
    ToolSearches,
};
use crate::{
    error::Error,
    message::{Message, Messages, Transcript},
};

/// One request to a provider, which is one call of the provider. The request borrows large data, so creating a
/// request copies nothing.
///
/// A request can only be created from a transcript in which every call has a result.
///
/// The request contains the failure counter of its call. A clone belongs to the same call and shares the counter,
/// even if both requests are sent. For each further message to the model, create a new request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    system: Option<&'a str>,
    messages: &'a Messages,
    tools: &'a [ToolSchema],
    forms: Option<&'a SchemaCache>,
    /// The searches that found some of `tools`.
    found: ToolSearches<'a>,
    settings: Option<&'a Settings>,
    bounds: TokenBounds,
    answer: Option<&'a OutputSchema>,
    sent: Option<&'a EncodedPrefix>,
    view: RequestView<'a>,
    /// Whether the request asks for a summary of the messages instead of an answer.
    summarizes: bool,
    /// Instructions and tools that are sent after earlier messages.
    additions: &'a [PrefixAddition],
    /// The names of those `tools` that the model may not call.
    hidden: &'a [String],
    stop: Option<&'a CancellationToken>,
    retries: RequestRetries,
}

/// Limits on the tokens of the answer, in addition to the setting `max_tokens`.
#[derive(Clone, Copy, Debug, Default)]
struct TokenBounds {
    /// The answer may have at least this many tokens, even if `max_tokens` is lower.
    least: Option<u32>,
    /// The number of tokens that are left in the model's window. This number always limits a `max_tokens` in the
    /// settings. The `bool` is whether this number also limits the default of a wire.
    room: Option<(u32, bool)>,
    /// A reduced limit of tokens, after a refusal or for a summary. This limit also applies to the default of a wire.
    lowered: Option<u32>,
}

/// Which of the messages are sent to which model.
#[derive(Clone, Copy, Debug, Default)]
struct RequestView<'a> {
    /// Thinking in messages before this index is not sent.
    thinking_from: usize,
    open_turn: usize,
    /// The messages that one model gets in place of `messages`.
    vendors: Option<VendorsView<'a>>,
    /// The first message of the whole conversation. The outer `Option` is `Some` only if `messages` come from
    /// `vendors`.
    began: Option<Option<&'a Message>>,
}

/// What failures have cost so far, and whether the caller or the provider retries.
#[derive(Clone, Debug, Default)]
struct RequestRetries {
    ledger: Option<RetryAccounting>,
    /// The failures of this call.
    call: RetryAccounting,
    outside: bool,
    reconnects: Option<bool>,
}

/// A conversation that begins with a vendor's own summary. Only the model that made the summary can read it.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct VendorsView<'a> {
    /// The name of the provider that made the summary.
    pub provider: &'a str,
    /// The model, as named in requests.
    pub model: &'a str,
    /// The messages that are sent: the summary, and the messages after it.
    pub messages: &'a Messages,
    /// The user message that repeats the summary as text.
    pub words: Option<&'a Message>,
    /// The index of the first of `messages` whose thinking is sent.
    pub thinking_from: usize,
    /// The index of the first message of the open turn. This turn was open when earlier thinking was
    /// omitted.
    pub open_turn: usize,
}

impl<'a> Request<'a> {
    /// Creates a request that continues this transcript.
    ///
    /// # Errors
    /// [`ErrorKind::Transcript`](crate::error::ErrorKind::Transcript) if a call has no result yet: see
    /// [`Transcript::sendable`].
    pub fn new(transcript: &'a Transcript) -> Result<Self, Error> {
        Ok(Self {
            system: None,
            messages: transcript.sendable()?,
            tools: &[],
            forms: None,
            found: ToolSearches::default(),
            settings: None,
            bounds: TokenBounds::default(),
            answer: None,
            sent: None,
            view: RequestView::default(),
            summarizes: false,
            additions: &[],
            hidden: &[],
            stop: None,
            retries: RequestRetries::default(),
        })
    }

    /// Adds the system prompt.
    #[must_use]
    pub fn with_system(mut self, system: Option<&'a str>) -> Self {
        self.system = system;
        self
    }

    /// Adds the tools, in the order in which they are sent.
    #[must_use]
    pub fn with_tools(mut self, tools: &'a [ToolSchema]) -> Self {
        self.tools = tools;
        self.forms = None;
        self
    }

    /// Adds the cache of these tools' schemas, which later requests reuse.
    #[must_use]
    #[doc(hidden)]
    pub fn with_forms(mut self, forms: &'a SchemaCache) -> Self {
        self.forms = Some(forms);
        self
    }

    /// Adds the searches that found some of the tools.
    #[must_use]
    #[doc(hidden)]
    pub fn with_found(mut self, found: ToolSearches<'a>) -> Self {
        self.found = found;
        self
    }

    /// Adds settings for this request alone. Values that the settings leave open come from the provider's settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Option<&'a Settings>) -> Self {
        self.settings = settings;
        self
    }

    /// Allows the answer at least this many tokens, even if the provider's settings allow fewer.
    #[doc(hidden)]
    pub fn with_least_tokens(mut self, tokens: u32) -> Self {
        self.bounds.least = Some(tokens);
        self
    }

    /// Limits `max_tokens` to this number, because more tokens do not fit into the window of the agent's model. The
    /// default of a wire is limited only if `is_strict` is set. Most servers accept any default, and an unchanged
    /// default lets consecutive requests begin with the same bytes.
    #[doc(hidden)]
    pub fn with_room(mut self, tokens: Option<u32>, is_strict: bool) -> Self {
        self.bounds.room = tokens.map(|tokens| (tokens, is_strict));
        self
    }

    /// Limits `max_tokens`, and the default of a wire, to this number. Used for requests after a refusal, and for
    /// summaries. Unlike [`with_room`](Self::with_room), this limit applies to all members of a fallback.
    #[doc(hidden)]
    pub fn with_lowered_tokens(mut self, tokens: Option<u32>) -> Self {
        self.bounds.lowered = tokens;
        self
    }

    /// Adds the schema that the answer has to match, if there is one.
    #[must_use]
    pub fn with_answer(mut self, answer: Option<&'a OutputSchema>) -> Self {
        self.answer = answer;
        self
    }

    /// Adds the run's record of failures. Without this record, each call counts as a run of its
    /// own.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<&RetryAccounting>) -> Self {
        self.retries.ledger = ledger.cloned();
        self
    }

    /// Adds the encoded messages of an earlier request, so that this request does not encode the
    /// messages again.
    #[must_use]
    pub fn with_sent(mut self, sent: Option<&'a EncodedPrefix>) -> Self {
        self.sent = sent;
        self
    }

    /// Omits the thinking of all messages before this index. Use this after earlier messages have been replaced:
    /// vendors refuse thinking if earlier messages have changed since the thinking was generated.
    #[must_use]
    pub fn with_thinking_from(mut self, message: usize) -> Self {
        (self.view.thinking_from, self.view.open_turn) = (message, message);
        self
    }

    /// Sets the first message of the turn that was still open when earlier thinking was omitted. Some models refuse
    /// results without the thinking before their calls. These models accept this thinking even if earlier messages
    /// have changed.
    #[must_use]
    pub fn with_open_turn(mut self, message: usize) -> Self {
        self.view.open_turn = message.min(self.view.thinking_from);
        self
    }

    /// Adds instructions and tools that changed during the conversation. Each [`PrefixAddition`] names a message.
    /// Providers that [support additions](super::ReasoningBinding::appends) send the addition after that message.
    #[must_use]
    pub fn with_additions(mut self, additions: &'a [PrefixAddition]) -> Self {
        self.additions = additions;
        self
    }

    /// Sets which tools the model may not call now. The request still contains these tools, because earlier reasoning
    /// is bound to them.
    #[must_use]
    pub fn with_hidden_tools(mut self, names: &'a [String]) -> Self {
        self.hidden = names;
        self
    }

    /// Requests the vendor's own summary of the messages instead of an answer: see
    /// [`is_summary_request`](Self::is_summary_request).
    #[must_use]
    pub fn with_summary_wanted(mut self) -> Self {
        self.summarizes = true;
        self
    }

    /// Adds the messages for the model that made the vendor's summary.
    #[must_use]
    #[doc(hidden)]
    pub fn with_vendors(mut self, view: Option<VendorsView<'a>>) -> Self {
        self.view.vendors = view;
        self
    }

    /// The request for this model of this provider. If the model has made a summary of its own (see the fact
    /// `context_compacted`), the returned request consists of this summary in the vendor's form, the same summary as
    /// text, and all later messages. For any other model, the request is returned unchanged.
    pub fn for_model(&self, provider: &str, model: &str) -> Cow<'_, Self> {
        match &self.view.vendors {
            Some(view) if (view.provider, view.model) == (provider, model) => {
                let mut own = self.clone();
                own.view.began = Some(self.messages.get(0));
                own.messages = view.messages;
                let own = own.with_thinking_from(view.thinking_from);
                Cow::Owned(own.with_open_turn(view.open_turn))
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Whether [`for_model`](Self::for_model) has replaced the messages, so that they begin with a vendor's summary.
    pub fn has_summary_first(&self) -> bool {
        self.view.began.is_some()
    }

    /// The first message of the conversation, even if the request no longer contains it.
    pub fn first(&self) -> Option<&'a Message> {
        self.view.began.unwrap_or_else(|| self.messages.get(0))
    }

    /// Whether this is the user message that repeats a vendor's summary as text.
    pub fn is_beside_summary(&self, message: &Message) -> bool {
        let words = self.view.vendors.as_ref().and_then(|view| view.words);
        self.view.began.is_some() && words.is_some_and(|words| words.id() == message.id())
    }

    /// Adds the token that stops the run, so that the provider can close its connection as soon as the token is
    /// cancelled. The caller also watches the token. So the stream need not report the cancellation, and yields
    /// nothing after the cancellation.
    #[must_use]
    #[doc(hidden)]
    pub fn with_stop(mut self, stop: &'a CancellationToken) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Marks that the caller retries by itself. A provider with a retry policy makes only one attempt for a marked
    /// request, and reports its failure. A provider that wraps another provider and repeats requests marks each
    /// request, so that retries do not multiply.
    #[must_use]
    pub fn with_outer_retries(mut self) -> Self {
        self.retries.outside = true;
        self
    }

    /// Sets whether the provider may replace a broken reused connection without an event. This setting overrides
    /// the provider's own policy.
    #[must_use]
    pub(crate) fn with_reconnects(mut self, reconnects: bool) -> Self {
        self.retries.reconnects = Some(reconnects);
        self
    }

    /// The same call for the provider with this index, if several providers may answer. Each provider counts its own
    /// attempts.
    #[must_use]
    #[doc(hidden)]
    pub fn of_member(mut self, number: usize) -> Self {
        self.retries.call = self.retries.call.member(number);
        if number > 0 {
            // The agent knows the window of the first provider only.
            self.bounds.room = None;
        }
        self
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&'a str> {
        self.system
    }

    /// The messages. Every call among them has its result.
    pub fn messages(&self) -> &'a Messages {
        self.messages
    }

    /// The encoded messages of an earlier request.
    pub fn sent(&self) -> Option<&'a EncodedPrefix> {
        self.sent
    }

    /// The index of the first message whose thinking is sent.
    pub fn thinking_from(&self) -> usize {
        self.view.thinking_from
    }

    /// Whether the request is for the vendor's own summary of the messages instead of an answer. Only a provider that
    /// [has such summaries](super::Provider::has_vendor_summaries) gets such a request. The answer must contain one
    /// [vendor block](crate::message::Block::Vendor) and stop as [`Paused`](super::StopReason::Paused). Later requests
    /// send this block in place of all messages of this request. Text in addition to the block is the summary for a
    /// reader. Any other answer counts as no summary, and its text is the reason.
    pub fn is_summary_request(&self) -> bool {
        self.summarizes
    }

    /// The index of the first message whose thinking is sent, for a model that needs the thinking of an open
    /// turn.
    pub fn open_turn(&self) -> usize {
        self.view.open_turn
    }

    /// The instructions and tools that are sent after earlier messages.
    pub fn additions(&self) -> &'a [PrefixAddition] {
        self.additions
    }

    /// The names of tools that the request contains, but that the model may not call now.
    pub fn hidden_tools(&self) -> &'a [String] {
        self.hidden
    }

    /// The token that stops the run.
    pub fn stop(&self) -> Option<&'a CancellationToken> {
        self.stop
    }

    /// The settings for this request alone.
    pub fn settings(&self) -> Option<&'a Settings> {
        self.settings
    }

    /// The settings of the request. Values that are `None` come from `base`, the provider's settings. Returns `None` if
    /// the request has no settings.
    pub fn settings_over(&self, base: &Settings) -> Option<Settings> {
        self.settings.map(|own| own.over(base))
    }

    /// The maximum number of tokens for the answer with these settings. `default` is the number that the wire sends if
    /// `max_tokens` is not set.
    pub fn max_tokens(&self, settings: &Settings, default: Option<u32>) -> Option<u32> {
        let Settings { max_tokens: wished, .. } = settings;
        let least = self.bounds.least.unwrap_or(0);
        let room = self.bounds.room.filter(|(_, is_strict)| wished.is_some() || *is_strict);
        let most = room.map(|(tokens, _)| tokens).into_iter().chain(self.bounds.lowered).min();
        // Vendors refuse a `max_tokens` that is not greater than the budget for thinking.
        let most = most.map(|most| most.max(least).max(over_budget(settings)));
        match wished.or(default) {
            None => most,
            Some(tokens) => {
                let least = wished.map_or(0, |_| least);
                Some(most.map_or(tokens, |most| tokens.min(most)).max(least))
            }
        }
    }

    /// The schema that the answer has to match, if there is one.
    pub fn answer(&self) -> Option<&'a OutputSchema> {
        self.answer
    }

    /// The tools, in a stable order.
    pub fn tools(&self) -> &'a [ToolSchema] {
        self.tools
    }

    /// The searches that found tools.
    pub fn found(&self) -> ToolSearches<'a> {
        self.found
    }

    /// The schemas of the tools in this form, in the order of the tools.
    pub fn parameters(&self, told: SchemaForm) -> Arc<[EncodedSchema]> {
        match self.forms {
            Some(forms) => forms.get(told, self.tools),
            None => told.of(self.tools),
        }
    }

    /// The run's record of failures.
    pub fn ledger(&self) -> Option<&RetryAccounting> {
        self.retries.ledger.as_ref()
    }

    /// Whether the caller retries by itself, so that the provider makes only one attempt.
    pub fn is_retried_outside(&self) -> bool {
        self.retries.outside
    }

    /// Whether the provider may replace a broken reused connection without an event. `None` means that the provider's
    /// own policy decides.
    pub fn reconnects(&self) -> Option<bool> {
        self.retries.reconnects
    }

    /// What failures have cost this call, and what failures have cost the run. Without a record of the run, both values
    /// are the costs of the call.
    #[doc(hidden)]
    pub fn lost(&self) -> (RetryCost, RetryCost) {
        let call = self.retries.call.lost();
        (call, self.retries.ledger.as_ref().map_or(call, RetryAccounting::lost))
    }

    /// The failures of this call.
    pub(super) fn call(&self) -> &RetryAccounting {
        &self.retries.call
    }

    /// Records time that this call has waited in the queue of a throttle. This time does not count as lost to failures.
    pub(crate) fn was_in_line(&self, time: Duration) {
        self.retries.call.was_in_line(time);
    }

    /// Records a failed attempt of this call and its duration.
    #[doc(hidden)]
    pub fn failed(&self, took: Duration) {
        self.retries.call.add(1, took);
    }

    /// Records that this call has waited before a retry.
    #[doc(hidden)]
    pub fn waited(&self, time: Duration) {
        self.retries.call.add(0, time);
        if let Some(run) = &self.retries.ledger {
            run.add(0, time);
        }
    }
}

/// The smallest `max_tokens` that the settings' budget for thinking allows; 0 without a budget.
fn over_budget(settings: &Settings) -> u32 {
    let of_extra = settings.extra.get("thinking").and_then(|it| it.get("budget_tokens")?.as_u64());
    let of_extra = of_extra.map(|budget| u32::try_from(budget).unwrap_or(u32::MAX));
    let budget = of_extra.or(match settings.effort {
        Some(Effort::Tokens(tokens)) => Some(tokens),
        _ => None,
    });
    budget.map_or(0, |budget| budget.saturating_add(1))
}
