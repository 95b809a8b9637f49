//! A provider that asks another one when one is down.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::relay::{Failure, relay};
use crate::{
    error::{Error, ErrorKind},
    provider::{Attempt, EventStream, Ledger, Provider, Request, StreamEvent, speak},
};

/// How long a provider that is down is passed over, unless set.
const COOL_DOWN: Duration = Duration::from_secs(60);

/// A provider that asks the first of several, and the next one when one is down.
///
/// One is down when it fails in a way that another one would not share: it cannot be reached, it
/// is silent or overloaded (with a [`RetryProvider`](super::RetryProvider) around it: for good),
/// it refuses the key, the money is gone, or it does not have the model. A bad request is bad
/// everywhere, so that the next one is not asked. Neither is it when something of the answer has
/// been handed out already.
///
/// One that is down is passed over for a while, and asked again before that only if all others fail
/// too. Who answered is told by [`Reply::provider`](crate::Reply::provider) and in the facts. When
/// all fail, the error is that of the first, [followed by](Error::later) the others.
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
    first: Member,
    others: Vec<Member>,
    cool_down: Duration,
}

struct Member {
    provider: Box<dyn Provider>,
    down_until: Mutex<Option<Instant>>,
}

impl FallbackProvider {
    /// A provider that asks this one first. It gives the whole its name and its model.
    pub fn new(first: impl Provider + 'static) -> Self {
        Self { first: Member::new(first), others: Vec::new(), cool_down: COOL_DOWN }
    }

    /// Adds one that is asked when all before it are down.
    #[must_use]
    pub fn or(mut self, next: impl Provider + 'static) -> Self {
        self.others.push(Member::new(next));
        self
    }

    /// Sets how long one that is down is passed over; 60 s unless set. If the server asks for more
    /// time than that, it has it.
    #[must_use]
    pub fn with_cool_down(mut self, time: Duration) -> Self {
        self.cool_down = time;
        self
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// All of them: first those that are up, in order, then those that are down.
    fn order(&self) -> Vec<&Member> {
        let now = Instant::now();
        let (down, mut order): (Vec<&Member>, Vec<&Member>) =
            self.members().partition(|member| member.is_down(now));
        order.extend(down);
        order
    }
}

impl Member {
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

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        speak(move |speaker| async move {
            let own = Ledger::default();
            let ledger = request.ledger().unwrap_or(&own);
            let request = request.with_ledger(Some(ledger));
            let mut failed: Option<Error> = None;
            let mut order = self.order().into_iter().peekable();
            while let Some(member) = order.next() {
                let name = member.provider.name();
                let ahead = StreamEvent::AnsweredBy {
                    provider: name.to_owned(),
                    model: member.provider.model().to_owned(),
                };
                let attempt = Attempt::begin(ledger);
                let tried = relay(member.provider.stream(request), Some(&ahead), &speaker).await;
                let Err(Failure { error, said }) = tried else { return member.set_down(None) };
                if said {
                    return speaker.say(Err(error.with_provider(name))).await;
                }
                attempt.failed();
                let goes_on = another_may_answer(error.last());
                if goes_on {
                    let wait = self.cool_down.max(error.retry_after().unwrap_or_default());
                    member.set_down(Instant::now().checked_add(wait));
                }
                let cause = error.to_string();
                let error = error.with_provider(name);
                let so_far = match failed.take() {
                    None => error,
                    Some(first) => first.followed_by(error),
                };
                let next = order.peek().filter(|_| goes_on);
                let Some(next) = next else { return speaker.say(Err(so_far)).await };
                failed = Some(so_far);
                let (from, to) = (name.to_owned(), next.provider.name().to_owned());
                speaker.say(Ok(StreamEvent::FallingBack { from, to, cause })).await;
            }
        })
    }
}

/// Whether another provider would not share this failure.
fn another_may_answer(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Connect | ErrorKind::Timeout | ErrorKind::Interrupted | ErrorKind::Protocol => {
            true
        }
        ErrorKind::Api if error.is_out_of_quota() => true,
        ErrorKind::Api => match error.status() {
            Some(status) => !matches!(status, 400 | 413 | 422),
            None => {
                let code = error.code().unwrap_or_default();
                !BAD_REQUEST.iter().any(|bad| code.contains(bad))
            }
        },
        // The program's own mistakes and limits, and its own wish to stop.
        ErrorKind::Configuration
        | ErrorKind::Transcript
        | ErrorKind::ContextFull
        | ErrorKind::TooLarge
        | ErrorKind::Cancelled
        | ErrorKind::Journal => false,
    }
}

/// Codes of errors inside a stream, which have no status, that say that the request is bad.
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
