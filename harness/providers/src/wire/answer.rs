//! Chooses the output mode of a request for an answer with a schema. The vendor's own mode accepts only some schemas,
//! and some vendors do not allow this mode together with tools. A tool whose arguments are the answer works nearly
//! everywhere. The schema as text after the user's message works everywhere. The choice depends only on the table of
//! models, the schema and the request.

use std::borrow::Cow;

use harness_schema::{StrictForm, ToolSchema};
use serde_json::Value;

use harness_core::{
    error::{Error, ErrorKind},
    message::Message,
    models::SchemaAnswers,
    provider::{Effort, OutputMode, OutputSchema, Request, RequestPurpose, Settings, ToolChoice},
};

/// The name of the answer in requests. The vendors' own modes require a name.
pub(super) const NAME: &str = "answer";

/// What is known about a server's support for answers with a schema.
pub(super) struct ServerSupport {
    /// Whether the vendor's own mode can be used: always, without tools, or never.
    pub(super) mode: SchemaAnswers,
    pub(super) form: StrictForm,
    /// Whether the vendor's own mode also accepts schemas that it cannot enforce.
    pub(super) takes_any: bool,
    /// Whether the schema is also sent as text. A local server may ignore the vendor's mode, or may not show the schema
    /// to the model.
    pub(super) in_words: bool,
    /// How the schema of a forced answer is enforced.
    pub(super) forced: SchemaEnforcement,
    /// The output mode that the request must use; `None` if the request can use any mode.
    pub(super) way: Option<OutputMode>,
}

/// How the schema of a [forced](OutputSchema::forced) answer is enforced.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum SchemaEnforcement {
    /// The request uses the same output mode as for any other answer.
    AsOthers,
    /// `tool_choice` forces the model to call the tool whose arguments are the answer. Even servers that ignore unknown
    /// output modes support `tool_choice`.
    ByCall,
    /// The vendor's own mode gets the schema with all keywords, because length limits keep an answer short. If the
    /// server refuses the keywords, the library tries the next output mode. If the model thinks without end, a second
    /// request forces a call of the tool.
    ByKeywords,
}

/// How one request asks for an answer with a schema.
pub(super) struct OutputPlan<'a> {
    answer: &'a OutputSchema,
    /// The schema for the vendor's mode, and whether the mode enforces it.
    pub(super) format: Option<(Value, bool)>,
    /// Whether the answer is the arguments of a tool call.
    is_tool: bool,
    /// The tools of the request and the added tool for the answer; `None` if no tool is added.
    tools: Option<Vec<ToolSchema>>,
    /// Whether the model has to call the tool for the answer.
    must_call: bool,
    words: bool,
}

impl<'a> OutputPlan<'a> {
    /// Chooses the output mode; `None` if the request has no schema.
    pub(super) fn of(
        request: &Request<'a>,
        settings: &Settings,
        server: &ServerSupport,
    ) -> Option<Self> {
        let answer = request.answer()?;
        let is_open = match server.mode {
            SchemaAnswers::Always => true,
            SchemaAnswers::WithoutTools => request.tools().is_empty(),
            SchemaAnswers::Never => false,
        };
        let may_call =
            !matches!(settings.tool_choice, Some(ToolChoice::Forbidden | ToolChoice::Tool(_)));
        let forced = match answer.about() {
            _ if !request.tools().is_empty() => SchemaEnforcement::AsOthers,
            RequestPurpose::Conversation => SchemaEnforcement::AsOthers,
            RequestPurpose::AnswerAgain if server.forced == SchemaEnforcement::ByKeywords => {
                SchemaEnforcement::ByCall
            }
            RequestPurpose::Answer | RequestPurpose::AnswerAgain => server.forced,
        };
        let must_call = forced == SchemaEnforcement::ByCall && may_force(settings);
        let held = if settings.strict_tools == Some(true) { request.tools() } else { &[] };
        let format = || match answer.strict(server.form, held) {
            Ok(_) if forced == SchemaEnforcement::ByKeywords => {
                Some((answer.schema().clone(), server.form.is_held()))
            }
            Ok(strict) => Some((strict, server.form.is_held())),
            Err(_) if server.takes_any => Some((answer.schema().clone(), false)),
            Err(_) => None,
        };
        let format = match server.way {
            _ if answer.is_only_by_tool() => None,
            None if is_open && !must_call => format(),
            Some(OutputMode::Schema) => format(),
            _ => None,
        };
        let way = match (&format, server.way) {
            (Some(_), _) => OutputMode::Schema,
            (None, Some(OutputMode::Words)) => OutputMode::Words,
            (None, _) if may_call => OutputMode::Tool,
            (None, _) => OutputMode::Words,
        };
        answer.told_by(way);
        let is_tool = way == OutputMode::Tool;
        let added = request.additions().iter().flat_map(|it| &it.tools);
        let is_sent = request.tools().iter().chain(added).any(|it| it.name == answer.tool().name);
        let tools = (is_tool && !is_sent)
            .then(|| request.tools().iter().chain([answer.tool()]).cloned().collect());
        let words = way == OutputMode::Words || way == OutputMode::Schema && server.in_words;
        Some(Self { answer, format, is_tool, tools, must_call: is_tool && must_call, words })
    }

    /// The settings that force a call of the answer's tool: the choice of tools, and whether calls may be parallel.
    /// `None` if no call is forced.
    pub(super) fn forced(&self) -> Option<(Option<&ToolChoice>, Option<bool>)> {
        self.must_call.then_some((Some(&ToolChoice::Required), Some(false)))
    }

    /// The tool for the answer; `None` in another output mode.
    pub(super) fn tool(&self) -> Option<&ToolSchema> {
        self.is_tool.then(|| self.answer.tool())
    }

    /// The message at this index with the schema as text; `None` if the request sends the message unchanged.
    fn message(&self, at: usize, message: &Message) -> Option<Message> {
        let asks = self.words && at == self.answer.message();
        asks.then(|| message.with_text(self.answer.in_words()))
    }
}

/// Whether the request may force a call. Vendors refuse to force a call while the model thinks.
fn may_force(settings: &Settings) -> bool {
    let thinks = settings.effort.is_some_and(|effort| effort != Effort::Off);
    let own = ["tool_choice", "tools", "thinking", "reasoning"];
    !thinks && !own.iter().any(|name| settings.extra.contains_key(*name))
}

/// The request, with the tool for the answer if the plan adds the tool.
pub(super) fn with_tool<'r>(
    plan: Option<&'r OutputPlan<'_>>,
    request: &'r Request<'r>,
) -> Cow<'r, Request<'r>> {
    let tools = plan.and_then(|plan| plan.tools.as_deref());
    tools.map_or(Cow::Borrowed(request), |tools| Cow::Owned(request.clone().with_tools(tools)))
}

/// The message at this index, as the request sends it.
pub(super) fn sent_form(plan: Option<&OutputPlan<'_>>, at: usize, message: &Message) -> Message {
    plan.and_then(|plan| plan.message(at, message)).unwrap_or_else(|| message.clone())
}

/// A text that changes whenever the plan changes the bytes of a message.
pub(super) fn form(plan: Option<&OutputPlan<'_>>) -> String {
    let Some(plan) = plan.filter(|plan| plan.words) else { return String::new() };
    format!(" answer {} {}", plan.answer.message(), plan.answer.in_words())
}

/// Whether the error means that the server refuses the output mode of the request.
///
/// Anthropic: `output_config.format: ..`, `The compiled grammar is too large`. OpenAI: `Invalid
/// schema for response_format 'x'`, `'response_format' of type 'json_schema' is not supported with
/// this model`. Groq: `json mode cannot be combined with tool/function calling`, `This model does
/// not support response format json_schema`. DeepSeek: `This response_format type is unavailable
/// now`. Gemini: `Function calling with a response mime type: 'application/json' is unsupported`,
/// `too many states for serving`. llama.cpp: `Cannot use custom grammar constraints with tools`.
/// Ollama: `does not support tools`. Others use a code, such as `unsupported_response_format`, or
/// name their own field, such as `generation_config.response_schema` or `guided_json`.
pub(crate) fn is_way_refused(way: OutputMode, err: &Error) -> bool {
    let may_be = match err.status() {
        Some(status) => matches!(status, 400 | 404 | 415 | 422 | 500 | 501),
        // Many errors in a stream have no status.
        None => err.kind() == ErrorKind::Api && !err.is_retryable(),
    };
    if !may_be {
        return false;
    }
    let words = format!("{} {}", err.code().unwrap_or_default(), err.message());
    let words = words.to_ascii_lowercase();
    let says = |all: &[&str]| all.iter().any(|part| words.contains(part));
    match way {
        OutputMode::Schema => says(&[
            "response_format",
            "response format",
            "output_config",
            "output_format",
            "output format",
            "text.format",
            "json_schema",
            "json schema",
            "json mode",
            "json_object",
            "structured output",
            "structured_output",
            "invalid schema",
            "schema is too complex",
            "grammar",
            "response mime type",
            "response_mime_type",
            "response_schema",
            "responseschema",
            "guided decoding",
            "guided_",
            "too many states",
        ]),
        OutputMode::Tool => {
            let of_tools = says(&["tool", "function call", "functions"]);
            let no = [
                "not support",
                "unsupported",
                "not available",
                "unavailable",
                "not allowed",
                "--jinja",
            ];
            of_tools && says(&no) || says(&["tool_choice", "tool choice"])
        }
        OutputMode::Words => false,
    }
}

/// Whether the refusal applies to every schema, and not only to the schema of the request.
pub(crate) fn is_every_schema_refused(err: &Error) -> bool {
    let words = err.message().to_ascii_lowercase();
    let of_all = [
        "not support",
        "unsupported",
        "unavailable",
        "not available",
        "cannot be combined",
        "constraints with tools",
        "not permitted",
        "extra inputs",
        "unknown parameter",
        "unrecognized",
    ];
    // This error is about one schema: `For 'integer' type, property 'minimum' is not supported`.
    let of_this = ["property", "keyword", "in schema", "schema for"];
    of_all.iter().any(|part| words.contains(part))
        && !of_this.iter().any(|part| words.contains(part))
}

#[cfg(test)]
mod tests {
    use super::{Error, ErrorKind, OutputMode, is_way_refused};

    #[test]
    fn refusals_of_a_way_are_known_by_their_words() {
        use OutputMode::{Schema, Tool, Words};
        let table = [
            (
                400,
                "The compiled grammar is too large, which would cause performance issues",
                Some(Schema),
            ),
            (400, "output_config.format.schema: property 'minimum' is not supported", Some(Schema)),
            (400, "Invalid schema for response_format 'answer'", Some(Schema)),
            (400, "json mode cannot be combined with tool/function calling", Some(Schema)),
            (400, "This response_format type is unavailable now", Some(Schema)),
            (
                400,
                "Function calling with a response mime type: 'application/json' is unsupported",
                Some(Schema),
            ),
            (400, "Cannot use custom grammar constraints with tools.", Some(Schema)),
            (400, "Unknown name \"x\" at 'generation_config.response_schema'", Some(Schema)),
            (400, "Guided decoding is not supported by this backend", Some(Schema)),
            (400, "registry.ollama.ai/library/gemma does not support tools", Some(Tool)),
            (500, "tools param requires --jinja flag", None),
            (400, "tool_choice: must be one of `auto` and `none`", Some(Tool)),
            (422, "Tool choice `required` is not possible with reasoning", Some(Tool)),
            (400, "prompt is too long: 210000 tokens > 200000 maximum", None),
            (401, "response_format needs a key", None),
            (429, "too many states for serving", None),
        ];
        for (status, words, refused) in table {
            let err = Error::new(ErrorKind::Api, words).with_status(status);
            let is = |way| is_way_refused(way, &err);
            if refused.is_none() && status != 500 {
                assert!(!is(Schema) && !is(Tool), "{words}");
            }
            if let Some(way) = refused {
                assert!(is(way), "{words}");
            }
            assert!(!is(Words), "{words}");
        }
    }
}
