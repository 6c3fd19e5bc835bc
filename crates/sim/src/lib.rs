//! Deterministic virtual time: NICs, links and hosts in a program of one thread, where the same
//! seed gives the same packets.
//!
//! Begin with [`Transfer`], which sends a stream from one host to another and says how it went:
//!
//! ```
//! let outcome = tautline_sim::Transfer { bytes: 100_000, ..Default::default() }.run()?;
//! assert!(outcome.content_equal);
//! println!("{} in {:?}, trace {:016x}", outcome.received, outcome.duration, outcome.trace_hash);
//! # Ok::<(), tautline_sim::TransferError>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`transfer`] | [`Transfer`], the ready-made scenario, and its [`Outcome`] |
//! | [`network`] | [`Network`]: hosts and routers, joined to a tree by links; jumps from event to event |
//! | [`topology`] | [`Topology`](topology::Topology): a network as data, by names |
//! | [`app`] | [`App`] and [`Program`], what runs on a host; [`Programs`], many applications on one; [`BulkSender`], [`BulkReceiver`] |
//! | [`link`] | [`Link`]: rate, delay, queue, accidents; with a card, a router's way out |
//! | [`medium`] | [`Medium`](medium::Medium): shared air, Wi-Fi or LTE, which says when the cards on it send |
//! | [`dyn_rlc`] | [`DynRlc`]: a limit with a delay target, experimental |
//! | `ring_limit` | [`RingLimit`]: which limit stands in front of a ring |
//! | [`schedule`] | [`Schedule`]: rates that change, in steps or as a mahimahi [`Trace`] says |
//! | [`nic`] | [`SimNic`]: rings, line rate, interrupt moderation |
//! | [`record`] | [`Record`]: hash, per-packet trace, pcapng of every packet event |
//! | `event_queue` | [`EventQueue`]: what happens when |
//! | `addresses`, `chance`, `pattern` | [`Family`]; [`Probability`]; reproducible data |
#![forbid(unsafe_code)]

mod addresses;
pub mod app;
mod chance;
mod classify;
mod config_error;
pub mod dyn_rlc;
mod event_queue;
pub mod link;
pub mod medium;
pub mod network;
pub mod nic;
mod pattern;
pub mod record;
mod ring_limit;
pub mod schedule;
pub mod transfer;

pub use addresses::Family;
pub use app::{App, AppError, BulkReceiver, BulkSender, Flow, Meter, Program, Programs};
pub use chance::Probability;
pub use config_error::ConfigError;
pub use dyn_rlc::DynRlc;
pub use event_queue::EventQueue;
pub use link::{
    Buffer, CardConfig, Impairments, Link, LinkConfig, LinkEvent, LinkTracer, LinkWhat,
};
pub use network::{
    End, HostQdisc, Look, Network, Node, PortId, SimHost, Stall, StallKind, topology,
};
pub use nic::{Coalesce, NicConfig, SimNic};
pub use pattern::{Check, Pattern};
pub use record::{Capture, CaptureConfig, PacketTrace, Record, Solo, Tap, TraceHash};
pub use ring_limit::RingLimit;
pub use schedule::{Schedule, Trace, TraceError};
pub use transfer::{Outcome, Transfer, TransferError};
