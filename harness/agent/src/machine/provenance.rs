//! The origin of each answer of a conversation: provider, model and tokens.

use std::{collections::HashMap, sync::Arc};

use harness_core::{
    message::Message,
    models::Models,
    provider::{StopReason, Usage},
};

/// The origin of an answer of the model, and the tokens of the answer.
///
/// [`Chat::provenance`](crate::Chat::provenance) finds the origin by the id of the message. The library makes
/// this value from the facts of the conversation, so it is the same after the conversation was opened again.
/// Vendors never get this value.
///
/// ```
/// use harness::{Agent, message::Role, models::{Models, Price}, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([reply().text("Yes.").tokens(100_000, 10_000)]);
/// let mut chat = Agent::builder(model.with_model("my-model")).build()?.chat();
/// chat.send("Is it?").await?;
/// let models = Models::default().with("my-model", Price::new(2.0, 10.0));
/// for message in chat.transcript().messages().iter().filter(|it| it.role() == Role::Assistant) {
///     let from = chat.provenance(message.id()).expect("an answer of this conversation");
///     assert_eq!((&*from.model, from.usage.output), ("my-model", Some(10_000)));
///     assert_eq!(from.cost(&models), Some(0.3));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Provenance {
    /// The provider that gave the answer, which may be a fallback.
    pub provider: String,
    /// The vendor's name of the model that answered.
    pub model: String,
    /// The name of the requested model, if the answer names another model.
    pub asked_model: Option<String>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// The tokens of the request and of the answer.
    pub usage: Usage,
}

impl Provenance {
    /// The cost of the answer, by the prices in this table. `None` if the model has no price or the provider
    /// has not reported any token counts.
    pub fn cost(&self, models: &Models) -> Option<f64> {
        let asked = self.asked_model.as_deref();
        models.price(&self.provider, &self.model, asked)?.of(&self.usage)
    }
}

/// The origins of the answers of a conversation, by the ids of their messages. A clone is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerProvenances(Arc<HashMap<Box<str>, Arc<Provenance>>>);

impl AnswerProvenances {
    pub(super) fn insert(&mut self, message: &Message, provenance: Arc<Provenance>) {
        Arc::make_mut(&mut self.0).insert(message.id().into(), provenance);
    }

    pub(crate) fn get(&self, message: &str) -> Option<&Provenance> {
        self.0.get(message).map(|it| &**it)
    }
}
