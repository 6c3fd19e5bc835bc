//! One sender over one bottleneck, segment by segment: paced departures, a tail-drop queue, an
//! acknowledgment per segment.

use std::collections::VecDeque;
use std::time::Duration;

use crate::support::{MSS, ack, signal};
use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{Ack, CongestionState, Controller, NewestDelivered, Sampler, SentRate, Signal};

/// A path and who uses it.
pub(crate) struct Path<C> {
    pub(crate) controller: C,
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    pub(crate) buffer: Bytes,
    /// Every so-manieth segment is lost on the way; 0: none.
    pub(crate) lose_every: u64,
    /// Segments that the application has ready.
    pub(crate) ready: u64,
    pub(crate) now: Instant,
    pub(crate) in_flight: Bytes,
    /// Most that stood in the queue.
    pub(crate) queue_peak: Bytes,
    sampler: Sampler,
    flight: VecDeque<Segment>,
    sent: u64,
    may_depart: Instant,
    link_free: Instant,
    min_rtt: Duration,
    srtt: Duration,
    phase: CongestionState,
    /// Number of the first segment sent after the loss that is being repaired.
    recovered_by: u64,
    lost: Bytes,
    idle_since: Option<Instant>,
}

struct Segment {
    number: u64,
    sent: SentRate,
    /// When its acknowledgment comes, or would have.
    returns: Instant,
    lost: bool,
}

impl<C: Controller> Path<C> {
    pub(crate) fn new(controller: C, rate: Rate, rtt: Duration) -> Self {
        Self {
            controller,
            rate,
            rtt,
            buffer: Bytes::mib(1 << 20),
            lose_every: 0,
            ready: u64::MAX,
            now: Instant::from_secs(1000),
            in_flight: Bytes::ZERO,
            queue_peak: Bytes::ZERO,
            sampler: Sampler::default(),
            flight: VecDeque::new(),
            sent: 0,
            may_depart: Instant::ZERO,
            link_free: Instant::ZERO,
            min_rtt: Duration::ZERO,
            srtt: Duration::ZERO,
            phase: CongestionState::Open,
            recovered_by: 0,
            lost: Bytes::ZERO,
            idle_since: None,
        }
    }

    /// Delivered in all.
    pub(crate) fn delivered(&self) -> Bytes {
        self.sampler.delivered()
    }

    /// Runs for `time`; `watch` looks after every acknowledgment.
    pub(crate) fn run(&mut self, time: Duration, mut watch: impl FnMut(&Self, &Ack)) {
        let end = self.now + time;
        loop {
            let room = self.in_flight == Bytes::ZERO
                || self.in_flight + MSS <= self.controller.verdict().cwnd;
            let departs = (room && self.ready > 0).then(|| self.may_depart.max(self.now));
            let returns = self.flight.front().map(|segment| segment.returns);
            match (departs, returns) {
                (Some(departs), returns)
                    if departs < end && returns.is_none_or(|returns| departs < returns) =>
                {
                    self.now = departs;
                    self.send();
                }
                (_, Some(returns)) if returns < end => {
                    self.now = self.now.max(returns);
                    if let Some(ack) = self.take_return() {
                        watch(self, &ack);
                    }
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn send(&mut self) {
        if let Some(since) = self.idle_since.take() {
            let pause =
                crate::support::idle(self.now, self.now - since, Duration::from_millis(300));
            self.controller.on_idle(&pause);
        }
        let verdict = self.controller.verdict();
        self.ready -= 1;
        self.sent += 1;
        self.in_flight += MSS;
        let sent = self
            .sampler
            .on_send(self.now, self.in_flight, self.flight.is_empty());
        self.may_depart = self.now.max(self.may_depart) + MSS / verdict.pacing_rate;
        let queued = self.rate * (self.link_free - self.now);
        let lost = queued + MSS > self.buffer
            || (self.lose_every > 0 && self.sent.is_multiple_of(self.lose_every));
        if !lost {
            self.queue_peak = self.queue_peak.max(queued);
            self.link_free = self.link_free.max(self.now) + MSS / self.rate;
        }
        let returns = self.link_free.max(self.now) + self.rtt;
        self.flight.push_back(Segment {
            number: self.sent,
            sent,
            returns,
            lost,
        });
        if self.ready == 0 {
            self.sampler.mark_app_limited(self.in_flight);
        }
    }

    fn take_return(&mut self) -> Option<Ack> {
        let segment = self.flight.pop_front()?;
        let prior_in_flight = self.in_flight;
        self.in_flight -= MSS;
        if segment.lost {
            self.lose(&segment);
            return None;
        }
        if self.phase != CongestionState::Open && segment.number >= self.recovered_by {
            self.phase = CongestionState::Open;
        }
        let rtt = self.now - segment.sent.sent_at;
        self.min_rtt = if self.min_rtt.is_zero() {
            rtt
        } else {
            self.min_rtt.min(rtt)
        };
        self.srtt = if self.srtt.is_zero() {
            rtt
        } else {
            (self.srtt * 7 + rtt) / 8
        };
        let mut newest = NewestDelivered::default();
        self.sampler
            .on_delivered(&mut newest, &segment.sent, MSS, self.now);
        let rate = self.sampler.on_ack(newest, self.now, self.min_rtt);
        let ack = Ack {
            lost: std::mem::replace(&mut self.lost, Bytes::ZERO),
            prior_in_flight,
            in_flight: self.in_flight,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            delivered: self.sampler.delivered(),
            rate,
            state: self.phase,
            next_departure: self.may_depart.max(self.now),
            ..ack(self.now, rtt)
        };
        self.controller.on_ack(&ack);
        if self.flight.is_empty() {
            self.idle_since = Some(self.now);
        }
        Some(ack)
    }

    fn lose(&mut self, segment: &Segment) {
        self.lost += MSS;
        self.controller
            .on_lost(&self.sampler.on_lost(&segment.sent, MSS, self.now));
        let timeout = self.flight.is_empty();
        if self.phase == CongestionState::Open || timeout {
            let kind = if timeout {
                Signal::Timeout
            } else {
                Signal::Loss
            };
            self.phase = if timeout {
                CongestionState::Loss
            } else {
                CongestionState::Recovery
            };
            self.recovered_by = self.sent + 1;
            let in_flight = self.in_flight;
            self.controller.on_congestion(&tautline_cc::Congestion {
                in_flight,
                ..signal(self.now, kind)
            });
        }
    }
}
