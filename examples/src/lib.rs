//! Code shared by the programs of this package.
#![forbid(unsafe_code)]

pub mod args;
pub mod check;
pub mod conversation;
pub mod failure;
pub mod introspection;
pub mod open;
pub mod receive;
pub mod report;
pub mod send;
pub mod session;
pub mod sink;
pub mod sockets;
pub mod source;
pub mod trace;
