//! DualPI2 against the worked numbers of RFC 9332 §A.1 and RFC 9332's properties.

use alloc::collections::VecDeque;
use std::vec::Vec;

use proptest::prelude::*;
use tautline_base::Ecn;
use tautline_testkit::{Probe, ids};

use super::*;
use crate::ledger::Ledger;
use crate::testing::Edit;

mod coupling;
mod probability;
mod properties;
mod queues;
mod sharing;

const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn steady(delay: u64, count: u64) -> Delays {
    Delays {
        first: delay * 1_000_000,
        growth: 0,
        count,
    }
}

fn put(queue: &mut DualPi2<Probe>, tos: u8, packets: u32, len: u32) {
    let mut drops = Drops::new();
    for id in 0..packets {
        queue.enqueue(
            Probe::new(id).tos(tos).sized(len),
            Instant::ZERO,
            &mut drops,
        );
    }
    assert!(drops.is_empty());
}

/// A queue that holds 2000 packets of each kind and keeps its base probability.
fn constant(config: Config, probability: f64) -> DualPi2<Probe> {
    let tupdate = Duration::from_secs(1000);
    let native = if matches!(config.native, Native::Delay(_)) {
        Native::Delay(Duration::MAX)
    } else {
        config.native
    };
    let mut queue = DualPi2::new(Config {
        tupdate,
        native,
        ..config
    })
    .expect("valid");
    put(&mut queue, NOT_ECT, 2000, 1000);
    put(&mut queue, ECT0, 2000, 1000);
    put(&mut queue, ECT1, 4000, 1000);
    queue.controller.steady(probability, 0);
    queue
}
