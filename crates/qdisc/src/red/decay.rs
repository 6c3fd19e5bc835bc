//! [`Decay`]: the decay of RED's average while the queue is empty and no arrival updates it.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use tautline_base::{Bytes, Rate};

/// Decay of the average while the queue is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleDecay {
    /// As if packets of `avpkt` had found an empty queue all the while, one per transmission time
    /// at `bandwidth` (Floyd and Jacobson 1993). The default.
    #[default]
    Exact,
    /// By Linux's table of shifts, which is computed in ticks of 64 ns and read in microseconds,
    /// so the average falls 15.6 times too slowly. It also takes a natural logarithm for a binary
    /// one, which makes it slower still.
    Linux,
    /// Not at all: the first packet after a pause finds the average as the last one left it. This
    /// is Linux's behavior below a TBF or an HTB, which never ask an empty RED for a packet, and so never
    /// let it see that it is idle.
    Never,
}

impl fmt::Display for IdleDecay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Linux => "linux",
            Self::Never => "never",
        })
    }
}

/// A decay ready to be applied.
#[derive(Clone, Debug)]
pub(super) enum Decay {
    /// exp(-idle · `per_nano`).
    Exact { per_nano: f64 },
    /// `shifts[idle µs >> cell_log]` bits fewer.
    Linux {
        cell_log: u32,
        shifts: Box<[u8; 256]>,
    },
    /// The average stays.
    Never,
}

impl Decay {
    /// The decay of an average of weight 2⁻ʷ by packets of `avpkt` at `bandwidth`. `None` if Linux's
    /// table cannot span the time that it takes.
    pub(super) fn new(kind: IdleDecay, wlog: u32, avpkt: Bytes, bandwidth: Rate) -> Option<Self> {
        let nats = -libm::log1p(-libm::exp2(-f64::from(wlog)));
        let nanos = avpkt.get() as f64 / bandwidth.as_bytes_per_sec() as f64 * 1e9;
        match kind {
            IdleDecay::Exact => Some(Self::Exact {
                per_nano: nats / nanos,
            }),
            IdleDecay::Linux => Self::linux(nats / libm::ceil(nanos / 64.0)),
            IdleDecay::Never => Some(Self::Never),
        }
    }

    /// The table that `tc` computes: 256 shifts of at most 31 bits, `1 << cell_log` ticks apart.
    fn linux(per_tick: f64) -> Option<Self> {
        let longest = 31.0 / per_tick;
        let cell_log = (0..32).find(|&log| longest / libm::exp2(f64::from(log)) < 512.0)?;
        let mut shifts = Box::new([31; 256]);
        for (cell, shift) in (0..255u32).zip(shifts.iter_mut()) {
            // Saturates where it would exceed 255; then 31 is less.
            *shift = ((f64::from(cell) * libm::exp2(f64::from(cell_log)) * per_tick) as u8).min(31);
        }
        Some(Self::Linux { cell_log, shifts })
    }

    /// `average` decayed by `idle`.
    pub(super) fn apply(&self, average: u64, idle: Duration) -> u64 {
        match self {
            Self::Exact { per_nano } => {
                (average as f64 * libm::exp(-(idle.as_nanos() as f64 * per_nano))) as u64
            }
            Self::Linux { cell_log, shifts } => {
                let micros = u64::try_from(idle.as_micros())
                    .unwrap_or(u64::MAX)
                    .min(255 << cell_log);
                match shifts[(micros >> cell_log) as usize] {
                    0 => {
                        let fallen = (u128::from(average) * u128::from(micros)) >> cell_log;
                        average
                            - u64::try_from(fallen)
                                .unwrap_or(u64::MAX)
                                .min(average - average / 2)
                    }
                    shift => average >> shift,
                }
            }
            Self::Never => average,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVPKT: Bytes = Bytes::new(1000);
    /// `tc`'s default; a packet of 1000 bytes takes 800 µs.
    const BANDWIDTH: Rate = Rate::mbit(10);
    const AVERAGE: u64 = 60_000 << 5;

    fn decay(kind: IdleDecay) -> Decay {
        Decay::new(kind, 5, AVPKT, BANDWIDTH).expect("within reach")
    }

    /// (1 - 1/32)^10 of the average after ten packets' time, 8 ms; never more than there was.
    #[test]
    fn the_exact_decay_is_that_of_small_packets_on_an_empty_queue() {
        let expected = AVERAGE as f64 * (31.0f64 / 32.0).powi(10);
        let left = decay(IdleDecay::Exact).apply(AVERAGE, Duration::from_millis(8));
        assert!((left as f64 - expected).abs() <= 1.0, "{left} {expected}");
        assert_eq!(
            decay(IdleDecay::Exact).apply(AVERAGE, Duration::ZERO),
            AVERAGE
        );
        assert_eq!(decay(IdleDecay::Exact).apply(AVERAGE, Duration::MAX), 0);
    }

    /// `include/net/red.h` `red_calc_qavg_from_idle_time`, measured: `Scell_log` 15. A cell is 32.8
    /// ms and 1.3 bits: 15.6 · ln 2 times too slow.
    #[test]
    fn linux_table_is_the_one_measured() {
        let Decay::Linux { cell_log, shifts } = decay(IdleDecay::Linux) else {
            panic!("a Linux table")
        };
        assert_eq!(
            (
                cell_log,
                shifts[0],
                shifts[1],
                shifts[12],
                shifts[13],
                shifts[254],
                shifts[255]
            ),
            (15, 0, 0, 0, 1, 21, 31)
        );
    }

    /// Within a cell of shift 0 Linux subtracts in proportion, but never more than half.
    #[test]
    fn linux_halves_at_most_within_the_first_cells() {
        let linux = decay(IdleDecay::Linux);
        for (micros, left) in [
            (0, AVERAGE),
            (1 << 13, AVERAGE - AVERAGE / 4),
            (1 << 14, AVERAGE / 2),
            (12 << 15, AVERAGE / 2),
            (13 << 15, AVERAGE >> 1),
            (254 << 15, AVERAGE >> 21),
            (255 << 15, AVERAGE >> 31),
            (u64::MAX, AVERAGE >> 31),
        ] {
            assert_eq!(
                linux.apply(AVERAGE, Duration::from_micros(micros)),
                left,
                "{micros}"
            );
        }
    }

    #[test]
    fn a_table_that_cannot_span_the_decay_is_refused() {
        assert!(Decay::new(IdleDecay::Linux, 31, AVPKT, Rate::bytes_per_sec(1)).is_none());
        assert!(Decay::new(IdleDecay::Exact, 31, AVPKT, Rate::bytes_per_sec(1)).is_some());
    }
}
