//! [`Load`]: many TCP flows through one device edge, echo messages beside them, and what stands where: the bench of the thesis' chapter
//! on dynamic queue limits (paper 002, §2.5).
//!
//! The edge is host 0's own card, or, if the link there has one ([`CardConfig`](crate::CardConfig)), the router's. Nothing here
//! knows the difference but whom the echo messages pass: what a host sends is subject to TSQ, what a router forwards is not.
//!
//! ```
//! use std::time::Duration;
//! use tautline_sim::{CardConfig, LinkConfig, Load};
//! use tautline_base::Rate;
//!
//! let there = LinkConfig { rate: Rate::mbit(100), card: Some(CardConfig::default()), ..LinkConfig::default() };
//! let load = Load { flows: 4, links: [there, LinkConfig::default()], duration: Duration::from_millis(50), ..Load::default() };
//! let edge = load.run()?;
//! assert!(edge.goodput > Rate::mbit(80));
//! # Ok::<(), tautline_sim::TransferError>(())
//! ```

use std::net::SocketAddrV4;
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant, Pool, Rate};
use tautline_bql::{Port, Ring};
use tautline_qdisc::{Kind, Ledger, Stats};
use tautline_stack::{Cidr, Host, HostConfig, TcpConfig};

use crate::config_error::ConfigError;
use crate::echo::{EchoRequest, Echoes};
use crate::flows::Flows;
use crate::link::{Link, LinkConfig};
use crate::network::{HostQdisc, Look, Network, PortId, SimHost};
use crate::nic::{NicConfig, SimNic};
use crate::record::Tap;
use crate::ring_limit::RingLimit;
use crate::transfer::{PORT, RECEIVER, SENDER, TransferError, address, mac};

type LoadNetwork = Network<HostQdisc, Echoes, Flows>;

/// Many flows from host 0 to host 1.
#[derive(Clone, Debug)]
pub struct Load {
    /// Seeds everything random.
    pub seed: u64,
    /// How many flows. Default 100.
    pub flows: usize,
    /// The link there and back. Default perfect wires.
    pub links: [LinkConfig; 2],
    /// The cards of the sender and the receiver.
    pub nics: [NicConfig; 2],
    /// The sender's discipline. Default `pfifo_fast`.
    pub qdisc: Kind,
    /// The limit on the bytes in the sender's ring. Default dynamic queue limits.
    pub ring_limit: RingLimit,
    /// Transmit frames of each host. Default 8192.
    pub frames: usize,
    /// The flows' TCP, at both ends. Default as ever, but with 64 KiB of send buffer.
    pub tcp: TcpConfig,
    /// What passes before anything is measured. Default 100 ms.
    pub warm_up: Duration,
    /// How long it is measured. Default 200 ms.
    pub duration: Duration,
    /// Time between looks at what stands where. Default 250 µs.
    pub look_every: Duration,
    /// Time between echo requests. Default 5 ms.
    pub echo_every: Duration,
    /// Their TOS byte, and that of a host's replies. Default 0.
    pub echo_tos: u8,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            seed: 1,
            flows: 100,
            links: Default::default(),
            nics: Default::default(),
            qdisc: Kind::PfifoFast(Default::default()),
            ring_limit: RingLimit::default(),
            frames: 8192,
            tcp: TcpConfig { send_buffer: Bytes::kib(64), backlog: 1024, ..TcpConfig::default() },
            warm_up: Duration::from_millis(100),
            duration: Duration::from_millis(200),
            look_every: Duration::from_micros(250),
            echo_every: Duration::from_millis(5),
            echo_tos: 0,
        }
    }
}

/// What was seen after the warm-up.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Payload that the receiving program read, over the time.
    pub goodput: Rate,
    /// What left the edge, over the time: headers, retransmissions and echo messages too.
    pub carried: Rate,
    /// How long each echo message took, sorted.
    pub delays: Vec<Duration>,
    /// What the edge held, in order of time.
    pub looks: Vec<Look>,
    /// Packets that the edge's discipline dropped, from the beginning.
    pub drops: u64,
}

impl Edge {
    /// The delay that `percent` of the echo messages did not exceed; zero when none came through.
    pub fn delay(&self, percent: usize) -> Duration {
        let last = self.delays.len().saturating_sub(1);
        self.delays.get(last * percent / 100).copied().unwrap_or_default()
    }

    /// Mean and standard deviation of `what` over all looks.
    pub fn mean(&self, what: impl Fn(&Look) -> f64) -> (f64, f64) {
        let count = self.looks.len().max(1) as f64;
        let mean = self.looks.iter().map(&what).sum::<f64>() / count;
        let variance = self.looks.iter().map(|look| (what(look) - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }
}

impl Load {
    /// Runs it.
    ///
    /// # Errors
    /// If a parameter is refused, a connection ends, or nothing happens any more.
    pub fn run(&self) -> Result<Edge, TransferError> {
        ConfigError::check(!self.look_every.is_zero(), "look_every", "0", "above 0")?;
        ConfigError::check(!self.echo_every.is_zero(), "echo_every", "0", "above 0")?;
        let mut network = self.network()?;
        let edge = match network.link(SENDER).ring() {
            Some(_) => PortId::Link(SENDER),
            None => PortId::Host(SENDER),
        };
        let (begin, end) = (Instant::ZERO + self.warm_up, Instant::ZERO + self.warm_up + self.duration);
        let (mut look_at, mut echo_at, mut echoes) = (begin, begin, 0);
        let (mut looks, mut before) = (Vec::new(), None);
        while look_at <= end {
            let pause = look_at.min(echo_at);
            pass(&mut network, pause)?;
            if look_at == pause {
                before.get_or_insert_with(|| passed(&network, edge));
                looks.push(network.look(edge));
                look_at += self.look_every;
            }
            if echo_at == pause {
                self.send_echo(&mut network, echoes, pause);
                echoes = echoes.wrapping_add(1);
                echo_at += self.echo_every;
            }
        }
        let (received_before, carried_before) = before.unwrap_or_default();
        let (received, carried) = passed(&network, edge);
        let drops = network.look(edge).drops;
        let (_, echoes) = network.into_parts();
        let mut delays = echoes.delays().to_vec();
        delays.sort_unstable();
        let goodput = Rate::from_amount(Bytes::new(received - received_before), self.duration);
        let carried = Rate::from_amount(Bytes::new(carried - carried_before), self.duration);
        Ok(Edge { goodput, carried, delays, looks, drops })
    }

    fn network(&self) -> Result<LoadNetwork, ConfigError> {
        let mut seeds = Pcg32::seed_from_u64(self.seed);
        let [there, back] = &self.links;
        let links =
            [Link::new(there.clone(), Pcg32::from_rng(&mut seeds))?, Link::new(back.clone(), Pcg32::from_rng(&mut seeds))?];
        let remote = SocketAddrV4::new(address(RECEIVER), PORT);
        let source = Flows::source(remote, self.flows, self.tcp.clone());
        let mut apps = [source, Flows::sink(PORT, self.tcp.clone())].into_iter();
        Network::new(self.seed, links, Default::default(), |number, tap| {
            let app = apps.next().expect("one program for each of two hosts");
            Ok((self.host(number, seeds.next_u64(), tap)?, app))
        })
    }

    fn host(&self, number: usize, seed: u64, tap: Tap<Echoes>) -> Result<SimHost<HostQdisc, Echoes>, ConfigError> {
        let qdisc = if number == SENDER { self.qdisc.clone() } else { Kind::PfifoFast(Default::default()) };
        let qdisc = Stats::new(Ledger::new(qdisc.build()?));
        let nic = SimNic::new(self.nics[number].clone())?;
        let limit = if number == SENDER { self.ring_limit } else { RingLimit::default() };
        let pool = Pool::heap(self.frames, self.nics[number].tso);
        let config = HostConfig::new(mac(number), seed).address(Cidr::new(address(number), 24));
        Ok(Host::new(config, Port::new(qdisc, Ring::new(nic, limit.build()?)), pool, tap))
    }

    /// Through a router, a request of the sender's; through a host, one that it must answer.
    fn send_echo(&self, network: &mut LoadNetwork, number: u16, now: Instant) {
        let from = if network.link(SENDER).ring().is_some() { SENDER } else { RECEIVER };
        let ends = [from, 1 - from];
        let request = EchoRequest { macs: ends.map(mac), addresses: ends.map(address), tos: self.echo_tos };
        network.inject(from, &request.frame(number), now);
    }
}

/// Everything happens that is due before `pause`.
fn pass(network: &mut LoadNetwork, pause: Instant) -> Result<(), TransferError> {
    while network.next_event().is_none_or(|at| at < pause) {
        network.step()?;
    }
    Ok(network.check()?)
}

/// Bytes that the receiving program has read, and bytes that have left the edge.
fn passed(network: &LoadNetwork, edge: PortId) -> (u64, u64) {
    (network.end(RECEIVER).app.received(), network.look(edge).sent.get())
}
