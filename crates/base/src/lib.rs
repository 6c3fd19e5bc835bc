//! The words every tautline crate speaks: time, units, packets, devices, wake-ups.
//!
//! Nothing here decides anything. A stranger who writes a device, a discipline or a controller
//! needs this crate and no other, so it has no dependencies, no features, no `unsafe`, and runs on
//! `no_std` + `alloc`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod checksum;
mod config_error;
pub mod device;
mod drops;
pub mod frame;
pub mod packet;
pub mod pool;
mod qdisc;
pub mod segmentation;
mod tally;
pub mod time;
pub mod units;
pub mod wake;

pub use config_error::ConfigError;
pub use device::{Device, Offload, Received, Tso};
pub use drops::{DropReason, Drops};
pub use frame::{Frame, HeapFrame};
pub use packet::{Credit, Due, Ecn, Item, Owner, Packet, SegmentId, Settled, SocketId};
pub use pool::Pool;
pub use qdisc::{Backlog, MultiQueue, Qdisc};
pub use segmentation::Segmentation;
pub use tally::Tally;
pub use time::Instant;
pub use units::{Bytes, Rate};
pub use wake::{Reason, Wake};
