//! Requests the vendor's own summary, which replaces the oldest part of a conversation. If that request fails,
//! the library requests a summary as text from the model.

use super::{
    gauge::ContextUsage,
    summary_cut::{SUMMARY, after_fact, compaction_fact, cut_at, most_after},
    summary_request::{
        SummaryForm, SummaryOutcome, compaction_stopped, request_summary, take_summary_request,
    },
};
use crate::{Event, conversation::state::ConversationState, run::driver::RunDriver};
use harness_core::{
    context::{SummaryCut, TAILS, percent, stand_in, why},
    error::{Error, ErrorKind},
    journal::{Fact, InterruptCause, SummaryRequest, VendorSummary},
    message::{Block, Message, Transcript, VendorData, is_strict},
    provider::StopReason,
    secret::beginning,
};

fn vendor_data(block: &Block) -> Option<&VendorData> {
    match block {
        Block::Vendor(data) => Some(data),
        _ => None,
    }
}

/// Takes the vendor's summary from an answer: the message with only the vendor's block, and the block's
/// readable text.
fn block_of(message: &Message, stop: StopReason) -> Result<(Message, String), String> {
    if stop != StopReason::Paused {
        let words = message.text();
        let words = beginning(&words, 300);
        return Err(format!(
            "the vendor gave no summary of its own, and stopped as {stop:?}: {words}"
        ));
    }
    let mut blocks = message.blocks().iter().filter_map(vendor_data);
    let (Some(block), None) = (blocks.next(), blocks.next()) else {
        return Err("the vendor gave no summary of its own, or more than one".to_owned());
    };
    let only = |block: &Block| matches!(block, Block::Vendor(_) | Block::Text(_));
    if !message.blocks().iter().all(only) {
        return Err("the vendor gave more than a summary of its own".to_owned());
    }
    // Requests leave out a block whose JSON is not strict. Then the messages that the block replaces would be
    // missing.
    if !is_strict(block.json()) {
        return Err("the vendor's own summary is JSON that some parsers reject".to_owned());
    }
    let text = message.text().trim().to_owned();
    Ok((Message::assistant([Block::Vendor(block.clone())]), text))
}

/// Where the conversation is cut for the vendor's own summary. `None` if no cut could free enough tokens.
fn vendor_cut(state: &ConversationState, window: u64, used: ContextUsage) -> Option<SummaryCut> {
    let (seen, window) = (state.sent_view(), used.estimate_of(window));
    let nothing = Message::assistant([Block::text("")]);
    TAILS.into_iter().find_map(|shares| {
        let cut = cut_at(state, window, shares, |at| seen.vendor_may_cut(at))?;
        let least = vendor_compaction_fact(state, &cut, &nothing, "", Box::default());
        let least = after_fact(state, &least, used).ok()?;
        (least < most_after(used.tokens)).then_some(cut)
    })
}

/// The fact by which the vendor's own summary replaces the oldest part of the conversation. `text` is the
/// readable summary, or a short form of the conversation for other models. The sizes before and after are 0.
fn vendor_compaction_fact(
    state: &ConversationState,
    cut: &SummaryCut,
    block: &Message,
    text: &str,
    request: Box<SummaryRequest>,
) -> Fact {
    let json = block.blocks().iter().find_map(vendor_data).map_or("", VendorData::json);
    let words = cut.words(state.machine.transcript().messages(), json, state.machine.pins());
    let (provider, model) = (&*request.provider, &*request.model);
    let model = request.asked_model.as_deref().unwrap_or(model);
    let made = VendorSummary::new(provider, model, block.clone(), words);
    compaction_fact(state, cut, text, Some(Box::new(made)), request, (0, 0))
}

/// Requests the vendor's own summary once. Returns `None` if the program or the vendor does not support such
/// summaries, if an earlier request failed, or if the conversation cannot be cut where the vendor requires it.
/// Returns `Some(Some(cause))` if the run was stopped during the request. After any other request, returns
/// `Some(None)`.
pub(crate) async fn request_vendor_summary(
    run: &mut RunDriver<'_>,
    used: ContextUsage,
    window: u64,
) -> Result<Option<Option<InterruptCause>>, Error> {
    let state = &*run.state;
    let is_asked = state.agent.window().needs_vendor_summary()
        && state.machine.may_ask_vendor()
        && state.agent.provider().has_vendor_summaries();
    if !is_asked {
        return Ok(None);
    }
    let Some(cut) = vendor_cut(state, window, used) else { return Ok(None) };
    run.emit(Event::Compacting);
    let machine = &run.state.machine;
    let readable = machine.readable().messages_before(cut.messages);
    let vendors = machine.vendor_sent_view().map(|seen| seen.messages_before(cut.messages));
    let readable = Transcript::of_sent(readable);
    let outcome = request_summary(run, &readable, vendors.as_ref(), SummaryForm::Vendor).await?;
    let asked =
        run.summary.answer.as_ref().and_then(|answer| answer.requested_model()).map(str::to_owned);
    let mut request = take_summary_request(run, matches!(outcome, SummaryOutcome::Complete(..)));
    if let Some(asked) = asked.filter(|asked| *asked != request.model) {
        request.asked_model = Some(asked);
    }
    let request = Box::new(request);
    let made = match outcome {
        SummaryOutcome::Complete(message, stop) => block_of(&message, stop),
        SummaryOutcome::Failed(failed) => Err(failed.cause),
        SummaryOutcome::Stop(cause) => {
            compaction_stopped(run, request)?;
            return Ok(Some(Some(cause)));
        }
    };
    let (block, text) = match made {
        Ok(made) => made,
        Err(cause) => return vendor_failed(run, request, cause),
    };
    let text = match text.is_empty() {
        false => text,
        true => {
            let said = run.state.machine.transcript().messages().range(..cut.messages);
            stand_in(&said, used.estimate_of(percent(window, SUMMARY)))
        }
    };
    let mut fact = vendor_compaction_fact(run.state, &cut, &block, &text, request.clone());
    let (after, most) = (after_fact(run.state, &fact, used)?, most_after(used.tokens));
    if after >= most {
        let cause = format!(
            "the vendor's own summary frees too little: {after} tokens would remain, and at most {most} may"
        );
        return vendor_failed(run, request, cause);
    }
    let (messages, vendor, before) = (cut.messages, true, used.tokens);
    if let Fact::ContextCompacted { before: from, after: to, .. } = &mut fact {
        (*from, *to) = (before, after);
    }
    run.state.record(&fact)?;
    run.emit(Event::ContextCompacted { messages, vendor, before, after });
    Ok(Some(None))
}

pub(crate) fn vendor_failed(
    run: &mut RunDriver<'_>,
    request: Box<SummaryRequest>,
    cause: String,
) -> Result<Option<Option<InterruptCause>>, Error> {
    run.emit(Event::CompactionFailed { cause: &cause });
    let (stopped, vendor) = (false, true);
    let too_large = None;
    run.state.record(&Fact::CompactionFailed { request, cause, stopped, vendor, too_large })?;
    Ok(Some(None))
}

/// Handles an error of the vendor that the vendor's own summary may have caused. The error code names the
/// summary, or the vendor has rejected the request as invalid. For example, the reasoning after the summary may
/// not match the summary. Each later request would fail in the same way, so from now on the summary is sent as
/// text. Returns whether the model can be asked again.
pub(crate) fn drop_refused_summary(run: &mut RunDriver<'_>, error: &Error) -> Result<bool, Error> {
    let Some(view) = run.state.machine.vendors_view() else { return Ok(false) };
    let answers = run.state.agent.provider_and_model();
    let answer = run.request.answer.as_ref();
    let provider = answer.and_then(|it| it.provider()).unwrap_or(answers.0);
    let model = answer.and_then(|it| it.requested_model()).unwrap_or(answers.1);
    let last = error.last();
    let code = last.code().unwrap_or_default();
    let is_bad_request = match last.status() {
        Some(status) => matches!(status, 400 | 422),
        None => code.contains("invalid_request"),
    };
    let is_bad = last.kind() == ErrorKind::Api
        && !last.is_retryable()
        && !last.is_context_full()
        && !last.is_out_of_quota()
        && (is_bad_request || code.starts_with("compaction_"));
    if !is_bad || (view.provider, view.model) != (provider, model) {
        return Ok(false);
    }
    let why = why(last).map(|why| format!("{why}: ")).unwrap_or_default();
    let cause = format!("{why}{}", run.state.agent.secrets().hide(&last.to_string()));
    run.emit(Event::VendorSummaryRefused { cause: &cause });
    run.state.record(&Fact::VendorSummaryRefused { cause })?;
    Ok(true)
}
