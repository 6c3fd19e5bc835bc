//! [`SampleTimes`]: when a node on the wire is sampled.

use std::time::Duration;

use tautline_base::Instant;

use crate::scenario::document::Times;

/// The sample times of a run, one after the other.
#[derive(Debug)]
pub(super) struct SampleTimes {
    next: Instant,
    /// The last.
    last: Instant,
    interval: Duration,
}

impl SampleTimes {
    /// Those of a run that begins at `origin`: one interval after it, two, and so on to its end.
    pub(super) fn new(origin: Instant, times: &Times) -> Self {
        let (duration, interval) = (times.duration.0, times.sample.0);
        let count = u32::try_from(duration.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX);
        Self {
            next: origin + interval,
            last: origin + interval * count,
            interval,
        }
    }

    /// The next sample time, if it has passed.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Instant> {
        let at = self.next;
        let is_due = at <= now && at <= self.last;
        is_due.then(|| {
            self.next += self.interval;
            at
        })
    }

    /// The next sample time; after the last, a time beyond the run.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// The last sample time.
    pub(super) fn last(&self) -> Instant {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::units::Time;

    #[test]
    fn times_are_one_interval_apart_and_end_with_the_run() {
        let times = Times {
            duration: Time(Duration::from_secs(1)),
            warm_up: Time(Duration::ZERO),
            repetitions: 1,
            sample: Time(Duration::from_millis(300)),
            ping_timeout: Time(Duration::from_secs(10)),
        };
        let origin = Instant::from_secs(5);
        let mut samples = SampleTimes::new(origin, &times);
        assert_eq!(samples.take_due(origin), None);
        let late = origin + Duration::from_secs(9);
        let due: Vec<_> = std::iter::from_fn(|| samples.take_due(late)).collect();
        assert_eq!(
            due,
            [300, 600, 900].map(|ms| origin + Duration::from_millis(ms))
        );
        assert_eq!(samples.last(), due[2]);
    }
}
