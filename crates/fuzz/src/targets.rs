//! The targets: each is a function from bytes, run by libFuzzer (`fuzz_targets`) and by the
//! deterministic driver (`drive`).

pub mod accecn;
pub mod control_requests;
pub mod frame_to_host;
pub mod headers;
pub mod ip;
pub mod netstack_packets;
pub mod packetdrill;
pub mod qdisc_words;
pub mod ring_descriptors;
pub mod scenario_files;
pub mod syn_cookies;
pub mod tcp_options;
pub mod tcp_segments;
pub mod whole_host;
pub mod words;

use std::fmt::Debug;
use std::sync::OnceLock;

use arbitrary::{Arbitrary, Unstructured};

/// Runs a target on bytes; true if they made a case.
pub type Target = fn(&[u8]) -> bool;

/// Every target by name.
pub const TARGETS: [(&str, Target); 15] = [
    ("accecn", |data| structured(data, accecn::run)),
    ("control_requests", |data| {
        structured(data, control_requests::run)
    }),
    ("frame_to_host", |data| structured(data, frame_to_host::run)),
    ("headers", |data| structured(data, headers::run)),
    ("ip", |data| structured(data, ip::run)),
    ("netstack_packets", |data| {
        structured(data, netstack_packets::run)
    }),
    ("packetdrill", |data| structured(data, packetdrill::run)),
    ("qdisc_words", |data| structured(data, qdisc_words::run)),
    ("ring_descriptors", |data| {
        structured(data, ring_descriptors::run)
    }),
    ("scenario_files", |data| {
        structured(data, scenario_files::run)
    }),
    ("syn_cookies", |data| structured(data, syn_cookies::run)),
    ("tcp_options", |data| structured(data, tcp_options::run)),
    ("tcp_segments", |data| structured(data, tcp_segments::run)),
    ("whole_host", |data| structured(data, whole_host::run)),
    ("words", |data| structured(data, words::run)),
];

/// Runs target `name` on `data`.
///
/// # Panics
/// If there is no such target, or it finds a defect.
pub fn run(name: &str, data: &[u8]) -> bool {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.expect("a known target").1(data)
}

/// Makes a case of `data` and runs it; shows it first if the environment has `SHOW_CASE`.
fn structured<'a, T: Arbitrary<'a> + Debug>(data: &'a [u8], run: impl FnOnce(T)) -> bool {
    let Ok(case) = T::arbitrary_take_rest(Unstructured::new(data)) else {
        return false;
    };
    static SHOWS: OnceLock<bool> = OnceLock::new();
    if *SHOWS.get_or_init(|| std::env::var_os("SHOW_CASE").is_some()) {
        eprintln!("{case:#?}");
    }
    run(case);
    true
}
