//! The data flow policy: records what a conversation has read, and protects against data exfiltration. Once a
//! conversation has read private data and untrusted text, a person is asked before a call that can send data out.

use std::{borrow::Cow, collections::HashMap};

use serde::{Deserialize, Serialize};

use crate::{
    journal::{AnswerCheck, Decider, Decision, Fact, Repeat, Source, Sources},
    message::{Block, CallOutcome, Media, Message, Role, ToolCall, ToolResult, VendorData},
    tool::{
        SideEffect::{Mutate, Network, Read, Write},
        SideEffects,
    },
};

/// The side effects that the library assumes for a web search by the vendor, and for a file that the user gives by
/// its URL.
const LOOKS_UP: SideEffects = SideEffects::of(&[Read, Network]);
/// The longest name of a source, in bytes. No tool has a longer name.
const LONGEST_NAME: usize = 64;

/// A policy against data exfiltration. Once a conversation has read private data *and* untrusted text, a person is
/// asked before every call of a tool that declares `network`. Untrusted text is text that was written by somebody other
/// than the program and its user.
///
/// Untrusted text can contain instructions, and a model may follow them. An ordinary `GET` is enough to send out all
/// that the model has read: in the path or the query of the address (`https://attacker.example/?q=<the file>`), in the
/// host's name (`<the file>.attacker.example`: the DNS look-up alone sends the name), or piece by piece over several
/// calls. Without this policy, a tool that declares `read` + `network` runs without an approval request, because most
/// of these tools only look something up. With this policy, such a tool runs without an approval request only until the
/// conversation has read both private data and untrusted text.
///
/// Unless the program has a setting for the tool's name, the tool's declared side effects decide how its results count:
///
/// | declared | private data | untrusted text |
/// |---|---|---|
/// | none | no | no |
/// | `read` alone, or with `write` or `mutate` | yes | no |
/// | `network`, `read` + `network` | no | yes |
/// | `read` + `network`, with `write` or `mutate` | yes | yes |
///
/// A file may contain untrusted text, too: add `.untrusted("read_file")` if your files may.
///
/// Everything that the model reads counts, also from a call that failed, was stopped or ended late. The same
/// content still counts in later runs, in forks, and after the conversation was opened again or summarized. In this
/// table, *both* means private data and untrusted text:
///
/// | what the model reads | counts |
/// |---|---|
/// | the result of a tool, or the result that the program or a person gives in its place | as in the table above |
/// | the answer of an agent | if the agent has read private data or untrusted text |
/// | the result of a function that runs agents in its call | as its tool declares, and as what its agents have read |
/// | an objection to an answer, by a tool that checks answers | as the tool declares |
/// | an objection to an answer, by a function | both, under the name `verify` |
/// | a search of the web by the vendor, and the pages that it reads | untrusted text, under the names `web_search` and `web_fetch` |
/// | the result of another tool that the vendor runs, such as `code_execution` or `file_search` | both, under the vendor's name for it |
/// | a picture, audio or a document of the user | private data, under the name [`USER_FILE`](Self::USER_FILE); a file given by its URL: untrusted text |
/// | a transcript that the program passes in | both, for each of its calls |
/// | text of the user and of the program, and the reason of a denial | no |
///
/// A setting for a name applies to every tool of this name, also in agents that the conversation's calls run. A setting
/// for the name of an agent, or of a tool that runs agents, applies to everything that these agents have read. For
/// example, with `.trusted("research")` an answer of the agent `research` counts as no untrusted text for its caller.
/// Inside the agent, the text still counts. Content that a caller had read before the call also counts for the agent in
/// the call, since the task may repeat this content. If a function runs the agent, two more things count for the agent:
/// the side effects that the function declares, and the content that earlier agents of the same call have read.
///
/// ```
/// use harness::policy::{DataFlowPolicy, Permissions};
///
/// let permissions = Permissions::default()
///     .data_flow(DataFlowPolicy::default().private("search_mail").untrusted("search_mail").trusted("weather"));
/// # let _ = permissions;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataFlowPolicy {
    private: HashMap<String, bool>,
    untrusted: HashMap<String, bool>,
}

impl DataFlowPolicy {
    /// The name under which the user's pictures, audio and documents count. No tool has this name.
    pub const USER_FILE: &str = "user file";

    /// Results of this tool are private, whatever the tool declares.
    #[must_use]
    pub fn private(mut self, tool: impl Into<String>) -> Self {
        self.private.insert(tool.into(), true);
        self
    }

    /// Results of this tool are not private, whatever the tool declares.
    #[must_use]
    pub fn public(mut self, tool: impl Into<String>) -> Self {
        self.private.insert(tool.into(), false);
        self
    }

    /// Results of this tool may contain untrusted text, whatever the tool declares.
    #[must_use]
    pub fn untrusted(mut self, tool: impl Into<String>) -> Self {
        self.untrusted.insert(tool.into(), true);
        self
    }

    /// Results of this tool contain no untrusted text, whatever the tool declares.
    #[must_use]
    pub fn trusted(mut self, tool: impl Into<String>) -> Self {
        self.untrusted.insert(tool.into(), false);
        self
    }

    /// Why a person has to decide about a call of a tool with these effects; `None` if there is no reason.
    pub(super) fn reason_to_ask(&self, effects: SideEffects, taint: Taint) -> Option<&'static str> {
        // Side effects that a later version adds may send data out, too.
        let stays = effects.is_within(&[Read, Write, Mutate]);
        (!stays && taint.private && taint.untrusted).then_some(
            "this conversation has read private data and words that strangers wrote, and the call \
             can carry data out",
        )
    }

    /// Whether these sources contain private data or untrusted text, by this policy.
    pub(super) fn taint(&self, sources: &[Source]) -> Taint {
        sources.iter().fold(Taint::default(), |all, source| {
            let (declared, inside) = (declared(source.effects), self.taint(&source.inside));
            let said = |by_name: &HashMap<String, bool>| by_name.get(&source.tool).copied();
            Taint {
                private: all.private
                    | said(&self.private).unwrap_or(declared.private || inside.private),
                untrusted: all.untrusted
                    | said(&self.untrusted).unwrap_or(declared.untrusted || inside.untrusted),
            }
        })
    }
}

/// Whether results of a tool with these side effects count as private data or as untrusted text.
fn declared(effects: SideEffects) -> Taint {
    let reads_nothing = effects.is_within(&[Write, Network, Mutate]);
    let reads_over_network = effects.has(Network) && effects.is_within(&[Read, Network]);
    Taint {
        private: !reads_nothing && !reads_over_network,
        untrusted: !effects.is_within(&[Read, Write, Mutate]),
    }
}

/// What a conversation has read so far, judged by one [`DataFlowPolicy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Taint {
    /// Whether the conversation has read private data.
    pub private: bool,
    /// Whether the conversation has read untrusted text: text written by somebody other than the program and its user.
    pub untrusted: bool,
}

/// The sources that a conversation has read, derived from its facts. The sources do not depend on a policy. So a
/// policy that a later process sets also applies to sources that were read earlier.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct TaintTracker {
    sources: Sources,
    /// The calls of the last answer, by id.
    calls: HashMap<String, TrackedCall>,
    /// Whether a fact already lists the sources that the check of the last answer has read.
    has_checked: bool,
}

/// A call of the last answer.
#[derive(Clone, Debug)]
struct TrackedCall {
    tool: String,
    /// The side effects by which the call's result counts as private data or as untrusted text. `None` if the
    /// sources of the result are already recorded, or if the call does not run.
    reads: Option<SideEffects>,
}

impl TaintTracker {
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Applies a fact. Returns whether the fact added a new source. If the facts do not record the side effects of a
    /// tool, the tool's results count as private data and untrusted text.
    pub fn apply(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::Given { transcript } => {
                transcript.messages().iter().fold(false, |is_new, message| {
                    // The transcript does not record which side effects the called tools declared.
                    let calls = message.calls().fold(is_new, |is_new, call| {
                        self.add(call.name(), SideEffects::ALL) | is_new
                    });
                    self.add_message(message) | calls
                })
            }
            Fact::UserSaid { message, .. } | Fact::Steered { message } => self.add_message(message),
            Fact::ModelReplied { message, .. } | Fact::Interrupted { message, .. } => {
                let Some(message) = message else { return false };
                let call = |call: &ToolCall| {
                    let name = if call.name().len() <= LONGEST_NAME { call.name() } else { "" };
                    let (tool, reads) = (name.to_owned(), Some(SideEffects::ALL));
                    (call.id().to_owned(), TrackedCall { tool, reads })
                };
                self.calls = message.calls().map(call).collect();
                self.has_checked = false;
                self.add_message(message)
            }
            Fact::CallDecided { call, decision } => {
                let reads = match decision {
                    // The call does not run. Its result only explains the fault in the call or the reason of the
                    // denial.
                    Decision::Allow { by: Decider::Call, .. } | Decision::Deny { .. } => None,
                    // A later `SourcesRead` fact lists the sources that an agent has read. Without this fact, the
                    // result counts as private data and as untrusted text.
                    Decision::Allow { repeat: Repeat::Continues, .. } => Some(SideEffects::ALL),
                    Decision::Allow { side_effects, .. } => Some(*side_effects),
                };
                if let Some(called) = self.calls.get_mut(call) {
                    called.reads = reads;
                }
                false
            }
            Fact::SourcesRead { call, sources } => {
                match call {
                    Some(call) => {
                        if let Some(called) = self.calls.get_mut(call) {
                            called.reads = None;
                        }
                    }
                    None => self.has_checked = true,
                }
                self.sources.add_all(sources)
            }
            // The result of a stopped call contains the output of the call so far. The result of a failed call contains
            // the error. Both results count.
            Fact::CallFinished { result, .. } | Fact::CallSettled { result, .. } => {
                self.add_result(result)
            }
            Fact::CallEnded { tool, .. } => {
                // The result that reported the call as still running has already added this source.
                let is_known = self.sources.all().iter().any(|source| source.tool == *tool);
                !is_known && self.add(tool, SideEffects::ALL)
            }
            Fact::AnswerRejected { by: AnswerCheck::Verifier, .. } => {
                !self.has_checked && self.add("verify", SideEffects::ALL)
            }
            // The rejection only describes faults in the model's own answer.
            Fact::AnswerRejected { by: AnswerCheck::Schema, .. }
            // The model does not read this answer. The tool reads it, and the tool's result counts.
            | Fact::CallAnswered { .. }
            | Fact::CallStarted { .. }
            | Fact::UnkeptAgentStarted { .. }
            | Fact::CallWaits { .. }
            | Fact::CallUndecided { .. }
            | Fact::CallCleared { .. }
            | Fact::GrantRevoked { .. }
            // These facts contain only texts of the program.
            | Fact::Resumed { .. }
            | Fact::AnswerWanted { .. }
            | Fact::AnswerAccepted {}
            | Fact::ToolsFound { .. }
            | Fact::ContextPinned { .. }
            | Fact::PrefixSet { .. }
            | Fact::PrefixUnused {}
            // A summary repeats only content that the model has already read.
            | Fact::ContextCleared { .. }
            | Fact::CompactionStarted { .. }
            | Fact::ContextCompacted { .. }
            | Fact::CompactionFailed { .. }
            | Fact::VendorSummaryRefused { .. }
            | Fact::ContextOverflowed { .. }
            | Fact::Reopened { .. }
            | Fact::CalledBy { .. }
            | Fact::Forked {} => false,
        }
    }

    fn add(&mut self, tool: &str, effects: SideEffects) -> bool {
        let name = if tool.len() <= LONGEST_NAME { tool } else { "" };
        self.sources.add(&Source::new(name, effects))
    }

    fn add_result(&mut self, result: &ToolResult) -> bool {
        if matches!(result.outcome(), CallOutcome::Denied | CallOutcome::NotStarted) {
            return false;
        }
        let Self { calls, sources, .. } = self;
        match calls.get(result.call_id()) {
            None => sources.add(&Source::new("", SideEffects::ALL)),
            Some(TrackedCall { reads: None, .. }) => false,
            Some(TrackedCall { tool, reads: Some(effects) }) => {
                sources.add(&Source::new(tool.as_str(), *effects))
            }
        }
    }

    fn add_message(&mut self, message: &Message) -> bool {
        message.blocks().iter().fold(false, |is_new, block| {
            let adds = match block {
                Block::Image(media) | Block::Audio(media) | Block::Document(media) => {
                    // Pictures and audio from the model are no new source.
                    message.role() != Role::Assistant
                        && self.add(DataFlowPolicy::USER_FILE, of_file(media))
                }
                Block::Vendor(data) => {
                    hosted(data).is_some_and(|(tool, effects)| self.add(&tool, effects))
                }
                // Some servers send no block for a search. Then only the citations in the answer show the search.
                Block::Text(text) => text.citations().iter().fold(false, |is_new, citation| {
                    let adds = match (&citation.url, &citation.file) {
                        (Some(_), _) => self.add("web_search", LOOKS_UP),
                        (None, Some(_)) => self.add("file_search", SideEffects::ALL),
                        (None, None) => false,
                    };
                    adds | is_new
                }),
                // These blocks add no source. A separate fact contains the result of a call.
                Block::ToolCall(_) | Block::ToolResult(_) | Block::Reasoning(_) => false,
            };
            adds | is_new
        })
    }
}

fn of_file(media: &Media) -> SideEffects {
    if media.url().is_some() { LOOKS_UP } else { Read.into() }
}

/// The vendor's tool that produced this block, and the side effects that the library assumes for the tool. `None`
/// if the tool reads nothing.
fn hosted(data: &VendorData) -> Option<(Cow<'static, str>, SideEffects)> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Members {
        r#type: String,
        name: String,
    }

    // Chat Completions has no blocks of vendor tools; an answer only cites its sources.
    if data.wire() == "chat" {
        return None;
    }
    let Members { r#type: kind, name } = serde_json::from_str(data.json()).unwrap_or_default();
    let name = match kind.as_str() {
        // The vendor makes these blocks from the conversation itself.
        "image_generation_call" | "tool_search_call" | "tool_search_output" => return None,
        kind if kind.starts_with("compaction") => return None,
        "server_tool_use" => name,
        kind if kind.starts_with("mcp") => "mcp".to_owned(),
        kind => {
            let ends = ["_tool_result", "_call_output", "_call"];
            let tool = ends.into_iter().find_map(|end| kind.strip_suffix(end));
            tool.unwrap_or(kind).to_owned()
        }
    };
    Some(match name.as_str() {
        "web_search" => ("web_search".into(), LOOKS_UP),
        "web_fetch" => ("web_fetch".into(), LOOKS_UP),
        _ => (name.into(), SideEffects::ALL),
    })
}

#[cfg(test)]
mod tests {
    use super::{DataFlowPolicy, Taint, declared, hosted};
    use crate::{
        message::VendorData,
        tool::{
            SideEffect::{self, Mutate, Network, Read, Write},
            SideEffects,
        },
    };

    #[test]
    fn what_counts_is_what_the_table_says() {
        let tainted = Taint { private: true, untrusted: true };
        let table: [(&[SideEffect], bool, bool); 12] = [
            (&[], false, false),
            (&[Write], false, false),
            (&[Mutate], false, false),
            (&[Read], true, false),
            (&[Read, Write], true, false),
            (&[Read, Mutate], true, false),
            (&[Network], false, true),
            (&[Network, Mutate], false, true),
            (&[Read, Network], false, true),
            (&[Read, Network, Write], true, true),
            (&[Read, Network, Mutate], true, true),
            (&SideEffect::ALL, true, true),
        ];
        for (effects, private, untrusted) in table {
            let effects = SideEffects::of(effects);
            let policy = DataFlowPolicy::default();
            assert_eq!(declared(effects), Taint { private, untrusted }, "{effects}");
            assert_eq!(policy.reason_to_ask(effects, tainted).is_some(), untrusted, "{effects}");
        }
    }

    #[test]
    fn a_tool_of_the_vendor_that_is_not_known_counts_as_private_and_untrusted() {
        for (json, expected) in [
            (r#"{"type":"web_search_tool_result"}"#, Some(("web_search", false))),
            (r#"{"type":"web_search_call","id":"a"}"#, Some(("web_search", false))),
            (r#"{"type":"web_fetch_tool_result"}"#, Some(("web_fetch", false))),
            (r#"{"type":"server_tool_use","name":"web_search"}"#, Some(("web_search", false))),
            (
                r#"{"type":"server_tool_use","name":"code_execution"}"#,
                Some(("code_execution", true)),
            ),
            (r#"{"type":"code_execution_tool_result"}"#, Some(("code_execution", true))),
            (r#"{"type":"code_interpreter_call"}"#, Some(("code_interpreter", true))),
            (r#"{"type":"file_search_call"}"#, Some(("file_search", true))),
            (r#"{"type":"mcp_tool_result"}"#, Some(("mcp", true))),
            (r#"{"type":"mcp_call"}"#, Some(("mcp", true))),
            (r#"{"type":"something_new"}"#, Some(("something_new", true))),
            (r#"{"type":7}"#, Some(("", true))),
            ("[]", Some(("", true))),
            (r#"{"type":"compaction"}"#, None),
            (r#"{"type":"image_generation_call"}"#, None),
        ] {
            let data = VendorData::new("responses", json).expect("JSON");
            let found = hosted(&data);
            let found = found.as_ref().map(|(tool, effects)| (&**tool, declared(*effects).private));
            assert_eq!(found, expected, "{json}");
        }
    }
}
