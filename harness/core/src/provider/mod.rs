//! Providers: the trait, the request, the events of an answer, and the accumulator that builds a whole answer from its
//! events.

mod accumulate;
mod answer;
mod binding;
mod context;
mod escape;
mod event;
mod found;
mod ledger;
mod limits;
mod plan;
mod progress;
mod repeats;
mod request;
mod response;
mod sent;
mod settings;
mod speak;
mod wanted;

use std::sync::Arc;

#[doc(hidden)]
pub use self::found::FoundTools;
pub use self::found::ToolSearches;
pub(crate) use self::ledger::AttemptRecord;
pub use self::plan::{BodyDraft, DraftMark, EncodedPart, PartCursor};
#[doc(hidden)]
pub use self::request::VendorsView;
pub use self::sent::EncodedMessages;
pub use self::settings::merge;
pub use self::speak::{EventSender, ForwardedStream, stream_events};
pub use self::{
    accumulate::{Accumulator, accumulate},
    answer::{OutputMode, OutputSchema},
    binding::{PrefixAddition, ReasoningBinding},
    context::ContextTokens,
    event::{StreamEvent, VendorPart},
    ledger::{RetryAccounting, RetryCost},
    limits::ResponseSizeLimits,
    request::Request,
    response::{ProviderResponse, StopReason, Usage},
    sent::EncodedPrefix,
    settings::{Effort, PromptCache, Settings, ToolChoice},
    wanted::WantedItem,
};
#[doc(hidden)]
pub use self::{
    accumulate::{CallPiece, breaks_off},
    answer::in_words,
    context::{ContextMeter, tokens_of},
};
pub use self::{
    answer::RequestPurpose,
    progress::JsonProgress,
    response::{cut_off, update_count},
};
use crate::{error::Error, secret::Secrets};

/// The events of one answer, in order. An error is the last item of the stream.
pub type EventStream<'a> =
    std::pin::Pin<Box<dyn futures_core::Stream<Item = Result<StreamEvent, Error>> + Send + 'a>>;

/// A source of answers: a vendor's service, a local server, or a script.
///
/// Retries and fallbacks are providers that wrap other providers. A provider that retries requests marks them with
/// [`Request::with_outer_retries`]. Any other provider makes only one attempt for a marked request, so that retries do not
/// multiply.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a provider",
    label = "not a provider",
    note = "`AnthropicProvider::from_env()?` asks Anthropic's models with the key in the environment, and `AnthropicProvider::builder().model(\"..\")` chooses one; other vendors have providers of their own",
    note = "`provider_from_env()?` takes the provider that the variable `PROVIDER` names"
)]
pub trait Provider: Send + Sync {
    /// The provider's name in messages and records, such as `anthropic`.
    fn name(&self) -> &str;

    /// The model that the provider uses.
    fn model(&self) -> &str;

    /// Sends the request and returns the events of the answer. Nothing is sent before the stream is polled. Dropping
    /// the stream closes the connection at once.
    ///
    /// A complete answer ends with [`StreamEvent::Completed`]. A stream that ends without this event was cut off. An
    /// error is the last item of the stream.
    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a>;

    /// The wrapped provider, if this provider wraps exactly one other provider. Default: `None`. The default
    /// implementations of the other methods return the values of the wrapped provider. A provider that wraps
    /// several providers implements the other methods itself.
    fn inner(&self) -> Option<&dyn Provider> {
        None
    }

    /// The secrets of the provider, such as its key. An agent removes these secrets from tool results, error texts
    /// and traces. A provider that wraps other providers must return all their secrets. Default: none.
    fn secrets(&self) -> &Secrets {
        match self.inner() {
            Some(inner) => inner.secrets(),
            None => Secrets::none(),
        }
    }

    /// Whether the provider itself sends the model the schema of the [answer](Request::answer). If not (the default),
    /// the agent writes the schema after the user's message. A provider that wraps another provider returns that
    /// provider's value.
    fn tells_answer_schema(&self) -> bool {
        self.inner().is_some_and(|inner| inner.tells_answer_schema())
    }

    /// Whether the vendor can summarize a conversation by [`Request::is_summary_request`]. If not (the default), the
    /// agent sends no such request. A provider that wraps another provider returns that provider's value.
    fn has_vendor_summaries(&self) -> bool {
        self.inner().is_some_and(|inner| inner.has_vendor_summaries())
    }

    /// What the model's reasoning is bound to in requests with the settings, the answer schema and the tools of
    /// `request`. `request` may have no messages. By default nothing is bound: reasoning is then sent even if earlier
    /// content has changed. A provider that wraps another provider returns that provider's value. A provider that
    /// requests the answer through a tool [names the tool](ReasoningBinding::with_answer_tool). The agent then adds
    /// this tool to the request.
    fn reasoning_binding(&self, request: &Request<'_>) -> ReasoningBinding {
        self.inner().map(|inner| inner.reasoning_binding(request)).unwrap_or_default()
    }
}

impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn model(&self) -> &str {
        (**self).model()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        (**self).stream(request)
    }

    fn inner(&self) -> Option<&dyn Provider> {
        (**self).inner()
    }

    fn secrets(&self) -> &Secrets {
        (**self).secrets()
    }

    fn tells_answer_schema(&self) -> bool {
        (**self).tells_answer_schema()
    }

    fn has_vendor_summaries(&self) -> bool {
        (**self).has_vendor_summaries()
    }

    fn reasoning_binding(&self, request: &Request<'_>) -> ReasoningBinding {
        (**self).reasoning_binding(request)
    }
}

impl<P: Provider + ?Sized> Provider for Box<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn model(&self) -> &str {
        (**self).model()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        (**self).stream(request)
    }

    fn inner(&self) -> Option<&dyn Provider> {
        (**self).inner()
    }

    fn secrets(&self) -> &Secrets {
        (**self).secrets()
    }

    fn tells_answer_schema(&self) -> bool {
        (**self).tells_answer_schema()
    }

    fn has_vendor_summaries(&self) -> bool {
        (**self).has_vendor_summaries()
    }

    fn reasoning_binding(&self, request: &Request<'_>) -> ReasoningBinding {
        (**self).reasoning_binding(request)
    }
}
