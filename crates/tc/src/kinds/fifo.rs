//! `fifo`, `pfifo`, `bfifo` and `pfifo_head_drop`.

use alloc::vec;

use tautline_base::Item;
use tautline_qdisc::fifo::{Bound, Config, Fifo, Victim};
use tautline_qdisc::{bfifo, pfifo, pfifo_head_drop};

use crate::discipline::{Configured, configured};
use crate::report::{Report, Value};
use crate::words::Options;
use crate::words::parameter::*;

impl<P: Item, B: Bound + Options + Clone> Configured for Fifo<P, B> {
    configured!(B, |fifo, config, _now, _drops| {
        fifo.reconfigure(config);
        Ok(())
    });

    fn details(&self) -> Report {
        Report {
            counters: vec![("drop_overlimit", Value::Count(self.drop_overlimit()))],
            ..Report::default()
        }
    }
}

impl Parameters for Config {
    const KIND: &'static str = "fifo";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        or_word!("packets", PACKETS, packets, "unlimited"),
        or_word!("bytes", SIZE, bytes, "unlimited"),
        choice!("drop", victim, "head" => Victim::Oldest, "tail" => Victim::Newcomer),
    ];
}

impl Parameters for pfifo::Config {
    const KIND: &'static str = "pfifo";
    const PARAMETERS: &'static [Parameter<Self>] = &[value!("limit", LIMIT, limit)];
}

impl Parameters for bfifo::Config {
    const KIND: &'static str = "bfifo";
    const PARAMETERS: &'static [Parameter<Self>] = &[value!("limit", SIZE, limit)];
}

impl Parameters for pfifo_head_drop::Config {
    const KIND: &'static str = "pfifo_head_drop";
    const PARAMETERS: &'static [Parameter<Self>] = &[value!("limit", LIMIT, limit)];
}
