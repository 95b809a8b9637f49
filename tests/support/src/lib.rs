//! What the tests of several binaries share. Each module is one kind of helper.
#![expect(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_panics_doc,
    reason = "tests alone use it: a panic is how they fail"
)]

pub mod approvers;
pub mod decoded;
pub mod door;
pub mod facts;
pub mod kept;
pub mod measured;
pub mod probe;
pub mod process;
pub mod refusing;
pub mod summaries;
pub mod transcripts;
pub mod wire_providers;

/// How many cases a test runs: `few`, multiplied by the variable `HARNESS_TIMES` if it is set.
pub fn times<N: From<u8> + std::ops::Mul<Output = N> + std::str::FromStr>(few: N) -> N {
    let times = std::env::var("HARNESS_TIMES").ok().filter(|times| !times.is_empty());
    let times = times.map(|times| times.parse().unwrap_or_else(|_| panic!("a number: {times}")));
    few * times.unwrap_or_else(|| 1.into())
}

/// The step of a sweep over instants: `wide`, or 1 if `HARNESS_TIMES` is more than 1, so that no instant is left out.
pub fn step(wide: usize) -> usize {
    if times(1) > 1_usize { 1 } else { wide }
}

/// A number from the environment.
pub fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}
