//! TCP (RFC 9293): one connection, without any I/O.

mod ack_delay;
pub(crate) mod acknowledge;
pub(crate) mod blocked;
pub(crate) mod connection;
mod cwnd_validation;
pub(crate) mod deadlines;
mod duplicates;
pub(crate) mod ecn;
mod icmp_errors;
pub(crate) mod info;
pub(crate) mod input;
mod liveness;
mod marks;
mod memory;
pub(crate) mod output;
mod pages;
mod path_mtu;
mod receiver;
pub(crate) mod recovery;
mod repair;
mod reuse;
mod right_sizing;
mod rtt;
mod segmentation;
mod segments;
mod send_buffer;
mod send_space;
mod tail_probe;
mod timers;
mod tuple;

pub(crate) use connection::{Connection, Opening, State};
pub(crate) use input::Reply;
pub(crate) use tuple::Tuple;
