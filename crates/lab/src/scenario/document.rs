//! [`Document`]: a scenario file as typed values: every key, its unit and its default. What is `None` was not written.
//!
//! `docs/lab.md` explains each key; the names here are those of the file.

mod air;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tautline_bql::{LimitKind, push};
use tautline_cc::Algorithm;
use tautline_qdisc::Tree;
use tautline_sim::{Probability, RingLimit, dyn_rlc};
use tautline_stack::TsqLimit;

use super::units::{Size, Speed, Time, Worded};
use crate::output::figure::Figure;
use crate::output::flent::FlentTest;

pub use air::{Guard, Lte, Standard, Width, Wifi};

/// A table that describes a port (discipline and ring) beside other things; with `wire`, a cable's direction too. The keys of
/// several such tables stand side by side in the file, so they do here.
macro_rules! table {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident: $kind:ty,)* } port $(and $wire:ident)?) => {
        table! { @ $(#[$about])* $name { $($(#[$doc])* $key: $kind,)* } $($wire)? }

        impl $name {
            /// The keys of its port.
            pub fn port(&self) -> Port<'_> {
                let Self { ring, ring_bytes, restart, copy, framing, coalesce_frames, coalesce_time, late, .. } = *self;
                let (qdisc, ring_limit) = (self.qdisc.as_ref(), self.ring_limit.as_ref());
                Port { qdisc, ring, ring_bytes, ring_limit, restart, copy, framing, coalesce_frames, coalesce_time, late }
            }
        }
    };
    (@ $(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident: $kind:ty,)* } wire) => {
        table! { @ $(#[$about])* $name {
            $($(#[$doc])* $key: $kind,)*
            /// How fast it is. Default: no limit.
            rate: Option<Speed>,
            /// Propagation delay. Default 0.
            delay: Option<Time>,
            /// Probability that a frame is lost. Default 0.
            loss: Option<Worded<Probability>>,
            /// That it arrives twice. Default 0.
            duplicate: Option<Worded<Probability>>,
            /// That a bit flips. Default 0.
            corrupt: Option<Worded<Probability>>,
            /// That it is held back for `reorder_delay`. Default 0.
            reorder: Option<Worded<Probability>>,
            /// How long. Default 1 ms.
            reorder_delay: Option<Time>,
        } }
    };
    (@ $(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* pub $key: $kind,)*
            /// Discipline, in `tc`'s words.
            pub qdisc: Option<Worded<Tree>>,
            /// Descriptors of the transmit ring.
            pub ring: Option<usize>,
            /// Bytes that the ring has room for. Default no bound.
            pub ring_bytes: Option<Size>,
            /// The limit on the bytes in the ring: `dql`, `off`, `push`, `push:SIZE`, `dyn_rlc:TIME`, or a size.
            pub ring_limit: Option<RingLimitWord>,
            /// A ring that was full takes nothing until so many descriptors are free. Default 1.
            pub restart: Option<usize>,
            /// What the driver of a router's card takes to write one packet into the ring. Default 0.
            pub copy: Option<Time>,
            /// What each frame takes on the wire beyond its bytes. Default 24 bytes at a host (Ethernet), 0 at a router.
            pub framing: Option<Size>,
            /// Completions that cause an interrupt at once.
            pub coalesce_frames: Option<u32>,
            /// Longest a completion waits for more.
            pub coalesce_time: Option<Time>,
            /// Longest the driver takes to answer the interrupt.
            pub late: Option<Time>,
        }
    };
}

/// A whole file, one cell's settings applied.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Row of the papers, e.g. `001-F4`.
    pub id: String,
    /// What is compared, in a line.
    pub title: String,
    /// Other rows, or figures of the papers, that this shows too.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The paper's number.
    pub paper: String,
    /// What the paper found, in our words, with its numbers.
    pub claim: String,
    /// Where we differ from the paper, and why.
    pub note: Option<String>,
    /// Whether it also runs on this machine's network.
    #[serde(default)]
    pub wire: bool,
    /// The row is shown by another command.
    pub elsewhere: Option<Elsewhere>,
    /// Names of the numbers that the table shows.
    #[serde(default)]
    pub table: Vec<String>,
    /// Times and repetitions.
    pub run: Option<Times>,
    /// Hosts.
    #[serde(default)]
    pub host: Vec<Host>,
    /// Routers.
    #[serde(default)]
    pub router: Vec<Router>,
    /// Cables.
    #[serde(default)]
    pub link: Vec<Link>,
    /// Wi-Fi cells.
    #[serde(default)]
    pub wifi: Vec<Wifi>,
    /// LTE cells.
    #[serde(default)]
    pub lte: Vec<Lte>,
    /// TCP of all flows.
    #[serde(default)]
    pub tcp: Tcp,
    /// Traffic.
    #[serde(default)]
    pub flow: Vec<Flow>,
    /// Variations: names, each with the names of its values.
    #[serde(default)]
    pub axis: Vec<Axis>,
    /// What the paper found, as expressions.
    #[serde(default)]
    pub shape: Vec<Shape>,
    /// Analyses of variance.
    #[serde(default)]
    pub anova: Vec<Variance>,
    /// What is drawn.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// Flent's test that the flows are.
    pub flent: Option<FlentTest>,
}

/// Why a row is not run by `lab`, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// What it needs: a Linux peer, wall-clock time.
    pub needs: String,
    /// The command.
    pub command: String,
}

/// Times and repetitions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// When the run ends.
    pub duration: Time,
    /// When measuring begins.
    pub warm_up: Time,
    /// Runs of each cell. Default 3.
    #[serde(default = "three")]
    pub repetitions: usize,
    /// Time between samples. Default 100 ms.
    #[serde(default = "tenth")]
    pub sample: Time,
}

fn three() -> usize {
    3
}

fn tenth() -> Time {
    Time(std::time::Duration::from_millis(100))
}

table! {
    /// A host: a stack, its discipline and its card.
    Host {
        /// Its name.
        name: String,
        /// Line rate of the card. Default: the rate of its link.
        nic_rate: Option<Speed>,
        /// Longest IP packet. Default 1500 bytes.
        mtu: Option<Size>,
        /// Transmit frames of the stack. Default 8192.
        frames: Option<usize>,
    } port
}

/// A router: it forwards.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Its name.
    pub name: String,
}

table! {
    /// A cable. Its keys describe the way from the first end to the second; the port is the first end's, which must be a router.
    Link {
        /// The two ends.
        between: (String, String),
        /// What axes call it. Default: the names of its ends, joined by `-`.
        name: Option<String>,
        /// The way back, where it differs; what is not said is as on the way there, but for the port.
        back: Option<Back>,
    } port and wire
}

table! {
    /// The way back over a cable.
    Back {} port and wire
}

/// Keys of a port: its discipline and the ring behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Port<'a> {
    /// Discipline.
    pub qdisc: Option<&'a Worded<Tree>>,
    /// Descriptors of the ring.
    pub ring: Option<usize>,
    /// Bytes that it has room for.
    pub ring_bytes: Option<Size>,
    /// Limit on the bytes in it.
    pub ring_limit: Option<&'a RingLimitWord>,
    /// Descriptors that must be free before a full one takes again.
    pub restart: Option<usize>,
    /// What the driver takes to write a packet into it.
    pub copy: Option<Time>,
    /// What each frame takes beyond its bytes.
    pub framing: Option<Size>,
    /// Completions that cause an interrupt at once.
    pub coalesce_frames: Option<u32>,
    /// Longest a completion waits for more.
    pub coalesce_time: Option<Time>,
    /// Longest the driver takes to answer.
    pub late: Option<Time>,
}

/// What `ring_limit` takes: `dql`, `off`, `push`, `push:SIZE` (what should be in flight), `dyn_rlc:TIME` (the target), or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimitWord(pub RingLimit);

impl FromStr for RingLimitWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text.split_once(':') {
            None if text == "off" => Some(LimitKind::Unlimited.into()),
            None if text == "dql" => Some(RingLimit::default()),
            None if text == "push" => Some(LimitKind::from(push::Config::default()).into()),
            None => text.parse().ok().map(|Size(bytes)| LimitKind::fixed(bytes).into()),
            Some(("push", size)) => {
                let desired = |Size(bytes)| push::Config { desired: Some(bytes), ..push::Config::default() };
                size.parse().ok().map(|size| LimitKind::from(desired(size)).into())
            }
            Some(("dyn_rlc", time)) => {
                let target = |Time(target)| dyn_rlc::Config { target, ..dyn_rlc::Config::default() };
                time.parse().ok().map(|time| target(time).into())
            }
            Some(_) => None,
        };
        limit.map(Self).ok_or_else(|| {
            format!(
                "{text:?} is no limit of a ring: write dql, off, push, push:SIZE, dyn_rlc:TIME, or a size, with units, e.g. 3028b, \
                 push:22710b, dyn_rlc:20ms"
            )
        })
    }
}

impl<'de> Deserialize<'de> for RingLimitWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Worded::deserialize(deserializer).map(|Worded(word)| word)
    }
}

/// TCP of a flow. What is not said comes from `[tcp]`, then from the profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// What everything else defaults to.
    pub profile: Option<Profile>,
    /// Congestion control, by name.
    pub congestion: Option<Worded<Algorithm>>,
    /// How much may wait below the socket.
    pub tsq: Option<Worded<TsqLimit>>,
    /// Who spaces departures.
    pub pacing: Option<PacingWord>,
    /// Pacing rate in percent of window per round trip, in congestion avoidance. Default 120.
    pub pacing_ca: Option<u32>,
    /// The same in slow start. Default 200.
    pub pacing_ss: Option<u32>,
    /// Explicit congestion notification.
    pub ecn: Option<EcnWord>,
    /// Most bytes written and not acknowledged. Default 4 MiB.
    pub send_buffer: Option<Size>,
    /// Most bytes received and not read. Default 6 MiB.
    pub receive_buffer: Option<Size>,
    /// Of them, what a connection starts with. Default 64 KiB.
    pub receive_start: Option<Size>,
    /// Nagle's algorithm. Default on.
    pub nagle: Option<bool>,
    /// Longest an acknowledgement is held back. Default 40 ms.
    pub delayed_ack: Option<Time>,
}

/// A set of TCP parameters by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Profile {
    /// This stack's own defaults: RFCs, and paper 001's algorithms 1 and 2.
    #[default]
    #[serde(rename = "tautline")]
    Tautline,
    /// Paper 001: its algorithms 1 and 2 in a sender as Linux has it.
    #[serde(rename = "paper-001")]
    Paper001,
    /// Linux 5.10.
    #[serde(rename = "linux-5.10")]
    Linux510,
    /// Linux 6.1.
    #[serde(rename = "linux-6.1")]
    Linux61,
    /// Linux 6.16.
    #[serde(rename = "linux-6.16")]
    Linux616,
}

/// Who spaces departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacingWord {
    /// The connection's own pacer.
    Internal,
    /// The discipline.
    Qdisc,
    /// Nobody.
    Off,
}

/// Which congestion feedback is asked for and agreed to: the values of `net.ipv4.tcp_ecn`, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnWord {
    /// None.
    Off,
    /// Classic, both ways.
    Request,
    /// Classic if the peer asks.
    Accept,
    /// AccECN, both ways.
    AccEcn,
}

/// Traffic of one kind from one host to another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: FlowKind,
    /// The host that starts it, and sends; or several, each of which does.
    pub from: Ends,
    /// The host that answers or receives, or several.
    pub to: Ends,
    /// How many of them. Default 1.
    pub count: Option<usize>,
    /// When it starts. Default 0.
    pub start: Option<Time>,
    /// Each starts at random up to so much later. Default 0.
    pub spread: Option<Time>,
    /// When it stops. Default: with the run.
    pub stop: Option<Time>,
    /// Time between requests of a ping, or from one page to the next.
    pub every: Option<Time>,
    /// Rate of UDP payload.
    pub rate: Option<Speed>,
    /// Payload of a datagram or of an echo request; bytes that a TCP flow sends before it ends.
    pub size: Option<Size>,
    /// Bytes of one write of a TCP flow. Default 64 KiB.
    pub message: Option<Size>,
    /// TOS byte of ping and UDP. Default 0.
    pub tos: Option<u8>,
    /// Mean time that an on-off source sends.
    pub on: Option<Time>,
    /// Mean time that it is silent.
    pub off: Option<Time>,
    /// What an on-off source is carried by. Default UDP.
    pub over: Option<Over>,
    /// Objects of a page.
    pub objects: Option<usize>,
    /// Connections that fetch them side by side. Default 6, as browsers have.
    pub connections: Option<usize>,
    /// Of a TCP stream: how long each segment took, from its birth in one host to its arrival at the other, is measured too. Costs time.
    #[serde(default)]
    pub one_way: bool,
    /// TCP of this flow.
    #[serde(default)]
    pub tcp: Tcp,
}

impl Flow {
    /// Every host that starts it with every host it leads to. Flows are numbered through these, `count` of each.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.from.0.iter().flat_map(|from| self.to.0.iter().map(move |to| (from.as_str(), to.as_str())))
    }
}

/// A host, or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Ends(#[serde(deserialize_with = "one_or_more")] pub Vec<String>);

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a host in quotes, or several in brackets")
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<Vec<String>, E> {
            Ok(vec![name.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Vec<String>, A::Error> {
            let mut all = Vec::new();
            while let Some(name) = names.next_element()? {
                all.push(name);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(Names)
}

/// What an on-off source is carried by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Datagrams.
    #[default]
    Udp,
    /// A TCP connection.
    Tcp,
}

/// What a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowKind {
    /// A TCP stream that always has something to send.
    Tcp,
    /// ICMP echo requests.
    Ping,
    /// Datagrams at a constant rate.
    Udp,
    /// Datagrams at a constant rate, at times.
    Onoff,
    /// Pages fetched by `from`, served by `to`.
    Web,
}

/// A variation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values.
    #[serde(default)]
    pub value: Vec<AxisValue>,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisValue {
    /// Its name.
    pub name: String,
    /// What it sets; applied to the document before this is read.
    #[serde(default)]
    pub set: BTreeMap<String, serde_json::Value>,
}

/// What the paper found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// In words.
    pub says: String,
    /// As an expression.
    pub check: String,
}

/// An analysis of variance.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variance {
    /// The number compared, one of each repetition; or a quantity, all values of which are.
    pub metric: String,
    /// The axis whose values are the groups.
    pub over: String,
    /// Probability of seeing a difference where there is none. Default 0.05.
    #[serde(default = "five_percent")]
    pub alpha: f64,
}

fn five_percent() -> f64 {
    0.05
}
