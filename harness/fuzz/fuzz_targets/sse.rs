//! Any bytes, split into events.
#![no_main]

use harness::wire::SseParser;

fn records(pieces: &[&[u8]]) -> (Vec<(Vec<u8>, Vec<u8>)>, bool) {
    let mut parser = SseParser::new(256);
    let mut seen = Vec::new();
    let mut keep = |record: harness::wire::Record<'_>| {
        seen.push((record.event.to_vec(), record.data.to_vec()));
        Ok(())
    };
    let fits = pieces.iter().all(|piece| parser.push(piece, &mut keep).is_ok())
        && parser.finish(&mut keep).is_ok();
    (seen, fits)
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((body, pieces)) = harness_fuzz::pieces(input) {
        assert_eq!(records(&[body]), records(&pieces));
    }
});
