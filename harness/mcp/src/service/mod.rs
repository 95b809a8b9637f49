//! Serves the program's tools to MCP clients.

mod answer_cache;
mod call_result;
mod calls;
mod connections;
mod http;
mod in_flight;
mod pipes;
mod progress;
mod service_handler;
mod sessions;
mod settings;
mod stdio;
mod tool_descriptions;
mod tool_questions;

pub use self::{http::McpHttp, service_handler::NoHandler, settings::McpService};
