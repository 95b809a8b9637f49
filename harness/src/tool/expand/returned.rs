//! What a function with `#[tool]` may return, and how it reaches the model.

use std::{error::Error, fmt::Display, marker::PhantomData};

use serde::Serialize;
use serde_json::Value;

use super::search::{Failed, Written, to_json};
use crate::{
    message::ToolContent,
    tool::{ToolError, ToolOutput},
};

/// A type that a function with `#[tool]` can return, alone or in a `Result`.
///
/// Nobody implements it by hand: anything that is `serde::Serialize` is handed over as a value (a
/// string as text, `()` and `None` as nothing; a `Result` inside of it that is an error makes the
/// call a failed one); [`ToolContent`], several of them, and
/// [`ToolOutput`] are handed over as they are. `Form` says which of the two and is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a tool",
    label = "not a tool result",
    note = "return `()`, `String`, `ToolContent`, `Vec<ToolContent>`, any type with `#[derive(serde::Serialize)]`, or a `Result` of one of these",
    note = "an error inside of a list, a tuple or a map must be `serde::Serialize`, too: return its text with `.map_err(|err| err.to_string())`"
)]
pub trait IntoToolOutput<Form> {
    /// What the model gets.
    fn into_output(self) -> Result<ToolOutput, ToolError>;
}

/// Says that the output is a value.
#[derive(Debug)]
pub struct AsValue;

/// Says that the output is content already.
#[derive(Debug)]
pub struct AsContent;

#[diagnostic::do_not_recommend]
impl<T: Serialize> IntoToolOutput<AsValue> for T {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        match to_json(&self) {
            Ok(Written { json, failed }) if !failed.is_empty() => {
                Err(ToolError::new(partly_failed(failed, &json)))
            }
            Ok(Written { json: Value::Null, .. }) => Ok(ToolOutput::nothing()),
            Ok(Written { json: Value::String(text), .. }) => Ok(text.into()),
            Ok(Written { json, .. }) => Ok(ToolContent::Json(json).into()),
            Err(reason) => Err(ToolError::new(format!("{UNREADABLE}: {reason}"))),
        }
    }
}

const UNREADABLE: &str = "the tool ran to its end, but what it returned cannot be put as JSON";

/// So many errors are listed, at most; all of them stand in the JSON.
const LISTED: usize = 50;

/// What the model reads of a value with errors in it. The tool ran to its end and says itself what
/// failed, so nothing is in doubt, also if it wrote.
fn partly_failed(mut failed: Vec<Failed>, json: &Value) -> String {
    let whole = failed.pop_if(|last| last.pointer.is_empty());
    match whole {
        // Instead of a number that JSON does not have there is `null`.
        Some(Failed { words, .. }) if json.is_null() => return format!("{UNREADABLE}: {words}"),
        Some(Failed { words, .. }) => return words,
        None => {}
    }
    let mut text = "The tool ran to its end, but parts of what it returned are errors:".to_owned();
    let listed = failed.iter().take(LISTED);
    text.extend(listed.map(|Failed { pointer, words }| format!("\n- at `{pointer}`: {words}")));
    if let more @ 1.. = failed.len().saturating_sub(LISTED) {
        text.push_str(&format!("\n- and {more} more, see below"));
    }
    text.push_str("\nAll other parts succeeded and stand: repeat only what failed. ");
    text.push_str(&format!("This is what it returned:\n{json}"));
    text
}

#[diagnostic::do_not_recommend]
impl IntoToolOutput<AsContent> for ToolContent {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self.into())
    }
}

#[diagnostic::do_not_recommend]
impl IntoToolOutput<AsContent> for Vec<ToolContent> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self.into())
    }
}

#[diagnostic::do_not_recommend]
impl<const N: usize> IntoToolOutput<AsContent> for [ToolContent; N] {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(Vec::from(self).into())
    }
}

#[diagnostic::do_not_recommend]
impl IntoToolOutput<AsContent> for Option<ToolContent> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self.into_iter().collect::<Vec<_>>().into())
    }
}

#[diagnostic::do_not_recommend]
impl IntoToolOutput<AsContent> for ToolOutput {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

/// A type that a function with `#[tool]` can return as its error.
///
/// Nobody implements it by hand: every error type will do, and everything that displays. `Form`
/// says which and comes from [`Failing`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "this error cannot be shown to the model",
    note = "the error type must implement `std::error::Error + Send + Sync + 'static` (for example with `#[derive(thiserror::Error)]`), or at least `Display`; `anyhow::Error`, `String` and `ToolError` work too"
)]
pub trait IntoToolError<Form> {
    /// What the model reads, and the cause for the host.
    fn into_error(self) -> ToolError;
}

/// Says that the error has causes.
#[derive(Debug)]
pub struct AsError;

/// Says that the error is `anyhow`'s.
#[derive(Debug)]
pub struct AsAnyhow;

/// Says that the error has causes but stays in its thread.
#[derive(Debug)]
pub struct AsLocal;

/// Says that the error has no more than words.
#[derive(Debug)]
pub struct AsWords;

#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn Error + Send + Sync>>> IntoToolError<AsError> for E {
    fn into_error(self) -> ToolError {
        match self.into().downcast::<ToolError>() {
            Ok(err) => *err,
            Err(err) => ToolError::new(chain(&*err)).like(&*err).because(err),
        }
    }
}

#[diagnostic::do_not_recommend]
impl IntoToolError<AsAnyhow> for anyhow::Error {
    fn into_error(self) -> ToolError {
        // With context on top, the context is for the model as well.
        let text = chain(&*self);
        match self.downcast::<ToolError>() {
            Ok(err) if err.to_string() == text => err,
            Ok(err) => ToolError::new(text).like(&err).because(err),
            Err(err) => ToolError::new(text).like(&*err).because(err),
        }
    }
}

#[diagnostic::do_not_recommend]
impl IntoToolError<AsLocal> for Box<dyn Error> {
    fn into_error(self) -> ToolError {
        match self.downcast::<ToolError>() {
            Ok(err) => *err,
            Err(err) => ToolError::new(chain(&*err)).like(&*err),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<E: Display> IntoToolError<AsWords> for E {
    fn into_error(self) -> ToolError {
        ToolError::new(self.to_string())
    }
}

/// So many causes of an error are told.
pub(in crate::tool) const CAUSES: usize = 64;

/// The error and its causes, as `a: b: c`. A cause that the text names already is not repeated,
/// and what is behind a [`ToolError`] is not for the model.
fn chain(err: &(dyn Error + 'static)) -> String {
    let mut text = err.to_string();
    let mut last = err;
    // An error may name itself as its source.
    for _ in 0..CAUSES {
        let Some(cause) = last.source().filter(|_| !last.is::<ToolError>()) else { break };
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        last = cause;
    }
    text
}

/// A `Result` that a function with `#[tool]` can return, by whatever name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a tool",
    label = "not a tool result",
    note = "in the `Result`, return `()`, `String`, `ToolContent`, `Vec<ToolContent>` or any type with `#[derive(serde::Serialize)]`",
    note = "its error must implement `std::error::Error + Send + Sync + 'static` or at least `Display`"
)]
pub trait IntoAnswer<ErrorForm, Form> {
    /// The answer to the call.
    fn into_answer(self) -> Result<ToolOutput, ToolError>;
}

#[diagnostic::do_not_recommend]
impl<T, E, ErrorForm, Form> IntoAnswer<ErrorForm, Form> for Result<T, E>
where
    T: IntoToolOutput<Form>,
    E: IntoToolError<ErrorForm>,
{
    fn into_answer(self) -> Result<ToolOutput, ToolError> {
        self.map_err(IntoToolError::into_error)?.into_output()
    }
}

/// The type itself. `Same<_>` is a type that is inferred, written in several tokens, so that an
/// error about it underlines all of the type that the user has written.
pub type Same<T> = T;

/// Says that the function cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Plain {
    /// The answer of a function that returns `T`.
    ///
    /// # Errors
    /// Fails if the value cannot be put as JSON.
    pub fn answer<T: IntoToolOutput<Form>, Form>(
        self,
        returned: T,
    ) -> Result<ToolOutput, ToolError> {
        returned.into_output()
    }
}

/// Says that the function can fail, with an error of this form.
#[derive(Clone, Copy, Debug)]
pub struct Fallible<ErrorForm>(PhantomData<ErrorForm>);

impl<ErrorForm> Fallible<ErrorForm> {
    /// The answer of a function that returns some `Result`.
    ///
    /// # Errors
    /// Fails if the function did.
    pub fn answer<T: IntoAnswer<ErrorForm, Form>, Form>(
        self,
        returned: T,
    ) -> Result<ToolOutput, ToolError> {
        returned.into_answer()
    }

    /// The answer of a function that returns `Result<T, E>`, spelled out: the error about a type
    /// names that type alone.
    ///
    /// # Errors
    /// Fails if the function did.
    pub fn answer_result<T: IntoToolOutput<Form>, E: IntoToolError<ErrorForm>, Form>(
        self,
        returned: Result<T, E>,
    ) -> Result<ToolOutput, ToolError> {
        returned.map_err(IntoToolError::into_error)?.into_output()
    }
}

/// Asks a type whether it is a `Result`, so that an alias is as good as the name: the method of
/// the type itself is found before the one of [`Otherwise`].
#[derive(Debug)]
pub struct Kind<T>(PhantomData<T>);

impl<T> Kind<T> {
    /// Asks the type of this value.
    pub fn of(_: &T) -> Self {
        Self(PhantomData)
    }
}

impl<T, E> Kind<Result<T, E>> {
    /// It can fail; the error is asked next.
    pub fn failing(&self) -> Failing<E> {
        Failing(PhantomData)
    }
}

/// What [`Kind`] says of everything that is no `Result`.
pub trait Otherwise {
    /// It cannot fail.
    fn failing(&self) -> Never {
        Never
    }
}

impl<T> Otherwise for Kind<T> {}

/// The answer to the question for the error of something that cannot fail.
#[derive(Debug)]
pub struct Never;

impl Never {
    /// There is none.
    pub fn form(&self) -> Plain {
        Plain
    }
}

/// Asks an error type how it is handed over. The answers are methods of one name behind a
/// different number of references, and the one with the most is found first.
#[derive(Debug)]
pub struct Failing<E>(PhantomData<E>);

/// What [`Failing`] says of the types that have a form of their own.
pub trait WithOwnForm {
    /// The form.
    type Form;

    /// It has a form of its own.
    fn form(&self) -> Fallible<Self::Form> {
        Fallible(PhantomData)
    }
}

impl WithOwnForm for &&Failing<anyhow::Error> {
    type Form = AsAnyhow;
}

impl WithOwnForm for &&Failing<Box<dyn Error>> {
    type Form = AsLocal;
}

/// What [`Failing`] says of an error type.
pub trait WithCauses {
    /// It has causes.
    fn form(&self) -> Fallible<AsError> {
        Fallible(PhantomData)
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> WithCauses for &Failing<E> {}

/// What [`Failing`] says of a type that is no error type.
pub trait WithWords {
    /// It may have words; if not, the bound of `AsWords` says so.
    fn form(&self) -> Fallible<AsWords> {
        Fallible(PhantomData)
    }
}

impl<E> WithWords for Failing<E> {}

/// Stops the build at the name of a function whose future may not change its thread.
pub fn is_send<F: Future + Send>(future: F) -> F {
    future
}
