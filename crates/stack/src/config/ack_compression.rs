//! [`AckCompression`]: fewer acknowledgments for a flood of segments out of order.

use std::time::Duration;

/// After three acknowledgments of a hole, those of further segments beyond it are compressed into
/// one (Linux `__tcp_ack_snd_check`, `net/ipv4/tcp_input.c`). A peer without SACK receives each. A segment that begins a
/// third or later block sends what was compressed, and is reported by the next acknowledgment (`tcp_sack_new_ofo_skb`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckCompression {
    /// Most acknowledgments compressed into one. Linux `tcp_comp_sack_nr`: 44.
    pub most: u8,
    /// Longest delay of the compressed acknowledgment. Linux `tcp_comp_sack_delay_ns`: 1 ms.
    pub delay: Duration,
    /// Longest delay in percent of a round trip; the shorter of both applies. Linux: 5, and 33 with
    /// `tcp_comp_sack_rtt_percent`.
    pub rtt_percent: u8,
    /// Added to the delay. Linux lets the timer expire this much later, so that one interrupt serves
    /// several timers, and an idle kernel does (`tcp_comp_sack_slack_ns`): 100 µs.
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
