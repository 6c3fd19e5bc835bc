//! Replays a trace through one of our qdiscs as a device of infinite rate would: a packet is asked
//! for whenever one may leave.

use tautline_base::{Instant, Item};
use tautline_qdisc::{Drops, Ledger, Qdisc};

use std::collections::BTreeMap;

use crate::record::Departure;
use crate::trace::Arrival;

/// Which of two events in neighboring steps of the clock comes first, where the replay would choose
/// the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nudges {
    /// Packets that come so many nanoseconds later.
    pub(crate) arrivals: BTreeMap<u16, i64>,
    /// By how many departures came before: the timer then fires so many nanoseconds later.
    pub(crate) wakes: BTreeMap<usize, i64>,
}

impl Nudges {
    /// How many choices are turned round.
    pub(crate) fn len(&self) -> usize {
        self.arrivals.len() + self.wakes.len()
    }
}

/// The run of `qdisc` over the packets of `trace` if they come at
/// `arrivals` and the clock shows `start` at their beginning.
///
/// The clock moves in steps of `step`: who asked to be woken is woken at the next. `slack` is by
/// how much it asked for a later time than necessary: a packet that comes meanwhile wakes the
/// kernel, and the timer with it.
pub(crate) fn replay(
    qdisc: impl Qdisc<crate::frame::Frame>,
    trace: &[Arrival],
    arrivals: &[u64],
    start: u64,
    step: u64,
    slack: u64,
    nudges: &Nudges,
) -> Vec<Departure> {
    let mut device = Device {
        qdisc: Ledger::new(qdisc),
        drops: Drops::new(),
        sent: Vec::new(),
        wake: None,
        start,
        nudges,
    };
    for (packet, &at) in trace.iter().zip(arrivals) {
        let late = nudges.arrivals.get(&packet.frame.id).copied().unwrap_or(0);
        let now = Instant::from_nanos((start + at).saturating_add_signed(late));
        device.run_until(now, step);
        if slack > 0
            && device.wake.is_some_and(|wake| {
                wake > Instant::ZERO && wake.as_nanos().saturating_sub(slack) <= now.as_nanos()
            })
        {
            device.pull(now);
        }
        let mut frame = packet.frame.clone();
        if frame.departure() > Instant::ZERO {
            let departure = Instant::from_nanos(start + frame.departure().as_nanos());
            frame = frame.departing(departure);
        }
        device.qdisc.enqueue(frame, now, &mut device.drops);
        device.pull(now);
    }
    device.run_until(Instant::from_nanos(u64::MAX), step);
    device.sent
}

struct Device<'a, Q> {
    qdisc: Q,
    drops: Drops<crate::frame::Frame>,
    sent: Vec<Departure>,
    wake: Option<Instant>,
    start: u64,
    nudges: &'a Nudges,
}

impl<Q: Qdisc<crate::frame::Frame>> Device<'_, Q> {
    fn run_until(&mut self, end: Instant, step: u64) {
        while let Some(wake) = self.wake {
            let late = self
                .nudges
                .wakes
                .get(&self.sent.len())
                .copied()
                .unwrap_or(0);
            let tick = (wake.as_nanos() / step + 1)
                .saturating_mul(step)
                .saturating_add_signed(late);
            // Never before it asked to be woken: it would only ask again.
            let now = Instant::from_nanos(tick).max(wake);
            if now >= end {
                break;
            }
            self.pull(now);
            assert!(
                self.wake.is_none_or(|again| again > wake),
                "a discipline that sends nothing asks for a later time"
            );
        }
    }

    fn pull(&mut self, now: Instant) {
        while let Some(frame) = self.qdisc.dequeue(now, &mut self.drops) {
            let at = (now.as_nanos() - self.start) as i64;
            // Whole or in pieces, each segment is a departure.
            for place in 0..frame.segments() {
                self.sent.push(Departure {
                    id: frame.id + place,
                    at,
                    tos: frame.tos(),
                });
            }
        }
        self.drops.drain().for_each(drop);
        self.wake = self.qdisc.ready_at();
    }
}
