//! [`Config`]: what every controller is built from.

use tautline_base::Bytes;

use crate::pacing::PacingRatios;

/// Parameters that every controller of this crate shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Sender maximum segment size in bytes of payload; zero counts as one byte.
    pub mss: Bytes,
    /// Window of a new connection, and the window to restart from after idling. Ten segments (RFC 6928 §2).
    pub initial_window: Bytes,
    /// Pacing gains. 200 % and 120 % (Linux `tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
    pub pacing: PacingRatios,
    /// Shrink the window after an idle time longer than a retransmission timeout. On (RFC 5681 §4.1, Linux
    /// `tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Seeds what a controller does by chance (the phase BBR begins with, the time between its probes). One per connection;
    /// the same seed and the same acknowledgements give the same connection.
    pub seed: u64,
}

impl Config {
    /// The defaults for segments of `mss` bytes.
    pub fn new(mss: Bytes) -> Self {
        Self { mss, initial_window: mss * 10, pacing: PacingRatios::default(), slow_start_after_idle: true, seed: 0 }
    }
}
