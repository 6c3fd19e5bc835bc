//! The words every tautline crate speaks: time, units, packets, devices, wake-ups.
//!
//! Nothing here decides anything. A stranger who writes a device, a discipline or a controller
//! needs this crate and no other, so it has no dependencies, no features, no `unsafe`, and runs on
//! `no_std` + `alloc`.
//!
//! | module | holds |
//! |---|---|
//! | [`time`] | [`Instant`]: nanoseconds since an arbitrary epoch |
//! | [`units`] | [`Bytes`] and [`Rate`], with only the operators that mean something |
//! | [`packet`] | [`Packet`], the linear packet, and [`Item`], what a discipline may ask of one |
//! | [`frame`] | [`Frame`]: the memory behind a packet |
//! | [`pool`] | [`Pool`]: the transmit frames, and the one place where a packet ends |
//! | [`device`] | [`Device`]: rings that take packets and give them back |
//! | [`checksum`] | the sum that the checksums of IP, TCP and UDP are made of |
//! | [`segmentation`] | [`Segmentation`]: a packet of several TCP segments, cut into them |
//! | [`wake`] | [`Wake`]: when to call again, and [`Reason`], why |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod checksum;
pub mod device;
pub mod frame;
pub mod packet;
pub mod pool;
pub mod segmentation;
pub mod time;
pub mod units;
pub mod wake;

pub use device::{Device, Offload, Received, Tso};
pub use frame::{Frame, HeapFrame};
pub use packet::{Credit, Due, Ecn, Item, Owner, Packet, SegmentId, Settled, SocketId};
pub use pool::Pool;
pub use segmentation::Segmentation;
pub use time::Instant;
pub use units::{Bytes, Rate};
pub use wake::{Reason, Wake};
