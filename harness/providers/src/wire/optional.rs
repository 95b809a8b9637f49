//! The members of a request that some servers refuse. The table in this module has the purpose of each member, the
//! servers that accept the member, and the setting that controls the member. If a server's error names such a member,
//! later requests leave the member out. If the program has set the member, the error names the program's setting
//! instead.

use harness_core::{error::Error, models};

/// A member that the library sends by default, and that a request does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionalMember {
    StreamOptions,
    LimitName,
    Store,
    Include,
    ReasoningSummary,
    Strict,
    CacheControl,
    CacheMarks,
    CacheBreakpoint,
    CacheKey,
    CacheRetention,
    DeferLoading,
    ThinkingDisplay,
    ParallelToolCalls,
}

/// What is known about an optional member.
struct MemberRow {
    /// The path in the body, without indexes. `*` at the beginning means any position in the body.
    path: &'static str,
    /// The wires whose requests contain the member.
    wires: &'static [&'static str],
    purpose: &'static str,
    taken_by: &'static str,
    setting: &'static str,
}

impl OptionalMember {
    const ALL: [Self; 14] = [
        Self::StreamOptions,
        Self::LimitName,
        Self::Store,
        Self::Include,
        Self::ReasoningSummary,
        Self::Strict,
        Self::CacheControl,
        Self::CacheMarks,
        Self::CacheBreakpoint,
        Self::CacheKey,
        Self::CacheRetention,
        Self::DeferLoading,
        Self::ThinkingDisplay,
        Self::ParallelToolCalls,
    ];

    const fn row(self) -> MemberRow {
        match self {
            Self::StreamOptions => MemberRow {
                path: "stream_options",
                wires: &["chat"],
                purpose: "asks the server to count tokens",
                taken_by: "most servers; Mistral counts without it",
                setting: "`ChatCompletionsBuilder::ask_for_usage`",
            },
            Self::LimitName => MemberRow {
                path: "max_tokens",
                wires: &["chat"],
                purpose: "limits the answer, as `max_tokens` or as `max_completion_tokens`",
                taken_by: "all servers, under one of the two names",
                setting: "`ChatCompletionsBuilder::max_completion_tokens`",
            },
            Self::Store => MemberRow {
                path: "store",
                wires: &["responses"],
                purpose: "keeps the vendor from storing the answer",
                taken_by: "OpenAI, Azure, xAI; others store nothing",
                setting: "`.extra(\"store\", ..)`",
            },
            Self::Include => MemberRow {
                path: "include",
                wires: &["responses"],
                purpose: "asks for the encrypted thinking, which later requests send back",
                taken_by: "models that think, at OpenAI, Azure and xAI",
                setting: "`.extra(\"include\", ..)`",
            },
            Self::ReasoningSummary => MemberRow {
                path: "reasoning.summary",
                wires: &["responses"],
                purpose: "asks for a summary of the thinking",
                taken_by: "OpenAI and Azure, for verified organisations",
                setting: "`.extra(\"reasoning\", ..)`",
            },
            Self::Strict => MemberRow {
                path: "*.strict",
                wires: &["responses"],
                purpose: "keeps the vendor from rewriting the schemas of tools",
                taken_by: "OpenAI, Azure, xAI; others rewrite nothing",
                setting: "`Settings::strict_tools`",
            },
            Self::CacheControl => MemberRow {
                path: "cache_control",
                wires: &["anthropic", "chat"],
                purpose: "caches the conversation up to its last message",
                taken_by: "Anthropic, Vertex, Azure and OpenRouter; Bedrock takes marks of single blocks only",
                setting: "`Settings::prompt_cache`",
            },
            Self::CacheMarks => MemberRow {
                path: "*.cache_control",
                wires: &["anthropic"],
                purpose: "caches the request up to a block",
                taken_by: "Anthropic, Bedrock, Vertex and OpenRouter",
                setting: "`Settings::prompt_cache`",
            },
            Self::CacheBreakpoint => MemberRow {
                path: "*.prompt_cache_breakpoint",
                wires: &["responses", "chat"],
                purpose: "caches the system prompt for other conversations",
                taken_by: "OpenAI and Azure, from gpt-5.6 on",
                setting: "`Settings::cache_key`",
            },
            Self::CacheKey => MemberRow {
                path: "prompt_cache_key",
                wires: &["responses", "chat"],
                purpose: "leads requests that begin alike to the same cache",
                taken_by: "OpenAI and Azure",
                setting: "`Settings::cache_key`",
            },
            Self::CacheRetention => MemberRow {
                path: "prompt_cache_retention",
                wires: &["responses", "chat"],
                purpose: "keeps the cache for a day",
                taken_by: "OpenAI and Azure, up to gpt-5.5",
                setting: "`Settings::prompt_cache`",
            },
            Self::DeferLoading => MemberRow {
                path: "*.defer_loading",
                wires: &["anthropic", "responses"],
                purpose: "sends tools that a search has found behind what is cached",
                taken_by: "Anthropic and OpenAI, with newer models",
                setting: "`Model::deferred_tools`",
            },
            Self::ThinkingDisplay => MemberRow {
                path: "thinking.display",
                wires: &["anthropic"],
                purpose: "asks for the text of the thinking",
                taken_by: "Anthropic, with models that omit it otherwise",
                setting: "`Settings::thinking_text`",
            },
            Self::ParallelToolCalls => MemberRow {
                path: "parallel_tool_calls",
                wires: &["responses", "chat"],
                purpose: "says whether calls may come together",
                taken_by: "OpenAI, Azure, Groq, Mistral, vLLM and others",
                setting: "`Settings::parallel_calls`",
            },
        }
    }

    /// The name of the member in events and errors.
    pub(crate) fn name(self) -> &'static str {
        let path = self.row().path;
        path.strip_prefix("*.").unwrap_or(path)
    }

    /// Whether the refusal names this member.
    pub(crate) fn is_refused_by(self, refusal: &MemberRefusal) -> bool {
        // The server refuses the program's value, and would refuse the value under another name too.
        if self == Self::LimitName && refusal.is_of_value {
            return false;
        }
        let also: &[&str] = match self {
            Self::LimitName => &["max_completion_tokens"],
            Self::DeferLoading => &["*.tool_search", "*.tool_reference"],
            _ => &[],
        };
        refusal.is_about(self.row().path) || also.iter().any(|path| refusal.is_about(path))
    }
}

/// The members that only the program sets, each with the name of the setting. The library must not leave out a member
/// that the program has set.
const ASKED: [(&str, &str); 26] = [
    ("temperature", "`Settings::temperature`"),
    ("top_p", "`Settings::top_p`"),
    ("stop", "`Settings::stop`"),
    ("stop_sequences", "`Settings::stop`"),
    ("max_tokens", "`Settings::max_tokens`"),
    ("max_completion_tokens", "`Settings::max_tokens`"),
    ("max_output_tokens", "`Settings::max_tokens`"),
    ("reasoning_effort", "`Settings::effort`"),
    ("reasoning.effort", "`Settings::effort`"),
    ("reasoning", "`Settings::effort`"),
    ("thinking", "`Settings::effort`"),
    ("output_config.effort", "`Settings::effort`"),
    ("output_config", "`Settings::effort`, or the schema of a typed answer"),
    ("response_format", "the schema of a typed answer"),
    ("text.format", "the schema of a typed answer"),
    ("tool_choice", "`Settings::tool_choice`"),
    ("parallel_tool_calls", "`Settings::parallel_calls`"),
    ("*.disable_parallel_tool_use", "`Settings::parallel_calls`"),
    ("*.strict", "`Settings::strict_tools`"),
    ("=tools", "the tools of the agent"),
    ("user", "`Settings::user`"),
    ("safety_identifier", "`Settings::user`"),
    ("metadata", "`Settings::user`"),
    ("prompt_cache_key", "`Settings::cache_key`"),
    ("prompt_cache_options", "`Settings::prompt_cache`"),
    ("service_tier", "`Settings::extra`"),
];

/// The optional members that a server has refused, and that later requests leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedMembers(u32);

impl RefusedMembers {
    const fn bit(member: OptionalMember) -> u32 {
        1 << member as u32
    }

    pub(crate) fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) const fn has(self, member: OptionalMember) -> bool {
        self.0 & Self::bit(member) != 0
    }

    #[must_use]
    pub(crate) const fn with(self, member: OptionalMember) -> Self {
        Self(self.0 | Self::bit(member))
    }

    #[must_use]
    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members of this set that the refusal names.
    pub(crate) fn refused_by(self, refusal: &MemberRefusal) -> Self {
        let named = self.iter().filter(|member| member.is_refused_by(refusal));
        let named = named.fold(Self::default(), Self::with);
        // The server may mean the `cache_control` of the whole request, or of one block. The first retry leaves out
        // only the former.
        match named.has(OptionalMember::CacheControl) {
            true => Self(named.0 & !Self::bit(OptionalMember::CacheMarks)),
            false => named,
        }
    }

    /// The members in this set.
    pub(crate) fn iter(self) -> impl Iterator<Item = OptionalMember> {
        OptionalMember::ALL.into_iter().filter(move |member| self.has(*member))
    }

    /// The members that this provider is known to refuse.
    ///
    /// Source: <https://platform.claude.com/docs/en/build-with-claude/prompt-caching> (Bedrock has no automatic
    /// caching). Vertex refused automatic caching for a long time. A mark at the last block has the same effect.
    pub(crate) fn at(provider: &str, model: &str) -> Self {
        match provider {
            "bedrock" | "vertex" => Self::default().with(OptionalMember::CacheControl),
            _ if models::is_of_cloud(model) => Self::default().with(OptionalMember::CacheControl),
            _ => Self::default(),
        }
    }
}

/// A server's error that refuses members of a request by name. The known forms are:
///
/// OpenAI: `Unknown parameter: 'x'.`, `Unsupported parameter: 'x' is not supported with this model.`, `Unrecognized
/// request argument supplied: x`, and the member `param`. Anthropic, and servers that check with Pydantic: `x: Extra
/// inputs are not permitted`, `{"type":"extra_forbidden","loc":["body","x"],..}`. Bedrock: `#/tools/0: extraneous key
/// [x] is not permitted`. Google: `Unknown name "x" at 'y': Cannot find field.` Groq: ``property 'x' is unsupported``.
/// Servers in Go: `json: unknown field "x"`; in Rust: ``unknown field `x`, expected ..``; in Python: `got an unexpected
/// keyword argument 'x'`. xAI: `Argument not supported on this model: x`.
pub(crate) struct MemberRefusal {
    /// The paths of the named members: names from the root of the body, without indexes.
    named: Vec<Vec<String>>,
    /// Whether the server refuses only the value of the member.
    is_of_value: bool,
}

/// Phrases in errors that refuse a value, in lower case.
const OF_VALUE: [&str; 4] =
    ["invalid value", "invalid_value", "unsupported value", "unsupported_value"];

/// Phrases in errors that refuse a member, in lower case.
const REFUSED: [&str; 26] = [
    "extra input",
    "extra_forbidden",
    "extra field",
    "extraneous",
    "unrecognized",
    "unrecognised",
    "not recognized",
    "unknown",
    "unexpected",
    "unsupported",
    "not support",
    "n't support",
    "not permitted",
    "not allowed",
    "not available",
    "not accept",
    "not implemented",
    "not enabled",
    "no longer",
    "deprecated",
    "cannot find field",
    "additional propert",
    "additionalpropert",
    "forbidden",
    "must be verified",
    "invalid value",
];

/// Words that precede the name of a member in an error.
const BEFORE: [&str; 13] = [
    "supplied",
    "parameter",
    "parameters",
    "argument",
    "arguments",
    "field",
    "fields",
    "property",
    "member",
    "name",
    "key",
    "keys",
    "model",
];

impl MemberRefusal {
    /// The refusal in an error; `None` if the error refuses no member by name.
    pub(crate) fn of(err: &Error) -> Option<Self> {
        let words = err.message();
        let lower = format!("{} {words}", err.code().unwrap_or_default()).to_ascii_lowercase();
        let may_be = match err.status() {
            Some(400 | 422) | None => true,
            // Servers in Python pass the members to a function as arguments, so an unknown member causes an internal
            // error.
            Some(500) => lower.contains("unexpected keyword argument"),
            _ => false,
        };
        if !may_be || err.is_context_full() || !REFUSED.iter().any(|known| lower.contains(known)) {
            return None;
        }
        let mut named: Vec<Vec<String>> = err.param().map(segments).into_iter().collect();
        let located = locations(words);
        let tokens = tokens(words).filter(|_| located.is_empty());
        let mut place = Vec::new();
        for token in tokens {
            // Example: `#/tools/0: extraneous key [strict]`
            if token.starts_with('#') {
                place = segments(token);
            } else {
                named.push(place.iter().cloned().chain(segments(token)).collect());
            }
        }
        named.extend(located);
        named.retain(|path| !path.is_empty());
        let is_of_value = OF_VALUE.iter().any(|known| lower.contains(known));
        Some(Self { named, is_of_value })
    }

    /// Whether the refusal names the member with this path.
    fn is_about(&self, path: &str) -> bool {
        self.named.iter().any(|named| match (path.strip_prefix("*."), path.strip_prefix('=')) {
            // `*`: the name may be anywhere in a path.
            (Some(leaf), _) => named.iter().any(|name| name == leaf),
            (None, Some(alone)) => named.len() == 1 && named.iter().all(|name| name == alone),
            (None, None) => {
                let names = path.split('.');
                names.clone().eq(named.iter().take(names.count()).map(String::as_str))
            }
        })
    }

    /// A text that names the setting for the refused member; `None` without such a setting. `is_sent` returns whether
    /// the body has a member with this name.
    pub(crate) fn advice(&self, is_sent: impl Fn(&str) -> bool) -> Option<String> {
        let name = |path: &'static str| path.trim_start_matches(['*', '.', '=']);
        let sent = |path: &'static str| is_sent(name(path).split('.').next().unwrap_or_default());
        let is_optional =
            |member: &&OptionalMember| member.is_refused_by(self) && sent(member.row().path);
        let optional = OptionalMember::ALL.iter().find(is_optional);
        let asked = ASKED.iter().find(|(path, _)| self.is_about(path) && sent(path));
        let (name, setting, about) = match (asked, optional) {
            (Some((path, setting)), _) => (name(path), *setting, None),
            (None, Some(member)) => (member.name(), member.row().setting, Some(member.row())),
            (None, None) => return None,
        };
        let about = about.map(|row| {
            let MemberRow { purpose, taken_by, wires, .. } = row;
            format!(" (on {}; it {purpose}; taken by {taken_by})", wires.join(", "))
        });
        let about = about.unwrap_or_default();
        Some(format!(
            "`{name}` is controlled by {setting}{about}: change that, or use a server that takes it"
        ))
    }
}

/// The names in a path such as `tools[0].function.strict` or `#/tools/0`, without indexes.
fn segments(path: &str) -> Vec<String> {
    let names = path.split(['.', '/', '[', ']', '#', '*']);
    let names =
        names.filter(|name| !name.is_empty() && !name.bytes().all(|it| it.is_ascii_digit()));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    if names.first().is_some_and(|name| name == "body") {
        names.remove(0);
    }
    names
}

/// The paths in an error of Pydantic: `"loc":["body","tools",0,"strict"]`, as JSON or as Python prints it.
fn locations(words: &str) -> Vec<Vec<String>> {
    let after = words.match_indices("loc").filter_map(|(at, _)| {
        let rest = words.get(at..)?.strip_prefix("loc")?;
        let list = rest.trim_start_matches(['"', '\'', '\\', ' ', ':', '=']);
        let list = list.strip_prefix(['[', '('])?;
        // The list ends at any bracket. A search past an opening bracket takes quadratic time.
        let (list, _) = list.split_once(['[', '(', ']', ')'])?;
        let names = list.split(',').map(|name| name.trim_matches(['"', '\'', '\\', ' ']));
        Some(segments(&names.collect::<Vec<_>>().join(".")))
    });
    after.collect()
}

/// The words of an error that may name a member: quoted words, words after a word such as *parameter*, words before a
/// colon, and words with characters that are unusual in prose, such as `stream_options`.
fn tokens(words: &str) -> impl Iterator<Item = &str> {
    let is_part = |it: char| it.is_ascii_alphanumeric() || "_.-/#[]".contains(it);
    let mut rest = 0;
    std::iter::from_fn(move || {
        loop {
            let from = rest + words.get(rest..)?.find(is_part)?;
            let text = words.get(from..)?;
            let length = text.find(|it| !is_part(it)).unwrap_or(text.len());
            rest = from + length;
            let token = text.get(..length)?.trim_end_matches(['.', '-']);
            let (before, after) = (words.get(..from)?, words.get(from + token.len()..)?);
            let is_quoted = before.ends_with(['\'', '"', '`', '\u{2018}', '\u{201c}'])
                && after.starts_with(['\'', '"', '`', '\\', '\u{2019}', '\u{201d}', '.'])
                || token.starts_with('[') && token.ends_with(']');
            let said = before.trim_end_matches([' ', ':']);
            let word = said.rsplit(|it: char| !it.is_ascii_alphabetic()).next().unwrap_or_default();
            let is_told = said.len() < before.len()
                && BEFORE.iter().any(|known| word.eq_ignore_ascii_case(known));
            let is_label = after.starts_with(':') || after.trim_start().starts_with("Extra inputs");
            let is_subject = (before.trim_end().is_empty() || before.ends_with(": "))
                && [" is not", " are not", " is un", " not supported"]
                    .iter()
                    .any(|verb| after.starts_with(verb));
            let is_name = token.contains('_') || token.contains('.') && !token.starts_with("http");
            if token.len() <= 100 && (is_quoted || is_told || is_label || is_subject || is_name) {
                return Some(token);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{ASKED, OptionalMember};

    #[test]
    fn the_guide_has_each_member() {
        let page = include_str!("../../../guide/servers.md");
        for member in OptionalMember::ALL {
            let row = member.row();
            assert!(page.contains(&format!("`{}`", member.name())), "{member:?}");
            assert!(row.wires.iter().all(|wire| crate::wire::WIRES.contains(wire)), "{member:?}");
        }
        assert!(ASKED.iter().all(|(_, setting)| !setting.is_empty()));
    }
}
