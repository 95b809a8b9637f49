//! Recognizes errors with which a server refuses a request because of its files.

use crate::error::{Error, ErrorKind};

/// The limits on the files of a request. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct FileLimits {
    /// The maximum number of pictures.
    pub images: Option<usize>,
    /// The maximum size of all files together, in bytes.
    pub bytes: Option<u64>,
}

impl FileLimits {
    pub fn allow(self, images: usize, bytes: u64) -> bool {
        self.images.is_none_or(|most| images <= most) && self.bytes.is_none_or(|most| bytes <= most)
    }

    /// Half of each limit.
    pub fn halved(self) -> Self {
        Self { images: self.images.map(|most| most / 2), bytes: self.bytes.map(|most| most / 2) }
    }

    /// The stricter of both limits for each quantity.
    pub fn and(self, other: Self) -> Self {
        let images = self.images.into_iter().chain(other.images).min();
        Self { images, bytes: self.bytes.into_iter().chain(other.bytes).min() }
    }
}

/// Why a server refused the files of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum TooMuch {
    /// Too many pictures. The number is the maximum that the server accepts, if the server states it.
    Images(Option<usize>),
    /// One picture is too large or cannot be read.
    OneImage,
    Bytes,
}

/// Words for pictures and for limits in servers' messages.
const PICTURES: [&str; 5] = ["image", "picture", "media", "photo", "multimodal"];
const LIMITS: [&str; 8] =
    ["too many", "too much", "too large", "at most", "max", "limit", "exceed", "up to"];
/// Phrases which say that a model takes no pictures (`UNSUPPORTED`), or that one picture is unusable (`BROKEN`).
const UNSUPPORTED: [&str; 8] = [
    "not support",
    "n't support",
    "unsupported",
    "only supported",
    "endpoints found that support",
    "not enabled",
    "not a multimodal",
    "unknown variant",
];
const BROKEN: [&str; 11] = [
    "not process",
    "to process",
    "to decode",
    "to load",
    "not identify",
    "invalid image",
    "valid image",
    "corrupt",
    "unsupported image",
    "image format",
    "media type",
];
/// Phrases about the number of pictures (`NUMBERS`), and about the size of one picture or of all pictures (`MEASURES`).
const NUMBERS: [&str; 4] = ["too many", "too much", "number of", " count"];
const MEASURES: [&str; 12] = [
    "mb",
    "mib",
    "byte",
    "bytes",
    "size",
    "pixel",
    "pixels",
    "px",
    "dimension",
    "dimensions",
    "width",
    "height",
];
/// Phrases about a whole request (`REQUESTS`), about all files (`ALL`), and about sizes (`SIZES`).
const REQUESTS: [&str; 5] = ["request", "payload", "body", "entity", "content"];
const ALL: [&str; 7] =
    ["total", "combined", "payload", "body", "entity", "request size", "request too"];
const SIZES: [&str; 3] = ["size", "bytes", " mb"];

/// The number of pictures above which a vendor lowers the maximum size of each picture.
///
/// Source: <https://platform.claude.com/docs/en/build-with-claude/vision>.
const MANY_IMAGES: usize = 20;

/// Why a server refused the files of a request with `images` pictures. `None` for errors that are not about files,
/// including a full context window.
#[doc(hidden)]
pub fn too_much(error: &Error, images: usize) -> Option<TooMuch> {
    // Some servers answer 500 to input that they do not support.
    let passes = error.is_retryable() && error.status() != Some(500);
    if error.kind() != ErrorKind::Api || passes || error.is_out_of_quota() {
        return None;
    }
    let words = error.message().to_ascii_lowercase();
    let has = |known: &[&str]| known.iter().any(|known| words.contains(known));
    let names = |word: &str| PICTURES.iter().any(|known| word.starts_with(known));
    let is_about = words.split(|letter: char| !letter.is_ascii_alphabetic()).any(names);
    if is_about && images > 0 && !has(&LIMITS) {
        if has(&BROKEN) {
            return Some(TooMuch::OneImage);
        }
        if has(&UNSUPPORTED) {
            return Some(TooMuch::Images(Some(0)));
        }
    }
    if error.is_retryable() {
        return None;
    }
    if is_about && has(&LIMITS) && images > 0 {
        if words.contains("many-image") {
            return Some(TooMuch::Images((images > MANY_IMAGES).then_some(MANY_IMAGES)));
        }
        let mut parts = words.split(|letter: char| !letter.is_ascii_alphanumeric());
        let digits = |letter: char| letter.is_ascii_digit();
        let is_measure = |word: &str| MEASURES.contains(&word.trim_start_matches(digits));
        if !has(&NUMBERS) && parts.any(is_measure) {
            return Some(if has(&ALL) { TooMuch::Bytes } else { TooMuch::OneImage });
        }
        // A number inside a path, such as `messages.2`, is a position and no limit, so only words that are numbers
        // count.
        let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).parse().ok();
        let numbers: Vec<usize> = words.split_whitespace().filter_map(bare).collect();
        let takes_none = numbers == [0];
        let fewer = numbers.into_iter().filter(|number| *number < images);
        return Some(TooMuch::Images(fewer.max().filter(|most| *most > 0 || takes_none)));
    }
    // A message that mentions tokens is about the token limit and not about the size in bytes.
    let is_large = words.contains("too large") || (has(&SIZES) && has(&LIMITS));
    let is_size = error.status() == Some(413) || (has(&REQUESTS) && is_large);
    (is_size && !words.contains("token")).then_some(TooMuch::Bytes)
}

#[cfg(test)]
mod tests {
    use super::{TooMuch, too_much};
    use crate::error::{Error, ErrorKind};

    #[test]
    fn servers_say_in_many_words_that_a_request_has_too_many_files() {
        let images = |most| Some(TooMuch::Images(most));
        let table = [
            (52, 400, "request contains 52 images, exceeding the maximum of 50", images(Some(50))),
            (120, 400, "too many images and documents: 120 + 0 > 100", images(Some(100))),
            (107, 400, "Too much media: 0 document pages + 107 images > 100", images(Some(100))),
            (11, 400, "Too many images in request. Max is 10.", images(Some(10))),
            (
                4,
                400,
                "Too many images provided. This model supports up to 3 images",
                images(Some(3)),
            ),
            (
                51,
                400,
                "Exceeded maximum number of images (50) allowed in the request.",
                images(Some(50)),
            ),
            (6, 400, "At most 5 image(s) may be provided in one request.", images(Some(5))),
            (5, 400, "Image count 5 exceeds limit 4 per request.", images(Some(4))),
            (5, 400, "At most 0 image(s) may be provided in one request.", images(Some(0))),
            (3, 400, "Too much media: 0 document pages + 3 images", images(None)),
            (
                31,
                400,
                "dimensions exceed max allowed size for many-image requests: 2000 pixels",
                images(Some(20)),
            ),
            (
                3,
                400,
                "messages.2.content.1.image: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
                Some(TooMuch::OneImage),
            ),
            (
                3,
                400,
                "At least one of the image dimensions exceed max allowed size: 8000 pixels",
                Some(TooMuch::OneImage),
            ),
            (3, 400, "image exceeds 20MB limit", Some(TooMuch::OneImage)),
            (3, 400, "The image size is too large.", Some(TooMuch::OneImage)),
            (3, 400, "Total image size exceeds the limit of 50 MB", Some(TooMuch::Bytes)),
            (3, 413, "<html>413 Request Entity Too Large</html>", Some(TooMuch::Bytes)),
            (3, 413, "Request exceeds the maximum size", Some(TooMuch::Bytes)),
            (
                3,
                400,
                "Request payload size exceeds the limit: 20971520 bytes.",
                Some(TooMuch::Bytes),
            ),
            (3, 413, "Request too large: tokens per minute, Limit 6000, Requested 9000", None),
            (3, 400, "image input is not enabled for this model", images(Some(0))),
            (3, 404, "No endpoints found that support image input", images(Some(0))),
            (
                3,
                500,
                "image input is not supported - hint: you may need to provide the mmproj",
                images(Some(0)),
            ),
            (3, 400, "unknown variant `image_url`, expected `text`", images(Some(0))),
            (3, 400, "m is not a multimodal model", images(Some(0))),
            (
                3,
                400,
                "messages.0.content.1.image: Could not process image",
                Some(TooMuch::OneImage),
            ),
            (3, 400, "You uploaded an unsupported image.", Some(TooMuch::OneImage)),
            (0, 400, "image input is not supported", None),
            (3, 429, "image input is not supported", None),
            (3, 500, "no worker is free for the images", None),
            (3, 400, "the limit is exceeded immediately", None),
            (3, 400, "the model takes no pictures", None),
            (3, 400, "messages.1: all messages must have non-empty content", None),
            (3, 503, "too many images are being processed, at most 5", None),
        ];
        for (sent, status, words, expected) in table {
            let error = Error::new(ErrorKind::Api, words).with_status(status);
            assert_eq!(too_much(&error, sent), expected, "{words}");
        }
    }
}
