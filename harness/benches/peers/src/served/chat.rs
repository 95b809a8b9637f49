//! Answers of Chat Completions. A dozen servers support this API, each with additional fields.

use super::{Answer, letters, tokens};

/// A server and one of its answers. In the events, `@text` is replaced by the text, `@pad` by letters that hide the
/// length of the text, and `@count` by the number of the event.
struct Server {
    name: &'static str,
    /// The events before the text.
    first: &'static [&'static str],
    /// A thinking event, and the number of thinking events.
    thought: (&'static str, usize),
    /// A text event, and the number of text events.
    word: (&'static str, usize),
    /// The number of tokens in an event.
    tokens: usize,
    /// The events after the text.
    last: &'static [&'static str],
}

pub fn answers() -> Vec<Answer> {
    SERVERS.iter().map(|server| Answer { name: server.name, body: body(server) }).collect()
}

fn body(server: &Server) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut say = |event: &str, text: &str| {
        let pad = letters(count * 5, 3 + (count * 11 + text.len()) % 14);
        let event = event.replace("@text", text).replace("@pad", &pad);
        out.push_str("data: ");
        out.push_str(&event.replace("@count", &count.to_string()));
        out.push_str("\n\n");
        count += 1;
    };
    server.first.iter().for_each(|event| say(event, ""));
    let mut at = 0;
    for (event, times) in [server.thought, server.word] {
        for _ in 0..times {
            say(event, &tokens(at, server.tokens));
            at += server.tokens;
        }
    }
    server.last.iter().for_each(|event| say(event, ""));
    out.push_str("data: [DONE]\n\n");
    out
}

const SERVERS: &[Server] = &[
    Server {
        name: "OpenAI",
        first: &[
            r#"{"id":"chatcmpl-E1kd8SwqT0vYcB5mNz3Lr7HuPxJfG","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.2-mini","service_tier":"default","system_fingerprint":"fp_9c1e70b2aa","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"@pad"}"#,
        ],
        thought: ("", 0),
        word: (
            r#"{"id":"chatcmpl-E1kd8SwqT0vYcB5mNz3Lr7HuPxJfG","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.2-mini","service_tier":"default","system_fingerprint":"fp_9c1e70b2aa","choices":[{"index":0,"delta":{"content":"@text"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"@pad"}"#,
            16,
        ),
        tokens: 1,
        last: &[
            r#"{"id":"chatcmpl-E1kd8SwqT0vYcB5mNz3Lr7HuPxJfG","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.2-mini","service_tier":"default","system_fingerprint":"fp_9c1e70b2aa","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null,"obfuscation":"@pad"}"#,
            r#"{"id":"chatcmpl-E1kd8SwqT0vYcB5mNz3Lr7HuPxJfG","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.2-mini","service_tier":"default","system_fingerprint":"fp_9c1e70b2aa","choices":[],"usage":{"prompt_tokens":61,"completion_tokens":16,"total_tokens":77,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"obfuscation":"@pad"}"#,
        ],
    },
    Server {
        name: "Azure",
        first: &[
            r#"{"choices":[],"created":0,"id":"","model":"gpt-5-mini","object":"chat.completion.chunk","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"},"sexual":{"filtered":false,"severity":"safe"},"violence":{"filtered":false,"severity":"safe"}}}]}"#,
            r#"{"choices":[{"content_filter_results":{},"delta":{"content":"","refusal":null,"role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":1790000000,"id":"chatcmpl-B4x","model":"gpt-5-mini","object":"chat.completion.chunk","system_fingerprint":"fp_2a1c","usage":null}"#,
        ],
        thought: ("", 0),
        word: (
            r#"{"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"},"sexual":{"filtered":false,"severity":"safe"},"violence":{"filtered":false,"severity":"safe"}},"delta":{"content":"@text"},"finish_reason":null,"index":0,"logprobs":null}],"created":1790000000,"id":"chatcmpl-B4x","model":"gpt-5-mini","object":"chat.completion.chunk","system_fingerprint":"fp_2a1c","usage":null}"#,
            29,
        ),
        tokens: 1,
        last: &[
            r#"{"choices":[{"content_filter_results":{},"delta":{},"finish_reason":"stop","index":0,"logprobs":null}],"created":1790000000,"id":"chatcmpl-B4x","model":"gpt-5-mini","object":"chat.completion.chunk","system_fingerprint":"fp_2a1c","usage":null}"#,
            r#"{"choices":[],"created":1790000000,"id":"chatcmpl-B4x","model":"gpt-5-mini","object":"chat.completion.chunk","system_fingerprint":"fp_2a1c","usage":{"completion_tokens":29,"prompt_tokens":88,"total_tokens":117}}"#,
        ],
    },
    Server {
        name: "Mistral",
        first: &[
            r#"{"id":"5d20c7fe6a8b4c44","object":"chat.completion.chunk","created":1790000000,"model":"mistral-small-latest","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"p":"@pad"}"#,
        ],
        thought: ("", 0),
        word: (
            r#"{"id":"5d20c7fe6a8b4c44","object":"chat.completion.chunk","created":1790000000,"model":"mistral-small-latest","choices":[{"index":0,"delta":{"content":"@text"},"finish_reason":null}],"p":"@pad"}"#,
            4,
        ),
        tokens: 6,
        last: &[
            r#"{"id":"5d20c7fe6a8b4c44","object":"chat.completion.chunk","created":1790000000,"model":"mistral-small-latest","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":59,"total_tokens":83,"completion_tokens":24,"prompt_tokens_details":{"cached_tokens":0}},"p":"@pad"}"#,
        ],
    },
    Server {
        name: "OpenRouter",
        first: &[],
        thought: ("", 0),
        word: (
            r#"{"id":"gen-1790000000-T8qLz","provider":"Google","model":"google/gemini-3-flash","object":"chat.completion.chunk","created":1790000000,"choices":[{"index":0,"delta":{"role":"assistant","content":"@text"},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}"#,
            10,
        ),
        tokens: 5,
        last: &[
            r#"{"id":"gen-1790000000-T8qLz","provider":"Google","model":"google/gemini-3-flash","object":"chat.completion.chunk","created":1790000000,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"STOP","logprobs":null}]}"#,
            r#"{"id":"gen-1790000000-T8qLz","provider":"Google","model":"google/gemini-3-flash","object":"chat.completion.chunk","created":1790000000,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"usage":{"prompt_tokens":23,"completion_tokens":50,"total_tokens":73,"cost":0.000132,"is_byok":false,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"cost_details":{"upstream_inference_cost":null,"upstream_inference_prompt_cost":0.000006,"upstream_inference_completions_cost":0.000126},"completion_tokens_details":{"reasoning_tokens":0,"image_tokens":0}}}"#,
        ],
    },
    Server {
        name: "OpenRouter, thinking",
        first: &[],
        thought: (
            r#"{"id":"gen-1790000001-Wm2Rc","provider":"Anthropic","model":"anthropic/claude-sonnet-5","object":"chat.completion.chunk","created":1790000001,"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"@text","reasoning_details":[{"type":"reasoning.text","text":"@text","format":"anthropic-claude-v1","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}"#,
            46,
        ),
        word: (
            r#"{"id":"gen-1790000001-Wm2Rc","provider":"Anthropic","model":"anthropic/claude-sonnet-5","object":"chat.completion.chunk","created":1790000001,"choices":[{"index":0,"delta":{"role":"assistant","content":"@text","reasoning":null,"reasoning_details":[]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}"#,
            28,
        ),
        tokens: 3,
        last: &[
            r#"{"id":"gen-1790000001-Wm2Rc","provider":"Anthropic","model":"anthropic/claude-sonnet-5","object":"chat.completion.chunk","created":1790000001,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"end_turn","logprobs":null}]}"#,
            r#"{"id":"gen-1790000001-Wm2Rc","provider":"Anthropic","model":"anthropic/claude-sonnet-5","object":"chat.completion.chunk","created":1790000001,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"usage":{"prompt_tokens":77,"completion_tokens":222,"total_tokens":299,"cost":0.0035,"is_byok":false,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":138}}}"#,
        ],
    },
    Server {
        name: "DeepSeek, thinking",
        first: &[
            r#"{"id":"0b7e4f12","object":"chat.completion.chunk","created":1790000000,"model":"deepseek-v4","system_fingerprint":"fp_ffc7281d48_prod","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":""},"logprobs":null,"finish_reason":null}],"usage":null}"#,
        ],
        thought: (
            r#"{"id":"0b7e4f12","object":"chat.completion.chunk","created":1790000000,"model":"deepseek-v4","system_fingerprint":"fp_ffc7281d48_prod","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"@text"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
            24,
        ),
        word: (
            r#"{"id":"0b7e4f12","object":"chat.completion.chunk","created":1790000000,"model":"deepseek-v4","system_fingerprint":"fp_ffc7281d48_prod","choices":[{"index":0,"delta":{"content":"@text","reasoning_content":null},"logprobs":null,"finish_reason":null}],"usage":null}"#,
            14,
        ),
        tokens: 1,
        last: &[
            r#"{"id":"0b7e4f12","object":"chat.completion.chunk","created":1790000000,"model":"deepseek-v4","system_fingerprint":"fp_ffc7281d48_prod","choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":31,"completion_tokens":38,"total_tokens":69,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":24},"prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":31}}"#,
        ],
    },
    Server {
        name: "Groq, thinking",
        first: &[
            r#"{"id":"chatcmpl-2e6c1b","object":"chat.completion.chunk","created":1790000000,"model":"openai/gpt-oss-120b","system_fingerprint":"fp_c82f","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"x_groq":{"id":"req_01kq","seed":1734142537}}"#,
        ],
        thought: (
            r#"{"id":"chatcmpl-2e6c1b","object":"chat.completion.chunk","created":1790000000,"model":"openai/gpt-oss-120b","system_fingerprint":"fp_c82f","choices":[{"index":0,"delta":{"reasoning":"@text","channel":"analysis"},"logprobs":null,"finish_reason":null}]}"#,
            13,
        ),
        word: (
            r#"{"id":"chatcmpl-2e6c1b","object":"chat.completion.chunk","created":1790000000,"model":"openai/gpt-oss-120b","system_fingerprint":"fp_c82f","choices":[{"index":0,"delta":{"content":"@text"},"logprobs":null,"finish_reason":null}]}"#,
            13,
        ),
        tokens: 1,
        last: &[
            r#"{"id":"chatcmpl-2e6c1b","object":"chat.completion.chunk","created":1790000000,"model":"openai/gpt-oss-120b","system_fingerprint":"fp_c82f","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"x_groq":{"id":"req_01kq","usage":{"queue_time":0.0056,"prompt_tokens":33,"prompt_time":0.0017,"completion_tokens":26,"completion_time":0.054,"total_tokens":59,"total_time":0.0557}}}"#,
        ],
    },
    Server {
        name: "xAI",
        first: &[
            r#"{"id":"61c0f7d2","object":"chat.completion.chunk","created":1790000000,"model":"grok-4-fast","choices":[{"index":0,"delta":{"content":"So","role":"assistant"}}],"system_fingerprint":"fp_3d7e"}"#,
        ],
        thought: ("", 0),
        word: (
            r#"{"id":"61c0f7d2","object":"chat.completion.chunk","created":1790000000,"model":"grok-4-fast","choices":[{"index":0,"delta":{"content":"@text"}}],"system_fingerprint":"fp_3d7e"}"#,
            40,
        ),
        tokens: 1,
        last: &[
            r#"{"id":"61c0f7d2","object":"chat.completion.chunk","created":1790000000,"model":"grok-4-fast","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"system_fingerprint":"fp_3d7e"}"#,
            r#"{"id":"61c0f7d2","object":"chat.completion.chunk","created":1790000000,"model":"grok-4-fast","choices":[],"usage":{"prompt_tokens":35,"completion_tokens":41,"total_tokens":76,"prompt_tokens_details":{"text_tokens":35,"audio_tokens":0,"image_tokens":0,"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0},"num_sources_used":0},"system_fingerprint":"fp_3d7e"}"#,
        ],
    },
    Server {
        name: "Ollama, thinking",
        first: &[],
        thought: (
            r#"{"id":"chatcmpl-417","object":"chat.completion.chunk","created":1790000000,"model":"gpt-oss:120b","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"@text"},"finish_reason":null}]}"#,
            58,
        ),
        word: (
            r#"{"id":"chatcmpl-417","object":"chat.completion.chunk","created":1790000000,"model":"gpt-oss:120b","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"@text"},"finish_reason":null}]}"#,
            42,
        ),
        tokens: 1,
        last: &[
            r#"{"id":"chatcmpl-417","object":"chat.completion.chunk","created":1790000000,"model":"gpt-oss:120b","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}"#,
            r#"{"id":"chatcmpl-417","object":"chat.completion.chunk","created":1790000000,"model":"gpt-oss:120b","system_fingerprint":"fp_ollama","choices":[],"usage":{"prompt_tokens":83,"completion_tokens":100,"total_tokens":183}}"#,
        ],
    },
    Server {
        name: "llama.cpp, thinking, with its timings",
        first: &[
            r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1790000000,"id":"chatcmpl-x7","model":"qwen3-1.7b","system_fingerprint":"b10499","object":"chat.completion.chunk"}"#,
        ],
        thought: (
            r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"@text"}}],"created":1790000000,"id":"chatcmpl-x7","model":"qwen3-1.7b","system_fingerprint":"b10499","object":"chat.completion.chunk","timings":{"cache_n":387,"prompt_n":16,"prompt_ms":33.357,"prompt_per_token_ms":2.0848,"prompt_per_second":479.659,"predicted_n":@count,"predicted_ms":@count9.216,"predicted_per_token_ms":9.3248,"predicted_per_second":107.2398}}"#,
            60,
        ),
        word: (
            r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"@text"}}],"created":1790000000,"id":"chatcmpl-x7","model":"qwen3-1.7b","system_fingerprint":"b10499","object":"chat.completion.chunk","timings":{"cache_n":387,"prompt_n":16,"prompt_ms":33.357,"prompt_per_token_ms":2.0848,"prompt_per_second":479.659,"predicted_n":@count,"predicted_ms":@count9.216,"predicted_per_token_ms":9.3248,"predicted_per_second":107.2398}}"#,
            24,
        ),
        tokens: 1,
        last: &[
            r#"{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1790000000,"id":"chatcmpl-x7","model":"qwen3-1.7b","system_fingerprint":"b10499","object":"chat.completion.chunk"}"#,
            r#"{"choices":[],"created":1790000000,"id":"chatcmpl-x7","model":"qwen3-1.7b","system_fingerprint":"b10499","object":"chat.completion.chunk","usage":{"completion_tokens":84,"prompt_tokens":403,"total_tokens":487,"prompt_tokens_details":{"cached_tokens":387}},"timings":{"cache_n":387,"prompt_n":16,"prompt_ms":33.357,"prompt_per_token_ms":2.0848,"prompt_per_second":479.659,"predicted_n":84,"predicted_ms":792.616,"predicted_per_token_ms":9.3248,"predicted_per_second":107.2398}}"#,
        ],
    },
    Server {
        name: "vLLM, usage in each event",
        first: &[
            r#"{"id":"chatcmpl-3f","object":"chat.completion.chunk","created":1790000000,"model":"Qwen/Qwen3-32B","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":44,"total_tokens":44,"completion_tokens":0}}"#,
        ],
        thought: ("", 0),
        word: (
            r#"{"id":"chatcmpl-3f","object":"chat.completion.chunk","created":1790000000,"model":"Qwen/Qwen3-32B","choices":[{"index":0,"delta":{"content":"@text"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":44,"total_tokens":1@count,"completion_tokens":@count}}"#,
            120,
        ),
        tokens: 1,
        last: &[
            r#"{"id":"chatcmpl-3f","object":"chat.completion.chunk","created":1790000000,"model":"Qwen/Qwen3-32B","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"usage":{"prompt_tokens":44,"total_tokens":165,"completion_tokens":121}}"#,
            r#"{"id":"chatcmpl-3f","object":"chat.completion.chunk","created":1790000000,"model":"Qwen/Qwen3-32B","choices":[],"usage":{"prompt_tokens":44,"total_tokens":165,"completion_tokens":121}}"#,
        ],
    },
    Server {
        name: "OpenAI, a long answer",
        first: &[
            r#"{"id":"chatcmpl-G9","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.2","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null,"obfuscation":"@pad"}"#,
        ],
        thought: ("", 0),
        word: (
            r#"{"id":"chatcmpl-G9","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.2","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"@text"},"finish_reason":null}],"usage":null,"obfuscation":"@pad"}"#,
            380,
        ),
        tokens: 1,
        last: &[
            r#"{"id":"chatcmpl-G9","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.2","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null,"obfuscation":"@pad"}"#,
            r#"{"id":"chatcmpl-G9","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5.2","service_tier":"default","system_fingerprint":null,"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":380,"total_tokens":400,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"obfuscation":"@pad"}"#,
        ],
    },
];
