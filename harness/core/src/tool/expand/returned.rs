//! The types that a function with `#[tool]` may return, and how a returned value becomes a result.

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
/// Do not implement this trait. A `serde::Serialize` value is passed on as JSON; a string becomes text, `()` and `None`
/// become an empty output, and an error in a `Result` inside of the value makes the call fail. A [`ToolContent`], a
/// list of these parts, and a [`ToolOutput`] are passed on unchanged. `Form` is [`AsValue`] or [`AsContent`], and is
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

/// Marks a value that is serialized.
#[derive(Debug)]
pub struct AsValue;

/// Marks a value that already is content.
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

/// The maximum number of errors in the list. The JSON below the list contains all errors.
const LISTED: usize = 50;

/// The text for the model if a returned value contains errors. The tool ran to its end and reports by itself what
/// failed, so the call is not in doubt, even if the tool writes.
fn partly_failed(mut failed: Vec<FaultyPart>, json: &Value) -> String {
    let whole = failed.pop_if(|last| last.pointer.is_empty());
    match whole {
        // `serde_json` writes a number that JSON does not have as `null`.
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
/// Do not implement this trait: every error type and every type with `Display` already implements it. `Form` marks the
/// kind of the error, and comes from [`ErrorTypeProbe`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "this error cannot be shown to the model",
    note = "the error type must implement `std::error::Error + Send + Sync + 'static` (for example with `#[derive(thiserror::Error)]`), or at least `Display`; `anyhow::Error`, `String` and `ToolError` work too"
)]
pub trait IntoToolError<Form> {
    /// Returns an error with a text for the model, and a cause for the program.
    fn into_error(self) -> ToolError;
}

/// Marks an error type. The text for the model contains the error and its causes.
#[derive(Debug)]
pub struct AsError;

/// Marks an error of `anyhow`.
#[derive(Debug)]
pub struct AsAnyhow;

/// Marks a boxed error that is not `Send`.
#[derive(Debug)]
pub struct AsLocal;

/// Marks an error type that has only a text.
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
        // The text includes context that was added to the error.
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

/// The maximum number of causes in the text of an error.
pub(in crate::tool) const CAUSES: usize = 64;

/// The error and its causes, as `a: b: c`. A cause that the text already contains is not repeated. The causes of a
/// [`ToolError`] are not included, because the model must not read them.
fn chain(err: &(dyn Error + 'static)) -> String {
    let mut text = err.to_string();
    let mut last = err;
    // The number of steps is limited, because an error may return itself as its source.
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

/// A `Result` that a function with `#[tool]` can return, also through an alias.
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

/// An alias of `T`. The expansion writes an inferred type as `SameType<_>`. This has several tokens, so a compile error
/// underlines the whole type that the user wrote.
pub type SameType<T> = T;

/// Marks a function whose return type is no `Result`.
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

/// Marks a function that returns a `Result` with an error of this form.
#[derive(Clone, Copy, Debug)]
pub struct FallibleForm<ErrorForm>(PhantomData<ErrorForm>);

impl<ErrorForm> FallibleForm<ErrorForm> {
    /// The result of a function that returns a `Result`.
    ///
    /// # Errors
    /// Fails if the function returned an error. Also fails like [`InfallibleForm::answer`].
    pub fn answer<T: IntoAnswer<ErrorForm, Form>, Form>(
        self,
        returned: T,
    ) -> Result<ToolOutput, ToolError> {
        returned.into_answer()
    }

    /// The result of a function whose return type is written as `Result<T, E>`. A compile error about `T` or `E` then
    /// names only `T` or `E`.
    ///
    /// # Errors
    /// Fails if the function returned an error. Also fails like [`InfallibleForm::answer`].
    pub fn answer_result<T: IntoToolOutput<Form>, E: IntoToolError<ErrorForm>, Form>(
        self,
        returned: Result<T, E>,
    ) -> Result<ToolOutput, ToolError> {
        returned.map_err(IntoToolError::into_error)?.into_output()
    }
}

/// Finds out whether a type is a `Result`, also through an alias. The compiler selects the method of `ReturnKind` for a
/// `Result`, and the method of [`NotAResult`] for any other type.
#[derive(Debug)]
pub struct ReturnKind<T>(PhantomData<T>);

impl<T> ReturnKind<T> {
    /// Creates a probe for the type of this value.
    pub fn of(_: &T) -> Self {
        Self(PhantomData)
    }
}

impl<T, E> ReturnKind<Result<T, E>> {
    /// Returns a probe for the error type. The compiler selects this method for a function that can fail.
    pub fn __harness_failing(&self) -> ErrorTypeProbe<E> {
        ErrorTypeProbe(PhantomData)
    }
}

/// The fallback of [`ReturnKind`] for every type that is no `Result`.
pub trait NotAResult {
    /// Returns the marker for a function that cannot fail.
    fn __harness_failing(&self) -> NoErrorType {
        NoErrorType
    }
}

impl<T> NotAResult for ReturnKind<T> {}

/// Stands for the missing error type of a function that cannot fail.
#[derive(Debug)]
pub struct NoErrorType;

impl NoErrorType {
    /// Returns the form of a function that cannot fail.
    pub fn __harness_form(&self) -> InfallibleForm {
        InfallibleForm
    }
}

/// Finds out the form of an error type, for example whether the error has causes or only a text. The traits below have
/// the same method, for different numbers of references to the probe. The compiler selects the applicable method with
/// the most references.
#[derive(Debug)]
pub struct ErrorTypeProbe<E>(PhantomData<E>);

/// Selected by [`ErrorTypeProbe`] for types with a special form.
pub trait WithOwnForm {
    /// The form that marks this error type.
    type Form;

    /// Returns the special form.
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

/// Selected by [`ErrorTypeProbe`] for types that convert into a boxed error.
pub trait WithCauses {
    /// Returns the form of an error with causes.
    fn __harness_form(&self) -> FallibleForm<AsError> {
        FallibleForm(PhantomData)
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> WithCauses for &ErrorTypeProbe<E> {}

/// The fallback of [`ErrorTypeProbe`] for all other types.
pub trait WithWords {
    /// Returns the form of an error that has only a text. If the type also has no text, the bound of `AsErrorText`
    /// reports this.
    fn __harness_form(&self) -> FallibleForm<AsErrorText> {
        FallibleForm(PhantomData)
    }
}

impl<E> WithWords for ErrorTypeProbe<E> {}

/// Stops the build, at the name of the function, if the function's future is not `Send`.
pub fn is_send<F: Future + Send>(future: F) -> F {
    future
}
