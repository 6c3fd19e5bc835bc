//! What the programs of this package share.
//!
//! | module | holds |
//! |---|---|
//! | [`conversation`] | both directions of a connection, checked byte for byte |
//! | [`args`] | command-line options common to both ends |
//! | [`failure`] | every way a program can end badly, one line each |
//! | [`open`] | AF_XDP or TAP, chosen at run time |
//! | [`session`] | a host on its device, its event loop, the end of a run |
//! | [`sockets`] | a program that only wants sockets, beside a stack on any device |
//! | [`send`], [`receive`] | the two applications |
//! | [`source`], [`sink`] | where bytes come from and go to, and their SHA-256 |
//! | [`trace`] | the steps of a congestion controller in a file |
//! | [`report`] | live lines and summaries, as text or JSON |
#![forbid(unsafe_code)]

pub mod args;
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
