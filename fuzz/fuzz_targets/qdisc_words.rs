//! libFuzzer's entry to [`tautline_fuzz::targets::qdisc_words`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("qdisc_words", data);
});
