//! Questions of a tool to the client's user. The client answers over the session while the call waits, or in a second
//! call.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest::{SHA256, digest},
    rand::{SecureRandom as _, SystemRandom},
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
        InputRequest, InputRequiredResult,
    },
    service::{Peer, ServiceError},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use harness_core::{
    error::{Error, ErrorKind},
    tool::{Answered, SideEffects, Tool},
};

/// The key of a call's only question, and the name of the field in the default form.
const ANSWER: &str = "answer";

/// A question that a tool asks during a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ToolQuestion {
    /// The id of the call, which is also its idempotency key. The second call has the same id.
    pub(super) call: String,
    pub(super) question: String,
    /// The schema of the answer, if the tool has set one.
    pub(super) form: Option<Value>,
    pub(super) token: Value,
}

/// The client's reply to a question.
#[derive(Debug)]
pub(super) enum QuestionReply {
    Answer(Answered),
    /// There will be no answer. The text is the reason.
    No(String),
    /// There is no answer yet, or the answer does not fit. The value is the question to ask next.
    Again(ToolQuestion),
}

impl ToolQuestion {
    /// The key under which the client sends the answer.
    pub(super) fn key(&self) -> &'static str {
        ANSWER
    }

    /// The schema of the form that the person fills in.
    fn schema(&self) -> Value {
        self.form.clone().unwrap_or_else(|| {
            json!({"type": "object", "properties": {ANSWER: {"type": "string"}}, "required": [ANSWER]})
        })
    }

    /// The question as a request of the protocol.
    fn request(&self) -> Result<ElicitRequestParams, String> {
        let schema: ElicitationSchema = serde_json::from_value(self.schema()).map_err(|err| {
            format!(
                "its tool asks for something that no form of the protocol has: an object whose properties are \
                 texts, numbers, truth values and choices ({err})"
            )
        })?;
        Ok(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.question.clone(),
            requested_schema: schema,
        })
    }

    /// The question as the result of the call.
    pub(super) fn required(&self, state: String) -> Result<InputRequiredResult, String> {
        let request = InputRequest::Elicitation(ElicitRequest::new(self.request()?));
        let requests = BTreeMap::from([(self.key().to_owned(), request)]);
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }

    /// Asks over the session, and waits up to `time` for the reply.
    pub(super) async fn ask(&self, peer: &Peer<RoleServer>, time: Duration) -> QuestionReply {
        let request = match self.request() {
            Ok(request) => request,
            Err(why) => return QuestionReply::No(why),
        };
        match tokio::time::timeout(time, peer.create_elicitation(request)).await {
            Ok(Ok(given)) => self.given(given),
            Ok(Err(ServiceError::McpError(err))) => {
                QuestionReply::No(format!("the question could not be asked: {}", err.message))
            }
            Ok(Err(ServiceError::UnexpectedResponse)) => QuestionReply::No(
                "the client has answered the question with something that cannot be read, so the tool did not go on"
                    .to_owned(),
            ),
            Ok(Err(_)) => QuestionReply::No("the client has gone before it has answered the question".to_owned()),
            Err(_) => QuestionReply::No(format!("nobody has answered within {time:.0?}")),
        }
    }

    /// Reads the reply in the client's second call.
    pub(super) fn read_reply(&self, response: Option<Value>) -> QuestionReply {
        match response.map(serde_json::from_value) {
            Some(Ok(given)) => self.given(given),
            Some(Err(_)) | None => QuestionReply::Again(self.clone()),
        }
    }

    fn given(&self, given: ElicitResult) -> QuestionReply {
        let declined = |what: &str| {
            let question = &self.question;
            QuestionReply::No(format!(
                "the question was {what}, so the tool did not go on: {question}"
            ))
        };
        match given.action {
            ElicitationAction::Accept => {}
            ElicitationAction::Decline => return declined("declined"),
            _ => return declined("put aside"),
        }
        let mut filled = match given.content {
            Some(Value::Object(filled)) => filled,
            _ => Map::new(),
        };
        // The answer is checked against the form in the same way as the arguments of a tool.
        let form =
            Tool::new(ANSWER, "", self.schema(), SideEffects::NONE, |_, _| unreachable_form());
        if let Err(faults) = form.check(&filled) {
            let question =
                format!("{}\n(The last answer does not fit: {})", self.question, faults.join("; "));
            return QuestionReply::Again(Self { question, ..self.clone() });
        }
        let answer = match self.form {
            Some(_) => Value::Object(filled),
            None => filled.remove(ANSWER).unwrap_or_default(),
        };
        QuestionReply::Answer(Answered::new(self.token.clone(), answer))
    }
}

/// The function of a tool that is used only to check a form, so the function is never called.
fn unreachable_form() -> harness_core::tool::ToolFuture {
    Box::pin(async { Ok("".into()) })
}

/// Seals the state that a client stores until its second call. The client cannot read the state, change it, or use it
/// for another call.
#[derive(Clone)]
pub(super) struct StateSeal {
    key: Arc<LessSafeKey>,
    random: SystemRandom,
}

impl fmt::Debug for StateSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateSeal").finish_non_exhaustive()
    }
}

impl StateSeal {
    /// Creates a seal with this key, or with a random one.
    pub(super) fn new(key: Option<[u8; 32]>) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let failed = |_| Error::new(ErrorKind::Configuration, "there are no random numbers");
        let mut bytes = key.unwrap_or_default();
        if key.is_none() {
            random.fill(&mut bytes).map_err(failed)?;
        }
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(failed)?;
        Ok(Self { key: Arc::new(LessSafeKey::new(key)), random })
    }

    /// Seals a question into the state for the client.
    pub(super) fn close(
        &self,
        asked: &ToolQuestion,
        tool: &str,
        arguments: &Value,
    ) -> Result<String, ErrorData> {
        let failed = |_| ErrorData::internal_error("what the tool asks cannot be kept", None);
        let mut kept = serde_json::to_vec(asked).map_err(|_| failed(ring::error::Unspecified))?;
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(failed)?;
        let of = Aad::from(self.of(tool, arguments));
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), of, &mut kept)
            .map_err(failed)?;
        Ok(URL_SAFE_NO_PAD.encode([nonce.as_slice(), &kept].concat()))
    }

    /// Opens the state that a client sends back.
    pub(super) fn open(
        &self,
        state: &str,
        tool: &str,
        arguments: &Value,
    ) -> Result<ToolQuestion, ErrorData> {
        let open = || {
            let mut kept = URL_SAFE_NO_PAD.decode(state).ok()?;
            let (nonce, sealed) = kept.split_at_mut_checked(NONCE_LEN)?;
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let of = Aad::from(self.of(tool, arguments));
            let opened = self.key.open_in_place(nonce, of, sealed).ok()?;
            serde_json::from_slice(opened).ok()
        };
        open().ok_or_else(|| {
            let why = "the request state is not of this call and this server, so nothing was run: call the tool \
                       again without it";
            ErrorData::invalid_params(why, None)
        })
    }

    /// A hash of the call to which the state belongs.
    fn of(&self, tool: &str, arguments: &Value) -> Vec<u8> {
        digest(&SHA256, format!("{tool}\n{arguments}").as_bytes()).as_ref().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> ToolQuestion {
        let token = json!({"step": 1});
        ToolQuestion { call: "c".into(), question: "Sure?".into(), form: None, token }
    }

    #[test]
    fn a_state_is_of_one_call_and_cannot_be_changed() {
        let seal = StateSeal::new(None).expect("a seal");
        let arguments = json!({"a": 1});
        let state = seal.close(&question(), "t", &arguments).expect("a state");
        let opened = seal.open(&state, "t", &arguments).expect("the same");
        assert_eq!(opened.token, json!({"step": 1}));
        assert!(seal.open(&state, "u", &arguments).is_err());
        assert!(seal.open(&state, "t", &json!({"a": 2})).is_err());
        assert!(StateSeal::new(None).expect("another").open(&state, "t", &arguments).is_err());
        let kept = URL_SAFE_NO_PAD.decode(&state).expect("base64");
        assert!(!String::from_utf8_lossy(&kept).contains("step"));
        for at in 0..kept.len() {
            let mut changed = kept.clone();
            changed[at] ^= 1;
            let changed = URL_SAFE_NO_PAD.encode(changed);
            assert!(seal.open(&changed, "t", &arguments).is_err(), "byte {at}");
        }
        for odd in ["", "%", "AAAA"] {
            assert!(seal.open(odd, "t", &arguments).is_err());
        }
        let shared = |_| StateSeal::new(Some([7; 32])).expect("a seal");
        let state = shared(()).close(&question(), "t", &arguments).expect("a state");
        assert!(shared(()).open(&state, "t", &arguments).is_ok());
    }

    #[test]
    fn an_answer_is_checked_before_the_tool_reads_it() {
        let form =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let mut asked = question();
        let heard = |asked: &ToolQuestion, content: Value| {
            asked.read_reply(Some(json!({"action": "accept", "content": content})))
        };
        let QuestionReply::Answer(answered) = heard(&asked, json!({"answer": "yes"})) else {
            panic!("an answer")
        };
        assert_eq!(answered.answer, json!("yes"));
        assert!(matches!(heard(&asked, json!({"other": 1})), QuestionReply::Again(_)));
        assert!(matches!(asked.read_reply(None), QuestionReply::Again(_)));
        assert!(matches!(asked.read_reply(Some(json!("yes"))), QuestionReply::Again(_)));
        asked.form = Some(form);
        let QuestionReply::Again(again) = heard(&asked, json!({"n": "x"})) else {
            panic!("no answer")
        };
        assert!(again.question.contains("`n`"), "{}", again.question);
        let QuestionReply::Answer(answered) = heard(&asked, json!({"n": 3})) else {
            panic!("an answer")
        };
        assert_eq!(answered.answer, json!({"n": 3}));
        for no in ["decline", "cancel"] {
            assert!(matches!(asked.read_reply(Some(json!({"action": no}))), QuestionReply::No(_)));
        }
    }
}
