//! [`decide`]: whether a run parts from the kernel's only where two events lie within two steps of
//! the kernel's clock.
//!
//! The replay knows when a packet came and when a timer was due to two steps of 256 ns, not which
//! of two things within them was first. At the first departure that differs, one such choice after
//! the other is turned round: a packet comes, or a timer fires, a step or two earlier or later. The
//! one after which the runs stay together for longest is kept, and the search goes on from where
//! they part next. A fault of ours cannot be healed so: it comes back. The default profile, where
//! it departs on purpose, shows that.

use crate::cells::Setup;
use crate::compare::SAME_TIME_NS;
use crate::record::Departure;
use crate::replay::Nudges;
use crate::run::{CLOCK_STEP_NS, Run};

/// Departures before the one that differs among which the cause is looked for.
const LOOK_BACK: usize = 80;
/// More ties than this in one run are not believed to be ties.
const MOST: usize = 100;
/// A packet that comes no further than this from a departure may have come on its other side.
const NEAR_NS: u64 = 3 * CLOCK_STEP_NS;

/// Departures that are equal from the beginning on.
fn together(kernel: &[Departure], ours: &[Departure]) -> usize {
    let same = |theirs: &Departure, mine: &Departure| {
        (theirs.id, theirs.tos) == (mine.id, mine.tos)
            && theirs.at.abs_diff(mine.at) <= SAME_TIME_NS
    };
    kernel
        .iter()
        .zip(ours)
        .take_while(|(theirs, mine)| same(theirs, mine))
        .count()
}

/// The ties that have to be decided otherwise for ours to stay with the kernel as long as possible,
/// and for how many departures it does.
pub(crate) fn decide(run: &Run, setup: &Setup, linux: bool, seed: u32) -> (Nudges, usize) {
    let kernel = &run.record.departures;
    let mut nudges = Nudges::default();
    let mut ours = run.nudged(setup, linux, seed, &nudges);
    let mut reached = together(kernel, &ours);
    while reached < kernel.len().max(ours.len()) && nudges.len() < MOST {
        let tries = candidates(run, &ours, &nudges, reached);
        let results = tries.into_iter().map(|nudges| {
            let ours = run.nudged(setup, linux, seed, &nudges);
            (together(kernel, &ours), nudges, ours)
        });
        let Some(best) = results
            .max_by_key(|(reached, ..)| *reached)
            .filter(|best| best.0 > reached)
        else {
            break;
        };
        (reached, nudges, ours) = best;
    }
    (nudges, reached)
}

/// `nudges` with one more, in every way that may matter for departure `parted`.
fn candidates(run: &Run, ours: &[Departure], nudges: &Nudges, parted: usize) -> Vec<Nudges> {
    // Of equally good ones the last is taken.
    let steps = [-2, 2, -1, 1].map(|steps| steps * CLOCK_STEP_NS as i64);
    let first = parted.saturating_sub(LOOK_BACK);
    let recent = &ours[first..(parted + 2).min(ours.len())];
    let mut all = Vec::new();
    for (&at, packet) in run.record.arrivals.iter().zip(&run.trace) {
        let is_near = recent
            .iter()
            .any(|sent| at.abs_diff(sent.at as u64) <= NEAR_NS);
        for late in steps
            .into_iter()
            .filter(|_| is_near && !nudges.arrivals.contains_key(&packet.frame.id))
        {
            let mut more = nudges.clone();
            more.arrivals.insert(packet.frame.id, late);
            all.push(more);
        }
    }
    for sent in (first..=parted).filter(|sent| !nudges.wakes.contains_key(sent)) {
        for late in steps {
            let mut more = nudges.clone();
            more.wakes.insert(sent, late);
            all.push(more);
        }
    }
    all
}
