//! Numbers of a list of values.

/// The value that `share` of all values do not exceed, between the two nearest of `sorted` by
/// linear interpolation (Hyndman and Fan's type 7, what numpy and R do unasked). `None` for no
/// values.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = (position.floor() as usize).min(last);
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    let part = position - below as f64;
    if (high - low).is_finite() {
        Some(low + (high - low) * part)
    } else {
        // The difference overflows between the largest numbers.
        Some(low * (1.0 - part) + high * part)
    }
}

/// Jain's fairness index: 1 when all have the same, 1/n when one has all. `None` when nobody has
/// anything.
pub(crate) fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Count, mean, standard deviation (of a sample: over n − 1), smallest and largest, percentiles.
pub(super) fn distribution(mut values: Vec<f64>) -> Vec<(&'static str, f64)> {
    const PERCENTILES: [(&str, f64); 9] = [
        ("min", 0.0),
        ("p10", 0.10),
        ("p25", 0.25),
        ("p50", 0.50),
        ("p75", 0.75),
        ("p90", 0.90),
        ("p95", 0.95),
        ("p99", 0.99),
        ("max", 1.0),
    ];
    let count = values.len() as f64;
    let mut numbers = vec![("count", count)];
    if values.is_empty() {
        return numbers;
    }
    values.sort_by(f64::total_cmp);
    let mean = values.iter().sum::<f64>() / count;
    numbers.push(("mean", mean));
    if values.len() > 1 {
        let squares: f64 = values
            .iter()
            .map(|value| (value - mean) * (value - mean))
            .sum();
        numbers.push(("sd", (squares / (count - 1.0)).sqrt()));
    }
    numbers.extend(
        PERCENTILES
            .iter()
            .filter_map(|(name, share)| Some((*name, percentile(&values, *share)?))),
    );
    numbers
}
