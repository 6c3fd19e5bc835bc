//! libFuzzer's entry to [`tautline_fuzz::targets::control_requests`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("control_requests", data);
});
