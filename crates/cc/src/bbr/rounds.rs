//! [`Rounds`]: counts round trips by what had been delivered when the newest acknowledged segment
//! was sent.

use tautline_base::Bytes;

/// Packet-timed round trips. One ends when a segment sent after its beginning is delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// How many have begun.
    pub(super) count: u64,
    /// Delivered in all when the present one began.
    began_at: Bytes,
}

impl Rounds {
    /// A segment was delivered that left when `prior_delivered` was; by now `delivered` is. True if
    /// a round trip begins.
    pub(super) fn on_sample(&mut self, prior_delivered: Bytes, delivered: Bytes) -> bool {
        let begins = prior_delivered >= self.began_at;
        if begins {
            self.count += 1;
            self.began_at = delivered;
        }
        begins
    }

    /// Begins the present one anew.
    pub(super) fn restart(&mut self, delivered: Bytes) {
        self.began_at = delivered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_what_was_sent_after_its_beginning() {
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
                rounds.on_sample(Bytes::new(prior), Bytes::new(delivered)),
                begins,
                "{prior} of {delivered}"
            );
        }
        assert_eq!(rounds.count, 3);
        rounds.restart(Bytes::new(70));
        assert!(!rounds.on_sample(Bytes::new(60), Bytes::new(80)));
    }
}
