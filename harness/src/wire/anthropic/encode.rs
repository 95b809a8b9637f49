//! Makes the body of a request of the transcript.
//!
//! The bytes of a message depend on that message alone, so what was sent once is a prefix of
//! what is sent next: that keeps the vendor's cache warm and its bound thinking valid. The one
//! exception is a block of the vendor's that waits for its result: it is sent while the result may
//! still come, and left out once it cannot.

use std::borrow::Cow;

use serde_json::Map;

use super::{SUMMARY, WIRE, thinking::thinking};
use crate::{
    error::{Error, ErrorKind},
    message::{
        Block, Media, MediaKind, Message, Messages, ReasoningBlock, Role, Source, TextBlock,
        ToolCall, ToolResult, VendorData, in_line,
    },
    models::{Model, Models, SchemaAnswers, Thinking as Thinks},
    provider::{AnswerWay, Draft, Effort, Found, Request, Settings, ToolChoice},
    schema::{Parameters, StrictForm, Told},
    secret::beginning,
    wire::{
        Encoded,
        answer::{self, Plan, Server},
        cache,
        encoded::{Form, Stays, conversation, thinking_from},
        json::{Body, comma, key, member, members, object, put, raw, room_for, sendable, text},
        media::{Part, Places, Recipient, Takes, line},
        names,
        tolerant::{Members, text_of},
    },
};

/// How requests are made on this wire.
#[derive(Clone, Debug)]
pub struct Options {
    /// The model that is asked.
    pub model: String,
    /// The settings.
    pub settings: Settings,
    /// What the model takes beside words.
    pub takes: Takes,
    /// How the model is told what its answer has to be, where it has to fit a schema. `None`: as the vendor, the
    /// model and the schema allow it.
    pub answer_way: Option<AnswerWay>,
    /// Whether tools that were found by a search are told apart from the others, so that the vendor reads them where they were
    /// found, and all before that from its cache. Servers of others that speak this protocol may not know it.
    ///
    /// Source: <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool>.
    pub defers_tools: bool,
}

impl Options {
    /// Options for a model of Anthropic.
    pub fn new(model: impl Into<String>) -> Self {
        let model = model.into();
        let models = Models::default();
        let takes = Takes::of("anthropic", &*model, &models);
        let defers_tools = models.find("anthropic", &model).deferred_tools.unwrap_or(false);
        Self { model, settings: Settings::default(), takes, answer_way: None, defers_tools }
    }
}

/// Sources: <https://docs.claude.com/en/docs/build-with-claude/pdf-support> (32 MB a request),
/// <https://docs.claude.com/en/docs/build-with-claude/files>, and the vendor's refusal of larger pictures,
/// `image exceeds 5 MB maximum: .. bytes > 5242880 bytes`, which counts base64.
const PLACES: Places = Places {
    audio: false,
    other_pictures: false,
    picture_files: true,
    document_urls: true,
    office: false,
    picture_size: 5 * 1024 * 1024,
    size: 32 * 1024 * 1024,
};

/// The protocol demands a limit, so there is one. Of a model that is not known it is this.
const MAX_TOKENS: u32 = 16_384;

/// How many tokens an answer may have if the program does not say it: as many as the model can say,
/// but an eighth of its window at most. Older models refuse a conversation that would leave no room
/// for so long an answer.
fn longest_answer(known: &Model) -> u32 {
    let eighth = known.window.and_then(|window| u32::try_from(window / 8).ok());
    known.output.zip(eighth).map_or(MAX_TOKENS, |(output, eighth)| output.min(eighth))
}

/// Vendors take ids of at most this many bytes.
const ID_LIMIT: usize = 64;

/// The body of a request.
///
/// # Errors
/// Fails if there is nothing to send, or if `extra` names what is made of the conversation.
pub fn encode(request: &Request<'_>, options: &Options) -> Result<Vec<u8>, Error> {
    encode_pieces(request, options).map(Encoded::into_bytes)
}

/// As [`encode`], in pieces: what was [sent](Request::with_sent) before is not written again.
///
/// # Errors
/// As [`encode`].
pub fn encode_pieces(request: &Request<'_>, options: &Options) -> Result<Encoded, Error> {
    let Options { model, settings, takes, answer_way: _, defers_tools } = options;
    let Settings {
        max_tokens,
        temperature,
        top_p,
        stop,
        effort,
        earlier_thinking: _,
        tool_choice,
        parallel_calls,
        strict_tools,
        prompt_cache,
        cache_key: _,
        user,
        extra,
    } = settings;
    let plan = Plan::of(request, settings, &server(options));
    let with_tool;
    let request = match &plan {
        Some(plan) => {
            with_tool = plan.request(request);
            &with_tool
        }
        None => request,
    };
    let summarizes = request.asks_for_summary();
    if summarizes && extra.contains_key("context_management") {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the vendor makes no summary on demand where `extra` has `context_management`: leave one of them out",
        ));
    }
    let mut body = Body::new(extra, &["messages", "stream", "compaction"])?;
    body.value("model", model);
    let known = Models::default().find("anthropic", model);
    let max_tokens = max_tokens.unwrap_or_else(|| longest_answer(&known));
    body.value("max_tokens", &max_tokens);
    body.value("stream", &true);
    body.maybe("temperature", temperature.as_ref());
    body.maybe("top_p", top_p.as_ref());
    // What says something of an answer is refused where none is given.
    if !stop.is_empty() && !summarizes {
        body.value("stop_sequences", stop);
    }
    let mut output = Map::new();
    let of_extra = extra.get("thinking").and_then(|it| it.get("type"));
    let has_budget = match (of_extra, effort) {
        (Some(of_extra), _) => of_extra == "enabled",
        (None, Some(effort)) => known.thinking == Some(Thinks::Budget) && *effort != Effort::Off,
        (None, None) => false,
    };
    if let Some(effort) = effort {
        let said = thinking(known.thinking, *effort, max_tokens);
        if let Some(config) = said.config {
            body.member("thinking", |out| raw(out, &config));
        }
        if let Some(effort) = said.effort {
            output.insert("effort".to_owned(), effort.into());
        }
    }
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
    let mark = cache::anthropic(prompt_cache.unwrap_or_default());
    if let Some(mark) = mark {
        // The vendor puts it on the last block, so that earlier messages keep their bytes.
        body.member("cache_control", |out| raw(out, mark));
    }
    if let Some(system) = request.system().filter(|system| !system.trim().is_empty()) {
        body.member("system", |out| {
            raw(out, r#"[{"type":"text""#);
            member(out, "text", system);
            breakpoint(out, mark);
            raw(out, "}]");
        });
    }
    let strict = strict_tools.unwrap_or(false);
    let found = Deferred::of(request, *defers_tools);
    body.tools(|out| tools(out, request, strict, &found, mark));
    let tool_choice = tool_choice.as_ref().filter(|choice| {
        !summarizes || !matches!(choice, ToolChoice::Required | ToolChoice::Tool(_))
    });
    if let Some(choice) = choice(tool_choice, *parallel_calls)
        && !request.tools().is_empty()
    {
        body.value("tool_choice", &choice);
    }
    if summarizes {
        body.member("compaction", |out| raw(out, r#"{"type":"summarize"}"#));
    }
    // With a budget, the last answer that calls tools has to begin with its thinking, which those models do not bind to
    // what came before.
    let thinking_from = thinking_from(request, settings, has_budget);
    // One summary stands in such a request, as its first block.
    let first_alone = summarizes || request.begins_with_summary();
    let summary_at = first_alone.then(|| request.begins_with_summary().then_some(0));
    let is = format!(
        "{WIRE} {thinking_from}{}{}{}",
        if first_alone { " summary" } else { "" },
        found.form(),
        answer::form(plan.as_ref())
    );
    let before = mark.zip(marked(request, extra));
    let mark = before.map(|(mark, at)| (at, format!(r#","cache_control":{mark}"#)));
    let form = Form { is, mark };
    let to = Recipient { takes, places: &PLACES };
    conversation(body, "messages", b"", form, request, to, |out, before, message| {
        let at = before.len();
        let after = request.messages().range(at.saturating_add(1)..);
        let message = &answer::said(plan.as_ref(), at, message);
        let summaries = summary_at.is_none_or(|first| first == Some(at));
        encode_message(out, message, (at, &after), (at >= thinking_from, summaries), &found, to)
    })
}

/// What is known of how the answer can be held to a schema. A server that speaks this protocol for another
/// model passes over a mode that it does not know.
fn server(options: &Options) -> Server {
    Server {
        mode: options.takes.schema_answers().unwrap_or(SchemaAnswers::Never),
        form: StrictForm::Anthropic,
        takes_any: false,
        in_words: false,
        way: options.answer_way,
    }
}

/// In so many blocks before a mark the vendor looks for what it has kept; one is left for blocks that are not sent.
const LOOKBACK: usize = 19;

/// The message that ended the request before, if the vendor would not find it: more blocks have come since than it
/// looks at. It has a mark of its own then, the fourth that a request may have. What is kept is the same with
/// or without a mark.
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
            // The program's own tools may have a mark.
            let is_full =
                || extra.get("tools").is_some_and(|it| it.to_string().contains("cache_control"));
            return (blocks > LOOKBACK && !is_full()).then_some(at);
        }
        said |= is_answer;
        blocks += message.blocks().len();
    }
    None
}

fn breakpoint(out: &mut Draft, mark: Option<&str>) {
    if let Some(mark) = mark {
        key(out, "cache_control");
        raw(out, mark);
    }
}

/// The tools that are read where a search has found them.
struct Deferred<'a> {
    found: Found<'a>,
    tools: Vec<&'a str>,
}

impl<'a> Deferred<'a> {
    /// Those that the model is told of now: the vendor refuses results that name others. It wants one tool that is none of
    /// them, too.
    fn of(request: &Request<'a>, defers: bool) -> Self {
        let found = request.found();
        let all = request.tools().iter().filter(|_| defers).map(|tool| &*tool.name);
        let mut tools: Vec<&str> = all.filter(|tool| found.has(tool)).collect();
        if tools.len() == request.tools().len() {
            tools.clear();
        }
        Self { found, tools }
    }

    fn has(&self, tool: &str) -> bool {
        self.tools.contains(&tool)
    }

    /// Those that this call has found.
    fn by(&self, call: &str) -> Vec<&'a str> {
        if self.tools.is_empty() {
            return Vec::new();
        }
        let found = self.found.by(call).into_iter().flatten();
        found.map(String::as_str).filter(|tool| self.has(tool)).collect()
    }

    /// What the bytes of messages depend on.
    fn form(&self) -> String {
        if self.tools.is_empty() {
            String::new()
        } else {
            format!(" found {}", self.tools.join(","))
        }
    }
}

fn tools(
    out: &mut Draft,
    request: &Request<'_>,
    strict: bool,
    found: &Deferred<'_>,
    mark: Option<&str>,
) {
    // Those that are found are read where they were found, and take no mark.
    let last = request.tools().iter().rposition(|tool| !found.has(&tool.name));
    let told = if strict { Told::Held(StrictForm::Anthropic) } else { Told::AsIs };
    let parameters = request.parameters(told);
    room_for(out, request.tools(), &parameters);
    for (at, (tool, Parameters { json, strict })) in
        request.tools().iter().zip(&*parameters).enumerate()
    {
        comma(out);
        out.push(b'{');
        member(out, "name", &tool.name);
        member(out, "description", &tool.description);
        key(out, "input_schema");
        raw(out, json);
        key(out, "strict");
        put(out, strict);
        if found.has(&tool.name) {
            raw(out, r#","defer_loading":true"#);
        }
        breakpoint(out, mark.filter(|_| Some(at) == last));
        out.push(b'}');
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

/// Writes one message, unless nothing of it can be sent. Returns for how long its bytes stay the same.
fn encode_message(
    out: &mut Draft,
    message: &Message,
    (at, after): (usize, &Messages),
    (thinking, summaries): (bool, bool),
    found: &Deferred<'_>,
    to: Recipient<'_>,
) -> Stays {
    // The vendor refuses to go on from what was refused.
    if message.is_refused() {
        return Stays::Always;
    }
    let mut stays = Stays::Always;
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
    // Anything after a call makes the vendor look for its result there, so calls come last.
    for block in message.blocks() {
        match block {
            Block::ToolCall(_) => {}
            Block::Reasoning(_) if !thinking => {}
            Block::Vendor(data) if !summaries && is_summary(data) => {}
            Block::ToolResult(result) => match found.by(result.call_id()).as_slice() {
                [] => encode_result(out, result, to),
                tools => encode_found(out, result, tools),
            },
            // Only a person shows files.
            block if block.media().is_some() && message.role() == Role::Assistant => {}
            Block::Vendor(data) => match result_of(data, message, after) {
                Awaited::Here => encode_block(out, block, to),
                Awaited::Behind(count) => {
                    stays = stays.and(Stays::AsLongAs(at + 1 + count));
                    encode_block(out, block, to);
                }
                Awaited::Later => {
                    stays = Stays::UntilTheNext;
                    encode_block(out, block, to);
                }
                Awaited::Never => {}
                Awaited::NotBehind(count) => stays = stays.and(Stays::AsLongAs(at + 1 + count)),
            },
            block => encode_block(out, block, to),
        }
    }
    for call in message.calls() {
        encode_call(out, call);
    }
    if out.len() == first {
        drop(out.split_off(start));
        return stays;
    }
    raw(out, "]}");
    stays
}

/// Whether this is a summary of the vendor's own.
fn is_summary(data: &VendorData) -> bool {
    data.wire() == WIRE && text_of(Members::of(data.json()).get("type")) == SUMMARY
}

/// Where the result of one of the vendor's blocks is.
enum Awaited {
    /// It is in the same message, or the block wants none.
    Here,
    /// It is in the message that is so many behind.
    Behind(usize),
    /// It may come with the next answer.
    Later,
    /// It is not there and cannot come, whatever follows.
    Never,
    /// It is not there, and the message that is so many behind says that it cannot come any more.
    NotBehind(usize),
}

/// Where the result of a block is. The vendor gives the results of its own blocks itself, in a later
/// answer if it has paused or waits for the results of calls. An answer that was cut off has none, and
/// neither comes one once the person says something else than to go on: the vendor refuses the block
/// then, with `tool use with id .. was found without a corresponding .. block`.
///
/// Source: <https://docs.claude.com/en/docs/agents-and-tools/tool-use/server-tools>.
fn result_of(data: &VendorData, message: &Message, after: &Messages) -> Awaited {
    let members = Members::of(data.json());
    let kind = text_of(members.get("type"));
    if data.wire() != WIRE || !kind.ends_with("_use") {
        return Awaited::Here;
    }
    let id = text_of(members.get("id"));
    let is_in = |message: &Message| {
        message.blocks().iter().any(|block| match block {
            Block::Vendor(data) => text_of(Members::of(data.json()).get("tool_use_id")) == id,
            _ => false,
        })
    };
    if is_in(message) {
        return Awaited::Here;
    }
    if !matches!(kind.as_str(), "server_tool_use" | "mcp_tool_use") {
        return Awaited::Never;
    }
    let mut last = message;
    for (count, later) in (1..).zip(after) {
        if later.role() == Role::User {
            return Awaited::NotBehind(count);
        }
        if !later.is_refused() && is_in(later) {
            return Awaited::Behind(count);
        }
        last = later;
    }
    let goes_on = last.is_paused() || last.role() == Role::Tool || last.calls().next().is_some();
    if goes_on { Awaited::Later } else { Awaited::NotBehind(after.len()) }
}

fn encode_block(out: &mut Draft, block: &Block, to: Recipient<'_>) {
    match block {
        Block::Text(text) => encode_text(out, text),
        Block::Image(media) => encode_media(out, MediaKind::Image, media, to),
        Block::Audio(media) => encode_media(out, MediaKind::Audio, media, to),
        Block::Document(media) => encode_media(out, MediaKind::Document, media, to),
        Block::ToolCall(call) => encode_call(out, call),
        Block::ToolResult(result) => encode_result(out, result, to),
        Block::Reasoning(reasoning) => encode_reasoning(out, reasoning),
        Block::Vendor(data) => {
            if let Some(json) = ours(Some(data)).filter(|json| is_block(json)) {
                comma(out);
                raw(out, &json);
            }
        }
    }
}

/// Whether this is a block of its own.
fn is_block(json: &str) -> bool {
    json.contains(r#""type""#) && !text_of(Members::of(json).get("type")).is_empty()
}

/// White space alone is refused.
fn encode_text(out: &mut Draft, text: &TextBlock) {
    if text.text().trim().is_empty() {
        return;
    }
    comma(out);
    raw(out, r#"{"type":"text""#);
    member(out, "text", text.text());
    let kept = ours(text.vendor()).unwrap_or_default();
    members(out, &kept, &["type", "text"]);
    out.push(b'}');
}

/// Only what is signed goes back, byte for byte; other models' thinking means nothing here.
fn encode_reasoning(out: &mut Draft, reasoning: &ReasoningBlock) {
    let Some(json) = ours(reasoning.vendor()) else { return };
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

fn encode_call(out: &mut Draft, call: &ToolCall) {
    comma(out);
    raw(out, r#"{"type":"tool_use""#);
    member(out, "id", &names::id(call.id(), ID_LIMIT));
    member(out, "name", &names::tool(call.name()));
    key(out, "input");
    raw(out, &object(call.arguments()));
    let kept = ours(call.vendor()).unwrap_or_default();
    members(out, &kept, &["type", "id", "name", "input"]);
    out.push(b'}');
}

/// The tools that a search has found, which the vendor reads in the place of the result's words.
fn encode_found(out: &mut Draft, result: &ToolResult, tools: &[&str]) {
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

fn encode_result(out: &mut Draft, result: &ToolResult, to: Recipient<'_>) {
    comma(out);
    raw(out, r#"{"type":"tool_result""#);
    member(out, "tool_use_id", &names::id(result.call_id(), ID_LIMIT));
    raw(out, r#","content":["#);
    let first = out.len();
    for part in result.content() {
        match (part.media(), to.words(part)) {
            (_, Some(words)) if result.is_error() => encode_words(out, &words),
            // Of a call that went wrong only words are taken.
            (Some((kind, media)), None) if result.is_error() => {
                let why = "the call went wrong, and of such a call this protocol takes words alone";
                encode_words(out, &line(kind, media, why));
            }
            (Some((kind, media)), _) => encode_media(out, kind, media, to),
            (None, words) => encode_words(out, &words.unwrap_or_default()),
        }
    }
    if out.len() == first {
        // An empty list is refused.
        encode_words(out, "(no output)");
    }
    out.push(b']');
    if result.is_error() {
        raw(out, r#","is_error":true"#);
    }
    out.push(b'}');
}

fn encode_words(out: &mut Draft, text: &str) {
    if !text.trim().is_empty() {
        comma(out);
        raw(out, r#"{"type":"text""#);
        member(out, "text", text);
        out.push(b'}');
    }
}

/// Writes a file, or the line that stands in its place.
fn encode_media(out: &mut Draft, kind: MediaKind, media: &Media, to: Recipient<'_>) {
    let (kind, media) = match to.part_or_line(kind, media) {
        Err(words) => return encode_words(out, &words),
        Ok(Part::Image(image)) => ("image", image),
        Ok(Part::Document(document)) => ("document", document),
        Ok(Part::Text(media)) if to.takes.documents() => ("document", media),
        Ok(Part::Text(media)) => {
            return encode_words(out, &media.to_text().unwrap_or_default());
        }
        // This wire has no place for sound.
        Ok(Part::Audio { .. }) => return,
    };
    comma(out);
    raw(out, r#"{"type":"#);
    text(out, kind);
    raw(out, r#","source":{"type":"#);
    match media.source() {
        Source::Data { mime, data } => {
            raw(out, r#""base64""#);
            member(out, "media_type", mime);
            member(out, "data", data);
        }
        Source::Text { mime: _, text } => {
            // Whatever kind of text it is, the vendor takes it as this.
            raw(out, r#""text","media_type":"text/plain""#);
            member(out, "data", text);
        }
        Source::Url(url) => {
            raw(out, r#""url""#);
            member(out, "url", url);
        }
        Source::File { id, .. } => {
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

/// So many bytes of a document's title are sent: the vendor takes 500 characters.
const TITLE: usize = 400;

/// Vendor data, if it is of this wire.
fn ours(data: Option<&VendorData>) -> Option<Cow<'_, str>> {
    data.filter(|data| data.wire() == WIRE).and_then(|data| sendable(data.json()))
}
