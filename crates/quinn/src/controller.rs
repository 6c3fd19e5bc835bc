//! [`Adapter`]: a controller of `tautline-cc` behind the congestion-control trait of quinn.
//!
//! Recovery is RFC 9002 §7: one reduction per round trip, which ends when a packet sent after it is
//! acknowledged; a probe timeout costs nothing, persistent congestion (§7.6) is answered as TCP's
//! retransmission timeout.

mod sent;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant as StdInstant};

use quinn::congestion::{Controller as QuicController, ControllerMetrics};
use tautline_base::{Bytes, Instant};
use tautline_cc::{
    Ack, Config, Congestion, CongestionState, Controller, Factory, Idle, NewestDelivered, Sampler,
    Signal, Verdict,
};

use self::sent::SentTimes;

/// quinn's congestion controller of one path.
pub(crate) struct Adapter {
    factory: Factory,
    config: Config,
    /// Epoch of the controller's clock.
    epoch: StdInstant,
    /// Never locked: quinn wants `Sync`, and asks without `mut` only for what `verdict` holds.
    controller: Mutex<Box<dyn Controller>>,
    verdict: Verdict,
    least_window: Bytes,
    sampler: Sampler,
    sent: SentTimes,
    in_flight: Bytes,
    batch: Batch,
    /// Lost since the last acknowledgment was passed on.
    lost: Bytes,
    srtt: Duration,
    min_rtt: Option<Duration>,
    /// Time of sending of the latest packet that was acknowledged.
    newest_acked: Instant,
    /// Total delivered when the round is over.
    round_end: Bytes,
    recovery: Option<Recovery>,
    /// Since when nothing is in flight, once something was.
    idle_since: Option<Instant>,
}

/// Acknowledgments that came in one packet.
#[derive(Debug, Default)]
struct Batch {
    newest: NewestDelivered,
    packets: u64,
    acked: Bytes,
    newest_sent: Instant,
    /// Total delivered when the newest was sent.
    prior_delivered: Option<Bytes>,
    smoothed: Duration,
}

/// The answer to a congestion signal; over when something sent after it began is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    began: Instant,
    phase: CongestionState,
}

impl Adapter {
    pub(crate) fn new(factory: Factory, config: Config, epoch: StdInstant) -> Self {
        let controller = factory.build(&config);
        Self {
            verdict: controller.verdict(),
            controller: Mutex::new(controller),
            factory,
            config,
            epoch,
            least_window: config.mss * 2,
            sampler: Sampler::default(),
            sent: SentTimes::default(),
            in_flight: Bytes::ZERO,
            batch: Batch::default(),
            lost: Bytes::ZERO,
            srtt: Duration::ZERO,
            min_rtt: None,
            newest_acked: Instant::ZERO,
            round_end: Bytes::ZERO,
            recovery: None,
            idle_since: None,
        }
    }

    /// Tells the controller something, and keeps its answer.
    fn update(&mut self, what: impl FnOnce(&mut dyn Controller)) {
        let controller = self
            .controller
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut();
        what(controller);
        self.verdict = controller.verdict();
    }

    fn time(&self, instant: StdInstant) -> Instant {
        Instant::ZERO + instant.saturating_duration_since(self.epoch)
    }

    /// One packet of `bytes` sent at `sent` was acknowledged; `smoothed` is the round trip before
    /// the batch it came in.
    fn acked(&mut self, now: Instant, sent: Instant, bytes: Bytes, smoothed: Duration) {
        let record = self.sent.find(sent);
        if let Some(record) = &record {
            self.sampler
                .on_delivered(&mut self.batch.newest, record, bytes, now);
        }
        let batch = &mut self.batch;
        if batch.packets == 0 || sent >= batch.newest_sent {
            batch.newest_sent = sent;
            batch.prior_delivered = record.map(|record| record.delivered);
        }
        batch.packets += 1;
        batch.acked += bytes;
        batch.smoothed = smoothed;
    }

    fn end_acks(&mut self, now: Instant, in_flight: Bytes, app_limited: bool) {
        self.in_flight = in_flight;
        let batch = std::mem::take(&mut self.batch);
        if batch.packets == 0 {
            return;
        }
        let rtt = self.measure(&batch, now);
        let min_rtt = self.min_rtt.unwrap_or_default();
        let rate = self.sampler.on_ack(batch.newest, now, min_rtt);
        let delivered = self.sampler.delivered();
        let round_start = batch
            .prior_delivered
            .is_some_and(|prior| prior >= self.round_end);
        if round_start {
            self.round_end = delivered;
        }
        if self
            .recovery
            .is_some_and(|recovery| batch.newest_sent > recovery.began)
        {
            self.recovery = None;
        }
        let ack = Ack {
            now,
            acked: batch.acked,
            lost: std::mem::take(&mut self.lost),
            prior_in_flight: in_flight + batch.acked,
            in_flight,
            rtt,
            srtt: self.srtt,
            min_rtt,
            delivered,
            rate,
            cwnd_limited: !app_limited,
            round_start,
            state: self
                .recovery
                .map_or(CongestionState::Open, |recovery| recovery.phase),
            marked: Bytes::ZERO,
            delayed: batch.packets == 1 && batch.acked < self.config.mss,
            next_departure: now,
        };
        self.update(|controller| controller.on_ack(&ack));
        self.sent.forget(
            self.newest_acked,
            now,
            self.srtt.max(rtt.unwrap_or_default()) * 2,
        );
        if app_limited {
            self.sampler.mark_app_limited(in_flight);
        }
        self.idle_since = (in_flight == Bytes::ZERO).then_some(now);
    }

    /// The round trip of a batch, unless something sent later was acknowledged before (RFC 9002
    /// §5.1). quinn sends ten datagrams and more at one instant; each acknowledgment of such a burst
    /// is a sample.
    fn measure(&mut self, batch: &Batch, now: Instant) -> Option<Duration> {
        if batch.newest_sent < self.newest_acked {
            return None;
        }
        self.newest_acked = batch.newest_sent;
        let rtt = now - batch.newest_sent;
        // Before its first sample quinn's estimate is a guess, and its first sample follows this
        // batch.
        self.srtt = if self.min_rtt.is_none() {
            rtt
        } else {
            batch.smoothed
        };
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        Some(rtt)
    }
}

impl QuicController for Adapter {
    fn on_sent(&mut self, now: StdInstant, bytes: u64, _last_packet_number: u64) {
        let now = self.time(now);
        if let Some(since) = self.idle_since.take() {
            // Smoothed round trip and four times its variation, which begins at half of it (RFC
            // 9002 §5.3) and is not told.
            let idle = Idle {
                now,
                idle: now - since,
                rto: self.srtt * 3,
                app_limited: true,
            };
            self.update(|controller| controller.on_idle(&idle));
        }
        let first = self.in_flight == Bytes::ZERO;
        self.in_flight += Bytes::new(bytes);
        if !self.sent.extend(now, self.in_flight) {
            let record = self.sampler.on_send(now, self.in_flight, first);
            self.sent.push(record);
        }
    }

    fn on_ack(
        &mut self,
        now: StdInstant,
        sent: StdInstant,
        bytes: u64,
        _: bool,
        rtt: &quinn_proto::RttEstimator,
    ) {
        self.acked(
            self.time(now),
            self.time(sent),
            Bytes::new(bytes),
            rtt.get(),
        );
    }

    fn on_end_acks(
        &mut self,
        now: StdInstant,
        in_flight: u64,
        app_limited: bool,
        _largest: Option<u64>,
    ) {
        self.end_acks(self.time(now), Bytes::new(in_flight), app_limited);
    }

    fn on_congestion_event(
        &mut self,
        now: StdInstant,
        sent: StdInstant,
        persistent: bool,
        lost_bytes: u64,
    ) {
        let (now, sent, lost) = (self.time(now), self.time(sent), Bytes::new(lost_bytes));
        self.in_flight = self.in_flight.saturating_sub(lost);
        self.lost += lost;
        if lost > Bytes::ZERO
            && let Some(record) = self.sent.find(sent)
        {
            let loss = self.sampler.on_lost(&record, lost, now);
            self.update(|controller| controller.on_lost(&loss));
        }
        let (signal, phase) = match (persistent, lost) {
            (true, _) => (Signal::Timeout, CongestionState::Loss),
            (false, Bytes::ZERO) => (Signal::Ce, CongestionState::Cwr),
            (false, _) => (Signal::Loss, CongestionState::Recovery),
        };
        let answered = self.recovery.is_some_and(|recovery| sent <= recovery.began);
        if answered && !persistent {
            return;
        }
        self.recovery = Some(Recovery { began: now, phase });
        // Persistent congestion leaves the smallest window (RFC 9002 §7.6.2), although more may have
        // been sent since: probe timeouts do not shrink the window.
        let in_flight = if persistent {
            Bytes::ZERO
        } else {
            self.in_flight
        };
        let congestion = Congestion {
            now,
            signal,
            in_flight,
        };
        self.update(|controller| controller.on_congestion(&congestion));
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.least_window = Bytes::new(new_mtu.into()) * 2;
    }

    /// The controller's window, or what its pacing rate sends in a round trip; at least two
    /// datagrams (RFC 9002 §7.2), for quinn sends only what leaves some of it free.
    fn window(&self) -> u64 {
        let Verdict {
            cwnd, pacing_rate, ..
        } = self.verdict;
        let paced = if self.srtt.is_zero() {
            Bytes::MAX
        } else {
            pacing_rate * self.srtt
        };
        cwnd.min(paced).max(self.least_window).get()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh =
            (self.verdict.ssthresh < Bytes::MAX).then(|| self.verdict.ssthresh.get());
        metrics.pacing_rate = Some(self.verdict.pacing_rate.as_bits_per_sec());
        metrics
    }

    /// For another path, of which nothing was measured: a new controller that goes on from this
    /// one's window.
    fn clone_box(&self) -> Box<dyn QuicController> {
        let mut copy = Self::new(self.factory.clone(), self.config, self.epoch);
        copy.least_window = self.least_window;
        copy.update(|controller| controller.adopt(&self.verdict));
        Box::new(copy)
    }

    fn initial_window(&self) -> u64 {
        self.config.initial_window.get()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
