//! Shared by the fuzz targets: a host on a device in memory, frames to inject, and the invariants to
//! check.
#![forbid(unsafe_code)]

pub mod frame;
pub mod rig;
pub mod segment;
