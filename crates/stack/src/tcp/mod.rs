//! TCP (RFC 9293): one connection, without any I/O.

mod blocked;
mod connection;
mod deadlines;
pub(crate) mod ecn;
pub(crate) mod fast_open;
mod header;
pub(crate) mod icmp_errors;
pub(crate) mod info;
mod input;
mod liveness;
mod memory;
mod negotiated;
mod output;
mod prediction;
mod receiver;
mod reuse;
pub(crate) mod send;
mod snapshot;
mod state;
mod ticks;
mod train;
mod tuple;

pub(crate) use connection::{Connection, Handshake, Opening, Reading};
pub(crate) use input::Reply;
pub(crate) use receiver::ReceiveShare;
pub(crate) use send::{AppData, Blocked, Boundary};
pub(crate) use state::State;
pub(crate) use train::Train;
pub(crate) use tuple::Tuple;
