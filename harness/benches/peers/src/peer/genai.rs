//! `genai`, on every wire.

use futures_util::StreamExt as _;
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatRequest, ChatStreamEvent},
    resolver::{AuthData, Endpoint, ServiceTargetResolver},
};

use crate::subject::{Failure, History, Task};

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
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
    let client = Client::builder().with_service_target_resolver(resolver).build()?;
    let mut messages: Vec<ChatMessage> = history
        .said()
        .map(|(model, words)| match model {
            true => ChatMessage::assistant(words),
            false => ChatMessage::user(words),
        })
        .collect();
    messages.push(ChatMessage::user(History::QUESTION));
    let request = ChatRequest::new(messages);
    Ok(Box::new(move || {
        // It takes the request with it, so a conversation keeps one and gives a copy.
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
