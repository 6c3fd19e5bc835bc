//! A controller that only says what it needs of ECN, and keeps its window: what is under test is
//! the transport.

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{Ack, Congestion, Controller, Ecn, Factory, Idle, Verdict};

struct Needs(Ecn);

/// A factory of controllers that need `ecn`.
pub(crate) fn needs(ecn: Ecn) -> Factory {
    Factory::new(move |_| Box::new(Needs(ecn)))
}

impl Controller for Needs {
    fn name(&self) -> &'static str {
        "needs"
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _congestion: &Congestion) {}

    fn on_undo(&mut self, _now: Instant) {}

    fn on_idle(&mut self, _idle: &Idle) {}

    fn verdict(&self) -> Verdict {
        let cwnd = Bytes::new(20_000);
        Verdict {
            cwnd,
            ssthresh: cwnd,
            pacing_rate: Rate::MAX,
            burst: cwnd,
        }
    }

    fn ecn(&self) -> Ecn {
        self.0
    }
}
