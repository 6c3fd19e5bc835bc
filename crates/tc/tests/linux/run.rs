//! [`Run`]: a cell of the matrix with what the kernel did, and what ours does with the same
//! packets.

use std::fs;
use std::iter::repeat_n;
use std::path::Path;

use tautline_base::Item;
use tautline_tc::{DynQdisc, Tree};

use crate::cells::{Input, Setup};
use crate::compare::Verdict;
use crate::frame::Frame;
use crate::record::{Departure, Record};
use crate::replay::{Nudges, replay};
use crate::trace::Arrival;

/// The clock of the simulated kernel advances in such steps, by one whenever it is read.
pub(crate) const CLOCK_STEP_NS: u64 = 256;

/// A cell of the matrix and what the kernel did.
pub(crate) struct Run {
    pub(crate) trace: Vec<Arrival>,
    pub(crate) record: Record,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) lost: f64,
    pub(crate) marked: f64,
    /// Milliseconds between arrival and departure.
    pub(crate) median: f64,
    pub(crate) p95: f64,
}

impl Run {
    /// Reads the recording made with the kernel's `seed`; the first lies in `folder`, the others in
    /// folders below.
    pub(crate) fn new(folder: &Path, setup: &Setup, input: Input, seed: u32) -> Option<Self> {
        let name = setup.cell(input) + ".out";
        let below = folder.join(format!("seed{seed}")).join(&name);
        let text = fs::read_to_string(below).or_else(|error| match seed {
            1 => fs::read_to_string(folder.join(&name)),
            _ => Err(error),
        });
        let mut record = Record::parse(&text.ok()?).expect("the driver writes what we read");
        let trace = input.trace(setup.millis());
        assert_eq!(
            trace.len(),
            record.arrivals.len(),
            "{name} belongs to another trace: run scripts/validate-linux again"
        );
        // netem may have corrupted the number of a packet.
        let end = trace
            .last()
            .map_or(0, |last| last.frame.id + last.frame.segments());
        record.departures.retain(|packet| packet.id < end);
        Some(Self { trace, record })
    }

    /// Our run with the packets at the times they came to the kernel.
    pub(crate) fn ours(&self, setup: &Setup, linux: bool, seed: u32) -> Vec<Departure> {
        self.nudged(setup, linux, seed, &Nudges::default())
    }

    /// The same with some ties decided otherwise.
    pub(crate) fn nudged(
        &self,
        setup: &Setup,
        linux: bool,
        seed: u32,
        nudges: &Nudges,
    ) -> Vec<Departure> {
        replay(
            ours(setup, linux, seed),
            &self.trace,
            &self.record.arrivals,
            self.record.start,
            CLOCK_STEP_NS,
            setup.slack_ns,
            nudges,
        )
    }

    /// The kernel's run beside another.
    pub(crate) fn verdict(&self, other: &[Departure]) -> Verdict {
        let tos: Vec<u8> = self
            .trace
            .iter()
            .flat_map(|arrival| repeat_n(arrival.frame.tos(), arrival.frame.segments().into()))
            .collect();
        Verdict::new(&tos, &self.record.departures, other)
    }

    /// The result of `departures`.
    pub(crate) fn figures(&self, departures: &[Departure]) -> Figures {
        let verdict = self.verdict(departures);
        // Of the packet that the segment is a part of.
        let arrived = |id: u16| {
            let place = self.trace.partition_point(|arrival| arrival.frame.id <= id);
            self.record.arrivals[place - 1] as i64
        };
        let mut sojourns: Vec<i64> = departures
            .iter()
            .map(|packet| packet.at - arrived(packet.id))
            .collect();
        sojourns.sort_unstable();
        let at = |rank: f64| {
            sojourns
                .get((sojourns.len() as f64 * rank) as usize)
                .map_or(0.0, |&ns| ns as f64 / 1e6)
        };
        Figures {
            lost: verdict.lost[1] as f64,
            marked: verdict.marked[1] as f64,
            median: at(0.5),
            p95: at(0.95),
        }
    }
}

/// Our side of a setup, as Linux or by default.
pub(crate) fn ours(setup: &Setup, linux: bool, seed: u32) -> Box<dyn DynQdisc<Frame>> {
    let script = setup.ours(linux, seed);
    let tree = script
        .parse::<Tree>()
        .unwrap_or_else(|error| panic!("{}: {error}\n{script}", setup.name));
    tree.with_hash_key(0)
        .build()
        .unwrap_or_else(|error| panic!("{}: {error}", setup.name))
}
