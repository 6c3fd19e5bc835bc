//! A path without queue: whole windows are sent and acknowledged segment by segment, one round trip
//! per round.

use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_cc::{Ack, Config, Congestion, Controller, Idle, Signal};

pub(crate) const MSS: Bytes = Bytes::new(1000);

/// A configuration with an initial window of `segments`.
pub(crate) fn config(segments: u64) -> Config {
    Config {
        initial_window: MSS * segments,
        ..Config::new(MSS)
    }
}

/// An acknowledgment of one segment by a sender that the window limits.
pub(crate) fn ack(now: Instant, rtt: Duration) -> Ack {
    Ack {
        prior_in_flight: Bytes::ZERO,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        ..Ack::new(now, MSS, Bytes::ZERO)
    }
}

/// A congestion signal at `now`, with nothing in flight.
pub(crate) fn signal(now: Instant, signal: Signal) -> Congestion {
    Congestion {
        now,
        signal,
        in_flight: Bytes::ZERO,
    }
}

/// The window in segments.
pub(crate) fn segments(controller: &impl Controller) -> f64 {
    controller.verdict().cwnd.get() as f64 / MSS.get() as f64
}

/// One sender over one path.
pub(crate) struct Flow<C> {
    pub(crate) controller: C,
    pub(crate) now: Instant,
    pub(crate) rtt: Duration,
    delivered: Bytes,
}

impl<C: Controller> Flow<C> {
    pub(crate) fn new(controller: C, rtt: Duration) -> Self {
        Self {
            controller,
            now: Instant::from_secs(1000),
            rtt,
            delivered: Bytes::ZERO,
        }
    }

    /// Sends one window; its acknowledgments come evenly spread over the following round trip.
    /// Returns the segments sent.
    pub(crate) fn round(&mut self) -> u64 {
        self.marked_round(0)
    }

    /// [`round`](Self::round), of which the first `marked` segments carry a mark.
    pub(crate) fn marked_round(&mut self, marked: u64) -> u64 {
        let sent = (self.controller.verdict().cwnd.get() / MSS.get()).max(1);
        let gap = self.rtt / u32::try_from(sent).expect("windows in tests are small");
        let end = self.now + self.rtt;
        for i in 0..sent {
            self.now += gap;
            self.delivered += MSS;
            let (delivered, in_flight) = (self.delivered, MSS * (sent - 1));
            let marked = if i < marked { MSS } else { Bytes::ZERO };
            self.controller.on_ack(&Ack {
                round_start: i == 0,
                delivered,
                in_flight,
                marked,
                ..ack(self.now, self.rtt)
            });
        }
        self.now = end;
        sent
    }

    pub(crate) fn rounds(&mut self, rounds: u32) {
        for _ in 0..rounds {
            self.round();
        }
    }

    pub(crate) fn signal(&mut self, kind: Signal) {
        self.controller.on_congestion(&signal(self.now, kind));
    }

    /// One loss, found and repaired at once.
    pub(crate) fn lose(&mut self) {
        self.signal(Signal::Loss);
    }
}

/// The mean window in segments when one segment in every `period` is lost, after the first thirty
/// losses: the cycle settles slowly.
pub(crate) fn average_window(mut flow: Flow<impl Controller>, period: u64) -> f64 {
    let (mut since_loss, mut losses, mut sum, mut rounds) = (0, 0, 0.0, 0);
    while losses < 50 {
        since_loss += flow.round();
        if since_loss >= period {
            since_loss -= period;
            losses += 1;
            flow.signal(Signal::Loss);
        }
        if losses >= 30 {
            sum += segments(&flow.controller);
            rounds += 1;
        }
    }
    sum / f64::from(rounds)
}

/// Transmission begins again at `now` after `pause`, with a retransmission timeout of `rto`.
pub(crate) fn idle(now: Instant, pause: Duration, rto: Duration) -> Idle {
    Idle {
        now,
        idle: pause,
        rto,
        app_limited: true,
    }
}
