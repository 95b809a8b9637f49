//! The peers: each as its own documentation has it used for a stream, text appended as it comes.

use async_openai::{
    config::OpenAIConfig,
    types::{
        chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs},
        responses::{CreateResponseArgs, ResponseStreamEvent},
    },
};
use futures_util::StreamExt as _;
use genai::{
    ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatRequest, ChatStreamEvent},
    resolver::{AuthData, Endpoint, ServiceTargetResolver},
};
use rig::{
    AgentBuilder,
    agent::MultiTurnStreamItem,
    providers::{anthropic::wire::AnthropicConfig, openai::OpenAIConfig as RigConfig},
    streaming::{Item, StreamEvent},
};

use crate::{Failure, Task};

pub fn reader(subject: &str, wire: &str, address: &str) -> Result<Task, Failure> {
    let base = format!("http://{address}/v1");
    match subject {
        "genai 0.7" => genai(wire, &base),
        "llm 1.3" => llm(&base),
        "async-openai 0.43" => async_openai(wire, &base),
        "rig 0.46" => rig(wire, &base),
        other => Err(format!("no subject is called `{other}`").into()),
    }
}

fn genai(wire: &str, base: &str) -> Result<Task, Failure> {
    let kind = match wire {
        "anthropic" => AdapterKind::Anthropic,
        "responses" => AdapterKind::OpenAIResp,
        _ => AdapterKind::OpenAI,
    };
    let endpoint = Endpoint::from_owned(format!("{base}/"));
    let resolver = ServiceTargetResolver::from_resolver_fn(
        move |_: ServiceTarget| -> Result<ServiceTarget, genai::resolver::Error> {
            Ok(ServiceTarget {
                endpoint: endpoint.clone(),
                auth: AuthData::from_single("key"),
                model: ModelIden::new(kind, "m"),
            })
        },
    );
    let client = genai::Client::builder().with_service_target_resolver(resolver).build()?;
    Ok(Box::new(move |runtime| {
        runtime.block_on(async {
            let request = ChatRequest::new(vec![ChatMessage::user("Speak.")]);
            let mut stream = client.exec_chat_stream("m", request, None).await?.stream;
            let mut text = String::new();
            while let Some(event) = stream.next().await {
                if let ChatStreamEvent::Chunk(chunk) = event? {
                    text.push_str(&chunk.content);
                }
            }
            Ok(text.len())
        })
    }))
}

fn llm(base: &str) -> Result<Task, Failure> {
    let client = llm::builder::LLMBuilder::new()
        .backend(llm::builder::LLMBackend::OpenAI)
        .api_key("key")
        .base_url(format!("{base}/"))
        .model("m")
        .build()?;
    Ok(Box::new(move |runtime| {
        runtime.block_on(async {
            let messages = [llm::chat::ChatMessage::user().content("Speak.").build()];
            let mut stream = client.chat_stream(&messages).await?;
            let mut text = String::new();
            while let Some(token) = stream.next().await {
                text.push_str(&token?);
            }
            Ok(text.len())
        })
    }))
}

fn async_openai(wire: &str, base: &str) -> Result<Task, Failure> {
    let config = OpenAIConfig::new().with_api_base(base).with_api_key("key");
    let client = async_openai::Client::with_config(config);
    if wire == "responses" {
        return Ok(Box::new(move |runtime| {
            runtime.block_on(async {
                let request = CreateResponseArgs::default()
                    .model("m")
                    .input("Speak.")
                    .stream(true)
                    .build()?;
                let mut stream = client.responses().create_stream(request).await?;
                let mut text = String::new();
                while let Some(event) = stream.next().await {
                    if let ResponseStreamEvent::ResponseOutputTextDelta(event) = event? {
                        text.push_str(&event.delta);
                    }
                }
                Ok(text.len())
            })
        }));
    }
    Ok(Box::new(move |runtime| {
        runtime.block_on(async {
            let message = ChatCompletionRequestUserMessage::from("Speak.");
            let request = CreateChatCompletionRequestArgs::default()
                .model("m")
                .messages([message.into()])
                .stream(true)
                .build()?;
            let mut stream = client.chat().create_stream(request).await?;
            let mut text = String::new();
            while let Some(chunk) = stream.next().await {
                for choice in chunk?.choices {
                    text.push_str(&choice.delta.content.unwrap_or_default());
                }
            }
            Ok(text.len())
        })
    }))
}

fn rig(wire: &str, base: &str) -> Result<Task, Failure> {
    let agent = match wire {
        "anthropic" => {
            let client = AnthropicConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.completion("claude-sonnet-5")).build()
        }
        "responses" => {
            let client = RigConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.responses("gpt-5.2")).build()
        }
        _ => {
            let client = RigConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.chat("gpt-5.2")).build()
        }
    };
    Ok(Box::new(move |runtime| {
        runtime.block_on(async {
            let mut stream = agent.prompt("Speak.").stream();
            let mut text = String::new();
            while let Some(item) = stream.next().await {
                if let MultiTurnStreamItem::StreamAssistantItem(Item::Event(StreamEvent::Text {
                    text: more,
                    ..
                })) = item?
                {
                    text.push_str(&more);
                }
            }
            Ok(text.len())
        })
    }))
}
