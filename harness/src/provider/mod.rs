//! Who answers: the trait, what it is asked, what it says while it answers, and the one
//! accumulator that makes a whole answer of it.
//!
#![doc = include_str!("../../guide/prompt-cache.md")]

mod accumulate;
mod answer;
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

pub(crate) use self::found::{Found, FoundTools};
pub(crate) use self::plan::{Cursor, Draft, Part};
pub(crate) use self::request::VendorsView;
pub(crate) use self::sent::Written;
pub(crate) use self::settings::merge;
pub use self::{
    accumulate::{Accumulator, accumulate},
    answer::{AnswerSchema, AnswerWay},
    context::ContextTokens,
    event::{StreamEvent, VendorPart},
    ledger::{Ledger, Lost},
    limits::AnswerLimits,
    request::Request,
    response::{ProviderResponse, StopReason, Usage},
    sent::Sent,
    settings::{Effort, PromptCache, Settings, ToolChoice},
    wanted::WantedItem,
};
pub(crate) use self::{
    accumulate::{breaks_off, cut_off},
    answer::in_words,
    context::{ContextMeter, tokens_of},
    ledger::Attempt,
    progress::Progress,
    speak::{Speaker, speak},
};
use crate::{error::Error, secret::Secrets};

/// The events of one answer, in order. After an error there are no more.
pub type EventStream<'a> =
    std::pin::Pin<Box<dyn futures_core::Stream<Item = Result<StreamEvent, Error>> + Send + 'a>>;

/// Who answers: a vendor's service, a local server, or a script.
///
/// A provider around a provider is how retry and fallback are made. One that repeats requests marks
/// them with [`Request::retried_outside`], and one that would try again by itself makes one try of
/// a marked request, so that tries do not multiply.
pub trait Provider: Send + Sync {
    /// What it is called in messages and records, such as `anthropic`.
    fn name(&self) -> &str;

    /// The model that it asks.
    fn model(&self) -> &str;

    /// Asks. Nothing happens before the stream is polled, and dropping the stream closes the
    /// connection at once.
    ///
    /// A complete answer ends with [`StreamEvent::Completed`]; a stream that ends without it was
    /// cut off. A failure is the last item.
    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a>;

    /// What it knows to be secret, such as its key. An agent takes it out of the results of tools,
    /// out of error texts and out of traces. A provider around others hands on what they know;
    /// unless a provider says so, it knows nothing.
    fn secrets(&self) -> &Secrets {
        Secrets::none()
    }

    /// Whether it tells the model by itself what the [answer](Request::answer) has to be. If not, and unless it says
    /// so, the agent writes the schema after the message of the user. A provider around others says what
    /// they say.
    fn tells_answer_schema(&self) -> bool {
        false
    }

    /// Whether its vendor sums up a conversation by itself when [asked to](Request::asks_for_summary). Unless a provider
    /// says so, it is not asked. A provider around others says what they say.
    fn has_vendor_summaries(&self) -> bool {
        false
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

    fn secrets(&self) -> &Secrets {
        (**self).secrets()
    }

    fn tells_answer_schema(&self) -> bool {
        (**self).tells_answer_schema()
    }

    fn has_vendor_summaries(&self) -> bool {
        (**self).has_vendor_summaries()
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

    fn secrets(&self) -> &Secrets {
        (**self).secrets()
    }

    fn tells_answer_schema(&self) -> bool {
        (**self).tells_answer_schema()
    }

    fn has_vendor_summaries(&self) -> bool {
        (**self).has_vendor_summaries()
    }
}
