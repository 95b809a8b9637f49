//! A run that can be killed and resumed: starts `examples/durable/durable.rs`.
//!
//!     cargo run --example durable -- --journal FILE --ledger FILE

mod launcher;

fn main() -> std::process::ExitCode {
    launcher::start("durable")
}
