//! [`Load`]: many flows through one device edge, an echo beside them, and the occupancy of its
//! queues: an [`Edge`].
//!
//! The edge is a router's NIC or the sender's own: what a host sends is subject to TSQ, what a
//! router forwards is not. The echo is from a host and to a host that hold nothing else back on its
//! way.

use std::time::Duration;

use tautline_base::{Instant, Rate};
use tautline_sim::app::{PingConfig, SinkConfig, UploadConfig};
use tautline_sim::topology::Topology;
use tautline_sim::{Applications, Flow, LinkConfig, PortSample};
use tautline_stack::TcpConfig;

use crate::common::ms;

const PORT: u16 = 5001;
/// Interval between samples of the edge.
const INTERVAL: Duration = Duration::from_micros(250);

/// Many flows from "sender" to "receiver".
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) seed: u64,
    pub(crate) topology: Topology,
    /// The port that is sampled.
    pub(crate) edge: &'static str,
    /// The requesting and the answering end.
    pub(crate) echo: [&'static str; 2],
    /// Time between echo requests.
    pub(crate) echo_every: Duration,
    /// Their TOS byte and that of the replies.
    pub(crate) echo_tos: u8,
    pub(crate) flows: u32,
    pub(crate) tcp: TcpConfig,
    /// Warm-up before the measurement, in whole milliseconds.
    pub(crate) warm_up: Duration,
    /// How long it is measured.
    pub(crate) duration: Duration,
}

/// Measurements after the warm-up.
pub(crate) struct Edge {
    /// Payload that the receiver read, over the time.
    pub(crate) goodput: Rate,
    /// Throughput of the edge: headers, retransmissions and echo messages too.
    pub(crate) carried: Rate,
    /// How long each echo took, sorted.
    delays: Vec<Duration>,
    /// Samples of the edge, in order of time.
    pub(crate) samples: Vec<PortSample>,
    /// Packets that the edge's qdisc dropped, from the beginning.
    pub(crate) drops: u64,
}

impl Load {
    /// The router's egress link to the receiver.
    pub(crate) fn egress(&mut self) -> &mut LinkConfig {
        let cable = self
            .topology
            .cables
            .iter_mut()
            .find(|cable| cable.between == ["router", "receiver"]);
        &mut cable.expect("there is a router").links[0]
    }

    fn apps(&self, host: &str) -> Applications<'static> {
        let address = |name| {
            self.topology
                .address(name)
                .expect("one of the hosts")
                .into()
        };
        let mut apps = Applications::new(ms(1)).strict();
        if host == "sender" {
            for number in 1..=self.flows {
                let upload = UploadConfig::new(
                    Flow::numbered("load", number),
                    (address("receiver"), PORT).into(),
                );
                apps.upload(UploadConfig {
                    tcp: self.tcp.clone().into(),
                    ..upload
                })
                .expect("room for it");
            }
        }
        if host == "receiver" {
            let sink = SinkConfig {
                tcp: self.tcp.clone().into(),
                ..SinkConfig::new("load", PORT)
            };
            apps.sink(sink).expect("room for it");
        }
        if host == self.echo[0] {
            let ping = PingConfig::new("echo", address(self.echo[1]));
            let (interval, tos) = (self.echo_every, self.echo_tos);
            apps.ping(PingConfig {
                interval,
                tos,
                ..ping
            })
            .expect("a time above zero");
        }
        apps
    }

    /// Runs it.
    #[track_caller]
    pub(crate) fn run(&self) -> Edge {
        let (begin, end) = (
            Instant::ZERO + self.warm_up,
            Instant::ZERO + self.warm_up + self.duration,
        );
        let network = self
            .topology
            .build(self.seed, (), |host, _| self.apps(&host.name));
        let mut network = network.unwrap_or_else(|error| panic!("{error}"));
        let edge = network.port(self.edge).expect("one of the ports");
        let (mut at, mut samples) = (begin, Vec::new());
        while at <= end {
            network
                .run_before(at)
                .unwrap_or_else(|stall| panic!("{stall}"));
            samples.push(network.sample(edge));
            at += INTERVAL;
        }
        let measured = |host, flow: &str| {
            let number = network.host_number(host).expect("one of the hosts");
            network
                .endpoint(number)
                .apps
                .meter()
                .flow(&flow.into())
                .expect("it runs there")
        };
        let rate = |bytes| Rate::from_amount(bytes, self.duration);
        let (first, last) = (
            samples.first().expect("one at least"),
            samples.last().expect("one at least"),
        );
        let echoes = measured(self.echo[0], "echo")
            .round_trips
            .iter()
            .filter(|sample| sample.at >= begin);
        let mut delays: Vec<_> = echoes.map(|sample| sample.took).collect();
        delays.sort_unstable();
        let expected = self.duration.as_nanos() / self.echo_every.as_nanos();
        let few = (delays.len() as u128) * 2 < expected;
        assert!(
            !few,
            "SEED={}: {} of {expected} echo messages came through",
            self.seed,
            delays.len()
        );
        Edge {
            goodput: rate(measured("receiver", "load").received_between(begin, end)),
            carried: rate(last.sent.saturating_sub(first.sent)),
            delays,
            drops: last.drops,
            samples,
        }
    }
}

impl Edge {
    /// The delay that `percent` of the echo messages did not exceed; zero when none came through.
    pub(crate) fn delay(&self, percent: usize) -> Duration {
        let last = self.delays.len().saturating_sub(1);
        self.delays
            .get(last * percent / 100)
            .copied()
            .unwrap_or_default()
    }

    /// Mean and standard deviation of `what` over all samples.
    pub(crate) fn mean(&self, what: impl Fn(&PortSample) -> f64) -> (f64, f64) {
        let count = self.samples.len() as f64;
        let mean = self.samples.iter().map(&what).sum::<f64>() / count;
        let variance = self
            .samples
            .iter()
            .map(|sample| (what(sample) - mean).powi(2))
            .sum::<f64>()
            / count;
        (mean, variance.sqrt())
    }

    /// Mean bytes in the ring.
    pub(crate) fn ring_bytes(&self) -> f64 {
        self.mean(|sample| sample.ring.bytes.get() as f64).0
    }

    /// Mean packets in the qdisc.
    pub(crate) fn backlog(&self) -> f64 {
        self.mean(|sample| sample.backlog.packets as f64).0
    }
}
