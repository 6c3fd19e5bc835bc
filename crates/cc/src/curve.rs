//! CUBIC's window growth function (RFC 9438 §4.2): `W(t) = C (t - K)³ + W_max`.
//!
//! Windows are in segments, times in seconds, both in floating point.

use core::time::Duration;

/// Aggressiveness in segments per second cubed (RFC 9438 §5.1).
const C: f64 = 0.4;
/// Multiplicative decrease factor (RFC 9438 §4.6).
pub(crate) const BETA: f64 = 0.7;
/// Decrease factor of a mark with alternative backoff (RFC 8511 §3).
pub(crate) const BETA_ECN: f64 = 0.85;
/// Reno's growth per round trip that, with cuts to [`BETA`], averages the window of Reno with cuts
/// to one half: `3 (1 - β) / (1 + β)`, which is 9/17 (RFC 9438 §4.3).
pub(crate) const RENO_ALPHA: f64 = 9.0 / 17.0;

/// Largest distance from the plateau in seconds; far beyond any real epoch.
const FARTHEST: f64 = 1e5;
/// Largest window in segments.
const LARGEST: f64 = (1 << 24) as f64;

/// The cubic through the window at the start of an epoch (`t = 0`) with its plateau at `W_max`,
/// which it reaches at `t = K`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    plateau: f64,
    k: f64,
}

impl Curve {
    /// The curve from `start` segments to `plateau`. A start above the plateau moves the plateau
    /// there.
    pub fn through(plateau: f64, start: f64) -> Self {
        let plateau = plateau.max(start);
        Self {
            plateau,
            k: libm::cbrt((plateau - start) / C),
        }
    }

    /// `W_max` in segments.
    pub fn plateau(&self) -> f64 {
        self.plateau
    }

    /// `K`, the time to the plateau, in seconds.
    pub fn k(&self) -> f64 {
        self.k
    }

    /// `W(t)` in segments.
    pub fn window(&self, t: Duration) -> f64 {
        let distance = (t.as_secs_f64() - self.k).clamp(-FARTHEST, FARTHEST);
        (C * distance * distance * distance + self.plateau).clamp(0.0, LARGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(curve: &Curve, seconds: f64) -> f64 {
        curve.window(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn the_worked_curve_from_70_to_100() {
        let curve = Curve::through(100.0, 70.0);
        assert!((curve.k() - 4.2172).abs() < 5e-5);
        let table = [
            (0.0, 70.0),
            (1.0, 86.68),
            (2.0, 95.64),
            (3.0, 99.28),
            (4.217, 100.0),
            (5.0, 100.19),
            (6.0, 102.27),
            (8.0, 121.65),
            (10.0, 177.4),
        ];
        for (t, window) in table {
            assert!(
                (at(&curve, t) - window).abs() < 0.05,
                "W({t}) = {} and not {window}",
                at(&curve, t)
            );
        }
    }

    #[test]
    fn the_time_to_the_plateau_grows_with_the_cube_root() {
        for (plateau, k) in [(1_000.0, 9.086), (10_000.0, 19.574)] {
            let curve = Curve::through(plateau, plateau * BETA);
            assert!((curve.k() - k).abs() < 5e-4);
            assert!((at(&curve, curve.k()) - plateau).abs() < 1e-6);
        }
    }

    #[test]
    fn it_never_falls_and_never_overflows() {
        let curve = Curve::through(1e6, 1.0);
        let mut last = 0.0;
        for millis in (0..400_000).step_by(100) {
            let window = curve.window(Duration::from_millis(millis));
            assert!(window >= last);
            last = window;
        }
        assert_eq!(curve.window(Duration::MAX), LARGEST);
    }

    #[test]
    fn a_start_above_the_plateau_is_the_plateau() {
        let curve = Curve::through(50.0, 80.0);
        assert_eq!((curve.plateau(), curve.k()), (80.0, 0.0));
    }
}
