//! Random trees with random flows: whatever the network, what is sent arrives or is accounted for,
//! nothing is left over, and the same inputs give the same packets.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tautline_base::{Bytes, Rate};
use tautline_sim::app::{SinkConfig, UploadConfig};
use tautline_sim::topology::{Cable, HostNode, Topology};
use tautline_sim::{
    Applications, Coalesce, Impairments, LinkConfig, LinkNicConfig, Network, NicConfig,
    Probability, Schedule, TraceHash,
};

type Tree = Network<'static, TraceHash>;

/// A stream from a host to another: which, how many bytes.
#[derive(Clone, Debug)]
struct Stream {
    from: usize,
    to: usize,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Case {
    topology: Topology,
    streams: Vec<Stream>,
    seed: u64,
}

/// One direction of a cable. At a host it is only a wire.
fn link(at_host: bool) -> impl Strategy<Value = LinkConfig> {
    let queue = prop_oneof![
        Just("pfifo limit 20"),
        Just("fq_codel"),
        Just("codel limit 50"),
        Just("pie"),
        Just("red limit 60000 avpkt 1000")
    ];
    let nic = prop::option::of((1..40_usize, 1..9_u32));
    (
        1..60_u64,
        0..20_000_u64,
        queue,
        any::<bool>(),
        nic,
        0..3_u32,
        any::<bool>(),
    )
        .prop_map(move |(mbit, delay, words, tail_drop, nic, loss, step)| {
            let mut config = LinkConfig {
                rate: Rate::mbit(mbit),
                delay: Duration::from_micros(delay),
                ..LinkConfig::default()
            };
            if step {
                config.schedule =
                    Schedule::Steps(vec![(Duration::from_millis(100), Rate::mbit(61 - mbit))]);
            }
            if loss == 0 {
                let loss = Probability::percent(1.0).expect("a percentage");
                config.impair = Impairments {
                    loss,
                    duplicate: loss,
                    reorder: loss,
                    ..Impairments::default()
                };
            }
            if !at_host {
                if !tail_drop {
                    config.queue = words.parse().expect("words of a discipline");
                }
                let coalesce = |frames| Coalesce {
                    frames,
                    time: Duration::from_micros(50),
                };
                config.nic = nic.map(|(ring, frames)| LinkNicConfig {
                    ring,
                    coalesce: coalesce(frames),
                    ..LinkNicConfig::default()
                });
            }
            config
        })
}

/// Routers that each hang on an earlier one, hosts on any of them.
fn topology() -> impl Strategy<Value = Topology> {
    let host = (any::<Index>(), link(true), link(false), 1..30_usize);
    let router = (any::<Index>(), link(false), link(false));
    (
        prop::collection::vec(router, 0..4),
        prop::collection::vec(host, 2..6),
    )
        .prop_map(|(others, ends)| {
            let mut topology = Topology {
                routers: vec!["r0".into()],
                ..Topology::default()
            };
            for (above, up, down) in others {
                let (name, above) = (
                    format!("r{}", topology.routers.len()),
                    above.get(&topology.routers).clone(),
                );
                topology
                    .cables
                    .push(Cable::new([&name, &above], [up, down]));
                topology.routers.push(name);
            }
            for (router, up, down, tx_ring) in ends {
                let name = format!("h{}", topology.hosts.len());
                let router = &topology.routers[router.index(topology.routers.len())];
                topology
                    .cables
                    .push(Cable::new([&name, router], [up, down]));
                let nic = NicConfig {
                    tx_ring,
                    ..NicConfig::default()
                };
                topology.hosts.push(HostNode {
                    nic,
                    frames: 512,
                    ..HostNode::new(name)
                });
            }
            topology
        })
}

fn case() -> impl Strategy<Value = Case> {
    let stream = (any::<Index>(), any::<Index>(), 1..60_000_u64);
    (
        topology(),
        prop::collection::vec(stream, 1..5),
        any::<u64>(),
    )
        .prop_map(|(topology, streams, seed)| {
            let hosts = topology.hosts.len();
            let stream = |(from, to, bytes): (Index, Index, u64)| {
                let from = from.index(hosts);
                // Any other than itself.
                Stream {
                    from,
                    to: (from + 1 + to.index(hosts - 1)) % hosts,
                    bytes,
                }
            };
            Case {
                streams: streams.into_iter().map(stream).collect(),
                topology,
                seed,
            }
        })
}

/// Runs until nothing happens any more.
fn run(case: &Case) -> Tree {
    let Case {
        topology,
        streams,
        seed,
    } = case;
    let programs = |_: &HostNode, number| {
        let mut programs = Applications::new(Duration::from_secs(1)).strict();
        for (stream, port) in streams.iter().zip(5000..) {
            let name = format!("stream-{port}");
            if stream.to == number {
                programs
                    .sink(SinkConfig::new(name.as_str(), port))
                    .expect("room for it");
            }
            if stream.from == number {
                let server = topology
                    .address(&format!("h{}", stream.to))
                    .expect("it is there");
                let upload = UploadConfig::new(name.as_str(), SocketAddr::new(server.into(), port));
                programs
                    .upload(UploadConfig {
                        bytes: Some(Bytes::new(stream.bytes)),
                        ..upload
                    })
                    .expect("a message has bytes");
            }
        }
        programs
    };
    let mut network = topology
        .build(*seed, TraceHash::new(), programs)
        .unwrap_or_else(|error| panic!("{error}"));
    network
        .run_dry(Duration::from_secs(3600))
        .unwrap_or_else(|stall| panic!("{stall}"));
    network
}

fn received(network: &Tree, host: usize) -> u64 {
    network.endpoints()[host]
        .apps
        .meter()
        .flows()
        .iter()
        .map(|flow| flow.received.bytes)
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn everything_sent_arrives_or_is_accounted_for(case in case()) {
        let network = run(&case);
        prop_assert_eq!(network.outstanding(), 0);
        for number in 0..case.topology.hosts.len() {
            let expected: u64 = case.streams.iter().filter(|stream| stream.to == number).map(|stream| stream.bytes).sum();
            prop_assert_eq!(received(&network, number), expected, "h{}", number);
        }
        for (number, link) in network.links().iter().enumerate() {
            let stats = link.stats();
            prop_assert_eq!(stats.entered, stats.sent + stats.drops(), "link {}", number);
            prop_assert_eq!(stats.sent + stats.duplicated, stats.arrived + stats.lost, "link {}", number);
        }
        // Between a nic and its link nothing is lost.
        for (name, end) in case.topology.hosts.iter().map(|host| &host.name).zip(network.endpoints()) {
            let cable = case.topology.cables.iter().find(|cable| cable.between[0] == *name).expect("one each");
            let [up, down] = [(name, &cable.between[1]), (&cable.between[1], name)].map(|(from, to)| {
                *network.link(network.link_number(from, to).expect("a cable's")).stats()
            });
            let nic = end.host.port().ring().device().stats();
            prop_assert_eq!((nic.tx_frames, nic.rx_frames + nic.rx_dropped), (up.entered, down.arrived));
        }
    }

    #[test]
    fn the_same_inputs_give_the_same_packets(case in case()) {
        let hash = || {
            let network = run(&case);
            let recorder = network.recorder();
            (network.now(), recorder.events(), recorder.value())
        };
        prop_assert_eq!(hash(), hash());
    }
}
