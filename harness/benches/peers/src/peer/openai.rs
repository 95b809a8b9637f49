//! `async-openai`, on the wires of OpenAI.

use std::{any::Any, sync::Arc};

use async_openai::{
    Client,
    config::OpenAIConfig,
    types::{
        chat::{
            ChatCompletionMessageToolCall, ChatCompletionRequestAssistantMessage,
            ChatCompletionRequestAssistantMessageArgs, ChatCompletionRequestMessage,
            ChatCompletionRequestSystemMessage, ChatCompletionRequestToolMessage,
            ChatCompletionRequestUserMessage, ChatCompletionTool, ChatCompletionTools,
            CreateChatCompletionRequestArgs, FunctionObject,
        },
        responses::{
            CreateResponseArgs, EasyInputContent, EasyInputMessage, FunctionCallOutput,
            FunctionCallOutputItemParam, FunctionTool, InputItem, InputParam, Item, OutputItem,
            ResponseStreamEvent, Role, Tool,
        },
    },
};
use futures_util::StreamExt as _;

use super::weather;
use crate::subject::{Failure, History, Task};

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    let config = OpenAIConfig::new().with_api_base(format!("{base}/v1")).with_api_key("key");
    let client = Client::with_config(config);
    match wire {
        "responses" => responses(client, history),
        _ => chat(client, history),
    }
}

fn item(role: Role, words: String) -> InputItem {
    InputItem::EasyMessage(EasyInputMessage {
        role,
        content: EasyInputContent::Text(words),
        ..EasyInputMessage::default()
    })
}

fn items(said: impl Iterator<Item = (bool, String)>) -> impl Iterator<Item = InputItem> {
    said.map(|(model, words)| item(if model { Role::Assistant } else { Role::User }, words))
}

fn messages(
    said: impl Iterator<Item = (bool, String)>,
) -> impl Iterator<Item = ChatCompletionRequestMessage> {
    said.map(|(model, words)| match model {
        true => ChatCompletionRequestAssistantMessage::from(words.as_str()).into(),
        false => ChatCompletionRequestUserMessage::from(words).into(),
    })
}

/// A conversation as a program would store it.
pub fn kept(wire: &str, said: Vec<(bool, String)>) -> Box<dyn Any> {
    match wire {
        "responses" => Box::new(items(said.into_iter()).collect::<Vec<_>>()),
        _ => Box::new(messages(said.into_iter()).collect::<Vec<_>>()),
    }
}

fn responses(client: Client<OpenAIConfig>, history: History) -> Result<Task, Failure> {
    let said = items(history.said());
    let asked = std::iter::once(item(Role::User, History::QUESTION.to_owned()));
    let request = CreateResponseArgs::default()
        .model("m")
        .instructions(weather::SYSTEM)
        .input(InputParam::Items(said.chain(asked).collect()))
        .tools(response_tools())
        .stream(true)
        .build()?;
    Ok(Box::new(move || {
        // The client takes the request by value, so a conversation stores one request and passes a copy.
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
    let system = ChatCompletionRequestSystemMessage::from(weather::SYSTEM).into();
    let said = std::iter::once(system).chain(messages(history.said()));
    let asked = ChatCompletionRequestUserMessage::from(History::QUESTION).into();
    let request = CreateChatCompletionRequestArgs::default()
        .model("m")
        .messages(said.chain([asked]).collect::<Vec<_>>())
        .tools(chat_tools())
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

fn response_tools() -> Vec<Tool> {
    let tool = |(name, description, parameters): (&str, &str, _)| {
        Tool::Function(FunctionTool {
            name: name.into(),
            description: Some(description.into()),
            parameters: Some(parameters),
            strict: Some(true),
            ..FunctionTool::default()
        })
    };
    weather::schemas().map(tool).collect()
}

fn chat_tools() -> Vec<ChatCompletionTools> {
    let tool = |(name, description, parameters): (&str, &str, _)| {
        ChatCompletionTools::Function(ChatCompletionTool {
            function: FunctionObject {
                name: name.into(),
                description: Some(description.into()),
                parameters: Some(parameters),
                strict: Some(true),
            },
        })
    };
    weather::schemas().map(tool).collect()
}

/// A whole turn, as a program would write it: send a request, run the calls, and repeat until an answer has no calls.
pub fn turn(wire: &str, base: &str) -> Result<Task, Failure> {
    let config = OpenAIConfig::new().with_api_base(format!("{base}/v1")).with_api_key("key");
    let client = Client::with_config(config);
    Ok(match wire {
        "responses" => {
            let shared = Arc::new((client, response_tools()));
            Box::new(move || {
                let shared = Arc::clone(&shared);
                Box::pin(async move { responses_turn(&shared.0, &shared.1).await })
            })
        }
        _ => {
            let shared = Arc::new((client, chat_tools()));
            Box::new(move || {
                let shared = Arc::clone(&shared);
                Box::pin(async move { chat_turn(&shared.0, &shared.1).await })
            })
        }
    })
}

async fn responses_turn(client: &Client<OpenAIConfig>, tools: &[Tool]) -> Result<String, Failure> {
    let mut input = vec![item(Role::User, History::QUESTION.to_owned())];
    loop {
        let request = CreateResponseArgs::default()
            .model("m")
            .instructions(weather::SYSTEM)
            .input(InputParam::Items(input.clone()))
            .tools(tools.to_vec())
            .stream(true)
            .build()?;
        let mut stream = client.responses().create_stream(request).await?;
        let mut text = String::new();
        let mut calls = Vec::new();
        while let Some(event) = stream.next().await {
            match event? {
                ResponseStreamEvent::ResponseOutputTextDelta(event) => text.push_str(&event.delta),
                ResponseStreamEvent::ResponseOutputItemDone(event) => {
                    if let OutputItem::FunctionCall(call) = event.item {
                        calls.push(call);
                    }
                }
                _ => {}
            }
        }
        if calls.is_empty() {
            return Ok(text);
        }
        for call in calls {
            let output = weather::run(&call.arguments)?;
            let call_id = Some(call.call_id.clone());
            input.push(Item::from(call).into());
            let output = FunctionCallOutputItemParam {
                call_id,
                output: FunctionCallOutput::Text(output),
                id: None,
                status: None,
                name: None,
                namespace: None,
                caller: None,
            };
            input.push(Item::from(output).into());
        }
    }
}

async fn chat_turn(
    client: &Client<OpenAIConfig>,
    tools: &[ChatCompletionTools],
) -> Result<String, Failure> {
    let mut messages: Vec<ChatCompletionRequestMessage> = vec![
        ChatCompletionRequestSystemMessage::from(weather::SYSTEM).into(),
        ChatCompletionRequestUserMessage::from(History::QUESTION).into(),
    ];
    loop {
        let request = CreateChatCompletionRequestArgs::default()
            .model("m")
            .messages(messages.clone())
            .tools(tools.to_vec())
            .stream(true)
            .build()?;
        let mut stream = client.chat().create_stream(request).await?;
        let mut text = String::new();
        let mut calls: Vec<ChatCompletionMessageToolCall> = Vec::new();
        while let Some(chunk) = stream.next().await {
            for choice in chunk?.choices {
                text.push_str(&choice.delta.content.unwrap_or_default());
                for part in choice.delta.tool_calls.unwrap_or_default() {
                    let at = part.index as usize;
                    if at == calls.len() {
                        calls.push(ChatCompletionMessageToolCall::default());
                    }
                    let call = calls.get_mut(at).ok_or("a call that was left out")?;
                    call.id.push_str(&part.id.unwrap_or_default());
                    if let Some(function) = part.function {
                        call.function.name.push_str(&function.name.unwrap_or_default());
                        call.function.arguments.push_str(&function.arguments.unwrap_or_default());
                    }
                }
            }
        }
        if calls.is_empty() {
            return Ok(text);
        }
        let results: Vec<(String, String)> = calls
            .iter()
            .map(|call| Ok((call.id.clone(), weather::run(&call.function.arguments)?)))
            .collect::<Result<_, Failure>>()?;
        let said = ChatCompletionRequestAssistantMessageArgs::default()
            .tool_calls(calls.into_iter().map(Into::into).collect::<Vec<_>>())
            .build()?;
        messages.push(said.into());
        for (tool_call_id, content) in results {
            let message =
                ChatCompletionRequestToolMessage { content: content.into(), tool_call_id };
            messages.push(message.into());
        }
    }
}
