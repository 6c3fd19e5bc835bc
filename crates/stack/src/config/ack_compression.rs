//! [`AckCompression`]: fewer acknowledgments for a flood of segments out of order.

use std::time::Duration;

/// Once a peer has had three acknowledgments of a hole, those of further segments beyond it are
/// joined into one (Linux `__tcp_ack_snd_check`, `net/ipv4/tcp_input.c`). Peers without SACK get each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckCompression {
    /// Most acknowledgments compressed into one. Linux `tcp_comp_sack_nr`: 44.
    pub most: u8,
    /// Longest it waits. Linux `tcp_comp_sack_delay_ns`: 1 ms.
    pub delay: Duration,
    /// Nor longer than this part of a round trip, in percent. Linux: 5, since
    /// `tcp_comp_sack_rtt_percent` 33.
    pub rtt_percent: u8,
    /// Added to the delay. Linux lets the timer expire that much later, to join it with others, and
    /// an idle kernel does (`tcp_comp_sack_slack_ns`): 100 µs.
    pub slack: Duration,
}

impl AckCompression {
    /// Linux's values.
    pub const LINUX: Self = Self {
        most: 44,
        delay: Duration::from_millis(1),
        rtt_percent: 5,
        slack: Duration::from_micros(100),
    };
}
