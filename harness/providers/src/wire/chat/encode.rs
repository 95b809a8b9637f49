//! Encodes a request of Chat Completions from the transcript. The bytes of a message depend only on the message.
//! `Options` describe the differences between servers.

use std::borrow::Cow;

use harness_schema::{EncodedSchema, SchemaForm, StrictForm};

use super::{Origin, WIRE, extra, thought::FIELDS, turns};
use crate::wire::{
    Encoded,
    answer::{self, NAME, OutputPlan, SchemaEnforcement, ServerSupport},
    cache, effort,
    encoded::{MessageEncoding, PrefixStability, conversation, thinking_from},
    json::{
        JsonBody, comma, data_url, key, member, object, ours, raw, room_for, text, text_part, texts,
    },
    media::{CarriedFiles, FilePart, ModelCapabilities, Recipient, file_name},
    names,
    optional::{OptionalMember, RefusedMembers},
    tolerant::{ObjectMembers, text_of},
    tool_choice,
};
use harness_core::{
    error::Error,
    message::{Block, MediaSource, Message, Messages, Role, ToolCall, ToolResult},
    models::{Models, SchemaAnswers, Thinking},
    provider::{BodyDraft, Effort, OutputMode, Request, Settings, ToolChoice},
};

/// How requests are encoded on this wire.
#[derive(Clone, Debug)]
pub struct Options {
    /// The id of the model.
    pub model: String,
    /// The settings of every request.
    pub settings: Settings,
    /// How requests contain the model's earlier thinking.
    pub thought: ThoughtReplay,
    /// The call ids that the server accepts.
    pub call_ids: CallIds,
    /// Whether the token limit has the name `max_completion_tokens`, as OpenAI requires, or else `max_tokens`.
    pub max_completion_tokens: bool,
    /// Whether requests ask the server to report token counts.
    pub ask_for_usage: bool,
    /// Whether the server requires alternating turns, as Mistral does. If so, requests contain a short extra message,
    /// for example between a result and a user message. The transcript is not changed.
    pub strict_turns: bool,
    /// The server and its model. A request contains a server's data about a call only for the same server and model.
    pub origin: Origin,
    /// The server may require a signature in the first call of each turn. This is the member of `extra_content` with
    /// the signature, such as `google`; `None` for other servers. Calls of another model get a documented value, which
    /// the server does not check.
    pub signed_calls: Option<Cow<'static, str>>,
    /// The form of tool schemas in strict mode.
    pub strict_form: StrictForm,
    /// The kinds of files and the options that the model accepts.
    pub takes: ModelCapabilities,
    /// The optional members that the server has refused, and that requests leave out.
    pub refused: RefusedMembers,
    /// The output mode of requests with a schema for the answer. `None`: the library chooses the mode for the vendor,
    /// the model and the schema.
    pub answer_way: Option<OutputMode>,
    /// Whether the server accepts a token [budget](Effort::Tokens) for thinking, as `reasoning.max_tokens`.
    ///
    /// Source: <https://openrouter.ai/docs/use-cases/reasoning-tokens>.
    pub thinking_budget: bool,
}

/// The files that this protocol can carry. Sources: <https://platform.openai.com/docs/api-reference/chat/create>
/// (documents by their bytes or their id, audio by its bytes) and <https://platform.openai.com/docs/guides/pdf-files>
/// (50 MB a file).
pub(super) const PLACES: CarriedFiles = CarriedFiles {
    audio: true,
    other_pictures: true,
    picture_files: false,
    document_urls: false,
    office: false,
    picture_size: 50 * 1024 * 1024,
    size: 50 * 1024 * 1024,
};

impl Options {
    /// Options that most servers accept.
    pub fn new(model: impl Into<String>) -> Self {
        let model = model.into();
        let takes = ModelCapabilities::of("", &*model, &Models::default());
        Self {
            takes,
            model,
            settings: Settings::default(),
            thought: ThoughtReplay::SameField,
            call_ids: CallIds::Plain,
            max_completion_tokens: false,
            ask_for_usage: true,
            strict_turns: false,
            origin: Origin::default(),
            signed_calls: None,
            strict_form: StrictForm::Common,
            refused: RefusedMembers::default(),
            answer_way: None,
            thinking_budget: false,
        }
    }
}

/// How requests contain the model's earlier thinking. Some servers refuse thinking in requests, and other servers
/// require thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThoughtReplay {
    /// Requests contain no thinking.
    Off,
    /// Requests contain thinking in the same field as the answer.
    #[default]
    SameField,
    /// Requests contain thinking in the field with this name. Each turn with calls contains the field, even without
    /// thinking.
    Field(Cow<'static, str>),
    /// Requests contain the unchanged `reasoning_details`.
    Details,
}

/// The call ids that a server accepts. The library replaces other ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallIds {
    /// At most 64 letters, digits, `_` and `-`.
    #[default]
    Plain,
    /// Exactly nine letters and digits, as Mistral requires.
    Nine,
}

/// Encodes the body of a request.
///
/// # Errors
/// - [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration): `extra` contains a member that the
///   library makes from the conversation.
/// - [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript): no message of the conversation can be sent.
/// - [`ErrorKind::Content`](harness_core::error::ErrorKind::Content): the user's last message contains a file that this
///   recipient does not accept.
pub fn encode(request: &Request<'_>, options: &Options) -> Result<Vec<u8>, Error> {
    encode_pieces(request, options).map(Encoded::into_bytes)
}

/// Encodes like [`encode`], but returns pieces, and reuses the bytes of messages that an earlier request has
/// [sent](Request::with_sent).
///
/// # Errors
/// The same as [`encode`].
pub fn encode_pieces(request: &Request<'_>, options: &Options) -> Result<Encoded, Error> {
    let Options { model, settings, max_completion_tokens, ask_for_usage, refused, .. } = options;
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
    let plan = OutputPlan::of(request, settings, &server(options));
    let request = &*answer::with_tool(plan.as_ref(), request);
    tool_choice::check(request, settings)?;
    check(options)?;
    let mut body = JsonBody::new(extra, &["messages", "stream"], *refused)?;
    body.value("model", model);
    body.value("stream", &true);
    if *ask_for_usage {
        body.optional(OptionalMember::StreamOptions, &|out| {
            raw(out, r#"{"include_usage":true}"#);
        });
    }
    if let Some(limit) = request.max_tokens(settings, None) {
        // If the server has refused one name of the limit, the request contains the other name.
        let is_own =
            ["max_tokens", "max_completion_tokens"].iter().any(|it| extra.contains_key(*it));
        let is_first = is_own || body.may_send(OptionalMember::LimitName);
        let is_new = *max_completion_tokens == is_first;
        body.value(if is_new { "max_completion_tokens" } else { "max_tokens" }, &limit);
    }
    body.maybe("temperature", temperature.as_ref());
    body.maybe("top_p", top_p.as_ref());
    if !stop.is_empty() {
        body.value("stop", stop);
    }
    let thinks = || Models::default().find("", model).thinking != Some(Thinking::Never);
    match effort {
        Some(Effort::Tokens(tokens)) => {
            body.value("reasoning", &serde_json::json!({ "max_tokens": tokens }));
        }
        _ => {
            let effort = effort.filter(|_| thinks()).map(|effort| options.takes.effort(effort));
            body.maybe("reasoning_effort", effort.map(effort::level));
        }
    }
    if let Some((schema, strict)) = plan.as_ref().and_then(|plan| plan.format.as_ref()) {
        let schema = serde_json::json!({ "name": NAME, "schema": schema, "strict": strict });
        let format = serde_json::json!({ "type": "json_schema", "json_schema": schema });
        body.value("response_format", &format);
    }
    body.maybe("user", user.as_ref());
    cache::write(&mut body, request, settings, &options.takes);
    let strict = strict_tools.unwrap_or(false);
    let forced = plan.as_ref().and_then(OutputPlan::forced);
    // Keywords that the vendor refuses are left out, with and without strict mode.
    let told = match (options.strict_form, strict) {
        // With a forced call, length limits in the schema keep the answer short.
        (form, _) if forced.is_some() => SchemaForm::Plain(form),
        (form, true) if form.is_held() => SchemaForm::Held(form),
        (form, _) if form.is_held() => SchemaForm::Plain(form),
        (form, _) => SchemaForm::Readable(form),
    };
    body.tools(|out| tools(out, request, told));
    if !request.tools().is_empty() {
        tool_choice::write(&mut body, forced, (tool_choice.as_ref(), *parallel_calls), choice);
    }
    let mut leading = BodyDraft::default();
    if let Some(system) = request.system().filter(|system| !system.trim().is_empty()) {
        raw(&mut leading, r#"{"role":"system""#);
        if cache::marks_system(settings, &options.takes, *refused)
            && body.may_send(OptionalMember::CacheBreakpoint)
        {
            raw(&mut leading, r#","content":["#);
            cache::marked(&mut leading, "text", system);
            raw(&mut leading, "]}");
        } else {
            member(&mut leading, "content", system);
            leading.push(b'}');
        }
    }
    let Options { thought, call_ids, strict_turns, origin, signed_calls, takes, .. } = options;
    let to = Recipient { takes, places: &PLACES };
    let thinking_from = thinking_from(request, settings, false);
    let is = format!(
        "{WIRE} {thinking_from} {} {thought:?} {call_ids:?} {strict_turns} {origin:?} {signed_calls:?}{}",
        leading.len() == 0,
        answer::form(plan.as_ref()),
    );
    let form = MessageEncoding { is, mark: None };
    conversation(body, "messages", leading.ready(), form, request, to, &|out, before, message| {
        // With `Field`, the server refuses a turn without the thinking field.
        let thinks = before.len() >= thinking_from || matches!(thought, ThoughtReplay::Field(_));
        let thought = if thinks { thought } else { &ThoughtReplay::Off };
        let message = &answer::sent_form(plan.as_ref(), before.len(), message);
        encode_message(out, before, message, thought, options, to);
        PrefixStability::Always
    })
}

/// What is known about the server's modes for an answer with a schema. Some servers refuse the schema mode together
/// with tools. With other servers, the model never calls a tool in this mode.
fn server(options: &Options) -> ServerSupport {
    let known = options.takes.schema_answers();
    ServerSupport {
        mode: known.unwrap_or(SchemaAnswers::WithoutTools),
        form: options.strict_form,
        takes_any: options.strict_form == StrictForm::OpenAI,
        in_words: known.is_none(),
        forced: if known.is_none() && options.strict_form == StrictForm::Common {
            SchemaEnforcement::ByKeywords
        } else {
            SchemaEnforcement::AsOthers
        },
        way: options.answer_way,
    }
}

/// Checks that the settings fit the server.
///
/// # Errors
/// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) for a thinking budget, if the server
/// accepts no budget.
pub(crate) fn check(options: &Options) -> Result<(), Error> {
    effort::check(&options.settings, options.thinking_budget)
}

fn choice(choice: &ToolChoice) -> serde_json::Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Forbidden => "none".into(),
        ToolChoice::Tool(name) => {
            serde_json::json!({ "type": "function", "function": { "name": name } })
        }
    }
}

fn tools(out: &mut BodyDraft, request: &Request<'_>, told: SchemaForm) {
    let parameters = request.parameters(told);
    room_for(out, request.tools(), &parameters);
    for (tool, EncodedSchema { json, strict }) in request.tools().iter().zip(&*parameters) {
        comma(out);
        raw(out, r#"{"type":"function","function":{"#);
        member(out, "name", &tool.name);
        member(out, "description", &tool.description);
        key(out, "parameters");
        raw(out, json);
        // Every server of this protocol is non-strict by default.
        if *strict {
            raw(out, r#","strict":true"#);
        }
        raw(out, "}}");
    }
}

fn encode_message(
    out: &mut BodyDraft,
    before: &Messages,
    message: &Message,
    thought: &ThoughtReplay,
    options: &Options,
    to: Recipient<'_>,
) {
    let is_sent = match message.role() {
        Role::User => has_content(message),
        Role::Assistant => is_written(message),
        Role::Tool => true,
    };
    if !is_sent {
        return;
    }
    if options.strict_turns {
        turns::bridge(out, before, message.role(), to);
    }
    match message.role() {
        Role::User => encode_user(out, message, to),
        Role::Assistant => encode_assistant(out, message, thought, options),
        Role::Tool => {
            for result in message.results() {
                encode_result(out, result, options.call_ids, to);
            }
            if options.strict_turns && to.is_sent_as_file(message) {
                turns::bridge_results(out);
            }
            encode_shown(out, message, to);
        }
    }
}

/// Whether a request can contain any part of a user message.
pub(super) fn has_content(message: &Message) -> bool {
    message.blocks().iter().any(|block| match block {
        Block::Text(text) => !text.text().trim().is_empty(),
        block => block.media().is_some(),
    })
}

/// A part of a user message.
enum UserPart<'a> {
    Words(Cow<'a, str>),
    File(FilePart<'a>),
}

/// Writes a user message that contains only text.
fn encode_said<'a>(out: &mut BodyDraft, words: impl IntoIterator<Item = &'a str>) {
    comma(out);
    raw(out, r#"{"role":"user""#);
    key(out, "content");
    texts(out, words, "\n");
    out.push(b'}');
}

fn encode_user(out: &mut BodyDraft, message: &Message, to: Recipient<'_>) {
    if message.blocks().iter().all(|block| block.media().is_none()) {
        let texts = message.blocks().iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.text()),
            _ => None,
        });
        return encode_said(out, texts);
    }
    let parts = message.blocks().iter().filter_map(|block| {
        if let Block::Text(text) = block {
            return Some(UserPart::Words(Cow::Borrowed(text.text())));
        }
        let (kind, media) = block.media()?;
        Some(match to.part_or_line(kind, media) {
            Ok(FilePart::Text(text)) => {
                UserPart::Words(Cow::Owned(text.to_text().unwrap_or_default()))
            }
            Ok(part) => UserPart::File(part),
            Err(line) => UserPart::Words(Cow::Owned(line)),
        })
    });
    let parts: Vec<UserPart<'_>> = parts.collect();
    let texts = parts.iter().map(|part| match part {
        UserPart::Words(text) => Some(&**text),
        UserPart::File(_) => None,
    });
    // A message of text only is sent as one text, because servers with text-only models do not accept a list of parts.
    if let Some(texts) = texts.collect::<Option<Vec<_>>>() {
        return encode_said(out, texts);
    }
    comma(out);
    raw(out, r#"{"role":"user","content":["#);
    for part in &parts {
        match part {
            UserPart::Words(text) => text_part(out, "text", text),
            UserPart::File(part) => encode_file(out, part),
        }
    }
    raw(out, "]}");
}

/// Writes a message of the model: text, thinking and calls.
fn encode_assistant(
    out: &mut BodyDraft,
    message: &Message,
    thought: &ThoughtReplay,
    options: &Options,
) {
    let words = message.blocks().iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.text()),
        _ => None,
    });
    let speaks = words.clone().any(|text| !text.trim().is_empty());
    let calls = message.calls().next().is_some();
    comma(out);
    raw(out, r#"{"role":"assistant""#);
    // Some servers refuse a message with calls and an empty or `null` text, so an empty `content` is left out.
    if speaks {
        key(out, "content");
        texts(out, words, "");
    }
    encode_thought(out, message, thought, calls);
    if calls {
        raw(out, r#","tool_calls":["#);
        let extras: Vec<Option<String>> =
            message.calls().map(|call| extra::of_call(call, options.origin)).collect();
        let proof = options.signed_calls.as_deref().filter(|_| extras.iter().all(Option::is_none));
        for (at, (call, extra)) in message.calls().zip(&extras).enumerate() {
            encode_call(out, call, options.call_ids);
            match (extra, proof) {
                (Some(extra), _) => extra::write(out, extra),
                (None, Some(vendor)) if at == 0 => extra::write_skipped(out, vendor),
                (None, _) => {}
            }
            out.push(b'}');
        }
        out.push(b']');
    }
    out.push(b'}');
}

/// Whether requests contain any part of a model's message. A message that the vendor's filter cut off is left out,
/// because the filter would refuse the message again.
pub(super) fn is_written(message: &Message) -> bool {
    let said = |block: &Block| match block {
        Block::Text(text) => !text.text().trim().is_empty(),
        Block::ToolCall(_) => true,
        _ => false,
    };
    message.blocks().iter().any(said) && (!message.is_refused() || is_refusal(message))
}

/// Whether the message contains a refusal that the model itself wrote.
fn is_refusal(message: &Message) -> bool {
    message.blocks().iter().any(|block| match block {
        Block::Text(text) => ours(WIRE, text.vendor())
            .is_some_and(|data| ObjectMembers::of(&data).get("refusal").is_some()),
        _ => false,
    })
}

fn encode_thought(out: &mut BodyDraft, message: &Message, replay: &ThoughtReplay, calls: bool) {
    // Only thinking with data of this wire is sent. Other thinking comes from another vendor.
    let blocks = message.blocks().iter().filter_map(|block| match block {
        Block::Reasoning(reasoning) => ours(WIRE, reasoning.vendor()).map(|data| (reasoning, data)),
        _ => None,
    });
    let text = |out: &mut BodyDraft, name: &str| {
        let thoughts = blocks.clone().map(|(reasoning, _)| reasoning.text());
        if calls || thoughts.clone().any(|text| !text.is_empty()) {
            key(out, name);
            texts(out, thoughts, "");
        }
    };
    match replay {
        ThoughtReplay::Off => {}
        ThoughtReplay::Field(name) => text(out, name),
        ThoughtReplay::SameField => {
            if let Some(field) = blocks.clone().find_map(|(_, data)| field_of(&data)) {
                text(out, field);
            }
        }
        ThoughtReplay::Details => {
            let details = blocks.clone().find_map(|(_, data)| {
                ObjectMembers::of(&data).get("reasoning_details").map(str::to_owned)
            });
            if let Some(details) = details {
                key(out, "reasoning_details");
                raw(out, &details);
            }
        }
    }
}

fn field_of(data: &str) -> Option<&'static str> {
    let field = text_of(ObjectMembers::of(data).get("field"));
    FIELDS.into_iter().find(|known| *known == field)
}

/// Writes a call without the closing brace.
fn encode_call(out: &mut BodyDraft, call: &ToolCall, ids: CallIds) {
    comma(out);
    raw(out, r#"{"type":"function""#);
    member(out, "id", &call_id(call.id(), ids));
    raw(out, r#","function":{"#);
    member(out, "name", &names::tool(call.name()));
    // In the protocol, the arguments are any text. Some servers parse this text for their templates, so the text is
    // always an object.
    member(out, "arguments", &object(call.arguments()));
    out.push(b'}');
}

fn encode_result(out: &mut BodyDraft, result: &ToolResult, ids: CallIds, to: Recipient<'_>) {
    comma(out);
    raw(out, r#"{"role":"tool""#);
    member(out, "tool_call_id", &call_id(result.call_id(), ids));
    let words = to.text(result);
    let is_empty = words.iter().all(|text| text.trim().is_empty());
    key(out, "content");
    match is_empty {
        false => texts(out, words.iter().map(|text| &**text), "\n"),
        true if to.shown(result.content()).next().is_some() => {
            text(out, "(its files follow in the next message)");
        }
        true => text(out, "(no output)"),
    }
    out.push(b'}');
}

/// Writes the files of results as a user message after all results, because results cannot contain files on this wire.
fn encode_shown(out: &mut BodyDraft, message: &Message, to: Recipient<'_>) {
    if !to.is_sent_as_file(message) {
        return;
    }
    comma(out);
    raw(out, r#"{"role":"user","content":["#);
    text_part(out, "text", "The files that the tools returned, in the order of their results:");
    for result in message.results() {
        to.shown(result.content()).for_each(|part| encode_file(out, &part));
    }
    raw(out, "]}");
}

fn encode_file(out: &mut BodyDraft, part: &FilePart<'_>) {
    match part {
        FilePart::Image(media) => {
            comma(out);
            raw(out, r#"{"type":"image_url","image_url":{"url":"#);
            match media.source() {
                MediaSource::Data { mime, data } => data_url(out, mime, data),
                MediaSource::Url(url) => text(out, url),
                // This protocol cannot carry these sources.
                MediaSource::File { .. } | MediaSource::Text { .. } => raw(out, "null"),
            }
        }
        FilePart::Audio { data, format } => {
            comma(out);
            raw(out, r#"{"type":"input_audio","input_audio":{"#);
            member(out, "data", data);
            member(out, "format", format);
        }
        FilePart::Document(media) => {
            comma(out);
            raw(out, r#"{"type":"file","file":{"#);
            match media.source() {
                MediaSource::File { id, .. } => member(out, "file_id", id),
                MediaSource::Data { mime, data } => {
                    // The vendor requires a file name.
                    member(out, "filename", &file_name(media));
                    key(out, "file_data");
                    data_url(out, mime, data);
                }
                // This protocol cannot carry these sources.
                MediaSource::Url(_) | MediaSource::Text { .. } => {}
            }
        }
        FilePart::Text(media) => {
            return text_part(out, "text", &media.to_text().unwrap_or_default());
        }
    }
    raw(out, "}}");
}

fn call_id(id: &str, ids: CallIds) -> Cow<'_, str> {
    match ids {
        CallIds::Plain => names::id(id, 64),
        CallIds::Nine => names::nine(id),
    }
}
