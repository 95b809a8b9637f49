//! Approval of calls: who is asked before a call runs, the question, and the answer.

use std::{
    fmt,
    future::Future,
    path::PathBuf,
    pin::Pin,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{
    journal::{CallBinding, Reason},
    message::{Arguments, Fingerprint, ToolCall},
    tool::{Preview, Scope, SideEffects},
};

/// A question for a person: may exactly this call run?
///
/// It implements `Serialize`, so an [`Approver`] can send it as JSON to a web page or another process. Show all of
/// it: the tool, the declared effects, **each argument as it was decoded** (the text that the model wrote may spell
/// the same value in other ways), the defaults, the reasons, the folder, the preview and the scopes.
///
/// Make an answer from the question, by [`yes`](Self::yes), [`always`](Self::always),
/// [`always_for`](Self::always_for), [`no`](Self::no) or [`later`](Self::later). The answer counts for this
/// question alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The conversation that asks: its name in its journal, or the id of its first message if it has no name.
    pub conversation: String,
    /// The person who is asked, if the run has an approver of its own
    /// (`Run::approver`). An *always* holds for this person alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The title of the tool, if it has one. It may come from a server: show it beside the name and not in its
    /// place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A hash of what the tool is: its name, the side effects that it declares, and its schema without doc comments; of a
    /// tool that a server describes also the description and the hints. An answer holds only for this tool: if it
    /// changes before an allowed call has started, the person is asked again.
    pub definition: String,
    /// The side effects that the tool declares.
    pub effects: SideEffects,
    /// The decoded arguments, in the order in which the model wrote them. The tool runs with these and with the
    /// [`defaults`](Self::defaults).
    pub arguments: Arguments,
    /// The defaults of the arguments that are left out or `null`. If the call is allowed, the tool runs with these, also in
    /// a later version of the program that has other defaults.
    pub defaults: Arguments,
    /// A hash of the tool's name and the arguments.
    pub fingerprint: Fingerprint,
    /// A random text, so that the same call asked about twice makes two different questions.
    pub nonce: String,
    /// Who requires a person to decide, and why.
    pub reasons: Vec<Reason>,
    /// The folder in which the call runs.
    pub folder: Option<PathBuf>,
    /// What the tool shows beside the arguments, such as a diff.
    pub preview: Option<Preview>,
    /// The scopes for which the person can answer *always*. The first one is exactly this call; the tool may offer
    /// wider ones.
    pub scopes: Vec<Scope>,
    /// What is different from what a person has allowed of this call, or by an *always*, before: one line each. Show
    /// it, since the person is asked again because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The names of the tools that run the agents from which the question comes, the outermost first: see
    /// `Agent::as_tool`. It is empty for a question of the user's own conversation.
    pub agents: Vec<String>,
}

/// Identifies a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequestId {
    /// The conversation that asked.
    pub conversation: String,
    /// The id of the call.
    pub call: String,
    /// A hash of the tool's name and the decoded arguments.
    pub fingerprint: Fingerprint,
    /// The random text of the question.
    pub nonce: String,
}

impl ApprovalRequest {
    /// Creates a question about this call. If the arguments cannot be decoded, none are shown; the library refuses
    /// these calls and asks nobody.
    pub fn new(call: &ToolCall, effects: SideEffects) -> Self {
        let arguments = call.decoded().unwrap_or_default();
        let shown = format!("exactly this call of {}", call.name());
        let exactly = Scope::new(format!("exactly:{}", call.fingerprint()), shown);
        Self {
            conversation: String::new(),
            person: None,
            call: call.id().to_owned(),
            tool: call.name().to_owned(),
            title: None,
            definition: String::new(),
            effects,
            arguments,
            defaults: Arguments::default(),
            fingerprint: call.fingerprint(),
            nonce: format!("{:032x}", fastrand::u128(..)),
            reasons: Vec::new(),
            folder: None,
            preview: None,
            scopes: vec![exactly],
            changes: Vec::new(),
            agents: Vec::new(),
        }
    }

    /// The identity of this question.
    pub fn id(&self) -> ApprovalRequestId {
        let Self { conversation, call, fingerprint, nonce, .. } = self;
        let (conversation, call, nonce) = (conversation.clone(), call.clone(), nonce.clone());
        ApprovalRequestId { conversation, call, fingerprint: *fingerprint, nonce }
    }

    /// What an answer to the question binds.
    #[doc(hidden)]
    pub fn binding(&self) -> CallBinding {
        let mut arguments = self.arguments.clone().into_map();
        arguments.extend(self.defaults.clone().into_map());
        CallBinding {
            folder: self.folder.clone(),
            ..CallBinding::new(arguments.into(), self.definition.clone())
        }
    }

    /// Answers that the call may run.
    pub fn yes(&self) -> Approval {
        self.answered(ApprovalDecision::Yes)
    }

    /// Answers that the call may run, and that the same tool with the same decoded arguments in the same folder may
    /// run from now on, in this conversation, for the same [`person`](Self::person).
    pub fn always(&self) -> Approval {
        match self.scopes.first() {
            Some(exactly) => self.always_for(exactly),
            None => self.yes(),
        }
    }

    /// Answers that the call may run, and that all calls of this scope may run from now on, in this conversation.
    /// Take the scope from [`scopes`](Self::scopes); with any other scope, the answer allows only this call.
    pub fn always_for(&self, scope: &Scope) -> Approval {
        self.answered(ApprovalDecision::Always { scope: scope.clone() })
    }

    /// Answers that the call may not run; the model reads the reason.
    pub fn no(&self, reason: impl Into<String>) -> Approval {
        self.answered(ApprovalDecision::No { reason: reason.into() })
    }

    /// Answers that the decision is made later, perhaps by another process: the call waits, and the run ends as
    /// `Outcome::Waiting`. A decision that comes after `until` does not count.
    pub fn later(&self, until: Option<SystemTime>) -> Approval {
        let since = until.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis());
        let until = since.map(|at| u64::try_from(at).unwrap_or(u64::MAX));
        self.answered(ApprovalDecision::Later { until })
    }

    fn answered(&self, answer: ApprovalDecision) -> Approval {
        Approval { question: self.id(), answer, who: None }
    }
}

/// The answer to one question, made by [`ApprovalRequest::yes`], [`ApprovalRequest::always`], [`ApprovalRequest::always_for`],
/// [`ApprovalRequest::no`] or [`ApprovalRequest::later`]. If an approver returns the approval of another question, the call is
/// denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approval {
    /// The question that was shown.
    pub question: ApprovalRequestId,
    /// The answer.
    pub answer: ApprovalDecision,
    /// The person who gave the answer, for the record.
    pub who: Option<String>,
}

impl Approval {
    /// Sets the person who gave the answer; the name is kept in the facts.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }
}

/// The answer of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call may run.
    Yes,
    /// The call may run, and so may every later call of this scope in this conversation.
    Always {
        /// One of the scopes of the question.
        scope: Scope,
    },
    /// The call may not run.
    No {
        /// The reason, in words for the model.
        reason: String,
    },
    /// The decision is made later: the call waits, and the run ends as
    /// `Outcome::Waiting`.
    Later {
        /// The time until which a decision counts, in milliseconds since the beginning of 1970 in UTC.
        until: Option<u64>,
    },
}

impl fmt::Display for ApprovalRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.conversation, self.call, self.fingerprint, self.nonce)
    }
}

/// Asks a person before a call runs: at a terminal, on a web page, in a chat.
///
/// Give it to an agent with `AgentBuilder::approver`, or to one run with
/// `Run::approver`. The run waits for its answer, so an approver that can
/// lose contact with the person should answer [`ApprovalRequest::no`] after a time.
///
/// Several agents can ask the same person: give each of them a clone of the approver. A shared pointer such as
/// `Arc` is not an approver itself, so put it inside of one.
///
/// A function from the question to a future is an approver. It takes the question by value:
///
/// ```
/// use harness::policy::{Approver, ApprovalRequest};
///
/// fn cautious() -> impl Approver {
///     |question: ApprovalRequest| async move {
///         match question.arguments.len() {
///             0..4 => question.yes(),
///             _ => question.no("too many arguments to look at"),
///         }
///     }
/// }
/// # let _ = cautious();
/// ```
///
/// A web page receives the question as JSON and sends back which button was pressed. Make the answer from the
/// question that the program has kept, and take only the choice from the page. (The channels need the feature
/// `sync` of tokio.)
///
/// ```
/// use std::{future::Future, pin::Pin};
///
/// use harness::policy::{Approval, Approver, ApprovalRequest};
/// use tokio::sync::{mpsc, oneshot};
///
/// /// What a button of the page says.
/// enum Pressed {
///     Allow,
///     /// The number of the scope in the question.
///     Always(usize),
///     Deny(String),
/// }
///
/// #[derive(Clone)]
/// struct WebPage {
///     /// The other end shows the JSON and sends back what was pressed.
///     page: mpsc::Sender<(String, oneshot::Sender<Pressed>)>,
/// }
///
/// impl Approver for WebPage {
///     fn ask<'a>(
///         &'a self,
///         question: &'a ApprovalRequest,
///     ) -> Pin<Box<dyn Future<Output = Approval> + Send + 'a>> {
///         Box::pin(async move {
///             let Ok(json) = serde_json::to_string(question) else {
///                 return question.no("the question cannot be shown");
///             };
///             let (send, pressed) = oneshot::channel();
///             if self.page.send((json, send)).await.is_err() {
///                 return question.no("the page is closed");
///             }
///             match pressed.await {
///                 Ok(Pressed::Allow) => question.yes(),
///                 Ok(Pressed::Always(number)) => match question.scopes.get(number) {
///                     Some(scope) => question.always_for(scope),
///                     None => question.no("there is no such scope"),
///                 },
///                 Ok(Pressed::Deny(reason)) => question.no(reason),
///                 Err(_) => question.no("the page is closed"),
///             }
///         })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an approver",
    label = "not an approver",
    note = "an approver is a function that answers a question: `|question: ApprovalRequest| async move {{ question.yes() }}`, or `question.no(\"why\")`",
    note = "`TerminalApprover::default()` (feature `terminal`) asks at the terminal"
)]
pub trait Approver: Send + Sync {
    /// Asks the question and returns the answer. The library drops the future when the run is stopped: the question
    /// is then withdrawn and should no longer be shown.
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Approval> + Send + 'a>>;
}

/// What a function returns that is an [`Approver`]: a future of an [`Approval`]. You need not implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a future of an `Approval`",
    label = "an approver that is a function returns a future of an `Approval`",
    note = "make the answer from the question: `|question: ApprovalRequest| async move {{ question.yes() }}`, or `question.no(\"why\")`"
)]
pub trait ApprovalFuture: Sized {
    /// The future.
    fn into_approval(self) -> impl Future<Output = Approval> + Send
    where
        Self: Send;
}

#[diagnostic::do_not_recommend]
impl<A: Future<Output = Approval>> ApprovalFuture for A {
    fn into_approval(self) -> impl Future<Output = Approval> + Send
    where
        Self: Send,
    {
        self
    }
}

impl<F, A> Approver for F
where
    F: Fn(ApprovalRequest) -> A + Send + Sync,
    A: ApprovalFuture + Send + 'static,
{
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Approval> + Send + 'a>> {
        Box::pin(self(question.clone()).into_approval())
    }
}
