//! Pictures as vendors take them. A picture that a vendor refuses stands in the conversation for good, and
//! would have every later request refused: in its place the model reads what it was.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{message::Image, secret::beginning};

/// How files of the kinds begin that all vendors take.
///
/// Source: <https://docs.anthropic.com/en/docs/build-with-claude/vision>.
fn kind(file: &[u8]) -> Option<&'static str> {
    match file {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// So many letters of base64 hold the beginning of a file.
const BEGINNING: usize = 16;

/// The picture as it can be sent, under the type that its bytes have; or the words that stand in its place.
pub(super) fn taken(image: &Image) -> Result<Cow<'_, Image>, String> {
    let Image::Data { mime, data } = image else { return Ok(Cow::Borrowed(image)) };
    let begin = data.get(..BEGINNING.min(data.len())).unwrap_or_default();
    match kind(&STANDARD.decode(begin).unwrap_or_default()).filter(|_| is_base64(data)) {
        Some(kind) if kind == mime => Ok(Cow::Borrowed(image)),
        Some(kind) => Ok(Cow::Owned(Image::Data { mime: kind.to_owned(), data: data.clone() })),
        None => Err(format!(
            "[A picture stood here that cannot be shown: it was given as `{}` and holds no PNG, JPEG, GIF \
             or WebP file.]",
            beginning(mime, 100)
        )),
    }
}

/// As [`taken`], for servers of which some take kinds of pictures that others do not.
pub(super) fn taken_by_some(image: &Image) -> Result<Cow<'_, Image>, String> {
    match image {
        Image::Data { mime, data } if is_of_another_kind(mime) && is_base64(data) => {
            Ok(Cow::Borrowed(image))
        }
        image => taken(image),
    }
}

/// Whether this names a kind of picture that only some servers take, such as `image/heic`. None reads
/// drawings.
fn is_of_another_kind(mime: &str) -> bool {
    let known = ["png", "jpeg", "jpg", "gif", "webp", "svg+xml"];
    let is_plain = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
        !name.is_empty() && name.bytes().all(is_part)
    };
    mime.strip_prefix("image/").is_some_and(|name| is_plain(name) && !known.contains(&name))
}

fn is_base64(data: &str) -> bool {
    let letters = data.strip_suffix("==").or_else(|| data.strip_suffix('=')).unwrap_or(data);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !letters.is_empty() && data.len().is_multiple_of(4) && letters.bytes().all(is_letter)
}
