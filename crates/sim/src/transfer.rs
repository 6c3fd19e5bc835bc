//! [`Transfer`]: the ready-made scenario. One host sends a stream to another over a link;
//! [`Outcome`] says how it went.
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
use tautline_qdisc::{Kind, QueueStats};
use tautline_stack::{Event, HostStats, TcpConfig, TcpInfo};

use crate::addresses::Family;
use crate::app::{App, AppError, BulkReceiver, BulkSender, HostCalls, Program};
use crate::config_error::ConfigError;
use crate::link::{LinkConfig, LinkStats};
use crate::network::topology::HostNode;
use crate::network::{HostQdisc, Network, Stall};
use crate::nic::{NicConfig, NicStats};
use crate::pattern::{Check, Pattern};
use crate::record::{Record, TraceHash};
use crate::ring_limit::RingLimit;

const PORT: u16 = 5001;

/// The sender's number in a [`Network`].
pub const SENDER: usize = 0;
/// The receiver's number in a [`Network`].
pub const RECEIVER: usize = 1;

/// The network of a transfer from a reader `S` into a closure `F`, recorded by a hash and an `R`.
pub type TransferNetwork<S, F, R> = Network<HostQdisc, (TraceHash, R), TransferApp<S, F>>;

/// One stream between two hosts.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Seeds everything random: accidents of the links, initial sequence numbers, hash keys, the
    /// data.
    pub seed: u64,
    /// Whose addresses the hosts use; they have those of both. Default IPv4.
    pub family: Family,
    /// Length of the stream. Default 1 MiB.
    pub bytes: u64,
    /// The link there and back. Default perfect wires.
    pub links: [LinkConfig; 2],
    /// The card of each host.
    pub nic: NicConfig,
    /// The discipline of each host. Default `fq_codel`.
    pub qdisc: Kind,
    /// The limit on the bytes in each host's ring. Default dynamic queue limits.
    pub ring_limit: RingLimit,
    /// Transmit frames of each host. Default 4096.
    pub frames: usize,
    /// The sender's TCP.
    pub sender: TcpConfig,
    /// The receiver's TCP.
    pub receiver: TcpConfig,
    /// When the receiving program begins to read. Default at once.
    pub reads_from: Instant,
    /// Longest the transfer may take, in virtual time. Default one hour.
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

/// How a transfer went. In arrays the sender comes first.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes the receiving program read.
    pub received: u64,
    /// They were the bytes sent. Always true for a stream that the caller supplied: compare it in
    /// its closure.
    pub content_equal: bool,
    /// Virtual time until both programs were done.
    pub duration: Duration,
    /// Payload over duration.
    pub goodput: Rate,
    /// The sending connection when all was acknowledged.
    pub sender: TcpInfo,
    /// Counters of the hosts.
    pub hosts: [HostStats; 2],
    /// Counters of the cards.
    pub nics: [NicStats; 2],
    /// Counters of the links there and back.
    pub links: [LinkStats; 2],
    /// Counters of the hosts' disciplines.
    pub queues: [QueueStats; 2],
    /// The limits on the bytes in the hosts' rings at the end.
    pub ring_limits: [Bytes; 2],
    /// Hash over every packet event.
    pub trace_hash: u64,
    /// How many packet events there were.
    pub events: u64,
    /// How often hosts were served, by reason.
    pub wakes: BTreeMap<Reason, u64>,
    /// Polls of both hosts.
    pub polls: u64,
    /// Frames that were not at rest after everything had come to its end. Anything but 0 is a leak.
    pub outstanding: usize,
    /// Sockets that were left after everything had come to its end.
    pub sockets: usize,
}

impl Outcome {
    /// How often hosts were served, for any reason.
    pub fn wakes_total(&self) -> u64 {
        self.wakes.values().sum()
    }

    /// Packets that both hosts wrote.
    pub fn packets(&self) -> u64 {
        self.hosts.iter().map(|host| host.births).sum()
    }
}

/// Why there is no outcome.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A parameter was refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The simulation did not come to its end.
    #[error(transparent)]
    Stall(#[from] Stall),
}

impl Transfer {
    /// Sends random data and checks what arrives.
    ///
    /// # Errors
    /// If a parameter is refused or the simulation does not come to its end.
    pub fn run(&self) -> Result<Outcome, TransferError> {
        self.run_watched(|_| {})
    }

    /// [`run`](Self::run), with a look at the network after every step.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watched(
        &self,
        mut watch: impl FnMut(&TransferNetwork<Pattern, &mut dyn FnMut(&[u8]), ()>),
    ) -> Result<Outcome, TransferError> {
        let data = || Pattern::new(Pcg32::seed_from_u64(self.seed), self.bytes);
        let mut check = Check::new(data());
        let mut sink = |bytes: &[u8]| check.see(bytes);
        let (outcome, ()) =
            self.run_with(data(), &mut sink as &mut dyn FnMut(&[u8]), (), &mut watch)?;
        Ok(Outcome {
            content_equal: check.is_equal(),
            ..outcome
        })
    }

    /// Sends all that `source` yields into `sink`, records with `recorder`, shows the network to
    /// `watch` after every step. `bytes` is not used.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with<S: Read, F: FnMut(&[u8]), R: Record>(
        &self,
        source: S,
        sink: F,
        recorder: R,
        mut watch: impl FnMut(&TransferNetwork<S, F, R>),
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

    /// The network before its first step, for runs that interfere.
    ///
    /// # Errors
    /// If a parameter is refused.
    pub fn network<S: Read, F: FnMut(&[u8]), R: Record>(
        &self,
        source: S,
        sink: F,
        recorder: R,
    ) -> Result<TransferNetwork<S, F, R>, ConfigError> {
        let node = |name| HostNode {
            qdisc: self.qdisc.clone().into(),
            ring_limit: self.ring_limit,
            nic: self.nic.clone(),
            frames: self.frames,
            ..HostNode::new(name)
        };
        let remote = SocketAddr::new(self.family.address(RECEIVER), PORT);
        let sender = BulkSender::new(remote, self.sender.clone(), source);
        let receiver =
            BulkReceiver::new(PORT, self.receiver.clone(), sink).reading_from(self.reads_from);
        Network::pair(
            self.seed,
            [node("sender"), node("receiver")],
            self.links.clone(),
            (TraceHash::new(), recorder),
            [TransferApp::Sender(sender), TransferApp::Receiver(receiver)],
        )
    }
}

fn outcome<S: Read, F: FnMut(&[u8]), R: Record>(
    network: &TransferNetwork<S, F, R>,
    duration: Duration,
) -> Outcome {
    let hosts = [SENDER, RECEIVER].map(|number| &network.end(number).host);
    let recorder = network.recorder();
    let (received, sender) = match (&network.end(RECEIVER).app, &network.end(SENDER).app) {
        (TransferApp::Receiver(receiver), TransferApp::Sender(sender)) => {
            (receiver.received(), sender.last_info())
        }
        _ => unreachable!("the sender is host 0, the receiver host 1"),
    };
    Outcome {
        received,
        content_equal: true,
        duration,
        goodput: Rate::from_amount(Bytes::new(received), duration),
        sender: sender
            .expect("a sender that is done has looked at its connection")
            .clone(),
        hosts: hosts.map(|host| *host.stats()),
        nics: hosts.map(|host| *host.port().ring().device().stats()),
        links: [SENDER, RECEIVER].map(|number| *network.link(number).stats()),
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

/// The program at either end of a transfer.
pub enum TransferApp<S, F> {
    /// On host 0.
    Sender(BulkSender<S>),
    /// On host 1.
    Receiver(BulkReceiver<F>),
}

impl<H: HostCalls, S: Read, F: FnMut(&[u8])> App<H> for TransferApp<S, F> {
    fn start(&mut self, host: &mut H, now: Instant) {
        match self {
            Self::Sender(app) => app.start(host, now),
            Self::Receiver(app) => app.start(host, now),
        }
    }

    fn on_event(&mut self, host: &mut H, event: Event, now: Instant) {
        match self {
            Self::Sender(app) => app.on_event(host, event, now),
            Self::Receiver(app) => app.on_event(host, event, now),
        }
    }

    fn on_call(&mut self, host: &mut H, now: Instant) {
        match self {
            Self::Sender(app) => app.on_call(host, now),
            Self::Receiver(app) => app.on_call(host, now),
        }
    }
}

impl<S, F> Program for TransferApp<S, F> {
    fn call_at(&self) -> Option<Instant> {
        match self {
            Self::Sender(app) => app.call_at(),
            Self::Receiver(app) => app.call_at(),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Sender(app) => app.is_done(),
            Self::Receiver(app) => app.is_done(),
        }
    }

    fn failure(&self) -> Option<&AppError> {
        match self {
            Self::Sender(app) => app.failure(),
            Self::Receiver(app) => app.failure(),
        }
    }
}
