//! [`Network::pair`]: two hosts and the one cable between them.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::forwarding::Wiring;
use super::look::{HostQdisc, Names};
use super::topology::HostNode;
use super::{Network, SimHost};
use crate::app::App;
use crate::config_error::ConfigError;
use crate::link::{Link, LinkConfig};
use crate::record::Record;
use crate::schedule::Schedule;
use tautline_base::Rate;

impl<R: Record, A: App<SimHost<HostQdisc, R>>> Network<HostQdisc, R, A> {
    /// Joins two hosts, each with its program: `links[0]` leads from host 0 to host 1, `links[1]`
    /// back. Unlike those of a [`Topology`](super::Topology), they may have queues and cards, as if
    /// there were a router in the cable. Programs start at time zero. Everything random is seeded
    /// by `seed`.
    ///
    /// # Errors
    /// If a parameter is refused.
    pub fn pair(
        seed: u64,
        nodes: [HostNode; 2],
        links: [LinkConfig; 2],
        recorder: R,
        programs: [A; 2],
    ) -> Result<Self, ConfigError> {
        // Each part draws from a generator of its own, so a change in one does not shift the luck
        // of another.
        let mut seeds = Pcg32::seed_from_u64(seed);
        let [there, back] = links.map(|link| Link::new(link, Pcg32::from_rng(&mut seeds)));
        let names = Names {
            hosts: nodes.each_ref().map(|node| node.name.clone()).into(),
            routers: Vec::new(),
        };
        let mut programs = programs.into_iter();
        Self::join(
            seed,
            Wiring::pair(),
            names,
            vec![there?, back?],
            Vec::new(),
            recorder,
            |number, tap| {
                let program = programs.next().expect("one for each of two hosts");
                Ok((
                    nodes[number].build(
                        number,
                        (Rate::MAX, Schedule::Constant),
                        seeds.next_u64(),
                        tap,
                    )?,
                    program,
                ))
            },
        )
    }
}
