//! Encodes a request of the Responses API from the transcript.
//!
//! The vendor stores nothing, so each request repeats the whole conversation, including the vendor's own items. The
//! bytes of a message depend only on the message.

use harness_schema::StrictForm;

use super::{
    WIRE,
    item::{PICTURE, wanted},
    summary,
    tools::{LoadedTools, addition, fewer, tools},
};
use crate::wire::{
    Encoded,
    answer::{self, NAME, OutputPlan, SchemaEnforcement, ServerSupport},
    cache, effort,
    encoded::{MessageEncoding, PrefixStability, conversation, thinking_from},
    json::{
        JsonBody, comma, data_url, key, member, members, object, ours, put, raw, text, text_part,
        texts,
    },
    media::{CarriedFiles, FilePart, ModelCapabilities, Recipient, file_name},
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
        ToolCall, ToolResult, VendorData, without_lone_surrogates,
    },
    models::{Models, SchemaAnswers},
    provider::{BodyDraft, Effort, OutputMode, ReasoningBinding, Request, Settings, ToolChoice},
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
    /// Whether the output of a tool search contains the definitions of the found tools. The definitions then come after
    /// the messages before the search, so the prompt cache stays valid. With `false`, the definitions come at the end
    /// of the request's list of tools.
    ///
    /// Source: <https://developers.openai.com/api/docs/guides/tools-tool-search>.
    pub defers_tools: bool,
    /// Whether the model's reasoning becomes invalid if an earlier message changes: see
    /// [`Model::binds_reasoning`](harness_core::models::Model::binds_reasoning).
    pub binds_reasoning: bool,
    /// Whether the server accepts changed instructions and tools after the existing messages.
    pub appends_changes: bool,
}

impl Options {
    /// Options for a model of OpenAI, with the default settings.
    pub fn new(model: impl Into<String>) -> Self {
        let model = model.into();
        let models = Models::default();
        let takes = ModelCapabilities::of("openai", &*model, &models);
        let known = models.find("openai", &model);
        let defers_tools = known.deferred_tools.unwrap_or(false);
        let binds_reasoning = known.binds_reasoning.unwrap_or(false);
        let (settings, refused) = Default::default();
        Self {
            model,
            settings,
            takes,
            refused,
            answer_way: None,
            defers_tools,
            binds_reasoning,
            appends_changes: known.appends_changes.unwrap_or(binds_reasoning),
        }
    }
}

/// The files that this protocol can carry. Sources: <https://platform.openai.com/docs/guides/pdf-files> and
/// <https://platform.openai.com/docs/guides/images-vision> (50 MB a file).
pub(super) const PLACES: CarriedFiles = CarriedFiles {
    audio: false,
    other_pictures: false,
    picture_files: true,
    document_urls: true,
    office: true,
    picture_size: 50 * 1024 * 1024,
    size: 50 * 1024 * 1024,
};

/// The maximum length of an id, in bytes.
const ID_LIMIT: usize = 64;

/// Encodes the body of a request.
///
/// # Errors
/// - [`ErrorKind::Configuration`]: `Settings::stop` is not empty, or `extra` contains a member that the library makes
///   from the conversation.
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
    let Options { model, settings, takes, refused, defers_tools, .. } = options;
    let Settings {
        max_tokens: _,
        temperature,
        top_p,
        stop,
        effort,
        earlier_thinking: _,
        thinking_text: _,
        tool_choice,
        parallel_calls,
        strict_tools,
        prompt_cache: _,
        cache_key: _,
        user,
        extra,
    } = settings;
    if !stop.is_empty() {
        return Err(Error::new(
            ErrorKind::Configuration,
            "this protocol has no stop texts: leave `Settings::stop` empty, or use a provider \
             that speaks Chat Completions",
        ));
    }
    let plan = OutputPlan::of(request, settings, &server(options));
    let request = &*answer::with_tool(plan.as_ref(), request);
    tool_choice::check(request, settings)?;
    check(settings)?;
    let mut body = JsonBody::new(extra, &["input", "stream"], *refused)?;
    body.value("model", model);
    body.value("stream", &true);
    // The vendor must not store the answer. Later requests contain the encrypted thinking instead.
    body.optional(OptionalMember::Store, &|out| raw(out, "false"));
    // The vendor refuses `include` with encrypted thinking for a model that does not think.
    let thinks = takes.thinks();
    if thinks || extra.contains_key("include") {
        body.optional(OptionalMember::Include, &|out| {
            raw(out, r#"["reasoning.encrypted_content"]"#);
        });
    }
    body.maybe("max_output_tokens", request.max_tokens(settings, None).as_ref());
    body.maybe("temperature", temperature.as_ref());
    body.maybe("top_p", top_p.as_ref());
    if let Some(effort) = effort.filter(|_| thinks).map(|effort| takes.effort(effort)) {
        // The vendor sends a summary of the thinking only on request.
        let config = match effort {
            Effort::Off => serde_json::json!({ "effort": "none" }),
            effort if body.may_send(OptionalMember::ReasoningSummary) => {
                serde_json::json!({ "effort": effort::level(effort), "summary": "auto" })
            }
            effort => serde_json::json!({ "effort": effort::level(effort) }),
        };
        body.value("reasoning", &config);
    }
    if let Some((schema, strict)) = plan.as_ref().and_then(|plan| plan.format.as_ref()) {
        let format = serde_json::json!({
            "type": "json_schema",
            "name": NAME,
            "schema": schema,
            "strict": strict,
        });
        body.value("text", &serde_json::json!({ "format": format }));
    }
    body.maybe("safety_identifier", user.as_ref());
    cache::write(&mut body, request, settings, &options.takes);
    let system = request.system().filter(|system| !system.trim().is_empty());
    let mut leading = BodyDraft::default();
    match system {
        // Only a part of a message can have a cache mark, so the request contains the system prompt as a developer
        // message.
        Some(system)
            if cache::marks_system(settings, takes, *refused)
                && body.may_send(OptionalMember::CacheBreakpoint) =>
        {
            raw(&mut leading, r#"{"type":"message","role":"developer","content":["#);
            cache::marked(&mut leading, "input_text", system);
            raw(&mut leading, "]}");
        }
        system => body.maybe("instructions", system),
    }
    let strict = strict_tools.unwrap_or(false);
    let defers = *defers_tools && !refused.has(OptionalMember::DeferLoading);
    let loaded = LoadedTools::of(request, strict, defers, &tool_choice::named(settings));
    if loaded.search.is_some() {
        body.may_send(OptionalMember::DeferLoading);
    }
    let adds_tools = request.additions().iter().any(|it| !it.tools.is_empty());
    if !request.tools().is_empty() || adds_tools {
        // If the program requires strict tools, the request always contains `strict`. Otherwise `strict` is an optional
        // member.
        let says_strict = strict || body.may_send(OptionalMember::Strict);
        body.tools(|out| tools(out, request, (strict, says_strict), &loaded));
        let forced = plan.as_ref().and_then(OutputPlan::forced);
        let has_more = extra.contains_key("tools");
        let fewer = |wanted: &ToolChoice| fewer(request, &loaded, has_more, wanted);
        let own = tool_choice.as_ref();
        let own = own.or_else(|| fewer(&ToolChoice::Auto).map(|_| &ToolChoice::Auto));
        let choice = |wanted: &ToolChoice| match wanted {
            // Only a tool in the list can be named.
            ToolChoice::Tool(name) if prefix::is_added(request, name) => "required".into(),
            wanted => fewer(wanted).unwrap_or_else(|| choice(wanted)),
        };
        tool_choice::write(&mut body, forced, (own, *parallel_calls), choice);
    } else {
        body.tools(|_| ());
    }
    let thinking_from = thinking_from(request, settings, false);
    let is = format!(
        "{WIRE} {thinking_from} {}{}{}{}",
        leading.len() == 0,
        loaded.form(),
        prefix::form(request, strict),
        answer::form(plan.as_ref())
    );
    let form = MessageEncoding { is, mark: None };
    let to = Recipient { takes, places: &PLACES };
    conversation(body, "input", leading.ready(), form, request, to, &|out, before, message| {
        let message = &answer::sent_form(plan.as_ref(), before.len(), message);
        encode_message(out, before, message, before.len() >= thinking_from, &loaded, to);
        if let Some(added) = prefix::behind(request, message) {
            addition(out, added, strict, !refused.has(OptionalMember::Strict));
        }
        PrefixStability::Always
    })
}

/// The messages and settings that the reasoning in this request depends on. One of these settings is the format of an
/// answer, which no later item of a conversation can change: in the vendor's clients, the item `configuration_update`
/// sets only an effort.
///
/// Source: <https://developers.openai.com/api/docs/guides/keep-prefix-unchanged>.
pub(crate) fn binding(request: &Request<'_>, options: &Options) -> ReasoningBinding {
    if !options.binds_reasoning {
        return ReasoningBinding::default();
    }
    prefix::binding(request, &options.settings, &server(options), true)
        .with_wire(WIRE)
        .with_appended_changes(options.appends_changes)
        .with_deferred_tools(
            options.defers_tools && !options.refused.has(OptionalMember::DeferLoading),
        )
}

/// What is known about the server's modes for an answer with a schema.
fn server(options: &Options) -> ServerSupport {
    let known = options.takes.schema_answers();
    ServerSupport {
        mode: known.unwrap_or(SchemaAnswers::Always),
        form: StrictForm::OpenAI,
        takes_any: true,
        in_words: known.is_none(),
        forced: if known.is_none() {
            SchemaEnforcement::ByCall
        } else {
            SchemaEnforcement::AsOthers
        },
        way: options.answer_way,
    }
}

/// Checks that the settings fit the protocol.
///
/// # Errors
/// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) for a thinking budget, because this
/// protocol has no budgets.
pub(crate) fn check(settings: &Settings) -> Result<(), Error> {
    effort::check(settings, false)
}

fn choice(choice: &ToolChoice) -> serde_json::Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Forbidden => "none".into(),
        ToolChoice::Tool(name) => serde_json::json!({ "type": "function", "name": name }),
    }
}

/// Writes a message as one or several items. Each thinking item stays before the item that it precedes in the answer.
pub(super) fn encode_message(
    out: &mut BodyDraft,
    before: &Messages,
    message: &Message,
    thinking: bool,
    loaded: &LoadedTools<'_>,
    to: Recipient<'_>,
) {
    // If the reasoning of this message is left out, its items are sent without ids, as for all such messages.
    let is_unsigned =
        |block: &Block| matches!(block, Block::Reasoning(it) if it.vendor().is_none());
    let thinking = thinking && !message.blocks().iter().any(is_unsigned);
    match message.role() {
        Role::User => encode_user(out, message, to),
        Role::Tool => {
            // Results have the same order as their calls.
            let mut calls = before.last().into_iter().flat_map(Message::calls).peekable();
            for result in message.results() {
                let call = calls.next_if(|call| call.id() == result.call_id());
                match loaded.by(result.call_id()).as_slice() {
                    [] => encode_result(out, result, call.is_some_and(is_custom), to),
                    tools => encode_loaded(out, result, tools),
                }
            }
        }
        // Leaves out a message that the vendor's filter cut off, because the filter would refuse the message again. The
        // model's own refusal is an ordinary answer.
        Role::Assistant if message.is_refused() && !has_refusal(message) => {}
        Role::Assistant if is_foreign(message) => {
            // Servers that merge items accept calls only directly after each other.
            let is_call = |block: &&Block| matches!(block, Block::ToolCall(_));
            let blocks = message.blocks().iter();
            let others = blocks.clone().filter(|block| !is_call(block));
            let blocks = others.chain(blocks.filter(is_call));
            blocks.for_each(|block| encode_block(out, block, true, loaded));
        }
        // The vendor's own items keep the order of the answer.
        Role::Assistant => encode_items(out, message, thinking, loaded),
    }
}

/// Writes the vendor's own items. After an item that the program had to execute, adds an output: the item was not
/// executed. If the vendor has no such output, leaves out the item. Also leaves out the thinking before this item,
/// because the vendor refuses thinking without the next item.
fn encode_items(out: &mut BodyDraft, message: &Message, thinking: bool, loaded: &LoadedTools<'_>) {
    let answered: Vec<String> = items(message)
        .filter(|members| wanted(members).is_none())
        .map(|members| text_of(members.get("call_id")))
        .collect();
    let is_open = |block: &Block| {
        let Block::Vendor(data) = block else { return None };
        let data = ours(WIRE, Some(data))?;
        wanted(&ObjectMembers::of(&data)).filter(|(_, id)| !answered.contains(id))
    };
    let mut picture = None;
    // The offset of thinking at the end of the message so far. The vendor refuses an answer that ends with thinking.
    let mut alone = None;
    let mut blocks = message.blocks().iter().peekable();
    while let Some(block) = blocks.next() {
        let before = (out.mark(), out.len());
        match block {
            Block::Image(image) => picture = Some(image),
            Block::Vendor(data) if is_picture(data) => {
                encode_picture(out, data, picture.take());
                if out.len() > before.1 {
                    alone = None;
                }
                continue;
            }
            _ => {}
        }
        let next = blocks.peek().and_then(|next| is_open(next));
        match (block, is_open(block)) {
            (Block::Reasoning(_), _) if !thinking => {}
            (Block::Reasoning(_), _)
                if next.is_some_and(|(kind, id)| answer(&kind, &id).is_none()) => {}
            (_, Some((kind, id))) => {
                if let Some(answer) = answer(&kind, &id) {
                    encode_block(out, block, thinking, loaded);
                    comma(out);
                    put(out, &answer);
                }
            }
            (_, None) => encode_block(out, block, thinking, loaded),
        }
        if out.len() > before.1 {
            alone = match block {
                Block::Reasoning(_) => alone.or(Some(before.0)),
                _ => None,
            };
        }
    }
    if let Some(alone) = alone {
        drop(out.split_off(alone));
    }
}

/// Whether this vendor data is an item whose generated picture is in another block of the message.
fn is_picture(data: &VendorData) -> bool {
    let members = ObjectMembers::of(data.json());
    data.wire() == WIRE
        && text_of(members.get("type")) == PICTURE
        && members.get("result").is_none_or(|result| result == "null")
}

/// Writes the item of a generated picture, with the picture.
fn encode_picture(out: &mut BodyDraft, data: &VendorData, picture: Option<&Media>) {
    let data_of = picture.and_then(Media::base64);
    let (Some(kept), Some(data)) = (ours(WIRE, Some(data)), data_of) else { return };
    comma(out);
    out.push(b'{');
    members(out, &kept, &["result"]);
    member(out, "result", data);
    out.push(b'}');
}

/// The vendor's own items in a message.
fn items(message: &Message) -> impl Iterator<Item = ObjectMembers<'_>> {
    message.blocks().iter().filter_map(|block| match block {
        Block::Vendor(data) if data.wire() == WIRE => Some(ObjectMembers::of(data.json())),
        _ => None,
    })
}

/// The output that tells the model that this item was not executed; `None` if the vendor has no output for this kind of
/// item.
fn answer(kind: &str, id: &str) -> Option<serde_json::Value> {
    const WHY: &str = "This was not executed: the program cannot do it.";
    Some(match kind {
        "shell_call" => {
            let outcome = serde_json::json!({ "type": "exit", "exit_code": 1 });
            let output = serde_json::json!({ "stdout": "", "stderr": WHY, "outcome": outcome });
            serde_json::json!({ "type": "shell_call_output", "call_id": id, "output": [output] })
        }
        "apply_patch_call" => serde_json::json!({
            "type": "apply_patch_call_output", "call_id": id, "status": "failed", "output": WHY,
        }),
        "mcp_approval_request" => serde_json::json!({
            "type": "mcp_approval_response", "approval_request_id": id, "approve": false,
            "reason": WHY,
        }),
        _ => return None,
    })
}

/// Whether no part of the message comes from this vendor.
fn is_foreign(message: &Message) -> bool {
    let ours = |data: Option<&VendorData>| data.is_some_and(|data| data.wire() == WIRE);
    !message.blocks().iter().any(|block| match block {
        Block::Text(text) => ours(text.vendor()),
        Block::ToolCall(call) => ours(call.vendor()),
        Block::Reasoning(reasoning) => ours(reasoning.vendor()),
        Block::Vendor(data) => ours(Some(data)),
        Block::Image(_) | Block::Audio(_) | Block::Document(_) | Block::ToolResult(_) => false,
    })
}

/// Whether the message contains a refusal that the model itself wrote.
fn has_refusal(message: &Message) -> bool {
    message.blocks().iter().any(|block| match block {
        Block::Text(text) => ours(WIRE, text.vendor()).is_some_and(|kept| is_refusal(&kept)),
        _ => false,
    })
}

/// Whether the text with this vendor data is the model's own refusal.
fn is_refusal(kept: &str) -> bool {
    ObjectMembers::of(kept).get("refusal").is_some()
}

/// Writes a block. Without `thinking`, the request does not contain this message's thinking, and the items get no ids.
/// The vendor refuses an item with an id if the thinking before the item is missing.
fn encode_block(out: &mut BodyDraft, block: &Block, thinking: bool, loaded: &LoadedTools<'_>) {
    match block {
        Block::Text(text) => encode_text(out, text, thinking),
        Block::ToolCall(call) if !loaded.by(call.id()).is_empty() => {
            encode_search(out, call, thinking);
        }
        Block::ToolCall(call) => encode_call(out, call, thinking),
        Block::Reasoning(reasoning) => encode_reasoning(out, reasoning),
        Block::Vendor(data) => {
            let json = ours(WIRE, Some(data)).unwrap_or_default();
            if let Some(items) = summary::items(&json) {
                items.iter().for_each(|item| {
                    comma(out);
                    raw(out, item);
                });
                return;
            }
            let kind = text_of(ObjectMembers::of(&json).get("type"));
            // Items of these types normally have their own kinds of blocks. Such an item in vendor data is left out,
            // because the request would contain no result for the item.
            let is_own = ["function_call", "custom_tool_call", "reasoning", "message"];
            let is_own = is_own.contains(&kind.trim_end_matches("_output"));
            if !kind.is_empty() && !is_own {
                comma(out);
                raw(out, &json);
            }
        }
        // A message of the model contains no files and no results in requests.
        Block::Image(_) | Block::Audio(_) | Block::Document(_) | Block::ToolResult(_) => {}
    }
}

fn encode_user(out: &mut BodyDraft, message: &Message, to: Recipient<'_>) {
    let start = out.mark();
    comma(out);
    raw(out, r#"{"type":"message","role":"user","content":["#);
    let first = out.len();
    for block in message.blocks() {
        match block {
            Block::Text(text) => text_part(out, "input_text", text.text()),
            Block::Image(media) => encode_media(out, MediaKind::Image, media, to),
            Block::Audio(media) => encode_media(out, MediaKind::Audio, media, to),
            Block::Document(media) => encode_media(out, MediaKind::Document, media, to),
            Block::ToolCall(_) | Block::ToolResult(_) | Block::Reasoning(_) | Block::Vendor(_) => {}
        }
    }
    if out.len() == first {
        drop(out.split_off(start));
        return;
    }
    raw(out, "]}");
}

/// Writes a text of the model, with the vendor's phase of the text. With `with_id`, also writes the vendor's id.
fn encode_text(out: &mut BodyDraft, text: &TextBlock, with_id: bool) {
    if text.text().trim().is_empty() {
        return;
    }
    let kept = ours(WIRE, text.vendor()).unwrap_or_default();
    let members = ObjectMembers::of(&kept);
    let phase = members.get("phase").filter(|phase| *phase != "null");
    let id = text_of(members.get("id"));
    comma(out);
    if with_id && id.starts_with("msg") && id.len() <= ID_LIMIT {
        raw(out, r#"{"type":"message","role":"assistant","status":"completed""#);
        member(out, "id", &id);
        if is_refusal(&kept) {
            raw(out, r#","content":[{"type":"refusal""#);
            member(out, "refusal", text.text());
        } else {
            raw(out, r#","content":[{"type":"output_text""#);
            key(out, "annotations");
            raw(out, members.get("annotations").unwrap_or("[]"));
            member(out, "text", text.text());
        }
        raw(out, "}]");
    } else {
        raw(out, r#"{"type":"message","role":"assistant""#);
        member(out, "content", text.text());
    }
    if let Some(phase) = phase {
        key(out, "phase");
        raw(out, phase);
    }
    out.push(b'}');
}

/// Writes encrypted thinking. Leaves out other thinking, because the vendor stores nothing and cannot find the thinking
/// by its id.
fn encode_reasoning(out: &mut BodyDraft, reasoning: &ReasoningBlock) {
    let Some(json) = ours(WIRE, reasoning.vendor()) else { return };
    let members = ObjectMembers::of(&json);
    if text_of(members.get("encrypted_content")).is_empty() {
        return;
    }
    comma(out);
    raw(out, r#"{"type":"reasoning""#);
    for (name, value) in &members.0 {
        let is_taken = match &**name {
            // The vendor does not accept the readable content as input.
            "type" | "content" | "status" | "summary" => false,
            "id" => value.get().starts_with('"'),
            _ => true,
        };
        if is_taken {
            key(out, name);
            raw(out, value.get());
        }
    }
    key(out, "summary");
    raw(out, members.get("summary").filter(|list| list.starts_with('[')).unwrap_or("[]"));
    out.push(b'}');
}

fn encode_call(out: &mut BodyDraft, call: &ToolCall, with_id: bool) {
    let kept = ours(WIRE, call.vendor()).unwrap_or_default();
    let members = ObjectMembers::of(&kept);
    let custom = is_custom(call);
    comma(out);
    raw(out, if custom { r#"{"type":"custom_tool_call""# } else { r#"{"type":"function_call""# });
    member(out, "call_id", &names::id(call.id(), ID_LIMIT));
    member(out, "name", &names::tool(call.name()));
    if custom {
        member(out, "input", &text_of(Some(&without_lone_surrogates(call.arguments()))));
    } else {
        // In the protocol, the arguments are any text, but some servers parse this text as JSON.
        member(out, "arguments", &object(call.arguments()));
    }
    for (name, value) in &members.0 {
        let id = text_of(Some(value.get()));
        let known = matches!(&**name, "type" | "call_id" | "name" | "arguments" | "input");
        // The vendor refuses ids with another prefix.
        let own = with_id && (id.starts_with("fc") || custom && id.starts_with("ctc"));
        let foreign = name == "id" && !own;
        if !known && !foreign && value.get() != "null" {
            key(out, name);
            raw(out, value.get());
        }
    }
    out.push(b'}');
}

/// Writes a call of the tool search. The output of this call will contain the found tools.
fn encode_search(out: &mut BodyDraft, call: &ToolCall, with_id: bool) {
    let kept = ours(WIRE, call.vendor()).unwrap_or_default();
    let id = text_of(ObjectMembers::of(&kept).get("id"));
    comma(out);
    raw(out, r#"{"type":"tool_search_call""#);
    if with_id && id.starts_with("tsc") {
        member(out, "id", &id);
    }
    member(out, "call_id", &names::id(call.id(), ID_LIMIT));
    raw(out, r#","execution":"client","status":"completed""#);
    key(out, "arguments");
    raw(out, &object(call.arguments()));
    out.push(b'}');
}

/// Writes the output of a tool search: the definitions of the found tools.
fn encode_loaded(out: &mut BodyDraft, result: &ToolResult, tools: &[&str]) {
    comma(out);
    raw(out, r#"{"type":"tool_search_output""#);
    member(out, "call_id", &names::id(result.call_id(), ID_LIMIT));
    raw(out, r#","execution":"client","status":"completed","tools":["#);
    for tool in tools {
        comma(out);
        raw(out, tool);
    }
    raw(out, "]}");
}

/// Whether the input of the call is free text. The result of such a call needs a separate item type.
fn is_custom(call: &ToolCall) -> bool {
    let kept = ours(WIRE, call.vendor()).unwrap_or_default();
    text_of(ObjectMembers::of(&kept).get("type")) == "custom_tool_call"
}

fn encode_result(out: &mut BodyDraft, result: &ToolResult, custom: bool, to: Recipient<'_>) {
    comma(out);
    let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
    out.push(b'{');
    key(out, "type");
    text(out, kind);
    member(out, "call_id", &names::id(result.call_id(), ID_LIMIT));
    key(out, "output");
    if to.shown(result.content()).next().is_none() {
        let words = to.text(result);
        // Some servers with this protocol refuse an empty text or white space.
        match words.iter().all(|text| text.trim().is_empty()) {
            true => text(out, "(no output)"),
            false => texts(out, words.iter().map(|text| &**text), "\n"),
        }
        out.push(b'}');
        return;
    }
    out.push(b'[');
    for part in result.content() {
        match (part.media(), to.words(part)) {
            (Some((kind, media)), None) => encode_media(out, kind, media, to),
            (_, words) => text_part(out, "input_text", &words.unwrap_or_default()),
        }
    }
    raw(out, "]}");
}

/// Writes a file, or the text that replaces the file.
fn encode_media(out: &mut BodyDraft, kind: MediaKind, media: &Media, to: Recipient<'_>) {
    let (address, media) = match to.part_or_line(kind, media) {
        Err(words) => return text_part(out, "input_text", &words),
        Ok(FilePart::Text(media)) => {
            return text_part(out, "input_text", &media.to_text().unwrap_or_default());
        }
        Ok(FilePart::Image(media)) => {
            comma(out);
            raw(out, r#"{"type":"input_image","detail":"auto""#);
            ("image_url", media)
        }
        Ok(FilePart::Document(media)) => {
            comma(out);
            raw(out, r#"{"type":"input_file""#);
            ("file_url", media)
        }
        // This protocol has no audio.
        Ok(FilePart::Audio { .. }) => return,
    };
    match media.source() {
        MediaSource::Url(url) => member(out, address, url),
        MediaSource::File { id, .. } => member(out, "file_id", id),
        MediaSource::Data { mime, data } if address == "file_url" => {
            // The vendor requires a file name.
            member(out, "filename", &file_name(&media));
            key(out, "file_data");
            data_url(out, mime, data);
        }
        MediaSource::Data { mime, data } => {
            key(out, address);
            data_url(out, mime, data);
        }
        // The function has already written text files as text.
        MediaSource::Text { .. } => {}
    }
    out.push(b'}');
}
