//! The name of a model in place of a provider.
//!
//! - at `"claude"`: `AnthropicProvider::from_env()?` asks Anthropic's models

use harness::{Agent, agent::AgentBuilder};

fn agent() -> AgentBuilder { Agent::builder("claude") }

fn main() {}
