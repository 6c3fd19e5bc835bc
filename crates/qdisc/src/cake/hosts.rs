//! [`Isolation`]: the unit of fairness; [`Hosts`]: number of bulk flows of each host
//! (`net/sched/sch_cake.c` `cake_hash`).

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use super::hash::{SETS, WAYS};

/// The entities that share the link fairly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Nothing: one queue.
    FlowBlind,
    /// Source hosts.
    SrcHost,
    /// Destination hosts.
    DstHost,
    /// Pairs of hosts.
    Hosts,
    /// Flows.
    Flows,
    /// Source hosts, and flows within each.
    DualSrcHost,
    /// Destination hosts, and flows within each.
    DualDstHost,
    /// Hosts at both ends, whichever has more flows, and flows within each. The default (Linux).
    #[default]
    TripleIsolate,
}

impl Isolation {
    /// Every mode, in the order of `tc`'s numbers.
    pub const ALL: [Self; 8] = [
        Self::FlowBlind,
        Self::SrcHost,
        Self::DstHost,
        Self::Hosts,
        Self::Flows,
        Self::DualSrcHost,
        Self::DualDstHost,
        Self::TripleIsolate,
    ];

    /// `tc`'s name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlowBlind => "flowblind",
            Self::SrcHost => "srchost",
            Self::DstHost => "dsthost",
            Self::Hosts => "hosts",
            Self::Flows => "flows",
            Self::DualSrcHost => "dual-srchost",
            Self::DualDstHost => "dual-dsthost",
            Self::TripleIsolate => "triple-isolate",
        }
    }

    /// Whether each queue is for a flow rather than a host.
    pub(super) const fn by_flows(self) -> bool {
        self as u8 & 4 != 0
    }

    /// Whether queues that are not for flows are chosen by source and by destination.
    pub(super) const fn by_hosts(self) -> [bool; 2] {
        [self as u8 & 1 != 0, self as u8 & 2 != 0]
    }

    /// Whether the quantum of a flow is divided by the number of bulk flows of its source and of
    /// its destination.
    pub(super) const fn divides(self) -> [bool; 2] {
        [self as u8 & 5 == 5, self as u8 & 6 == 6]
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Hosts on one side of the link, found by hash, and how many bulk flows each has.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    hosts: Box<[Host]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tag: u32,
    bulk_flows: u16,
}

impl Hosts {
    pub(super) fn new() -> Self {
        Self {
            hosts: vec![Host::default(); SETS * WAYS].into_boxed_slice(),
        }
    }

    /// The slot of the host with this hash: its own, else one without bulk flows, else one shared
    /// with another host.
    pub(super) fn place(&mut self, hash: u32) -> u16 {
        let natural = hash as usize % self.hosts.len();
        let mut ways = super::hash::ways(natural);
        let own = ways.clone().find(|&way| self.hosts[way].tag == hash);
        let place = own
            .or_else(|| ways.find(|&way| self.hosts[way].bulk_flows == 0))
            .unwrap_or(natural);
        self.hosts[place].tag = hash;
        u16::try_from(place).expect("a table of 1024")
    }

    /// The hash of the host in this slot.
    pub(super) fn hash_of(&self, place: u16) -> u32 {
        self.hosts[usize::from(place)].tag
    }

    /// Bulk flows of a host.
    pub(super) fn bulk_flows(&self, place: u16) -> u16 {
        self.hosts[usize::from(place)].bulk_flows
    }

    /// Bulk flows of all hosts together.
    #[cfg(test)]
    pub(super) fn all_bulk_flows(&self) -> usize {
        self.hosts
            .iter()
            .map(|host| usize::from(host.bulk_flows))
            .sum()
    }

    /// A flow of the host became a bulk flow.
    pub(super) fn add(&mut self, place: u16) {
        self.hosts[usize::from(place)].bulk_flows += 1;
    }

    /// A bulk flow of the host ceased to be one.
    pub(super) fn remove(&mut self, place: u16) {
        let count = &mut self.hosts[usize::from(place)].bulk_flows;
        *count = count
            .checked_sub(1)
            .expect("only bulk flows are counted, once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_those_of_tc() {
        for (mode, flows, hosts, divides) in [
            (Isolation::FlowBlind, false, [false, false], [false, false]),
            (Isolation::SrcHost, false, [true, false], [false, false]),
            (Isolation::DstHost, false, [false, true], [false, false]),
            (Isolation::Hosts, false, [true, true], [false, false]),
            (Isolation::Flows, true, [false, false], [false, false]),
            (Isolation::DualSrcHost, true, [true, false], [true, false]),
            (Isolation::DualDstHost, true, [false, true], [false, true]),
            (Isolation::TripleIsolate, true, [true, true], [true, true]),
        ] {
            assert_eq!(
                (mode.by_flows(), mode.by_hosts(), mode.divides()),
                (flows, hosts, divides),
                "{mode}"
            );
        }
    }

    /// Nine hosts of one set: eight have a place each, the ninth shares its natural one while all
    /// have bulk flows.
    #[test]
    fn hosts_share_a_place_only_when_the_set_is_full() {
        let mut hosts = Hosts::new();
        let hash = |host: u32| 1024 * host + 8 + 3;
        let places: std::vec::Vec<u16> = (0..8)
            .map(|host| {
                let place = hosts.place(hash(host));
                hosts.add(place);
                place
            })
            .collect();
        assert_eq!(places, [11, 12, 13, 14, 15, 8, 9, 10]);
        assert_eq!(hosts.place(hash(5)), 8, "found again");
        assert_eq!(hosts.place(hash(8)), 11, "shared");
        assert_eq!(
            hosts.place(hash(0)),
            11,
            "and the first host, whose tag is gone, shares it back"
        );
        hosts.remove(13);
        assert_eq!((hosts.bulk_flows(13), hosts.all_bulk_flows()), (0, 7));
        assert_eq!(hosts.place(hash(9)), 13);
    }
}
