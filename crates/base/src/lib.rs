//! The vocabulary of every tautline crate: time, units, packets, devices, queueing disciplines,
//! headers, wakes.
//!
//! A third party that writes a device, a queueing discipline or a congestion controller needs this
//! crate only. It runs on `no_std` + `alloc`; its dependencies are SipHash and `bytes`, its only
//! `unsafe` code the checksum's vectors. The feature `std`, off by default, adds [`HashKey`]'s `random`
//! and finds AVX2.
//!
//! The crates above re-export the items that their own interfaces need, so a program that uses one of
//! them rarely depends on this crate too.
//!
//! ```
//! use tautline_base::{Bytes, Instant, Rate};
//! use std::time::Duration;
//!
//! // Units have only the operators that mean something.
//! let departure = Instant::from_millis(5) + Bytes::new(1514) / Rate::mbit(100);
//! assert_eq!(departure, Instant::from_nanos(5_121_120));
//! assert_eq!(Rate::gbit(1) * Duration::from_millis(1), Bytes::new(125_000));
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod checksum;
mod config_error;
pub mod device;
mod drops;
pub mod frame;
mod hash_key;
pub mod headers;
mod log2_histogram;
pub mod packet;
pub mod pool;
mod qdisc;
mod rng;
pub mod segmentation;
mod tally;
pub mod time;
pub mod units;
pub mod wake;

pub use config_error::ConfigError;
pub use device::{Device, KeptPacket, Offload, Received, Tso};
pub use drops::{DropReason, Drops};
pub use frame::{Frame, HeapFrame, MAX_FRAGMENTS};
pub use hash_key::HashKey;
pub use headers::Medium;
pub use log2_histogram::Log2Histogram;
pub use packet::{Credit, Deferred, Ecn, Item, Owner, Packet, SegmentId, Settled, SocketId};
pub use pool::Pool;
pub use qdisc::{Backlog, MultiQueue, Qdisc};
pub use rng::SplitMix64;
pub use segmentation::Segmentation;
pub use tally::Tally;
pub use time::{CallerClock, Instant};
pub use units::{Bytes, Rate};
pub use wake::{Reason, Wake};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
