use genai::Client;
use genai::chat::{ChatMessage, ChatRequest};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new()?;
    let request = ChatRequest::new(vec![
        ChatMessage::system("Be brief."),
        ChatMessage::user("Hello, what is 17.5 + 4?"),
    ]);
    let response = client.exec_chat("claude-sonnet-5", request, None).await?;
    println!("{}", response.first_text().unwrap_or_default());
    Ok(())
}
