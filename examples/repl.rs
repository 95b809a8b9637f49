//! A chat in the terminal that keeps its conversations: starts `examples/durable/repl.rs`.
//!
//!     cargo run --example repl

mod launcher;

fn main() -> std::process::ExitCode {
    launcher::start("repl")
}
