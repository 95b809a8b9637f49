//! Detects whether a text of a requester mentions a secret, so that the person is warned before entering one.

use std::sync::LazyLock;

use super::letter::{CharacterLook, is_unsafe, look_of};
use harness_core::secret::SecretNames;

/// Words that name a secret anywhere inside a longer word, such as `mypassword1`. They may also be written as several
/// words, such as `pass word` and `card_number`.
const INSIDE: [&str; 91] = [
    // Secrets that people remember.
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passkey",
    "pasword",
    "passwrd",
    "pincode",
    "memorableword",
    "memorableinformation",
    "securityanswer",
    "securityquestion",
    "securityphrase",
    "securitynumber",
    "securitycode",
    "maidenname",
    "logindetails",
    "logindata",
    "logininfo",
    "signindetails",
    "accountdetails",
    // Secrets that open a wallet.
    "seedphrase",
    "seedword",
    "recoveryphrase",
    "recoveryword",
    "recoverycode",
    "backupcode",
    "backupphrase",
    "wordphrase",
    "walletphrase",
    "mnemonic",
    // Secrets that programs send.
    "apikey",
    "credential",
    "privatekey",
    "secretkey",
    "accesskey",
    "licensekey",
    "encryptionkey",
    "masterkey",
    "signingkey",
    "recoverykey",
    "deploykey",
    "accountkey",
    "keystore",
    "authheader",
    "authorizationheader",
    "authcookie",
    "cookieheader",
    "magiclink",
    "sshkey",
    "sessionid",
    "sessioncookie",
    "authcode",
    "authorizationcode",
    "connectionstring",
    // Secrets for payments.
    "cardnumber",
    "creditcard",
    "debitcard",
    "cardverification",
    "giftcard",
    "unsealkey",
    "carddetails",
    "bankdetails",
    "bankingdetails",
    "paymentdetails",
    "bankaccount",
    "nationalinsurance",
    "nationalid",
    "taxid",
    "socialsecurity",
    "onlinebanking",
    // Passwords and codes in other languages.
    "passwort",
    "kennwort",
    "zugangsdaten",
    "motdepasse",
    "contraseña",
    "palabradepaso",
    "wachtwoord",
    "lösenord",
    "adgangskode",
    "passord",
    "salasana",
    "hasło",
    "jelszó",
    "пароль",
    "κωδικός",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
    "סיסמה",
];

/// Words that name a secret at the end of a longer word, also in the plural or before a number: `accesstokens`.
const AT_THE_END: [&str; 7] = ["secret", "token", "cvv", "cvc", "otp", "pwd", "ssn"];

/// Words that name a secret only as a whole word, also in the plural or before a number.
const WHOLE: [&str; 29] = [
    "key",
    "pwd",
    "pswd",
    "psw",
    "pw",
    "otp",
    "totp",
    "hotp",
    "2fa",
    "mfa",
    "tan",
    "ssn",
    "cvv",
    "cvc",
    "cvn",
    "privkey",
    "bearer",
    "jwt",
    "dsn",
    "kubeconfig",
    "senha",
    "parola",
    "şifre",
    "heslo",
    "geslo",
    "lozinka",
    "口令",
    "पासवर्ड",
    "пинкод",
];

/// Words that name a secret only with one of the listed qualifiers. The qualifier is near the word, or begins a longer
/// word that ends with the word. Alone, these words are harmless: a postal code, a pinned message, a boarding
/// pass. Each word may also be in the plural.
const BESIDE: [(&str, &[&str]); 3] = [
    (
        "code",
        &[
            "verification",
            "verify",
            "verifying",
            "security",
            "authenticator",
            "authentication",
            "authenticate",
            "auth",
            "oauth",
            "login",
            "logon",
            "signin",
            "access",
            "sms",
            "text",
            "texted",
            "sent",
            "send",
            "email",
            "emailed",
            "mailed",
            "receive",
            "received",
            "digit",
            "digits",
            "factor",
            "step",
            "time",
            "onetime",
            "unlock",
            "entry",
            "door",
            "alarm",
            "gate",
            "app",
            "device",
            "phone",
            "recovery",
            "backup",
            "activation",
            "confirmation",
            "reset",
            "temporary",
        ],
    ),
    (
        "pin",
        &[
            "your", "code", "number", "card", "bank", "atm", "sim", "phone", "device", "digit",
            "digits", "enter", "account", "user", "secure",
        ],
    ),
    (
        "pass",
        &[
            "user", "username", "login", "db", "root", "admin", "smtp", "ftp", "wifi", "proxy",
            "sudo", "account", "email",
        ],
    ),
];

/// How many words before and after a word count as near.
const NEAR: usize = 5;

/// The maximum number of single letters that are joined into one word.
const LETTERS: usize = 32;

/// The maximum number of words in the name of a secret.
const JOINED: usize = 4;

/// The names of secrets, with look-alike characters replaced by plain letters.
struct SecretSigns {
    inside: Vec<String>,
    at_the_end: Vec<String>,
    whole: Vec<String>,
}

static SIGNS: LazyLock<SecretSigns> = LazyLock::new(|| {
    let folded = |signs: &[&str]| signs.iter().map(|sign| fold(sign)).collect();
    SecretSigns { inside: folded(&INSIDE), at_the_end: folded(&AT_THE_END), whole: folded(&WHOLE) }
});

/// Whether a text mentions a password, a token, a key, a code for signing in, or payment data. The words may be
/// anywhere in the text, in the singular or plural, with look-alike letters and digits, and with invisible characters
/// in between. A needless warning costs less than a missing warning.
pub(super) fn has_words_of_a_secret(text: &str) -> bool {
    let is_digit_letter = |c: char| matches!(c, '0' | '1' | '3' | '4' | '5' | '7' | '@' | '$');
    let names = |text: &str| mentions(&words(text));
    names(text)
        || text.contains(is_digit_letter)
            && names(&text.chars().map(letter_for).collect::<String>())
}

/// Whether the name of a field names or mentions a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    SecretNames::default().has(name) || has_words_of_a_secret(name)
}

/// A word of a text, with look-alike characters replaced by plain letters.
struct FoldedWord {
    text: String,
    /// Whether all letters of the word are in upper case.
    is_upper: bool,
}

fn mentions(words: &[FoldedWord]) -> bool {
    let near = |at: usize, signs: &[&str]| {
        let around = words.get(at.saturating_sub(NEAR)..words.len().min(at + NEAR + 1));
        around.into_iter().flatten().any(|word| signs.contains(&word.text.as_str()))
    };
    let is_beside = |at: usize, one: &str| {
        BESIDE.iter().any(|(sign, others)| {
            one.strip_suffix(sign).is_some_and(|before| match before {
                "" => near(at, others),
                before => others.contains(&before),
            })
        })
    };
    words.iter().enumerate().any(|(at, word)| {
        // `pin` in lower case has other meanings.
        let is_pin = word.is_upper && singular(&word.text) == "pin";
        let mut joined = String::new();
        let mut following = words.iter().skip(at).take(JOINED);
        is_pin
            || is_beside(at, singular(&word.text))
            || is_beside(at, &word.text)
            || following.any(|word| {
                joined.push_str(&word.text);
                is_secret(&joined)
            })
    })
}

/// Whether a word, or several words joined without gaps, name a secret.
fn is_secret(word: &str) -> bool {
    let bare = word.trim_end_matches(|c: char| c.is_numeric());
    // A number at the end may also belong to the name.
    let forms = [singular(word), bare, singular(bare)];
    let is = |sign: &String| forms.contains(&sign.as_str());
    SIGNS.inside.iter().any(|sign| word.contains(sign.as_str()))
        || SIGNS
            .at_the_end
            .iter()
            .any(|sign| forms.iter().any(|form| form.ends_with(sign.as_str())))
        || SIGNS.whole.iter().any(is)
}

fn singular(word: &str) -> &str {
    word.strip_suffix('s').unwrap_or(word)
}

/// The words of a text. An upper-case letter begins a new word in two cases: after a lower-case letter, as in
/// `userPIN`, and between an upper-case letter and a lower-case letter, as in `OTPCode`. Single letters with gaps
/// between them form one word.
fn words(text: &str) -> Vec<FoldedWord> {
    let mut words: Vec<Vec<(char, bool)>> = vec![Vec::new()];
    for c in text.chars() {
        match shape(c) {
            LetterShape::Nothing => {}
            LetterShape::Gap => words.push(Vec::new()),
            LetterShape::Letter(letter, is_upper) => {
                let before =
                    words.last().and_then(|word| word.last()).map(|(_, is_upper)| *is_upper);
                if is_upper && before == Some(false) {
                    words.push(Vec::new());
                } else if !is_upper && let Some(word) = words.last_mut() {
                    let ends_upper =
                        word.iter().rev().take_while(|(_, is_upper)| *is_upper).count();
                    if ends_upper > 1 && letter.is_alphabetic() {
                        let first = word.split_off(word.len() - 1);
                        words.push(first);
                    }
                }
                if let Some(word) = words.last_mut() {
                    word.push((letter, is_upper));
                }
            }
        }
    }
    let mut joined: Vec<FoldedWord> = Vec::new();
    let mut letters = 0;
    for word in words.into_iter().filter(|word| !word.is_empty()) {
        let is_upper = word.iter().all(|(letter, is_upper)| *is_upper || letter.is_numeric());
        let text: String = word.iter().map(|(letter, _)| *letter).collect();
        let is_alone = word.len() == 1;
        match joined.last_mut().filter(|_| is_alone && (1..LETTERS).contains(&letters)) {
            Some(before) => {
                before.text.push_str(&text);
                before.is_upper &= is_upper;
            }
            None => joined.push(FoldedWord { text, is_upper }),
        }
        letters = if is_alone { letters + 1 } else { 0 };
    }
    joined
}

/// The letter that a digit or a sign stands for in a disguised word.
fn letter_for(c: char) -> char {
    match c {
        '0' => 'o',
        '1' => 'l',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        c => c,
    }
}

fn fold(word: &str) -> String {
    let letter = |c| match shape(c) {
        LetterShape::Letter(letter, _) => Some(letter),
        LetterShape::Nothing | LetterShape::Gap => None,
    };
    word.chars().filter_map(letter).collect()
}

/// How a reader sees a character.
enum LetterShape {
    /// The character is invisible.
    Nothing,
    /// The character separates words.
    Gap,
    /// The lower-case letter that the character looks like, and whether the character is in upper case.
    Letter(char, bool),
}

fn shape(c: char) -> LetterShape {
    if c.is_whitespace() {
        return LetterShape::Gap;
    }
    if is_unsafe(c) && !c.is_control() || look_of(c) == CharacterLook::Mark {
        return LetterShape::Nothing;
    }
    // Full-width letters have the same order as ASCII.
    let c = match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        c => c,
    };
    if !c.is_alphanumeric() {
        return LetterShape::Gap;
    }
    let lower = c.to_lowercase().next().unwrap_or(c);
    LetterShape::Letter(alike(lower), c.is_uppercase())
}

/// Maps a lower-case Greek, Cyrillic or accented letter to the Latin letter with the same look.
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
        'о' | 'ο' | 'σ' | 'ς' | 'ò'..='ö' | 'ø' | 'ō' | 'ő' => 'o',
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
#[path = "secrets_tests.rs"]
mod tests;
