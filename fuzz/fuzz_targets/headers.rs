//! libFuzzer's entry to [`tautline_fuzz::targets::headers`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("headers", data);
});
