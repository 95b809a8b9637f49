//! The spellings of a value inside JSON and URLs. Writers escape different optional characters, and
//! a secret must be found in every spelling.

/// The escape rules of common JSON writers: the characters that are escaped by number in addition
/// to the required ones, whether non-ASCII characters are escaped, and whether hexadecimal digits
/// are upper case. In order: no optional escapes, non-ASCII only (Python, PHP), HTML characters
/// (Go, Gson), and .NET.
const NUMBERED: [(&str, bool, bool); 6] = [
    ("", false, false),
    ("", true, false),
    ("", true, true),
    ("<>&", false, false),
    ("<>&='", false, false),
    ("+<>&'`\"", true, true),
];

/// The encoding rules of common URL writers: the characters that stay unencoded besides letters and digits, and whether
/// a space becomes `+`. In order: RFC 3986's unreserved characters, these characters and slashes, two form encodings,
/// `encodeURIComponent`, `encodeURI`; then the encodings of WHATWG's URL standard for a query, a query of a special
/// scheme, a path and a password.
const PLAIN: [(&str, bool); 11] = [
    ("-_.~", false),
    ("-_.~/", false),
    ("-_.~", true),
    ("*-._", true),
    ("-_.!~*'()", false),
    ("-_.!~*'();,/?:@&=+$#", false),
    ("!$%&'()*+,-./:;=?@[\\]^_`{|}~", false),
    ("!$%&()*+,-./:;=?@[\\]^_`{|}~", false),
    ("!$%&'()*+,-./:;=@[\\]_|~", false),
    ("!$%&'()*+,-._~", false),
    ("!$&'()*+,-./:;=?@[\\]^_`{|}~", false),
];

/// All spellings of a value: unchanged, escaped as in JSON, and encoded as in URLs. Each different spelling is returned
/// only once.
#[doc(hidden)]
pub fn forms(value: &str) -> impl Iterator<Item = String> {
    let mut forms = vec![value.to_owned()];
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return forms.into_iter();
    }
    for (escaped, all, capitals) in NUMBERED {
        let json = json(value, escaped, all, capitals);
        // Some JSON writers escape every slash.
        forms.push(json.replace('/', "\\/"));
        forms.push(json);
    }
    // JSON inside a JSON string is escaped twice.
    let twice = json(&json(value, "", false, false), "", false, false);
    forms.extend([value.replace('/', "\\\\\\/"), twice.replace('/', "\\\\\\/"), twice]);
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        forms.extend(PLAIN.map(|(plain, is_form)| percent(value, plain, is_form, digits)));
    }
    forms.retain(|form| !form.is_empty());
    forms.sort_unstable();
    forms.dedup();
    forms.into_iter()
}

/// Escapes the value as inside of a JSON string. In addition to the required escapes, the characters in `escaped` are
/// escaped by number. If `all` is set, all non-ASCII characters are escaped by number, too.
fn json(value: &str, escaped: &str, all: bool, capitals: bool) -> String {
    let mut json = String::with_capacity(value.len());
    for c in value.chars() {
        if escaped.contains(c) || (all && !c.is_ascii()) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                json.push_str(&match capitals {
                    true => format!("\\u{unit:04X}"),
                    false => format!("\\u{unit:04x}"),
                });
            }
        } else {
            let spelled = serde_json::to_string(&c).unwrap_or_default();
            json.push_str(spelled.get(1..spelled.len().saturating_sub(1)).unwrap_or_default());
        }
    }
    json
}

/// The value with all bytes percent-encoded except letters, digits and the characters in `plain`.
fn percent(value: &str, plain: &str, is_form: bool, digits: &[u8; 16]) -> String {
    let digit = |nibble: u8| digits.get(usize::from(nibble)).map_or('0', |digit| *digit as char);
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || plain.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else if byte == b' ' && is_form {
            encoded.push('+');
        } else {
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}
