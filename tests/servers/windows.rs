//! How servers say that the context window is full, and what they say in similar words.

use harness::{ErrorKind, wire::error_of};
use serde_json::json;

/// The status, the code, the message, and who says so.
type Said = (u16, &'static str, &'static str, &'static str);

/// Sources: the servers' documents, and public reports of users.
const FULL: &[Said] = &[
    (
        400,
        "invalid_request_error",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
        "Kimi",
    ),
    (400, "invalid_request_error", "tokens in request more than max tokens allowed", "unknown"),
    (
        400,
        "invalid_request_error",
        "Prompt has 256468 tokens, but the configured context size is 256000 tokens",
        "ds4",
    ),
    (
        400,
        "invalid_request_error",
        "Prompt has 5,958,968 tokens, but the configured context size is 256,000 tokens",
        "ds4",
    ),
    (
        400,
        "BadRequestError",
        "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.",
        "vLLM",
    ),
    (400, "", "Your input exceeds the model's context window", "gateways"),
    (400, "", "Your input exceeds this model's context window.", "gateways"),
    (400, "1261", "Prompt exceeds max length", "Z.ai"),
    (400, "2013", "invalid params, context window exceeds limit (2013)", "MiniMax"),
    (
        400,
        "invalid_parameter_error",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]",
        "DashScope",
    ),
    (400, "ValidationException", "Input is too long for requested model.", "Bedrock"),
    (
        400,
        "model_max_prompt_tokens_exceeded",
        "prompt token count of 128541 exceeds the limit of 128000",
        "Copilot",
    ),
    (
        400,
        "",
        "Trying to keep the first 26064 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
        "LM Studio",
    ),
    (
        400,
        "",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "xAI",
    ),
    (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "Gemini",
    ),
    (
        400,
        "context_length_exceeded",
        "Please reduce the length of the messages or completion.",
        "Groq, Cerebras",
    ),
    (
        422,
        "",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 16 `max_new_tokens`",
        "TGI, Together",
    ),
    (
        400,
        "",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "Mistral",
    ),
    (400, "", "The prompt is too long: 8218, model maximum context length: 4096", "Fireworks"),
    (400, "InvalidParameter", "Input length 100000 exceeds the maximum length 65536", "Volcengine"),
    (
        400,
        "OutofContextError",
        "Total tokens of image and text exceed max message tokens.",
        "Volcengine",
    ),
    (
        400,
        "",
        "too many tokens: total number of tokens in the prompt exceeds the limit of 4081",
        "Cohere",
    ),
    (400, "", "Current length is 9000 while limit is 8192", "Cerebras"),
    (
        400,
        "",
        "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
        "SGLang",
    ),
    (
        400,
        "",
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (39000 of text input, 1000 in the output).",
        "OpenRouter",
    ),
    (
        400,
        "",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please reduce the length of the messages.",
        "OpenAI",
    ),
    (
        400,
        "string_above_max_length",
        "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string with length 2000000 instead.",
        "OpenAI",
    ),
    (
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
        "Anthropic",
    ),
    (400, "", "the request exceeds the available context size, try increasing it", "llama.cpp"),
    (500, "", "Input prompt is too long: 5000 > 4096", "servers in Python"),
    // The same shape in words that nobody has collected.
    (400, "", "Conversation of 41200 tokens does not fit, only 32768 are possible", "no server"),
    (
        413,
        "payload",
        "your messages take 9001 tokens, at most 8192 may be sent: the limit is hard",
        "no server",
    ),
];

const NOT_FULL: &[Said] = &[
    (429, "", "Too many tokens per minute", "limits of a rate"),
    (429, "", "This request exceeds the limit of 30000 tokens per minute", "limits of a rate"),
    (
        429,
        "",
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.",
        "OpenAI",
    ),
    (
        413,
        "rate_limit_exceeded",
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.",
        "Groq",
    ),
    (
        429,
        "",
        "Rate limit reached for gpt in organization on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.",
        "OpenAI",
    ),
    (
        400,
        "",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "OpenAI",
    ),
    (
        400,
        "",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 200 instead.",
        "OpenAI",
    ),
    (
        400,
        "string_above_max_length",
        "Invalid 'metadata.user_id': string too long. Expected a string with maximum length 256, but got a string with length 300 instead.",
        "OpenAI",
    ),
    (
        400,
        "",
        "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64, but got a string with length 80 instead.",
        "OpenAI",
    ),
    (
        400,
        "invalid_request_error",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes",
        "Anthropic",
    ),
    (
        400,
        "",
        "The request contains 51 images in the messages, exceeding the maximum of 50 allowed",
        "gateways",
    ),
    (422, "", "max_tokens: Input should be less than or equal to 8192, got 100000", "Pydantic"),
    (
        500,
        "",
        "the context window of the worker is larger than its memory",
        "an error of the server",
    ),
    (
        529,
        "overloaded_error",
        "Prompt has 256468 tokens, but the configured context size is 256000 tokens",
        "overload",
    ),
];

fn error((status, code, message, _): Said) -> harness::Error {
    let mut error = json!({ "message": message });
    if !code.is_empty() {
        error["code"] = code.into();
    }
    error_of(status, json!({ "error": error }).to_string().as_bytes())
}

#[test]
fn a_full_window_is_known_in_the_words_of_every_server() {
    let unknown: Vec<_> = FULL.iter().filter(|said| !error(**said).is_context_full()).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    for said in FULL {
        let error = error(*said);
        assert_eq!(error.kind(), ErrorKind::ContextFull, "{error}");
        assert!(!error.is_retryable(), "{error}");
    }
}

#[test]
fn other_limits_are_no_full_window() {
    let wrong: Vec<_> = NOT_FULL.iter().filter(|said| error(**said).is_context_full()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
