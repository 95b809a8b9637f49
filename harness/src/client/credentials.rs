//! Keys and addresses out of the environment. A key is a [`SecretString`] from here on.

use secrecy::SecretString;

use crate::error::{Error, ErrorKind};

/// The value of a variable, unless it is unset or blank.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The key in this variable.
pub(super) fn key(name: &str) -> Result<SecretString, Error> {
    variable(name).map(SecretString::from).ok_or_else(|| {
        Error::new(
            ErrorKind::Configuration,
            format!(
                "the environment variable `{name}` is not set: it holds the key of the provider"
            ),
        )
    })
}
