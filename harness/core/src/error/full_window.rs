//! Recognizes a vendor's error that reports a full context window: by the error code, by a message with two sizes (the
//! size of the text and the limit that it exceeds), or by a known phrase.

/// Codes for a full context window.
const CODES: [&str; 7] = [
    "context_length_exceeded",
    "exceed_context_size",
    "context_window_exceeded",
    "too_many_prompt_tokens",
    "max_prompt_tokens_exceeded",
    // Volcengine.
    "outofcontext",
    "context_too_long",
];

/// Phrases, in lower case, from messages about a full context window that come with a general error code. Servers put
/// numbers before or after the phrase.
const WORDS: [&str; 34] = [
    // Anthropic, Ollama, Fireworks.
    "prompt is too long",
    "prompt too long",
    "exceed context limit",
    // OpenAI, DeepSeek, OpenRouter, vLLM, Mistral, SGLang, Ollama.
    "maximum context length",
    "max context length",
    "exceeds the context window",
    "exceeds the context length",
    // vLLM, if the server's configuration sets the length.
    "longer than the maximum model length",
    // Other versions of vLLM, and requests whose `max_tokens` alone exceeds the window.
    "model's context length is only",
    "cannot be greater than max_model_len",
    // SGLang.
    "longer than the model's context length",
    "exceeds the maximum allowed length",
    // Groq, Cerebras.
    "reduce the length of the messages",
    // Gemini, and Vertex.
    "exceeds the maximum number of tokens allowed",
    "input token count is",
    // Bedrock.
    "input is too long for requested model",
    // xAI.
    "maximum prompt length is",
    // Mistral, in messages that name only the size of the prompt.
    "too large for model with",
    // llama.cpp.
    "exceeds the available context size",
    "larger than the max context size",
    // LM Studio.
    "greater than the context length",
    "loaded with context length of only",
    // Text Generation Inference, Together.
    "`inputs` must have less than",
    "`inputs` tokens + `max_new_tokens` must be",
    // Cerebras.
    "current length is",
    // Others.
    "more than max tokens allowed",
    "exceed max message tokens",
    // Moonshot.
    "exceeded model token limit",
    // MiniMax.
    "context window exceeds limit",
    // Zhipu.
    "prompt exceeds max length",
    // DashScope.
    "range of input length should be",
    // Cohere.
    "total number of tokens in the prompt",
    // GitHub's models.
    "prompt token count of",
    // SambaNova and others.
    "total length of all messages is too long",
];

/// Words for the text that was sent. A message with two sizes must contain at least one of these words.
const SENT: [&str; 8] =
    ["prompt", "prompts", "input", "inputs", "context", "messages", "conversation", "history"];

/// Words for the size of a text.
const MEASURES: [&str; 8] =
    ["token", "tokens", "length", "context", "window", "long", "longer", "characters"];

/// Words that show that a limit is exceeded.
const BEYOND: [&str; 17] = [
    "exceed",
    "exceeds",
    "exceeded",
    "exceeding",
    "long",
    "longer",
    "large",
    "larger",
    "greater",
    "more",
    "maximum",
    "max",
    "limit",
    "limited",
    "only",
    "but",
    "overflow",
];

/// Words of messages about a rate limit or a file. Such messages also contain two sizes, so a message with one of these
/// words does not count as a full context window.
const OTHERS: [&str; 16] = [
    "minute", "min", "hour", "day", "tpm", "rpm", "rate", "quota", "image", "images", "picture",
    "pictures", "audio", "pdf", "bytes", "pages",
];

/// The smallest number that counts as the size of a text. Limits on names and lists are smaller numbers.
const LEAST: u64 = 256;

/// Whether an error with this status, code and message reports a full context window.
pub(super) fn is_told(status: Option<u16>, code: &str, message: &str) -> bool {
    // Rate limit errors also mention tokens and limits, but have a status of their own.
    if matches!(status, Some(401..=403 | 429 | 501..)) {
        return false;
    }
    let (code, words) = (code.to_ascii_lowercase(), message.to_ascii_lowercase());
    let is_known = || {
        CODES.iter().any(|known| code.contains(known))
            || WORDS.iter().any(|known| words.contains(known))
            || is_named(&words)
    };
    // Many servers answer 500 to any failure, so a known code or phrase is not enough for status 500.
    has_shape(&words) || status != Some(500) && is_known()
}

/// Whether the message says, in any order and form, that something exceeds the context window, for example
/// `exceeds this model's context window`.
fn is_named(words: &str) -> bool {
    let context = ["context window", "context length", "context size", "context limit"];
    let beyond = ["exceed", "too long", "longer than", "larger than", "overflow"];
    context.iter().any(|known| words.contains(known))
        && beyond.iter().any(|known| words.contains(known))
        && !words.split(|it: char| !is_of_word(it)).any(|word| OTHERS.contains(&word))
}

/// Whether the message contains two different sizes of a text that was sent.
fn has_shape(words: &str) -> bool {
    let all: Vec<&str> =
        words.split(|it: char| !is_of_word(it)).filter(|it| !it.is_empty()).collect();
    let has = |known: &[&str]| all.iter().any(|word| known.contains(word));
    let is_beyond = has(&BEYOND) || words.contains(" > ");
    if !has(&SENT) || !has(&MEASURES) || !is_beyond || has(&OTHERS) {
        return false;
    }
    let mut sizes = numbers(words).filter(|size| *size >= LEAST);
    let first = sizes.next();
    first.is_some() && sizes.any(|size| Some(size) != first)
}

/// Underscores belong to a word, so that `max_tokens` and `input_schema` do not count as `max` and `input`.
fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The whole numbers in a message. Commas between digits are ignored.
fn numbers(words: &str) -> impl Iterator<Item = u64> {
    let parts = words.split(|it: char| !(is_of_word(it) || it == ','));
    parts.filter_map(|part| part.trim_matches(',').replace(',', "").parse().ok())
}
