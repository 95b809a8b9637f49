//! Checks of a final answer by the program: by a function, or by tools.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use harness_schema::WRAPPED;
use serde_json::{Map, Value};

use super::answer_check::OutputSpec;
use crate::{Answering, Chat, Run, Steps, run::driver::RunDriver};
use harness_core::{
    error::{Error, ErrorKind},
    journal::Source,
    message::{CallOutcome, ToolCall},
    tool::{DispatchOutcome, SideEffects, Tool, ToolList},
};

/// The future of a verdict about an answer.
pub(crate) type VerdictFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What checks an answer.
#[derive(Clone)]
pub(crate) enum AnswerVerifier {
    /// A function of the program. It gets the texts of the model's last message.
    Function(Arc<dyn Fn(Vec<String>) -> VerdictFuture + Send + Sync>),
    /// Tools of the program. They get the answer as their arguments.
    Tools(Arc<[Tool]>),
}

/// Makes a verifier of a function that checks the text of an answer.
pub(crate) fn verifier_of_text<F, V, O, E>(verify: F) -> AnswerVerifier
where
    F: Fn(String) -> V + Send + Sync + 'static,
    V: Future<Output = Result<O, E>> + Send + 'static,
    E: fmt::Display,
{
    let verify = Arc::new(verify);
    AnswerVerifier::Function(Arc::new(move |words: Vec<String>| -> VerdictFuture {
        let (text, verify) = (words.into_iter().next().unwrap_or_default(), Arc::clone(&verify));
        Box::pin(async move { objection_of(verify(text).await) })
    }))
}

/// The objection of a function to an answer, as text.
pub(crate) fn objection_of<O, E: fmt::Display>(verdict: Result<O, E>) -> Result<(), String> {
    verdict.map(drop).map_err(|why| match why.to_string() {
        why if why.trim().is_empty() => "the program does not accept it".to_owned(),
        why => why,
    })
}

impl AnswerVerifier {
    fn tools(tools: impl ToolList) -> Self {
        Self::Tools(tools.into_tools().collect())
    }

    /// What its words may come from. A function declares nothing.
    pub(crate) fn sources(&self) -> Vec<Source> {
        match self {
            Self::Function(_) => vec![Source::new("verify", SideEffects::ALL)],
            Self::Tools(tools) => {
                tools.iter().map(|tool| Source::new(tool.name(), tool.side_effects())).collect()
            }
        }
    }
}

impl Run<'_> {
    /// Lets tools of the program check the final answer. [`verify`](Self::verify) says what follows
    /// from their verdict.
    ///
    /// The answer is accepted if each of the tools succeeds. If not, the model is told their
    /// errors. A tool gets the members of an answer that is an object, and any other answer as the
    /// argument `answer`. Members that it does not take are left out, so a tool without arguments
    /// checks what the run has done. The tools have the state and the limits of the agent's tools,
    /// and the model need not know them. The program calls them, so no permission is needed, and
    /// only the verdict is a fact, not the calls. An agent that such a tool runs has limits of its own, and what it
    /// spends does not count for the conversation.
    ///
    /// # Errors
    /// The run fails before its first request if one of the tools may not be repeated: an answer is
    /// checked again if the process ends before the verdict is recorded. The tool has to declare
    /// `"none"` or `"read"`, or be `idempotent`. The run also fails if a tool is an agent or is
    /// answered by the program, or takes a [`State<T>`](harness_core::tool::State) that nobody brings.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}, tool, tools};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Bill {
    ///     items: Vec<u32>,
    ///     sum: u32,
    /// }
    ///
    /// /// Checks the sum of a bill.
    /// #[tool(side_effects = "none")]
    /// fn adds_up(
    ///     /// The prices
    ///     items: Vec<u32>,
    ///     /// The sum
    ///     sum: u32,
    /// ) -> Result<(), String> {
    ///     match items.iter().sum::<u32>() {
    ///         right if right == sum => Ok(()),
    ///         right => Err(format!("the sum of the items is {right}")),
    ///     }
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let model = ScriptedProvider::new([
    /// #     reply().text(r#"{"items": [3, 4], "sum": 8}"#),
    /// #     reply().text(r#"{"items": [3, 4], "sum": 7}"#),
    /// # ]);
    /// # let agent = Agent::builder(model).build()?;
    /// let bill = agent.run("Read the bill.").answer::<Bill>().verify_by(2, tools![adds_up]).await?;
    /// assert_eq!(bill.value().sum, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify_by(self, most: u32, tools: impl ToolList) -> Self {
        let verifier = Some((most, AnswerVerifier::tools(tools)));
        self.with_output_spec(OutputSpec { verifier, ..OutputSpec::default() })
    }
}

impl<T> Answering<'_, T> {
    /// Lets tools of the program check each answer that matches. See [`Run::verify_by`].
    pub fn verify_by(mut self, most: u32, tools: impl ToolList) -> Self {
        self.output_spec.verifier = Some((most, AnswerVerifier::tools(tools)));
        self
    }
}

impl Steps {
    /// Lets tools of the program check the answers, as [`Run::verify_by`] does. The tools are
    /// not part of the facts: set them on the steps of each replay.
    #[must_use]
    pub fn verify_by(mut self, most: u32, tools: impl ToolList) -> Self {
        self.output_spec.get_or_insert_default().verifier =
            Some((most, AnswerVerifier::tools(tools)));
        self
    }
}

impl Chat {
    /// Fails if this tool cannot check answers.
    pub(crate) fn can_verify(&self, tool: &Tool) -> Result<(), Error> {
        let name = tool.name();
        let wrong = |what: String| Error::new(ErrorKind::Configuration, what);
        if tool.is_external() || tool.is_agent() {
            return Err(wrong(format!(
                "`verify_by` takes a tool that is a function, and `{name}` is none: call it in `verify` and say \
                 what its result means"
            )));
        }
        if !tool.side_effects().may_repeat(tool.is_idempotent()) {
            return Err(wrong(format!(
                "`verify_by` takes a tool that may be repeated, since an answer is looked at again if the process \
                 ends before the verdict is written down; `{name}` declares {}, and not that it is idempotent",
                tool.side_effects(),
            )));
        }
        let tools = self.agent.tools().with_only(tool.clone())?;
        let of_run = self.options.as_ref().map(|options| &options.values);
        let given = [self.values.as_ref(), of_run];
        tools.check_state(self.agent.context().values(), |needed| {
            given.into_iter().flatten().any(|values| values.has(needed.id()))
        })
    }
}

impl RunDriver<'_> {
    /// The verdict of these tools about an answer.
    pub(crate) fn by_tools(&self, verifiers: &[Tool], answer: Value) -> VerdictFuture {
        let members = match answer {
            Value::Object(map) => map,
            other => Map::from_iter([(WRAPPED.to_owned(), other)]),
        };
        let mut calls = Vec::new();
        for tool in verifiers {
            let arguments = Value::Object(members_for_tool(tool, &members));
            let call = ToolCall::new("verify", tool.name(), arguments.to_string());
            let context = self.contexts.for_verdict(&call, self.over.token());
            calls.push((self.chat.agent.tools().with_only(tool.clone()), call, context));
        }
        Box::pin(async move {
            let mut wrong = Vec::new();
            for (tools, call, context) in calls {
                let tools = tools.map_err(|error| error.to_string())?;
                match tools.dispatch_call(&call, &context).await {
                    DispatchOutcome::Result(result) if result.outcome() == CallOutcome::Succeeded => {}
                    DispatchOutcome::Result(result) => wrong.push(result.as_text().into_owned()),
                    DispatchOutcome::Waits { .. } => wrong.push(format!(
                        "the tool `{}` asks a person a question, which it cannot do while it checks an answer",
                        call.name()
                    )),
                }
            }
            match wrong.is_empty() {
                true => Ok(()),
                false => objection_of(Err::<(), _>(wrong.join("\n"))),
            }
        })
    }
}

/// The members of an answer that a tool takes.
fn members_for_tool(tool: &Tool, members: &Map<String, Value>) -> Map<String, Value> {
    match tool.input_schema().get("properties") {
        Some(Value::Object(taken)) => {
            let taken = members.iter().filter(|(name, _)| taken.contains_key(*name));
            taken.map(|(name, value)| (name.clone(), value.clone())).collect()
        }
        _ => members.clone(),
    }
}
