use rig::prelude::*;
use rig::providers::openai::{self, OpenAI};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = OpenAI::from_env()?.completion(openai::GPT_6_1_SOL);
    let agent = AgentBuilder::new(model).preamble("Be brief.").build();
    let response = agent.prompt("Hello, what is 17.5 + 4?").await?;
    println!("{}", response.output());
    Ok(())
}
