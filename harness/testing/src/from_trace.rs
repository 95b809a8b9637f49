//! Makes a script from a recorded run.

use super::{ScriptedProvider, ScriptedReply, reply};
use harness_core::{
    error::{Error, ErrorKind},
    journal::InterruptCause,
    trace::{Happened, TraceEvent, TracedCall},
};

impl ScriptedProvider {
    /// A provider that repeats the answers of recorded runs in order, with the same calls, stop
    /// reasons and token counts. Use it to turn a recorded run into a test. An answer that broke
    /// off in the recording breaks off again.
    ///
    /// Traces contain no secrets, so secret arguments are replaced by `[secret]`. Traces also
    /// contain no timing, no signatures of thinking, and no pictures.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let agent = Agent::builder(ScriptedProvider::new([reply().text("It is 40.")])).build()?;
    /// let recorded = agent.run("What is 17 + 23?").await?;
    ///
    /// let model = ScriptedProvider::from_trace(recorded.trace().events());
    /// let again = Agent::builder(model.clone()).build()?.run("What is 17 + 23?").await?;
    /// assert_eq!(again.text(), recorded.text());
    /// model.assert_finished();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_trace(events: &[TraceEvent]) -> Self {
        let mut replies = Vec::new();
        let mut asked = false;
        let mut who = None;
        for event in events {
            match &event.what {
                Happened::RunStarted { provider, model, .. } => {
                    asked = false;
                    who = who.or(Some((provider, model)));
                }
                Happened::TurnStarted { .. } => asked = true,
                Happened::ModelReplied { text, reasoning, calls, stop, usage, .. } => {
                    asked = false;
                    let said = reply_of(reasoning, text, calls);
                    replies.push(said.stop(*stop).usage(*usage));
                }
                // An error between two turns stopped the run, but belongs to no answer.
                Happened::Interrupted { cause, text, calls, .. } if asked => {
                    asked = false;
                    let text = text.strip_suffix("\n\n[interrupted]").unwrap_or(text);
                    let said = reply_of("", text, calls);
                    replies.push(match cause {
                        InterruptCause::Failure { error, .. } => {
                            said.error(Error::new(ErrorKind::CutOff, error))
                        }
                        InterruptCause::Program
                        | InterruptCause::Limit { .. }
                        | InterruptCause::Denial { .. } => said.stall(),
                    });
                }
                _ => {}
            }
        }
        let (provider, model) = who.map_or(("scripted", "scripted"), |(name, model)| (name, model));
        Self::new(replies).with_name(provider).with_model(model)
    }
}

fn reply_of(reasoning: &str, text: &str, calls: &[TracedCall]) -> ScriptedReply {
    let said = if reasoning.is_empty() { reply() } else { reply().reasoning(reasoning) };
    let said = if text.is_empty() { said } else { said.text(text) };
    calls.iter().fold(said, |said, TracedCall { call, tool, arguments }| {
        said.begin_call(call, tool).arguments(arguments).end_call()
    })
}
