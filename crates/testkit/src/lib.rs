//! A device in memory, frames, TCP segments and packets for queues, for tests.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod device;
pub mod frame;
mod probe;
mod segment;

pub use device::MemoryDevice;
pub use frame::{Ip, checksum, pseudo_header};
pub use probe::{Probe, ids};
pub use segment::{ACK, FIN, PSH, RST, SYN, Segment, TCP};
