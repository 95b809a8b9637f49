//! Detects whether a text of others mentions a secret, so that a person is warned before typing one.

use super::letter::{Looks, acts, looks};
use crate::secret::Names;

/// Words that name a secret anywhere in a longer word: `mypassword1`.
const INSIDE: [&str; 6] = ["password", "passwd", "passphrase", "passcode", "apikey", "credential"];

/// Words that name a secret at the end of a longer word, also in the plural and before a number: `accesstokens`.
const AT_THE_END: [&str; 2] = ["secret", "token"];

/// Whole words that name a secret, also in the plural and before a number.
const WHOLE: [&str; 6] = ["key", "pwd", "otp", "ssn", "privkey", "bearer"];

/// Whether a text mentions a password, a token or a key in English: anywhere in the text, in the singular or plural, in
/// letters that look like those of the word, and with invisible characters between them. A needless warning costs less than
/// a missing one.
pub(super) fn speaks_of_a_secret(text: &str) -> bool {
    let mut heard = Heard::default();
    for c in text.chars() {
        match shape(c) {
            Shape::Nothing => {}
            Shape::Gap => heard.end_of_word(),
            Shape::Letter(letter, is_upper) => {
                if is_upper && heard.ends_low {
                    heard.end_of_word();
                }
                heard.ends_low = !is_upper;
                heard.is_upper &= is_upper;
                heard.word.push(letter);
            }
        }
        if heard.is_secret {
            return true;
        }
    }
    heard.end_of_word();
    heard.end_of_word();
    heard.is_secret
}

/// Whether the name of a field is that of a secret, or speaks of one.
pub(super) fn names_a_secret(name: &str) -> bool {
    Names::default().has(name) || speaks_of_a_secret(name)
}

/// The current word and the one before it.
struct Heard {
    word: String,
    /// Whether all letters of the word are in upper case.
    is_upper: bool,
    /// Whether the last letter is in lower case, so that an upper-case letter begins a word.
    ends_low: bool,
    /// The word before, or all single letters before.
    before: String,
    is_secret: bool,
}

impl Default for Heard {
    fn default() -> Self {
        let word = String::new();
        Self { word, is_upper: true, ends_low: false, before: String::new(), is_secret: false }
    }
}

impl Heard {
    fn end_of_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        // `pin` in lower case has other meanings.
        let is_pin = word == "pin" && self.is_upper;
        (self.is_upper, self.ends_low) = (true, false);
        if word.is_empty() {
            return;
        }
        let is_alone = word.chars().count() == 1;
        let joined = format!("{}{word}", self.before);
        self.is_secret |= is_pin || is_secret(&word) || is_joined(&joined);
        // Single letters with spaces between them form one word.
        let letters_before = self.before.len() < 32 && is_alone;
        self.before = if letters_before { joined } else { word };
    }
}

/// Whether a word names a secret.
fn is_secret(word: &str) -> bool {
    let bare = word.trim_end_matches(|c: char| c.is_numeric());
    let one = bare.strip_suffix('s').unwrap_or(bare);
    INSIDE.iter().any(|sign| word.contains(sign))
        || AT_THE_END.iter().any(|sign| bare.ends_with(sign) || one.ends_with(sign))
        || WHOLE.iter().any(|sign| bare == *sign || one == *sign)
}

/// Whether joined words name a secret: `pass word`, `P A S S W O R D`.
fn is_joined(words: &str) -> bool {
    let signs = INSIDE.iter().chain(&AT_THE_END).chain(&WHOLE);
    let one = words.strip_suffix('s').unwrap_or(words);
    signs.into_iter().any(|sign| words == *sign || one == *sign)
}

/// What a reader sees of a character.
enum Shape {
    /// It is invisible.
    Nothing,
    /// It separates words.
    Gap,
    /// The letter that it looks like, in lower case, and whether it is in upper case.
    Letter(char, bool),
}

fn shape(c: char) -> Shape {
    if c.is_whitespace() {
        return Shape::Gap;
    }
    if acts(c) && !c.is_control() || looks(c) == Looks::Mark {
        return Shape::Nothing;
    }
    // Full-width letters have the order of ASCII.
    let c = match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        c => c,
    };
    if !c.is_alphanumeric() {
        return Shape::Gap;
    }
    let lower = c.to_lowercase().next().unwrap_or(c);
    Shape::Letter(alike(lower), c.is_uppercase())
}

/// The Latin letter that a small Greek or Cyrillic letter, or a letter with a diacritic, looks like.
fn alike(c: char) -> char {
    match c {
        'а' | 'α' | 'à'..='å' | 'ā' | 'ă' | 'ą' | 'ɑ' => 'a',
        'с' | 'ϲ' | 'ç' | 'ć' | 'č' => 'c',
        'ԁ' | 'ď' | 'đ' => 'd',
        'е' | 'ё' | 'є' | 'ε' | 'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => 'e',
        'һ' => 'h',
        'і' | 'ї' | 'ι' | 'ì'..='ï' | 'ī' | 'ı' => 'i',
        'ј' => 'j',
        'к' | 'κ' | 'ķ' => 'k',
        'ӏ' | 'ł' => 'l',
        'п' | 'η' | 'ñ' | 'ń' | 'ň' => 'n',
        'о' | 'ο' | 'σ' | 'ò'..='ö' | 'ø' | 'ō' | 'ő' => 'o',
        'р' | 'ρ' => 'p',
        'г' | 'ř' | 'ŕ' => 'r',
        'ѕ' | 'ś' | 'š' | 'ş' | 'ș' => 's',
        'т' | 'τ' | 'ť' | 'ţ' | 'ț' => 't',
        'ѵ' | 'ν' => 'v',
        'ԝ' | 'ω' | 'ѡ' => 'w',
        'у' | 'γ' | 'ý' | 'ÿ' | 'ү' => 'y',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::{names_a_secret, speaks_of_a_secret};

    #[test]
    fn a_text_that_speaks_of_a_secret_anywhere_and_in_any_form_is_known() {
        for text in [
            "Enter your password",
            "Enter your password.",
            "Your passwords, please",
            "PASSWORD:",
            "Type:password(8 letters)",
            "Password\u{2014}thanks",
            "user/password:",
            "mypassword1",
            "password1",
            "yourPassword",
            "your\npassword\nhere",
            "your login\u{a0}password\u{a0}here",
            "pass word",
            "P A S S W O R D",
            "pass\u{200b}word",
            "p\u{430}ssword",
            "\u{ff50}\u{ff41}\u{ff53}\u{ff53}\u{ff57}\u{ff4f}\u{ff52}\u{ff44}",
            "p\u{332}a\u{332}ssword",
            "pässwörd",
            "Tokens:",
            "your GitHub token",
            "your token/PIN",
            "Enter your PIN",
            "ACCESS_TOKENS",
            "your secrets",
            "the secret-of-yours",
            "client_secret2",
            "Your API key",
            "Your API keys",
            "api_key",
            "apikey",
            "Your access-key please",
            "Enter the key of the vault",
            "Your private key",
            "Paste your SSH key",
            "OpenAI key",
            "sk-... key",
            "the credentials of the admin",
            "bearer",
        ] {
            assert!(speaks_of_a_secret(text), "{text:?}");
            assert!(names_a_secret(text), "{text:?}");
        }
        for text in [
            "",
            "Which size?",
            "Pin this message",
            "monkeys at the keyboard",
            "the secretary of the broken tokenizer",
            "pass the word on",
            "Your passport number",
            "a b c d e",
        ] {
            assert!(!speaks_of_a_secret(text), "{text:?}");
        }
        assert!(names_a_secret("otp") && names_a_secret("pin") && names_a_secret("x_auth"));
    }
}
