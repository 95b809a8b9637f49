use llm::builder::{LLMBackend, LLMBuilder};
use llm::chat::ChatMessage;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = LLMBuilder::new()
        .backend(LLMBackend::OpenAI)
        .api_key(std::env::var("OPENAI_API_KEY")?)
        .model("gpt-5.6")
        .system("Be brief.")
        .build()?;
    let messages = [ChatMessage::user().content("Hello, what is 17.5 + 4?").build()];
    let response = client.chat(&messages).await?;
    println!("{}", response.text().unwrap_or_default());
    Ok(())
}
