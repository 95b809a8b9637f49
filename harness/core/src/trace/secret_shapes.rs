//! Finds secrets by their format: keys with the prefixes of well-known services, passwords in URLs
//! and on command lines, private keys.
//!
//! The text may be long, so one pass searches for several formats, and each hit is examined once.

use std::{ops::Range, sync::LazyLock};

use memchr::memmem::{self, Finder};

use crate::secret::SecretNames;

/// Prefixes of keys. Each prefix ends with `-` or `_`. Both characters are rare, so a search for them quickly finds all
/// these prefixes.
const LOOKS: [&str; 9] =
    ["sk-", "sk_", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "hf_"];

/// Prefixes of other keys.
const WORDS: [&str; 2] = ["AKIA", "AIza"];

/// The prefix of JSON web tokens, which have three parts separated by dots.
const TOKEN: &str = "eyJ";

/// The minimum length of a key or token, in bytes.
const LEAST: usize = 20;

/// Options with a value of the form `user:password`, and the programs that have these options.
const USER: [&str; 3] = ["-u", "--user", "--proxy-user"];
const FETCHES: [&str; 3] = ["curl", "wget", "http"];

/// The search for the program's name reads this number of bytes before and after an option.
const NEAR: usize = 500;

/// Parts of the lines before and after a private key.
const BEGINS: &str = "-----BEGIN ";
const PRIVATE_KEY: &str = "PRIVATE KEY";
const ENDS: &str = "-----END";

/// The searches for the prefixes of keys. They are built once, because building takes longer than a search.
static FINDERS: LazyLock<Vec<Finder<'static>>> =
    LazyLock::new(|| WORDS.iter().chain([&TOKEN]).map(Finder::new).collect());

/// A secret in a text: the range to hide, and the value to remember.
pub(super) struct SecretShape<'a> {
    pub(super) hidden: Range<usize>,
    pub(super) value: &'a str,
}

/// All secrets that are recognized by their format, in any order. Passwords in [URLs](user) are not
/// included.
pub(super) fn shapes<'a>(text: &'a str, names: &SecretNames) -> Vec<SecretShape<'a>> {
    let mut found = Vec::new();
    for finder in FINDERS.iter() {
        let starts = finder.find_iter(text.as_bytes());
        found.extend(starts.filter_map(|at| key(text, at)));
    }
    // The end of the last private key that was found.
    let mut read = 0;
    for at in memchr::memchr2_iter(b'-', b'_', text.as_bytes()) {
        let upto = part(text, 0..at + 1);
        if let Some(look) = LOOKS.iter().find(|look| upto.ends_with(**look)) {
            found.extend(key(text, at + 1 - look.len()));
        }
        if at < read || !upto.ends_with('-') || part(text, 0..at).ends_with(in_word) {
            continue;
        }
        found.extend(option(text, at, names));
        if let Some((key, end)) = private_key(text, at) {
            read = end;
            found.push(key);
        }
    }
    found
}

pub(super) fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn part(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

/// The word that begins at this position.
fn word(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    part(rest, 0..rest.find(|c| !in_word(c)).unwrap_or(rest.len()))
}

/// The key that begins at this position. `None` if the word at this position does not have the form of a key.
fn key(text: &str, at: usize) -> Option<SecretShape<'_>> {
    if part(text, 0..at).ends_with(in_word) {
        return None;
    }
    let value = word(text, at);
    let is_key = !value.starts_with(TOKEN) || value.matches('.').count() == 2;
    let hidden = at..at + value.len();
    (is_key && value.len() >= LEAST).then_some(SecretShape { hidden, value })
}

/// The user and password of a URL such as `https://user:password@`. The scheme ends at the position `colon`.
pub(super) fn user(text: &str, colon: usize) -> Option<SecretShape<'_>> {
    let rest = text.get(colon..)?.strip_prefix("://")?;
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<');
    let authority = part(rest, 0..rest.find(ends).unwrap_or(rest.len()));
    let (user, _) = authority.rsplit_once('@')?;
    let password = user.split_once(':').map(|(_, password)| password);
    // A short user name without a password, such as `git@`, is not a secret.
    let is_secret = password.is_some_and(|password| !password.is_empty()) || user.len() >= LEAST;
    let hidden = colon + 3..colon + 3 + user.len();
    is_secret.then_some(SecretShape { hidden, value: password.unwrap_or(user) })
}

/// The secret value of an option that begins at this position, such as `--password value`. For `-u user:password`, the
/// line must name a program that fetches URLs.
fn option<'a>(text: &'a str, at: usize, names: &SecretNames) -> Option<SecretShape<'a>> {
    let name = word(text, at);
    let is_user = USER.contains(&name);
    let is_named = name.starts_with("--") && names.has(name);
    if !is_user && !is_named {
        return None;
    }
    let behind = text.get(at + name.len()..)?;
    let value = behind.trim_start_matches([' ', '\t', '=']);
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
    let from = text.len() - value.len();
    let end = match quote {
        Some(quote) => value.find(quote),
        None => value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\')),
    };
    let value = part(value, 0..end.unwrap_or(value.len()));
    if value.is_empty() || value.starts_with('-') || from == at + name.len() {
        return None;
    }
    let hidden = from..from + value.len();
    if !is_user {
        return Some(SecretShape { hidden, value });
    }
    let (user, password) = value.split_once(':')?;
    let is_secret = !password.is_empty()
        && user.chars().all(|c| in_word(c) || matches!(c, '@' | '\\'))
        // A value such as `1000:1000` is a user id and a group id, as for `docker run -u`.
        && !value.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
        && fetches(text, at);
    is_secret.then_some(SecretShape { hidden, value: password })
}

/// Whether the same line, near the option, names a program that fetches URLs.
fn fetches(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let before = bytes.get(at.saturating_sub(NEAR)..at).unwrap_or_default();
    let line = memchr::memrchr(b'\n', before).unwrap_or(0);
    let before = before.get(line..).unwrap_or_default();
    let after = bytes.get(at..bytes.len().min(at + NEAR)).unwrap_or_default();
    let line = memchr::memchr(b'\n', after).unwrap_or(after.len());
    let after = after.get(..line).unwrap_or_default();
    let names = |line, program: &str| memmem::find(line, program.as_bytes()).is_some();
    FETCHES.iter().any(|program| names(before, program) || names(after, program))
}

/// The private key whose first line begins at this position, without its first and last line. Also returns the position
/// of the last line.
fn private_key(text: &str, at: usize) -> Option<(SecretShape<'_>, usize)> {
    let begins = text.get(at..)?.strip_prefix(BEGINS)?;
    // The kind of key, such as `RSA `, precedes `PRIVATE KEY`.
    let kind = begins.bytes().take_while(|byte| byte.is_ascii_uppercase() || *byte == b' ').count();
    let kind = part(begins, 0..kind).strip_suffix(PRIVATE_KEY)?;
    let from = at + BEGINS.len() + kind.len() + PRIVATE_KEY.len() + 5;
    let rest = text.get(from..)?;
    let end = from + rest.find(ENDS).unwrap_or(rest.len());
    let value = part(text, from..end).trim();
    (value.len() >= LEAST).then_some((SecretShape { hidden: from..end, value }, end))
}
