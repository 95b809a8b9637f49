//! Any bytes, read as the body of an answer on this wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    harness_fuzz::check!(input, harness::wire::anthropic::decoder(Default::default()));
});
