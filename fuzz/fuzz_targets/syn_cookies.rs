//! libFuzzer's entry to [`tautline_fuzz::targets::syn_cookies`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("syn_cookies", data);
});
