//! [`Congestion`]: the controller with its latest verdict, the rate sampler that feeds it, the use of
//! its window, and the pacer that it drives.

use std::num::NonZeroU64;

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{
    Config, Controller, Factory, Idle, Pace, Pacer, PacerConfig, Recovery, Sampler, SentRate,
    Underuse, Verdict,
};

use super::cwnd_validation::WindowUse;

/// A controller, and the verdict after the latest event.
pub(in crate::tcp) struct Congestion {
    controller: Box<dyn Controller>,
    verdict: Verdict,
    pub(in crate::tcp::send) sampler: Sampler,
    pub(super) usage: WindowUse,
    pacer: Pacer,
}

impl Congestion {
    pub(super) fn new(factory: &Factory, config: &Config, pacer: PacerConfig) -> Self {
        let controller = factory.build(config);
        Self {
            verdict: controller.verdict(),
            controller,
            sampler: Sampler::default(),
            usage: WindowUse::default(),
            pacer: Pacer::new(pacer),
        }
    }

    /// Begins with a new controller.
    pub(super) fn start(&mut self, factory: &Factory, config: &Config) {
        self.controller = factory.build(config);
        self.verdict = self.controller.verdict();
    }

    /// Passes an event to the controller and takes its verdict: every event goes through here.
    #[inline]
    pub(super) fn update(&mut self, event: impl FnOnce(&mut dyn Controller)) {
        event(&mut *self.controller);
        self.verdict = self.controller.verdict();
    }

    /// A segment of `len` bytes is lost. The acknowledgment or timeout that revealed it follows,
    /// with the verdict.
    pub(super) fn on_lost(&mut self, sent: &SentRate, len: Bytes, now: Instant) {
        let loss = self.sampler.on_lost(sent, len, now);
        self.controller.on_lost(&loss);
    }

    pub(in crate::tcp) fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    pub(in crate::tcp) fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// Proportional rate reduction owns the window in recovery.
    pub(in crate::tcp::send) fn uses_prr(&self) -> bool {
        self.controller.recovery() == Recovery::Prr
    }

    /// When the pacer lets the next segment leave; in the past means now.
    pub(in crate::tcp) fn next_departure(&self) -> Instant {
        self.pacer.next()
    }

    /// `payload` bytes depart in so many `segments`. Windows and delivery rates count payload, and
    /// so must what is paced by them (as in Linux).
    #[inline]
    pub(in crate::tcp) fn pace(
        &mut self,
        departure: Instant,
        (payload, segments): (u64, u32),
        rate: Rate,
    ) {
        let pace = Pace {
            rate,
            burst: self.verdict.burst,
        };
        self.pacer
            .departed(departure, Bytes::new(payload), segments, pace);
    }

    /// `segments` segments depart without pacing.
    #[inline]
    pub(in crate::tcp) fn departed_unpaced(&mut self, segments: u32) {
        self.pacer.departed_unpaced(segments);
    }

    /// The qdisc refuses a segment that was to depart at `at`: that is too far in the future.
    pub(in crate::tcp) fn withdraw_departure(&mut self, at: Instant) {
        self.pacer.withdraw(at);
    }

    /// The congestion window is full, all below `nxt` being sent.
    pub(in crate::tcp::send) fn limit(&mut self, nxt: u64) {
        self.usage.limited_until = NonZeroU64::new(nxt);
    }

    /// Whether the flight above `una` is limited by the congestion window. In slow start a flight of
    /// more than half the window counts too, because pacing spreads it over the round (Linux
    /// `tcp_is_cwnd_limited`).
    pub(super) fn is_limited(&self, una: u64) -> bool {
        let Verdict { cwnd, ssthresh, .. } = self.verdict;
        self.usage
            .limited_until
            .is_some_and(|until| una <= until.get())
            || (cwnd < ssthresh && cwnd.get() < 2 * self.usage.largest)
    }

    /// Less than the window was used.
    pub(super) fn on_underuse(&mut self, used: Bytes, now: Instant) {
        self.update(|controller| controller.on_underuse(&Underuse { now, used }));
    }

    /// Nothing was in flight `since` then.
    pub(super) fn on_idle(&mut self, since: Instant, rto: std::time::Duration, now: Instant) {
        self.usage.validated(now);
        let idle = Idle {
            now,
            idle: now - since,
            rto,
            app_limited: self.sampler.app_limited(),
        };
        self.update(|controller| controller.on_idle(&idle));
    }
}
