//! [`Tcp`]: what a scenario says of TCP, for all flows or for one.

use serde::Deserialize;
use tautline_cc::Algorithm;
use tautline_stack::TsqLimit;

use crate::scenario::units::{FromWords, Size, Time};

/// TCP of a flow. Absent keys come from `[tcp]`, then from the profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Source of all defaults.
    pub profile: Option<Profile>,
    /// Congestion control, by name.
    pub congestion: Option<FromWords<Algorithm>>,
    /// TCP Small Queues: limit below the socket.
    pub tsq: Option<FromWords<TsqLimit>>,
    /// The component that paces departures.
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
    /// Initial size of the receive buffer. Default 64 KiB.
    pub receive_start: Option<Size>,
    /// Nagle's algorithm. Default on.
    pub nagle: Option<bool>,
    /// Longest an acknowledgment is held back. Default 40 ms.
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

/// The component that paces departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacingWord {
    /// The connection's own pacer.
    Internal,
    /// The qdisc.
    Qdisc,
    /// Nobody.
    Off,
}

/// The congestion feedback to request and to accept: the values of `net.ipv4.tcp_ecn`, by name.
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
