//! `fq_codel`, and what it shares with `fq_pie`.

use tautline_base::{Bytes, Item};
use tautline_qdisc::FqCodel;
use tautline_qdisc::codel::Params;
use tautline_qdisc::fq_codel::{BacklogScope, Config, Emptied, QueueCounts};

use super::codel;
use crate::discipline::{Configured, configured};
use crate::report::{Report, Value};
use crate::words::Options;
use crate::words::parameter::*;

/// `linux` raises smaller quanta to this number of bytes, as Linux does. By default they are taken
/// as they are: at 64 bytes, a packet of 64 KiB takes 1024 turns.
pub(super) const LEAST_QUANTUM: Bytes = Bytes::new(256);

impl Parameters for Config {
    const KIND: &'static str = "fq_codel";

    fn complete(&mut self) {
        let Self {
            codel,
            backlog,
            emptied,
            ..
        } = Self::linux();
        if (self.codel.law, self.backlog, self.emptied) == (codel.law, backlog, emptied) {
            self.quantum = self.quantum.max(LEAST_QUANTUM);
        }
    }

    const PARAMETERS: &'static [Parameter<Self>] = &[
        unless_zero!("limit", PACKETS, limit),
        unless_zero!("flows", number::<u32>(), flows),
        unless_zero!("quantum", QUANTUM, quantum),
        value!("memory_limit", SIZE, memory_limit),
        unless_zero!("drop_batch", number::<u32>(), drop_batch),
        choice!(
            "backlog", backlog,
            "queue" => BacklogScope::Queue, "qdisc" => BacklogScope::Qdisc,
        ),
        choice!(
            "emptied", emptied,
            "waits" => Emptied::Waits, "forgotten" => Emptied::Forgotten,
        ),
        secret!("perturbation", INTEGER, perturbation),
        part!(codel: Params),
        preset!("linux", "(all as Linux does)", |config| {
            let linux = Self::linux();
            config.codel.law = linux.codel.law;
            (config.backlog, config.emptied) = (linux.backlog, linux.emptied);
        }),
    ];
}

impl<P: Item> Configured for FqCodel<P> {
    configured!(Config, |fq_codel, config, _now, drops| fq_codel
        .reconfigure(config, drops));

    fn details(&self) -> Report {
        let dropped = self.limit_drops();
        let mut counters = codel::counters(self.stats()).to_vec();
        counters.extend([
            ("drop_overlimit", Value::Count(dropped.overlimit)),
            ("drop_overmemory", Value::Count(dropped.overmemory)),
        ]);
        counters.extend(queue_counters(&self.queues()));
        Report {
            counters,
            ..Report::default()
        }
    }
}

/// The counters in `tc`'s names.
pub(super) fn queue_counters(queues: &QueueCounts) -> [(&'static str, Value); 4] {
    [
        ("memory_used", Value::Count(queues.memory_used.get())),
        ("new_flow_count", Value::Count(queues.new_flow_count)),
        ("new_flows_len", Value::Count(queues.new_flows_len as u64)),
        ("old_flows_len", Value::Count(queues.old_flows_len as u64)),
    ]
}
