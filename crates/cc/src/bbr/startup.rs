//! [`FullPipe`]: the end of STARTUP.

use tautline_base::Rate;

use super::Params;

/// Whether sending faster still raises the bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FullPipe {
    /// It still does, or too few round trips have shown the contrary.
    Growing {
        /// Bandwidth that a round trip must exceed by the factor of the threshold.
        level: Rate,
        /// Consecutive round trips that did not.
        stalled: u32,
    },
    /// It no longer does. Final: PROBE_BW finds later growth of the path.
    Reached,
}

impl FullPipe {
    pub(super) const fn new() -> Self {
        Self::Growing {
            level: Rate::ZERO,
            stalled: 0,
        }
    }

    pub(super) fn reached(self) -> bool {
        self == Self::Reached
    }

    /// A round trip not limited by the application ended with this `bandwidth`.
    pub(super) fn on_round(&mut self, bandwidth: Rate, params: &Params) {
        let Self::Growing { level, stalled } = self else {
            return;
        };
        if bandwidth >= params.full_bw_threshold.of(*level) {
            *self = Self::Growing {
                level: bandwidth,
                stalled: 0,
            };
            return;
        }
        *stalled += 1;
        if *stalled >= params.full_bw_rounds {
            *self = Self::Reached;
        }
    }

    /// A timeout has emptied the pipe: any bandwidth counts as growth.
    pub(super) fn on_timeout(&mut self) {
        if let Self::Growing { level, .. } = self {
            *level = Rate::ZERO;
        }
    }

    /// A loss was spurious, so the path did not limit the growth.
    pub(super) fn on_undo(&mut self) {
        if !self.reached() {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(params: &Params, bandwidths: &[u64]) -> Option<usize> {
        let mut pipe = FullPipe::new();
        bandwidths.iter().position(|mbit| {
            pipe.on_round(Rate::mbit(*mbit), params);
            pipe.reached()
        })
    }

    #[test]
    fn three_rounds_below_a_quarter_more_mean_full() {
        let linux = Params::default();
        assert_eq!(
            rounds(&linux, &[3, 6, 12, 24, 48, 93, 100, 100, 100]),
            Some(8),
            "93, and three rounds that are not 116"
        );
        assert_eq!(
            rounds(&linux, &[100, 110, 120, 125, 130, 130, 130]),
            Some(6),
            "growth counts from the level, not the round"
        );
    }

    #[test]
    fn a_threshold_below_one_is_always_met() {
        assert_eq!(rounds(&Params::bbrn_first(), &[100; 1000]), None);
        assert_eq!(rounds(&Params::bbrn_aqm(), &[100; 1000]), Some(3));
    }

    #[test]
    fn doubling_is_below_a_threshold_of_three() {
        // Every second round is four times the level and restarts the count; 50 is less than 3.2
        // times 16.
        assert_eq!(
            rounds(&Params::bbrn_2023(), &[1, 2, 4, 8, 16, 32, 50, 50, 50]),
            Some(7)
        );
    }

    #[test]
    fn an_undone_loss_restarts_the_search_and_a_full_pipe_stays_full() {
        let linux = Params::default();
        let mut pipe = FullPipe::Growing {
            level: Rate::mbit(10),
            stalled: 2,
        };
        pipe.on_undo();
        assert_eq!(pipe, FullPipe::new());
        pipe = FullPipe::Growing {
            level: Rate::mbit(10),
            stalled: 2,
        };
        pipe.on_timeout();
        pipe.on_round(Rate::mbit(1), &linux);
        assert_eq!(
            pipe,
            FullPipe::Growing {
                level: Rate::mbit(1),
                stalled: 0
            }
        );
        pipe = FullPipe::Reached;
        pipe.on_undo();
        pipe.on_timeout();
        pipe.on_round(Rate::gbit(1), &linux);
        assert!(pipe.reached());
    }
}
