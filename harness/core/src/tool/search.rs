//! Tool search: if an agent has many tools, the model gets only the tools that it has searched for.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Map, Value, json};

use super::{SideEffects, Tool, ToolError};
use crate::{
    error::{Error, ErrorKind},
    message::in_line,
};

/// The name of the search tool. While tools have to be searched for, no other tool may have this name.
#[doc(hidden)]
pub const TOOL_SEARCH: &str = "tool_search";

/// If a search could find no more than this number of tools, the model gets all tools from the first request on, also
/// with a small window. A search would cost more tokens than it saves.
#[doc(hidden)]
pub const FEW_TOOLS: usize = 10;

/// The number of tools that a search returns, unless the model sets a limit.
const FOUND: usize = 5;

/// The highest limit that the model may set.
const MOST: usize = 20;

/// The number of indexed bytes of a description. The rest of the description is ignored, so that a server cannot gain
/// matches with a longer description.
const SEARCHED: usize = 2_000;

/// The number of bytes of a description that are shown to the model.
const SHOWN: usize = 300;

/// Decides when the model has to search for tools. Set this value with `AgentBuilder::tool_search`.
///
/// ```
/// use harness::{Agent, testing::{ScriptedProvider, reply}, tool, tool::ToolSearch, tools};
///
/// /// Adds two numbers.
/// #[tool(side_effects = "none")]
/// fn add(/** One */ a: i64, /** Another */ b: i64) -> i64 {
///     a + b
/// }
///
/// let model = ScriptedProvider::new([reply().text("Hello.")]);
/// let search = ToolSearch::new().share(5).always(["add"]);
/// let agent = Agent::builder(model).tools(tools![add]).tool_search(search).build()?;
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it has no effect until it is given to an agent"]
pub struct ToolSearch {
    share: Option<u8>,
    always: Vec<String>,
}

impl Default for ToolSearch {
    fn default() -> Self {
        Self::new()
    }
}

impl ToolSearch {
    /// Creates the default setting. The model has to search for tools if two conditions hold: all tools together need
    /// more than ten percent of the model's window, and the search would offer more than ten tools. The program's own
    /// tools are still sent from the first request on, unless these tools need more than 2.5 percent of the window. A
    /// search is also needed if the agent has more tools than [one request may
    /// contain](crate::models::Model::request_tools), regardless of their size.
    pub fn new() -> Self {
        Self { share: Some(10), always: Vec::new() }
    }

    /// Turns the search off. Every request contains all tools. A vendor refuses a request with too many tools.
    pub fn off() -> Self {
        Self { share: None, always: Vec::new() }
    }

    /// Sets the share of the model's window, in percent from 0 to 95, above which the model has to search for tools.
    /// With 0, the model always has to search. A low share is useful because hundreds of small tools may still need
    /// less than the default of 10 percent.
    pub fn share(mut self, percent: u8) -> Self {
        self.share = Some(percent);
        self
    }

    /// Names tools that are sent from the first request on, even if other tools have to be searched for.
    pub fn always(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.always.extend(names.into_iter().map(Into::into));
        self
    }

    /// The share of the window, in percent, above which tools have to be searched for; `None` if the search is off.
    #[doc(hidden)]
    pub fn percent(&self) -> Option<u8> {
        self.share
    }

    #[doc(hidden)]
    pub fn is_always(&self, name: &str) -> bool {
        self.always.iter().any(|always| always == name)
    }

    /// Checks the share and the names.
    ///
    /// # Errors
    /// Fails if the share is above 95 percent, or if `always` names a tool that the agent does not have.
    #[doc(hidden)]
    pub fn check(&self, is_known: impl Fn(&str) -> bool) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::new(ErrorKind::Configuration, why));
        if let Some(share) = self.share.filter(|share| *share > 95) {
            return wrong(format!("`ToolSearch::share({share})`: set at most 95 percent"));
        }
        match self.always.iter().find(|name| !is_known(name)) {
            Some(name) => wrong(format!(
                "`ToolSearch::always` names `{name}`, but the agent has no tool of this name"
            )),
            None => Ok(()),
        }
    }
}

/// The tools that a search can find.
#[derive(Debug)]
pub(crate) struct ToolIndex {
    tools: Vec<IndexedTool>,
    names: HashSet<String>,
    /// The number of tools in which each word occurs.
    spread: HashMap<String, f64>,
    /// The mean length of the tools. The length of a tool is the weighted number of its words.
    length: f64,
}

#[derive(Debug)]
struct IndexedTool {
    name: String,
    description: String,
    arguments: Vec<String>,
    /// The weight of each word in this tool.
    words: HashMap<String, f64>,
    length: f64,
}

impl IndexedTool {
    fn of(tool: &Tool) -> Self {
        let schema = tool.input_schema();
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut words = HashMap::new();
        let mut length = 0.0;
        let mut add = |text: &str, weight: f64| {
            for word in words_of(text) {
                *words.entry(word).or_insert(0.0) += weight;
                length += weight;
            }
        };
        add(tool.name(), 3.0);
        add(beginning(tool.description(), SEARCHED), 1.0);
        for (name, property) in properties.into_iter().flatten() {
            add(name, 1.0);
            let description = property.get("description").and_then(Value::as_str);
            add(beginning(description.unwrap_or_default(), SEARCHED / 10), 0.5);
        }
        Self {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            arguments: properties.into_iter().flat_map(Map::keys).cloned().collect(),
            words,
            length,
        }
    }
}

impl ToolIndex {
    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a Tool>) -> Self {
        let tools: Vec<IndexedTool> = tools.map(IndexedTool::of).collect();
        let mut spread = HashMap::new();
        for tool in &tools {
            for word in tool.words.keys() {
                *spread.entry(word.clone()).or_insert(0.0) += 1.0;
            }
        }
        let length = tools.iter().map(|tool| tool.length).sum::<f64>() / count(tools.len().max(1));
        let names = tools.iter().map(|tool| tool.name.clone()).collect();
        Self { tools, names, spread, length }
    }

    /// The names of all tools that can be found.
    pub(super) fn names(&self) -> &HashSet<String> {
        &self.names
    }

    /// The names of the tools that match these arguments of the search, the best match first.
    pub(super) fn find(&self, arguments: &Map<String, Value>) -> Vec<String> {
        self.best(arguments).into_iter().map(|tool| tool.name.clone()).collect()
    }

    /// Ranks the tools by Okapi BM25. A word in a name counts three times. Tools with equal scores keep their order.
    fn best(&self, arguments: &Map<String, Value>) -> Vec<&IndexedTool> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let most = arguments.get("limit").and_then(Value::as_u64);
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(FOUND).clamp(1, MOST);
        let named: HashSet<&str> = query.split([',', ' ', '\n', '`', '"']).collect();
        let words: HashSet<String> = words_of(query).collect();
        let mut scored: Vec<(f64, &IndexedTool)> = Vec::new();
        for tool in &self.tools {
            // A query that contains the exact name of a tool always finds this tool.
            let mut score = if named.contains(&*tool.name) { 1e6 } else { 0.0 };
            for word in &words {
                let (Some(here), Some(spread)) = (tool.words.get(word), self.spread.get(word))
                else {
                    continue;
                };
                let rare = ((count(self.tools.len()) - spread + 0.5) / (spread + 0.5) + 1.0).ln();
                let long = 1.2 * (0.25 + 0.75 * tool.length / self.length.max(1.0));
                score += rare * here * 2.2 / (here + long);
            }
            if score > 0.0 {
                let before = scored.partition_point(|(other, _)| *other >= score);
                scored.insert(before, (score, tool));
                scored.truncate(most);
            }
        }
        scored.into_iter().map(|(_, tool)| tool).collect()
    }

    /// The result of a search, as text for the model.
    fn result_text(&self, arguments: &Map<String, Value>) -> String {
        let best = self.best(arguments);
        if best.is_empty() {
            return format!(
                "None of the {} tools that can be found has one of these words. Search by other words: what the tool \
                 does, and to what.",
                self.tools.len()
            );
        }
        let mut text = "You can call these from your next turn on:".to_owned();
        for tool in best {
            let description = in_line(beginning(&tool.description, SHOWN));
            text.push_str(&format!("\n- `{}`: {description}", in_line(&tool.name)));
            if !tool.arguments.is_empty() {
                let arguments = tool.arguments.join(", ");
                let arguments = in_line(beginning(&arguments, SHOWN)).into_owned();
                text.push_str(&format!(" (arguments: {arguments})"));
            }
        }
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "the number of tools is far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}

fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// The words of a text, in lower case and without a final `s`. Each of `readFile`, `read_file` and `read-file` has two
/// words.
fn words_of(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut before = ' ';
    let mut parted = String::new();
    for letter in text.chars() {
        if before.is_lowercase() && letter.is_uppercase() {
            parted.push(' ');
        }
        before = letter;
        parted.push(if letter.is_alphanumeric() { letter } else { ' ' });
    }
    let words: Vec<String> = parted.split_whitespace().map(str::to_lowercase).collect();
    words.into_iter().map(|word| match word.strip_suffix('s') {
        Some(one) if one.len() > 2 && !one.ends_with('s') => one.to_owned(),
        _ => word,
    })
}

/// Creates the search tool for this index.
pub(super) fn tool_search(index: Arc<ToolIndex>) -> Tool {
    let description = format!(
        "Finds tools: {} more than those that you see can be called once you have found them. Search before you say \
         that something cannot be done.",
        index.tools.len()
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {
                "type": "string", "minLength": 1, "maxLength": 1000,
                "description": "What the tool does, in a few words, or its name",
            },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": MOST,
                "description": format!("How many tools at most; {FOUND} unless set"),
            },
        },
        "required": ["query"],
    });
    Tool::new(TOOL_SEARCH, description, schema, SideEffects::NONE, move |_, arguments| {
        let told = index.result_text(&arguments);
        Box::pin(async move { Ok::<_, ToolError>(told.into()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &'static str, description: &'static str) -> Tool {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        Tool::new(name, description, schema, SideEffects::NONE, |_, _| {
            Box::pin(async { Ok("".into()) })
        })
    }

    #[test]
    fn words_are_found_however_names_are_written() {
        for (text, expected) in [
            ("readFile", vec!["read", "file"]),
            ("github__list_pull-requests", vec!["github", "list", "pull", "request"]),
            ("ÄnderungenHolen 2x", vec!["änderungen", "holen", "2x"]),
            ("class bus", vec!["class", "bus"]),
            ("--- ", vec![]),
        ] {
            assert_eq!(words_of(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn the_name_counts_more_than_words_that_a_server_has_heaped_up() {
        let heaped = Box::leak("weather mail file issue ".repeat(500).into_boxed_str());
        let tools = [
            tool("spam__everything", heaped),
            tool("weather__get_forecast", "Tells what the weather will be."),
            tool("mail__send", "Sends a letter."),
        ];
        let index = ToolIndex::of(tools.iter());
        let find = |query: &str| {
            index.find(json!({"query": query, "limit": 1}).as_object().expect("an object"))
        };
        assert_eq!(find("forecast of the weather"), ["weather__get_forecast"]);
        assert_eq!(find("send mail"), ["mail__send"]);
        assert_eq!(find("spam__everything"), ["spam__everything"]);
        assert!(find("database").is_empty());
        assert!(find("").is_empty());
    }
}
