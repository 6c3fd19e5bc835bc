//! [`Hashes`]: which queue a packet belongs to; the ways of a set that a hash may use
//! (`net/sched/sch_cake.c` `cake_hash`).

use tautline_base::Item;

use super::flow::FLOWS;
use super::hosts::Isolation;
use crate::class::ClassId;
use crate::drr_plus::mix;

/// Queues of one set: a flow whose own queue is taken may use the others.
pub(super) const WAYS: usize = 8;

/// Sets of a table.
pub(super) const SETS: usize = FLOWS / WAYS;

/// The places of the set that `natural` is in, itself first, then upwards and around.
pub(super) fn ways(natural: usize) -> impl Iterator<Item = usize> + Clone {
    let (inner, outer) = (natural % WAYS, natural - natural % WAYS);
    (0..WAYS).map(move |way| outer + (inner + way) % WAYS)
}

/// Hashes of a packet under one instance's perturbation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hashes {
    /// Hash of the entity that has a queue: a flow, a host, or a pair of hosts.
    pub(super) flow: u32,
    /// Hashes of source and destination host.
    pub(super) hosts: [u32; 2],
}

impl Hashes {
    pub(super) fn of(packet: &impl Item, isolation: Isolation, perturbation: u64) -> Self {
        let mixed = |hash: u64| (mix(hash ^ perturbation) >> 32) as u32;
        let (source, destination) = packet.host_hashes();
        let hosts = [mixed(source.into()), mixed(destination.into())];
        // Where queues are not for flows, the flow has no part in the hash (a kernel bug let it
        // in).
        let flow = if isolation.by_flows() {
            mixed(packet.flow_hash())
        } else {
            of_hosts(0, hosts, isolation)
        };
        Self { flow, hosts }
    }

    /// These, but for what a filter has decided: the minor number names the queue, the major one
    /// the host at both ends, each counted from 1 up to 1024. A number beyond names nothing. Where
    /// queues are for hosts, the host that is named chooses among them.
    pub(super) fn decided(self, class: ClassId, isolation: Isolation) -> Self {
        let number = |named: u16| {
            u32::from(named)
                .checked_sub(1)
                .filter(|number| *number < FLOWS as u32)
        };
        let hosts = number(class.major).map_or(self.hosts, |host| [host; 2]);
        let named = number(class.minor);
        let flow = if isolation == Isolation::FlowBlind {
            self.flow
        } else if isolation.by_flows() {
            named.unwrap_or(self.flow)
        } else {
            of_hosts(named.unwrap_or(0), hosts, isolation)
        };
        Self { flow, hosts }
    }
}

/// The hash of a queue that is not for a flow: `queue`, and the hosts by which `isolation` tells queues
/// apart.
fn of_hosts(queue: u32, hosts: [u32; 2], isolation: Isolation) -> u32 {
    let by = isolation.by_hosts();
    let chosen = hosts.into_iter().zip(by).filter(|(_, by)| *by);
    chosen.fold(queue, |all, (hash, _)| all ^ hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_testkit::Probe;

    #[test]
    fn ways_begin_with_the_natural_one_and_stay_in_the_set() {
        assert!(ways(13).eq([13, 14, 15, 8, 9, 10, 11, 12]));
        assert!(ways(1023).eq([1023, 1016, 1017, 1018, 1019, 1020, 1021, 1022]));
    }

    /// Each mode separates queues by flow, source or destination.
    #[test]
    fn modes_look_at_what_they_say() {
        let queue = |isolation, flow, source, destination| {
            Hashes::of(
                &Probe::new(0).flow(flow).hosts(source, destination),
                isolation,
                7,
            )
            .flow
        };
        for isolation in Isolation::ALL {
            let base = queue(isolation, 1, 2, 3);
            let told = [
                queue(isolation, 9, 2, 3),
                queue(isolation, 1, 9, 3),
                queue(isolation, 1, 2, 9),
            ];
            let [source, destination] = isolation.by_hosts();
            let flows = isolation.by_flows();
            let expected = [flows, source && !flows, destination && !flows];
            assert_eq!(told.map(|hash| hash != base), expected, "{isolation}");
        }
    }

    #[test]
    fn a_filter_names_queue_and_host() {
        let hashes = Hashes {
            flow: 70_000,
            hosts: [80_000, 90_000],
        };
        let decided =
            |major, minor| hashes.decided(ClassId::new(major, minor), Isolation::TripleIsolate);
        assert_eq!(decided(0, 0), hashes);
        assert_eq!(decided(0, 1), Hashes { flow: 0, ..hashes });
        assert_eq!(
            decided(1, 1024),
            Hashes {
                flow: 1023,
                hosts: [0, 0]
            }
        );
        assert_eq!(
            decided(1024, 1025),
            Hashes {
                hosts: [1023, 1023],
                ..hashes
            }
        );
        assert_eq!(decided(1025, 0), hashes);
    }

    /// `cake_hash`: the queue of a host is that of the host which a filter names.
    #[test]
    fn a_host_that_is_named_has_the_queue_of_a_host() {
        for isolation in [Isolation::SrcHost, Isolation::DstHost, Isolation::Hosts] {
            let [one, other] =
                [2, 3].map(|host| Hashes::of(&Probe::new(0).hosts(host, 9 * host), isolation, 7));
            let named = ClassId::new(5, 0);
            let decided = one.decided(named, isolation);
            assert_eq!(decided, other.decided(named, isolation), "{isolation}");
            let queue = if isolation == Isolation::Hosts {
                4 ^ 4
            } else {
                4
            };
            assert_eq!(decided.flow, queue);
            assert_eq!(one.decided(ClassId::new(0, 0), isolation), one);
        }
        let one = Hashes::of(&Probe::new(0).hosts(2, 18), Isolation::FlowBlind, 7);
        let decided = one.decided(ClassId::new(5, 6), Isolation::FlowBlind);
        assert_eq!(decided.flow, one.flow, "one queue for all");
    }

    #[test]
    fn the_perturbation_moves_every_hash() {
        let packet = Probe::new(0).flow(1).hosts(2, 3);
        let [one, two] =
            [7, 8].map(|perturbation| Hashes::of(&packet, Isolation::TripleIsolate, perturbation));
        assert!(
            one.flow != two.flow && one.hosts[0] != two.hosts[0] && one.hosts[1] != two.hosts[1]
        );
    }
}
