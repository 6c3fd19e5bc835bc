//! One FIFO under an AQM: reports and changes of `blue`, `cobalt`, `codel` and `pie`.

use alloc::vec::Vec;

use tautline_base::Item;
use tautline_qdisc::{AqmFifo, FifoAqm};

use crate::discipline::{Configured, configured};
use crate::report::{Report, Value};
use crate::words::Options;

/// An AQM whose state and counters reports show.
pub(super) trait Counters: FifoAqm<Config: Options + Clone> {
    /// The counters in `tc`'s names.
    fn counters<P>(fifo: &AqmFifo<P, Self>) -> Vec<(&'static str, Value)>;
}

impl<P: Item, A: Counters> Configured for AqmFifo<P, A> {
    configured!(A::Config, |fifo, config, _now, drops| fifo
        .reconfigure(config, drops));

    fn details(&self) -> Report {
        Report {
            counters: A::counters(self),
            ..Report::default()
        }
    }
}
