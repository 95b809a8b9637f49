//! Asks the model for a summary of the oldest part of a conversation, and replaces that part by it.

use std::future::poll_fn;

use super::{
    Chat, Event,
    output_tool_text::OutputToolText,
    prefix::behind_prefix,
    run::Run,
    stop_signals::RunSignal,
    turn::ProviderStream,
    window::{ContextGauge, ContextUsage},
};
use harness_core::{
    context::{
        ContextUse, OpenCalls, SummaryCut, TAILS, cost_of_form, cut, fault, in_short, is_form,
        of_answer, percent, schema, summary_request, why,
    },
    error::{Error, ErrorKind},
    journal::{Fact, InterruptCause, SummaryRequest},
    message::{Block, Message, Messages, Role, Transcript},
    provider::{
        Accumulator, EncodedPrefix, OutputSchema, ProviderResponse, Request, RequestPurpose,
        StopReason, StreamEvent, ToolChoice, VendorsView, cut_off, tokens_of,
    },
    tool::READ_RESULT,
};

/// How often a summary is requested in one run before the run fails.
pub(super) const TRIES: u32 = 2;

/// The largest size of a summary, in percent of the window.
pub(super) const SUMMARY: u8 = 10;

/// How much of the window the answer to a request with the conversation in short form may use, in percent.
const ROOM: u8 = 40;

/// The same, in tokens. A model that reasons needs more than the summary has.
const MOST_ROOM: u64 = 4_000;

/// The longest answer, in tokens, that is requested of a model which is not in the table of models: each known model can give
/// more.
const LONGEST: u64 = 1_600;

/// The conversation has at least this fraction of the window in short form, if the window is known: one part in eight.
const SHORT: u64 = 8;

/// A window of fewer tokens leaves too little room for a summary behind the whole conversation, and no vendor caches so
/// little: each request for a summary has the conversation in short form.
const SMALL: u64 = 4_096;

/// How the answer to a request for a summary ended.
pub(super) enum SummaryOutcome {
    /// It is complete.
    Complete(Message, StopReason),
    Failed(SummaryFailure),
    Stop(InterruptCause),
}

/// Why a request for a summary failed.
pub(super) struct SummaryFailure {
    pub(super) cause: String,
    /// Whether it was refused as too large.
    is_full: bool,
}

impl From<String> for SummaryFailure {
    fn from(cause: String) -> Self {
        Self { cause, is_full: false }
    }
}

/// How long a summary is.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct SummaryLength {
    /// RequestPurpose how many words it has.
    words: u64,
    /// How many tokens its answer may have, whatever the settings say.
    tokens: u64,
    /// How many fit into the window, if that is known.
    room: Option<u64>,
}

/// The form in which a summary is requested.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum SummaryForm {
    /// As text, after everything that is sent.
    Whole(SummaryLength),
    /// The same, after the conversation in short form.
    Short(SummaryLength, RequestPurpose),
    /// As the vendor's own.
    Vendor,
}

impl Chat {
    /// Whether the model has the tool that reads large results.
    pub(super) fn can_read_results(&self) -> bool {
        self.agent.tools().get(READ_RESULT).is_some()
    }

    /// How many tokens an answer of the model may have.
    fn longest_answer(&self) -> u64 {
        let (name, model) = self.agent.provider_and_model();
        self.agent.models().find(name, model).output.map_or(LONGEST, u64::from)
    }

    /// Where the conversation is cut, if something can be summarized. It leaves as much at the end,
    /// and as many of the user's words, as still frees enough.
    pub(super) fn cut(&self, window: u64, used: ContextUsage) -> Option<SummaryCut> {
        if !self.machine.can_edit_context() {
            return None;
        }
        let (machine, seen) = (&self.machine, self.sent_view());
        let (all, as_sent) = (machine.transcript().messages(), |at: usize| seen.sent_for(at));
        // A cut never separates calls from their results.
        let may_cut = |at: usize| all.get(at).is_none_or(|message| message.role() != Role::Tool);
        let late_end = |call: &str| machine.late_end_of(call);
        let calls = OpenCalls { reads: self.can_read_results(), late_end: &late_end };
        // By hand, the window may be far from full: the shares are those of what is sent.
        let window = used.estimate_of(window.min(used.tokens));
        let user_tokens = self.agent.window().user_tokens(window);
        let mut found = None;
        for (tail, words) in TAILS {
            let (tail, words) = (percent(window, tail), percent(user_tokens, words));
            let is_users = |at: usize| !machine.is_own_message(at);
            let room = (tail, words);
            let next = cut(all, machine.summed_up(), as_sent, may_cut, is_users, room, calls);
            let Some(next) = next else { continue };
            let frees = |after| after < most_after(used.tokens);
            let is_enough = self.least_after(&next, used).is_ok_and(frees);
            found = Some(next);
            if is_enough {
                break;
            }
        }
        found
    }

    /// Keeps this text for good: each summary of the conversation contains it unchanged. Until
    /// there is a summary, the model does not get the text, so also tell the model what it has to
    /// know. A conversation in a journal writes the text with the next run, or at once by
    /// [`save`](Self::save).
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply, summary}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("Hm. ".repeat(500)), summary("none")]);
    /// let mut chat = Agent::builder(model).build()?.chat();
    /// chat.pin("The order is A-17.")?;
    /// chat.send("Think aloud.").await?;
    /// let context = chat.compact().await?;
    /// assert_eq!(context.summed_up, 2);
    /// let sent = chat.sent().messages();
    /// assert_eq!(sent[0].text(), "Think aloud.");
    /// assert!(sent[1].text().contains("The order is A-17."));
    /// assert_eq!(chat.transcript().messages().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if the text is empty.
    pub fn pin(&mut self, text: impl Into<String>) -> Result<(), Error> {
        let text = text.into();
        if text.trim().is_empty() {
            let why = "`Chat::pin` was given an empty text: pass the words to keep";
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        self.record(&Fact::ContextPinned { text })
    }

    /// What is sent of the [transcript](Self::transcript) to the model of this agent: all of it,
    /// until results are cleared or its oldest part is summarized.
    pub fn sent(&self) -> &Transcript {
        self.sent_view().sent
    }

    /// Lets the model summarize the oldest part of the conversation now. The conversation pays for
    /// it. The shares of the newest turns and of the user's words are shares of what is sent, so in a
    /// short conversation the newest answer may be summarized too. Returns how full the window is
    /// afterwards. Dropping the future before the summary has come leaves what is sent unchanged.
    /// Once it has come, it is in use, and the next run or [`save`](Self::save) writes it.
    ///
    /// # Errors
    /// Fails, and leaves what is sent unchanged: with [`ErrorKind::Transcript`] if there is nothing
    /// that a summary could replace, too little was said since the last summary, or calls wait for
    /// results; with [`ErrorKind::ContextFull`] if the model has failed twice to make a summary
    /// that is short enough, or what must be kept is too large; and with [`ErrorKind::Limit`] if a
    /// limit of the conversation or of the program is reached, or if it takes longer than a run
    /// may. If the journal cannot be written, it fails with the journal's error: then the summary
    /// is in use, and the next run or [`save`](Self::save) writes it.
    pub async fn compact(&mut self) -> Result<ContextUse, Error> {
        let mut run = Run::between_runs(self);
        run.compact_now().await?;
        drop(run);
        self.save().await?;
        Ok(self.context())
    }
}

impl Run<'_> {
    async fn compact_now(&mut self) -> Result<(), Error> {
        self.catch_up().await?;
        let before = self.chat.machine.failed_compactions();
        loop {
            let summed_up = self.chat.machine.summed_up();
            let tries = self.chat.machine.failed_compactions().saturating_sub(before);
            if tries >= TRIES {
                return Err(failed_twice(self.last_fault.as_deref(), true));
            }
            let used = self.chat.context_usage();
            let window = self.chat.window_to_sum_up(used);
            let Some(cut) = self.chat.cut(window, used) else {
                return Err(Error::new(
                    ErrorKind::Transcript,
                    "there is nothing to summarize: nothing was said that a summary could replace, too little was \
                     said since the last summary, or calls wait for results",
                ));
            };
            self.is_worth_it(&cut, used)?;
            let refused = self.chat.machine.too_large().is_some();
            self.chat.may_ask()?;
            let asked = match self.request_vendor_summary(used, window).await? {
                Some(asked) => asked,
                None => {
                    let in_short = tries > 0 || refused || window < SMALL;
                    self.try_summary(&cut, used, window, (in_short, tries)).await?
                }
            };
            match asked {
                None if self.chat.machine.summed_up() > summed_up => return Ok(()),
                None => {}
                Some(InterruptCause::Limit { detail, .. }) => {
                    let what = format!(
                        "the conversation was not summarized: a limit is reached: {detail}"
                    );
                    return Err(Error::new(ErrorKind::Limit, what));
                }
                Some(_) => {
                    let what = "the conversation was not summarized: it was stopped";
                    return Err(Error::new(ErrorKind::Transcript, what));
                }
            }
        }
    }

    /// Checks that there is more to summarize than an earlier summary: the new one will be about as
    /// long.
    fn is_worth_it(&self, cut: &SummaryCut, used: ContextUsage) -> Result<(), Error> {
        let has_earlier = self.chat.machine.readable().summary().is_some();
        if !has_earlier || self.chat.least_after(cut, used)? < most_after(used.tokens) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Transcript,
            "there is nothing to summarize: too little was said since the last summary",
        ))
    }

    /// Summarizes the oldest part, because the window is getting full.
    pub(super) async fn compact_full_window(&mut self) -> Result<(), Error> {
        let failures = self.chat.machine.failed_compactions();
        if failures >= TRIES {
            return Err(failed_twice(self.last_fault.as_deref(), false));
        }
        let used = self.chat.context_usage();
        let window = self.chat.window_to_sum_up(used);
        let Some(cut) = self.chat.cut(window, used) else { return Ok(()) };
        if let Some(asked) = self.request_vendor_summary(used, window).await? {
            return asked.map_or(Ok(()), |cause| self.record_interrupt(cause));
        }
        // If the last request was refused, a request with one more message does not fit, either.
        let (provider, model) = self.chat.agent.provider_and_model();
        let is_refused = self.chat.machine.is_refused(provider, model);
        let leaves_room = used.tokens.saturating_add(percent(window, SUMMARY)) < window;
        let is_refused = is_refused || self.chat.machine.too_large().is_some();
        let in_short = failures > 0 || is_refused || !leaves_room || window < SMALL;
        match self.try_summary(&cut, used, window, (in_short, failures)).await? {
            Some(cause) => self.record_interrupt(cause),
            None => Ok(()),
        }
    }

    /// Makes one request. Returns the cause if the run was stopped meanwhile.
    async fn try_summary(
        &mut self,
        cut: &SummaryCut,
        used: ContextUsage,
        window: u64,
        (short, failures): (bool, u32),
    ) -> Result<Option<InterruptCause>, Error> {
        // The size of everything that must not be lost, without the model's summary.
        let least = self.chat.after(cut, "", used)?;
        if least >= most_after(used.tokens) {
            let advice = "Use a model with a larger window, fewer tools or shorter messages";
            let (place, advice) = match self.chat.window_tokens() {
                Some(_) if self.chat.is_told_window() => {
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
        self.emit(Event::Compacting);
        // A token is about three quarters of a word, and the model may use a few more.
        let words = (percent(window, SUMMARY) / 2).clamp(60, 1_500);
        let (longest, machine) = (self.chat.longest_answer(), &self.chat.machine);
        let (outcome, size) = match short {
            false => {
                let words = words.min(longest / 2);
                let answer = words.saturating_mul(2).min(window.saturating_sub(used.tokens));
                let asks = summary_request(words);
                let with_question = |messages: &Messages| {
                    let mut all = messages.clone();
                    all.push(asks.clone());
                    all
                };
                let all = Transcript::of_sent(with_question(machine.sent().messages()));
                let vendors = machine.vendors_view().map(|view| with_question(view.messages));
                let question = used.scaled(tokens_of(&asks));
                let room = self.chat.room_for_answer().map(u64::from);
                let room = room.map(|room| room.saturating_sub(question));
                let how = SummaryForm::Whole(SummaryLength { words, tokens: answer, room });
                (self.request_summary(&all, vendors.as_ref(), how).await?, used.tokens)
            }
            true => {
                // An earlier one that was refused as too large had twice as much.
                let meter = self.chat.agent.meter();
                let room =
                    (window / 2).saturating_sub(meter.tools().saturating_add(meter.system()));
                // A word in another language can have four tokens. The conversation has a half of the window, and the answer
                // may use nearly the other half: only a whole summary is of use.
                let words = words.min(longest / 4);
                let answer = percent(window, ROOM).min(MOST_ROOM).max(words.saturating_mul(4));
                let answer = answer.min(longest);
                // What asks for it needs a large part of a small window.
                let asks = used.scaled(cost_of_form(words, answer).saturating_add(meter.system()));
                self.chat.has_room_to_sum_up(asks, words)?;
                let least = self.chat.least_in_short(used);
                let left = percent(window, 100 - SUMMARY).saturating_sub(asks);
                let answer = answer
                    .min(left.saturating_sub(least))
                    .max(words.saturating_mul(4).min(longest));
                let room = room.min(left.saturating_sub(answer)).max(least);
                // The vendor may count more tokens than are estimated.
                let tokens = used.estimate_of(room).min(room);
                let shortened = in_short(machine.sent().messages(), tokens, words);
                let again = failures > 0 && window < SMALL;
                let about =
                    if again { RequestPurpose::AnswerAgain } else { RequestPurpose::Answer };
                let most = match self.chat.trusted_window() {
                    Some(window) => Some(
                        percent(window, 100 - SUMMARY).saturating_sub(asks).saturating_sub(room),
                    ),
                    // If a request was refused, its answer is part of what was too large.
                    None => self.chat.is_contradicted().then_some(answer),
                };
                let length = SummaryLength { words, tokens: answer, room: most };
                // In short form it is not larger than what it tells of.
                let size = room.min(used.tokens);
                (
                    self.request_summary(&shortened, None, SummaryForm::Short(length, about))
                        .await?,
                    size,
                )
            }
        };
        let request =
            Box::new(self.summary_request(matches!(outcome, SummaryOutcome::Complete(..))));
        let text = match outcome {
            SummaryOutcome::Complete(message, StopReason::Complete) => of_answer(&message.text()),
            SummaryOutcome::Complete(_, stop) => {
                let cause = format!("the model gave no whole summary: it stopped as {stop:?}");
                self.compaction_failed(request, cause, None)?;
                return Ok(None);
            }
            SummaryOutcome::Failed(SummaryFailure { cause, is_full }) => {
                self.compaction_failed(request, cause, is_full.then_some(size))?;
                return Ok(None);
            }
            SummaryOutcome::Stop(cause) => {
                self.compaction_stopped(request)?;
                return Ok(Some(cause));
            }
        };
        let after = self.chat.after(cut, &text, used)?;
        let fault = fault(&text).or_else(|| {
            let most = most_after(used.tokens);
            (after >= most).then(|| {
                format!("it frees too little: {after} tokens would remain, and at most {most} may")
            })
        });
        if let Some(fault) = fault {
            self.compaction_failed(request, fault, None)?;
            return Ok(None);
        }
        let fact = self.chat.compaction_fact(cut, &text, request, (used.tokens, after));
        self.chat.record(&fact)?;
        let (messages, vendor, before) = (cut.messages, false, used.tokens);
        self.emit(Event::ContextCompacted { messages, vendor, before, after });
        Ok(None)
    }

    fn compaction_failed(
        &mut self,
        request: Box<SummaryRequest>,
        cause: String,
        too_large: Option<u64>,
    ) -> Result<(), Error> {
        self.emit(Event::CompactionFailed { cause: &cause });
        self.last_fault = Some(cause.clone());
        let (stopped, vendor) = (false, false);
        self.chat.record(&Fact::CompactionFailed { request, cause, stopped, vendor, too_large })
    }

    pub(super) fn compaction_stopped(&mut self, request: Box<SummaryRequest>) -> Result<(), Error> {
        let (cause, stopped, vendor) = ("the run was stopped".to_owned(), true, false);
        let too_large = None;
        self.chat.record(&Fact::CompactionFailed { request, cause, stopped, vendor, too_large })
    }

    /// What the request for the current summary has cost so far.
    pub(super) fn summary_request(&mut self, whole: bool) -> SummaryRequest {
        let mut request = SummaryRequest::default();
        let (provider, model) = self.chat.agent.provider_and_model();
        (request.provider, request.model) = (provider.to_owned(), model.to_owned());
        let Some(answer) = self.summary.take() else {
            // The model was not asked.
            (request.usage.input, request.usage.output) = (Some(0), Some(0));
            return request;
        };
        request.broke_off = !whole;
        request.usage = answer.usage();
        if let Some(Ok(response)) = answer.is_complete().then(|| answer.finish()) {
            let ProviderResponse { usage, model, provider, .. } = response;
            let hide = |name: String| self.chat.agent.secrets().hide(&name).into_owned();
            request.usage = usage;
            request.broke_off = false;
            if let Some(model) = model.map(hide).filter(|model| *model != request.model) {
                request.asked_model = Some(std::mem::replace(&mut request.model, model));
            }
            request.provider = provider.unwrap_or(request.provider);
        }
        request
    }

    /// Requests a summary of this transcript and reads the answer to its end. A model that has made a
    /// summary of its own gets the messages in `vendors` instead. What has arrived stays in `summary`.
    pub(super) async fn request_summary(
        &mut self,
        transcript: &Transcript,
        vendors: Option<&Messages>,
        how: SummaryForm,
    ) -> Result<SummaryOutcome, Error> {
        if let Some(cause) = self.start_compaction().await? {
            return Ok(SummaryOutcome::Stop(cause));
        }
        Ok(self.read_summary(transcript, vendors, how).await)
    }

    async fn read_summary(
        &mut self,
        transcript: &Transcript,
        vendors: Option<&Messages>,
        how: SummaryForm,
    ) -> SummaryOutcome {
        let none = SummaryLength { words: 0, tokens: 0, room: None };
        let (SummaryLength { words, tokens, room }, about) = match how {
            SummaryForm::Whole(length) => (length, None),
            SummaryForm::Short(length, about) => (length, Some(about)),
            SummaryForm::Vendor => (none, None),
        };
        let as_count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        self.chat.guard.begin_request();
        let offered_tools = self.chat.offered_tools();
        let prefix = self.chat.prefix_so_far();
        let Self { chat, watch, stop_signals, summary, ledger, .. } = self;
        let agent = chat.agent.clone();
        let offered = chat.offered();
        let tools = offered.tools();
        let mut settings = chat.options.as_deref().and_then(|options| options.settings.clone());
        // A model that has to call a tool cannot sum up.
        if let Some(settings) = &mut settings
            && matches!(settings.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)))
        {
            settings.tool_choice = Some(ToolChoice::Auto);
        }
        let program = stop_signals.program();
        // It begins with the same bytes as earlier requests, so that the vendor's cache is used.
        let alone = EncodedPrefix::new();
        // The second request uses structured output if the vendor has it.
        let form =
            about.map(|about| OutputSchema::new("summary", schema(words, tokens), 0).forced(about));
        let mut output_text = OutputToolText::new(form.as_ref());
        let request = match Request::new(transcript) {
            Ok(request) => request,
            Err(error) => return summary_failure(&error),
        };
        let mut request = request
            .with_system(agent.system())
            .with_settings(settings.as_ref())
            .with_least_tokens(as_count(tokens))
            .with_room(room.map(as_count), chat.is_strict)
            .with_lowered_tokens(room.map(as_count).filter(|_| form.is_some()))
            .with_ledger(Some(ledger))
            .with_sent(Some(if form.is_some() { &alone } else { &chat.sent }))
            .with_stop(&program);
        if form.is_some() {
            request = request.with_answer(form.as_ref());
        } else {
            let more = offered_tools.as_deref();
            let (prefix, is_valid) = match &prefix {
                Some((prefix, is_valid)) => (Some(prefix), *is_valid),
                None => (None, true),
            };
            let from = |from: usize| if is_valid { from } else { usize::MAX };
            request = behind_prefix(request, &agent, (tools, more), prefix)
                .with_thinking_from(from(chat.machine.thinking_from()))
                .with_vendors(vendors.zip(chat.machine.vendors_view()).map(|(messages, view)| {
                    VendorsView { messages, thinking_from: from(view.thinking_from), ..view }
                }))
                .with_open_turn(from(chat.machine.open_turn()))
                .with_found(chat.machine.found_now().by_tool(tools.search(), tools.searched()));
        }
        if how == SummaryForm::Vendor {
            request = request.with_summary_wanted();
        }
        let answer = summary.insert(Accumulator::default());
        let mut answering = ProviderStream::of(agent.provider(), request);
        loop {
            let event = tokio::select! {
                biased;
                signal = stop_signals.next_signal() => match signal {
                    RunSignal::Stop(cause) => return SummaryOutcome::Stop(cause),
                    RunSignal::Warn(warning) => {
                        chat.tracer.warning(&warning);
                        watch.tell(super::stop_signals::warning_event(&warning));
                        continue;
                    }
                },
                event = poll_fn(|context| answering.poll_next(context)) => event,
            };
            let failed = |error: Error| {
                let why = why(error.last()).map(|why| format!("{why}: ")).unwrap_or_default();
                let is_full = error.last().is_context_full() || error.is_context_full();
                SummaryOutcome::Failed(SummaryFailure {
                    cause: format!("{why}{}", error.cleaned(agent.secrets())),
                    is_full,
                })
            };
            match event {
                None => break,
                Some(Err(error)) => return failed(error),
                Some(Ok(event)) => {
                    let Some(event) = output_text.read(event) else { continue };
                    if let StreamEvent::Retrying { attempt, of, wait, refused: _, cause } = &event {
                        let cause = &*agent.secrets().hide(cause);
                        let (attempt, of, wait) = (*attempt, *of, *wait);
                        chat.tracer.retry(attempt, of, wait, cause);
                        watch.tell(Event::Retrying { attempt, of, wait, cause });
                    }
                    if let StreamEvent::ParameterDropped { parameter, cause } = &event {
                        let cause = &*agent.secrets().hide(cause);
                        chat.tracer.parameter_dropped(parameter, cause);
                        watch.tell(Event::ParameterDropped { parameter, cause });
                    }
                    if let Err(error) = answer.push(&event) {
                        return failed(error);
                    }
                }
            }
        }
        if !answer.is_complete() {
            return summary_failure(&cut_off());
        }
        let said = answer.clone().finish();
        match (said, output_text.call(is_form)) {
            (Err(error), _) => summary_failure(&error),
            (Ok(ProviderResponse { stop: StopReason::Refused, .. }), Some(_)) => {
                SummaryOutcome::Failed("the model refused to go on".to_owned().into())
            }
            // What stands before or behind the call is no summary.
            (Ok(_), Some(Some(call))) => SummaryOutcome::Complete(Message::assistant([Block::text(call)]), StopReason::Complete),
            (Ok(ProviderResponse { stop, .. }), Some(None)) => SummaryOutcome::Failed(
                format!("the model gave no whole summary: its call has no end, and it stopped as {stop:?}").into(),
            ),
            (Ok(ProviderResponse { stop, message: Some(message), .. }), None) => {
                SummaryOutcome::Complete(message, stop)
            }
            (Ok(ProviderResponse { stop, .. }), None) => {
                SummaryOutcome::Failed(format!("the answer is empty, and it stopped as {stop:?}").into())
            }
        }
    }

    /// If the run is dropped while a summary arrives, or before it is requested, records what the request has cost.
    pub(super) fn record_dropped_summary(&mut self) {
        if self.summary.is_some() || self.chat.machine.compacting().is_some() {
            let request = Box::new(self.summary_request(false));
            // Nobody waits for the error.
            let _ = self.compaction_stopped(request);
        }
    }
}

fn summary_failure(error: &Error) -> SummaryOutcome {
    SummaryOutcome::Failed(error.to_string().into())
}

/// How many tokens there may be after a summary, if there were `before` tokens before it.
pub(super) fn most_after(before: u64) -> u64 {
    before.saturating_sub(before / 4)
}

/// The error of a run whose window gets full, or of [`Chat::compact`].
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

impl Chat {
    /// Checks that a request for a summary in short form fits into the window together with a part of the conversation:
    /// `asks` is what it has besides that, and its answer needs four tokens for each word.
    fn has_room_to_sum_up(&self, asks: u64, words: u64) -> Result<(), Error> {
        let answer = words.saturating_mul(4);
        // A size that a refusal has named may be wrong.
        let window = self.trusted_window();
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

    /// How much of the conversation a request for a summary in short form has at least.
    fn least_in_short(&self, used: ContextUsage) -> u64 {
        self.window_or(used) / if self.is_contradicted() { 64 } else { SHORT }
    }

    /// The fact by which a summary replaces the oldest part.
    fn compaction_fact(
        &self,
        cut: &SummaryCut,
        text: &str,
        request: Box<SummaryRequest>,
        (before, after): (u64, u64),
    ) -> Fact {
        let number = |at: usize| u64::try_from(at).unwrap_or(u64::MAX);
        Fact::ContextCompacted {
            messages: number(cut.messages),
            kept: cut.kept.iter().map(|at| number(*at)).collect(),
            summary: self.summary_of(cut, text),
            vendor: None,
            request,
            before,
            after,
        }
    }

    pub(super) fn summary_of(&self, cut: &SummaryCut, text: &str) -> Message {
        cut.summary(text, self.machine.pins())
    }

    /// How many tokens there would be with this summary.
    fn after(&self, cut: &SummaryCut, text: &str, used: ContextUsage) -> Result<u64, Error> {
        self.after_fact(&self.compaction_fact(cut, text, Box::default(), (0, 0)), used)
    }

    /// How many tokens there would be with a summary as long as the earlier one.
    pub(super) fn least_after(&self, cut: &SummaryCut, used: ContextUsage) -> Result<u64, Error> {
        let earlier = self.machine.readable().summary().map_or(0, tokens_of);
        Ok(self.after(cut, "", used)?.saturating_add(used.scaled(earlier)))
    }

    /// How many tokens there would be after this fact.
    pub(super) fn after_fact(&self, fact: &Fact, used: ContextUsage) -> Result<u64, Error> {
        let mut machine = self.machine.clone();
        machine.apply(fact)?;
        let (provider, model) = match fact {
            Fact::ContextCompacted { vendor: Some(made), .. } => (&*made.provider, &*made.model),
            _ => self.agent.provider_and_model(),
        };
        let seen = machine.sent_view_for(provider, model);
        let estimated = ContextGauge::new(self.agent.meter()).count(seen).total();
        Ok(used.scaled(estimated))
    }
}
