//! Any bytes, read as the body of an answer on this wire.
#![no_main]

use harness::wire::chat::{Reading, ThinkTags, decoder};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let split = Reading {
        think_tags: ThinkTags::Split,
        done_is_enough: true,
        ..Reading::default()
    };
    harness_fuzz::check!(input, decoder(Default::default(), Reading::default()));
    harness_fuzz::check!(input, decoder(Default::default(), split));
});
