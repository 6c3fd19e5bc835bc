//! libFuzzer's entry to [`tautline_fuzz::targets::whole_host`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("whole_host", data);
});
