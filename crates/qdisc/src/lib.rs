//! Queueing disciplines as a library: what `tc qdisc` offers, outside a kernel.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod discipline;
mod drops;

pub use discipline::{Backlog, DynQdisc, Inspect, Qdisc, Report};
pub use drops::{DropReason, Drops};
