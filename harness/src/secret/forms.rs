//! How a value is spelled inside of JSON and URLs. Writers differ in what they escape beyond what they
//! must, and a value has to be found in the text of each.

/// What JSON writers escape by number beside what they must, and whether their digits are capitals:
/// nothing, what is not ASCII (Python, PHP), what HTML gives a meaning to (Go, Gson), and what .NET does.
const NUMBERED: [(&str, bool, bool); 6] = [
    ("", false, false),
    ("", true, false),
    ("", true, true),
    ("<>&", false, false),
    ("<>&='", false, false),
    ("+<>&'`\"", true, true),
];

/// What beside letters and digits stands in a URL as it is, and whether a space is a `+`: the unreserved
/// characters (RFC 3986), with slashes, in forms, after `encodeURIComponent` and after `encodeURI`; and
/// what WHATWG's URL standard leaves in a query, in that of a known scheme, in a path and in a password.
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

/// A value as it is, as JSON spells it, and as it stands in a URL. Most are the same.
pub(crate) fn forms(value: &str) -> impl Iterator<Item = String> {
    let mut forms = vec![value.to_owned()];
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return forms.into_iter();
    }
    for (escaped, all, capitals) in NUMBERED {
        let json = json(value, escaped, all, capitals);
        // Some servers escape each slash.
        forms.push(json.replace('/', "\\/"));
        forms.push(json);
    }
    // JSON in a string of JSON.
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

/// A value inside of a string of JSON: with these characters escaped by number, with what is not ASCII if
/// `all` is to be, and with what must be.
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

/// A value with all but letters, digits and these characters encoded.
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
