//! An agent as a tool of another agent.

use std::{borrow::Cow, pin::Pin, sync::Arc, time::Duration};

use harness_schema::output_schema;
use serde_json::json;

use super::{child_run::left_in_doubt, host::effects_of};
use crate::{
    Agent, Answer, Stopped,
    model_notices::{AGENT_TASK, agent_stopped},
};
use harness_core::{
    message::ToolContent,
    secret::beginning,
    tool::{Tool, ToolContext, ToolError, ToolOutput},
};

/// The maximum number of bytes of a stopped agent's last text that the calling model gets.
const LAST_WORDS: usize = 4096;

/// The future of a call of an agent that is a tool.
type AgentToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

impl Agent {
    /// Makes the agent a tool for another agent. A call has a task as text, and the agent's answer is the
    /// result of the call. The calling model gets the name and the description.
    ///
    /// - The tool declares all side effects that the agent's tools declare. So calls of agents that only read
    ///   run at the same time, and all other calls run one after the other. A call does not start before the
    ///   model's answer is complete, because an agent costs money.
    /// - The agent runs inside the future of its caller: a stop of the caller also stops the agent.
    /// - The agent has its own conversation. If the caller's conversation is in a
    ///   [journal](harness_core::journal), the agent's conversation is stored there as `<caller>/<call id>`. If
    ///   the process ends, the agent continues there later. The agent's conversation is deleted together with
    ///   the caller's conversation. Without a journal, the agent's conversation ends with the call.
    /// - The agent's spending counts for its caller and is limited by the caller's limits: see
    ///   [`Budget`](harness_core::policy::Budget).
    /// - The agent's own [permissions](harness_core::policy::Permissions) and the permissions of its callers
    ///   apply to its calls; the strictest decision counts. Approval requests go to the caller's approver, with
    ///   the names of the agents that lead to the call
    ///   ([`ApprovalRequest::agents`](harness_core::policy::ApprovalRequest::agents)).
    /// - Values that each run of the agent must set ([`state_per_run`](crate::AgentBuilder::state_per_run)) are
    ///   taken from the caller's run.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let reviewer = Agent::builder(ScriptedProvider::new([reply().text("Line 3 is wrong.")]))
    ///     .system("You review code.")
    ///     .build()?;
    /// let model = ScriptedProvider::new([
    ///     reply().call("review", json!({"task": "Review main.rs."})),
    ///     reply().text("There is a mistake in line 3."),
    /// ]);
    /// let lead = Agent::builder(model).tools([reviewer.as_tool("review", "Reviews code.")]).build()?;
    /// assert_eq!(lead.run("Is it right?").await?.text(), "There is a mistake in line 3.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A function with `#[tool]` can also run an agent inside its call: see
    /// [`Run::in_call`](crate::Run::in_call). [`as_tool_answering`](Self::as_tool_answering) makes a tool of an
    /// agent whose answer is a value.
    pub fn as_tool(
        &self,
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
    ) -> Tool {
        self.tool_by(name, description, |agent, task, context| {
            Box::pin(async move {
                let reply = agent.run(task).in_call(&context).await?;
                Ok(reply.text().into())
            })
        })
    }

    /// Makes the agent a tool whose result is an answer of type `T`: see [`as_tool`](Self::as_tool) and
    /// [`Run::answer`](crate::Run::answer). The calling model gets the value as JSON, and the program gets it
    /// by [`Reply::results`](crate::Reply::results). The schema of `T` is the tool's [output
    /// schema](Tool::output_schema). If no answer is accepted, the call fails, and its error has the faults of
    /// the answer.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// use serde_json::json;
    ///
    /// /// A fault in a program.
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Fault {
    ///     line: u32,
    ///     why: String,
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text(r#"[{"line": 3, "why": "It never ends."}]"#)]);
    /// let reviewer = Agent::builder(model).system("You review code.").build()?;
    /// let model = ScriptedProvider::new([
    ///     reply().call("review", json!({"task": "Review main.rs."})),
    ///     reply().text("Line 3 is wrong."),
    /// ]);
    /// let review = reviewer.as_tool_answering::<Vec<Fault>>("review", "Reviews code.");
    /// let reply = Agent::builder(model).tools([review]).build()?.run("Is it right?").await?;
    /// let found: Vec<Vec<Fault>> = reply.results().of("review")?;
    /// assert_eq!((found[0][0].line, found[0][0].why.as_str()), (3, "It never ends."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn as_tool_answering<T: Answer>(
        &self,
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
    ) -> Tool {
        let tool = self.tool_by(name, description, |agent, task, context| {
            Box::pin(async move {
                let answered = agent.run(task).in_call(&context).answer::<T>().await?;
                let json = answered.json().map_err(|faults| ToolError::new(faults.join("; ")))?;
                Ok(ToolContent::Json(json).into())
            })
        });
        match output_schema::<T>() {
            Some(schema) => tool.with_output_schema(schema),
            None => tool,
        }
    }

    fn tool_by(
        &self,
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        run: fn(Self, String, ToolContext) -> AgentToolFuture,
    ) -> Tool {
        let schema = json!({
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": AGENT_TASK,
                },
            },
            "required": ["task"],
        });
        let agent = self.clone();
        let tool = Tool::new(
            name,
            description,
            schema,
            effects_of(self.tools()),
            move |context, given| {
                let task = given.get("task").and_then(|task| task.as_str()).unwrap_or_default();
                run(agent.clone(), task.to_owned(), context)
            },
        );
        // This tool has no time limit, because the agent's own guardrails limit how long its run may take.
        let agent = Arc::new(self.clone());
        tool.with_time_limit(Duration::MAX).of_agent(agent, self.tools(), self.per_run())
    }
}

/// The error of a failed call. Its text is for the calling model, and its cause is the [`Stopped`].
impl From<Stopped> for ToolError {
    fn from(stopped: Stopped) -> Self {
        let last = beginning(stopped.text(), LAST_WORDS);
        let text = agent_stopped(&stopped.reason_for_caller(), stopped.outcome(), &last);
        let error = match left_in_doubt(&stopped) {
            true => Self::in_doubt(text),
            false => Self::new(text),
        };
        error.with_source(stopped)
    }
}
