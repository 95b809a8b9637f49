//! Serves the program's tools to others.

mod answer;
mod answers;
mod asking;
mod calling;
mod connections;
mod described;
mod flight;
mod http;
mod pipes;
mod plan;
mod reports;
mod serving;
mod sessions;
mod stdio;

pub use self::{http::McpHttp, plan::McpService, serving::Alone};
