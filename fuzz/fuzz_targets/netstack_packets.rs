//! libFuzzer's entry to [`tautline_fuzz::targets::netstack_packets`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tautline_fuzz::fuzz("netstack_packets", data);
});
