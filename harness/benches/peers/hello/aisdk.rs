use aisdk::core::LanguageModelRequest;
use aisdk::providers::OpenAI;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let result = LanguageModelRequest::builder()
        .model(OpenAI::gpt_5())
        .system("Be brief.")
        .prompt("Hello, what is 17.5 + 4?")
        .build()
        .generate_text()
        .await?;
    println!("{}", result.text().unwrap_or_default());
    Ok(())
}
