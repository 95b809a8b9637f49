//! Reads sizes from a vendor's error when a request does not fit into the window.

use crate::error::Error;

/// The words of vendors before the size of the window, and before the size of the request.
const WINDOW: [&str; 6] = [
    "maximum context length is ",
    "available context size (",
    "tokens > ",
    "context window of ",
    "context length of ",
    "maximum prompt length is ",
];
const REQUEST: [&str; 7] = [
    "too long: ",
    "request (",
    "you requested ",
    "you requested about ",
    "resulted in ",
    "request contains ",
    "your request has ",
];

/// The words behind the size of the request, where the number before is the sum of it and of what the answer may have.
const PART: [&str; 5] =
    [" in the messages", " in your prompt", " in the prompt", " of text input", " input tokens"];

/// The words before the sum of both sizes.
const SUM: &str = "exceed context limit: ";

/// The size of the window and the size of the request, in tokens, if the error states them.
pub(crate) fn sizes(error: &Error) -> (Option<u64>, Option<u64>) {
    let words = error.message().to_ascii_lowercase();
    let mut before = ' ';
    // Some write thousands with a comma.
    let words: String = words
        .char_indices()
        .filter(|(at, letter)| {
            let is_digit = |letter: Option<char>| letter.is_some_and(|it| it.is_ascii_digit());
            let is_within = *letter == ','
                && is_digit(Some(before))
                && is_digit(words.get(at + 1..).and_then(|rest| rest.chars().next()));
            before = *letter;
            !is_within
        })
        .map(|(_, letter)| letter)
        .collect();
    let after = |known: &[&str]| {
        known.iter().find_map(|known| {
            let (_, rest) = words.split_once(known)?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok().filter(|number| *number > 0)
        })
    };
    let before = |known: &[&str]| {
        let all = known.iter().filter_map(|known| words.split_once(known));
        let numbers = all.filter_map(|(said, _)| said.rsplit(|c: char| !c.is_ascii_digit()).next());
        numbers.filter_map(|digits| digits.parse::<u64>().ok()).find(|number| *number > 0)
    };
    // Anthropic: `1210 + 199000 > 200000`, the tokens of the request, those that the answer may have, and the window.
    let sum = words.split_once(SUM).and_then(|(_, sum)| sum.split_once(" > "));
    let number = |text: &str| {
        let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok().filter(|number| *number > 0)
    };
    match sum {
        Some((request, window)) => (number(window), number(request)),
        None => (after(&WINDOW), before(&PART).or_else(|| after(&REQUEST))),
    }
}

#[cfg(test)]
mod tests {
    use super::sizes;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn the_sizes_are_read_from_the_words_of_vendors() {
        let table = [
            ("prompt is too long: 212000 tokens > 200000 maximum", Some(200_000), Some(212_000)),
            (
                "request (2009 tokens) exceeds the available context size (512 tokens), try increasing it",
                Some(512),
                Some(2009),
            ),
            (
                "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in \
                 the messages, 1000 in the completion).",
                Some(4096),
                Some(4000),
            ),
            (
                "This model's maximum context length is 4097 tokens, however you requested 4297 tokens (97 in your prompt; \
                 4200 for the completion). Please reduce your prompt; or completion length.",
                Some(4097),
                Some(97),
            ),
            (
                "This endpoint's maximum context length is 131072 tokens. However, you requested about 160005 tokens \
                 (5 of text input, 160000 in the output).",
                Some(131_072),
                Some(5),
            ),
            (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130,111 \
                 tokens.",
                Some(128_000),
                Some(130_111),
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
                Some(131_072),
                Some(150_000),
            ),
            (
                "input length and `max_tokens` exceed context limit: 1210 + 199000 > 200000, decrease input length or \
                 `max_tokens` and try again",
                Some(200_000),
                Some(1_210),
            ),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 199000. This model's maximum context length is \
                 200000 tokens and your request has 3147 input tokens (199000 > 200000 - 3147).",
                Some(200_000),
                Some(3_147),
            ),
            (
                "This model's maximum context length is 8000 tokens. However, you requested 500 output tokens and your \
                 prompt contains at least 8144 input tokens, for a total of at least 8644 tokens. Please reduce the length",
                Some(8000),
                Some(8144),
            ),
            (
                "maximum context length is 4,097 tokens, however you requested 8,146 tokens (4,050 in your prompt; 4,096 \
                 for the completion)",
                Some(4097),
                Some(4050),
            ),
            ("exceed context limit: 190,000 + 64,000 > 200,000", Some(200_000), Some(190_000)),
            ("exceed context limit: 5 + 3 > 0", None, Some(5)),
            ("Your input exceeds the context window of this model.", None, None),
            ("too long: 99999999999999999999999 tokens", None, None),
        ];
        for (words, window, request) in table {
            let error = Error::new(ErrorKind::Api, words);
            assert_eq!(sizes(&error), (window, request), "{words}");
        }
    }
}
