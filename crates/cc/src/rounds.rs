//! Round trips counted by deliveries: [`Round`], one flight; [`Rounds`], all of them in turn.

use tautline_base::Bytes;

use crate::controller::Ack;

/// The data in flight after an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Total delivered at its end.
    end: Bytes,
}

impl Round {
    pub(crate) fn starting_at(ack: &Ack) -> Self {
        Self {
            end: ack.delivered + ack.in_flight,
        }
    }

    /// All of it is delivered.
    pub(crate) fn is_over(&self, ack: &Ack) -> bool {
        ack.delivered >= self.end
    }

    /// All of it is delivered, and data sent later as well.
    pub(crate) fn is_passed(&self, ack: &Ack) -> bool {
        ack.delivered > self.end
    }
}

/// Packet-timed round trips (draft-ietf-ccwg-bbr "Tracking Packet-Timed Round
/// Trips", Linux `bbr_update_bw`): one ends when a
/// segment sent after its beginning is delivered, however long that takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    /// Number of round trips that have begun.
    pub(crate) count: u64,
    /// The present acknowledgment began one.
    pub(crate) started: bool,
    /// Total delivered at the beginning of the present one.
    begin: Bytes,
}

impl Rounds {
    /// A segment was delivered that was sent at a total of `prior_delivered`; the total is now
    /// `delivered`. Returns whether a round trip begins.
    #[inline]
    pub(crate) fn on_sample(&mut self, prior_delivered: Option<Bytes>, delivered: Bytes) -> bool {
        self.started = prior_delivered.is_some_and(|prior| prior >= self.begin);
        if self.started {
            self.restart(delivered);
            self.count = self.count.saturating_add(1);
        }
        self.started
    }

    /// Restarts the present round trip.
    #[inline]
    pub(crate) fn restart(&mut self, delivered: Bytes) {
        self.begin = delivered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_data_sent_after_its_beginning() {
        let mut rounds = Rounds::default();
        let samples = [
            (0, 10, true),
            (0, 20, false),
            (9, 30, false),
            (10, 40, true),
            (39, 50, false),
            (40, 60, true),
        ];
        for (prior, delivered, begins) in samples {
            assert_eq!(
                rounds.on_sample(Some(Bytes::new(prior)), Bytes::new(delivered)),
                begins,
                "{prior} of {delivered}"
            );
        }
        assert_eq!(rounds.count, 3);
        rounds.restart(Bytes::new(70));
        assert!(!rounds.on_sample(Some(Bytes::new(60)), Bytes::new(80)));
    }
}
