//! `async-openai`, on the wires of its vendor.

use async_openai::{
    Client,
    config::OpenAIConfig,
    types::{
        chat::{
            ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
            ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs,
        },
        responses::{
            CreateResponseArgs, EasyInputContent, EasyInputMessage, InputItem, InputParam,
            ResponseStreamEvent, Role,
        },
    },
};
use futures_util::StreamExt as _;

use crate::subject::{Failure, History, Task};

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    let config = OpenAIConfig::new().with_api_base(format!("{base}/v1")).with_api_key("key");
    let client = Client::with_config(config);
    match wire {
        "responses" => responses(client, history),
        _ => chat(client, history),
    }
}

fn responses(client: Client<OpenAIConfig>, history: History) -> Result<Task, Failure> {
    let item = |role, words: String| {
        InputItem::EasyMessage(EasyInputMessage {
            role,
            content: EasyInputContent::Text(words),
            ..EasyInputMessage::default()
        })
    };
    let said = history.said().map(|(model, words)| match model {
        true => item(Role::Assistant, words),
        false => item(Role::User, words),
    });
    let asked = std::iter::once(item(Role::User, History::QUESTION.to_owned()));
    let request = CreateResponseArgs::default()
        .model("m")
        .input(InputParam::Items(said.chain(asked).collect()))
        .stream(true)
        .build()?;
    Ok(Box::new(move || {
        // It takes the request with it, so a conversation keeps one and gives a copy.
        let (client, request) = (client.clone(), request.clone());
        Box::pin(async move {
            let mut stream = client.responses().create_stream(request).await?;
            let mut text = String::new();
            while let Some(event) = stream.next().await {
                if let ResponseStreamEvent::ResponseOutputTextDelta(event) = event? {
                    text.push_str(&event.delta);
                }
            }
            Ok(text)
        })
    }))
}

fn chat(client: Client<OpenAIConfig>, history: History) -> Result<Task, Failure> {
    let said = history.said().map(|(model, words)| -> ChatCompletionRequestMessage {
        match model {
            true => ChatCompletionRequestAssistantMessage::from(words.as_str()).into(),
            false => ChatCompletionRequestUserMessage::from(words).into(),
        }
    });
    let asked = ChatCompletionRequestUserMessage::from(History::QUESTION).into();
    let request = CreateChatCompletionRequestArgs::default()
        .model("m")
        .messages(said.chain([asked]).collect::<Vec<_>>())
        .stream(true)
        .build()?;
    Ok(Box::new(move || {
        let (client, request) = (client.clone(), request.clone());
        Box::pin(async move {
            let mut stream = client.chat().create_stream(request).await?;
            let mut text = String::new();
            while let Some(chunk) = stream.next().await {
                for choice in chunk?.choices {
                    text.push_str(&choice.delta.content.unwrap_or_default());
                }
            }
            Ok(text)
        })
    }))
}
