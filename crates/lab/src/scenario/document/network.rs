//! Hosts, routers and cables, and the [`Port`]s on them.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use tautline_bql::{LimitKind, push};
use tautline_sim::{Probability, RingLimit, dyn_rlc};
use tautline_tc::Tree;

use crate::scenario::units::{FromWords, RateValue, Size, Time};

/// A table that describes a port (qdisc and ring) beside other things; with `wire`, a cable's
/// direction too. The keys of several such tables stand side by side in the file, so they do here.
macro_rules! table {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident: $kind:ty,)* } port $(and $wire:ident)?) => {
        table! { @ $(#[$about])* $name { $($(#[$doc])* $key: $kind,)* } $($wire)? }

        impl $name {
            /// The keys of its port.
            pub fn port(&self) -> Port<'_> {
                let Self { ring, ring_bytes, restart, copy, framing, coalesce_frames, coalesce_time, late, access_categories, .. } = *self;
                let (qdisc, ring_limit) = (self.qdisc.as_ref(), self.ring_limit.as_ref());
                Port { qdisc, ring, ring_bytes, ring_limit, restart, copy, framing, coalesce_frames, coalesce_time, late, access_categories }
            }
        }
    };
    (@ $(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident: $kind:ty,)* } wire) => {
        table! { @ $(#[$about])* $name {
            $($(#[$doc])* $key: $kind,)*
            /// Rate. Default: no limit.
            rate: Option<RateValue>,
            /// Propagation delay. Default 0.
            delay: Option<Time>,
            /// Probability that a frame is lost. Default 0.
            loss: Option<FromWords<Probability>>,
            /// Probability of duplication. Default 0.
            duplicate: Option<FromWords<Probability>>,
            /// Probability of a flipped bit. Default 0.
            corrupt: Option<FromWords<Probability>>,
            /// Probability of a delay by `reorder_delay`. Default 0.
            reorder: Option<FromWords<Probability>>,
            /// Propagation delay. Default 1 ms.
            reorder_delay: Option<Time>,
        } }
    };
    (@ $(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* pub $key: $kind,)*
            /// Qdisc, in `tc`'s words.
            pub qdisc: Option<FromWords<Tree>>,
            /// Descriptors of the transmit ring.
            pub ring: Option<usize>,
            /// Capacity of the ring in bytes. Default no bound.
            pub ring_bytes: Option<Size>,
            /// The limit on the bytes in the ring: `dql`, `off`, `push`, `push:SIZE`,
            /// `dyn_rlc:TIME`, or a size.
            pub ring_limit: Option<RingLimitWord>,
            /// A ring that was full takes nothing until so many descriptors are free. Default 1.
            pub restart: Option<usize>,
            /// Time that the driver of a router's NIC needs to write one packet into the ring.
            /// Default 0.
            pub copy: Option<Time>,
            /// Framing overhead of each frame on the wire. Default 24 bytes at a host (Ethernet), 0
            /// at a router.
            pub framing: Option<Size>,
            /// Completions that cause an interrupt at once.
            pub coalesce_frames: Option<u32>,
            /// Longest a completion waits for more.
            pub coalesce_time: Option<Time>,
            /// Longest the driver takes to answer the interrupt.
            pub late: Option<Time>,
            /// A router's NIC has a ring for each of Wi-Fi's four access categories, and one with
            /// free space again wakes this part of the qdisc. Default: one ring.
            pub access_categories: Option<Wake>,
        }
    };
}

table! {
    /// A host: a stack, its qdisc and its NIC.
    Host {
        /// Its name.
        name: String,
        /// Line rate of the NIC. Default: the rate of its link.
        nic_rate: Option<RateValue>,
        /// Longest IP packet. Default 1500 bytes.
        mtu: Option<Size>,
        /// Transmit frames of the stack. Default 8192.
        frames: Option<usize>,
        /// The NIC cuts packets of several segments itself (TSO). Default false.
        tso: Option<bool>,
        /// Delay of the interrupt of a received frame, which serves those that follow it, too.
        /// Default 0.
        rx_delay: Option<Time>,
        /// Time that the NIC spends on each packet to send, TSO packets included, as an emulated one
        /// does. Default 0.
        tx_packet_time: Option<Time>,
        /// Time that the NIC spends on each received frame, in which it sends nothing. Default 0.
        rx_frame_time: Option<Time>,
        /// The qdisc is emptied at once into a list in front of it, as Linux does without byte queue
        /// limits. Default false.
        bulk_dequeue: Option<bool>,
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
    /// A cable. Its keys describe the way from the first end to the second; the port is the first
    /// end's, which must be a router.
    Link {
        /// The two ends.
        between: (String, String),
        /// Name for axes. Default: the names of its ends, joined by `-`.
        name: Option<String>,
        /// The way back, where it differs; absent keys are as in the first direction, except for
        /// the port.
        back: Option<Back>,
    } port and wire
}

table! {
    /// The way back over a cable.
    Back {} port and wire
}

/// Keys of a port: its qdisc and the ring behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Port<'a> {
    /// Qdisc.
    pub qdisc: Option<&'a FromWords<Tree>>,
    /// Descriptors of the ring.
    pub ring: Option<usize>,
    /// Capacity in bytes.
    pub ring_bytes: Option<Size>,
    /// Limit on the bytes in it.
    pub ring_limit: Option<&'a RingLimitWord>,
    /// Descriptors that must be free before a full one takes again.
    pub restart: Option<usize>,
    /// Time that the driver needs to write a packet into the ring.
    pub copy: Option<Time>,
    /// Framing overhead of each frame.
    pub framing: Option<Size>,
    /// Completions that cause an interrupt at once.
    pub coalesce_frames: Option<u32>,
    /// Longest a completion waits for more.
    pub coalesce_time: Option<Time>,
    /// Longest the driver takes to answer.
    pub late: Option<Time>,
    /// A ring for each access category.
    pub access_categories: Option<Wake>,
}

/// The part of a qdisc that a transmit queue with free space again wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wake {
    /// The queue's own child.
    Child,
    /// The root.
    Root,
}

/// Values of `ring_limit`: `dql`, `off`, `push`, `push:SIZE` (what should be in flight),
/// `dyn_rlc:TIME` (the target), or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimitWord(pub RingLimit);

impl FromStr for RingLimitWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text.split_once(':') {
            None if text == "off" => Some(LimitKind::Unlimited.into()),
            None if text == "dql" => Some(RingLimit::default()),
            None if text == "push" => Some(LimitKind::from(push::Config::default()).into()),
            None => text
                .parse()
                .ok()
                .map(|Size(bytes)| LimitKind::fixed(bytes).into()),
            Some(("push", size)) => {
                let desired = |Size(bytes)| push::Config {
                    desired: Some(bytes),
                    ..push::Config::default()
                };
                size.parse()
                    .ok()
                    .map(|size| LimitKind::from(desired(size)).into())
            }
            Some(("dyn_rlc", time)) => {
                let target = |Time(target)| dyn_rlc::Config {
                    target,
                    ..dyn_rlc::Config::default()
                };
                time.parse().ok().map(|time| target(time).into())
            }
            Some(_) => None,
        };
        let limit: RingLimit = limit.ok_or_else(|| {
            format!(
                "{text:?} is no limit of a ring: write dql, off, push, push:SIZE, dyn_rlc:TIME, or a size, with units, e.g. 3028b, \
                 push:22710b, dyn_rlc:20ms"
            )
        })?;
        // A value out of range is found here, where its place in the file is known.
        limit.build().map_err(|error| error.to_string())?;
        Ok(Self(limit))
    }
}

impl<'de> Deserialize<'de> for RingLimitWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FromWords::deserialize(deserializer).map(|FromWords(word)| word)
    }
}
