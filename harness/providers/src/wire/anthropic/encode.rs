//! Encodes a request of the Messages API from the transcript.
//!
//! The bytes of a message depend only on the message, so each request begins with the bytes of the previous request.
//! The vendor's cache and signed thinking therefore stay valid. There is one exception: a request contains a vendor
//! block without a result only while the result may still arrive.

use harness_schema::StrictForm;
use serde_json::Map;

use super::{
    SUMMARY, WIRE,
    thinking::{self, ThinkingConfig, ThinkingSettings, thinking},
    tools::{DeferredTools, addition, adds_tools, tools},
};
use crate::wire::{
    Encoded,
    answer::{self, OutputPlan, SchemaEnforcement, ServerSupport},
    cache,
    encoded::{MessageEncoding, PrefixStability, conversation, thinking_from, turn_start},
    json::{JsonBody, comma, key, member, members, object, ours, raw, text, text_part},
    media::{CarriedFiles, FilePart, ModelCapabilities, Recipient, line},
    names,
    optional::{OptionalMember, RefusedMembers},
    prefix,
    tolerant::{ObjectMembers, text_of},
    tool_choice,
};
use harness_core::{
    error::{Error, ErrorKind},
    message::{
        Block, Media, MediaKind, MediaSource, Message, Messages, ReasoningBlock, Role, TextBlock,
        ToolCall, ToolResult, VendorData, in_line,
    },
    models::{Model, Models, SchemaAnswers},
    provider::{
        BodyDraft, OutputMode, PrefixAddition, ReasoningBinding, Request, Settings, ToolChoice,
    },
    secret::beginning,
};

/// How requests are encoded on this wire.
#[derive(Clone, Debug)]
pub struct Options {
    /// The id of the model.
    pub model: String,
    /// The settings of every request.
    pub settings: Settings,
    /// The kinds of files and the options that the model accepts.
    pub takes: ModelCapabilities,
    /// The optional members that the server has refused, and that requests leave out.
    pub refused: RefusedMembers,
    /// The output mode of requests with a schema for the answer. `None`: the library chooses the mode for the vendor,
    /// the model and the schema.
    pub answer_way: Option<OutputMode>,
    /// Whether tools that a search has found get a mark. The vendor reads a marked tool's definition at the search in
    /// the conversation, so the vendor's cache of the messages before the search stays valid. Other servers may not
    /// support the mark.
    ///
    /// Source: <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool>.
    pub defers_tools: bool,
    /// Whether requests contain thinking without a signature. If so, each turn with calls contains thinking, which may
    /// be empty. Anthropic refuses unsigned thinking and empty thinking. DeepSeek and Moonshot do not sign thinking,
    /// and refuse a turn that has calls and no thinking.
    ///
    /// Source: <https://api-docs.deepseek.com/guides/anthropic_api>.
    pub unsigned_thinking: bool,
    /// Whether the model's reasoning becomes invalid if an earlier message changes: see [`Model::binds_reasoning`].
    pub binds_reasoning: bool,
    /// Whether the server accepts changed instructions and tools after the existing messages.
    pub appends_changes: bool,
}

impl Options {
    /// Options for a model of Anthropic, with the default settings.
    pub fn new(model: impl Into<String>) -> Self {
        let model = model.into();
        let models = Models::default();
        let takes = ModelCapabilities::of("anthropic", &*model, &models);
        let known = models.find("anthropic", &model);
        let defers_tools = known.deferred_tools.unwrap_or(false);
        let binds_reasoning = known.binds_reasoning.unwrap_or(false);
        Self {
            refused: RefusedMembers::at("anthropic", &model),
            model,
            settings: Settings::default(),
            takes,
            answer_way: None,
            defers_tools,
            unsigned_thinking: false,
            binds_reasoning,
            appends_changes: known.appends_changes.unwrap_or(binds_reasoning),
        }
    }
}

/// The files that this protocol can carry. Sources: <https://docs.claude.com/en/docs/build-with-claude/pdf-support> (32
/// MB a request), <https://docs.claude.com/en/docs/build-with-claude/files>, and the vendor's error for larger
/// pictures, `image exceeds 5 MB maximum: .. bytes > 5242880 bytes`. The limit in this error counts base64.
const PLACES: CarriedFiles = CarriedFiles {
    audio: false,
    other_pictures: false,
    picture_files: true,
    document_urls: true,
    office: false,
    picture_size: 5 * 1024 * 1024,
    size: 32 * 1024 * 1024,
};

/// The token limit for an unknown model's answer. The protocol requires a limit.
const MAX_TOKENS: u32 = 16_384;

/// The token limit of an answer if the program sets none: the model's maximum, but at most an eighth of its context
/// window. Older models refuse a request if the conversation and the limit together exceed the window.
fn longest_answer(known: &Model) -> u32 {
    let eighth = known.window.and_then(|window| u32::try_from(window / 8).ok());
    known.output.zip(eighth).map_or(MAX_TOKENS, |(output, eighth)| output.min(eighth))
}

/// The maximum length of a call id, in bytes.
const ID_LIMIT: usize = 64;

/// Encodes the body of a request.
///
/// # Errors
/// - [`ErrorKind::Configuration`]: `extra` contains a member that the library makes from the conversation, or
///   `context_management` in a request for a summary.
/// - [`ErrorKind::Transcript`]: no message of the conversation can be sent.
/// - [`ErrorKind::Content`]: the user's last message contains a file that this recipient does not accept.
pub fn encode(request: &Request<'_>, options: &Options) -> Result<Vec<u8>, Error> {
    encode_pieces(request, options).map(Encoded::into_bytes)
}

/// Encodes like [`encode`], but returns pieces, and reuses the bytes of messages that an earlier request has
/// [sent](Request::with_sent).
///
/// # Errors
/// The same as [`encode`].
pub fn encode_pieces(request: &Request<'_>, options: &Options) -> Result<Encoded, Error> {
    let Options { model, settings, takes, refused, defers_tools, unsigned_thinking, .. } = options;
    let Settings {
        max_tokens: _,
        temperature,
        top_p,
        stop,
        effort,
        earlier_thinking: _,
        thinking_text,
        tool_choice,
        parallel_calls,
        strict_tools,
        prompt_cache,
        cache_key: _,
        user,
        extra,
    } = settings;
    let plan = OutputPlan::of(request, settings, &server(options));
    let request = &*answer::with_tool(plan.as_ref(), request);
    tool_choice::check(request, settings)?;
    let summarizes = request.is_summary_request();
    if !summarizes {
        tool_choice::check_force(model, settings, takes)?;
    }
    if summarizes && extra.contains_key("context_management") {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the vendor makes no summary on request if `extra` has `context_management`: leave one of them out",
        ));
    }
    let mut body = JsonBody::new(extra, &["messages", "stream", "compaction"], *refused)?;
    body.value("model", model);
    let known = takes.known_over(Models::default().find("anthropic", model));
    let longest = thinking::with_room(&known, *effort, longest_answer(&known));
    let max_tokens = request.max_tokens(settings, Some(longest)).unwrap_or(longest);
    body.value("max_tokens", &max_tokens);
    body.value("stream", &true);
    body.maybe("temperature", temperature.as_ref());
    body.maybe("top_p", top_p.as_ref());
    // A request for a summary must not contain the settings of an answer, such as stop sequences.
    if !stop.is_empty() && !summarizes {
        body.value("stop_sequences", stop);
    }
    let mut output = Map::new();
    let of_extra = extra.get("thinking").and_then(|it| it.get("type")?.as_str());
    let mut said = thinking(model, &known, settings, max_tokens)?;
    let mut has_budget = of_extra
        .map_or(matches!(said.config, Some(ThinkingConfig::Enabled(_))), |it| it == "enabled");
    if has_budget && of_extra.is_none() && !open_turn_thinks(request, settings) {
        // With a thinking budget, the vendor requires thinking at the beginning of the open turn. This request's open
        // turn begins without thinking, so thinking stays off until the next turn.
        (said, has_budget) = (ThinkingSettings::default(), false);
    }
    // A program with `thinking` in `extra` also sets there whether the vendor sends the thinking as text.
    let wants_text = *thinking_text != Some(false)
        && known.omits_thinking == Some(true)
        && !extra.contains_key("thinking")
        && (said.config == Some(ThinkingConfig::Adaptive)
            || said.config.is_none() && known.thinks_unasked == Some(true))
        && body.may_send(OptionalMember::ThinkingDisplay);
    if wants_text {
        said.config = Some(ThinkingConfig::Adaptive);
        body.member("thinking", &|out| raw(out, r#"{"type":"adaptive","display":"summarized"}"#));
    } else if let Some(config) = said.config {
        body.member("thinking", &|out| raw(out, &config.json()));
    }
    if let Some(effort) = said.effort {
        output.insert("effort".to_owned(), effort.into());
    }
    let is_off = match (of_extra, said.config) {
        (Some(of_extra), _) => of_extra == "disabled",
        (None, Some(config)) => config == ThinkingConfig::Disabled,
        (None, None) => known.thinks_unasked == Some(false),
    };
    if let Some((schema, _)) = plan.as_ref().and_then(|plan| plan.format.as_ref()) {
        let format = serde_json::json!({ "type": "json_schema", "schema": schema });
        output.insert("format".to_owned(), format);
    }
    if !output.is_empty() {
        body.value("output_config", &output);
    }
    if let Some(user) = user {
        body.value("metadata", &serde_json::json!({ "user_id": user }));
    }
    let whole = cache::anthropic(prompt_cache.unwrap_or_default());
    if let Some(mark) = whole {
        // The vendor applies this mark to the last block, so the mark does not change the bytes of messages.
        body.optional(OptionalMember::CacheControl, &|out| raw(out, mark));
    }
    let mark = whole.filter(|_| !refused.has(OptionalMember::CacheMarks));
    if let Some(system) = request.system().filter(|system| !system.trim().is_empty()) {
        body.member("system", &|out| {
            raw(out, r#"[{"type":"text""#);
            member(out, "text", system);
            breakpoint(out, mark);
            raw(out, "}]");
        });
    }
    let strict = strict_tools.unwrap_or(false);
    let defers = *defers_tools && !refused.has(OptionalMember::DeferLoading);
    let found = DeferredTools::of(request, defers, &tool_choice::named(settings));
    if !found.tools.is_empty() {
        body.may_send(OptionalMember::DeferLoading);
    }
    body.tools(|out| tools(out, request, strict, &found, mark));
    let tool_choice = tool_choice.as_ref().filter(|choice| {
        !summarizes || !matches!(choice, ToolChoice::Required | ToolChoice::Tool(_))
    });
    let forced = plan.as_ref().and_then(OutputPlan::forced);
    let (tool_choice, parallel_calls) = forced.unwrap_or((tool_choice, *parallel_calls));
    if let Some(choice) = choice(tool_choice, parallel_calls)
        && (!request.tools().is_empty() || adds_tools(request))
    {
        body.value("tool_choice", &choice);
    }
    if summarizes {
        body.member("compaction", &|out| raw(out, r#"{"type":"summarize"}"#));
    }
    // With a thinking budget, the last answer with tool calls must begin with thinking. For models with a budget, the
    // messages before this thinking may change.
    let thinking_from = match is_off {
        // With thinking off, the vendor ignores thinking in earlier turns, and refuses thinking in an open turn: `When
        // thinking is disabled, an `assistant` message in the final position cannot contain `thinking``.
        true => usize::MAX,
        false => thinking_from(request, settings, has_budget),
    };
    // If a request asks for a summary or begins with a summary, the only allowed summary is the first block.
    let first_alone = summarizes || request.has_summary_first();
    let summary_at = first_alone.then(|| request.has_summary_first().then_some(0));
    let is = format!(
        "{WIRE} {thinking_from} {unsigned_thinking}{}{}{}{}",
        if first_alone { " summary" } else { "" },
        found.form(),
        prefix::form(request, strict),
        answer::form(plan.as_ref())
    );
    // If the server refuses `cache_control` for the whole request, the last message gets a mark.
    let at = match refused.has(OptionalMember::CacheControl) {
        true => request.messages().len().checked_sub(1),
        false => marked(request, extra),
    };
    let before = mark.zip(at);
    if before.is_some()
        || mark.is_some() && (!request.tools().is_empty() || request.system().is_some())
    {
        body.may_send(OptionalMember::CacheMarks);
    }
    let mark = before.map(|(mark, at)| (at, format!(r#","cache_control":{mark}"#)));
    let form = MessageEncoding { is, mark };
    let to = Recipient { takes, places: &PLACES };
    conversation(body, "messages", b"", form, request, to, &|out, before, message| {
        let at = before.len();
        let after = request.messages().range(at.saturating_add(1)..);
        let message = &answer::sent_form(plan.as_ref(), at, message);
        let summaries = summary_at.is_none_or(|first| first == Some(at));
        let thinking = match unsigned_thinking {
            // A server with unsigned thinking requires the thinking of each turn with calls.
            true if !is_off && (at >= thinking_from || message.calls().next().is_some()) => {
                SentThinking::All
            }
            false if at >= thinking_from => SentThinking::Signed,
            true | false => SentThinking::Nothing,
        };
        let from = out.len();
        let stays = encode_message(out, message, (at, &after), (thinking, summaries), &found, to);
        if let Some(added) = added_behind(request, at).filter(|_| out.len() > from) {
            addition(out, added, strict);
        }
        stays
    })
}

/// The instructions and tools that are sent directly after the message at this index. The vendor accepts them only at
/// the end or before an answer, so they come after all messages of the user in a row.
fn added_behind<'a>(request: &Request<'a>, at: usize) -> Option<&'a PrefixAddition> {
    let messages = request.messages();
    let is_users = |at: usize| messages.get(at).is_some_and(|message| message.role() == Role::User);
    if request.additions().is_empty() || is_users(at.saturating_add(1)) {
        return None;
    }
    let first = (1..=at).rev().find(|at| !is_users(*at)).unwrap_or(0);
    (first..=at).rev().find_map(|at| prefix::behind(request, messages.get(at)?))
}

/// The messages and settings that the reasoning in this request depends on.
pub(crate) fn binding(request: &Request<'_>, options: &Options) -> ReasoningBinding {
    if !options.binds_reasoning {
        return ReasoningBinding::default();
    }
    prefix::binding(request, &options.settings, &server(options), false)
        .with_wire(WIRE)
        .with_appended_changes(options.appends_changes)
        .with_deferred_tools(
            options.defers_tools && !options.refused.has(OptionalMember::DeferLoading),
        )
}

/// What is known about the server's modes for an answer with a schema. A server with models of other vendors ignores an
/// unknown mode.
fn server(options: &Options) -> ServerSupport {
    ServerSupport {
        mode: options.takes.schema_answers().unwrap_or(SchemaAnswers::Never),
        form: StrictForm::Anthropic,
        takes_any: false,
        in_words: false,
        forced: if options.takes.schema_answers().is_none() && options.takes.may_force_tools() {
            SchemaEnforcement::ByCall
        } else {
            SchemaEnforcement::AsOthers
        },
        way: options.answer_way,
    }
}

/// The vendor looks for a cached prefix in the 20 blocks before a mark. This limit is one block lower, because requests
/// leave out some blocks.
const LOOKBACK: usize = 19;

/// The index of the previous request's last message, if more blocks follow than the vendor searches. This message then
/// gets its own mark, the fourth and last mark that a request may have. A mark does not change the cached bytes.
///
/// Source: <https://docs.claude.com/en/docs/build-with-claude/prompt-caching> (20 blocks, 4 marks).
fn marked(request: &Request<'_>, extra: &Map<String, serde_json::Value>) -> Option<usize> {
    let messages = request.messages();
    let mut said = false;
    let mut blocks = 0;
    for at in (0..messages.len()).rev() {
        let message = messages.get(at)?;
        let is_answer = message.role() == Role::Assistant;
        if said && !is_answer {
            // The program's own tools may already have the fourth mark.
            let is_full =
                || extra.get("tools").is_some_and(|it| it.to_string().contains("cache_control"));
            return (blocks > LOOKBACK && !is_full()).then_some(at);
        }
        said |= is_answer;
        blocks += message.blocks().len();
    }
    None
}

pub(super) fn breakpoint(out: &mut BodyDraft, mark: Option<&str>) {
    if let Some(mark) = mark {
        key(out, "cache_control");
        raw(out, mark);
    }
}

fn choice(choice: Option<&ToolChoice>, parallel: Option<bool>) -> Option<serde_json::Value> {
    let mut said = match choice {
        None if parallel == Some(false) => serde_json::json!({ "type": "auto" }),
        None => return None,
        Some(ToolChoice::Auto) => serde_json::json!({ "type": "auto" }),
        Some(ToolChoice::Required) => serde_json::json!({ "type": "any" }),
        Some(ToolChoice::Forbidden) => return Some(serde_json::json!({ "type": "none" })),
        Some(ToolChoice::Tool(name)) => serde_json::json!({ "type": "tool", "name": name }),
    };
    if let (Some(parallel), Some(said)) = (parallel, said.as_object_mut()) {
        said.insert("disable_parallel_tool_use".to_owned(), (!parallel).into());
    }
    Some(said)
}

/// Writes one message, unless the request can contain no part of the message. Returns how long the bytes stay the same.
fn encode_message(
    out: &mut BodyDraft,
    message: &Message,
    (at, after): (usize, &Messages),
    (thinking, summaries): (SentThinking, bool),
    found: &DeferredTools<'_>,
    to: Recipient<'_>,
) -> PrefixStability {
    // The vendor refuses a request with a refused answer, so refused answers are left out.
    if message.is_refused() {
        return PrefixStability::Always;
    }
    let mut stays = PrefixStability::Always;
    let start = out.mark();
    comma(out);
    raw(out, r#"{"role":"#);
    raw(
        out,
        match message.role() {
            Role::User | Role::Tool => r#""user""#,
            Role::Assistant => r#""assistant""#,
        },
    );
    raw(out, r#","content":["#);
    let first = out.len();
    if thinking == SentThinking::All && is_silent_turn(message) {
        raw(out, r#"{"type":"thinking","thinking":""}"#);
    }
    // The offset of thinking at the end of the message so far.
    let mut alone = None;
    // The vendor expects results directly after the calls, so calls come last. Thinking between calls keeps its
    // position, because the vendor refuses moved thinking.
    let is_call = |block: &Block| matches!(block, Block::ToolCall(_));
    let may_mix = |block: &Block| is_call(block) || matches!(block, Block::Reasoning(_));
    let in_place = message.blocks().iter().skip_while(|block| !is_call(block)).all(may_mix);
    for block in message.blocks() {
        let before = (out.mark(), out.len());
        match block {
            Block::ToolCall(call) if in_place => encode_call(out, call),
            Block::ToolCall(_) => {}
            Block::Reasoning(_) if thinking == SentThinking::Nothing => {}
            Block::Reasoning(reasoning) => encode_reasoning(out, reasoning, thinking),
            Block::Vendor(data) if !summaries && is_summary(data) => {}
            Block::ToolResult(result) => match found.by(result.call_id()).as_slice() {
                [] => encode_result(out, result, to),
                tools => encode_found(out, result, tools),
            },
            // Only user messages can contain files.
            block if block.media().is_some() && message.role() == Role::Assistant => {}
            Block::Vendor(data) => match result_of(data, message, after) {
                VendorResultPlace::Here => encode_block(out, block, to),
                VendorResultPlace::Behind(count) => {
                    stays = stays.and(PrefixStability::AsLongAs(at + 1 + count));
                    encode_block(out, block, to);
                }
                VendorResultPlace::Later => {
                    stays = PrefixStability::UntilTheNext;
                    encode_block(out, block, to);
                }
                VendorResultPlace::Never => {}
                VendorResultPlace::NotBehind(count) => {
                    stays = stays.and(PrefixStability::AsLongAs(at + 1 + count))
                }
            },
            block => encode_block(out, block, to),
        }
        if out.len() > before.1 {
            alone = match block {
                Block::Reasoning(_) => alone.or(Some(before.0)),
                _ => None,
            };
        }
    }
    let mut behind = message.calls().filter(|_| !in_place).peekable();
    // The vendor refuses an answer that ends with thinking, such as an answer that was cut off. Only a paused answer
    // keeps the thinking at its end.
    if let Some(alone) = alone.filter(|_| behind.peek().is_none() && !message.is_paused()) {
        drop(out.split_off(alone));
    }
    for call in behind {
        encode_call(out, call);
    }
    if out.len() == first {
        drop(out.split_off(start));
        return stays;
    }
    raw(out, "]}");
    stays
}

/// Which thinking of a message the request contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SentThinking {
    Nothing,
    /// Only thinking that this vendor has signed.
    Signed,
    All,
}

/// Whether this message has calls and no thinking.
fn is_silent_turn(message: &Message) -> bool {
    let thinks = |block: &Block| match block {
        Block::Reasoning(it) => !it.text().is_empty() || ours(WIRE, it.vendor()).is_some(),
        _ => false,
    };
    message.calls().next().is_some() && !message.blocks().iter().any(thinks)
}

/// Whether the open turn begins with thinking that the request can contain. Also true without an open turn.
fn open_turn_thinks(request: &Request<'_>, settings: &Settings) -> bool {
    let from = thinking_from(request, settings, true);
    let messages = request.messages();
    let begins = turn_start(messages);
    let mut turn = (begins..messages.len()).filter_map(|at| Some((at, messages.get(at)?)));
    let first =
        turn.find(|(_, message)| message.role() == Role::Assistant && !message.is_refused());
    first.is_none_or(|(at, message)| {
        let mut said = message.blocks().iter().filter(|block| !matches!(block, Block::ToolCall(_)));
        let first = said.find(|block| match block {
            Block::Text(text) => !text.text().trim().is_empty(),
            Block::Reasoning(reasoning) => ours(WIRE, reasoning.vendor()).is_some(),
            _ => false,
        });
        at >= from && matches!(first, Some(Block::Reasoning(_)))
    })
}

/// Checks that the settings fit the model.
///
/// # Errors
/// [`ErrorKind::Configuration`] for a thinking budget if the model has no budgets, and for a forced call if the model
/// refuses such calls.
pub(crate) fn check(options: &Options) -> Result<(), Error> {
    let Options { model, settings, takes, .. } = options;
    tool_choice::check_force(model, settings, takes)?;
    let known = takes.known_over(Models::default().find("anthropic", model));
    thinking::check(model, &known, settings)
}

/// Whether this block is a summary by the vendor.
fn is_summary(data: &VendorData) -> bool {
    data.wire() == WIRE && text_of(ObjectMembers::of(data.json()).get("type")) == SUMMARY
}

/// The position of a vendor block's result.
enum VendorResultPlace {
    /// The result is in the same message, or the block needs no result.
    Here,
    /// The result is in a later message. The value is the distance in messages: 1 is the next message.
    Behind(usize),
    /// The result is missing, but the next answer may contain the result.
    Later,
    /// The result is missing, and no later message can contain the result.
    Never,
    /// The result is missing, and the next messages show that the result cannot arrive. The value is the number of
    /// these messages.
    NotBehind(usize),
}

/// Finds the result of a vendor block. The vendor sends the result, in a later answer if this answer has paused or
/// waits for the results of calls. If the user sends a message after an answer that was cut off, the result does not
/// arrive. The vendor then refuses the block with `tool use with id .. was found without a corresponding .. block`.
///
/// Source: <https://docs.claude.com/en/docs/agents-and-tools/tool-use/server-tools>.
fn result_of(data: &VendorData, message: &Message, after: &Messages) -> VendorResultPlace {
    let members = ObjectMembers::of(data.json());
    let kind = text_of(members.get("type"));
    if data.wire() != WIRE || !kind.ends_with("_use") {
        return VendorResultPlace::Here;
    }
    let id = text_of(members.get("id"));
    let is_in = |message: &Message| {
        message.blocks().iter().any(|block| match block {
            Block::Vendor(data) => text_of(ObjectMembers::of(data.json()).get("tool_use_id")) == id,
            _ => false,
        })
    };
    if is_in(message) {
        return VendorResultPlace::Here;
    }
    if !matches!(kind.as_str(), "server_tool_use" | "mcp_tool_use") {
        return VendorResultPlace::Never;
    }
    let mut last = message;
    for (count, later) in (1..).zip(after) {
        if later.role() == Role::User {
            return VendorResultPlace::NotBehind(count);
        }
        if !later.is_refused() && is_in(later) {
            return VendorResultPlace::Behind(count);
        }
        last = later;
    }
    let goes_on = last.is_paused() || last.role() == Role::Tool || last.calls().next().is_some();
    if goes_on { VendorResultPlace::Later } else { VendorResultPlace::NotBehind(after.len()) }
}

fn encode_block(out: &mut BodyDraft, block: &Block, to: Recipient<'_>) {
    match block {
        Block::Text(text) => encode_text(out, text),
        Block::Image(media) => encode_media(out, MediaKind::Image, media, to),
        Block::Audio(media) => encode_media(out, MediaKind::Audio, media, to),
        Block::Document(media) => encode_media(out, MediaKind::Document, media, to),
        Block::ToolCall(call) => encode_call(out, call),
        Block::ToolResult(result) => encode_result(out, result, to),
        Block::Reasoning(reasoning) => encode_reasoning(out, reasoning, SentThinking::Signed),
        Block::Vendor(data) => {
            if let Some(json) = ours(WIRE, Some(data)).filter(|json| is_block(json)) {
                comma(out);
                raw(out, &json);
            }
        }
    }
}

/// Whether this JSON may be a block: an object with a type.
fn is_block(json: &str) -> bool {
    json.contains(r#""type""#) && !text_of(ObjectMembers::of(json).get("type")).is_empty()
}

/// Writes text. Leaves out white space without other text, because the vendor refuses such a block.
fn encode_text(out: &mut BodyDraft, text: &TextBlock) {
    if text.text().trim().is_empty() {
        return;
    }
    comma(out);
    raw(out, r#"{"type":"text""#);
    member(out, "text", text.text());
    let kept = ours(WIRE, text.vendor()).unwrap_or_default();
    members(out, &kept, &["type", "text"]);
    out.push(b'}');
}

/// Writes thinking without changes. Leaves out thinking without a signature, unless `sent` is `All`.
fn encode_reasoning(out: &mut BodyDraft, reasoning: &ReasoningBlock, sent: SentThinking) {
    let Some(json) = ours(WIRE, reasoning.vendor()) else {
        if sent == SentThinking::All && !reasoning.text().is_empty() {
            comma(out);
            raw(out, r#"{"type":"thinking""#);
            member(out, "thinking", reasoning.text());
            out.push(b'}');
        }
        return;
    };
    comma(out);
    if is_block(&json) {
        raw(out, &json);
        return;
    }
    raw(out, r#"{"type":"thinking""#);
    member(out, "thinking", reasoning.text());
    members(out, &json, &["type", "thinking"]);
    out.push(b'}');
}

fn encode_call(out: &mut BodyDraft, call: &ToolCall) {
    comma(out);
    raw(out, r#"{"type":"tool_use""#);
    member(out, "id", &names::id(call.id(), ID_LIMIT));
    member(out, "name", &names::tool(call.name()));
    key(out, "input");
    raw(out, &object(call.arguments()));
    let kept = ours(WIRE, call.vendor()).unwrap_or_default();
    members(out, &kept, &["type", "id", "name", "input"]);
    out.push(b'}');
}

/// Writes the tools that a search has found, in place of the text of the result.
fn encode_found(out: &mut BodyDraft, result: &ToolResult, tools: &[&str]) {
    comma(out);
    raw(out, r#"{"type":"tool_result""#);
    member(out, "tool_use_id", &names::id(result.call_id(), ID_LIMIT));
    raw(out, r#","content":["#);
    for tool in tools {
        comma(out);
        raw(out, r#"{"type":"tool_reference""#);
        member(out, "tool_name", &names::tool(tool));
        out.push(b'}');
    }
    raw(out, "]}");
}

fn encode_result(out: &mut BodyDraft, result: &ToolResult, to: Recipient<'_>) {
    comma(out);
    raw(out, r#"{"type":"tool_result""#);
    member(out, "tool_use_id", &names::id(result.call_id(), ID_LIMIT));
    raw(out, r#","content":["#);
    let first = out.len();
    for part in result.content() {
        match (part.media(), to.words(part)) {
            (_, Some(words)) if result.is_error() => text_part(out, "text", &words),
            // The protocol accepts only text in the result of a failed call.
            (Some((kind, media)), None) if result.is_error() => {
                let why = "the call went wrong, and of such a call this protocol takes words alone";
                text_part(out, "text", &line(kind, media, why));
            }
            (Some((kind, media)), _) => encode_media(out, kind, media, to),
            (None, words) => text_part(out, "text", &words.unwrap_or_default()),
        }
    }
    if out.len() == first {
        // The vendor refuses an empty list.
        text_part(out, "text", "(no output)");
    }
    out.push(b']');
    if result.is_error() {
        raw(out, r#","is_error":true"#);
    }
    out.push(b'}');
}

/// Writes a file, or the text that replaces the file.
fn encode_media(out: &mut BodyDraft, kind: MediaKind, media: &Media, to: Recipient<'_>) {
    let (kind, media) = match to.part_or_line(kind, media) {
        Err(words) => return text_part(out, "text", &words),
        Ok(FilePart::Image(image)) => ("image", image),
        Ok(FilePart::Document(document)) => ("document", document),
        Ok(FilePart::Text(media)) if to.takes.documents() => ("document", media),
        Ok(FilePart::Text(media)) => {
            return text_part(out, "text", &media.to_text().unwrap_or_default());
        }
        // This protocol has no audio.
        Ok(FilePart::Audio { .. }) => return,
    };
    comma(out);
    raw(out, r#"{"type":"#);
    text(out, kind);
    raw(out, r#","source":{"type":"#);
    match media.source() {
        MediaSource::Data { mime, data } => {
            raw(out, r#""base64""#);
            member(out, "media_type", mime);
            member(out, "data", data);
        }
        MediaSource::Text { mime: _, text } => {
            // The vendor accepts every kind of text as `text/plain`.
            raw(out, r#""text","media_type":"text/plain""#);
            member(out, "data", text);
        }
        MediaSource::Url(url) => {
            raw(out, r#""url""#);
            member(out, "url", url);
        }
        MediaSource::File { id, .. } => {
            raw(out, r#""file""#);
            member(out, "file_id", id);
        }
    }
    out.push(b'}');
    let title = media.name().or(media.uri()).filter(|title| !title.trim().is_empty());
    if let Some(title) = title.filter(|_| kind == "document") {
        member(out, "title", &in_line(&beginning(title, TITLE)));
    }
    out.push(b'}');
}

/// The maximum length of a document's title in bytes. The vendor accepts 500 characters.
const TITLE: usize = 400;
