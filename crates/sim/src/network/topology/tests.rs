//! Tests of topologies: what is built, what is refused, and that everything sent arrives or is
//! accounted for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Bytes, Device, Instant, Rate};
use tautline_stack::TcpConfig;

use super::{Cable, Cell, HostNode, Topology, TopologyError};
use crate::app::{SinkConfig, UploadConfig};
use crate::link::LinkStats;
use crate::medium::{LteConfig, Medium, WifiConfig};
use crate::{
    Applications, Flow, Impairments, LinkConfig, LinkNicConfig, Network, PortId, Probability,
    Record, TraceHash,
};

const PORT: u16 = 5001;

fn wire(mbit: u64, delay_us: u64) -> LinkConfig {
    LinkConfig {
        rate: Rate::mbit(mbit),
        delay: Duration::from_micros(delay_us),
        ..LinkConfig::default()
    }
}

/// A –100 Mbit/s, 0.1 ms– B –10 Mbit/s, 5 ms– C, B a router with a NIC (paper 002, §3.4).
fn dumbbell() -> Topology {
    let way_out = LinkConfig {
        nic: Some(LinkNicConfig::default()),
        ..wire(10, 5_000)
    };
    Topology {
        hosts: vec![HostNode::new("A"), HostNode::new("C")],
        routers: vec!["B".into()],
        cables: vec![
            Cable::new(["A", "B"], [wire(100, 100), wire(100, 100)]),
            Cable::new(["B", "C"], [way_out, wire(10, 5_000)]),
        ],
        ..Topology::default()
    }
}

/// No applications.
fn idle(_: &HostNode, _: usize) -> Applications<'static> {
    Applications::new(Duration::from_secs(1))
}

/// `flows` streams from "A" to "C".
fn upload(topology: &Topology, flows: u32) -> Network<'static, TraceHash> {
    record_upload(topology, flows, TraceHash::new())
}

fn record_upload<R: Record>(topology: &Topology, flows: u32, recorder: R) -> Network<'static, R> {
    let server = SocketAddr::new(topology.address("C").expect("it is there").into(), PORT);
    let tcp = Arc::new(TcpConfig {
        send_buffer: Bytes::kib(256),
        ..TcpConfig::default()
    });
    let program = |node: &HostNode, number| {
        let mut programs = idle(node, number).strict();
        if node.name == "A" {
            for number in 1..=flows {
                let upload = UploadConfig::new(Flow::numbered("upload", number), server);
                programs
                    .upload(UploadConfig {
                        tcp: Arc::clone(&tcp),
                        ..upload
                    })
                    .expect("room for it");
            }
        } else {
            programs
                .sink(SinkConfig {
                    tcp: Arc::clone(&tcp),
                    ..SinkConfig::new("upload", PORT)
                })
                .expect("room for it");
        }
        programs
    };
    topology
        .build(1, recorder, program)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Where nobody records, frames carry neither payload nor checksum, unless they were doubled or
/// damaged: all comes out the same.
#[test]
fn whether_frames_are_written_whole_changes_nothing() {
    fn outcome<R: Record>(topology: &Topology, recorder: R) -> (u64, Vec<LinkStats>, u64) {
        let mut network = record_upload(topology, 2, recorder);
        let received = received(&mut network, Duration::from_secs(4));
        let nics = network
            .endpoints()
            .iter()
            .map(|end| end.host.port().ring().device());
        assert!(
            nics.map(Device::completes)
                .all(|unwritten| unwritten != R::ENABLED),
            "somebody reads them, or nobody"
        );
        let refused = network.endpoint(1).host.stats().bad_checksum;
        assert!(refused > 10, "damage is found: {refused}");
        (
            received,
            network.links().iter().map(|link| *link.stats()).collect(),
            refused,
        )
    }
    let mut topology = dumbbell();
    let percent = Probability::percent(1.0).expect("below 100");
    let impair = Impairments {
        corrupt: percent,
        duplicate: percent,
        loss: percent,
        ..Impairments::NONE
    };
    topology
        .cables
        .iter_mut()
        .for_each(|cable| cable.links[0].impair = impair);
    assert_eq!(outcome(&topology, TraceHash::new()), outcome(&topology, ()));
}

/// Bytes that "C" has read by `time`.
fn received<R: Record>(network: &mut Network<'static, R>, time: Duration) -> u64 {
    network.run_before(Instant::ZERO + time).expect("it runs");
    network.endpoint(1).apps.meter().flows()[0].received.bytes
}

#[test]
fn a_bottleneck_behind_a_router_is_filled() {
    let mut network = upload(&dumbbell(), 2);
    let goodput = received(&mut network, Duration::from_secs(5)) as f64 * 8e-6 / 5.0;
    assert!((9.0..9.6).contains(&goodput), "{goodput} Mbit/s");
    let ports: Vec<_> = network
        .ports()
        .map(|port| network.port_name(port))
        .collect();
    assert_eq!(ports, ["A", "C", "B>A", "B>C"]);
    assert_eq!(network.port("B>C"), Some(PortId::Link(2)));
    let [edge, wire, access] =
        ["B>C", "B>A", "A"].map(|name| network.sample(network.port(name).expect("it is there")));
    // Everything stands before the slow link, and what has left it is what C received, but for what
    // is on the wire.
    assert!(
        edge.backlog.packets > 10 && edge.ring.packets > 0,
        "{edge:?}"
    );
    assert!(
        wire.backlog.packets == 0 && access.ring.packets < 10,
        "{access:?}"
    );
    assert!(
        edge.sent.get() > 5 * 1_250_000 * 95 / 100 && edge.limit < Bytes::MAX,
        "{edge:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_hash() {
    let run = || {
        let mut network = upload(&dumbbell(), 3);
        network.run_before(Instant::from_secs(1)).expect("it runs");
        let recorder = network.recorder();
        (recorder.value(), recorder.events())
    };
    assert_eq!(run(), run());
}

#[test]
fn what_is_no_tree_is_refused_by_name() {
    let refusal = |change: &dyn Fn(&mut Topology)| {
        let mut topology = dumbbell();
        change(&mut topology);
        let network = topology.build(1, (), idle);
        network
            .map(|_| ())
            .expect_err("it should have been refused")
    };
    let node = |name: &str| name.to_string();
    assert_eq!(
        refusal(&|t| t.routers.push("A".into())),
        TopologyError::Twice { name: node("A") }
    );
    assert_eq!(
        refusal(&|t| t.routers.push("A>B".into())),
        TopologyError::Name { name: node("A>B") }
    );
    let error = refusal(&|t| t.cables[1].between[1] = node("D"));
    assert_eq!(
        error.to_string(),
        "a cable leads to `D`, which is not a node: there are `A`, `B`, `C`"
    );
    let error = refusal(&|t| drop(t.cables.pop()));
    assert_eq!(
        error,
        TopologyError::HostCables {
            host: node("C"),
            cables: 0
        }
    );
    let error = refusal(&|t| {
        t.cables
            .push(Cable::new(["A", "C"], [wire(1, 1), wire(1, 1)]))
    });
    assert_eq!(
        error,
        TopologyError::HostCables {
            host: node("A"),
            cables: 2
        }
    );
    let error = refusal(&|t| {
        t.cables
            .push(Cable::new(["B", "B"], [wire(1, 1), wire(1, 1)]))
    });
    assert_eq!(error, TopologyError::Loop { node: node("B") });
    let error = refusal(&|t| t.routers.push("E".into()));
    assert_eq!(
        error,
        TopologyError::Apart {
            from: node("A"),
            to: node("E")
        }
    );
    let error = refusal(&|t| t.cables[0].links[0].queue = "codel".parse().expect("words"));
    assert_eq!(error, TopologyError::HostLink { host: node("A") });
    let error = refusal(&|t| t.cables[1].links[0].rate = Rate::ZERO);
    assert_eq!(
        error.to_string(),
        "`B>C`: `rate` must be above 0, not 0.0Kbit"
    );
    let error = refusal(&|t| t.hosts[1].nic.tx_ring = 0);
    assert_eq!(
        error.to_string(),
        "`C`: `tx_ring` must be at least 1, not 0"
    );
}

/// A station over shared air to B, a wire from there to C.
fn cell() -> Topology {
    let way_out = LinkConfig {
        nic: Some(LinkNicConfig::default()),
        ..LinkConfig::default()
    };
    Topology {
        cables: vec![
            Cable::new(["A", "B"], [LinkConfig::default(), way_out]),
            Cable::new(["B", "C"], [wire(1000, 100), wire(1000, 100)]),
        ],
        cells: vec![Cell::wifi("B", &["A"], WifiConfig::n())],
        ..dumbbell()
    }
}

#[test]
fn a_cell_carries_what_its_cable_would() {
    let mut network = upload(&cell(), 2);
    let goodput = received(&mut network, Duration::from_millis(500)) as f64 * 8e-6 / 0.5;
    assert!((50.0..125.0).contains(&goodput), "{goodput} Mbit/s");
    let Some(Medium::Wifi(wifi)) = network.medium(0) else {
        panic!("it is there")
    };
    assert!(wifi.nic_stats(0).expect("A's").mean_size() > 1.5);
    assert!(
        wifi.nic_stats(1).expect("B's").transmissions() > 100,
        "acknowledgments"
    );
    assert!(network.medium(1).is_none());
}

#[test]
fn cells_that_cannot_be_are_refused() {
    let broken = |change: fn(&mut Topology)| {
        let mut topology = cell();
        change(&mut topology);
        match topology.build(1, (), idle) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it was built"),
        }
    };
    for (change, says) in [
        (
            (|t| t.cells[0].stations[0] = "D".into()) as fn(&mut Topology),
            "`D`, which is not a node",
        ),
        (
            |t| t.cells[0].stations[0] = "B".into(),
            "no cable from `B` to `B`",
        ),
        (
            |t| t.cells[0].stations.push("A".into()),
            "`A>B` is on a shared medium twice",
        ),
        (
            |t| t.cells[0].stations.push("C".into()),
            "`B>C` is on a shared medium, which takes frames from a NIC",
        ),
        (
            |t| {
                t.cells[0] = Cell::lte(
                    "B",
                    &["A"],
                    LteConfig {
                        resource_blocks: 0,
                        ..LteConfig::default()
                    },
                )
            },
            "`cell of B`: `resource_blocks` must be from 1 to 110, not 0",
        ),
    ] {
        let error = broken(change);
        assert!(error.contains(says), "{error}");
    }
}
