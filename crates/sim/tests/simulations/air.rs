//! Shared by the experiments on radio media: stations around a base, a server behind it, flows of
//! all of them up and down.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{Algorithm, Config, Factory, PacingRatios};
use tautline_sim::app::{PingConfig, SinkConfig, UploadConfig};
use tautline_sim::medium::{Medium, Wifi};
use tautline_sim::topology::{Cable, Cell, HostNode, Topology};
use tautline_sim::{
    Applications, Buffer, Coalesce, Flow, LinkConfig, LinkNicConfig, Network, NicConfig, RingLimit,
    TraceHash,
};
use tautline_stack::{Pacing, TcpConfig, TsqLimit};

use crate::common::ms;

pub(crate) type AirNetwork = Network<'static, TraceHash>;

/// The same at each end of the air: qdiscs, limits and rings of stations and base.
#[derive(Clone)]
pub(crate) struct Ends {
    pub(crate) qdisc: &'static str,
    pub(crate) limit: RingLimit,
    pub(crate) ring: usize,
    pub(crate) ring_bytes: Bytes,
}

/// A scenario: the nodes, their queues, and the flows of each station.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) cell: Cell,
    pub(crate) ends: Ends,
    /// One way between the base and the server.
    pub(crate) delay: Duration,
    pub(crate) tcp: TcpConfig,
    /// Streams from each station, and to it.
    pub(crate) up: usize,
    pub(crate) down: usize,
    pub(crate) length: Duration,
}

/// Measurements after the first quarter of the time.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Payload of all streams up and down.
    pub(crate) up: Rate,
    pub(crate) down: Rate,
    /// Pings of the first station, sorted.
    pub(crate) pings: Vec<Duration>,
    pub(crate) hash: u64,
}

impl Seen {
    pub(crate) fn median(&self) -> Duration {
        self.pings[self.pings.len() / 2]
    }

    pub(crate) fn goodput(&self) -> Rate {
        Rate::bytes_per_sec(self.up.as_bytes_per_sec() + self.down.as_bytes_per_sec())
    }
}

/// `cubic`, unpaced as in Linux without `fq`, with this TSQ limit and pacing ratio.
pub(crate) fn cubic(tsq: TsqLimit, percent: u32) -> TcpConfig {
    let pacing = PacingRatios {
        avoidance: percent,
        ..PacingRatios::default()
    };
    TcpConfig {
        congestion: Factory::new(move |config| {
            Algorithm::CubicLinux.build(&Config { pacing, ..*config })
        }),
        pacing: Pacing::Off,
        tsq,
        backlog: 128,
        ..TcpConfig::default()
    }
}

impl Scene {
    fn topology(&self) -> Topology {
        let Ends {
            qdisc,
            limit,
            ring,
            ring_bytes,
        } = self.ends.clone();
        let nic = NicConfig {
            rate: Rate::MAX,
            tx_ring: ring,
            ring_bytes,
            coalesce: Coalesce::OFF,
            ..NicConfig::default()
        };
        let link_nic = LinkNicConfig {
            ring,
            ring_bytes,
            coalesce: Coalesce::OFF,
            limit,
            ..LinkNicConfig::default()
        };
        let queue = Buffer::Qdisc(qdisc.parse().expect("valid"));
        let down = LinkConfig {
            queue,
            nic: Some(link_nic),
            ..LinkConfig::default()
        };
        let wire = LinkConfig {
            rate: Rate::gbit(10),
            delay: self.delay,
            ..LinkConfig::default()
        };
        let fast = NicConfig {
            rate: Rate::gbit(10),
            ..NicConfig::default()
        };
        let station = |name: &String| HostNode {
            qdisc: qdisc.parse().expect("valid"),
            ring_limit: limit,
            nic: nic.clone(),
            ..HostNode::new(name.clone())
        };
        let server = HostNode {
            nic: fast,
            frames: 20_000,
            ..HostNode::new("server")
        };
        let cables = self
            .cell
            .stations
            .iter()
            .map(|name| Cable::new(["base", name], [down.clone(), LinkConfig::default()]));
        Topology {
            hosts: self
                .cell
                .stations
                .iter()
                .map(station)
                .chain([server])
                .collect(),
            routers: vec!["base".into()],
            cables: cables
                .chain([Cable::new(["base", "server"], [wire.clone(), wire])])
                .collect(),
            cells: vec![self.cell.clone()],
        }
    }

    /// The programs of host `number`; the server's is the last.
    fn programs(&self, topology: &Topology, number: usize) -> Applications<'static> {
        let mut programs = Applications::new(ms(50));
        let stations = self.cell.stations.len();
        let address = |number: usize| {
            IpAddr::V4(
                topology
                    .address(&topology.hosts[number].name)
                    .expect("it is there"),
            )
        };
        let (tcp, mut port) = (Arc::new(self.tcp.clone()), 5000);
        for station in 0..stations {
            for (name, count, from) in [("up", self.up, station), ("down", self.down, stations)] {
                let to = stations + station - from;
                for _ in 0..count {
                    port += 1;
                    let flow = Flow::numbered(name, port);
                    if number == to {
                        let sink = SinkConfig {
                            tcp: tcp.clone(),
                            ..SinkConfig::new(flow.clone(), port as u16)
                        };
                        programs.sink(sink).expect("valid");
                    } else if number == from {
                        let remote = SocketAddr::new(address(to), port as u16);
                        let upload = UploadConfig {
                            tcp: tcp.clone(),
                            ..UploadConfig::new(flow, remote)
                        };
                        programs.upload(upload).expect("valid");
                    }
                }
            }
        }
        if number == 0 {
            let ping = PingConfig {
                interval: ms(10),
                ..PingConfig::new("ping", address(stations))
            };
            programs.ping(ping).expect("valid");
        }
        programs
    }

    /// Runs it, and passes the network to `inspect` afterwards.
    #[track_caller]
    pub(crate) fn run_then<T>(&self, inspect: impl FnOnce(&AirNetwork) -> T) -> (Seen, T) {
        let topology = self.topology();
        let built = topology.build(3, TraceHash::new(), |_, number| {
            self.programs(&topology, number)
        });
        let mut network = built.unwrap_or_else(|error| panic!("{error}"));
        let (begin, end) = (Instant::ZERO + self.length / 4, Instant::ZERO + self.length);
        network
            .run_before(end)
            .unwrap_or_else(|stall| panic!("{stall}"));
        let total = |name: &str| {
            let flows = network
                .endpoints()
                .iter()
                .flat_map(|end| end.apps.meter().flows());
            let bytes = flows
                .filter(|measured| &*measured.flow.name == name)
                .map(|m| m.received_between(begin, end))
                .sum();
            Rate::from_amount(bytes, end - begin)
        };
        let meter = network.endpoint(0).apps.meter();
        let round_trips = &meter.flow(&"ping".into()).expect("it pings").round_trips;
        let mut pings: Vec<_> = round_trips
            .iter()
            .filter(|sample| sample.at >= begin)
            .map(|sample| sample.took)
            .collect();
        pings.sort_unstable();
        let hash = network.recorder().value();
        let seen = Seen {
            up: total("up"),
            down: total("down"),
            pings,
            hash,
        };
        let inspected = inspect(&network);
        (seen, inspected)
    }

    #[track_caller]
    pub(crate) fn run(&self) -> Seen {
        self.run_then(|_| ()).0
    }
}

pub(crate) fn wifi(network: &AirNetwork) -> &Wifi {
    match network.medium(0) {
        Some(Medium::Wifi(wifi)) => wifi,
        other => panic!("no Wi-Fi: {other:?}"),
    }
}
