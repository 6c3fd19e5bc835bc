//! [`Config`]: parameters of a new controller.

use core::time::Duration;

use tautline_base::Bytes;

use crate::careful_resume::SavedPath;
use crate::pacing::PacingRatios;

/// Parameters that every controller of this crate shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Sender maximum segment size in bytes of payload, of QUIC the largest datagram; zero counts as one
    /// byte. Fixed for the controller.
    pub mss: Bytes,
    /// Window of a new connection, and the window to restart from after idling. Ten segments (RFC
    /// 6928 §2), of any size, as in Linux: RFC 6928 and RFC 9002 §7.2 allow segments above 1500
    /// bytes fewer.
    pub initial_window: Bytes,
    /// Pacing gains. 200 % and 120 % (Linux `tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
    pub pacing: PacingRatios,
    /// Shrink the window after an idle time longer than a retransmission timeout. On (RFC 5681
    /// §4.1, Linux `tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Alternative backoff with ECN (RFC 8511): in congestion avoidance a mark leaves 0.85 of
    /// CUBIC's window and 0.8 of Reno's, because a queue that marks is short. Off (the RFC is
    /// experimental, and Linux does not implement it).
    pub abe: bool,
    /// The transport paces. On. Without pacing an acknowledgment opens HyStart++'s window by eight
    /// segments at most (RFC 9406 §4.3), and Linux's HyStart expects a train of acknowledgments half as
    /// long.
    pub paced: bool,
    /// Clock resolution of [`CubicLinux`](crate::CubicLinux) and of [`Bbr`](crate::Bbr)'s PROBE_RTT and lowest round trip, one jiffy. 1 ms (`CONFIG_HZ=1000`);
    /// zero counts as a nanosecond.
    pub tick: Duration,
    /// Resume this path in the slow start of Reno and CUBIC, in all variants; other controllers
    /// ignore it. None.
    pub resume: Option<SavedPath>,
    /// Seed of random decisions (BBR's first phase, the time between its probes). One per
    /// connection; the same seed and the same acknowledgments give the same connection. 0.
    pub seed: u64,
}

impl Config {
    /// The defaults for segments of `mss` bytes.
    pub fn new(mss: Bytes) -> Self {
        Self {
            mss,
            initial_window: mss * 10,
            pacing: PacingRatios::default(),
            slow_start_after_idle: true,
            abe: false,
            paced: true,
            tick: Duration::from_millis(1),
            resume: None,
            seed: 0,
        }
    }
}
