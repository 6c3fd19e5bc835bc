//! PIE against the worked examples of RFC 8033 §4, and the properties it states.

use alloc::collections::VecDeque;
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use tautline_base::Qdisc;
use tautline_testkit::Probe;

use super::controller::{Controller, Input, ONE};
use super::meter::Meter;
use super::*;
use crate::ledger::Ledger;
use crate::testing::Edit;

mod decisions;
mod estimator;
mod probability;
mod queue;
mod updates;

const ECT0: u8 = 2;
const CE: u8 = 3;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn near(value: f64, expected: f64, tolerance: f64) -> bool {
    (value - expected).abs() <= tolerance
}

/// An AQM that judges a standing queue with a constant probability.
struct Constant {
    aqm: Aqm,
    state: State,
}

impl Constant {
    fn new(params: Params, probability: f64) -> Self {
        let mut aqm = Aqm::new(Params {
            max_burst: Duration::ZERO,
            ..params
        })
        .expect("valid");
        let mut state = State::default();
        aqm.admit(&mut state, &mut Probe::new(0), Bytes::ZERO, Instant::ZERO);
        state.steady(
            probability,
            aqm.params().law.ticks_of(Duration::from_millis(15)),
        );
        Self { aqm, state }
    }

    fn judge(&mut self, tos: u8, len: u32) -> Verdict {
        let mut packet = Probe::new(0).tos(tos).sized(len);
        self.aqm
            .admit(&mut self.state, &mut packet, Bytes::mib(1), Instant::ZERO)
    }
}

fn config(pie: Params) -> Config {
    Config { limit: 1000, pie }
}

/// Fills a queue with more than it drains, one packet each `gap` microseconds against one each
/// millisecond; the times (ms) of drops.
fn overload(pie: Params, gap: u64, until: u64, tos: u8) -> (Vec<u64>, Pie<Probe>) {
    let (mut queue, mut drops) = (
        Pie::new(Config {
            limit: 100_000,
            pie,
        })
        .expect("valid"),
        Drops::new(),
    );
    let mut times = Vec::new();
    for micros in 0..until * 1000 {
        let now = Instant::from_micros(micros);
        if micros.is_multiple_of(gap) {
            queue.enqueue(Probe::new(0).tos(tos), now, &mut drops);
        }
        if micros.is_multiple_of(1000) {
            queue.dequeue(now, &mut drops);
        }
        times.extend(drops.drain().map(|_| micros / 1000));
    }
    (times, queue)
}

impl State {
    /// A probability and a delay in ticks, as if the last update had left them.
    fn steady(&mut self, probability: f64, delay: u64) {
        self.set(((probability * ONE as f64) as u64).min(16 * ONE), delay);
    }

    /// The sum of probabilities so far.
    fn accumulate(&mut self, sum: f64) {
        self.set_accumulated((sum * ONE as f64) as u64);
    }
}
