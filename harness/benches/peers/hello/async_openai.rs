use async_openai::Client;
use async_openai::types::chat::{
    ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
    CreateChatCompletionRequestArgs,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new();
    let request = CreateChatCompletionRequestArgs::default()
        .model("gpt-5.6")
        .messages([
            ChatCompletionRequestSystemMessage::from("Be brief.").into(),
            ChatCompletionRequestUserMessage::from("Hello, what is 17.5 + 4?").into(),
        ])
        .build()?;
    let response = client.chat().create(request).await?;
    for choice in response.choices {
        println!("{}", choice.message.content.unwrap_or_default());
    }
    Ok(())
}
