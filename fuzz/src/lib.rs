//! Fuzz targets with what they share: a host or two on devices in memory, frames to inject, and the
//! invariants to check.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

pub mod frame;
pub mod link;
pub mod pair;
pub mod rig;
pub mod segment;
pub mod targets;

static DELIVERED: AtomicU64 = AtomicU64::new(0);

/// Frames that the targets have delivered to hosts in this process.
pub fn delivered() -> u64 {
    DELIVERED.load(Ordering::Relaxed)
}

fn count_delivery() {
    DELIVERED.fetch_add(1, Ordering::Relaxed);
}
