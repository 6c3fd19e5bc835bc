//! `fq_pie`.

use alloc::vec;

use tautline_base::Item;
use tautline_qdisc::FqPie;
use tautline_qdisc::fq_pie::{Config, Counters, Emptied};
use tautline_qdisc::pie::{Params, Stats};

use super::fq_codel::{LEAST_QUANTUM, queue_counters};
use crate::discipline::{Configured, configured};
use crate::report::{Report, Value};
use crate::words::Options;
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "fq_pie";

    fn complete(&mut self) {
        let Self { pie, emptied, .. } = Self::linux();
        if (self.pie.law, self.emptied) == (pie.law, emptied) {
            self.quantum = self.quantum.max(LEAST_QUANTUM);
        }
    }

    const PARAMETERS: &'static [Parameter<Self>] = &[
        unless_zero!("limit", PACKETS, limit),
        unless_zero!("flows", number::<u32>(), flows),
        unless_zero!("quantum", SIZE, quantum),
        unless_zero!("memory_limit", SIZE, memory_limit),
        choice!(
            "emptied", emptied,
            "waits" => Emptied::Waits, "forgotten" => Emptied::Forgotten,
        ),
        secret!("perturbation", INTEGER, perturbation),
        part!(pie: Params),
        preset!("linux", "(all as Linux does)", |config| {
            let seed = config.pie.seed;
            config.pie = Params {
                seed,
                ..Params::linux()
            };
            config.emptied = Emptied::Forgotten;
        }),
    ];
}

impl<P: Item> Configured for FqPie<P> {
    configured!(Config, |fq_pie, config, _now, drops| fq_pie
        .reconfigure(config, drops));

    fn details(&self) -> Report {
        let Stats {
            dropped, ecn_mark, ..
        } = *self.stats();
        let Counters {
            packets_in,
            overlimit,
            overmemory,
        } = *self.counters();
        let mut counters = vec![
            ("pkts_in", Value::Count(packets_in)),
            ("dropped", Value::Count(dropped + overlimit + overmemory)),
            ("overlimit", Value::Count(overlimit)),
            ("overmemory", Value::Count(overmemory)),
            ("ecn_mark", Value::Count(ecn_mark)),
        ];
        counters.extend(queue_counters(&self.queues()));
        Report {
            counters,
            ..Report::default()
        }
    }
}
