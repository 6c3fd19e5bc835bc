//! Where the limit settles: as high as the device needs, and no higher than the rule's slack.

use std::time::Duration;

use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Item, Packet, Rate};
use tautline_bql::{Dql, Limit, Port, Ring, dql};
use tautline_qdisc::Drops;

use crate::wire::{Fifo, Wire};

const RATE: Rate = Rate::gbit(1);
const HOLD_TIME: Duration = Duration::from_millis(20);
/// Until then completions take three times as long: the limit that this needs is too high for what
/// follows.
const PAST: Instant = Instant::from_millis(20);
/// Three hold times later, and a little, the limit has fallen to what is needed.
const WARM_UP: Instant = Instant::from_millis(90);
const END: Instant = Instant::from_millis(140);

/// Measurements from `WARM_UP` to `END`.
#[derive(Debug)]
struct Steady {
    idle: Duration,
    lowest: Bytes,
    highest: Bytes,
    /// The largest completion.
    batch: Bytes,
}

/// A port that always has packets, of the lengths in `sizes` in turn, over a device that reports
/// completions after each of `gaps` in turn.
fn saturate<L: Limit>(limit: L, sizes: &[u32], gaps: &[Duration]) -> Steady {
    let mut port = Port::new(Fifo::new(), Ring::new(Wire::new(RATE, 100_000), limit));
    let (mut drops, mut done) = (Drops::new(), Vec::new());
    let (mut sizes, mut gaps) = (sizes.iter().cycle(), gaps.iter().cycle());
    let mut seen = Steady {
        idle: Duration::ZERO,
        lowest: Bytes::MAX,
        highest: Bytes::ZERO,
        batch: Bytes::ZERO,
    };
    let mut now = Instant::ZERO;
    while now < END {
        port.reap(now, &mut done);
        let batch: Bytes = done.drain(..).map(|packet| packet.len()).sum();
        let idle = port.ring().device().idle;
        loop {
            if port.backlog().is_empty() {
                let size = *sizes.next().expect("a cycle");
                port.enqueue(Packet::new((), size), now, &mut drops);
            }
            if port.transmit(now, 1, &mut drops, |_| {}) == 0 {
                break;
            }
        }
        if now >= WARM_UP {
            let limit = port.ring().limit().limit();
            seen.idle += port.ring().device().idle - idle;
            seen.lowest = seen.lowest.min(limit);
            seen.highest = seen.highest.max(limit);
            seen.batch = seen.batch.max(batch);
        }
        let gap = *gaps.next().expect("a cycle");
        now += if now < PAST { gap * 3 } else { gap };
    }
    seen
}

fn dql() -> Dql {
    Dql::new(dql::Config {
        hold_time: HOLD_TIME,
        ..dql::Config::default()
    })
    .expect("valid")
}

impl Steady {
    /// Never idle for want of packets; never more let in than twice what came back at once, and one
    /// object, the last of which is in flight beyond the limit.
    fn check(&self, object: u32) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.idle, Duration::ZERO, "it starved: {:?}", self);
        prop_assert!(
            self.highest <= self.batch * 2 + Bytes::new(object.into()),
            "{self:?}"
        );
        prop_assert!(
            self.lowest + Bytes::new(object.into()) >= self.batch,
            "less than one completion brings: {self:?}"
        );
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Interrupts at a steady pace: the limit stays where it is but for an object.
    #[test]
    fn it_settles_at_two_batches(size in 60..=1514_u32, gap in 26..400_u64) {
        let seen = saturate(dql(), &[size], &[Duration::from_micros(gap)]);
        seen.check(size)?;
        prop_assert!(seen.highest - seen.lowest <= Bytes::new(size.into()) * 2, "{seen:?}");
        // Two batches may differ by an object, and the part of the last object that was over the
        // limit is no need.
        prop_assert!(seen.lowest + Bytes::new(size.into()) * 3 >= seen.batch * 2, "{seen:?}");
    }

    /// Packets of all lengths, and interrupts that come at once, late, or for nothing: the longest
    /// gap counts.
    #[test]
    fn it_settles_by_the_latest_of_irregular_completions(
        sizes in prop::collection::vec(60..=1514_u32, 1..50), gaps in prop::collection::vec(1..400_u64, 1..20)
    ) {
        let gaps: Vec<_> = gaps.into_iter().map(Duration::from_micros).collect();
        let seen = saturate(dql(), &sizes, &gaps);
        seen.check(1514)?;
    }
}

/// The measure sees both faults: a limit too low starves the device, none at all lets in whatever
/// there is room for.
#[test]
fn a_wrong_limit_starves_or_exceeds() {
    let fixed = |limit| dql::Config {
        limit_min: Bytes::new(limit),
        limit_max: Bytes::new(limit),
        ..dql::Config::default()
    };
    let low = saturate(
        Dql::new(fixed(3000)).expect("valid"),
        &[1514],
        &[Duration::from_micros(100)],
    );
    assert!(
        low.idle > Duration::from_millis(20) && low.check(1514).is_err(),
        "{low:?}"
    );
    let high = saturate(
        Dql::new(fixed(60_000)).expect("valid"),
        &[1514],
        &[Duration::from_micros(100)],
    );
    assert!(high.idle.is_zero() && high.check(1514).is_err(), "{high:?}");
}
