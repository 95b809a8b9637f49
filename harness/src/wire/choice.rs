//! The tools that a request says the model has to call. While tools are searched for, the model is not told of all of them,
//! and a vendor refuses the name of one that is not in the request.

use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind},
    provider::{Request, Settings, ToolChoice},
};

/// The names in the choice of a tool that is sent: of [`Settings::tool_choice`], and of `extra`, which replaces it or is merged
/// with it.
pub(super) fn named(settings: &Settings) -> Vec<&str> {
    let mut names = Vec::new();
    let more = settings.extra.get("tool_choice");
    if let (Some(ToolChoice::Tool(name)), None | Some(Value::Object(_))) =
        (&settings.tool_choice, more)
    {
        names.push(name.as_str());
    }
    more.into_iter().for_each(|choice| collect(choice, &mut names));
    names
}

/// Collects the members `name` of a value, at any depth.
fn collect<'v>(value: &'v Value, names: &mut Vec<&'v str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(members) => {
            names.extend(members.get("name").and_then(Value::as_str));
            members.values().for_each(|value| collect(value, names));
        }
        _ => {}
    }
}

/// The name of a tool in the vendor's format.
fn name(tool: &Value) -> Option<&str> {
    let inner = tool.get("function").and_then(|function| function.get("name"));
    tool.get("name").or(inner)?.as_str()
}

/// Checks the settings of a request in which the model can search for tools.
///
/// # Errors
/// Fails if the settings name a tool that is not sent, or if `extra` has a tool that is sent already.
pub(super) fn check(request: &Request<'_>, settings: &Settings) -> Result<(), Error> {
    // A request for the vendor's own summary has no choice.
    if request.found().search().is_none() || request.asks_for_summary() {
        return Ok(());
    }
    let wrong = |why: String| Err(Error::new(ErrorKind::Configuration, why));
    let is_told = |name: &str| request.tools().iter().any(|tool| tool.name == name);
    let more = tools(&settings.extra);
    if let Some(twice) = more.iter().filter_map(name).find(|name| is_told(name)) {
        return wrong(format!(
            "`extra(\"tools\")` has a tool `{}`, which the request has already: give one of them another name",
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
    let is_sent =
        |wanted: &str| is_told(wanted) || more.iter().any(|tool| name(tool) == Some(wanted));
    match named(settings).into_iter().find(|name| !is_sent(name)) {
        Some(unsent) => wrong(format!(
            "`tool_choice` names `{}`, which the request does not have: the model gets it only after it has searched for \
             it; name it in `ToolSearch::always`, or offer it by `only_tools`",
            unsent.escape_debug()
        )),
        None => Ok(()),
    }
}

fn tools(extra: &Map<String, Value>) -> &[Value] {
    extra.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
