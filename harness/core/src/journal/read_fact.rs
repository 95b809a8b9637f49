//! Reads facts from their JSON text.
//!
//! A derived reader of [`Fact`] would collect all members before it knows the fact, and the code of every type that a
//! fact contains would exist once more for collected members. Here every type is read from text only. The facts of
//! which a long conversation has most are read in one pass.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor, value},
};
use serde_json::{Value, de::StrRead, value::RawValue};

use super::{CallSpent, Decision, Fact, RecordedLimits};
use crate::{
    message::{Message, ToolResult},
    provider::{StopReason, Usage},
};

impl<'de> Deserialize<'de> for Fact {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        read_fact(&value.to_string()).map_err(D::Error::custom)
    }
}

/// Reads a fact. Its name and its other members can stand in any order, and unknown members are ignored.
pub(super) fn read_fact(json: &str) -> serde_json::Result<Fact> {
    match read_common(json) {
        Some(fact) => Ok(fact),
        None => serde_json::from_str::<Members<'_>>(json)?.fact(),
    }
}

type Reader<'a> = serde_json::Deserializer<StrRead<'a>>;

/// The names of all facts.
const NAMES: &[&str] = &[
    "given",
    "user_said",
    "steered",
    "answer_wanted",
    "answer_accepted",
    "answer_rejected",
    "resumed",
    "reopened",
    "model_replied",
    "interrupted",
    "call_decided",
    "call_waits",
    "call_answered",
    "call_settled",
    "call_undecided",
    "call_cleared",
    "grant_revoked",
    "called_by",
    "forked",
    "call_started",
    "unkept_agent_started",
    "sources_read",
    "call_finished",
    "call_ended",
    "tools_found",
    "context_cleared",
    "compaction_started",
    "context_compacted",
    "compaction_failed",
    "vendor_summary_refused",
    "context_overflowed",
    "context_pinned",
    "prefix_set",
    "prefix_unused",
];

/// The members of a fact, as JSON texts.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl Members<'_> {
    fn fact(&self) -> serde_json::Result<Fact> {
        let name: String = self.required("fact")?;
        Ok(match name.as_str() {
            "given" => Fact::Given { transcript: self.required("transcript")? },
            "user_said" => Fact::UserSaid {
                message: self.required("message")?,
                limits: self.optional("limits")?,
            },
            "steered" => Fact::Steered { message: self.required("message")? },
            "answer_wanted" => Fact::AnswerWanted { answer: self.required("answer")? },
            "answer_accepted" => Fact::AnswerAccepted {},
            "answer_rejected" => Fact::AnswerRejected {
                by: self.required("check")?,
                faults: self.required("faults")?,
                message: self.optional("message")?,
            },
            "resumed" => Fact::Resumed {
                message: self.optional("message")?,
                limits: self.optional("limits")?,
            },
            "reopened" => Fact::Reopened { doubtful: self.optional("doubtful")? },
            "model_replied" => Fact::ModelReplied {
                message: self.optional("message")?,
                stop: self.required("stop")?,
                usage: self.required("usage")?,
                provider: self.required("provider")?,
                model: self.required("model")?,
                asked_model: self.optional("asked_model")?,
            },
            "interrupted" => Fact::Interrupted {
                message: self.optional("message")?,
                usage: self.required("usage")?,
                cause: self.required("cause")?,
                asked: self.optional("asked")?,
            },
            "call_decided" => Fact::CallDecided {
                call: self.required("call")?,
                decision: self.required("decision")?,
            },
            "call_waits" => {
                Fact::CallWaits { call: self.required("call")?, wait: self.required("wait")? }
            }
            "call_answered" => Fact::CallAnswered {
                call: self.required("call")?,
                answer: self.required("answer")?,
                who: self.optional("who")?,
                at: self.required("at")?,
            },
            "call_settled" => Fact::CallSettled {
                result: self.required("result")?,
                who: self.optional("who")?,
                at: self.required("at")?,
                spent: self.optional("spent")?,
            },
            "call_undecided" => Fact::CallUndecided { call: self.required("call")? },
            "call_cleared" => {
                Fact::CallCleared { call: self.required("call")?, spent: self.optional("spent")? }
            }
            "grant_revoked" => {
                Fact::GrantRevoked { call: self.required("call")?, scope: self.required("scope")? }
            }
            "called_by" => Fact::CalledBy {
                conversation: self.required("conversation")?,
                call: self.required("call")?,
                message: self.optional("message")?,
            },
            "forked" => Fact::Forked {},
            "call_started" => Fact::CallStarted { call: self.required("call")? },
            "unkept_agent_started" => Fact::UnkeptAgentStarted { call: self.required("call")? },
            "sources_read" => Fact::SourcesRead {
                call: self.optional("call")?,
                sources: self.required("sources")?,
            },
            "call_finished" => Fact::CallFinished {
                result: self.required("result")?,
                spent: self.optional("spent")?,
            },
            "call_ended" => {
                Fact::CallEnded { tool: self.required("tool")?, result: self.required("result")? }
            }
            "tools_found" => {
                Fact::ToolsFound { call: self.required("call")?, tools: self.required("tools")? }
            }
            "context_cleared" => Fact::ContextCleared {
                results: self.required("results")?,
                arguments: self.optional("arguments")?,
                before: self.required("before")?,
                after: self.required("after")?,
            },
            "compaction_started" => Fact::CompactionStarted {
                provider: self.required("provider")?,
                model: self.required("model")?,
            },
            "context_compacted" => Fact::ContextCompacted {
                messages: self.required("messages")?,
                kept: self.required("kept")?,
                summary: self.required("summary")?,
                vendor: self.optional("vendor")?,
                request: self.required("request")?,
                before: self.required("before")?,
                after: self.required("after")?,
            },
            "compaction_failed" => Fact::CompactionFailed {
                too_large: self.optional("too_large")?,
                request: self.required("request")?,
                cause: self.required("cause")?,
                stopped: self.optional("stopped")?,
                vendor: self.optional("vendor")?,
            },
            "vendor_summary_refused" => {
                Fact::VendorSummaryRefused { cause: self.required("cause")? }
            }
            "context_overflowed" => Fact::ContextOverflowed {
                provider: self.required("provider")?,
                model: self.required("model")?,
                fallback: self.optional("fallback")?,
                window: self.optional("window")?,
                tokens: self.optional("tokens")?,
                estimated: self.required("estimated")?,
            },
            "context_pinned" => Fact::ContextPinned { text: self.required("text")? },
            "prefix_set" => Fact::PrefixSet {
                prefix: self.optional("prefix")?,
                appended: self.optional("appended")?,
                left_out: self.optional("left_out")?,
                messages: self.optional("messages")?,
                change: self.optional("change")?,
                refusal: self.optional("refusal")?,
            },
            "prefix_unused" => Fact::PrefixUnused {},
            _ => return Err(serde_json::Error::unknown_variant(&name, NAMES)),
        })
    }

    fn required<T: DeserializeOwned>(&self, name: &'static str) -> serde_json::Result<T> {
        match self.member(name)? {
            Some(mut value) => T::deserialize(&mut value),
            None => Err(serde_json::Error::missing_field(name)),
        }
    }

    fn optional<T: DeserializeOwned + Default>(&self, name: &'static str) -> serde_json::Result<T> {
        match self.member(name)? {
            Some(mut value) => T::deserialize(&mut value),
            None => Ok(T::default()),
        }
    }

    /// The reader of a member. Exactly one value is in its text.
    fn member(&self, name: &'static str) -> serde_json::Result<Option<Reader<'_>>> {
        let mut found = self.0.iter().filter(|(of, _)| of == name);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(serde_json::Error::duplicate_field(name)),
            (member, None) => Ok(member.map(|(_, value)| Reader::from_str(value.get()))),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fact")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((MemberName(name), value)) = map.next_entry()? {
            members.push((name, value));
        }
        Ok(Members(members))
    }
}

#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

/// A member that the read variant of an enum needs.
pub(super) fn required<T>(member: Option<T>, name: &'static str) -> Result<T, value::Error> {
    match member {
        Some(member) => Ok(member),
        None => Err(value::Error::missing_field(name)),
    }
}

/// The name of a fact, if it is the first member of the JSON text.
pub(super) fn name_of(json: &str) -> Option<&str> {
    let (name, _) = json.strip_prefix(r#"{"fact":""#)?.split_once('"')?;
    Some(name)
}

// One struct for all five facts would be less code, but opening a conversation then takes 7 % more instructions.
macro_rules! common_facts {
    ($($name:literal $fact:ident { $($member:ident: $type:ty),* })*) => {
        /// Reads one of the most frequent facts in one pass. `None` if the text is something else, does not begin with
        /// the name, or has a member that is not known.
        fn read_common(json: &str) -> Option<Fact> {
            match name_of(json)? {
                $($name => {
                    #[derive(Deserialize)]
                    #[serde(deny_unknown_fields)]
                    struct Members {
                        #[serde(rename = "fact")]
                        _name: IgnoredAny,
                        $($member: $type,)*
                    }
                    let Members { _name, $($member),* } = serde_json::from_str(json).ok()?;
                    Some(Fact::$fact { $($member),* })
                })*
                _ => None,
            }
        }
    };
}

common_facts! {
    "user_said" UserSaid { message: Message, limits: Option<Box<RecordedLimits>> }
    "model_replied" ModelReplied {
        message: Option<Message>,
        stop: StopReason,
        usage: Usage,
        provider: String,
        model: String,
        asked_model: Option<String>
    }
    "call_decided" CallDecided { call: String, decision: Decision }
    "call_started" CallStarted { call: String }
    "call_finished" CallFinished { result: ToolResult, spent: Option<Box<CallSpent>> }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::{Members, read_common, read_fact};
    use crate::journal::{Awaited, Decider, Decision, Fact, InterruptCause};

    /// The words by which the source of an enum names its variants.
    fn variants(source: &str, name: &str) -> Vec<String> {
        let begin = format!("pub enum {name} {{\n");
        let body = source.split_once(&begin).unwrap().1.split_once("\n}").unwrap().0;
        let (mut words, mut renamed) = (Vec::new(), None);
        for line in body.lines().filter_map(|line| line.strip_prefix("    ")) {
            if let Some(rest) = line.strip_prefix("#[serde(rename = \"") {
                renamed = rest.split('"').next().map(str::to_owned);
            } else if line.starts_with(char::is_uppercase) {
                let mut word = String::new();
                for letter in line.chars().take_while(|letter| letter.is_alphanumeric()) {
                    if letter.is_uppercase() && !word.is_empty() {
                        word.push('_');
                    }
                    word.extend(letter.to_lowercase());
                }
                words.push(renamed.take().unwrap_or(word));
            }
        }
        words
    }

    /// Checks that the reader of an enum knows each variant, and that its error names all of them.
    fn check_words<T: DeserializeOwned>(source: &str, name: &str, tag: &str) {
        let words = variants(source, name);
        assert!(words.len() > 1, "{name}");
        for word in &words {
            let read = serde_json::from_value::<T>(json!({tag: word}));
            let error = read.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!error.contains("unknown variant"), "{name}: {error}");
        }
        let error = serde_json::from_value::<T>(json!({tag: "?"})).err().unwrap().to_string();
        let listed: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(listed, words, "{name}: {error}");
    }

    #[test]
    fn each_variant_has_a_reader() {
        let (facts, decisions) = (include_str!("fact.rs"), include_str!("decision.rs"));
        check_words::<Fact>(facts, "Fact", "fact");
        check_words::<InterruptCause>(facts, "InterruptCause", "by");
        check_words::<Decision>(decisions, "Decision", "verdict");
        check_words::<Decider>(decisions, "Decider", "decider");
        check_words::<Awaited>(include_str!("wait.rs"), "Awaited", "for");
    }

    #[test]
    fn a_fact_is_read_with_its_members_in_any_order_and_errors_name_the_member() {
        let found =
            r#"{"call":"c","tools":["t"],"later":{"a":[1]},"later":2,"fact":"tools_found"}"#;
        let expected = Fact::ToolsFound { call: "c".into(), tools: vec!["t".into()] };
        assert_eq!(read_fact(found).unwrap(), expected);
        assert_eq!(serde_json::from_str::<Fact>(found).unwrap(), expected);

        let broken = [
            (r#"{"fact":"tools_found","call":"c"}"#, "missing field `tools`"),
            (r#"{"fact":"call_started","call":"c","call":"c"}"#, "duplicate field `call`"),
            (r#"{"fact":"thunder"}"#, "unknown variant `thunder`, expected one of `given`"),
            (r#"{"call":"c"}"#, "missing field `fact`"),
            (r#"{"fact":"call_started","call":3}"#, "invalid type: integer `3`"),
            (
                r#"{"fact":"call_decided","call":"c","decision":{"verdict":"allow"}}"#,
                "missing field `side_effects`",
            ),
            (
                r#"{"fact":"call_waits","call":"c","wait":{"for":"answer","token":1}}"#,
                "missing field `question`",
            ),
            ("[]", "expected a fact"),
        ];
        for (json, expected) in broken {
            let error = read_fact(json).unwrap_err().to_string();
            assert!(error.contains(expected), "{json}: {error}");
        }
    }

    #[test]
    fn a_common_fact_is_read_in_one_pass_as_by_its_members() {
        let message =
            r#"{"id":"m","role":"user","at_ms":1,"blocks":[{"type":"text","text":"a\"b"}]}"#;
        let others = r#"{"id":"m","role":"assistant","at_ms":1,"later":[1],"blocks":[
            {"name":"look","id":"c","type":"tool_call","arguments":"{}"},
            {"type":"reasoning","text":"hm","vendor":{"wire":"chat","json":"{\"a\":1}"}},
            {"type":"image","url":"u"},{"type":"none"}]}"#;
        let result =
            r#"{"call_id":"c","outcome":"succeeded","content":[{"json":{"n":1.5}},{"text":"t"}]}"#;
        let facts = [
            format!(r#"{{"fact":"user_said","message":{message}}}"#),
            format!(r#"{{"fact":"user_said","message":{message},"limits":null}}"#),
            format!(r#"{{"fact":"user_said","message":{message},"limits":{{"turns":3}},"later":[{{}}]}}"#),
            format!(r#"{{"message":{message},"fact":"user_said"}}"#),
            format!(r#"{{"fact":"user_said","message":{others}}}"#),
            format!(r#"{{"fact":"user_said","message":{message},"message":{message}}}"#),
            format!(r#"{{"fact":"user_said","fact":"user_said","message":{message}}}"#),
            format!(r#"{{"fact":"user_said","message":{message}}} "#),
            format!(r#"{{"fact":"user_said","message":{message}}}}}"#),
            r#"{"fact":"user_said"}"#.into(),
            r#"{"fact":"user\u005fsaid"}"#.into(),
            r#"{"fact":"model_replied","stop":"complete","usage":{},"provider":"p","model":"m"}"#.into(),
            format!(r#"{{"fact":"model_replied","message":{},"stop":"complete","usage":{{"input":3}},"provider":"p","model":"m","asked_model":"n"}}"#, others.replace(r#",{"type":"none"}"#, "")),
            format!(r#"{{"fact":"call_finished","result":{result}}}"#),
            r#"{"fact":"call_started","call":"c"}"#.into(),
            r#"{"fact":"call_started","call":3}"#.into(),
            r#"{"fact":"call_decided","call":"c","decision":{"verdict":"deny","reason":"no"}}"#.into(),
            r#"{"fact":"call_decided","call":"c","decision":{"by":{"decider":"nobody"},"reason":"no","verdict":"deny"}}"#.into(),
            r#"{"fact":"call_decided","call":"c","decision":{"verdict":"perhaps"}}"#.into(),
        ];
        let mut read = 0;
        for json in &facts {
            let expected = serde_json::from_str::<Members<'_>>(json).and_then(|it| it.fact()).ok();
            let common = read_common(json);
            assert!(common.is_none() || common == expected, "{json}: {common:?}, {expected:?}");
            read += usize::from(common.is_some());
        }
        assert_eq!(read, 9);
    }
}
