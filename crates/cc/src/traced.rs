//! [`Traced`]: a wrapper that reports every event of a controller with the verdict, e.g. as CSV.
//!
//! ```
//! use tautline_base::{Bytes, Instant};
//! use tautline_cc::{Algorithm, Config, Controller, Row, Signal, Congestion, Traced};
//!
//! let mut rows = Vec::new();
//! let config = Config::new(Bytes::new(1448));
//! let mut controller = Traced::new(Algorithm::Cubic.build(&config), |row: &Row| rows.push(row.to_string()));
//! controller.on_congestion(&Congestion { now: Instant::from_secs(1), signal: Signal::Loss, in_flight: Bytes::new(14_480) });
//! drop(controller);
//! assert_eq!(rows, ["1.000000000,loss,,14480,,10136,10136,139008000,,,avoidance"]);
//! # assert_eq!(Row::HEAD.split(',').count(), rows[0].split(',').count());
//! ```

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::controller::{
    Ack, Congestion, Controller, Ecn, Idle, Loss, Model, Recovery, Signal, Underuse, Verdict,
};

/// An event and the controller's state after it. `Display` writes a line of CSV without the line
/// end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Time of the event.
    pub at: Instant,
    /// Kind: `ack`, `loss`, `timeout`, `mark`, `local_drop`, `undo`, `start` (after a pause) or
    /// `underuse`.
    pub event: &'static str,
    /// Newly delivered bytes.
    pub acked: Option<Bytes>,
    /// In flight after the event.
    pub in_flight: Option<Bytes>,
    /// RTT sample.
    pub rtt: Option<Duration>,
    /// The verdict after the event.
    pub verdict: Verdict,
    /// The model after the event.
    pub model: Model,
}

impl Row {
    /// Header of the CSV. Units: seconds, event, bytes, bytes, seconds, bytes, bytes (empty: no
    /// threshold), bit/s, bit/s, seconds, name.
    pub const HEAD: &str =
        "time,event,acked,in_flight,rtt,cwnd,ssthresh,pacing_rate,bandwidth,min_rtt,state";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.at.as_nanos();
        write!(
            f,
            "{}.{:09},{},",
            nanos / 1_000_000_000,
            nanos % 1_000_000_000,
            self.event
        )?;
        let Verdict {
            cwnd,
            ssthresh,
            pacing_rate,
            ..
        } = self.verdict;
        cell(f, self.acked.map(Bytes::get))?;
        cell(f, self.in_flight.map(Bytes::get))?;
        cell(f, self.rtt.map(|rtt| rtt.as_secs_f64()))?;
        write!(f, "{},", cwnd.get())?;
        cell(f, (ssthresh < Bytes::MAX).then_some(ssthresh.get()))?;
        write!(f, "{},", pacing_rate.as_bits_per_sec())?;
        cell(
            f,
            self.model
                .bandwidth
                .map(|bandwidth| bandwidth.as_bits_per_sec()),
        )?;
        cell(f, self.model.min_rtt.map(|rtt| rtt.as_secs_f64()))?;
        f.write_str(self.model.state)
    }
}

fn cell(f: &mut fmt::Formatter<'_>, value: Option<impl fmt::Display>) -> fmt::Result {
    match value {
        Some(value) => write!(f, "{value},"),
        None => f.write_str(","),
    }
}

/// A controller that reports each event to a sink.
pub struct Traced<F> {
    inner: Box<dyn Controller>,
    sink: F,
}

impl<F: FnMut(&Row) + Send> Traced<F> {
    /// Reports the events of `inner` to `sink`.
    pub fn new(inner: Box<dyn Controller>, sink: F) -> Self {
        Self { inner, sink }
    }

    fn report(
        &mut self,
        at: Instant,
        event: &'static str,
        ack: Option<&Ack>,
        in_flight: Option<Bytes>,
    ) {
        let (acked, rtt) = (ack.map(|ack| ack.acked), ack.and_then(|ack| ack.rtt));
        let (verdict, model) = (self.inner.verdict(), self.inner.model());
        (self.sink)(&Row {
            at,
            event,
            acked,
            in_flight,
            rtt,
            verdict,
            model,
        });
    }
}

impl<F> fmt::Debug for Traced<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<F: FnMut(&Row) + Send> Controller for Traced<F> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.inner.on_ack(ack);
        self.report(ack.now, "ack", Some(ack), Some(ack.in_flight));
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.inner.on_congestion(congestion);
        let event = match congestion.signal {
            Signal::Loss => "loss",
            Signal::Timeout => "timeout",
            Signal::Ce => "mark",
            Signal::LocalDrop => "local_drop",
        };
        self.report(congestion.now, event, None, Some(congestion.in_flight));
    }

    fn on_undo(&mut self, now: Instant) {
        self.inner.on_undo(now);
        self.report(now, "undo", None, None);
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.inner.on_idle(idle);
        self.report(idle.now, "start", None, Some(Bytes::ZERO));
    }

    fn on_underuse(&mut self, underuse: &Underuse) {
        self.inner.on_underuse(underuse);
        self.report(underuse.now, "underuse", None, Some(underuse.used));
    }

    fn on_lost(&mut self, loss: &Loss) {
        self.inner.on_lost(loss);
    }

    fn adopt(&mut self, before: &Verdict) {
        self.inner.adopt(before);
    }

    fn verdict(&self) -> Verdict {
        self.inner.verdict()
    }

    fn recovery(&self) -> Recovery {
        self.inner.recovery()
    }

    fn packet_segments(&self, autosized: u64) -> u64 {
        self.inner.packet_segments(autosized)
    }

    fn ecn(&self) -> Ecn {
        self.inner.ecn()
    }

    fn model(&self) -> Model {
        self.inner.model()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;
    use tautline_base::Rate;

    #[test]
    fn a_row_has_the_columns_of_its_head() {
        let verdict = Verdict {
            cwnd: Bytes::new(28_960),
            ssthresh: Bytes::MAX,
            pacing_rate: Rate::mbit(10),
            burst: Bytes::new(3_000),
        };
        let model = Model {
            state: "STARTUP",
            bandwidth: Some(Rate::mbit(8)),
            min_rtt: Some(Duration::from_millis(20)),
            ..Model::default()
        };
        let row = Row {
            at: Instant::from_millis(1_500),
            event: "ack",
            acked: Some(Bytes::new(1_448)),
            in_flight: Some(Bytes::new(14_480)),
            rtt: Some(Duration::from_micros(20_500)),
            verdict,
            model,
        };
        assert_eq!(
            row.to_string(),
            "1.500000000,ack,1448,14480,0.0205,28960,,10000000,8000000,0.02,STARTUP"
        );
        assert_eq!(
            row.to_string().split(',').count(),
            Row::HEAD.split(',').count()
        );
    }

    /// A controller that lets its window count the calls that change it.
    #[derive(Debug, Default)]
    struct Counting(u64);

    impl Controller for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn on_ack(&mut self, _ack: &Ack) {
            self.0 += 1;
        }

        fn on_congestion(&mut self, _congestion: &Congestion) {
            self.0 += 10;
        }

        fn on_undo(&mut self, _now: Instant) {
            self.0 += 100;
        }

        fn on_idle(&mut self, _idle: &Idle) {
            self.0 += 1_000;
        }

        fn on_underuse(&mut self, _underuse: &Underuse) {
            self.0 += 10_000;
        }

        fn on_lost(&mut self, _loss: &Loss) {
            self.0 += 100_000;
        }

        fn adopt(&mut self, _before: &Verdict) {
            self.0 += 1_000_000;
        }

        fn verdict(&self) -> Verdict {
            Verdict {
                cwnd: Bytes::new(self.0),
                ssthresh: Bytes::MAX,
                pacing_rate: Rate::mbit(1),
                burst: Bytes::ZERO,
            }
        }

        fn recovery(&self) -> Recovery {
            Recovery::Controller
        }

        fn packet_segments(&self, autosized: u64) -> u64 {
            autosized + 7
        }

        fn ecn(&self) -> Ecn {
            Ecn::L4s
        }

        fn model(&self) -> Model {
            Model {
                state: "counted",
                ..Model::default()
            }
        }
    }

    /// Every call reaches the inner controller once; those with a row report the state after it.
    #[test]
    fn every_call_is_passed_on_and_events_are_reported() {
        let mut rows = Vec::new();
        let report = |row: &Row| rows.push((row.event, row.verdict.cwnd.get(), row.model.state));
        let mut traced = Traced::new(Box::new(Counting::default()), report);
        let now = Instant::ZERO;
        let bytes = Bytes::new(1);
        traced.on_ack(&Ack::new(now, bytes, bytes));
        for signal in [Signal::Loss, Signal::Timeout, Signal::Ce, Signal::LocalDrop] {
            traced.on_congestion(&Congestion {
                now,
                signal,
                in_flight: bytes,
            });
        }
        traced.on_undo(now);
        traced.on_idle(&Idle {
            now,
            idle: Duration::ZERO,
            rto: Duration::ZERO,
            app_limited: true,
        });
        traced.on_underuse(&Underuse { now, used: bytes });
        traced.on_lost(&Loss {
            now,
            bytes,
            sent_in_flight: bytes,
            lost_since: bytes,
            prior_delivered: bytes,
            app_limited: false,
        });
        traced.adopt(&traced.verdict());
        assert_eq!(traced.verdict().cwnd, Bytes::new(1_111_141));
        assert_eq!((traced.name(), traced.packet_segments(1)), ("counting", 8));
        assert_eq!(
            (traced.recovery(), traced.ecn(), traced.model().state),
            (Recovery::Controller, Ecn::L4s, "counted")
        );
        let expected = [
            ("ack", 1),
            ("loss", 11),
            ("timeout", 21),
            ("mark", 31),
            ("local_drop", 41),
            ("undo", 141),
            ("start", 1_141),
            ("underuse", 11_141),
        ];
        drop(traced);
        assert_eq!(rows, expected.map(|(event, cwnd)| (event, cwnd, "counted")));
    }
}
