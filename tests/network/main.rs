//! What others on the network decide: which way a request takes, how long it is waited for, and how much memory an answer
//! needs.

mod answers;
mod patterns;
mod proxies;
mod waits;

use harness::{
    AnthropicProvider, Error, Message, Provider, Transcript,
    policy::RetryPolicy,
    provider::{ProviderResponse, Request, accumulate},
};
use harness_test_support::measured;

/// Asks once.
async fn ask(provider: &impl Provider) -> Result<ProviderResponse, Error> {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).expect("a message");
    accumulate(provider.stream(Request::new(&transcript).expect("a request"))).await
}

/// A provider that tries once.
fn anthropic(url: &str) -> AnthropicProvider {
    let provider = AnthropicProvider::builder().api_key("k").base_url(url).build();
    provider.expect("a provider").with_retry(RetryPolicy::none())
}
