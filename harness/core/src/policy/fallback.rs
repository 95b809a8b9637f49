//! A provider that sends a request to another provider if the first provider is down.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    RetryPolicy,
    relay::{AfterAttempt, FailedAttempt, relay},
    retry_provider::RetryLoop,
};
use crate::{
    error::{Error, ErrorKind},
    provider::{
        AttemptRecord, EventStream, Provider, ReasoningBinding, Request, StreamEvent, stream_events,
    },
    secret::Secrets,
};

/// The default time for which a provider that is down is skipped.
const COOL_DOWN: Duration = Duration::from_secs(60);

/// A provider that sends each request to the first of several providers. If that provider is down, the request goes to
/// the next provider.
///
/// A provider counts as down after a failure that another provider may not have: the provider cannot be reached, does
/// not respond, is overloaded, refuses the key, has no quota left, or does not have the model. After a bad request, no
/// other provider is tried, since every provider would refuse the request. There is one exception: if a provider cannot
/// take a file in the message, the next provider is tried. Once the program has received a part of the answer, no other
/// provider is tried.
///
/// A provider makes all the attempts that its own policy allows before it counts as down. The limits in
/// [`RetryPolicy::run`] apply to all providers together. [`with_retry`](Self::with_retry) sets one policy for all of
/// them, such as one attempt each. If a [`RetryProvider`](super::RetryProvider) wraps this provider, each provider
/// makes one attempt, and each retry goes through the providers again.
///
/// A provider that is down is skipped for a while, unless all other providers fail too. `Reply::provider` and the facts
/// name the provider that answered. If all providers fail, the result is the error of the first provider, [followed
/// by](Error::later) the errors of the other providers.
///
/// ```
/// use harness::{Agent, policy::FallbackProvider, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let first = ScriptedProvider::new([reply().overloaded()]).with_name("first");
/// let second = ScriptedProvider::new([reply().text("Here I am.")]).with_name("second");
/// let agent = Agent::builder(FallbackProvider::new(first).or(second)).build()?;
/// let reply = agent.run("Are you there?").await?;
/// assert_eq!((reply.text(), reply.provider()), ("Here I am.", "second"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FallbackProvider {
    first: FallbackMember,
    others: Vec<FallbackMember>,
    cool_down: Duration,
    /// The secrets of all member providers.
    secrets: Secrets,
    /// The retry policy that replaces the members' own policies.
    retry: Option<RetryLoop>,
}

struct FallbackMember {
    provider: Box<dyn Provider>,
    down_until: Mutex<Option<Instant>>,
}

impl FallbackProvider {
    /// Creates a provider that sends each request to `first`. The new provider has the name and the model
    /// of `first`.
    pub fn new(first: impl Provider + 'static) -> Self {
        let secrets = first.secrets().clone();
        let (first, others) = (FallbackMember::new(first), Vec::new());
        Self { first, others, cool_down: COOL_DOWN, secrets, retry: None }
    }

    /// Adds a provider that is tried when all providers before it are down.
    #[must_use]
    pub fn or(mut self, next: impl Provider + 'static) -> Self {
        self.secrets = self.secrets.and(next.secrets());
        self.others.push(FallbackMember::new(next));
        self
    }

    /// Sets the time for which a provider that is down is skipped; 60 s unless set. If the server asks for a longer
    /// time, that time applies.
    #[must_use]
    pub fn with_cool_down(mut self, time: Duration) -> Self {
        self.cool_down = time;
        self
    }

    /// Sets one retry policy that replaces the policies of all providers. The next provider is tried only after this
    /// policy gives up.
    ///
    /// ```
    /// use harness::{FallbackProvider, RetryPolicy, testing::ScriptedProvider};
    ///
    /// let (first, second) = (ScriptedProvider::new([]), ScriptedProvider::new([]));
    /// // The second one is asked as soon as the first one fails.
    /// let one_try = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    /// let provider = FallbackProvider::new(first).or(second).with_retry(one_try);
    /// # let _ = provider;
    /// ```
    #[must_use]
    pub fn with_retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(RetryLoop::new(policy));
        self
    }

    fn members(&self) -> impl Iterator<Item = &FallbackMember> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// All member providers, each with its index: first the members that are up, in order, then the members that are
    /// down.
    fn order(&self) -> Vec<(usize, &FallbackMember)> {
        let now = Instant::now();
        let (down, mut order): (Vec<_>, Vec<_>) =
            self.members().enumerate().partition(|(_, member)| member.is_down(now));
        order.extend(down);
        order
    }

    /// Sends the request to a member. Retries by the common policy if it is set, and by the member's own policy
    /// otherwise.
    fn ask<'a>(&'a self, member: &'a FallbackMember, request: Request<'a>) -> EventStream<'a> {
        match &self.retry {
            Some(retry) => retry.stream(request, |request| member.provider.stream(request)),
            None => member.provider.stream(request),
        }
    }
}

impl FallbackMember {
    fn new(provider: impl Provider + 'static) -> Self {
        Self { provider: Box::new(provider), down_until: Mutex::new(None) }
    }

    fn is_down(&self, now: Instant) -> bool {
        self.down_until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| now < at)
    }

    fn set_down(&self, until: Option<Instant>) {
        *self.down_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

impl Provider for FallbackProvider {
    fn name(&self) -> &str {
        self.first.provider.name()
    }

    fn model(&self) -> &str {
        self.first.provider.model()
    }

    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn tells_answer_schema(&self) -> bool {
        self.members().all(|member| member.provider.tells_answer_schema())
    }

    fn has_vendor_summaries(&self) -> bool {
        self.members().any(|member| member.provider.has_vendor_summaries())
    }

    fn reasoning_binding(&self, request: &Request<'_>) -> ReasoningBinding {
        let all = self.members().map(|member| member.provider.reasoning_binding(request));
        all.reduce(ReasoningBinding::and).unwrap_or_default()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        stream_events(move |speaker| async move {
            let mut failed: Option<Error> = None;
            let mut order = self.order();
            if request.is_summary_request() {
                order.retain(|(_, member)| member.provider.has_vendor_summaries());
            }
            let mut order = order.into_iter().peekable();
            while let Some((number, member)) = order.next() {
                let name = member.provider.name();
                let ahead = StreamEvent::AnsweredBy {
                    provider: name.to_owned(),
                    model: member.provider.model().to_owned(),
                };
                let attempt = AttemptRecord::begin(&request);
                let asked = self.ask(member, request.clone().of_member(number));
                let tried = relay(asked, Some(&ahead), AfterAttempt::Something, &speaker).await;
                let Err(FailedAttempt { error, said }) = tried else {
                    return member.set_down(None);
                };
                let error = if number > 0 { error.by_fallback() } else { error };
                if said {
                    return speaker.send(Err(error.with_provider(name))).await;
                }
                attempt.failed();
                // A provider that cannot take a file in the message still takes other requests.
                let cannot_take = error.last().is_content();
                let is_down = another_may_answer(error.last());
                let goes_on = is_down || cannot_take;
                if is_down {
                    let wait = self.cool_down.max(error.retry_after().unwrap_or_default());
                    member.set_down(Instant::now().checked_add(wait));
                }
                let cause = error.to_string();
                let error = error.with_provider(name);
                let so_far = match failed.take() {
                    None => error,
                    Some(first) => first.with_later(error),
                };
                let next = order.peek().filter(|_| goes_on);
                let Some((_, next)) = next else { return speaker.send(Err(so_far)).await };
                failed = Some(so_far);
                let (from, to) = (name.to_owned(), next.provider.name().to_owned());
                speaker.send(Ok(StreamEvent::FallingBack { from, to, cause })).await;
            }
        })
    }
}

/// Whether another provider may succeed after this failure.
fn another_may_answer(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Connect | ErrorKind::Timeout | ErrorKind::CutOff | ErrorKind::Protocol => true,
        ErrorKind::Api if error.is_out_of_quota() => true,
        ErrorKind::Api => match error.status() {
            Some(status) => !matches!(status, 400 | 413 | 422),
            None => {
                let code = error.code().unwrap_or_default();
                !BAD_REQUEST.iter().any(|bad| code.contains(bad))
            }
        },
        // Faults or limits of the program itself: every provider would fail.
        ErrorKind::Configuration
        | ErrorKind::Transcript
        | ErrorKind::ContextFull
        | ErrorKind::Content
        | ErrorKind::TooLarge
        | ErrorKind::Limit
        | ErrorKind::Journal
        | ErrorKind::Conflict
        | ErrorKind::Busy
        | ErrorKind::NotWaiting
        | ErrorKind::Panicked
        | ErrorKind::Closed => false,
    }
}

/// An error code that contains one of these texts means a bad request. The codes are needed for errors inside a stream,
/// which have no status.
const BAD_REQUEST: [&str; 5] =
    ["invalid_request", "invalid_prompt", "too_large", "context_length", "policy"];

impl fmt::Debug for FallbackProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = Instant::now();
        let members = self.members().map(|member| {
            let state = if member.is_down(now) { "down" } else { "up" };
            (member.provider.name(), member.provider.model(), state)
        });
        f.debug_list().entries(members).finish()
    }
}
