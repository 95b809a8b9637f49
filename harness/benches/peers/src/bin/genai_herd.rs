//! The same as `herd`, built with `genai`.

fn main() -> Result<(), peers::Failure> {
    peers::run()
}
