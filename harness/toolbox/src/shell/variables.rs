//! The environment variables of a command.

use std::ffi::{OsStr, OsString};

/// The variables that a command gets from the program's environment, in addition to variables with the prefix `LC_`.
/// The output of a command goes to the model and into the journal, and `env` prints every variable, so no variable with
/// a key may be on this list.
const OF_PROGRAM: [&str; 7] = ["HOME", "LANG", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// The variables that a program adds to the list.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandVariables {
    inherited: Vec<OsString>,
    set: Vec<(OsString, OsString)>,
}

impl CommandVariables {
    /// Adds the name of an inherited variable.
    ///
    /// # Errors
    /// Fails with the fault of the name.
    pub(super) fn inherit(&mut self, name: OsString) -> Result<(), String> {
        checked(&name)?;
        self.inherited.push(name);
        Ok(())
    }

    /// Sets a variable to a value.
    ///
    /// # Errors
    /// Fails with the fault of the name or the value.
    pub(super) fn set(&mut self, name: OsString, value: OsString) -> Result<(), String> {
        checked(&name)?;
        if value.as_encoded_bytes().contains(&0) {
            return Err(format!("the value of {name:?} contains the character 0; leave it out"));
        }
        self.set.push((name, value));
        Ok(())
    }

    /// The environment for a command that starts now.
    pub(super) fn now(&self) -> Vec<(OsString, OsString)> {
        let is_listed = |name: &OsStr| {
            OF_PROGRAM.iter().any(|listed| name == *listed)
                || name.as_encoded_bytes().starts_with(b"LC_")
                || self.inherited.iter().any(|inherited| name == inherited)
        };
        // The last value of a name takes effect.
        let of_program = std::env::vars_os().filter(|(name, _)| is_listed(name));
        of_program.chain(self.set.iter().cloned()).collect()
    }
}

fn checked(name: &OsStr) -> Result<(), String> {
    let bytes = name.as_encoded_bytes();
    if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) {
        return Err(format!(
            "{name:?} cannot be the name of a variable: it is empty, or contains `=` or the \
             character 0; write one such as `CARGO_HOME`"
        ));
    }
    if name == super::group::VARIABLE {
        return Err(format!(
            "{name:?} is how the processes of a command are found; choose another name"
        ));
    }
    Ok(())
}
