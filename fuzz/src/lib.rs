//! What the fuzz targets share: a host on a device in memory, frames to throw at it, and what must
//! hold whatever is thrown.
//!
//! | module | holds |
//! |---|---|
//! | [`frame`] | frames towards the host, and what the host sends taken apart |
//! | [`rig`] | the host under test and the invariants |
//! | [`segment`] | TCP segments close to what a connection expects |
#![forbid(unsafe_code)]

pub mod frame;
pub mod rig;
pub mod segment;
