//! Fuzz targets with what they share: a host or two on devices in memory, frames to inject, and the
//! invariants to check.
#![forbid(unsafe_code)]

pub mod frame;
pub mod pair;
pub mod rig;
pub mod segment;
pub mod targets;
