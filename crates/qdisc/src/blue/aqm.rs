//! [`Aqm`]: BLUE's probability, moved by what happens to a queue.

use core::time::Duration;

use tautline_base::Instant;

/// A probability that rises when the queue overflows and falls when it is empty, with a pause after
/// each move.
#[derive(Clone, Debug)]
pub struct Aqm {
    rise: f64,
    fall: f64,
    freeze: Duration,
    probability: f64,
    /// Time of the last change of the probability.
    moved: Option<Instant>,
    /// Since when the queue is empty, if it is.
    empty_since: Option<Instant>,
}

impl Aqm {
    /// BLUE with probability 0, which rises by `rise` and falls by `fall`, at most once in
    /// `freeze`.
    pub(super) fn new(rise: f64, fall: f64, freeze: Duration) -> Self {
        Self {
            rise,
            fall,
            freeze,
            probability: 0.0,
            moved: None,
            empty_since: None,
        }
    }

    /// The same probability with other steps.
    pub(super) fn with_steps(&self, rise: f64, fall: f64, freeze: Duration) -> Self {
        Self {
            rise,
            fall,
            freeze,
            ..self.clone()
        }
    }

    /// The probability with which an arriving packet is to be signaled.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// The queue overflowed, or is longer than it should be.
    pub(super) fn overflow(&mut self, now: Instant) {
        if self.may_move(now) {
            self.probability = (self.probability + self.rise).min(1.0);
            self.moved = Some(now);
        }
    }

    /// The queue has become empty, or still is.
    pub(super) fn empty(&mut self, now: Instant) {
        self.empty_since.get_or_insert(now);
        self.catch_up(now);
    }

    /// The queue is no longer empty.
    pub(super) fn fill(&mut self, now: Instant) {
        self.catch_up(now);
        self.empty_since = None;
    }

    /// Whether the last move is longer ago than the pause. A clock that stepped back does not
    /// prolong the pause.
    fn may_move(&mut self, now: Instant) -> bool {
        self.moved = self.moved.map(|moved| moved.min(now));
        self.moved.is_none_or(|moved| now - moved > self.freeze)
    }

    /// Lets the probability fall for the time that the queue was empty: when it became so, and
    /// after each pause since.
    fn catch_up(&mut self, now: Instant) {
        let Some(since) = self.empty_since.map(|since| since.min(now)) else {
            return;
        };
        self.empty_since = Some(since);
        // A probability of zero does not change, and does not hold off the next rise.
        if self.probability <= 0.0 || self.fall <= 0.0 || !self.may_move(now) {
            return;
        }
        let needed = libm::ceil(self.probability / self.fall) as u128;
        // The pause must be over, not just ending: hence the nanosecond.
        let pause = self
            .freeze
            .saturating_add(Duration::from_nanos(1))
            .as_nanos();
        let nanos = u64::try_from(pause).unwrap_or(u64::MAX);
        let first = self.moved.map_or(since, |moved| {
            since.max(moved + Duration::from_nanos(nanos))
        });
        let further = ((now - first).as_nanos() / pause).min(needed - 1);
        self.probability = (self.probability - self.fall * (further + 1) as f64).max(0.0);
        self.moved =
            Some(first + Duration::from_nanos(u64::try_from(further * pause).unwrap_or(u64::MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FREEZE: Duration = Duration::from_millis(100);

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn aqm() -> Aqm {
        Aqm::new(0.02, 0.002, FREEZE)
    }

    fn permille(aqm: &Aqm) -> u64 {
        (aqm.probability() * 1000.0).round() as u64
    }

    /// Feng et al., fig. 2: at most one step in a freeze time, whatever happens.
    #[test]
    fn it_rises_once_in_a_freeze_time() {
        let mut aqm = aqm();
        for (millis, expected) in [
            (0, 20),
            (1, 20),
            (99, 20),
            (100, 20),
            (101, 40),
            (150, 40),
            (202, 60),
            (1000, 80),
        ] {
            aqm.overflow(ms(millis));
            assert_eq!(permille(&aqm), expected, "at {millis} ms");
        }
    }

    #[test]
    fn it_falls_when_empty_and_as_long_as_it_is() {
        let mut aqm = aqm();
        aqm.overflow(ms(0));
        aqm.empty(ms(50));
        assert_eq!(permille(&aqm), 20, "frozen");
        for (millis, expected) in [(100, 20), (101, 18), (150, 18), (202, 16), (920, 2)] {
            aqm.empty(ms(millis));
            assert_eq!(permille(&aqm), expected, "at {millis} ms");
        }
        aqm.fill(ms(925));
        assert_eq!(permille(&aqm), 2);
        aqm.fill(ms(60_000));
        assert_eq!(permille(&aqm), 2, "it was not empty");
        aqm.empty(ms(60_000));
        assert_eq!(permille(&aqm), 0);
        aqm.empty(ms(70_000));
        assert_eq!(permille(&aqm), 0, "no further");
    }

    #[test]
    fn only_the_time_it_was_empty_counts() {
        let mut aqm = aqm();
        aqm.overflow(ms(0));
        aqm.empty(ms(1050));
        assert_eq!(permille(&aqm), 18);
        aqm.empty(ms(60_050));
        assert_eq!(permille(&aqm), 0);
        aqm.overflow(ms(60_051));
        assert_eq!(
            permille(&aqm),
            20,
            "what stood at zero was not moved, so nothing is frozen"
        );
    }

    #[test]
    fn it_never_exceeds_one() {
        let mut aqm = aqm().with_steps(0.4, 0.4, FREEZE);
        (1..9).for_each(|step| aqm.overflow(ms(step * 200)));
        assert_eq!(permille(&aqm), 1000);
    }

    /// A leap and the step back from it cost one pause, not the time of the leap.
    #[test]
    fn a_clock_that_steps_back_does_not_freeze_it() {
        let mut aqm = aqm();
        for (now, expected) in [
            (u64::MAX, 20),
            (1_000_000, 20),
            (1_000_000 + 100_000_001, 40),
        ] {
            aqm.overflow(Instant::from_nanos(now));
            assert_eq!(permille(&aqm), expected);
        }
    }

    proptest! {
        /// Looking often or once in the end comes to the same, when the queue is empty.
        #[test]
        fn the_closed_form_is_that_of_many_steps(from in 0..500u64, looks in proptest::collection::vec(0..90u64, 1..60)) {
            let (mut often, mut once) = (aqm().with_steps(1.0, 0.01, FREEZE), aqm().with_steps(1.0, 0.01, FREEZE));
            for aqm in [&mut often, &mut once] {
                aqm.overflow(ms(200));
                aqm.empty(ms(200 + from));
            }
            let mut now = 200 + from;
            for look in looks {
                now += look;
                often.empty(ms(now));
            }
            once.empty(ms(now));
            prop_assert_eq!(permille(&often), permille(&once));
        }
    }
}
