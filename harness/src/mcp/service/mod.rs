//! The program's tools, served to others.

mod answer;
mod asking;
mod calling;
mod described;
mod http;
mod plan;
mod reports;
mod serving;
mod stdio;

pub use self::{http::McpHttp, plan::McpService, serving::Alone};
