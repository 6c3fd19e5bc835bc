//! A device in memory, frames and TCP segments, for tests.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod device;
pub mod frame;
mod segment;

pub use device::MemoryDevice;
pub use frame::{Ip, checksum, pseudo_header};
pub use segment::{ACK, FIN, PSH, RST, SYN, Segment, TCP};
