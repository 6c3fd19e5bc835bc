//! [`Episode`]: one reduction per window, however many congestion signals the window brings.
//!
//! RFC 5681 §3.1 (a repeated timeout holds `ssthresh`), RFC 6582, and Linux: a second signal during
//! the recovery of the same window does not cut again, and after a timeout the window grows by slow
//! start while the loss is still being repaired.

use crate::controller::{Ack, CongestionState, Signal};

/// State between a congestion signal and the end of its recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Episode {
    /// No episode.
    Open,
    /// The window was cut and is held until the recovery ends.
    Reduced { by: Signal },
    /// The retransmission timer expired. `progress`: data was delivered since.
    TimedOut { progress: bool },
}

impl Episode {
    /// True if `signal` begins an episode, which reduces `ssthresh`.
    pub(crate) fn on_signal(&mut self, signal: Signal) -> bool {
        let new = match *self {
            Self::Open | Self::TimedOut { progress: true } => true,
            // The transport reports each episode once, so a second signal of the same kind begins
            // another one, even without an acknowledgment in between.
            Self::Reduced { by } => by == signal,
            Self::TimedOut { progress: false } => signal == Signal::Loss,
        };
        match signal {
            Signal::Timeout => *self = Self::TimedOut { progress: false },
            _ if new => *self = Self::Reduced { by: signal },
            _ => {}
        }
        new
    }

    /// True if the window may grow.
    #[inline]
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> bool {
        if ack.state == CongestionState::Open {
            *self = Self::Open;
            return true;
        }
        match self {
            Self::Open | Self::Reduced { .. } => false,
            Self::TimedOut { progress } => {
                *progress |= ack.acked.get() > 0;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::{Bytes, Instant};

    #[test]
    fn another_kind_of_signal_in_the_same_window_does_not_cut_again() {
        for (first, second) in [
            (Signal::Loss, Signal::Ce),
            (Signal::Ce, Signal::Loss),
            (Signal::Loss, Signal::Timeout),
        ] {
            let mut episode = Episode::Open;
            assert!(episode.on_signal(first));
            assert!(!episode.on_signal(second), "{second:?} after {first:?}");
        }
    }

    #[test]
    fn a_repeated_timeout_holds_the_threshold_until_something_was_delivered() {
        let mut episode = Episode::Open;
        assert!(episode.on_signal(Signal::Timeout));
        assert!(!episode.on_signal(Signal::Timeout));
        episode = Episode::TimedOut { progress: true };
        assert!(episode.on_signal(Signal::Timeout));
    }

    #[test]
    fn a_delivery_after_a_timeout_is_progress_and_an_empty_acknowledgment_is_not() {
        let mut episode = Episode::TimedOut { progress: false };
        for (acked, progress) in [(0, false), (1, true)] {
            let mut ack = Ack::new(Instant::ZERO, Bytes::new(acked), Bytes::ZERO);
            ack.state = CongestionState::Loss;
            assert!(episode.on_ack(&ack), "the window grows by slow start");
            assert_eq!(episode, Episode::TimedOut { progress });
        }
    }

    #[test]
    fn a_mark_during_a_timeout_leaves_slow_start_going() {
        let mut episode = Episode::TimedOut { progress: false };
        assert!(!episode.on_signal(Signal::Ce));
        assert_eq!(episode, Episode::TimedOut { progress: false });
    }

    #[test]
    fn every_episode_the_transport_reports_cuts() {
        let mut episode = Episode::Open;
        assert!(episode.on_signal(Signal::Loss));
        assert!(episode.on_signal(Signal::Loss));
    }
}
