//! How a value is written inside JSON and URLs. Writers differ in the characters that they escape
//! beyond the required ones, and a value must be found in all these forms.

/// The characters that JSON writers escape by number beyond the required ones, whether they also
/// escape non-ASCII characters, and whether their hexadecimal digits are upper case: none,
/// non-ASCII (Python, PHP), characters with a meaning in HTML (Go, Gson), and those of .NET.
const NUMBERED: [(&str, bool, bool); 6] = [
    ("", false, false),
    ("", true, false),
    ("", true, true),
    ("<>&", false, false),
    ("<>&='", false, false),
    ("+<>&'`\"", true, true),
];

/// The characters besides letters and digits that a URL contains unencoded, and whether a space
/// becomes `+`: the unreserved characters (RFC 3986), the same with slashes, form encoding,
/// `encodeURIComponent` and `encodeURI`; and by WHATWG's URL standard in a query, in a query of a
/// special scheme, in a path and in a password.
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

/// A value unchanged, as JSON escapes it, and as URLs encode it. Most forms are equal.
#[doc(hidden)]
pub fn forms(value: &str) -> impl Iterator<Item = String> {
    let mut forms = vec![value.to_owned()];
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return forms.into_iter();
    }
    for (escaped, all, capitals) in NUMBERED {
        let json = json(value, escaped, all, capitals);
        // Some servers escape every slash.
        forms.push(json.replace('/', "\\/"));
        forms.push(json);
    }
    // JSON inside a JSON string.
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

/// A value inside a JSON string: with these characters escaped by number, with non-ASCII characters
/// escaped if `all`, and with the required escapes.
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

/// A value with all bytes percent-encoded except letters, digits and these characters.
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
