//! [`dips`]: how often a series falls far below what it usually is, as round trips do when BBR
//! drains the path.

use std::collections::BTreeMap;

use super::percentile;

/// Values of so many seconds are one: their median.
const BIN: f64 = 0.1;
/// A dip is below this share of the median of all.
const DEPTH: f64 = 0.5;
/// Dips less than this apart are one, in seconds.
const APART: f64 = 2.0;

/// Number of dips in `points`, and the mean time between them in seconds, if there are two.
pub(super) fn dips(points: impl Iterator<Item = (f64, f64)>) -> (usize, Option<f64>) {
    let mut bins: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (at, value) in points {
        bins.entry((at / BIN) as u64).or_default().push(value);
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        percentile(values, 0.5)
    };
    let bins: Vec<(f64, f64)> = bins
        .into_iter()
        .filter_map(|(bin, mut values)| Some((bin as f64 * BIN, median(&mut values)?)))
        .collect();
    let Some(usual) = median(&mut bins.iter().map(|(_, value)| *value).collect()) else {
        return (0, None);
    };
    let (mut begins, mut ended): (Vec<f64>, f64) = (Vec::new(), f64::NEG_INFINITY);
    for (at, _) in bins.iter().filter(|(_, value)| *value < DEPTH * usual) {
        if at - ended > APART {
            begins.push(*at);
        }
        ended = *at;
    }
    let gap = begins
        .first()
        .zip(begins.last())
        .map(|(first, last)| (last - first) / (begins.len() - 1) as f64);
    (begins.len(), gap.filter(|_| begins.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dip_counts_once_however_long_it_is() {
        let value = |tenth: u32| {
            if (100..103).contains(&(tenth % 200)) {
                1.0
            } else {
                5.0
            }
        };
        let series = (0..600).map(|tenth| (f64::from(tenth) / 10.0, value(tenth)));
        let (count, gap) = dips(series);
        assert_eq!(count, 3);
        assert!(gap.is_some_and(|gap| (gap - 20.0).abs() < 0.5), "{gap:?}");
    }

    #[test]
    fn a_flat_series_and_an_empty_one_have_none() {
        assert_eq!(
            dips((0..100).map(|second| (f64::from(second), 3.0))),
            (0, None)
        );
        assert_eq!(dips(std::iter::empty()), (0, None));
    }
}
