//! libFuzzer's entry to [`tautline_fuzz::targets::ip`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("ip", data);
});
