//! Reviews: what a tool reports about a call before the decision whether the call may run, such as why a person should
//! decide, and a preview.

use std::{fmt, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{message::Arguments, secret::Secrets};

/// What a tool reports about one call before the decision whether the call may run.
///
/// Give a tool a review if its declared side effects do not describe a call well enough. For example, a write may
/// replace a file that other programs run, or a request may go to an address that the model chose. With a review, the
/// permissions ask a person, who sees the reason and the preview.
///
/// The library calls the review twice, on a thread where it may block: before the decision about the call, and again
/// right before the call runs. The call does not run if the second review refuses it, requires a decision for a reason
/// that the first review did not give, names another folder, or shows another preview than the person saw. So a review
/// must not change anything, and must return the same review as long as nothing has changed. If the tool opens a file
/// or a connection, it should review the open file or connection once more: see
/// [`ToolContext::recheck`](super::ToolContext::recheck). A call of a tool with a review never starts before the
/// model's answer is complete.
///
/// ```
/// use harness::{message::Arguments, tool, tool::{Review, Scope}};
///
/// fn each_host(arguments: &Arguments) -> Review {
///     let url = arguments.get("url").and_then(|url| url.as_str()).unwrap_or_default();
///     let host = url.split('/').nth(2).unwrap_or_default();
///     Review::ask(format!("the model chose the host {host}"))
///         .with_scope(Scope::new(format!("host:{host}"), format!("every request to {host}")))
/// }
///
/// /// Reads a page.
/// #[tool(side_effects = ["read", "network"], review = each_host)]
/// fn fetch(/** such as `https://docs.rs/serde` */ url: String) -> String {
///     format!("the page at {url}")
/// }
/// # let _ = fetch;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Review {
    /// Why a person should decide; `None` if the review requires no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Why the call must not run; `None` if the review does not refuse it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuses: Option<String>,
    /// What the person should see in addition to the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// The scopes for which a person may answer *always*, in addition to exactly this call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Scope>,
    /// The folder in which the call runs; `None` if it is the program's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl Review {
    /// Creates a review without objections: the declared side effects and the permissions decide.
    pub fn pass() -> Self {
        Self::default()
    }

    /// Creates a review that lets a person decide, for this reason.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self { asks: Some(reason.into()), ..Self::default() }
    }

    /// Creates a review that refuses the call for this reason. The model reads the reason.
    pub fn refuse(reason: impl Into<String>) -> Self {
        Self { refuses: Some(reason.into()), ..Self::default() }
    }

    /// Adds what the person should see in addition to the arguments.
    #[must_use]
    pub fn with_preview(mut self, preview: Preview) -> Self {
        self.preview = Some(preview);
        self
    }

    /// Adds a scope for which the person can answer *always*.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scopes.push(scope);
        self
    }

    /// Returns the review without known secrets, so that it can be shown and stored.
    pub(crate) fn without_secrets(&self, secrets: &Secrets) -> Self {
        if secrets.is_empty() {
            return self.clone();
        }
        let hidden = |text: &String| secrets.hide(text).into_owned();
        let scope = |scope: &Scope| Scope::new(hidden(&scope.key), hidden(&scope.shown));
        Self {
            asks: self.asks.as_ref().map(hidden),
            refuses: self.refuses.as_ref().map(hidden),
            preview: self.preview.as_ref().map(|preview| match preview {
                Preview::Text(text) => Preview::Text(hidden(text)),
                Preview::Diff(text) => Preview::Diff(hidden(text)),
            }),
            scopes: self.scopes.iter().map(scope).collect(),
            folder: self.folder.clone(),
        }
    }

    /// Sets the folder in which the call runs.
    #[must_use]
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

/// The review on which the decision about a call was based. Right before the call runs, the library compares this
/// review with a new review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reviewed {
    /// The review.
    pub review: Review,
    /// Whether a person has seen the review.
    pub seen: bool,
}

impl Reviewed {
    /// A review that a person has seen and decided on.
    #[doc(hidden)]
    pub fn seen(review: Review) -> Self {
        Self { review, seen: true }
    }

    /// A review that no person saw, because the permissions or an earlier answer decided about the call.
    #[doc(hidden)]
    pub fn unseen(review: Review) -> Self {
        Self { review, seen: false }
    }

    /// Compares this review, on which the decision about the call was based, with the new review `now`. Returns the
    /// reason why the call must not run; `None` if the call may run.
    pub(super) fn differs(&self, now: &Review) -> Option<String> {
        if let Some(reason) = &now.refuses {
            return Some(reason.clone());
        }
        if let Some(asks) = now.asks.as_ref().filter(|asks| self.review.asks.as_ref() != Some(asks))
        {
            return Some(format!("since the call was decided, this has come up: {asks}"));
        }
        let Review { preview, folder, .. } = &self.review;
        (folder != &now.folder || (self.seen && preview != &now.preview))
            .then(|| "it would now do something else than what was decided on".to_owned())
    }
}

/// What a person sees in addition to the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preview {
    /// Plain text.
    Text(String),
    /// A change, in the unified format of `diff`.
    Diff(String),
}

impl Preview {
    /// The text of the preview, whether it is plain text or a diff.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Diff(text) => text,
        }
    }
}

/// Describes the calls for which an answer *always* is valid: all calls whose reviews offer a scope with this key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scope {
    key: String,
    shown: String,
}

impl Scope {
    /// Creates a scope. `key` distinguishes the scopes of one tool, such as `host:docs.rs`. `shown` is the text for a
    /// person, such as `every request to docs.rs`.
    pub fn new(key: impl Into<String>, shown: impl Into<String>) -> Self {
        Self { key: key.into(), shown: shown.into() }
    }

    /// The key that distinguishes this scope from other scopes of the tool.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The text for a person.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// A function that `#[tool(review = ..)]` can name. If the tool is a method, `Value` is the type of the method's
/// receiver.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot review calls",
    label = "this is not a `fn(&Arguments) -> Review`",
    note = "a review is an ordinary function that takes the decoded arguments, `&harness::message::Arguments`, and returns a `harness::tool::Review`; named by the tool of a method, it may take `&self` before them",
    note = "it is not `async`: it may block, for it runs on a thread for that"
)]
pub trait ReviewFunction<Value: ?Sized, Takes> {
    /// Reviews a call.
    fn review(self, value: &Value, arguments: &Arguments) -> Review;
}

/// Marks a review function that takes only the arguments.
#[derive(Debug)]
pub struct OfArguments;

/// Marks a review function that takes the receiver of the tool's method, and the arguments.
#[derive(Debug)]
pub struct OfValue;

impl<Value: ?Sized, F: FnOnce(&Arguments) -> Review> ReviewFunction<Value, OfArguments> for F {
    fn review(self, _: &Value, arguments: &Arguments) -> Review {
        self(arguments)
    }
}

impl<Value, F: FnOnce(&Value, &Arguments) -> Review> ReviewFunction<Value, OfValue> for F {
    fn review(self, value: &Value, arguments: &Arguments) -> Review {
        self(value, arguments)
    }
}

/// Reviews a call. `#[tool]` calls this function, so that the compiler reports a wrong review function as a failed
/// trait bound.
pub fn review<Value, Takes>(
    review: impl ReviewFunction<Value, Takes>,
    value: &Value,
    arguments: &Arguments,
) -> Review {
    review.review(value, arguments)
}

/// The review of a tool that was not created by `#[tool]`.
pub(super) type HandmadeReview = Arc<dyn Fn(&Arguments) -> Review + Send + Sync>;
