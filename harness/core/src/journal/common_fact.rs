//! Reads the facts of which a long conversation has most, in one pass over their JSON text.
//!
//! The name of a fact may stand anywhere in its JSON object, so serde keeps all members until it has found the name.
//! This library writes the name first. Text that cannot be read in one pass is read through serde, which decides
//! whether it is a fact, and which error it is otherwise.

use serde::{Deserialize, de::IgnoredAny};

use super::{CallSpent, Decision, Fact, RecordedLimits};
use crate::{
    message::{Message, ToolResult},
    provider::{StopReason, Usage},
};

/// The name of a fact, if it is the first member of the JSON text.
pub(super) fn name_of(json: &str) -> Option<&str> {
    let (name, _) = json.strip_prefix(r#"{"fact":""#)?.split_once('"')?;
    Some(name)
}

macro_rules! common_facts {
    ($($name:literal $fact:ident { $($member:ident: $type:ty),* })*) => {
        /// Reads one of the most frequent facts. `None` if the text is something else.
        pub(super) fn read_common(json: &str) -> Option<Fact> {
            match name_of(json)? {
                $($name => {
                    // Serde decides about members that are not known.
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
    use super::read_common;
    use crate::journal::Fact;

    #[test]
    fn a_common_fact_is_read_as_any_fact() {
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
            let expected = serde_json::from_str::<Fact>(json).ok();
            let common = read_common(json);
            assert!(common.is_none() || common == expected, "{json}: {common:?}, {expected:?}");
            read += usize::from(common.is_some());
        }
        assert_eq!(read, 9);
    }
}
