//! `llm`. Its address for Anthropic is fixed. Its backend for OpenAI uses the Responses API, and its backend for Groq
//! uses Chat Completions.

use std::{any::Any, sync::Arc};

use futures_util::StreamExt as _;
use llm::{
    FunctionCall, LLMProvider, ToolCall,
    builder::{LLMBackend, LLMBuilder},
    chat::{ChatMessage, FunctionTool, StreamChunk, Tool},
};

use super::weather;
use crate::subject::{Failure, History, Task};

fn client(wire: &str, base: &str) -> Result<Box<dyn LLMProvider>, Failure> {
    let builder = LLMBuilder::new()
        .backend(if wire == "chat" { LLMBackend::Groq } else { LLMBackend::OpenAI })
        .api_key("key")
        .base_url(format!("{base}/v1/"))
        .model("m")
        .system(weather::SYSTEM);
    Ok(builder.build()?)
}

fn tools() -> Vec<Tool> {
    let tools = weather::schemas().map(|(name, description, parameters)| Tool {
        tool_type: "function".into(),
        function: FunctionTool { name: name.into(), description: description.into(), parameters },
        cache_control: None,
    });
    tools.collect()
}

fn messages(said: impl Iterator<Item = (bool, String)>) -> Vec<ChatMessage> {
    said.map(|(model, words)| {
        let message = if model { ChatMessage::assistant() } else { ChatMessage::user() };
        message.content(words).build()
    })
    .collect()
}

/// A conversation as a program would store it.
pub fn kept(said: Vec<(bool, String)>) -> Box<dyn Any> {
    Box::new(messages(said.into_iter()))
}

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    let mut messages = messages(history.said());
    messages.push(ChatMessage::user().content(History::QUESTION).build());
    let shared = Arc::new((client(wire, base)?, messages, tools()));
    Ok(Box::new(move || {
        let shared = Arc::clone(&shared);
        Box::pin(async move {
            let (client, messages, tools) = &*shared;
            let mut stream = client.chat_stream_with_tools(messages, Some(tools)).await?;
            let mut text = String::new();
            while let Some(chunk) = stream.next().await {
                if let StreamChunk::Text(more) = chunk? {
                    text.push_str(&more);
                }
            }
            Ok(text)
        })
    }))
}

/// A whole turn, as a program would write it: send a request, run the calls, and repeat until an answer has no calls.
pub fn turn(wire: &str, base: &str) -> Result<Task, Failure> {
    let shared = Arc::new((client(wire, base)?, tools()));
    Ok(Box::new(move || {
        let shared = Arc::clone(&shared);
        Box::pin(async move {
            let (client, tools) = &*shared;
            let mut messages = vec![ChatMessage::user().content(History::QUESTION).build()];
            loop {
                let mut stream = client.chat_stream_with_tools(&messages, Some(tools)).await?;
                let (mut text, mut calls) = (String::new(), Vec::new());
                while let Some(chunk) = stream.next().await {
                    match chunk? {
                        StreamChunk::Text(more) => text.push_str(&more),
                        StreamChunk::ToolUseComplete { tool_call, .. } => calls.push(tool_call),
                        _ => {}
                    }
                }
                if calls.is_empty() {
                    return Ok(text);
                }
                let mut results = Vec::new();
                for ToolCall { id, call_type, function } in calls.clone() {
                    let arguments = weather::run(&function.arguments)?;
                    let function = FunctionCall { name: function.name, arguments };
                    results.push(ToolCall { id, call_type, function });
                }
                messages.push(ChatMessage::assistant().tool_use(calls).build());
                messages.push(ChatMessage::user().tool_result(results).build());
            }
        })
    }))
}
