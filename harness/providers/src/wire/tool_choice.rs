//! Writes and checks the choice of the tool that the model has to call. With tool search, a request contains only some
//! of the agent's tools. A vendor refuses a choice that names any other tool.

use serde_json::{Map, Value};

use super::{
    json::{JsonBody, put},
    media::ModelCapabilities,
    optional::OptionalMember,
};
use harness_core::{
    error::{Error, ErrorKind},
    provider::{Request, Settings, ToolChoice},
};

/// Which tool has to be called, and whether calls may be parallel.
type ToolChoiceFlags<'a> = (Option<&'a ToolChoice>, Option<bool>);

/// Writes the choice that the output mode forces, or else the program's own choice. Omits a refused
/// `parallel_tool_calls`, unless the program forbids parallel calls.
pub(super) fn write(
    body: &mut JsonBody<'_>,
    forced: Option<ToolChoiceFlags<'_>>,
    own: ToolChoiceFlags<'_>,
    json: impl Fn(&ToolChoice) -> Value,
) {
    let (choice, parallel) = forced.unwrap_or(own);
    body.maybe("tool_choice", choice.map(json).as_ref());
    match parallel {
        Some(false) if forced.is_none() => body.value("parallel_tool_calls", &false),
        Some(parallel) => {
            body.optional(OptionalMember::ParallelToolCalls, &|out| put(out, &parallel));
        }
        None => {}
    }
}

/// The names of tools in the choice of a request. The choice comes from [`Settings::tool_choice`] and from `extra`. A
/// value in `extra` replaces the setting, or is merged with the setting.
pub(super) fn named(settings: &Settings) -> Vec<&str> {
    own(settings).into_iter().chain(of_extra(settings)).collect()
}

/// The name in [`Settings::tool_choice`], unless `extra` replaces it.
fn own(settings: &Settings) -> Option<&str> {
    match (&settings.tool_choice, settings.extra.get("tool_choice")) {
        (Some(ToolChoice::Tool(name)), None | Some(Value::Object(_))) => Some(name),
        _ => None,
    }
}

fn of_extra(settings: &Settings) -> Vec<&str> {
    let mut names = Vec::new();
    settings.extra.get("tool_choice").into_iter().for_each(|choice| collect(choice, &mut names));
    names
}

/// Collects the values of all members `name` inside a value. Skips an object with the member `server_label`: the object
/// describes a server that the vendor calls.
fn collect<'v>(value: &'v Value, names: &mut Vec<&'v str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(members) if members.contains_key("server_label") => {}
        Value::Object(members) => {
            names.extend(members.get("name").and_then(Value::as_str));
            members.values().for_each(|value| collect(value, names));
        }
        _ => {}
    }
}

/// The name in a tool definition in the vendor's format.
fn name(tool: &Value) -> Option<&str> {
    let inner = tool.get("function").and_then(|function| function.get("name"));
    tool.get("name").or(inner)?.as_str()
}

/// Checks the choice of a tool, and the settings of a request in which the model can search for tools.
///
/// # Errors
/// Fails if the settings name a tool that is not in the request or not offered, or if `extra` contains a tool of the agent.
pub(super) fn check(request: &Request<'_>, settings: &Settings) -> Result<(), Error> {
    // A request for the vendor's own summary has no choice of a tool.
    if request.is_summary_request() {
        return Ok(());
    }
    let wrong = |why: String| Err(Error::new(ErrorKind::Configuration, why));
    let is_hidden = |name: &&str| request.hidden_tools().iter().any(|hidden| hidden == name);
    if let Some(hidden) = own(settings).filter(is_hidden) {
        return wrong(format!(
            "`tool_choice` names `{}`, which this run does not offer: its definition is sent only because earlier \
             reasoning is bound to it",
            hidden.escape_debug()
        ));
    }
    if request.found().search().is_none() {
        return Ok(());
    }
    let added = || request.additions().iter().flat_map(|it| &it.tools);
    let is_told = |name: &str| request.tools().iter().chain(added()).any(|tool| tool.name == name);
    let more = tools(&settings.extra);
    let is_searched = |name: &str| request.found().is_searched(name);
    if let Some(twice) =
        more.iter().filter_map(name).find(|name| is_told(name) || is_searched(name))
    {
        return wrong(format!(
            "`extra(\"tools\")` has a tool `{}`, which the agent has already: give one of them another name",
            twice.escape_debug()
        ));
    }
    let kinds = more.iter().filter_map(|tool| tool.get("type")?.as_str());
    if let Some(kind) = kinds.into_iter().find(|kind| kind.starts_with("tool_search")) {
        return wrong(format!(
            "`extra(\"tools\")` has the vendor's search for tools (`{}`), and the agent searches by itself: leave it \
             out, or turn the agent's search off by `ToolSearch::off`",
            kind.escape_debug()
        ));
    }
    // A vendor's tool may contain further tools, and `tool_choice` may name these tools.
    let mut within = Vec::new();
    more.iter().for_each(|tool| collect(tool, &mut within));
    let is_sent = |wanted: &str| is_told(wanted) || within.contains(&wanted);
    let own = own(settings).filter(|name| !is_sent(name));
    let hidden = || of_extra(settings).into_iter().find(|name| is_searched(name) && !is_sent(name));
    match own.or_else(hidden) {
        Some(unsent) => wrong(format!(
            "`tool_choice` names `{}`, which the request does not have: the model gets it only after it has searched for \
             it; name it in `ToolSearch::always`, or offer it by `only_tools`",
            unsent.escape_debug()
        )),
        None => Ok(()),
    }
}

/// Fails if the settings force a call and the model's vendor refuses forced calls.
///
/// # Errors
/// [`ErrorKind::Configuration`].
pub(super) fn check_force(
    model: &str,
    settings: &Settings,
    takes: &ModelCapabilities,
) -> Result<(), Error> {
    let choice = match &settings.tool_choice {
        Some(ToolChoice::Required) => "Required".to_owned(),
        Some(ToolChoice::Tool(name)) => format!("Tool({name:?})"),
        None | Some(ToolChoice::Auto | ToolChoice::Forbidden) => return Ok(()),
    };
    // The library does not check a `tool_choice` in `extra`.
    if takes.may_force_tools() || settings.extra.contains_key("tool_choice") {
        return Ok(());
    }
    let why = format!(
        "`ToolChoice::{choice}`: the model `{model}` refuses requests that demand a call: say in the instructions or in the \
         message which tool it has to call, or ask for a typed answer"
    );
    Err(Error::new(ErrorKind::Configuration, why))
}

fn tools(extra: &Map<String, Value>) -> &[Value] {
    extra.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
