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

/// One request to a provider: one call. It borrows large data, so making one copies nothing.
///
/// It can only be made from a transcript that may be sent.
///
/// It contains the failure counter of its call. A clone is the same call, also when it is sent
/// again: failed tries of one count for the other. For another question, make another request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    system: Option<&'a str>,
    messages: &'a Messages,
    tools: &'a [ToolSchema],
    forms: Option<&'a SchemaCache>,
    /// The searches that found tools among these.
    found: ToolSearches<'a>,
    settings: Option<&'a Settings>,
    bounds: TokenBounds,
    answer: Option<&'a OutputSchema>,
    sent: Option<&'a EncodedPrefix>,
    view: RequestView<'a>,
    /// Whether the request asks for a summary of the messages instead of an answer.
    summarizes: bool,
    /// What is sent behind earlier messages.
    additions: &'a [PrefixAddition],
    /// The tools among these that may not be called.
    hidden: &'a [String],
    stop: Option<&'a CancellationToken>,
    retries: RequestRetries,
}

/// How many tokens the answer may have, beside the setting.
#[derive(Clone, Copy, Debug, Default)]
struct TokenBounds {
    /// The answer may have this many tokens, even if `max_tokens` is lower.
    least: Option<u32>,
    /// How many tokens the window has left, and whether that also lowers the default of a wire. A higher `max_tokens` is
    /// always lowered to that.
    room: Option<(u32, bool)>,
    /// The same after a refusal. It also lowers the default of a wire.
    lowered: Option<u32>,
}

/// Which of the messages are sent to which model.
#[derive(Clone, Copy, Debug, Default)]
struct RequestView<'a> {
    /// The thinking of messages before this index is not sent.
    thinking_from: usize,
    open_turn: usize,
    /// The messages that one model gets in place of the others.
    vendors: Option<VendorsView<'a>>,
    /// `Some` if the messages are those of `vendors`: then it holds the first message of the whole
    /// conversation.
    began: Option<Option<&'a Message>>,
}

/// What failures have cost, and who tries again.
#[derive(Clone, Debug, Default)]
struct RequestRetries {
    ledger: Option<RetryAccounting>,
    /// The failures of this call.
    call: RetryAccounting,
    outside: bool,
    reconnects: Option<bool>,
}

/// A conversation with a summary that only the model that made it understands.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct VendorsView<'a> {
    /// The name of the provider that made the summary.
    pub provider: &'a str,
    /// The model, as named in requests.
    pub model: &'a str,
    /// The messages that are sent: the summary, and the messages since.
    pub messages: &'a Messages,
    /// The user message that accompanies the summary.
    pub words: Option<&'a Message>,
    /// The index of the first of these messages whose thinking is sent.
    pub thinking_from: usize,
    /// The index of the first message of the turn that was open when thinking was left out.
    pub open_turn: usize,
}

impl<'a> Request<'a> {
    /// A request that continues this transcript.
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

    /// Adds the cached schemas of these tools, which later requests use again.
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

    /// Adds settings for this request alone. Values that they leave open come from the provider's
    /// settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Option<&'a Settings>) -> Self {
        self.settings = settings;
        self
    }

    /// Lets the answer have as many tokens as this, even if the provider allows fewer.
    #[doc(hidden)]
    pub fn with_least_tokens(mut self, tokens: u32) -> Self {
        self.bounds.least = Some(tokens);
        self
    }

    /// Lowers a `max_tokens` that is higher than this: more does not fit into the window of the agent's model. The default
    /// of a wire is lowered only if `is_strict`: most servers take any default, and consecutive requests begin with the same
    /// bytes if it stays.
    #[doc(hidden)]
    pub fn with_room(mut self, tokens: Option<u32>, is_strict: bool) -> Self {
        self.bounds.room = tokens.map(|tokens| (tokens, is_strict));
        self
    }

    /// Lowers a `max_tokens` that is higher than this, and the default of a wire. It is for requests after a refusal, and for
    /// summaries. Unlike the room, it holds for all members of a fallback.
    #[doc(hidden)]
    pub fn with_lowered_tokens(mut self, tokens: Option<u32>) -> Self {
        self.bounds.lowered = tokens;
        self
    }

    /// Adds the schema of the answer, if the answer has to fit one.
    #[must_use]
    pub fn with_answer(mut self, answer: Option<&'a OutputSchema>) -> Self {
        self.answer = answer;
        self
    }

    /// Adds the run's record of failures. Without it, each call counts as a run of its own.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<&RetryAccounting>) -> Self {
        self.retries.ledger = ledger.cloned();
        self
    }

    /// Adds the encoded messages of an earlier request. Without them, all messages are encoded
    /// again.
    #[must_use]
    pub fn with_sent(mut self, sent: Option<&'a EncodedPrefix>) -> Self {
        self.sent = sent;
        self
    }

    /// Leaves out the thinking of all messages before this index. Use it if earlier messages have
    /// been replaced: vendors refuse thinking that does not follow the messages that it followed
    /// originally.
    #[must_use]
    pub fn with_thinking_from(mut self, message: usize) -> Self {
        (self.view.thinking_from, self.view.open_turn) = (message, message);
        self
    }

    /// Sets the first message of the turn that was open when thinking was left out. Some models
    /// refuse results without the thinking before their calls, but accept it after changed
    /// messages.
    #[must_use]
    pub fn with_open_turn(mut self, message: usize) -> Self {
        self.view.open_turn = message.min(self.view.thinking_from);
        self
    }

    /// Adds instructions and tools that came when the conversation was going on. They are sent behind the messages that they
    /// name, by providers that [can](super::ReasoningBinding::appends).
    #[must_use]
    pub fn with_additions(mut self, additions: &'a [PrefixAddition]) -> Self {
        self.additions = additions;
        self
    }

    /// Sets which of the tools the model may not call now. They are still sent, since the reasoning before is bound to them.
    #[must_use]
    pub fn with_hidden_tools(mut self, names: &'a [String]) -> Self {
        self.hidden = names;
        self
    }

    /// Asks for the vendor's own summary of the messages instead of an answer: see
    /// [`is_summary_request`](Self::is_summary_request).
    #[must_use]
    pub fn with_summary_wanted(mut self) -> Self {
        self.summarizes = true;
        self
    }

    /// Adds the messages for the model that made a summary.
    #[must_use]
    #[doc(hidden)]
    pub fn with_vendors(mut self, view: Option<VendorsView<'a>>) -> Self {
        self.view.vendors = view;
        self
    }

    /// The request for this model of this provider. If the model has made a summary of its own (see
    /// the fact `context_compacted`), it gets the summary as the first message, then the text
    /// beside it and all messages since. For all other models it is this request.
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

    /// Whether [`for_model`](Self::for_model) has replaced the messages.
    pub fn has_summary_first(&self) -> bool {
        self.view.began.is_some()
    }

    /// The first message of the conversation, even if it has been replaced in the messages.
    pub fn first(&self) -> Option<&'a Message> {
        self.view.began.unwrap_or_else(|| self.messages.get(0))
    }

    /// Whether this is the text beside a vendor's summary, which repeats words that the user has
    /// said before.
    pub fn is_beside_summary(&self, message: &Message) -> bool {
        let words = self.view.vendors.as_ref().and_then(|view| view.words);
        self.view.began.is_some() && words.is_some_and(|words| words.id() == message.id())
    }

    /// Adds the token that stops the run, so that a provider can close its connection as soon as the token is
    /// cancelled. The caller watches the token, too: the stream need not report the cancellation, and yields nothing
    /// after it.
    #[must_use]
    #[doc(hidden)]
    pub fn with_stop(mut self, stop: &'a CancellationToken) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Marks that the caller retries by itself: a provider that would also retry makes one try and
    /// reports its failure. A provider that wraps another one and repeats requests marks each of
    /// them, so that retries do not multiply.
    #[must_use]
    pub fn with_outer_retries(mut self) -> Self {
        self.retries.outside = true;
        self
    }

    /// Sets whether a reused connection that breaks may be replaced silently. This overrides the
    /// provider's own policy.
    #[must_use]
    pub(crate) fn with_reconnects(mut self, reconnects: bool) -> Self {
        self.retries.reconnects = Some(reconnects);
        self
    }

    /// The same call for one of several providers, each of which counts its own tries.
    #[must_use]
    #[doc(hidden)]
    pub fn of_member(mut self, number: usize) -> Self {
        self.retries.call = self.retries.call.member(number);
        if number > 0 {
            // The agent knows only the window of the first member.
            self.bounds.room = None;
        }
        self
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&'a str> {
        self.system
    }

    /// The messages. Every call has its result.
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

    /// Whether the vendor's own summary of the messages is wanted instead of an answer. Only a
    /// provider that [has such summaries](super::Provider::has_vendor_summaries) is asked for one.
    /// The answer has to contain one [vendor block](crate::message::Block::Vendor), which later requests
    /// send in place of all messages of this request, and to stop as
    /// [`Paused`](super::StopReason::Paused); text beside the block is the summary for a reader.
    /// Any other answer counts as no summary, and its text says why.
    pub fn is_summary_request(&self) -> bool {
        self.summarizes
    }

    /// The index of the first message whose thinking is sent to a model that needs the thinking of
    /// an open turn.
    pub fn open_turn(&self) -> usize {
        self.view.open_turn
    }

    /// The instructions and tools that are sent behind messages.
    pub fn additions(&self) -> &'a [PrefixAddition] {
        self.additions
    }

    /// The names of tools that are sent and that the model may not call now.
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

    /// The settings of the request over those of the provider, if the request has its own.
    pub fn settings_over(&self, base: &Settings) -> Option<Settings> {
        self.settings.map(|own| own.over(base))
    }

    /// How many tokens the answer may have with these settings. `default` is what the wire sends if `max_tokens` is not
    /// set.
    pub fn max_tokens(&self, settings: &Settings, default: Option<u32>) -> Option<u32> {
        let Settings { max_tokens: wished, .. } = settings;
        let least = self.bounds.least.unwrap_or(0);
        let room = self.bounds.room.filter(|(_, is_strict)| wished.is_some() || *is_strict);
        let most = room.map(|(tokens, _)| tokens).into_iter().chain(self.bounds.lowered).min();
        // Vendors refuse a budget for thinking that is not smaller.
        let most = most.map(|most| most.max(least).max(over_budget(settings)));
        match wished.or(default) {
            None => most,
            Some(tokens) => {
                let least = wished.map_or(0, |_| least);
                Some(most.map_or(tokens, |most| tokens.min(most)).max(least))
            }
        }
    }

    /// The schema of the answer, if the answer has to fit one.
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

    /// Whether the caller retries by itself, so that the provider makes only one try.
    pub fn is_retried_outside(&self) -> bool {
        self.retries.outside
    }

    /// Whether a reused connection that breaks may be replaced silently. `None` if the provider's
    /// own policy decides.
    pub fn reconnects(&self) -> Option<bool> {
        self.retries.reconnects
    }

    /// What failures have cost this call, and the run. Without a run's record, the call is the
    /// whole run.
    #[doc(hidden)]
    pub fn lost(&self) -> (RetryCost, RetryCost) {
        let call = self.retries.call.lost();
        (call, self.retries.ledger.as_ref().map_or(call, RetryAccounting::lost))
    }

    /// The failures of this call.
    pub(super) fn call(&self) -> &RetryAccounting {
        &self.retries.call
    }

    /// Records time that this call has waited in the queue of a throttle. It does not count as lost
    /// to failures.
    pub(crate) fn was_in_line(&self, time: Duration) {
        self.retries.call.was_in_line(time);
    }

    /// Records a failed try of this call and its duration.
    #[doc(hidden)]
    pub fn failed(&self, took: Duration) {
        self.retries.call.add(1, took);
    }

    /// Records that this call has waited, as after a failed try.
    #[doc(hidden)]
    pub fn waited(&self, time: Duration) {
        self.retries.call.add(0, time);
        if let Some(run) = &self.retries.ledger {
            run.add(0, time);
        }
    }
}

/// The least `max_tokens` beside the budget for thinking that the settings have, if they have one.
fn over_budget(settings: &Settings) -> u32 {
    let of_extra = settings.extra.get("thinking").and_then(|it| it.get("budget_tokens")?.as_u64());
    let of_extra = of_extra.map(|budget| u32::try_from(budget).unwrap_or(u32::MAX));
    let budget = of_extra.or(match settings.effort {
        Some(Effort::Tokens(tokens)) => Some(tokens),
        _ => None,
    });
    budget.map_or(0, |budget| budget.saturating_add(1))
}
