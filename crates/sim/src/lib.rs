//! Networks in virtual time: hosts, links, NICs and radio cells, where a seed determines a run.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod addresses;
pub mod app;
mod bulk_dequeue;
mod classify;
mod config_error;
pub mod dyn_rlc;
mod event_queue;
pub mod link;
pub mod medium;
pub mod network;
pub mod nic;
mod pattern;
mod probability;
pub mod record;
mod ring_limit;
pub mod schedule;
pub mod transfer;

pub use addresses::Family;
pub use app::{AppError, Application, Applications, BulkReceiver, BulkSender, Flow, Meter};
pub use config_error::ConfigError;
pub use dyn_rlc::DynRlc;
pub use event_queue::EventQueue;
pub use link::{Buffer, Impairments, Link, LinkConfig, LinkEvent, LinkEventKind, LinkNicConfig};
pub use network::{
    Endpoint, HostQdisc, Network, Node, PortId, PortSample, SimError, SimErrorKind, SimHost,
    topology,
};
pub use nic::{Coalesce, NicConfig, SimNic};
pub use pattern::{Check, Pattern};
pub use probability::Probability;
pub use record::{Capture, CaptureConfig, PacketTrace, Part, Record, Solo, Tap, TraceHash};
pub use ring_limit::RingLimit;
pub use schedule::{LineRate, Schedule, Trace, TraceError};
pub use transfer::{Outcome, Transfer, TransferError};
