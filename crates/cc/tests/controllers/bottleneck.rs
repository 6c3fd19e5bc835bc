//! A path with a bottleneck: a paced sender, a buffer that drops its tail, acknowledgments one by
//! one or in bunches.
//!
//! Losses are found when a segment sent three later is acknowledged. What is lost is not sent
//! again: only its room in the flight counts here.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{
    Ack, Congestion, CongestionState, Controller, Idle, NewestDelivered, Sampler, SentRate, Signal,
};

use crate::support::MSS;

/// A segment on its way.
#[derive(Clone, Copy)]
struct Segment {
    number: u64,
    sent_at: Instant,
    /// When its acknowledgment comes, if it was not dropped.
    acked_at: Instant,
    sent: SentRate,
}

/// One sender over one bottleneck. The fields may be changed while it runs.
pub(crate) struct Path<C> {
    pub(crate) controller: C,
    pub(crate) now: Instant,
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    pub(crate) buffer: Bytes,
    /// The application writes no faster.
    pub(crate) app: Option<Rate>,
    /// Acknowledgments come at multiples of this only.
    pub(crate) bunch: Duration,
    /// Of so many segments, one is lost on the way.
    pub(crate) loses_one_in: Option<u64>,
    pub(crate) lost: u64,
    pub(crate) delivered: Bytes,
    pub(crate) in_flight: Bytes,
    sampler: Sampler,
    /// Those that arrive, and those that were dropped and are not yet known to be.
    arriving: VecDeque<Segment>,
    dropped: VecDeque<Segment>,
    next: u64,
    busy_until: Instant,
    departure: Instant,
    written_at: Instant,
    min_rtt: Duration,
    recovery: Option<u64>,
    limited_to: Option<u64>,
    chance: u64,
    idle_since: Option<Instant>,
}

impl<C: Controller> Path<C> {
    /// A path with room for `buffer` bytes in front of the bottleneck.
    pub(crate) fn new(controller: C, rate: Rate, rtt: Duration, buffer: Bytes) -> Self {
        let now = Instant::from_secs(100);
        Self {
            controller,
            now,
            rate,
            rtt,
            buffer,
            app: None,
            bunch: Duration::ZERO,
            loses_one_in: None,
            lost: 0,
            delivered: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            sampler: Sampler::default(),
            arriving: VecDeque::new(),
            dropped: VecDeque::new(),
            next: 0,
            busy_until: now,
            departure: now,
            written_at: now,
            min_rtt: Duration::MAX,
            recovery: None,
            limited_to: None,
            chance: 1,
            idle_since: None,
        }
    }

    /// Bandwidth-delay product.
    pub(crate) fn bdp(&self) -> Bytes {
        self.rate * self.rtt
    }

    /// The state the controller says it is in.
    pub(crate) fn state(&self) -> &'static str {
        self.controller.model().state
    }

    /// Runs for `time`.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
    }

    /// Runs until `done`, `limit` at most; whether it was done.
    pub(crate) fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> bool {
        let end = self.now + limit;
        while self.step(end) {
            if done(self) {
                return true;
            }
        }
        false
    }

    /// Runs until the controller is in `state`.
    #[track_caller]
    pub(crate) fn reach(&mut self, state: &str) {
        assert!(
            self.run_until(Duration::from_secs(20), |path| path.state() == state),
            "{state} is not reached"
        );
    }

    /// Nothing is written for `time`.
    pub(crate) fn pause(&mut self, time: Duration) {
        let app = self.app.replace(Rate::ZERO);
        self.run(time);
        self.app = app;
        self.written_at = self.now;
    }

    /// The next event, if it comes before `end`.
    fn step(&mut self, end: Instant) -> bool {
        let ack = self.arriving.front().map(|segment| segment.acked_at);
        let send = self.next_send();
        let timeout =
            (ack.is_none() && !self.dropped.is_empty()).then(|| self.now + Duration::from_secs(1));
        let Some(at) = [ack, send, timeout]
            .into_iter()
            .flatten()
            .min()
            .filter(|at| *at < end)
        else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(at);
        if ack == Some(at) {
            self.acknowledge(at);
        } else if send == Some(at) {
            self.send();
        } else {
            self.time_out();
        }
        true
    }

    /// When the next segment may leave.
    fn next_send(&mut self) -> Option<Instant> {
        let written = match self.app {
            None => self.now,
            Some(Rate::ZERO) => return self.starved(),
            Some(rate) => self.written_at + MSS / rate,
        };
        if written > self.now {
            self.starved();
        }
        if self.in_flight + MSS > self.controller.verdict().cwnd {
            self.limited_to = Some(self.next);
            return None;
        }
        Some(self.now.max(self.departure).max(written))
    }

    fn starved(&mut self) -> Option<Instant> {
        self.sampler.mark_app_limited(self.in_flight);
        None
    }

    fn send(&mut self) {
        if let Some(since) = self.idle_since.take() {
            let idle = Idle {
                now: self.now,
                idle: self.now - since,
                rto: Duration::from_secs(1),
                app_limited: self.sampler.app_limited(),
            };
            self.controller.on_idle(&idle);
        }
        self.departure = self.now.max(self.departure) + MSS / self.controller.verdict().pacing_rate;
        self.written_at = self.now.max(self.written_at);
        let first = self.arriving.is_empty() && self.dropped.is_empty();
        self.in_flight += MSS;
        let sent = self.sampler.on_send(self.now, self.in_flight, first);
        let acked_at = self.carry();
        let queue = if acked_at.is_some() {
            &mut self.arriving
        } else {
            &mut self.dropped
        };
        queue.push_back(Segment {
            number: self.next,
            sent_at: self.now,
            acked_at: acked_at.unwrap_or(self.now),
            sent,
        });
        self.next += 1;
    }

    /// The segment's way through the bottleneck.
    fn carry(&mut self) -> Option<Instant> {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if self
            .loses_one_in
            .is_some_and(|among| (self.chance >> 33).is_multiple_of(among))
        {
            return None;
        }
        let waits = self.rate * (self.busy_until - self.now);
        if waits + MSS > self.buffer + MSS {
            return None;
        }
        self.busy_until = self.now.max(self.busy_until) + MSS / self.rate;
        let arrives = (self.busy_until + self.rtt).as_nanos();
        let bunch = u64::try_from(self.bunch.as_nanos()).expect("short").max(1);
        Some(Instant::from_nanos(arrives.div_ceil(bunch) * bunch))
    }

    /// All that is acknowledged at `at`.
    fn acknowledge(&mut self, at: Instant) {
        let prior_in_flight = self.in_flight;
        let (mut acked, mut newest, mut sample) = (Bytes::ZERO, None, NewestDelivered::default());
        while let Some(segment) = pop_if(&mut self.arriving, |segment| segment.acked_at <= at) {
            self.sampler
                .on_delivered(&mut sample, &segment.sent, MSS, at);
            acked += MSS;
            newest = Some(segment);
        }
        self.in_flight -= acked;
        self.delivered += acked;
        let newest = newest.expect("something was acknowledged");
        let rtt = at - newest.sent_at;
        self.min_rtt = self.min_rtt.min(rtt);
        let lost = self.find_lost(|segment| newest.number >= segment.number + 3);
        if lost > Bytes::ZERO && self.recovery.is_none() {
            let signal = Congestion {
                now: at,
                signal: Signal::Loss,
                in_flight: prior_in_flight,
            };
            self.controller.on_congestion(&signal);
            self.recovery = Some(self.next);
        }
        let oldest = [self.arriving.front(), self.dropped.front()]
            .into_iter()
            .flatten()
            .map(|segment| segment.number)
            .min();
        self.recovery = self
            .recovery
            .filter(|end| oldest.is_some_and(|oldest| oldest < *end));
        self.controller.on_ack(&Ack {
            now: at,
            acked,
            lost,
            prior_in_flight,
            in_flight: self.in_flight,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: self.min_rtt,
            delivered: self.sampler.delivered(),
            rate: self.sampler.on_ack(sample, at, self.min_rtt),
            cwnd_limited: self.limited_to.is_some_and(|to| newest.number <= to),
            state: if self.recovery.is_some() {
                CongestionState::Recovery
            } else {
                CongestionState::Open
            },
            ..crate::support::ack(at, rtt)
        });
        if oldest.is_none() {
            self.idle_since = Some(at);
        }
    }

    fn find_lost(&mut self, is_lost: impl Fn(&Segment) -> bool) -> Bytes {
        let mut lost = Bytes::ZERO;
        while let Some(segment) = pop_if(&mut self.dropped, &is_lost) {
            self.controller
                .on_lost(&self.sampler.on_lost(&segment.sent, MSS, self.now));
            lost += MSS;
        }
        self.in_flight -= lost;
        self.lost += lost.get() / MSS.get();
        lost
    }

    fn time_out(&mut self) {
        self.find_lost(|_| true);
        let signal = Congestion {
            now: self.now,
            signal: Signal::Timeout,
            in_flight: self.in_flight,
        };
        self.controller.on_congestion(&signal);
        self.recovery = None;
    }
}

/// The first segment, if `wanted`.
fn pop_if(queue: &mut VecDeque<Segment>, wanted: impl Fn(&Segment) -> bool) -> Option<Segment> {
    if wanted(queue.front()?) {
        queue.pop_front()
    } else {
        None
    }
}
