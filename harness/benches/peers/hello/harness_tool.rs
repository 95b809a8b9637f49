use harness::{Agent, AnthropicProvider, tool, tools};

/// Adds two numbers.
#[tool(side_effects = "none")]
fn add(/** First number */ a: f64, /** Second number */ b: f64) -> f64 {
    a + b
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = AnthropicProvider::from_env()?;
    let agent = Agent::builder(provider).system("Be brief.").tools(tools![add]).build()?;
    let reply = agent.run("Hello, what is 17.5 + 4?").await?;
    println!("{}", reply.text());
    Ok(())
}
