//! [`Aggregation`]: how far acknowledgements run ahead of the bandwidth when they come in bunches,
//! draft-ietf-ccwg-bbr "BBR.extra_acked".

use tautline_base::{Bytes, Instant, Rate};

use super::params::Config;
use crate::windowed_max::WindowedMax;

/// The largest excess of recent rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    filter: WindowedMax<Bytes>,
    /// The filter spans the rounds after Startup, not just one.
    long: bool,
    /// When the present bunch began, and what it brought.
    bunch: Option<(Instant, Bytes)>,
}

impl Aggregation {
    pub(super) fn new() -> Self {
        Self {
            filter: WindowedMax::new(1),
            long: false,
            bunch: None,
        }
    }

    /// The window must allow for so much more.
    pub(super) fn extra(&self) -> Bytes {
        self.filter.get().unwrap_or_default()
    }

    /// `acked` bytes were acknowledged in round `round`, when `bw` was expected and `cwnd` allowed.
    pub(super) fn on_ack(&mut self, now: Instant, acked: Bytes, bw: Rate, cwnd: Bytes, round: u64) {
        let (began, delivered) = self.bunch.unwrap_or((now, Bytes::ZERO));
        let expected = bw * (now - began);
        let (began, delivered, expected) = if delivered <= expected {
            (now, Bytes::ZERO, Bytes::ZERO)
        } else {
            (began, delivered, expected)
        };
        let delivered = delivered + acked;
        self.bunch = Some((began, delivered));
        self.filter
            .update(round, delivered.saturating_sub(expected).min(cwnd));
    }

    /// The pipe was full: from now on bunches are remembered for longer.
    pub(super) fn remember_longer(&mut self, round: u64, config: &Config) {
        if !self.long {
            let extra = self.extra();
            self.filter = WindowedMax::new(config.extra_acked_rounds);
            self.filter.update(round, extra);
            self.long = true;
        }
    }

    /// Nothing was in flight: what comes next begins a bunch.
    pub(super) fn restart(&mut self, now: Instant) {
        self.bunch = Some((now, Bytes::ZERO));
    }
}
