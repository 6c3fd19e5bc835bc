//! [`Cycle`]: the phases of PROBE_BW.

use core::time::Duration;

use tautline_base::Instant;

use super::Gain;
use super::params::CYCLE;

/// Position in a bandwidth probing cycle: probe for a round trip, drain the resulting queue for one,
/// cruise for six.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    phase: usize,
    since: Instant,
}

/// Conditions for the end of a phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) now: Instant,
    pub(super) min_rtt: Option<Duration>,
    /// Pacing gain of the phase.
    pub(super) gain: Gain,
    /// Something was lost.
    pub(super) lost: bool,
    /// The network holds the phase's gain times the bandwidth-delay product.
    pub(super) filled: bool,
    /// The network holds no more than one bandwidth-delay product.
    pub(super) drained: bool,
}

impl Cycle {
    /// Begins with a random phase, so that flows that begin together do not probe together, but not
    /// with the draining one: there is nothing to drain yet.
    pub(super) fn begin(random: u64, now: Instant) -> Self {
        let phase = match (random % (CYCLE as u64 - 1)) as usize {
            0 => 0,
            later => later + 1,
        };
        Self { phase, since: now }
    }

    pub(super) fn gain(self, gains: &[Gain; CYCLE]) -> Gain {
        gains[self.phase % CYCLE]
    }

    /// In the probing phase.
    pub(super) fn probes(self) -> bool {
        self.phase == 0
    }

    /// Advances to the next phase when the present one is over. A phase lasts one lowest round
    /// trip; probing lasts also until the network is filled or something is lost, draining ends
    /// early once the network is drained.
    pub(super) fn on_ack(&mut self, progress: Progress) {
        let long = progress
            .min_rtt
            .is_some_and(|rtt| progress.now - self.since > rtt);
        let over = if progress.gain > Gain::UNIT {
            long && (progress.lost || progress.filled)
        } else if progress.gain < Gain::UNIT {
            long || progress.drained
        } else {
            long
        };
        if over {
            *self = Self {
                phase: (self.phase + 1) % CYCLE,
                since: progress.now,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr::Params;

    const RTT: Duration = Duration::from_millis(10);
    const BEGIN: Instant = Instant::from_secs(1);

    fn progress(gain: Gain) -> Progress {
        let now = BEGIN + RTT + Duration::from_nanos(1);
        Progress {
            now,
            min_rtt: Some(RTT),
            gain,
            lost: false,
            filled: false,
            drained: false,
        }
    }

    fn goes_on(progress: Progress) -> bool {
        let mut cycle = Cycle {
            phase: 7,
            since: BEGIN,
        };
        cycle.on_ack(progress);
        cycle
            != Cycle {
                phase: 7,
                since: BEGIN,
            }
            && cycle
                == Cycle {
                    phase: 0,
                    since: progress.now,
                }
    }

    #[test]
    fn it_begins_anywhere_but_in_the_draining_phase() {
        let phases = (0..700).map(|random| Cycle::begin(random, BEGIN).phase);
        let mut counts = [0; CYCLE];
        phases.for_each(|phase| counts[phase] += 1);
        assert_eq!(counts, [100, 0, 100, 100, 100, 100, 100, 100]);
    }

    #[test]
    fn a_cruising_phase_lasts_a_round_trip() {
        assert!(goes_on(progress(Gain::UNIT)));
        assert!(!goes_on(Progress {
            now: BEGIN + RTT,
            lost: true,
            drained: true,
            ..progress(Gain::UNIT)
        }));
    }

    #[test]
    fn a_probing_phase_lasts_until_the_network_is_filled_or_loses() {
        let probe = progress(Gain::percent(125));
        assert!(!goes_on(probe));
        assert!(goes_on(Progress {
            filled: true,
            ..probe
        }));
        assert!(goes_on(Progress {
            lost: true,
            ..probe
        }));
        assert!(!goes_on(Progress {
            now: BEGIN + RTT,
            filled: true,
            lost: true,
            ..probe
        }));
    }

    #[test]
    fn a_draining_phase_ends_early_when_the_network_is_drained() {
        let drain = progress(Gain::percent(75));
        assert!(goes_on(drain));
        assert!(goes_on(Progress {
            now: BEGIN,
            drained: true,
            ..drain
        }));
        assert!(!goes_on(Progress {
            now: BEGIN,
            ..drain
        }));
    }

    #[test]
    fn the_gains_come_in_order() {
        let gains = Params::default().cycle;
        let mut cycle = Cycle::begin(0, BEGIN);
        let mut seen = [Gain::UNIT; CYCLE];
        for (slot, step) in seen.iter_mut().zip(1..) {
            *slot = cycle.gain(&gains);
            cycle.on_ack(Progress {
                now: BEGIN + RTT * step * 2,
                filled: true,
                ..progress(*slot)
            });
        }
        assert_eq!(seen, gains);
        assert!(cycle.probes());
    }
}
