//! libFuzzer's entry to [`tautline_fuzz::targets::ring_descriptors`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("ring_descriptors", data);
});
