//! Approval requests for calls: the request that a person sees before a call runs, and the person's answer.

use std::{
    fmt,
    future::Future,
    path::PathBuf,
    pin::Pin,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    journal::{CallBinding, Reason},
    message::{Arguments, Fingerprint, ToolCall},
    tool::{Preview, Scope, SideEffects},
};

/// An approval request: it asks a person whether exactly this call may run.
///
/// The request implements `Serialize`, so an [`Approver`] can send it as JSON to a web page or another process. Show
/// the whole request: the tool, the declared effects, **each decoded argument** (the model's own text may spell the
/// same value in other ways), the defaults, the reasons, the folder, the preview and the scopes.
///
/// Create the answer with a method of the request: [`yes`](Self::yes), [`always`](Self::always),
/// [`always_for`](Self::always_for), [`no`](Self::no) or [`later`](Self::later). The answer is valid for this request
/// alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The conversation of the call: its name in its journal, or the id of its first message if the conversation has no
    /// name.
    pub conversation: String,
    /// The person who is asked, if the run has an approver of its own (`Run::approver`). If this person answers
    /// *always*, the answer holds for this person alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The title of the tool, if the tool has one. A server may have chosen the title: show it beside the name, not in
    /// place of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A hash of the tool's definition: its name, its declared side effects, and its schema without doc comments. For a
    /// tool that a server describes, the hash also covers the description and the hints. If the definition changes
    /// before an allowed call has started, the person is asked again.
    pub definition: String,
    /// The side effects that the tool declares.
    pub effects: SideEffects,
    /// The decoded arguments, in the order in which the model wrote them. An allowed call runs with these arguments and
    /// with the [`defaults`](Self::defaults).
    pub arguments: Arguments,
    /// The default values of the arguments that the model left out or set to `null`. An allowed call runs with these
    /// values, even if a later version of the program has other defaults.
    pub defaults: Arguments,
    /// A hash of the tool's name and the arguments.
    pub fingerprint: Fingerprint,
    /// A random text that distinguishes two requests about the same call.
    pub nonce: String,
    /// Why a person has to decide: each reason with the rule, tool or policy that gave it.
    pub reasons: Vec<Reason>,
    /// The folder in which the call runs.
    pub folder: Option<PathBuf>,
    /// What the tool shows in addition to the arguments, such as a diff.
    pub preview: Option<Preview>,
    /// The scopes for which the person can answer *always*. The first scope covers exactly this call. The tool may
    /// offer wider scopes.
    pub scopes: Vec<Scope>,
    /// One line for each change since a person last allowed this call with *yes* or *always*. Empty if nobody has
    /// allowed this call yet. Show the lines, because the changes are the reason for this new request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The names of the tools that run the agents above this call, the outermost tool first: see `Agent::as_tool`.
    /// Empty for a call of the user's own conversation.
    pub agents: Vec<String>,
}

/// Identifies an approval request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequestId {
    /// The conversation of the call.
    pub conversation: String,
    /// The id of the call.
    pub call: String,
    /// A hash of the tool's name and the decoded arguments.
    pub fingerprint: Fingerprint,
    /// The random text of the request.
    pub nonce: String,
}

impl ApprovalRequest {
    /// Creates an approval request about this call. If the arguments cannot be decoded, the request shows no
    /// arguments, and the library refuses the call without asking a person.
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

    /// The identity of this request.
    pub fn id(&self) -> ApprovalRequestId {
        let Self { conversation, call, fingerprint, nonce, .. } = self;
        let (conversation, call, nonce) = (conversation.clone(), call.clone(), nonce.clone());
        ApprovalRequestId { conversation, call, fingerprint: *fingerprint, nonce }
    }

    /// The request as JSON, for [`Awaited::Approval`](crate::journal::Awaited::Approval).
    #[doc(hidden)]
    pub fn to_question(&self) -> Value {
        let json = serde_json::to_string(self);
        json.and_then(|json| serde_json::from_str(&json)).unwrap_or_default()
    }

    /// Reads a request that was made by [`to_question`](Self::to_question). `None` for another value.
    #[doc(hidden)]
    pub fn from_question(question: &Value) -> Option<Self> {
        // Read from the text, as facts are: each type then has one reader.
        serde_json::from_str(&question.to_string()).ok()
    }

    /// The folder, arguments and tool definition for which an answer to this request is valid.
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

    /// Answers that the call may run. Later calls of the same tool with the same decoded arguments in the same folder
    /// may run too, in this conversation and for the same [`person`](Self::person).
    pub fn always(&self) -> Approval {
        match self.scopes.first() {
            Some(exactly) => self.always_for(exactly),
            None => self.yes(),
        }
    }

    /// Answers that this call may run. Later calls of this scope in this conversation may run too. Take the scope from
    /// [`scopes`](Self::scopes): with any other scope, the answer allows only this call.
    pub fn always_for(&self, scope: &Scope) -> Approval {
        self.answered(ApprovalDecision::Always { scope: scope.clone() })
    }

    /// Answers that the call may not run; the model reads the reason.
    pub fn no(&self, reason: impl Into<String>) -> Approval {
        self.answered(ApprovalDecision::No { reason: reason.into() })
    }

    /// Answers that the decision comes later, perhaps from another process. The call waits, and the run ends as
    /// `Outcome::Waiting`. A decision after `until` does not count.
    pub fn later(&self, until: Option<SystemTime>) -> Approval {
        let since = until.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis());
        let until = since.map(|at| u64::try_from(at).unwrap_or(u64::MAX));
        self.answered(ApprovalDecision::Later { until })
    }

    fn answered(&self, answer: ApprovalDecision) -> Approval {
        Approval { question: self.id(), answer, who: None }
    }
}

/// The answer to one approval request, created by [`ApprovalRequest::yes`], [`ApprovalRequest::always`],
/// [`ApprovalRequest::always_for`], [`ApprovalRequest::no`] or [`ApprovalRequest::later`]. If an approver returns the
/// answer to another request, the call is denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approval {
    /// The request that this answer belongs to.
    pub question: ApprovalRequestId,
    /// The answer.
    pub answer: ApprovalDecision,
    /// The person who gave the answer, for the record.
    pub who: Option<String>,
}

impl Approval {
    /// Sets the person who gave the answer. The name is kept in the facts.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }
}

/// The answer of a person to an approval request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call may run.
    Yes,
    /// The call may run, and so may every later call of this scope in this conversation.
    Always {
        /// One of the scopes of the request.
        scope: Scope,
    },
    /// The call may not run.
    No {
        /// The reason, which the model reads.
        reason: String,
    },
    /// The decision comes later: the call waits, and the run ends as `Outcome::Waiting`.
    Later {
        /// The deadline for the decision, in milliseconds since the Unix epoch. `None` means no deadline.
        until: Option<u64>,
    },
}

impl fmt::Display for ApprovalRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.conversation, self.call, self.fingerprint, self.nonce)
    }
}

/// Asks a person before a call runs, for example at a terminal, on a web page or in a chat.
///
/// Give an approver to an agent with `AgentBuilder::approver`, or to one run with `Run::approver`. The run waits for
/// the answer. If an approver can lose contact with the person, let it answer [`ApprovalRequest::no`] after a time.
///
/// Several agents can share one approver: give a clone to each agent. `Arc<A>` is not an approver: put the `Arc` inside
/// a type that implements this trait and clones.
///
/// A function from an [`ApprovalRequest`] to a future is an approver. The function takes the request by value:
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
/// A web page receives the request as JSON and sends back which button was pressed. Create the answer from the request
/// that the program has kept, and take only the choice from the page. (The channels need the feature `sync` of tokio.)
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
    /// Asks the person and returns the answer. When the run is stopped, the library drops the future. Stop showing
    /// the request then.
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Approval> + Send + 'a>>;
}

/// The return type of a function that is an [`Approver`]: a future of an [`Approval`]. Do not implement this trait:
/// all futures of an `Approval` already implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a future of an `Approval`",
    label = "an approver that is a function returns a future of an `Approval`",
    note = "make the answer from the question: `|question: ApprovalRequest| async move {{ question.yes() }}`, or `question.no(\"why\")`"
)]
pub trait ApprovalFuture: Sized {
    /// Returns the future.
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
