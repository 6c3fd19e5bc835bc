//! [`Transfer`]: the ready-made scenario. One host sends a stream to another over a link;
//! [`Outcome`] holds the results.
//!
//! ```
//! use std::time::Duration;
//! use tautline_base::Rate;
//! use tautline_sim::{LinkConfig, Transfer};
//!
//! let rtt = Duration::from_millis(20);
//! let there = LinkConfig::bottleneck(Rate::mbit(50), rtt / 2, rtt);
//! let back = LinkConfig { delay: rtt / 2, ..LinkConfig::default() };
//! let outcome = Transfer { bytes: 1 << 20, links: [there, back], ..Transfer::default() }.run()?;
//! assert!(outcome.content_equal && outcome.outstanding == 0);
//! # Ok::<(), tautline_sim::TransferError>(())
//! ```

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant, Rate, Reason};
use tautline_qdisc::QueueStats;
use tautline_stack::{HostStats, TcpConfig, TcpInfo};
use tautline_tc::Kind;

use crate::addresses::Family;
use crate::app::{Applications, BulkReceiver, BulkSender, When};
use crate::config_error::ConfigError;
use crate::link::{LinkConfig, LinkStats};
use crate::network::topology::HostNode;
use crate::network::{Network, SimError};
use crate::nic::{NicConfig, NicStats};
use crate::pattern::{Check, Pattern};
use crate::record::{Record, TraceHash};
use crate::ring_limit::RingLimit;

const PORT: u16 = 5001;

/// The sender's number in a [`Network`].
pub const SENDER: usize = 0;
/// The receiver's number in a [`Network`].
pub const RECEIVER: usize = 1;

/// The network of a transfer, recorded by a hash and an `R`.
pub type TransferNetwork<'a, R> = Network<'a, (TraceHash, R)>;

/// One stream between two hosts.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Seed of everything random: impairments, initial sequence numbers, hash keys, the data.
    pub seed: u64,
    /// Address family of the connection; the hosts have addresses of both. Default IPv4.
    pub family: Family,
    /// Length of the stream. Default 1 MiB.
    pub bytes: u64,
    /// The links there and back. Default perfect wires.
    pub links: [LinkConfig; 2],
    /// The NIC of each host.
    pub nic: NicConfig,
    /// The qdisc of each host. Default `fq_codel`.
    pub qdisc: Kind,
    /// The limit on the bytes in each host's ring. Default dynamic queue limits.
    pub ring_limit: RingLimit,
    /// Transmit frames of each host. Default 4096.
    pub frames: usize,
    /// The sender's TCP.
    pub sender: TcpConfig,
    /// The receiver's TCP.
    pub receiver: TcpConfig,
    /// Time at which the receiver begins to read. Default at once.
    pub reads_from: Instant,
    /// Limit of virtual time. Default one hour.
    pub limit: Duration,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            seed: 1,
            family: Family::default(),
            bytes: 1 << 20,
            links: Default::default(),
            nic: NicConfig::default(),
            qdisc: Kind::FqCodel(Default::default()),
            ring_limit: RingLimit::default(),
            frames: 4096,
            sender: TcpConfig::default(),
            receiver: TcpConfig::default(),
            reads_from: Instant::ZERO,
            limit: Duration::from_secs(3600),
        }
    }
}

/// Results of a transfer. In arrays the sender comes first.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes that the receiver read.
    pub received: u64,
    /// The bytes read are those sent. Always true for a stream that the caller supplied, which must
    /// compare in its own closure.
    pub content_equal: bool,
    /// Virtual time until both ends were done.
    pub duration: Duration,
    /// Payload over duration.
    pub goodput: Rate,
    /// The sending connection when it was closed.
    pub sender: TcpInfo,
    /// Counters of the hosts.
    pub hosts: [HostStats; 2],
    /// Counters of the NICs.
    pub nics: [NicStats; 2],
    /// Counters of the links there and back.
    pub links: [LinkStats; 2],
    /// Counters of the hosts' qdiscs.
    pub queues: [QueueStats; 2],
    /// The limits on the bytes in the hosts' rings at the end.
    pub ring_limits: [Bytes; 2],
    /// Hash over every packet event.
    pub trace_hash: u64,
    /// Number of packet events.
    pub events: u64,
    /// Number of host polls, by reason.
    pub wakes: BTreeMap<Reason, u64>,
    /// Polls of both hosts.
    pub polls: u64,
    /// Frames in flight after the last event. Anything but 0 is a leak.
    pub outstanding: usize,
    /// Sockets left after the last event.
    pub sockets: usize,
}

impl Outcome {
    /// Number of host polls, for any reason.
    pub fn wakes_total(&self) -> u64 {
        self.wakes.values().sum()
    }

    /// Packets that both hosts wrote.
    pub fn packets(&self) -> u64 {
        self.hosts.iter().map(|host| host.births).sum()
    }
}

/// Why a transfer has no outcome.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A parameter was refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The simulation could not finish.
    #[error(transparent)]
    Simulation(#[from] SimError),
}

impl Transfer {
    /// Sends random data and compares what arrives.
    ///
    /// # Errors
    /// If a parameter is refused or the simulation cannot finish.
    pub fn run(&self) -> Result<Outcome, TransferError> {
        self.run_watched(|_| {})
    }

    /// [`run`](Self::run) that shows the network to `watch` after every step.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watched(
        &self,
        watch: impl FnMut(&TransferNetwork<'_, ()>),
    ) -> Result<Outcome, TransferError> {
        let data = || Pattern::new(Pcg32::seed_from_u64(self.seed), self.bytes);
        let mut check = Check::new(data());
        let (outcome, ()) =
            self.run_with(data(), |bytes: &[u8]| check.compare(bytes), (), watch)?;
        Ok(Outcome {
            content_equal: check.is_equal(),
            ..outcome
        })
    }

    /// Sends everything that `source` yields into `sink`, records with `recorder`, and shows the
    /// network to `watch` after every step. `bytes` has no effect.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with<R: Record>(
        &self,
        source: impl Read,
        sink: impl FnMut(&[u8]),
        recorder: R,
        mut watch: impl FnMut(&TransferNetwork<'_, R>),
    ) -> Result<(Outcome, R), TransferError> {
        let mut network = self.network(source, sink, recorder)?;
        network.run_until(self.limit, |network| {
            watch(network);
            false
        })?;
        let duration = network.now() - Instant::ZERO;
        network.run_dry(self.limit)?;
        let outcome = outcome(&network, duration);
        let (_, (_, recorder)) = network.into_parts();
        Ok((outcome, recorder))
    }

    /// The network before its first step, for runs that change it on the way.
    ///
    /// # Errors
    /// If a parameter is refused.
    pub fn network<'a, R: Record>(
        &self,
        source: impl Read + 'a,
        sink: impl FnMut(&[u8]) + 'a,
        recorder: R,
    ) -> Result<TransferNetwork<'a, R>, ConfigError> {
        let node = |name| HostNode {
            qdisc: self.qdisc.clone().into(),
            ring_limit: self.ring_limit,
            nic: self.nic.clone(),
            frames: self.frames,
            ..HostNode::new(name)
        };
        let apps = || Applications::new(Duration::from_secs(1)).strict();
        let (mut sending, mut receiving) = (apps(), apps());
        let remote = SocketAddr::new(self.family.address(RECEIVER), PORT);
        let sender = BulkSender::new(remote, self.sender.clone(), source);
        sending.add("transfer".into(), When::default(), sender)?;
        let receiver = BulkReceiver::new(PORT, self.receiver.clone(), sink);
        let receiver = receiver.reading_from(self.reads_from);
        receiving.add("transfer".into(), When::default(), receiver)?;
        Network::pair(
            self.seed,
            [node("sender"), node("receiver")],
            self.links.clone(),
            (TraceHash::new(), recorder),
            [sending, receiving],
        )
    }
}

fn outcome<R: Record>(network: &TransferNetwork<'_, R>, duration: Duration) -> Outcome {
    let ends = [SENDER, RECEIVER];
    let hosts = ends.map(|number| &network.endpoint(number).host);
    let [sent, read] = ends.map(|number| &network.endpoint(number).apps.meter().flows()[0]);
    let (recorder, received) = (network.recorder(), read.received.bytes);
    let sender = sent.last_info.as_deref();
    Outcome {
        received,
        content_equal: true,
        duration,
        goodput: Rate::from_amount(Bytes::new(received), duration),
        sender: sender
            .expect("a sender that is done has closed its connection")
            .clone(),
        hosts: hosts.map(|host| host.stats()),
        nics: hosts.map(|host| *host.port().ring().device().stats()),
        links: ends.map(|number| *network.link(number).stats()),
        queues: hosts.map(|host| host.port().qdisc().stats().clone()),
        ring_limits: hosts.map(|host| host.port().ring().limit().limit()),
        trace_hash: recorder.0.value(),
        events: recorder.0.events(),
        wakes: network.wakes(),
        polls: network.polls(),
        outstanding: network.outstanding(),
        sockets: hosts.iter().map(|host| host.socket_count()).sum(),
    }
}
