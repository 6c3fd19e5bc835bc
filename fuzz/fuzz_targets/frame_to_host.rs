//! libFuzzer's entry to [`tautline_fuzz::targets::frame_to_host`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("frame_to_host", data);
});
