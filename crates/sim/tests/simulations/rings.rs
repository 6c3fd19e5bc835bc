//! Shared by the experiments on device rings (paper 002, chapter 2): 1 Gbit/s behind a router or at
//! the host itself, a ring of chosen length, a limit or none, and a table of what was seen.
//!
//! Scaled down from the thesis' 30 s, five times, to 65 ms once, where nothing else is said: time
//! is virtual and nothing but the seed is random.

use std::fmt::Display;
use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_bql::{LimitKind, dql};
use tautline_sim::topology::{Cable, HostNode, Topology};
use tautline_sim::{LinkConfig, LinkNicConfig, NicConfig};
use tautline_stack::{TcpConfig, TsqLimit};

use crate::common::ms;
use crate::load::{Edge, Load};

/// AF42 in the upper six bits of the TOS byte: band 0.
pub(crate) const AF42: u8 = 36 << 2;

/// Where the experiment takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bottleneck {
    /// A router forwards from 10 Gbit/s, without TSQ, to 1 Gbit/s.
    Router,
    /// A host's own 1 Gbit/s, with TSQ. There is no TSO here.
    Host,
}

/// 80 flows from a router's back, 100 of the host's own: enough to fill what they find without TSQ
/// and with it. Through a ring of `ring` descriptors, behind `qdisc`.
pub(crate) fn load(place: Bottleneck, qdisc: &str, ring: usize, limit: LimitKind) -> Load {
    // Both directions together: 200 µs, a switch or two away.
    let wire = LinkConfig {
        delay: Duration::from_micros(100),
        ..LinkConfig::default()
    };
    let tcp = TcpConfig {
        send_buffer: Bytes::kib(64),
        backlog: 1024,
        ..TcpConfig::default()
    };
    let host = |name, nic| HostNode {
        nic,
        ..HostNode::new(name)
    };
    let load = Load {
        seed: 1,
        topology: Topology::default(),
        edge: "sender",
        // The sender answers, so that its own qdisc and ring are on the way.
        echo: ["receiver", "sender"],
        echo_every: ms(1),
        echo_tos: 0,
        flows: 100,
        tcp,
        warm_up: ms(40),
        duration: ms(25),
    };
    match place {
        Bottleneck::Router => {
            let nic = Some(LinkNicConfig {
                ring,
                limit: limit.into(),
                ..LinkNicConfig::default()
            });
            let queue = qdisc.parse().expect("valid");
            let egress = LinkConfig {
                rate: Rate::gbit(1),
                queue,
                nic,
                ..wire.clone()
            };
            let fast = NicConfig {
                rate: Rate::gbit(10),
                ..NicConfig::default()
            };
            let direct = || [LinkConfig::default(), LinkConfig::default()];
            let topology = Topology {
                hosts: ["sender", "receiver", "bystander"]
                    .map(|name| host(name, fast.clone()))
                    .into(),
                routers: vec!["router".into()],
                cables: vec![
                    Cable::new(["sender", "router"], direct()),
                    Cable::new(["router", "receiver"], [egress, wire]),
                    Cable::new(["bystander", "router"], direct()),
                ],
                ..Topology::default()
            };
            let (edge, echo) = ("router>receiver", ["bystander", "receiver"]);
            Load {
                topology,
                edge,
                echo,
                flows: 80,
                tcp: TcpConfig {
                    tsq: TsqLimit::Off,
                    ..load.tcp
                },
                ..load
            }
        }
        Bottleneck::Host => {
            let nic = NicConfig {
                tx_ring: ring,
                ..NicConfig::default()
            };
            let qdisc = qdisc.parse().expect("valid");
            let sender = HostNode {
                qdisc,
                ring_limit: limit.into(),
                ..host("sender", nic)
            };
            let topology = Topology {
                hosts: vec![sender, HostNode::new("receiver")],
                cables: vec![Cable::new(["sender", "receiver"], [wire.clone(), wire])],
                ..Topology::default()
            };
            Load { topology, ..load }
        }
    }
}

/// Dynamic queue limits as Linux has them.
pub(crate) const DQL: LimitKind = LimitKind::Dql(dql::Config {
    limit_min: Bytes::ZERO,
    limit_max: Bytes::new(1_879_048_192),
    hold_time: Duration::from_secs(1),
    stall_threshold: None,
});

/// A line of a table.
pub(crate) fn show(what: impl Display, edge: &Edge) {
    let (ring, packets) = (edge.ring_bytes(), edge.backlog());
    let (limit, spread) = edge.mean(|sample| sample.limit.get() as f64);
    let limit = if limit < 1e18 {
        format!("limit {limit:.0} ± {spread:.0} B")
    } else {
        "no limit".to_owned()
    };
    let delays = [5, 50, 95].map(|percent| edge.delay(percent).as_micros());
    println!(
        "{what:<28} {:>9} of {:>9}  echo p5/50/95 {delays:?} µs  ring {ring:>7.0} B  qdisc {packets:>4.0} packets  {limit}",
        edge.goodput.to_string(),
        edge.carried.to_string(),
    );
}

/// The runs of a table in their order: ring, limit, what was seen.
pub(crate) struct Table(Vec<(usize, bool, Edge)>);

impl Table {
    /// Runs and prints `make` for rings of 128, 256 and 512 without a limit, and for the shortest
    /// and the longest with one.
    pub(crate) fn of(title: &str, make: impl Fn(usize, LimitKind) -> Load) -> Self {
        println!("{title}");
        let runs = RINGS
            .map(|ring| (ring, false))
            .into_iter()
            .chain([RINGS[0], RINGS[2]].map(|ring| (ring, true)));
        let edges = runs.map(|(ring, limited)| {
            let edge = make(ring, if limited { DQL } else { LimitKind::Unlimited }).run();
            show(
                format_args!("  ring {ring} BQL {}", if limited { "on" } else { "off" }),
                &edge,
            );
            (ring, limited, edge)
        });
        Self(edges.collect())
    }

    /// Results without the limit, shortest ring first.
    pub(crate) fn off(&self) -> [&Edge; 3] {
        RINGS.map(|ring| self.find(ring, false))
    }

    /// Results with the limit, in the shortest ring and in the longest.
    pub(crate) fn on(&self) -> [&Edge; 2] {
        [RINGS[0], RINGS[2]].map(|ring| self.find(ring, true))
    }

    fn find(&self, ring: usize, limited: bool) -> &Edge {
        let found = self.0.iter().find(|(r, l, _)| (*r, *l) == (ring, limited));
        found.map(|(.., edge)| edge).expect("it was run")
    }

    /// The edge was never idle for lack of packets: all carry 970 Mbit/s, which with framing is the
    /// line rate.
    #[track_caller]
    pub(crate) fn keep_throughput(&self) {
        for (ring, limited, edge) in &self.0 {
            assert!(
                edge.carried >= Rate::mbit(970),
                "ring {ring}, limit {limited}: {}",
                edge.carried
            );
        }
    }

    /// Without the limit the ring is full, whatever its length, or holds all there is; with it, it
    /// holds the same little in a short ring and a long one.
    #[track_caller]
    pub(crate) fn rings_full_without_and_short_with(&self) {
        for (edge, length) in self.off().iter().zip(RINGS) {
            let packets = edge.mean(|sample| sample.ring.packets as f64).0;
            let all_in_it = edge.backlog() < 0.05 * packets;
            assert!(
                packets > 0.95 * length as f64 || all_in_it,
                "{packets} of {length}"
            );
        }
        let [short, long] = self.on().map(Edge::ring_bytes);
        assert!(
            (short - long).abs() < 0.1 * long && long < 20_000.0,
            "{short} and {long} bytes"
        );
    }

    /// The echo waits for what is in the ring, which is all of it without the limit, and at most 1
    /// ms with it.
    #[track_caller]
    pub(crate) fn only_the_ring_delays(&self) {
        for (edge, ring) in self.off().iter().zip([128, 256, 512]) {
            let (median, full) = (edge.delay(50), time_of(ring));
            assert!(
                median > full * 85 / 100 && median < full + ms(1),
                "ring {ring}: {median:?}, it holds {full:?}"
            );
        }
        let [short, long] = self.on().map(|edge| edge.delay(95));
        assert!(short.max(long) < ms(1), "{short:?} and {long:?}");
    }
}

const RINGS: [usize; 3] = [128, 256, 512];

/// Time of a ring of `packets` full frames takes at 1 Gbit/s.
fn time_of(packets: u32) -> Duration {
    Bytes::new(1514) * packets.into() / Rate::gbit(1)
}
