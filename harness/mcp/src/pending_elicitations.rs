//! The questions that a server asks before it runs a call, stored until they are answered.

use harness_schema::SchemaChecker;
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequiredResult,
    InputResponses,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::elicitation::{
    ElicitationHandler, ElicitationOutcome, ElicitingCall, McpElicitation, QUESTIONS, accepted,
};
use harness_core::tool::ToolError;

/// The questions of a server and the answers so far. This is the stored token of a waiting call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PendingElicitations {
    /// A hash of the server's definition of the tool. If the server changes the definition, the answers are discarded.
    definition: String,
    /// How often the server has asked for input, including this time.
    pub(super) rounds: usize,
    /// How many questions a person was asked for the call so far.
    #[serde(default)]
    questions: usize,
    /// The state that the server requires back.
    state: Option<String>,
    given: InputResponses,
    /// The unanswered questions, in order, each with the key of its answer.
    open: Vec<(String, ElicitRequestParams)>,
}

impl PendingElicitations {
    /// Reads the server's questions. Fails with the reason if a person cannot answer the questions.
    pub(super) fn of(
        definition: &str,
        wanted: InputRequiredResult,
        rounds: usize,
    ) -> Result<Self, String> {
        let requests = wanted.input_requests.unwrap_or_default();
        if requests.len() > QUESTIONS {
            return Err(format!(
                "asks {} questions at once, and {QUESTIONS} are allowed",
                requests.len()
            ));
        }
        let open = requests.into_iter().map(|(key, request)| match request {
            InputRequest::Elicitation(request) => Ok((key, request.params)),
            _ => Err("asks for what this program does not give".to_owned()),
        });
        let open = open.collect::<Result<_, _>>()?;
        let (definition, given) = (definition.to_owned(), InputResponses::new());
        Ok(Self { definition, rounds, questions: 0, state: wanted.request_state, given, open })
    }

    /// Reads a stored token, and adds the answer to the first question. If the definition of the tool has changed,
    /// returns `None`, and the call is sent without any answers.
    ///
    /// # Errors
    /// Asks again if the answer does not fit the form. Fails if the token does not belong to a tool of a server.
    pub(super) fn with_answer(
        definition: &str,
        token: &Value,
        answer: &Value,
    ) -> Result<Option<Self>, ToolError> {
        let read = Self::deserialize(token).ok().filter(|wanted| !wanted.open.is_empty());
        let mut wanted = read.ok_or_else(|| {
            ToolError::new("what the call has asked before was not asked by a tool of a server")
        })?;
        if wanted.definition != definition {
            return Ok(None);
        }
        let (key, question) = wanted.open.remove(0);
        match response(&question, answer) {
            Ok(response) => {
                wanted.give(key, response);
                Ok(Some(wanted))
            }
            Err(why) => {
                let form = form(&question);
                wanted.open.insert(0, (key, question));
                let message = format!("{} (The last answer does not fit: {why})", form.message);
                Err(wanted.later(McpElicitation { message, ..form }))
            }
        }
    }

    fn give(&mut self, key: String, response: ElicitResult) {
        self.given.insert(key, serde_json::to_value(response).unwrap_or_default());
    }

    /// Restores the number of questions that were asked for the call before it was continued.
    pub(super) fn restore_count(&self, running: &ElicitingCall) {
        // Tokens of earlier versions lack this number, but contain the answers.
        running.set_questions(self.questions.max(self.given.len()));
    }

    /// Asks the person the unanswered questions, in order.
    ///
    /// # Errors
    /// Fails with a question for the run if the person will answer later.
    pub(super) async fn ask(
        mut self,
        elicitation: &ElicitationHandler,
        running: &ElicitingCall,
    ) -> Result<(Option<InputResponses>, Option<String>), ToolError> {
        while let Some((key, question)) = self.open.first().cloned() {
            match elicitation.ask(question, Some(running)).await {
                ElicitationOutcome::Now(answer) => {
                    self.open.remove(0);
                    self.give(key, answer);
                }
                ElicitationOutcome::Later(form) => {
                    self.questions = running.questions();
                    return Err(self.later(form));
                }
            }
        }
        Ok(((!self.given.is_empty()).then_some(self.given), self.state))
    }

    fn later(&self, form: McpElicitation) -> ToolError {
        let token = serde_json::to_value(self).unwrap_or_default();
        ToolError::asks(form.message, token).with_form(form.schema)
    }
}

/// The form that the person has to fill in.
fn form(question: &ElicitRequestParams) -> McpElicitation {
    let (message, schema) = match question {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            (message.clone(), serde_json::to_value(requested_schema).unwrap_or_default())
        }
        _ => (String::new(), Value::Null),
    };
    McpElicitation { server: String::new(), message, schema }
}

/// Converts an answer into the protocol's format. Fails with the reason if the answer does not fit the form.
fn response(question: &ElicitRequestParams, answer: &Value) -> Result<ElicitResult, String> {
    let is_form = matches!(question, ElicitRequestParams::FormElicitationParams { .. });
    if !is_form || answer.is_null() {
        return Ok(ElicitResult::new(ElicitationAction::Decline));
    }
    let schema = form(question).schema;
    let filled: Map<String, Value> = match answer {
        Value::Object(filled) => filled.clone(),
        // A form with one field may be answered with the value of that field.
        single => match schema.get("properties").and_then(Value::as_object).map(Map::keys) {
            Some(mut names) if names.len() == 1 => {
                names.next().map(|name| (name.clone(), single.clone())).into_iter().collect()
            }
            _ => return Err("it is not an object".to_owned()),
        },
    };
    let filled = Value::Object(filled);
    let filled = match SchemaChecker::new(&schema).map(|checker| checker.read(filled.clone())) {
        Ok(Err((_, faults))) => {
            let faults: Vec<String> = faults.iter().map(|fault| fault.line()).collect();
            return Err(faults.join("; "));
        }
        Ok(Ok(read)) => read,
        // The schema cannot be read here, so the server has to check the answer.
        Err(_) => filled,
    };
    match filled {
        Value::Object(filled) => Ok(accepted(filled)),
        _ => Err("it is not an object".to_owned()),
    }
}
