//! [`Signals`]: deliveries and losses of the latest round, draft-ietf-ccwg-bbr "When not Probing for
//! Bandwidth".

use tautline_base::{Bytes, Instant, Rate};

use crate::sampler::RateSample;

/// The largest delivery of the present round, which restarts at its first loss, and its losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    /// Something was lost in the present round.
    pub(super) lossy: bool,
    /// The present acknowledgment ends the round.
    pub(super) round_ends: bool,
    /// Fastest delivery.
    pub(super) bw_latest: Rate,
    /// Largest delivery.
    pub(super) inflight_latest: Bytes,
    /// Loss events. The draft counts runs of lost segments; here, as in Linux, all losses found by
    /// one acknowledgment are one run.
    pub(super) loss_events: u32,
    last_event: Option<Instant>,
    /// Total delivered when the round began.
    round_begin: Bytes,
}

impl Signals {
    /// Near the start of an acknowledgment's processing.
    pub(super) fn on_sample(&mut self, sample: Option<&RateSample>, delivered: Bytes) {
        self.round_ends = false;
        let Some(sample) = sample else { return };
        self.bw_latest = self.bw_latest.max(sample.rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if sample.prior_delivered >= self.round_begin {
            self.round_begin = delivered;
            self.round_ends = true;
        }
    }

    /// Near its end.
    pub(super) fn advance(&mut self, sample: Option<&RateSample>) {
        if let (true, Some(sample)) = (self.round_ends, sample) {
            self.bw_latest = sample.rate;
            self.inflight_latest = sample.delivered;
            self.loss_events = 0;
        }
    }

    /// A loss, or a mark.
    pub(super) fn on_loss(&mut self, now: Instant, delivered: Bytes) {
        if !self.lossy {
            self.lossy = true;
            self.round_begin = delivered;
        }
        if self.last_event != Some(now) {
            self.last_event = Some(now);
            self.loss_events = self.loss_events.saturating_add(1);
        }
    }

    /// Clears the signals of the previous phase of the cycle.
    pub(super) fn reset(&mut self) {
        self.lossy = false;
        self.bw_latest = Rate::ZERO;
        self.inflight_latest = Bytes::ZERO;
    }
}
