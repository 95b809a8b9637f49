//! `genai`, on every wire.

use std::any::Any;

use futures_util::StreamExt as _;
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, Tool, ToolCall, ToolResponse},
    resolver::{AuthData, Endpoint, ServiceTargetResolver},
};

use super::weather;
use crate::subject::{Failure, History, Task};

fn client(wire: &str, base: &str) -> Result<Client, Failure> {
    let kind = match wire {
        "anthropic" => AdapterKind::Anthropic,
        "responses" => AdapterKind::OpenAIResp,
        _ => AdapterKind::OpenAI,
    };
    let endpoint = Endpoint::from_owned(format!("{base}/v1/"));
    let resolver = ServiceTargetResolver::from_resolver_fn(
        move |_: ServiceTarget| -> Result<ServiceTarget, genai::resolver::Error> {
            Ok(ServiceTarget {
                endpoint: endpoint.clone(),
                auth: AuthData::from_single("key"),
                model: ModelIden::new(kind, "m"),
            })
        },
    );
    // The same HTTP settings as all other subjects: no compression and no HTTP/2.
    let http = reqwest::Client::builder().no_gzip().http1_only().build()?;
    let builder = Client::builder().with_reqwest(http).with_service_target_resolver(resolver);
    Ok(builder.build()?)
}

fn messages(said: impl Iterator<Item = (bool, String)>) -> Vec<ChatMessage> {
    said.map(|(model, words)| match model {
        true => ChatMessage::assistant(words),
        false => ChatMessage::user(words),
    })
    .collect()
}

fn request(messages: Vec<ChatMessage>) -> ChatRequest {
    let tools = weather::schemas().map(|(name, description, parameters)| {
        Tool::new(name).with_description(description).with_schema(parameters)
    });
    let request = ChatRequest::new(messages).with_system(weather::SYSTEM);
    request.with_tools(tools.collect::<Vec<_>>())
}

/// A conversation as a program would store it.
pub fn kept(said: Vec<(bool, String)>) -> Box<dyn Any> {
    Box::new(messages(said.into_iter()))
}

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    let client = client(wire, base)?;
    let mut messages = messages(history.said());
    messages.push(ChatMessage::user(History::QUESTION));
    let request = request(messages);
    Ok(Box::new(move || {
        // The client takes the request by value, so a conversation stores one request and passes a copy.
        let (client, request) = (client.clone(), request.clone());
        Box::pin(async move {
            let mut stream = client.exec_chat_stream("m", request, None).await?.stream;
            let mut text = String::new();
            while let Some(event) = stream.next().await {
                if let ChatStreamEvent::Chunk(chunk) = event? {
                    text.push_str(&chunk.content);
                }
            }
            Ok(text)
        })
    }))
}

/// A whole turn, as a program would write it: send a request, run the calls, and repeat until an answer has no calls.
pub fn turn(wire: &str, base: &str) -> Result<Task, Failure> {
    let client = client(wire, base)?;
    let asked = request(vec![ChatMessage::user(History::QUESTION)]);
    let options = ChatOptions::default().with_capture_tool_calls(true);
    Ok(Box::new(move || {
        let (client, mut request, options) = (client.clone(), asked.clone(), options.clone());
        Box::pin(async move {
            loop {
                let answer = client.exec_chat_stream("m", request.clone(), Some(&options)).await?;
                let mut stream = answer.stream;
                let mut text = String::new();
                let mut calls: Vec<ToolCall> = Vec::new();
                while let Some(event) = stream.next().await {
                    match event? {
                        ChatStreamEvent::Chunk(chunk) => text.push_str(&chunk.content),
                        ChatStreamEvent::End(end) => {
                            calls = end.captured_into_tool_calls().unwrap_or_default();
                        }
                        _ => {}
                    }
                }
                if calls.is_empty() {
                    return Ok(text);
                }
                let mut results = Vec::new();
                for call in &calls {
                    let said = weather::run_value(&call.fn_arguments)?;
                    results.push(ToolResponse::new(call.call_id.clone(), said));
                }
                request = request.append_message(calls);
                for result in results {
                    request = request.append_message(result);
                }
            }
        })
    }))
}
