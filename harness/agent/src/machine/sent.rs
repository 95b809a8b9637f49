//! The part of a conversation that is sent to the model, and the facts that change this part.

use std::{collections::HashMap, mem, sync::Arc};

use super::{
    call_states::{RunPhase, cannot},
    clearing::{SentFiles, has_files},
    indexes::Indexes,
    machine::Machine,
    stated::StatedWindow,
    window::{
        ContextState, ContextView, EditedContext, MeasuredRequest, REFUSALS, VendorView, place,
        signed_reasoning,
    },
};
use crate::model_notices::late_end;
use harness_core::{
    error::Error,
    journal::{ClearedArguments, ClearedResult, VendorSummary},
    message::{
        Arguments, Block, Message, Role, ToolCall, ToolContent, ToolResult, Transcript, VendorData,
    },
    provider::{FoundTools, ToolSearches, VendorsView},
};

impl Machine {
    /// The messages in requests: the transcript with the recorded replacements. Between runs, these messages
    /// can always be sent to a model. A model with a [summary of its own](VendorSummary) gets that summary
    /// instead of the summary as text.
    pub fn sent(&self) -> &Transcript {
        self.window.view.as_ref().map_or(&self.transcript, |view| &view.sent)
    }

    /// The number of messages at the beginning of [`sent`](Self::sent) that are sent without reasoning.
    pub fn thinking_from(&self) -> usize {
        self.window.view.as_ref().map_or(0, |view| view.thinking_from)
    }

    /// The messages in requests to this model of this provider.
    pub(crate) fn sent_view_for(&self, provider: &str, model: &str) -> ContextView<'_> {
        let own = self.vendor_view_of(provider, model).and_then(|_| self.vendor_sent_view());
        own.unwrap_or_else(|| self.readable())
    }

    fn vendor_view_of(&self, provider: &str, model: &str) -> Option<&VendorView> {
        let vendor = self.window.view.as_deref()?.vendor.as_deref();
        vendor.filter(|vendor| vendor.is_of(provider, model))
    }

    /// The indexes of the messages with reasoning that this model would get, although the reasoning was made after
    /// other content than that of this model's requests. `wire`: the name of the model's wire, or empty.
    pub(crate) fn foreign_reasoning(
        &self,
        (provider, model): (&str, &str),
        wire: &str,
    ) -> Vec<u64> {
        let (seen, view) = (self.sent_view_for(provider, model), self.window.view.as_deref());
        let is_of = |data: &VendorData, wire: &str| wire.is_empty() || data.wire() == wire;
        let (foreign, silent) = match self.vendor_view_of(provider, model) {
            Some(vendor) => (&vendor.foreign, Some(&vendor.silent)),
            None => (&self.window.foreign, view.map(|view| &view.silent)),
        };
        let is_sent = |at: &usize| {
            let is_silent = silent.is_some_and(|silent| silent.contains(*at));
            let of_wire = |it: &Message| signed_reasoning(it).any(|data| is_of(data, wire));
            !is_silent
                && *at >= seen.summed_up
                && seen.index_of(*at) >= seen.thinking_from
                && self.transcript.messages().get(*at).is_some_and(of_wire)
        };
        let sent = foreign.iter().copied().filter(is_sent);
        sent.filter_map(|at| u64::try_from(at).ok()).collect()
    }

    /// Records after which content the reasoning of this answer was made. `by`: the provider and the model, if
    /// they are known.
    pub(super) fn mark_origin(&mut self, message: Option<&Message>, by: Option<(&str, &str)>) {
        let unused = mem::take(&mut self.prefix.is_unused);
        if message.is_some_and(|it| signed_reasoning(it).next().is_some()) {
            let by_owner = by.map(|(it, model)| self.vendor_view_of(it, model).is_some());
            let at = self.transcript.messages().len().saturating_sub(1);
            self.window.mark_origin(at, by_owner, unused);
        }
    }

    /// The messages in requests to every model that has made no summary of its own.
    pub(crate) fn readable(&self) -> ContextView<'_> {
        let sent = &self.transcript;
        let all = ContextView {
            sent,
            thinking_from: 0,
            open_turn: 0,
            summed_up: 0,
            head: 0,
            words_at: None,
        };
        self.window.view.as_deref().map_or(all, EditedContext::sent_view)
    }

    /// The messages in requests to the model that has made a summary of its own. `None` without such a model.
    pub(crate) fn vendor_sent_view(&self) -> Option<ContextView<'_>> {
        self.window.view.as_deref()?.vendor_sent_view()
    }

    /// The parts of a request that are sent only to the model that has made a summary of its own.
    pub(crate) fn vendors_view(&self) -> Option<VendorsView<'_>> {
        let view = self.window.view.as_deref()?;
        let (seen, vendor) = (view.vendor_sent_view()?, view.vendor.as_deref()?);
        let (provider, model) = (&*vendor.summary.provider, &*vendor.summary.model);
        let (messages, words) = (seen.messages(), vendor.summary.words.as_ref());
        let (thinking_from, open_turn) = (seen.thinking_from, seen.open_turn);
        Some(VendorsView { provider, model, messages, words, thinking_from, open_turn })
    }

    /// Whether the vendor's own summary may be requested.
    pub(crate) fn may_ask_vendor(&self) -> bool {
        !self.window.compactions.vendor_failed && !self.window.compactions.vendor_refused
    }

    /// The index of the first sent message of the turn that was open when reasoning was last left out. 0 if no
    /// reasoning was left out.
    pub(crate) fn open_turn(&self) -> usize {
        self.window.view.as_ref().map_or(0, |view| view.open_turn)
    }

    /// How many messages of the transcript are replaced by a summary.
    pub fn summed_up(&self) -> usize {
        self.window.view.as_ref().map_or(0, |view| view.summed_up)
    }

    /// The texts of [`Chat::pin`](crate::Chat::pin), which are part of each summary.
    pub fn pins(&self) -> &[String] {
        &self.window.pins
    }

    /// The tools that the model has found by searching.
    pub(crate) fn found(&self) -> &[FoundTools] {
        &self.window.found
    }

    /// The found tools for a request. If a summary replaces the result of a search, the tools of that search do
    /// not count as found.
    pub(crate) fn found_now(&self) -> ToolSearches<'_> {
        ToolSearches::new(&self.window.found, self.summed_up())
    }

    pub(super) fn add_found_tools(&mut self, call: &str, tools: &[String]) -> Result<(), Error> {
        let known = |tool: &String| self.window.found.iter().any(|it| it.tools.contains(tool));
        if tools.is_empty() || tools.iter().any(known) {
            return Err(cannot(
                "a search must find at least one tool, and only tools that were not found before",
            ));
        }
        let (call, tools, place) =
            (call.to_owned(), tools.to_vec(), self.transcript.messages().len());
        Arc::make_mut(&mut self.window.found).push(FoundTools { call, tools, place });
        // The beginning of requests has changed, so the vendor's count is not valid any more.
        self.window.measured = None;
        Ok(())
    }

    /// The messages at the beginning of the next request that the vendor has counted, and the number of their
    /// tokens.
    pub(crate) fn measured(&self) -> Option<MeasuredRequest> {
        self.window.measured
    }

    /// The size of this model's window in tokens, as stated by an error of the vendor.
    pub(crate) fn stated_window(&self, provider: &str, model: &str) -> Option<u64> {
        let all = self.window.refusals.stated_windows.iter().enumerate();
        let of_model = all.filter(|(_, it)| it.is_of(provider, model));
        // The window of a fallback provider counts only until a request fits into it. After that, the model's
        // own window counts again.
        let last = self.window.refusals.stated_windows.len().checked_sub(1);
        let last =
            last.filter(|_| self.window.refusals.refused || self.window.refusals.overflows > 0);
        let counts = of_model.filter(|(at, it)| !it.fallback || Some(*at) == last);
        counts.map(|(_, it)| it.tokens).min()
    }

    /// Whether the size of this model's window is a guess, made after a request was refused without a stated
    /// size.
    pub(crate) fn is_guessed(&self, provider: &str, model: &str) -> bool {
        let told = self.stated_window(provider, model);
        let of_model =
            self.window.refusals.stated_windows.iter().filter(|it| it.is_of(provider, model));
        of_model.filter(|it| Some(it.tokens) == told).all(|it| !it.is_named)
    }

    /// The size of the last request that did not fit into this model's window. `None` if the model has answered
    /// since.
    pub(crate) fn last_refused(&self, provider: &str, model: &str) -> Option<u64> {
        let last =
            self.window.refusals.stated_windows.last().filter(|it| it.is_of(provider, model))?;
        (self.window.refusals.overflows > 0).then_some(last.tokens)
    }

    /// Whether the last request did not fit into the window, and the context was not edited since.
    pub(crate) fn is_refused(&self, provider: &str, model: &str) -> bool {
        self.window.refusals.refused
            && self
                .window
                .refusals
                .stated_windows
                .last()
                .is_some_and(|it| it.is_of(provider, model))
    }

    /// How many requests for a summary as text have failed in this run since the last summary.
    pub(crate) fn failed_compactions(&self) -> u32 {
        // A smaller request may still fit, so the first refusals do not count as failures.
        self.window
            .compactions
            .failures
            .saturating_add(self.window.compactions.refusals.saturating_sub(REFUSALS))
    }

    /// The tokens of the conversation in the last summary request that the vendor has refused as too large.
    /// `None` after a new summary, after an answer of the model, and at the beginning of a run.
    pub(crate) fn too_large(&self) -> Option<u64> {
        self.window.compactions.too_large
    }

    /// Whether the context can be edited now: no call is open, and the vendor is not continuing an answer.
    pub(crate) fn can_edit_context(&self) -> bool {
        let last = self.transcript.messages().last();
        matches!(self.phase, RunPhase::Asking | RunPhase::Ended(_))
            && last.is_some_and(|last| !last.is_paused())
    }

    /// The results of read-only calls that can be cleared. Such a result comes before the message `before`, is
    /// sent unchanged, and contains no report about another call. Each result comes with the index of its
    /// message.
    pub(crate) fn clearable(&self, before: usize) -> impl Iterator<Item = (usize, &ToolResult)> {
        let from = self.summed_up();
        let reads = self.window.reads.iter().take_while(move |(at, _)| *at < before);
        let kept = reads.filter(move |place| !self.has_news(**place));
        kept.filter(move |(at, _)| *at >= from).filter_map(|(at, number)| {
            let message = self.transcript.messages().get(*at)?;
            Some((*at, message.results().nth(*number)?))
        })
    }

    /// The calls with long arguments that can be cleared. Such a call has succeeded and is sent unchanged, and
    /// its result comes before the message `before`. Each call comes with the index of its message and its
    /// number in that message.
    pub(crate) fn long_calls(
        &self,
        before: usize,
    ) -> impl Iterator<Item = ((usize, usize), &ToolCall)> {
        let from = self.summed_up();
        let long = self.window.long.iter().take_while(move |(at, _)| at.saturating_add(1) < before);
        long.filter(move |(at, _)| *at >= from).filter_map(|(at, number)| {
            let message = self.transcript.messages().get(*at)?;
            Some(((*at, *number), message.calls().nth(*number)?))
        })
    }

    /// Whether the library has written the message at this index with the role user.
    pub(crate) fn is_own_message(&self, at: usize) -> bool {
        let message = self.transcript.messages().get(at);
        message.is_some_and(Message::is_by_program)
    }

    /// The report for the model that this stopped call has ended, and the names of the stored full result.
    pub(crate) fn late_end_of(&self, call: &str) -> Option<(&str, Option<&str>)> {
        let ContextState { ended, given, .. } = &self.window;
        let ended = ended.get(call).map(|(text, names)| (text.as_str(), names.as_deref()));
        ended.or_else(|| given.as_ref()?.end_of(call))
    }

    /// Whether the last error of the vendor stated a window smaller than a request that the model has answered.
    pub(crate) fn is_window_doubtful(&self) -> bool {
        self.window.refusals.doubted
    }

    pub(crate) fn began_with(&self) -> usize {
        self.window.given.as_ref().map_or(0, |given| given.messages())
    }

    /// Whether the messages with which the conversation began already report that this call ended after it was
    /// stopped.
    pub(crate) fn has_given_end(&self, tool: &str, result: &ToolResult) -> bool {
        let given = self.window.given.as_ref();
        given.is_some_and(|given| given.has_end(result.call_id(), &late_end(tool, result)))
    }

    /// Whether the result at this position also contains a report that an earlier call ended after it was
    /// stopped.
    fn has_news(&self, place: (usize, usize)) -> bool {
        self.window.news.contains(&place)
    }

    /// Whether shortened arguments were ever sent for a call. If so, a summary or a later call may copy the
    /// placeholder line of such arguments.
    pub(crate) fn has_shortened(&self) -> bool {
        self.window.has_shortened
    }

    pub(super) fn push(&mut self, message: Message) -> Result<(), Error> {
        let at = self.transcript.messages().len();
        self.transcript.push(message.clone())?;
        if has_files(&message) {
            self.window.with_files.push(at);
        }
        if message.role() == Role::User {
            self.window.last_said = Some(at);
        }
        self.prefix.pass(self.transcript.messages(), &message);
        let Some(view) = &mut self.window.view else { return Ok(()) };
        if let Some(vendor) = &mut view.vendor {
            vendor.sent.push(message.clone())?;
        }
        view.sent.push(message)
    }

    pub(super) fn check_can_edit(&self) -> Result<(), Error> {
        match self.can_edit_context() {
            true => Ok(()),
            false => Err(cannot(
                "what is sent cannot change while calls wait for results or an answer is paused",
            )),
        }
    }

    pub(super) fn compact(
        &mut self,
        messages: u64,
        kept: &[u64],
        summary: &Message,
        vendor: Option<&VendorSummary>,
        after: u64,
    ) -> Result<(), Error> {
        self.check_can_edit()?;
        let all = self.transcript.messages();
        let summed_up = place(messages);
        let is_cut = summed_up > self.summed_up()
            && summed_up <= all.len()
            && all.get(summed_up).is_none_or(|next| next.role() != Role::Tool);
        if !is_cut || summary.role() != Role::User {
            return Err(cannot(
                "a summary must be a message of the user that replaces more messages than before, up to the \
                 end of a turn",
            ));
        }
        let speaks =
            |message: &Message, role| message.role() == role && !message.blocks().is_empty();
        let is_vendors = |vendor: &VendorSummary| {
            speaks(&vendor.message, Role::Assistant)
                && vendor.message.calls().next().is_none()
                && vendor.words.as_ref().is_none_or(|words| speaks(words, Role::User))
        };
        if !vendor.is_none_or(is_vendors) {
            return Err(cannot(
                "a vendor's own summary must be a message of the model, and the words beside it one of the user",
            ));
        }
        let kept: Vec<usize> = kept.iter().map(|at| place(*at)).collect();
        let is_said = |at: &usize| {
            *at < summed_up && all.get(*at).is_some_and(|said| said.role() == Role::User)
        };
        if !kept.is_sorted_by(|one, next| one < next) || !kept.iter().all(is_said) {
            return Err(cannot(
                "of the summarized messages, only those of the user can be kept, in their order",
            ));
        }
        let (window, words_at) = (&mut self.window, all.len());
        let open = window.open_turn(all);
        match vendor {
            Some(_) => self.prefix.cut(&all.range(summed_up..)),
            None => self.prefix.fold(),
        }
        let view = window.view.get_or_insert_default();
        // Reasoning that was left out before stays left out. The vendor's own summary removes no further
        // reasoning: it stands for the messages that this model has been sent.
        let before = view.vendor.take();
        view.vendor = vendor.map(|summary| {
            let of = |it: &VendorView| it.is_of(&summary.provider, &summary.model);
            let mut own = before.filter(|before| of(before)).unwrap_or_else(|| {
                let seen = view.sent_view();
                Box::new(VendorView {
                    summary: summary.clone(),
                    words_at,
                    thinks_at: seen.place_of(seen.thinking_from),
                    open_at: seen.place_of(seen.open_turn),
                    foreign: window.foreign.clone(),
                    silent: view.silent.clone(),
                    sent: Transcript::default(),
                })
            });
            (own.summary, own.words_at) = (summary.clone(), words_at);
            own
        });
        // The text of a summary replaces everything before it.
        window.foreign.clear();
        (view.summed_up, view.kept) = (summed_up, kept);
        view.summary = Some(summary.clone());
        view.cleared.retain(|(at, _), _| *at >= summed_up);
        view.files.retain(|at| at >= summed_up || view.kept.contains(&at));
        view.shorter.retain(|(at, _), _| *at >= summed_up);
        view.silent.remove_below(summed_up);
        if let Some(vendor) = &mut view.vendor {
            vendor.silent.remove_below(summed_up);
            vendor.foreign.remove_below(summed_up);
        }
        window.reads.retain(|(at, _)| *at >= summed_up);
        window.long.retain(|(at, _)| *at >= summed_up);
        view.rebuild(all);
        view.leave_out_readable_reasoning(open);
        window.reset_failures();
        window.compactions.too_large = None;
        self.record_edit(after);
        Ok(())
    }

    /// Records that the vendor has refused a request because of the vendor's own summary.
    pub(super) fn refuse(&mut self) -> Result<(), Error> {
        self.asking("a summary cannot be refused")?;
        let open = self.window.open_turn(self.transcript.messages());
        let view = self.window.view.as_mut().filter(|view| view.vendor.is_some());
        let Some(view) = view else {
            return Err(cannot("no vendor's own summary is sent, so none can be refused"));
        };
        view.vendor = None;
        view.leave_out_readable_reasoning(open);
        (self.window.compactions.vendor_refused, self.window.measured) = (true, None);
        Ok(())
    }

    /// The messages for the model that has made a summary of its own. Without such a model, the messages for
    /// every model.
    fn widest(&self) -> &Transcript {
        let vendor = self.window.view.as_deref().and_then(|view| view.vendor.as_deref());
        vendor.map_or(self.sent(), |vendor| &vendor.sent)
    }

    pub(super) fn record_edit(&mut self, after: u64) {
        let messages = self.widest().messages().len();
        // Without a count of the vendor, the new size is not kept, as it could not be corrected.
        let measured = self.window.measured.map(|_| MeasuredRequest { messages, tokens: after });
        self.window.measured = measured;
        self.window.refusals.refused = false;
    }

    pub(crate) fn has_files(&self) -> bool {
        !self.window.with_files.is_empty()
    }

    /// The files that are sent, in the order of their messages.
    pub(crate) fn sent_files(&self) -> Vec<SentFiles<'_>> {
        let (view, summed_up) = (self.window.view.as_deref(), self.summed_up());
        let is_sent =
            |at: &usize| *at >= summed_up || view.is_some_and(|view| view.kept.contains(at));
        let all = self.transcript.messages();
        let mut found = Vec::new();
        for message in self.window.with_files.iter().copied().filter(is_sent) {
            let Some(said) = all.get(message) else { continue };
            let is_cleared = |call: &str| {
                view.is_some_and(|view| view.cleared.contains_key(&(message, call.to_owned())))
            };
            let left_out =
                |call: &str| view.map(|view| view.files.of(message, call)).unwrap_or_default();
            let asked = message.checked_sub(1).and_then(|before| all.get(before));
            for result in said.results().filter(|result| !is_cleared(result.call_id())) {
                let mut calls = asked.into_iter().flat_map(Message::calls);
                let tool = calls.find(|call| call.id() == result.call_id());
                let call = (result.call_id(), tool.map_or("", |call| call.name()));
                let files = result.content().iter().filter_map(ToolContent::media);
                found.push(SentFiles::new(message, Some(call), left_out(call.0), files));
            }
            let files = said.blocks().iter().filter_map(Block::media);
            found.push(SentFiles::new(message, None, left_out(""), files));
        }
        found
    }

    /// The index of the message whose files are to be left out, and the numbers of these files.
    fn place_of_files(
        &self,
        cleared: &ClearedResult,
        files: &[u64],
    ) -> Result<(usize, Indexes), Error> {
        let mut gone = Indexes::default();
        files.iter().for_each(|number| gone.insert(place(*number)));
        let sent = self.sent_files();
        let known = sent.iter().find(|files| files.are_of(cleared));
        let has_all = |it: &&SentFiles<'_>| {
            gone.last().is_none_or(|last| *last < it.left_out.len() + it.files.len())
        };
        match known.filter(has_all) {
            Some(files) => Ok((files.message, gone)),
            None => {
                let of = match cleared.message {
                    Some(message) => format!("the message {message}"),
                    None => format!("the result of the call `{}`", cleared.call),
                };
                Err(cannot(format!("{of} is not sent with the files {files:?}")))
            }
        }
    }

    pub(super) fn clear(
        &mut self,
        results: &[ClearedResult],
        arguments: &[ClearedArguments],
        after: u64,
    ) -> Result<(), Error> {
        self.check_can_edit()?;
        let can: HashMap<&str, usize> =
            self.clearable(usize::MAX).map(|(at, result)| (result.call_id(), at)).collect();
        let mut places = Vec::with_capacity(results.len());
        let mut files = Vec::new();
        for cleared in results {
            if let Some(gone) = &cleared.files {
                files.push((self.place_of_files(cleared, gone)?, cleared));
                continue;
            }
            let Some(at) = can.get(&*cleared.call) else {
                let id = &cleared.call;
                let what = "cannot be cleared: the call did not only read, or its result is not sent whole";
                return Err(cannot(format!("the result of the call `{id}` {what}")));
            };
            places.push((*at, cleared));
        }
        let mut shorter = HashMap::with_capacity(arguments.len());
        for cleared in arguments {
            let place = (place(cleared.message), place(cleared.call));
            let is_object = Arguments::decode(&cleared.arguments).is_ok_and(|it| !it.is_empty());
            let is_long =
                place.0 >= self.summed_up() && self.window.long.binary_search(&place).is_ok();
            if !is_long || !is_object {
                let (message, call) = place;
                let what = "cannot be shortened: it has no long arguments, did not succeed or is not sent whole, or \
                            the new arguments are not an object";
                return Err(cannot(format!("the call {call} of the message {message} {what}")));
            }
            shorter.insert(place, cleared.arguments.clone());
        }
        if places.is_empty() && shorter.is_empty() && files.is_empty() {
            return Err(cannot("a fact that clears must name at least one result or call"));
        }
        let last = places.iter().map(|(at, _)| *at).max();
        let (window, all) = (&mut self.window, self.transcript.messages());
        // Later clearing begins after the last cleared result, so smaller results before that result are not
        // cleared.
        if last.is_some() {
            window.reads.retain(|(at, _)| Some(*at) > last);
        }
        if !shorter.is_empty() {
            window.long.retain(|place| !shorter.contains_key(place));
            window.has_shortened = true;
        }
        let open = window.open_turn(all);
        let mut changed = Indexes::default();
        shorter.keys().for_each(|(at, _)| changed.insert(*at));
        let view = window.edited(all);
        for (at, cleared) in places {
            changed.insert(at);
            view.cleared.insert((at, cleared.call.clone()), cleared.text.clone());
        }
        for ((at, gone), cleared) in files {
            changed.insert(at);
            view.files.insert(at, cleared, gone);
        }
        view.shorter.extend(shorter);
        view.update(all, &changed);
        view.leave_out_reasoning(all.len(), open);
        self.record_edit(after);
        Ok(())
    }

    /// Records that a request was refused because it does not fit into the window.
    pub(super) fn apply_overflow(
        &mut self,
        (provider, model, fallback): (&str, &str, bool),
        window: Option<u64>,
        tokens: Option<u64>,
        estimated: u64,
    ) -> Result<(), Error> {
        self.asking("a request cannot be refused")?;
        let is_same =
            self.window.refusals.stated_windows.last().is_none_or(|it| it.is_of(provider, model));
        let before = if is_same { self.window.refusals.overflows } else { 0 };
        let (provider, model, fallback) = (provider.to_owned(), model.to_owned(), fallback);
        let is_named = window.is_some();
        let tokens_of = window.or(tokens).unwrap_or(estimated);
        let stated = StatedWindow { provider, model, fallback, tokens: tokens_of, is_named };
        // If a stated window is not larger than a request that the model has answered, the error is probably
        // wrong and is ignored once. If the vendor refuses the request again before the model answers, the
        // window has really become smaller.
        let by = self.answered_by();
        let is_same = by.is_some_and(|(provider, model)| stated.is_of(provider, model));
        let is_odd = is_same && tokens_of <= self.window.refusals.answered;
        if !fallback && is_odd && !mem::replace(&mut self.window.refusals.doubted, true) {
            return Ok(());
        }
        self.window.refusals.overflows = before.saturating_add(1);
        self.window.refusals.refused = true;
        self.window.refusals.stated_windows.push(stated);
        if let Some(tokens) = tokens.filter(|_| !fallback) {
            let messages = self.widest().messages().len();
            self.window.measured = Some(MeasuredRequest { messages, tokens });
        }
        Ok(())
    }
}
