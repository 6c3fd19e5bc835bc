//! [`Aggregation`]: acknowledged data in excess of the bandwidth, when acknowledgments come in
//! bunches, draft-ietf-ccwg-bbr "BBR.extra_acked".

use tautline_base::{Bytes, Instant, Rate};

use super::params::Config;
use crate::windowed_max::WindowedMax;

/// The largest excess of recent rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    filter: WindowedMax<Bytes>,
    /// The filter spans the rounds after Startup, not just one.
    long: bool,
    /// Beginning and acknowledged bytes of the present bunch.
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

    /// Extra window.
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

    /// Extends the filter, once the pipe was full.
    pub(super) fn extend_filter(&mut self, round: u64, config: &Config) {
        if !self.long {
            let extra = self.extra();
            self.filter = WindowedMax::new(config.extra_acked_rounds);
            self.filter.update(round, extra);
            self.long = true;
        }
    }

    /// Begins a new bunch, after an idle period.
    pub(super) fn restart(&mut self, now: Instant) {
        self.bunch = Some((now, Bytes::ZERO));
    }
}
