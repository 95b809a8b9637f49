//! The same program as `main.rs` without the counting of allocations, which takes time itself. It measures herds, for
//! which only time and memory are reported.

fn main() -> Result<(), peers::Failure> {
    peers::run()
}
