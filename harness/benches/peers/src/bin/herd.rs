//! The same without counting allocations, which costs time of its own: for herds, of which only time
//! and memory are told.

fn main() -> Result<(), peers::Failure> {
    peers::run()
}
