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
    Reduced {
        by: Signal,
        /// A mark or a local drop since a loss has cut the window.
        since: Option<Signal>,
    },
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
            Self::Reduced { by, .. } => by == signal,
            Self::TimedOut { progress: false } => signal == Signal::Loss,
        };
        match (signal, *self) {
            (Signal::Timeout, _) => *self = Self::TimedOut { progress: false },
            _ if new => *self = Self::reduced(signal),
            (_, Self::Reduced { by, .. }) if by == Signal::Loss => {
                *self = Self::Reduced {
                    by,
                    since: Some(signal),
                };
            }
            // The episode goes on as one of this kind, so that the next signal of the kind is news.
            (_, Self::Reduced { .. }) => *self = Self::reduced(signal),
            (_, Self::Open | Self::TimedOut { .. }) => {}
        }
        new
    }

    /// `signal` has cut the window.
    pub(crate) const fn reduced(signal: Signal) -> Self {
        Self::Reduced {
            by: signal,
            since: None,
        }
    }

    /// The mark or local drop that begins the next episode, with the acknowledgment that ended the
    /// recovery of a loss: the transport is in the `state` of such an episode. In the middle of the
    /// recovery it stays in that of a loss.
    #[inline]
    pub(crate) fn successor(&mut self, state: CongestionState) -> Option<Signal> {
        let Self::Reduced { since, .. } = self else {
            return None;
        };
        let signal = since.take().filter(|_| state == CongestionState::Cwr)?;
        *self = Self::reduced(signal);
        Some(signal)
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

    /// A mark cuts, a loss of the same window does not, and the recovery of that loss ends with the
    /// acknowledgment that begins the next one.
    #[test]
    fn a_signal_of_the_next_window_cuts_whatever_began_the_episode() {
        for (first, second) in [
            (Signal::Ce, Signal::Loss),
            (Signal::LocalDrop, Signal::Loss),
            (Signal::LocalDrop, Signal::Ce),
        ] {
            let mut episode = Episode::Open;
            let cuts = [first, second, second, second].map(|signal| episode.on_signal(signal));
            assert_eq!(
                cuts,
                [true, false, true, true],
                "{second:?} after {first:?}"
            );
        }
    }

    #[test]
    fn a_mark_at_the_end_of_a_recovery_begins_an_episode_and_one_within_it_does_not() {
        for (state, successor) in [
            (CongestionState::Cwr, Some(Signal::Ce)),
            (CongestionState::Recovery, None),
            (CongestionState::Open, None),
        ] {
            let mut episode = Episode::reduced(Signal::Loss);
            assert!(!episode.on_signal(Signal::Ce));
            assert_eq!(episode.successor(state), successor, "{state:?}");
            assert_eq!(episode.successor(CongestionState::Cwr), None, "once");
            assert_eq!(episode.on_signal(Signal::Ce), successor.is_some());
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
