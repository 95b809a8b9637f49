//! Sends a request for a summary, and reads the answer.

use std::future::poll_fn;

use crate::{
    Event,
    events::watcher::RunWatcher,
    output::tool_text::OutputToolText,
    run::{
        driver::{RequestProgress, RunDriver},
        provider_stream::ProviderStream,
        request_state::with_conversation,
        stop_signals::{RunSignal, StopSignals, warning_event},
        writing::start_compaction,
    },
};
use harness_core::{
    context::{is_form, schema, why},
    error::Error,
    journal::{Fact, InterruptCause, SummaryRequest},
    message::{Block, Message, Messages, Transcript},
    provider::{
        Accumulator, EncodedPrefix, OutputSchema, ProviderResponse, Request, RequestPurpose,
        StopReason, StreamEvent, ToolChoice, VendorsView, cut_off,
    },
    secret::Secrets,
    trace::Tracer,
};

struct SummaryReader<'h, 'w> {
    tracer: &'h mut Tracer,
    watch: &'h mut RunWatcher<'w>,
    secrets: &'h Secrets,
    answer: &'h mut Accumulator,
}

impl SummaryReader<'_, '_> {
    /// Reads the stream to its end. Returns an error if the request fails, or if the run is stopped before the
    /// end.
    async fn read(
        &mut self,
        answering: &mut ProviderStream<'_>,
        stop_signals: &mut StopSignals,
        output_text: &mut OutputToolText<'_>,
    ) -> Result<(), SummaryOutcome> {
        loop {
            let event = tokio::select! {
                biased;
                signal = stop_signals.next_signal() => match signal {
                    RunSignal::Stop(cause) => return Err(SummaryOutcome::Stop(cause)),
                    RunSignal::Warn(warning) => {
                        self.tracer.warning(&warning);
                        self.watch.tell(warning_event(&warning));
                        continue;
                    }
                },
                event = poll_fn(|context| answering.poll_next(context)) => event,
            };
            match event {
                None => return Ok(()),
                Some(Err(error)) => return Err(self.failure(error)),
                Some(Ok(event)) => {
                    let Some(event) = output_text.read(event) else { continue };
                    if let StreamEvent::Retrying { attempt, of, wait, refused: _, cause } = &event {
                        let cause = &*self.secrets.hide(cause);
                        let (attempt, of, wait) = (*attempt, *of, *wait);
                        self.tracer.retry(attempt, of, wait, cause);
                        self.watch.tell(Event::Retrying { attempt, of, wait, cause });
                    }
                    if let StreamEvent::ParameterDropped { parameter, cause } = &event {
                        let cause = &*self.secrets.hide(cause);
                        self.tracer.parameter_dropped(parameter, cause);
                        self.watch.tell(Event::ParameterDropped { parameter, cause });
                    }
                    if let Err(error) = self.answer.push(&event) {
                        return Err(self.failure(error));
                    }
                }
            }
        }
    }

    fn failure(&self, error: Error) -> SummaryOutcome {
        let why = why(error.last()).map(|why| format!("{why}: ")).unwrap_or_default();
        let is_full = error.last().is_context_full() || error.is_context_full();
        let cause = format!("{why}{}", error.cleaned(self.secrets));
        SummaryOutcome::Failed(SummaryFailure { cause, is_full })
    }
}

/// How the answer to a request for a summary ended.
pub(crate) enum SummaryOutcome {
    /// The answer is complete.
    Complete(Message, StopReason),
    Failed(SummaryFailure),
    Stop(InterruptCause),
}

/// Why a request for a summary failed.
pub(crate) struct SummaryFailure {
    pub(crate) cause: String,
    /// Whether the request was refused as too large.
    pub(crate) is_full: bool,
}

impl From<String> for SummaryFailure {
    fn from(cause: String) -> Self {
        Self { cause, is_full: false }
    }
}

/// The length of a summary.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct SummaryLength {
    /// The approximate number of words of the summary.
    pub(crate) words: u64,
    /// The token limit of the answer. Replaces the limit in the settings.
    pub(crate) tokens: u64,
    /// The largest token limit of the answer with which the request fits into the window. `None` if the size of
    /// the window is not known.
    pub(crate) room: Option<u64>,
}

/// The form in which a summary is requested.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum SummaryForm {
    /// A summary as text. The request contains the conversation without the cleared parts.
    Whole(SummaryLength),
    /// A summary as structured output. The request contains the conversation in short form.
    Short(SummaryLength, RequestPurpose),
    /// The vendor's own summary.
    Vendor,
}

pub(crate) fn compaction_stopped(
    run: &mut RunDriver<'_>,
    request: Box<SummaryRequest>,
) -> Result<(), Error> {
    let (cause, stopped, vendor) = ("the run was stopped".to_owned(), true, false);
    let too_large = None;
    run.state.record(&Fact::CompactionFailed { request, cause, stopped, vendor, too_large })
}

/// Takes the cost of the current summary request so far. `whole` is true if the answer is complete.
pub(crate) fn take_summary_request(run: &mut RunDriver<'_>, whole: bool) -> SummaryRequest {
    let mut request = SummaryRequest::default();
    let (provider, model) = run.state.agent.provider_and_model();
    (request.provider, request.model) = (provider.to_owned(), model.to_owned());
    let Some(answer) = run.summary.answer.take() else {
        // No request for a summary was sent.
        (request.usage.input, request.usage.output) = (Some(0), Some(0));
        return request;
    };
    request.broke_off = !whole;
    request.usage = answer.usage();
    if let Some(Ok(response)) = answer.is_complete().then(|| answer.finish()) {
        let ProviderResponse { usage, model, provider, .. } = response;
        let hide = |name: String| run.state.agent.secrets().hide(&name).into_owned();
        request.usage = usage;
        request.broke_off = false;
        if let Some(model) = model.map(hide).filter(|model| *model != request.model) {
            request.asked_model = Some(std::mem::replace(&mut request.model, model));
        }
        request.provider = provider.unwrap_or(request.provider);
    }
    request
}

/// Requests a summary of this transcript and reads the answer to its end. If `vendors` is set, the request
/// contains these messages instead, with the vendor's own earlier summary. `run.summary` keeps the part of the
/// answer that has arrived.
pub(crate) async fn request_summary(
    run: &mut RunDriver<'_>,
    transcript: &Transcript,
    vendors: Option<&Messages>,
    how: SummaryForm,
) -> Result<SummaryOutcome, Error> {
    if let Some(cause) = start_compaction(run).await? {
        return Ok(SummaryOutcome::Stop(cause));
    }
    Ok(read_summary(run, transcript, vendors, how).await)
}

async fn read_summary(
    run: &mut RunDriver<'_>,
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
    run.state.spending.guard().begin_request();
    let offered_tools = run.state.offered_tools();
    let prefix = run.state.prefix_so_far();
    let RunDriver {
        state,
        watch,
        stop_signals,
        summary,
        request: RequestProgress { ledger, .. },
        ..
    } = run;
    let agent = state.agent.clone();
    let offered = state.offered();
    let tools = offered.tools();
    let mut settings = state.options.as_deref().and_then(|options| options.settings.clone());
    // A model that has to call a tool cannot write a summary.
    if let Some(settings) = &mut settings
        && matches!(settings.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)))
    {
        settings.tool_choice = Some(ToolChoice::Auto);
    }
    let program = stop_signals.program();
    // The encoded prefix for a request whose first bytes differ from those of earlier requests, such as a
    // request with the conversation in short form.
    let alone = EncodedPrefix::new();
    // With `about`, the request uses structured output if the vendor supports that.
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
        .with_room(room.map(as_count), state.requests.is_strict)
        .with_lowered_tokens(room.map(as_count).filter(|_| form.is_some()))
        .with_ledger(Some(ledger))
        .with_sent(Some(if form.is_some() { &alone } else { &state.requests.sent }))
        .with_stop(&program);
    if form.is_some() {
        request = request.with_answer(form.as_ref());
    } else {
        let vendors = vendors.zip(state.machine.vendors_view());
        let (prefix, is_valid) = match &prefix {
            Some((prefix, is_valid)) => (Some(prefix), *is_valid),
            None => (None, true),
        };
        let from = |from: usize| if is_valid { from } else { usize::MAX };
        let vendors = vendors.map(|(messages, view)| VendorsView {
            messages,
            thinking_from: from(view.thinking_from),
            ..view
        });
        let tools = (tools, offered_tools.as_deref());
        request = with_conversation(request, &state.machine, tools, prefix)
            .with_thinking_from(from(state.machine.thinking_from()))
            .with_open_turn(from(state.machine.open_turn()))
            .with_vendors(vendors);
    }
    if how == SummaryForm::Vendor {
        request = request.with_summary_wanted();
    }
    let answer = summary.answer.insert(Box::default());
    let mut answering = ProviderStream::of(agent.provider(), request);
    let secrets = agent.secrets();
    let mut reader = SummaryReader { tracer: &mut state.tracer, watch, secrets, answer };
    match reader.read(&mut answering, stop_signals, &mut output_text).await {
        Ok(()) => summary_outcome(answer, &output_text),
        Err(ended) => ended,
    }
}

/// The outcome of a request whose answer was read to its end.
fn summary_outcome(answer: &Accumulator, output_text: &OutputToolText<'_>) -> SummaryOutcome {
    if !answer.is_complete() {
        return summary_failure(&cut_off());
    }
    let said = answer.clone().finish();
    match (said, output_text.call(is_form)) {
        (Err(error), _) => summary_failure(&error),
        (Ok(ProviderResponse { stop: StopReason::Refused, .. }), Some(_)) => {
            SummaryOutcome::Failed("the model refused to go on".to_owned().into())
        }
        // Text before or after the call is not part of the summary.
        (Ok(_), Some(Some(call))) => {
            SummaryOutcome::Complete(Message::assistant([Block::text(call)]), StopReason::Complete)
        }
        (Ok(ProviderResponse { stop, .. }), Some(None)) => SummaryOutcome::Failed(
            format!(
                "the model gave no whole summary: its call has no end, and it stopped as {stop:?}"
            )
            .into(),
        ),
        (Ok(ProviderResponse { stop, message: Some(message), .. }), None) => {
            SummaryOutcome::Complete(message, stop)
        }
        (Ok(ProviderResponse { stop, .. }), None) => SummaryOutcome::Failed(
            format!("the answer is empty, and it stopped as {stop:?}").into(),
        ),
    }
}

fn summary_failure(error: &Error) -> SummaryOutcome {
    SummaryOutcome::Failed(error.to_string().into())
}
