//! The types that a function with `#[tool]` may return, and how a returned value reaches the model.

use std::{error::Error, fmt::Display, marker::PhantomData};

use serde::Serialize;
use serde_json::Value;

use super::output_faults::{FaultyPart, SerializedOutput, to_json};
use crate::{
    message::ToolContent,
    tool::{ToolError, ToolOutput},
};

/// A type that a function with `#[tool]` can return, alone or in a `Result`.
///
/// You need not implement it. A value of a type that is `serde::Serialize` is passed on as JSON (a string as text,
/// `()` and `None` as nothing; a `Result` inside of it that is an error makes the call fail). One or several
/// [`ToolContent`], and a [`ToolOutput`], are passed on as they are. `Form` marks which of the two it is and is
/// inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a tool",
    label = "not a tool result",
    note = "return `()`, `String`, `ToolContent`, `Vec<ToolContent>`, any type with `#[derive(serde::Serialize)]`, or a `Result` of one of these",
    note = "a future is awaited only if the function is written as `async fn`; if an attribute makes it of an `async fn`, write that attribute below `#[tool]`",
    note = "an error inside of a list, a tuple or a map must be `serde::Serialize`, too: return its text with `.map_err(|err| err.to_string())`"
)]
pub trait IntoToolOutput<Form> {
    /// The output for the model.
    fn into_output(self) -> Result<ToolOutput, ToolError>;
}

/// Marks an output that is made of a value.
#[derive(Debug)]
pub struct AsValue;

/// Marks an output that is content already.
#[derive(Debug)]
pub struct AsContent;

#[diagnostic::do_not_recommend]
impl<T: Serialize> IntoToolOutput<AsValue> for T {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        match to_json(&self) {
            Ok(SerializedOutput { json, failed }) if !failed.is_empty() => {
                Err(ToolError::new(partly_failed(failed, &json)))
            }
            Ok(SerializedOutput { json: Value::Null, .. }) => Ok(ToolOutput::nothing()),
            Ok(SerializedOutput { json: Value::String(text), .. }) => Ok(text.into()),
            Ok(SerializedOutput { json, .. }) => Ok(ToolContent::Json(json).into()),
            Err(reason) => Err(ToolError::new(format!("{UNREADABLE}: {reason}"))),
        }
    }
}

const UNREADABLE: &str = "the tool ran to its end, but what it returned cannot be written as JSON";

/// The highest number of errors that are listed; all of them are in the JSON.
const LISTED: usize = 50;

/// The text that the model reads if a returned value has errors in it. The tool ran to its end and reports itself
/// what failed, so the call is not in doubt, even if the tool writes.
fn partly_failed(mut failed: Vec<FaultyPart>, json: &Value) -> String {
    let whole = failed.pop_if(|last| last.pointer.is_empty());
    match whole {
        // A number that JSON does not have is written as `null`.
        Some(FaultyPart { words, .. }) if json.is_null() => {
            return format!("{UNREADABLE}: {words}");
        }
        Some(FaultyPart { words, .. }) => return words,
        None => {}
    }
    let mut text = "The tool ran to its end, but parts of what it returned are errors:".to_owned();
    let listed = failed.iter().take(LISTED);
    text.extend(listed.map(|FaultyPart { pointer, words }| format!("\n- at `{pointer}`: {words}")));
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
/// You need not implement it: every error type works, and every type that implements `Display`. `Form` marks which
/// of these it is and comes from [`ErrorTypeProbe`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "this error cannot be shown to the model",
    note = "the error type must implement `std::error::Error + Send + Sync + 'static` (for example with `#[derive(thiserror::Error)]`), or at least `Display`; `anyhow::Error`, `String` and `ToolError` work too"
)]
pub trait IntoToolError<Form> {
    /// The text for the model, and the cause for the host.
    fn into_error(self) -> ToolError;
}

/// Marks an error that has causes.
#[derive(Debug)]
pub struct AsError;

/// Marks an error of `anyhow`.
#[derive(Debug)]
pub struct AsAnyhow;

/// Marks an error that has causes and cannot be sent to another thread.
#[derive(Debug)]
pub struct AsLocal;

/// Marks an error that has only its text.
#[derive(Debug)]
pub struct AsErrorText;

#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn Error + Send + Sync>>> IntoToolError<AsError> for E {
    fn into_error(self) -> ToolError {
        match self.into().downcast::<ToolError>() {
            Ok(err) => *err,
            Err(err) => ToolError::new(chain(&*err)).like(&*err).with_source(err),
        }
    }
}

#[diagnostic::do_not_recommend]
impl IntoToolError<AsAnyhow> for anyhow::Error {
    fn into_error(self) -> ToolError {
        // If context was added, the model reads the context too.
        let text = chain(&*self);
        match self.downcast::<ToolError>() {
            Ok(err) if err.to_string() == text => err,
            Ok(err) => ToolError::new(text).like(&err).with_source(err),
            Err(err) => ToolError::new(text).like(&*err).with_source(err),
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
impl<E: Display> IntoToolError<AsErrorText> for E {
    fn into_error(self) -> ToolError {
        ToolError::new(self.to_string())
    }
}

/// The highest number of causes of an error that are told.
pub(in crate::tool) const CAUSES: usize = 64;

/// The error and its causes, as `a: b: c`. A cause that the text already contains is not repeated. The causes of a
/// [`ToolError`] are not for the model.
fn chain(err: &(dyn Error + 'static)) -> String {
    let mut text = err.to_string();
    let mut last = err;
    // An error may return itself as its source.
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

/// A `Result` that a function with `#[tool]` can return, whatever its name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a tool",
    label = "not a tool result",
    note = "in the `Result`, return `()`, `String`, `ToolContent`, `Vec<ToolContent>` or any type with `#[derive(serde::Serialize)]`",
    note = "a future is awaited only if the function is written as `async fn`",
    note = "its error must implement `std::error::Error + Send + Sync + 'static` or at least `Display`"
)]
pub trait IntoAnswer<ErrorForm, Form> {
    /// The result of the call.
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

/// The type itself. Written as `SameType<_>`, an inferred type has several tokens, so that an error about it underlines
/// the whole type that the user wrote.
pub type SameType<T> = T;

/// Marks a function that cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct InfallibleForm;

impl InfallibleForm {
    /// The result of a function that returns `T`.
    ///
    /// # Errors
    /// Fails if the value cannot be written as JSON, or if a part of it is an error.
    pub fn answer<T: IntoToolOutput<Form>, Form>(
        self,
        returned: T,
    ) -> Result<ToolOutput, ToolError> {
        returned.into_output()
    }
}

/// Marks a function that can fail, with an error of this form.
#[derive(Clone, Copy, Debug)]
pub struct FallibleForm<ErrorForm>(PhantomData<ErrorForm>);

impl<ErrorForm> FallibleForm<ErrorForm> {
    /// The result of a function that returns some `Result`.
    ///
    /// # Errors
    /// Fails if the function returned an error, and as [`InfallibleForm::answer`] does.
    pub fn answer<T: IntoAnswer<ErrorForm, Form>, Form>(
        self,
        returned: T,
    ) -> Result<ToolOutput, ToolError> {
        returned.into_answer()
    }

    /// The result of a function whose return type is written as `Result<T, E>`: a compile error about one of the
    /// two types names only that type.
    ///
    /// # Errors
    /// Fails if the function returned an error, and as [`InfallibleForm::answer`] does.
    pub fn answer_result<T: IntoToolOutput<Form>, E: IntoToolError<ErrorForm>, Form>(
        self,
        returned: Result<T, E>,
    ) -> Result<ToolOutput, ToolError> {
        returned.map_err(IntoToolError::into_error)?.into_output()
    }
}

/// Asks whether a type is a `Result`, so that an alias works like the name itself: the method of the type is found
/// before that of [`NotAResult`].
#[derive(Debug)]
pub struct ReturnKind<T>(PhantomData<T>);

impl<T> ReturnKind<T> {
    /// Asks the type of this value.
    pub fn of(_: &T) -> Self {
        Self(PhantomData)
    }
}

impl<T, E> ReturnKind<Result<T, E>> {
    /// The function can fail; its error type is asked next.
    pub fn __harness_failing(&self) -> ErrorTypeProbe<E> {
        ErrorTypeProbe(PhantomData)
    }
}

/// The answer of [`ReturnKind`] for everything that is not a `Result`.
pub trait NotAResult {
    /// The function cannot fail.
    fn __harness_failing(&self) -> NoErrorType {
        NoErrorType
    }
}

impl<T> NotAResult for ReturnKind<T> {}

/// Stands for the error type of a function that cannot fail.
#[derive(Debug)]
pub struct NoErrorType;

impl NoErrorType {
    /// There is no error form.
    pub fn __harness_form(&self) -> InfallibleForm {
        InfallibleForm
    }
}

/// Asks an error type how it is passed on. The answers are methods of the same name behind different numbers of
/// references. The method behind the most references is found first.
#[derive(Debug)]
pub struct ErrorTypeProbe<E>(PhantomData<E>);

/// The answer of [`ErrorTypeProbe`] for types that have a form of their own.
pub trait WithOwnForm {
    /// The form.
    type Form;

    /// The type has a form of its own.
    fn __harness_form(&self) -> FallibleForm<Self::Form> {
        FallibleForm(PhantomData)
    }
}

impl WithOwnForm for &&ErrorTypeProbe<anyhow::Error> {
    type Form = AsAnyhow;
}

impl WithOwnForm for &&ErrorTypeProbe<Box<dyn Error>> {
    type Form = AsLocal;
}

/// The answer of [`ErrorTypeProbe`] for an error type.
pub trait WithCauses {
    /// The error has causes.
    fn __harness_form(&self) -> FallibleForm<AsError> {
        FallibleForm(PhantomData)
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> WithCauses for &ErrorTypeProbe<E> {}

/// The answer of [`ErrorTypeProbe`] for a type that is not an error type.
pub trait WithWords {
    /// The error may have a text; if it has none, the bound of `AsErrorText` reports that.
    fn __harness_form(&self) -> FallibleForm<AsErrorText> {
        FallibleForm(PhantomData)
    }
}

impl<E> WithWords for ErrorTypeProbe<E> {}

/// Stops the build, at the name of the function, if the function's future cannot be sent to another thread.
pub fn is_send<F: Future + Send>(future: F) -> F {
    future
}
