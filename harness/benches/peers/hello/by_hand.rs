use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let request = json!({"model": "claude-haiku-4-5", "max_tokens": 4096, "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hello, what is 17.5 + 4?"}]});
    let request = reqwest::Client::new()
        .post("https://api.anthropic.com/v1/messages")
        .header("x-api-key", std::env::var("ANTHROPIC_API_KEY")?)
        .header("anthropic-version", "2023-06-01")
        .header("content-type", "application/json")
        .body(request.to_string());
    let answer = request.send().await?.text().await?;
    let answer: Value = serde_json::from_str(&answer)?;
    println!("{}", answer["content"][0]["text"].as_str().unwrap_or(&answer.to_string()));
    Ok(())
}
