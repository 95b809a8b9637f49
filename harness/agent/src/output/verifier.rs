//! Checks of a final answer by the program: by a function, or by tools.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::model_notices::OBJECTION;
use harness_core::{
    journal::Source,
    tool::{SideEffects, Tool, ToolList},
};

/// The future of a verdict about an answer. The error is the objection.
pub(crate) type VerdictFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The function or the tools that check an answer.
#[derive(Clone)]
pub(crate) enum AnswerVerifier {
    /// A function of the program. It gets the texts of the model's last message.
    Function(Arc<dyn Fn(Vec<String>) -> VerdictFuture + Send + Sync>),
    /// Tools of the program. They get the answer as their arguments.
    Tools(Arc<[Tool]>),
}

/// Makes a verifier from a function that checks the text of an answer.
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

/// The verdict with the objection as text. An empty objection is replaced by a general one.
pub(crate) fn objection_of<O, E: fmt::Display>(verdict: Result<O, E>) -> Result<(), String> {
    verdict.map(drop).map_err(|why| match why.to_string() {
        why if why.trim().is_empty() => OBJECTION.to_owned(),
        why => why,
    })
}

impl AnswerVerifier {
    pub(crate) fn tools(tools: impl ToolList) -> Self {
        Self::Tools(tools.into_tools().collect())
    }

    /// The sources of the text of an objection. A function declares no side effects, so the library
    /// assumes all side effects.
    pub(crate) fn sources(&self) -> Vec<Source> {
        match self {
            Self::Function(_) => vec![Source::new("verify", SideEffects::ALL)],
            Self::Tools(tools) => {
                tools.iter().map(|tool| Source::new(tool.name(), tool.side_effects())).collect()
            }
        }
    }
}
