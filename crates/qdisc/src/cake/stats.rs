//! CAKE's counters (`net/sched/sch_cake.c` `cake_dump_stats`).

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::Rate;

use super::Cake;
use super::tin::{Delays, Tin};
use crate::discipline::Inspect;
use crate::report::{Report, Value};
use crate::words::Options;

impl<P> Inspect for Cake<P> {
    /// Parameters, memory, sizes, and a class for every tin, the least urgent first.
    fn report(&self) -> Report {
        let Self {
            config,
            memory,
            sizes,
            autorate,
            overlimits,
            ..
        } = self;
        // Linux begins the estimate with the bandwidth.
        let estimate = Some(autorate.peak())
            .filter(|peak| *peak > Rate::ZERO)
            .or_else(|| self.rate());
        let counters = vec![
            ("memory_used", Value::Size(memory.most)),
            ("memory_limit", Value::Size(memory.limit)),
            (
                "capacity_estimate",
                Value::Rate(estimate.unwrap_or(Rate::ZERO)),
            ),
            ("min_network_size", Value::Count(sizes.network.0.into())),
            ("max_network_size", Value::Count(sizes.network.1.into())),
            ("min_adj_size", Value::Count(sizes.adjusted.0.into())),
            ("max_adj_size", Value::Count(sizes.adjusted.1.into())),
            ("avg_hdr_offset", Value::Count(sizes.mean_offset().into())),
        ];
        let names = config.tins.names().iter().zip(config.tins.order());
        let classes = names
            .map(|(name, &tin)| self.tins[tin].report(name))
            .collect();
        let options = config.options();
        Report {
            kind: "cake",
            options,
            overlimits: *overlimits,
            counters,
            classes,
            ..Report::default()
        }
    }
}

impl Tin {
    fn report(&self, name: &'static str) -> Report {
        Report {
            kind: name,
            counters: self.values(),
            ..Report::default()
        }
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        let (counters, census, params) = (&self.counters, &self.census, self.aqm.params());
        let Delays {
            average,
            peak,
            base,
        } = counters.delays;
        let count = |count: usize| Value::Count(count as u64);
        let time = |nanos| Value::Time(Duration::from_nanos(nanos));
        vec![
            ("thresh", Value::Rate(self.threshold)),
            ("target", Value::Time(params.target)),
            ("interval", Value::Time(params.interval)),
            ("pk_delay", time(peak)),
            ("av_delay", time(average)),
            ("sp_delay", time(base)),
            ("backlog", Value::Size(self.bytes)),
            ("pkts", Value::Count(counters.packets)),
            ("bytes", Value::Count(counters.bytes.get())),
            ("way_inds", Value::Count(counters.way_hits)),
            ("way_miss", Value::Count(counters.way_misses)),
            ("way_cols", Value::Count(counters.way_collisions)),
            ("drops", Value::Count(counters.drops)),
            ("marks", Value::Count(counters.marks)),
            ("ack_drop", Value::Count(counters.ack_drops)),
            ("sp_flows", count(census.sparse + census.decaying)),
            ("bk_flows", count(census.bulk)),
            ("un_flows", count(counters.unresponsive)),
            ("max_len", Value::Count(counters.max_len.get())),
            ("quantum", Value::Count(self.flow_quantum.into())),
        ]
    }
}
