//! The peers: each as its own documentation has it used for a stream, text appended as it comes.
//! What a conversation has said so far is in the peer's own types, made ahead.

pub mod genai;
pub mod openai;
pub mod rig;

use std::sync::Arc;

use ::llm::{
    builder::{LLMBackend, LLMBuilder},
    chat::ChatMessage,
};
use futures_util::StreamExt as _;

use crate::subject::{Failure, History, Task};

/// `llm`; its address is fixed for Anthropic, so it speaks Chat Completions.
pub fn llm(history: History, base: &str) -> Result<Task, Failure> {
    let client = LLMBuilder::new()
        .backend(LLMBackend::OpenAI)
        .api_key("key")
        .base_url(format!("{base}/v1/"))
        .model("m")
        .build()?;
    let mut messages: Vec<ChatMessage> = history
        .said()
        .map(|(model, words)| {
            let message = if model { ChatMessage::assistant() } else { ChatMessage::user() };
            message.content(words).build()
        })
        .collect();
    messages.push(ChatMessage::user().content(History::QUESTION).build());
    let shared = Arc::new((client, messages));
    Ok(Box::new(move || {
        let shared = Arc::clone(&shared);
        Box::pin(async move {
            let (client, messages) = &*shared;
            let mut stream = client.chat_stream(messages).await?;
            let mut text = String::new();
            while let Some(token) = stream.next().await {
                text.push_str(&token?);
            }
            Ok(text)
        })
    }))
}
