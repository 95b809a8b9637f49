//! Any bytes, read as the body of an answer on this wire.
#![no_main]

use harness::wire::chat::{DecodeOptions, ThinkTags, decoder};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let split = DecodeOptions {
        think_tags: ThinkTags::Split,
        done_is_enough: true,
        ..DecodeOptions::default()
    };
    harness_fuzz::check!(input, decoder(Default::default(), DecodeOptions::default()));
    harness_fuzz::check!(input, decoder(Default::default(), split));
});
