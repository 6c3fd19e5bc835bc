//! libFuzzer's entry to [`tautline_fuzz::targets::tcp_segments`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("tcp_segments", data);
});
