//! Reads token counts from a vendor's error about a request that does not fit into the window.

use crate::error::Error;

/// Phrases before the size of the window (`WINDOW`) and before the size of the request (`REQUEST`) in vendors'
/// messages.
const WINDOW: [&str; 22] = [
    "maximum context length is ",
    "maximum context length of ",
    "context length is only ",
    "context length of only ",
    "model's context length (",
    "maximum model length of ",
    "max_model_len=max_total_tokens=",
    "max_model_len=",
    "max context size (",
    "`max_new_tokens` must be <= ",
    "available context size (",
    "tokens > ",
    "context window of ",
    "context length of ",
    "maximum prompt length is ",
    "configured context size is ",
    "model token limit: ",
    "maximum number of tokens allowed (",
    "maximum context length: ",
    "configured limit of ",
    "exceeds the limit of ",
    "exceeds the maximum length ",
];
const REQUEST: [&str; 18] = [
    "too long: ",
    "request (",
    "input (",
    "input length (",
    "prompt (length ",
    "keep the first ",
    "given: ",
    "you requested ",
    "you requested about ",
    "resulted in ",
    "request contains ",
    "your request has ",
    "prompt has ",
    "(requested: ",
    "token count (",
    "token count of ",
    "input length ",
    "current length is ",
];

/// Phrases after the size of the request. In these messages, an earlier number is the sum of the request and the
/// maximum answer.
const PART: [&str; 6] = [
    " in the messages",
    " in your prompt",
    " in the prompt",
    " of text input",
    " input tokens",
    " tokens from the input messages",
];

/// The phrase before the sum of request and answer in Anthropic's message.
const SUM: &str = "exceed context limit: ";

/// The phrase before the sum of request and answer, in some messages of vLLM. For these messages, vLLM stops counting
/// at the first token beyond the limit.
const AT_LEAST: [&str; 1] = ["for a total of at least "];
/// An older version of vLLM writes this phrase before the size of the largest request that fits. This version also
/// stops counting at the limit.
const AT_MOST: [&str; 1] = ["a maximum input length of "];
/// Phrases of vLLM for a request that was refused before its tokens were counted.
const UNCOUNTED: [&str; 3] =
    ["which is the upper bound for ", " input characters and requested ", "than max_model_len="];

/// The sizes that an error states, in tokens. A size that the error does not state is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct StatedSizes {
    pub window: Option<u64>,
    pub request: Option<u64>,
    /// Whether `request` is only a lower bound, because the server stopped counting at the limit or did not count.
    pub is_least: bool,
}

/// Reads the size of the window and of the request from the error's message.
#[doc(hidden)]
pub fn sizes(error: &Error) -> StatedSizes {
    let words = error.message().to_ascii_lowercase();
    let mut before = ' ';
    // Some vendors write thousands with a comma.
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
    // Anthropic's form is `1210 + 199000 > 200000`: tokens of the request, maximum tokens of the answer, window.
    let sum = words.split_once(SUM).and_then(|(_, sum)| sum.split_once(" > "));
    let number = |text: &str| {
        let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok().filter(|number| *number > 0)
    };
    let (window, request) = match sum {
        Some((request, window)) => (number(window), number(request)),
        None => (after(&WINDOW), before(&PART).or_else(|| after(&REQUEST))),
    };
    let is_next = |more: Option<u64>, less: Option<u64>| {
        more.is_some() && more == less.and_then(|it| it.checked_add(1))
    };
    let is_least = is_next(after(&AT_LEAST), window)
        || is_next(request, after(&AT_MOST))
        || UNCOUNTED.iter().any(|known| words.contains(known));
    StatedSizes { window, request, is_least }
}

#[cfg(test)]
mod tests {
    use super::{StatedSizes, sizes};
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
                "Requested token count exceeds the model's maximum context length of 8000 tokens. You requested a total of \
                 8500 tokens: 7900 tokens from the input messages and 600 tokens for the completion.",
                Some(8000),
                Some(7900),
            ),
            (
                "The input (8391 tokens) is longer than the model's context length (8192 tokens).",
                Some(8192),
                Some(8391),
            ),
            (
                "The decoder prompt (length 8200) is longer than the maximum model length of 8192.",
                Some(8192),
                Some(8200),
            ),
            (
                "input (9001 tokens) is larger than the max context size (8192 tokens). skipping",
                Some(8192),
                Some(9001),
            ),
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8000. Given: 7950 `inputs` tokens \
                 and 1024 `max_new_tokens`",
                Some(8000),
                Some(7950),
            ),
            (
                "Trying to keep the first 5078 tokens when context the overflows. However, the model is loaded with context \
                 length of only 4521 tokens, which is not enough.",
                Some(4521),
                Some(5078),
            ),
            (
                "You passed 9000 input tokens and requested 500 output tokens. However, the model's context length is only \
                 8000 tokens, resulting in a maximum input length of 7500 tokens.",
                Some(8000),
                Some(9000),
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
        let counted_in_part = [
            (
                "This model's maximum context length is 8000 tokens. However, you requested 500 output tokens and your \
                 prompt contains at least 7501 input tokens, for a total of at least 8001 tokens.",
                Some(7501),
            ),
            (
                "This model's maximum context length is 8000 tokens. However, you requested 500 output tokens and your \
                 prompt contains 99999 characters (more than 81280 characters, which is the upper bound for 7500 input \
                 tokens).",
                Some(7500),
            ),
            (
                "You passed 7501 input tokens and requested 500 output tokens. However, the model's context length is only \
                 8000 tokens, resulting in a maximum input length of 7500 tokens.",
                Some(7501),
            ),
            (
                "You passed 99999 input characters and requested 500 output tokens. However, the model's context length is \
                 only 8000 tokens, resulting in a maximum input length of 7500 tokens (at most 81280 characters).",
                None,
            ),
            (
                "max_tokens=38000 cannot be greater than max_model_len=8000. Please request fewer output tokens.",
                None,
            ),
            ("max_tokens=38000cannot be greater than max_model_len=max_total_tokens=8000.", None),
        ];
        let counted_in_part = counted_in_part.map(|(words, request)| {
            (words, StatedSizes { window: Some(8000), request, is_least: true })
        });
        let counted = table.into_iter().map(|(words, window, request)| {
            (words, StatedSizes { window, request, is_least: false })
        });
        for (words, said) in counted.chain(counted_in_part) {
            let error = Error::new(ErrorKind::Api, words);
            assert_eq!(sizes(&error), said, "{words}");
        }
    }
}
