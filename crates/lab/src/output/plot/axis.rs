//! [`Axis`]: from values to shares of a straight line, linear or logarithmic, with ticks at round
//! numbers.

/// Beyond this, values are drawn at the edge: their differences would no longer be finite.
const LARGEST: f64 = 1e300;
/// On a logarithmic axis, values not above this are drawn at the lower edge.
const SMALLEST: f64 = 1e-300;
/// Values that span more than this factor get a logarithmic axis.
const DECADES_SPANNED: f64 = 100.0;

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    log: bool,
    /// Ends of the axis: values, or their decimal logarithms. The second is above the first.
    low: f64,
    high: f64,
    /// Where the ticks are, in the same terms.
    ticks: Vec<f64>,
    /// Distance between the ticks of a linear axis: how many decimals their labels need.
    step: f64,
}

impl Axis {
    /// An axis that holds all finite `values`, with about `count` ticks. A linear one begins at
    /// zero unless `from_zero` is false or values are negative. `log` of `None` decides by the span
    /// of the positive values.
    pub(super) fn over(
        values: impl Iterator<Item = f64>,
        log: Option<bool>,
        from_zero: bool,
        count: usize,
    ) -> Self {
        let (mut low, mut high, mut least) = (f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY);
        for value in values.filter(|v| v.is_finite()) {
            let value = value.clamp(-LARGEST, LARGEST);
            low = low.min(value);
            high = high.max(value);
            if value > SMALLEST {
                least = least.min(value);
            }
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let spans = least.is_finite() && low >= 0.0 && high / least > DECADES_SPANNED;
        if log.unwrap_or(spans) && least.is_finite() {
            Self::logarithmic(least, high)
        } else {
            Self::linear(low, high, from_zero, count)
        }
    }

    /// A linear axis from `low` to `high` exactly, with ticks at round numbers.
    pub(super) fn exactly(low: f64, high: f64, count: usize) -> Self {
        let axis = Self::linear(low, high, false, count);
        let high = if high > low { high } else { low + 1.0 };
        let ticks = axis
            .ticks
            .into_iter()
            .filter(|tick| (low..=high).contains(tick))
            .collect();
        Self {
            low,
            high,
            ticks,
            ..axis
        }
    }

    fn linear(low: f64, high: f64, from_zero: bool, count: usize) -> Self {
        let low = if from_zero { low.min(0.0) } else { low };
        let high = if from_zero { high.max(0.0) } else { high };
        let (low, high) = if high - low > (high.abs() + low.abs()) * 1e-9 {
            (low, high)
        } else {
            around(low)
        };
        let step = round_step((high - low) / count.max(1) as f64);
        let first = (low / step).floor();
        // Rounding may produce one tick more than fits.
        let intervals = ((high / step).ceil() - first).clamp(1.0, 4.0 * count.max(1) as f64);
        let ticks: Vec<f64> = (0..=intervals as usize)
            .map(|i| (first + i as f64) * step)
            .collect();
        Self {
            log: false,
            low: first * step,
            high: (first + intervals) * step,
            ticks,
            step,
        }
    }

    fn logarithmic(least: f64, high: f64) -> Self {
        let (low, high) = (least.log10(), high.max(least).log10());
        // Rounding must not add a decade to a power of ten.
        let low = (low + 1e-9).floor();
        let high = (high - 1e-9).ceil().max(low + 1.0);
        let decades = (high - low).round();
        let stride = (decades / 8.0).ceil().max(1.0);
        let mut ticks: Vec<f64> = (0..=(decades / stride) as usize)
            .map(|i| low + stride * i as f64)
            .collect();
        if decades <= 2.0 {
            let between = |decade: &f64| [2.0f64, 5.0].map(|digit| decade + digit.log10());
            let fine: Vec<f64> = ticks
                .iter()
                .filter(|tick| **tick < high)
                .flat_map(between)
                .collect();
            ticks.extend(fine);
            ticks.sort_by(f64::total_cmp);
        }
        Self {
            log: true,
            low,
            high,
            ticks,
            step: 1.0,
        }
    }

    /// An axis without ticks for `count` names: number `i` is drawn in the middle of the `i`th
    /// part.
    pub(super) fn names(count: usize) -> Self {
        Self {
            log: false,
            low: -0.5,
            high: count.max(1) as f64 - 0.5,
            ticks: Vec::new(),
            step: 1.0,
        }
    }

    /// Where on the axis `value` is drawn, from 0 to 1; values beyond its ends at the ends, what is
    /// no number at the lower one.
    pub(super) fn share(&self, value: f64) -> f64 {
        let place = if self.log {
            value.max(SMALLEST).log10()
        } else {
            value
        };
        let share = (place - self.low) / (self.high - self.low);
        if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    /// The ticks as shares of the axis, with their labels.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        self.ticks.iter().map(|tick| {
            (
                (tick - self.low) / (self.high - self.low),
                self.label(*tick),
            )
        })
    }

    /// The label of the tick at `place`, a value or its logarithm.
    fn label(&self, place: f64) -> String {
        if self.log {
            return short(10f64.powf(place));
        }
        let size = self.low.abs().max(self.high.abs());
        let (scale, suffix) = prefix(size);
        if !(1e-6..1e15).contains(&size) {
            return if place == 0.0 {
                "0".to_owned()
            } else {
                format!("{place:.1e}")
            };
        }
        let decimals =
            (-((self.step / scale) * (1.0 + 1e-9)).log10().floor()).clamp(0.0, 9.0) as usize;
        // Neither "-0" nor "0k".
        if place == 0.0 {
            "0".to_owned()
        } else {
            format!("{:.*}{suffix}", decimals, place / scale)
        }
    }
}

/// A range around one value.
fn around(value: f64) -> (f64, f64) {
    let half = if value == 0.0 { 0.5 } else { value.abs() * 0.1 };
    (value - half, value + half)
}

/// 1, 2 or 5 times a power of ten, not below `rough`.
fn round_step(rough: f64) -> f64 {
    let magnitude = 10f64.powf(rough.max(SMALLEST).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * magnitude)
        .into_iter()
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(rough)
}

/// Divisor and SI prefix for numbers of this size.
fn prefix(size: f64) -> (f64, &'static str) {
    match size {
        s if s >= 1e12 => (1e12, "T"),
        s if s >= 1e9 => (1e9, "G"),
        s if s >= 1e6 => (1e6, "M"),
        s if s >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    }
}

/// `value` with three significant digits: "0.0123", "1.2", "96", "12.3k". A value that is not
/// finite is "–".
pub(crate) fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e15).contains(&size) {
        return format!("{value:.2e}");
    }
    let (scale, suffix) = prefix(size);
    let scaled = value / scale;
    let decimals = (2.0 - scaled.abs().log10().floor()).clamp(0.0, 6.0) as usize;
    let digits = format!("{scaled:.decimals$}");
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        &digits
    };
    format!("{digits}{suffix}")
}
