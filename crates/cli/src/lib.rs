//! The program `tautline`, one module per command under [`command`], and what its commands and this
//! repository's examples share: options, devices, transfers, reports.
#![forbid(unsafe_code)]

mod accept;
pub mod args;
pub mod check;
pub mod command;
pub mod control;
mod descriptors;
pub mod device;
pub mod failure;
mod held_lease;
pub mod http;
pub mod introspection;
mod lease;
pub mod log;
pub mod net;
pub mod open;
pub mod path;
mod pipe;
#[cfg(feature = "af-xdp")]
pub mod queues;
pub mod receive;
pub mod report;
pub mod send;
pub mod session;
pub mod sink;
pub mod sockets;
pub mod source;
pub mod threads;
pub mod trace;
