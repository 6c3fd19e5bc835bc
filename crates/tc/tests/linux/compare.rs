//! [`Verdict`]: how alike two runs of one trace are, packet by packet.

use std::collections::HashMap;

use crate::record::Departure;

/// Share of packets that must agree.
pub(crate) const ALIKE: f64 = 0.999;
/// Departure times that differ by no more are the same.
pub(crate) const SAME_TIME_NS: u64 = 50_000;

/// How alike two runs of one trace are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Packets of the trace.
    pub(crate) packets: usize,
    /// Share of packets lost in both runs, or sent with the same TOS byte in both.
    pub(crate) fate: f64,
    /// Among those sent in both, the longest sequence that both send in the same order, as a share.
    pub(crate) order: f64,
    /// Among those sent in both, the share that left at the same time.
    pub(crate) on_time: f64,
    /// Differences of departure times in nanoseconds: median, 99th percentile, largest.
    pub(crate) apart: [u64; 3],
    /// Lost in the kernel, lost in ours.
    pub(crate) lost: [usize; 2],
    /// Marked in the kernel, marked in ours.
    pub(crate) marked: [usize; 2],
}

impl Verdict {
    /// Compares the kernel's run with ours; `tos` is what the packets came with, by number.
    pub(crate) fn new(tos: &[u8], kernel: &[Departure], ours: &[Departure]) -> Self {
        let by_id = |run: &[Departure]| -> HashMap<u16, (usize, Departure)> {
            run.iter()
                .enumerate()
                .map(|(place, sent)| (sent.id, (place, *sent)))
                .collect()
        };
        let (theirs, mine) = (by_id(kernel), by_id(ours));
        let same = |id: u16| match (theirs.get(&id), mine.get(&id)) {
            (None, None) => true,
            (Some((_, a)), Some((_, b))) => a.tos == b.tos,
            _ => false,
        };
        let both: Vec<&Departure> = ours
            .iter()
            .filter(|sent| theirs.contains_key(&sent.id))
            .collect();
        let places: Vec<usize> = both.iter().map(|sent| theirs[&sent.id].0).collect();
        let mut apart: Vec<u64> = both
            .iter()
            .map(|sent| sent.at.abs_diff(theirs[&sent.id].1.at))
            .collect();
        apart.sort_unstable();
        let share = |part: usize, whole: usize| {
            if whole == 0 {
                1.0
            } else {
                part as f64 / whole as f64
            }
        };
        let at = |rank: f64| {
            apart
                .get(((apart.len() as f64 * rank) as usize).min(apart.len().saturating_sub(1)))
                .copied()
        };
        let marked = |run: &[Departure]| {
            run.iter()
                .filter(|sent| sent.tos & 3 == 3 && tos[usize::from(sent.id)] & 3 != 3)
                .count()
        };
        Self {
            packets: tos.len(),
            fate: share(
                (0..tos.len()).filter(|&id| same(id as u16)).count(),
                tos.len(),
            ),
            order: share(longest_rise(&places), places.len()),
            on_time: share(
                apart.iter().filter(|&&ns| ns <= SAME_TIME_NS).count(),
                apart.len(),
            ),
            apart: [0.5, 0.99, 1.0].map(|rank| at(rank).unwrap_or(0)),
            lost: [tos.len() - theirs.len(), tos.len() - mine.len()],
            marked: [marked(kernel), marked(ours)],
        }
    }

    /// Whether the runs count as the same.
    pub(crate) fn holds(&self) -> bool {
        [self.fate, self.order, self.on_time]
            .iter()
            .all(|&share| share >= ALIKE)
    }
}

/// Length of the longest rising subsequence.
fn longest_rise(places: &[usize]) -> usize {
    let mut ends: Vec<usize> = Vec::new();
    for &place in places {
        let at = ends.partition_point(|&end| end < place);
        match ends.get_mut(at) {
            Some(end) => *end = place,
            None => ends.push(place),
        }
    }
    ends.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(id: u16, at: i64, tos: u8) -> Departure {
        Departure { id, at, tos }
    }

    #[test]
    fn equal_runs_are_alike_and_unequal_ones_are_not() {
        let run: Vec<Departure> = (0..1000)
            .map(|id| sent(id, i64::from(id) * 1_000_000, 2))
            .collect();
        let tos = vec![2; 1001];
        let same = Verdict::new(&tos, &run, &run);
        assert!(same.holds() && same.lost == [1, 1] && same.marked == [0, 0]);
        let mut other = run.clone();
        other.swap(0, 1);
        assert_eq!(Verdict::new(&tos, &run, &other).order, 0.999);
        other.swap(0, 1);
        (other[3].tos, other[4].tos) = (3, 3);
        let marked = Verdict::new(&tos, &run, &other);
        assert!(!marked.holds() && marked.marked == [0, 2] && marked.fate < ALIKE);
        other.truncate(998);
        assert_eq!(Verdict::new(&tos, &run, &other).lost, [1, 3]);
        let late: Vec<Departure> = run
            .iter()
            .map(|packet| sent(packet.id, packet.at + 50_001, 2))
            .collect();
        let late = Verdict::new(&tos, &run, &late);
        assert_eq!(
            (late.on_time, late.apart, late.holds()),
            (0.0, [50_001; 3], false)
        );
    }

    #[test]
    fn the_longest_rise_is_found() {
        assert_eq!(longest_rise(&[3, 1, 2, 9, 4, 5]), 4);
        assert_eq!(longest_rise(&[]), 0);
    }
}
