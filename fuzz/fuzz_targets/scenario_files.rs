//! libFuzzer's entry to [`tautline_fuzz::targets::scenario_files`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("scenario_files", data);
});
