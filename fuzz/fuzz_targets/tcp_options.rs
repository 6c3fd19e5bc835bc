//! libFuzzer's entry to [`tautline_fuzz::targets::tcp_options`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("tcp_options", data);
});
