//! What a provider is asked.

use std::{borrow::Cow, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{AnswerSchema, Found, Ledger, Lost, Sent, Settings};
use crate::{
    error::Error,
    message::{Message, Messages, Transcript},
    schema::{Forms, Parameters, Told, ToolSchema},
};

/// One question to a provider: one call. It borrows what is large, so that asking copies nothing.
///
/// It can only be made of a transcript that may be sent.
///
/// It carries the counter of its call. A clone is the same call, also when it is asked again: tries
/// that have failed of one count for the other. Whoever has another question makes another request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    system: Option<&'a str>,
    messages: &'a Messages,
    tools: &'a [ToolSchema],
    forms: Option<&'a Forms>,
    /// The searches by which tools among them were found.
    found: Found<'a>,
    settings: Option<&'a Settings>,
    answer: Option<&'a AnswerSchema>,
    sent: Option<&'a Sent>,
    /// Of the messages before this one, no thinking is sent.
    thinking_from: usize,
    /// What one model alone is sent in the place of the messages.
    vendors: Option<VendorsView<'a>>,
    /// Whether the messages are those that one model alone is sent, and how they began for everybody.
    began: Option<Option<&'a Message>>,
    /// Whether a summary of the messages is wanted in the place of an answer.
    summarizes: bool,
    open_turn: usize,
    stop: Option<&'a CancellationToken>,
    ledger: Option<Ledger>,
    /// What this call has lost to failures.
    call: Ledger,
    retried_outside: bool,
    reconnects: Option<bool>,
}

/// A conversation with a summary that one model has made and nobody else understands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VendorsView<'a> {
    /// The name of the provider that has made it.
    pub(crate) provider: &'a str,
    /// The model, as it is asked.
    pub(crate) model: &'a str,
    /// What is sent: the summary, and what was said since.
    pub(crate) messages: &'a Messages,
    /// What is said in it beside the summary.
    pub(crate) words: Option<&'a Message>,
    /// The number of the first of these messages whose thinking is sent.
    pub(crate) thinking_from: usize,
    /// The number of the first message of the turn that was open when thinking was left out.
    pub(crate) open_turn: usize,
}

impl<'a> Request<'a> {
    /// A question that continues this transcript.
    ///
    /// # Errors
    /// Fails if the transcript cannot be sent: see [`Transcript::sendable`].
    pub fn new(transcript: &'a Transcript) -> Result<Self, Error> {
        Ok(Self {
            system: None,
            messages: transcript.sendable()?,
            tools: &[],
            forms: None,
            found: Found::default(),
            settings: None,
            answer: None,
            sent: None,
            thinking_from: 0,
            vendors: None,
            began: None,
            summarizes: false,
            open_turn: 0,
            stop: None,
            ledger: None,
            call: Ledger::default(),
            retried_outside: false,
            reconnects: None,
        })
    }

    /// Adds the system prompt.
    #[must_use]
    pub fn with_system(mut self, system: Option<&'a str>) -> Self {
        self.system = system;
        self
    }

    /// Adds the tools, in the order in which the model is told of them.
    #[must_use]
    pub fn with_tools(mut self, tools: &'a [ToolSchema]) -> Self {
        self.tools = tools;
        self.forms = None;
        self
    }

    /// Adds what is kept of these tools from one request to the next.
    #[must_use]
    pub(crate) fn with_forms(mut self, forms: &'a Forms) -> Self {
        self.forms = Some(forms);
        self
    }

    /// Says which of the tools were found by searches.
    #[must_use]
    pub(crate) fn with_found(mut self, found: Found<'a>) -> Self {
        self.found = found;
        self
    }

    /// Adds settings for this question alone. What they leave open is as the provider is set.
    #[must_use]
    pub fn with_settings(mut self, settings: Option<&'a Settings>) -> Self {
        self.settings = settings;
        self
    }

    /// Says what the answer has to be, if it is to be more than words.
    #[must_use]
    pub fn with_answer(mut self, answer: Option<&'a AnswerSchema>) -> Self {
        self.answer = answer;
        self
    }

    /// Adds the run's record of what failures have cost. Without one, each call is a run of its
    /// own.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<&Ledger>) -> Self {
        self.ledger = ledger.cloned();
        self
    }

    /// Adds what was sent already of this conversation. Without it all of it is written.
    #[must_use]
    pub fn with_sent(mut self, sent: Option<&'a Sent>) -> Self {
        self.sent = sent;
        self
    }

    /// Leaves out the thinking of all messages before this one: what the model had thought about was sent in other
    /// words since then, and vendors refuse thinking that does not follow what it came after.
    #[must_use]
    pub fn with_thinking_from(mut self, message: usize) -> Self {
        (self.thinking_from, self.open_turn) = (message, message);
        self
    }

    /// Says where the turn began that was open when thinking was left out: there are models that refuse results
    /// without the thinking before their calls, and that take it behind other words.
    #[must_use]
    pub(crate) fn with_open_turn(mut self, message: usize) -> Self {
        self.open_turn = message.min(self.thinking_from);
        self
    }

    /// Asks for the vendor's own summary of the messages in the place of an answer: see
    /// [`asks_for_summary`](Self::asks_for_summary).
    #[must_use]
    pub fn with_summary_wanted(mut self) -> Self {
        self.summarizes = true;
        self
    }

    /// Adds what the model that has made a summary is sent in the place of the messages.
    #[must_use]
    pub(crate) fn with_vendors(mut self, view: Option<VendorsView<'a>>) -> Self {
        self.vendors = view;
        self
    }

    /// The request as this model of this provider is asked. A model that has made a summary of its own, as the fact
    /// `context_compacted` tells, is sent it as the first message, with what is said beside it and all that was said
    /// since; for all others it is this request.
    pub fn for_model(&self, provider: &str, model: &str) -> Cow<'_, Self> {
        match &self.vendors {
            Some(view) if (view.provider, view.model) == (provider, model) => {
                let mut own = self.clone();
                own.began = Some(self.messages.get(0));
                own.messages = view.messages;
                let own = own.with_thinking_from(view.thinking_from);
                Cow::Owned(own.with_open_turn(view.open_turn))
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Whether the messages are what [`for_model`](Self::for_model) has put in the place of others.
    pub(crate) fn begins_with_summary(&self) -> bool {
        self.began.is_some()
    }

    /// The message with which the conversation has begun, whoever is sent another one in its place.
    pub(crate) fn first(&self) -> Option<&'a Message> {
        self.began.unwrap_or_else(|| self.messages.get(0))
    }

    /// Whether these are words that stand beside a vendor's summary: the user has said all that is in them before.
    pub(crate) fn is_beside_summary(&self, message: &Message) -> bool {
        let words = self.vendors.as_ref().and_then(|view| view.words);
        self.began.is_some() && words.is_some_and(|words| words.id() == message.id())
    }

    /// Adds by what the program stops whoever asks, so that a connection is closed in the moment in which
    /// it is cancelled. Who asks hears the token itself: the stream says nothing any more.
    #[must_use]
    pub(crate) fn with_stop(mut self, stop: &'a CancellationToken) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Says that whoever asks tries again by itself: providers that would do so, too, make one try
    /// and report how it failed. A provider around a provider that repeats requests says it of
    /// each of them, so that tries do not multiply.
    #[must_use]
    pub fn retried_outside(mut self) -> Self {
        self.retried_outside = true;
        self
    }

    /// Says whether a connection that was kept may be replaced in silence when it breaks, whatever
    /// the provider's own policy says.
    #[must_use]
    pub(crate) fn with_reconnects(mut self, reconnects: bool) -> Self {
        self.reconnects = Some(reconnects);
        self
    }

    /// The same call to one of several providers, each of which counts its own tries.
    #[must_use]
    pub(crate) fn of_member(mut self, number: usize) -> Self {
        self.call = self.call.member(number);
        self
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&'a str> {
        self.system
    }

    /// The messages; every call has its result.
    pub fn messages(&self) -> &'a Messages {
        self.messages
    }

    /// What was sent already of this conversation.
    pub fn sent(&self) -> Option<&'a Sent> {
        self.sent
    }

    /// The number of the first message whose thinking is sent.
    pub fn thinking_from(&self) -> usize {
        self.thinking_from
    }

    /// Whether the vendor's own summary of the messages is wanted in the place of an answer. Only a provider that
    /// [has such summaries](super::Provider::has_vendor_summaries) is asked for one. Its answer holds one
    /// [block of the vendor](crate::Block::Vendor), in whose place all that the request said can be left out from then
    /// on, and stops as [`Paused`](super::StopReason::Paused); words beside it are the summary for a reader. Any other
    /// answer counts as none, and its words say why.
    pub fn asks_for_summary(&self) -> bool {
        self.summarizes
    }

    /// The number of the first message whose thinking is sent to a model that needs that of an open turn.
    pub(crate) fn open_turn(&self) -> usize {
        self.open_turn
    }

    /// By what the program stops whoever asks.
    pub(crate) fn stop(&self) -> Option<&'a CancellationToken> {
        self.stop
    }

    /// Settings for this question alone.
    pub fn settings(&self) -> Option<&'a Settings> {
        self.settings
    }

    /// What the answer has to be, if it is to be more than words.
    pub fn answer(&self) -> Option<&'a AnswerSchema> {
        self.answer
    }

    /// The tools, in a stable order.
    pub fn tools(&self) -> &'a [ToolSchema] {
        self.tools
    }

    /// The searches by which tools were found.
    pub(crate) fn found(&self) -> Found<'a> {
        self.found
    }

    /// The schemas of the tools in this form, in their order.
    pub(crate) fn parameters(&self, told: Told) -> Arc<[Parameters]> {
        match self.forms {
            Some(forms) => forms.get(told, self.tools),
            None => told.of(self.tools),
        }
    }

    /// The run's record of what failures have cost.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Whether whoever asks tries again by itself, so that the provider makes one try.
    pub fn is_retried_outside(&self) -> bool {
        self.retried_outside
    }

    /// Whether a kept connection that breaks may be replaced in silence, where somebody around the
    /// provider decides about it.
    pub(crate) fn reconnects(&self) -> Option<bool> {
        self.reconnects
    }

    /// What this call and the run have lost to failures. Without a run's record, the call is all
    /// of the run.
    pub(crate) fn lost(&self) -> (Lost, Lost) {
        let call = self.call.lost();
        (call, self.ledger.as_ref().map_or(call, Ledger::lost))
    }

    /// What this call has lost to failures.
    pub(super) fn call(&self) -> &Ledger {
        &self.call
    }

    /// Counts time that this call has waited in the queue of a throttle, which is not lost to failures.
    pub(crate) fn was_in_line(&self, time: Duration) {
        self.call.was_in_line(time);
    }

    /// Writes down a failed try of this call that took so long.
    pub(crate) fn failed(&self, took: Duration) {
        self.call.add(1, took);
    }

    /// Writes down that this call has waited.
    pub(crate) fn waited(&self, time: Duration) {
        self.call.add(0, time);
        if let Some(run) = &self.ledger {
            run.add(0, time);
        }
    }
}
