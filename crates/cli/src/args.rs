//! Command-line options of a stack on a device and of both ends of a transfer, and how a command
//! line is parsed.

mod values;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use tautline_bql::LimitKind;
use tautline_cc::Algorithm;
use tautline_stack::{BadCidr, Cidr, EcnMode, Keepalive, MtuProbing, Pacing, TcpConfig, TsqLimit};
use tautline_tc::Tree;

use crate::held_lease::HeldLease;

pub(crate) use values::address_and_port;
use values::some_seconds;
pub use values::{Misread, Rates, Size, Times, seconds};

/// Choice between this stack's sockets and the kernel's, in the role `R`.
#[derive(Subcommand, Debug)]
pub enum Over<R: Subcommand> {
    /// The kernel's
    Kernel {
        /// The role.
        #[command(subcommand)]
        role: R,
    },
    /// Our stack's
    Ours {
        /// Our stack.
        #[command(flatten)]
        stack: Box<StackArgs>,
        /// The role.
        #[command(subcommand)]
        role: R,
    },
}

/// Options of a stack on a device.
#[derive(Args, Clone, Debug)]
pub struct StackArgs {
    /// Network interface to use
    #[arg(long)]
    pub iface: String,
    /// Our own address and prefix, e.g. 10.7.0.1/24 or 2001:db8::1/64; repeatable. Must not be an
    /// address of the kernel. `dhcp`: an IPv4 address and its router from a DHCP server, under a client
    /// identifier that is not the kernel's, unless another host has it, which takes three seconds to find
    /// out
    #[arg(long, alias = "address", required = true)]
    pub ip: Vec<OwnAddress>,
    /// The lease behind `--ip dhcp`, once there is one.
    #[arg(skip)]
    pub(crate) held: Option<HeldLease>,
    /// Router to other networks; at most one per address family
    #[arg(long)]
    pub gateway: Vec<IpAddr>,
    /// Backend for network I/O
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceKind,
    /// Send and receive large packets of many TCP segments. TAP: the kernel splits and merges them
    /// (TSO and GRO). AF_XDP: software does, at the ring
    #[arg(long)]
    pub offload: bool,
    /// AF_XDP: where the XDP program runs
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// AF_XDP: whether the driver uses the packet buffers itself or the kernel copies
    #[arg(long, value_enum, default_value_t)]
    pub bind: BindKind,
    /// AF_XDP: serve this hardware queue only, instead of all
    #[arg(long)]
    pub queue: Option<u32>,
    /// AF_XDP, send and receive: serve each of this many hardware queues in a thread of its own, with its
    /// own host, qdisc and connection. It must be the number of queues that the interface has
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "queue")]
    pub queues: Option<u32>,
    /// AF_XDP: entries of each queue's receive ring, a power of two. Packets wait there while the program is
    /// not scheduled; each entry takes a chunk of 4 KiB
    #[arg(long, default_value_t = 4096)]
    pub receive_ring: u32,
    /// AF_XDP: entries of the transmit ring, a power of two. The driver has a ring of its own behind it
    #[arg(long, default_value_t = 2048)]
    pub transmit_ring: u32,
    /// Queueing discipline (qdisc), in tc's words: 'fq_codel limit 1000 target 5ms'; or a tree:
    /// 'tbf rate 1gbit burst 64kb latency 50ms; codel'
    #[arg(long, default_value = "fq_codel")]
    pub qdisc: Tree,
    /// Limit on the bytes in the device ring: dql, none, bytes:N, push
    #[arg(long, default_value_t)]
    pub limit: LimitKind,
    /// TCP.
    #[command(flatten)]
    pub tcp: TcpArgs,
    /// Poll without sleeping; uses a whole core
    #[arg(long)]
    pub busy_poll: bool,
    /// During traffic, coalesce received frames for this time, as ethtool -C rx-usecs
    #[arg(long, default_value = "20us")]
    pub gather: Times,
}

impl StackArgs {
    /// Our addresses, that of the lease included.
    pub fn own(&self) -> impl Iterator<Item = Cidr> + '_ {
        let fixed = self.ip.iter().filter_map(|own| match own {
            OwnAddress::Fixed(own) => Some(*own),
            OwnAddress::Dhcp => None,
        });
        let leased = self.held.as_ref().map(|held| held.lease.cidr());
        fixed.chain(leased)
    }

    /// Routers to other networks. A lease's counts if no other of its family is given.
    pub fn routers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let has_ipv4 = self.gateway.iter().any(IpAddr::is_ipv4);
        let leased = self.held.as_ref().and_then(|held| held.lease.router);
        let leased = leased.filter(|_| !has_ipv4).map(IpAddr::V4);
        self.gateway.iter().copied().chain(leased)
    }
}

/// Source of an address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnAddress {
    /// Named on the command line.
    Fixed(Cidr),
    /// A DHCP server.
    Dhcp,
}

impl FromStr for OwnAddress {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Self, BadCidr> {
        match text {
            "dhcp" => Ok(Self::Dhcp),
            text => text.parse().map(Self::Fixed),
        }
    }
}

/// Options of a stack on a device, or of none: then the sockets are the kernel's.
#[derive(Clone, Debug)]
pub struct OptionalStack(pub Option<StackArgs>);

impl Args for OptionalStack {
    fn augment_args(command: clap::Command) -> clap::Command {
        StackArgs::augment_args(command)
            .mut_arg("iface", |iface| iface.required(false).requires("ip"))
            .mut_arg("ip", |ip| ip.required(false).requires("iface"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OptionalStack {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let every = StackArgs::augment_args(clap::Command::new(""));
        let given = every.get_arguments().any(|argument| {
            let source = matches.value_source(argument.get_id().as_str());
            source == Some(ValueSource::CommandLine)
        });
        let stack = given.then(|| StackArgs::from_arg_matches(matches));
        Ok(Self(stack.transpose()?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Connections of a listener that may rest on a Fast Open cookie alone (what servers commonly set).
const FAST_OPEN_QUEUE: usize = 256;

/// Options of TCP.
#[derive(Args, Clone, Debug)]
pub struct TcpArgs {
    /// Congestion control: reno, cubic, cubic-search, cubic-linux, bbr, bbrn-aqm, bbrn-2023,
    /// bbrn-first, bbr3, bbr3-linux, dctcp, prague
    #[arg(long, default_value_t)]
    pub cc: Algorithm,
    /// TCP Small Queues: a time at the pacing rate (1ms), a profile (paper-001, linux-6.12, ...),
    /// or off
    #[arg(long, default_value_t)]
    pub tsq: TsqLimit,
    /// Component that paces departures
    #[arg(long, value_enum, default_value_t)]
    pub pacing: PacingKind,
    /// Explicit congestion notification, with the values of net.ipv4.tcp_ecn
    #[arg(long, value_enum, default_value_t)]
    pub ecn: EcnKind,
    /// Probe for the path MTU where routers do not report it, with the values of
    /// net.ipv4.tcp_mtu_probing
    #[arg(long, value_enum, default_value_t)]
    pub mtu_probing: ProbingKind,
    /// Send keepalive probes after this many idle seconds, and at this interval
    #[arg(long, value_parser = some_seconds)]
    pub keepalive: Option<Duration>,
    /// Give and use Fast Open cookies: data written before the handshake ends leaves with the SYN
    #[arg(long)]
    pub fast_open: bool,
    /// Retransmission timeouts of one segment before the connection is aborted
    #[arg(long, default_value_t = 15)]
    pub retries: u32,
    /// Retransmission timeouts of a SYN before the connection is aborted
    #[arg(long, default_value_t = 6)]
    pub syn_retries: u32,
}

impl TcpArgs {
    /// The configuration of a connection.
    pub fn config(&self) -> TcpConfig {
        TcpConfig {
            congestion: self.cc.factory(),
            pacing: self.pacing.into(),
            tsq: self.tsq,
            ecn: self.ecn.into(),
            mtu_probing: self.mtu_probing.into(),
            keepalive: self.keepalive.map(|idle| Keepalive {
                idle,
                interval: idle,
                ..Keepalive::default()
            }),
            fast_open: self.fast_open,
            fast_open_queue: if self.fast_open { FAST_OPEN_QUEUE } else { 0 },
            retries: self.retries,
            syn_retries: self.syn_retries,
            ..TcpConfig::default()
        }
    }
}

/// Options of a transfer: its output, and when it is given up.
#[derive(Args, Clone, Debug)]
pub struct TransferArgs {
    /// Abort when the peer has been silent for this many seconds
    #[arg(long, default_value = "30", value_parser = some_seconds)]
    pub silence: Duration,
    /// One JSON object per line instead of text
    #[arg(long)]
    pub json: bool,
    /// Also write the summary to this file, as JSON
    #[arg(long)]
    pub summary: Option<PathBuf>,
    /// Do not compute SHA-256
    #[arg(long)]
    pub no_digest: bool,
    /// Serve a live page at http://ADDRESS/, counters for Prometheus at /metrics; e.g. 127.0.0.1:9435
    #[arg(long, value_name = "ADDRESS", conflicts_with = "queues")]
    pub http: Option<SocketAddr>,
}

/// The kinds of device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DeviceKind {
    /// AF_XDP socket
    #[default]
    #[value(name = "af_xdp")]
    AfXdp,
    /// TAP interface
    Tap,
    /// Packet socket on the interface as it is, with packets of up to 64 KiB
    Packet,
}

/// Attach mode of the XDP program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// In the driver, or in the generic hook where the driver has none
    #[default]
    Auto,
    /// In the driver
    Native,
    /// In the generic hook
    Skb,
}

/// Whether packets are copied between program and driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BindKind {
    /// Without copies where driver and MTU permit it, else with
    #[default]
    Auto,
    /// Without copies, or not at all
    ZeroCopy,
    /// With copies, as every driver can
    Copy,
}

/// The component that paces departures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PacingKind {
    /// The connection's own pacer
    #[default]
    Internal,
    /// No pacing
    Off,
    /// The queueing discipline, by departure stamps
    Qdisc,
}

impl From<PacingKind> for Pacing {
    fn from(kind: PacingKind) -> Self {
        match kind {
            PacingKind::Internal => Self::Internal,
            PacingKind::Off => Self::Off,
            PacingKind::Qdisc => Self::Qdisc,
        }
    }
}

/// The congestion feedback to accept and to request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EcnKind {
    /// None (0)
    Off,
    /// Classic ECN, both ways (1)
    Request,
    /// Classic ECN if the peer requests it (2)
    #[default]
    Accept,
    /// Accurate ECN, both ways (3)
    Accecn,
    /// Accurate ECN if the peer requests it; requests classic ECN (4)
    AccecnRequestClassic,
    /// Accurate ECN if the peer requests it (5)
    AccecnAccept,
}

impl From<EcnKind> for EcnMode {
    fn from(kind: EcnKind) -> Self {
        match kind {
            EcnKind::Off => Self::Off,
            EcnKind::Request => Self::Request,
            EcnKind::Accept => Self::Accept,
            EcnKind::Accecn => Self::AccEcn,
            EcnKind::AccecnRequestClassic => Self::AccEcnRequestClassic,
            EcnKind::AccecnAccept => Self::AccEcnAccept,
        }
    }
}

/// When to probe for the path MTU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProbingKind {
    /// Never (0)
    #[default]
    Off,
    /// Once timeouts suggest that long packets vanish (1)
    BlackHole,
    /// From the beginning (2)
    Always,
}

impl From<ProbingKind> for MtuProbing {
    fn from(kind: ProbingKind) -> Self {
        match kind {
            ProbingKind::Off => Self::Off,
            ProbingKind::BlackHole => Self::BlackHole,
            ProbingKind::Always => Self::Always,
        }
    }
}

/// The command line. Ends the program with one line, and clap's status, if it is not understood.
pub fn parse<A: Parser>() -> A {
    parse_from(std::env::args_os())
}

/// Like [`parse`], of `words`; the first is the program's name.
pub fn parse_from<A: Parser>(words: impl Iterator<Item = OsString>) -> A {
    A::try_parse_from(words).unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit()
        }
        eprintln!("{}; --help lists the options", one_line(&error));
        std::process::exit(2)
    })
}

/// The cause of an error without the usage.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim);
    let cause: Vec<_> = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty())
        .collect();
    cause.join(" ")
}
