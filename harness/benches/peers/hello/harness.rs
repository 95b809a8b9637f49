use harness::{Agent, AnthropicProvider};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = Agent::builder(AnthropicProvider::from_env()?).system("Be brief.").build()?;
    let reply = agent.run("Hello, what is 17.5 + 4?").await?;
    println!("{}", reply.text());
    Ok(())
}
