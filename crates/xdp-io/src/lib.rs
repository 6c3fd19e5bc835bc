//! AF_XDP devices: a UMEM whose frames are handed out once, four rings, and an XDP program that takes
//! only the host's own traffic.
//!
//! [`XdpDevice`], one queue, and [`XdpQueues`], all of them, implement
//! [`tautline_base::Device`]. [`XdpPair`] is two of them on one UMEM, for a forwarder. `unsafe` is confined to three modules: `umem`
//! (packet buffers), `rings` (memory shared with the kernel) and `sys` (system calls without a safe
//! wrapper elsewhere).
//!
//! ```no_run
//! use tautline_base::{Device, Instant, Packet, Pool};
//! use tautline_xdp_io::{Config, Take, XdpDevice};
//!
//! let take = Take::Addresses(vec!["10.7.0.1".parse()?]);
//! let (mut device, frames) = XdpDevice::open(Config { interface: "veth0".into(), take, ..Config::default() })?;
//! println!("{}", device.mode()); // native driver mode, copy
//! let mut pool = Pool::new(frames);
//! let now = Instant::ZERO;
//! if device.room() > 0 && let Some(frame) = pool.take() {
//!     device.put(Packet::new(frame, 60), now);
//!     device.doorbell(now);
//! }
//! let mut done = Vec::new();
//! device.reap(now, &mut done);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod attach;
pub mod config;
pub mod device;
pub mod error;
pub mod interface;
// Not part of the API: public for its fuzz target.
#[doc(hidden)]
pub mod ownership;
pub mod pair;
pub mod queues;
pub mod statistics;
pub mod umem;

mod assembler;
mod doorbell;
mod memlock;
mod memory;
mod program;
mod retry;
mod rings;
mod sys;
mod watchdog;

pub use attach::Attachment;
pub use config::{Bind, Config, CopyReason, Driver, Mode, Take};
pub use device::XdpDevice;
pub use error::{Failure, OpenError};
pub use interface::{interface_mac, interface_mtu, interface_queues};
pub use pair::{Apart, XdpPair};
pub use queues::{Rebinds, XdpQueues};
pub use statistics::{Counters, Kernel, Statistics};
pub use umem::UmemFrame;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
