//! Fuzz targets with what they share: a host or two on devices in memory, frames to inject, and the
//! invariants to check.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "each target describes the input it draws")]

use std::sync::atomic::{AtomicU64, Ordering};

pub mod attack;
pub mod frame;
pub mod link;
pub mod pair;
pub mod rig;
pub mod segment;
pub mod steps;
pub mod targets;

static DELIVERED: AtomicU64 = AtomicU64::new(0);
static HOSTILE: AtomicU64 = AtomicU64::new(0);

/// Frames that the targets have delivered to hosts in this process.
pub fn delivered() -> u64 {
    DELIVERED.load(Ordering::Relaxed)
}

/// Those of them that no host sent, or that were damaged, repeated or reordered on the way.
pub fn hostile() -> u64 {
    HOSTILE.load(Ordering::Relaxed)
}

fn count_delivery() {
    DELIVERED.fetch_add(1, Ordering::Relaxed);
}

fn count_hostile() {
    HOSTILE.fetch_add(1, Ordering::Relaxed);
}

/// Prints the counts when its thread, under libFuzzer the main one, ends.
struct Report;

impl Drop for Report {
    fn drop(&mut self) {
        eprintln!("frames to hosts: {}, hostile: {}", delivered(), hostile());
    }
}

thread_local! {
    static REPORT: Report = const { Report };
}

/// Runs target `name` for libFuzzer; the counts are printed at the end of the process.
pub fn fuzz(name: &str, data: &[u8]) {
    REPORT.with(|_| targets::run(name, data));
}
