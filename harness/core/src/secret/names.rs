//! Recognizes secret values by the names before them: names of fields, headers, variables and query
//! members.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The default names of fields with secret values.
const NAMES: [&str; 18] = [
    "key",
    "apikey",
    "token",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "authorization",
    "auth",
    "bearer",
    "credential",
    "credentials",
    "cookie",
    "signature",
    "otp",
    "pin",
    "ssn",
];

/// Words that mark a secret even as the end of a longer word, as in `PGPASSWORD` and
/// `clientsecret`.
const ENDS: [&str; 6] = ["password", "passwd", "passphrase", "secret", "apikey", "token"];

/// Words that mark a secret anywhere in the name of a header or a variable, as in `x-session-id` and `x-auth-user`. The
/// last word is not enough here, because these names are less uniform than names of fields.
const ANYWHERE: [&str; 26] = [
    "jwt",
    "pass",
    "passcode",
    "password",
    "pwd",
    "secret",
    "token",
    "auth",
    "oauth",
    "oidc",
    "saml",
    "assertion",
    "bearer",
    "dpop",
    "session",
    "sessionid",
    "sess",
    "sid",
    "sso",
    "cookie",
    "csrf",
    "xsrf",
    "credential",
    "credentials",
    "signature",
    "sig",
];

/// Whether the value of a header or a variable with this name is secret.
pub fn is_secret_name(name: &str) -> bool {
    static NAMES: LazyLock<SecretNames> = LazyLock::new(SecretNames::default);
    NAMES.has(name) || words(name).iter().any(|word| ANYWHERE.contains(&word.as_str()))
}

/// A list of names of secret values. An entry matches every name whose last words are the entry: `key` matches
/// `api_key`, `X-Api-Key` and `apiKey`.
#[derive(Clone, Debug)]
pub struct SecretNames {
    names: HashSet<String>,
    /// The length of the longest name.
    longest: usize,
    /// Whether the words in [`ENDS`] also match as the end of a longer word.
    ends: bool,
}

impl Default for SecretNames {
    fn default() -> Self {
        Self { ends: true, ..Self::of(NAMES) }
    }
}

impl SecretNames {
    /// A list of exactly these names.
    pub fn of(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut these = Self { names: HashSet::new(), longest: 0, ends: false };
        for name in names {
            these.add(name.as_ref());
        }
        these
    }

    /// Adds a name to the list.
    pub fn add(&mut self, name: &str) {
        let name = words(name).concat();
        self.longest = self.longest.max(name.len());
        self.names.insert(name);
    }

    /// Adds all names of `others`.
    pub fn add_all(&mut self, others: &Self) {
        self.longest = self.longest.max(others.longest);
        self.names.extend(others.names.iter().cloned());
        self.ends |= others.ends;
    }

    /// Whether a value with this name is secret.
    pub fn has(&self, name: &str) -> bool {
        let words = words(name);
        // A suffix that is longer than the longest entry cannot match.
        let mut end = String::new();
        for word in words.iter().rev() {
            if end.len() + word.len() > self.longest {
                break;
            }
            end.insert_str(0, word);
            if self.names.contains(&end) {
                return true;
            }
        }
        let last = words.last().filter(|_| self.ends);
        last.is_some_and(|word| ENDS.iter().any(|end| word.ends_with(end)))
    }
}

/// The words of a name in lower case. `userPassword`, `user-password` and `USER_PASSWORD` have the
/// same words.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut after_lower = false;
    let mut open = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            open = false;
            continue;
        }
        if !open || (after_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        open = true;
        after_lower = c.is_lowercase() || c.is_numeric();
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::SecretNames;

    #[test]
    fn a_name_is_known_by_its_last_words() {
        let names = SecretNames::default();
        let secret = [
            "key",
            "api_key",
            "X-Api-Key",
            "apiKey",
            "PGPASSWORD",
            "MYSQL_PWD",
            "client_secret",
            "Ocp-Apim-Subscription-Key",
            "cf-aig-authorization",
            "x-goog-api-key",
            "Set-Cookie",
        ];
        for name in secret {
            assert!(names.has(name), "{name}");
        }
        for name in ["", "monkey", "max_tokens", "key_id", "password-file", "x-title", "-_-"] {
            assert!(!names.has(name), "{name}");
        }
        for name in
            ["x-jwt", "X-Pass", "x-session-id", "x-amzn-oidc-data", "DB_PASS_FILE", "x-csrf"]
        {
            assert!(super::is_secret_name(name), "{name}");
        }
        for name in ["x-request-id", "anthropic-ratelimit-tokens-remaining", "x-passive", "PATH"] {
            assert!(!super::is_secret_name(name), "{name}");
        }
        let own = SecretNames::of(["card-number"]);
        assert!(own.has("CardNumber") && !own.has("PGPASSWORD") && !own.has("number"));
    }
}
