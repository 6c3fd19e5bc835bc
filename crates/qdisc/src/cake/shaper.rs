//! [`Shaper`]: holds the link at its rate by clocks that run ahead of time (`net/sched/sch_cake.c`
//! `cake_advance_shaper`).
//!
//! A clock is advanced by the time each packet takes; the link is closed while it lies in the
//! future. It is not moved to `now` while packets are queued, so that late wake-ups are made up
//! for; it starts anew when the queue has been empty.

use core::time::Duration;

use tautline_base::{Instant, Rate};

use super::rate::Pace;

/// The clocks of the whole link.
#[derive(Clone, Debug, Default)]
pub(super) struct Shaper {
    pace: Option<Pace>,
    next: Instant,
    /// Runs at two thirds of the rate and counts only what is delivered: with drops charged too
    /// (`ingress`), no more than a third of the link is lost to them.
    failsafe: Instant,
}

impl Shaper {
    /// Sets the rate; zero is no limit. The clocks go on.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.pace = Pace::new(rate);
    }

    /// Whether there is a rate to keep.
    pub(super) fn is_limited(&self) -> bool {
        self.pace.is_some()
    }

    /// Departure time of the next packet.
    pub(super) fn opens_at(&self) -> Instant {
        self.next.min(self.failsafe)
    }

    /// Whether it holds packets back.
    pub(super) fn is_closed(&self, now: Instant) -> bool {
        self.opens_at() > now
    }

    /// The first packet after a time without any: what was not used is lost.
    pub(super) fn restart(&mut self, now: Instant) {
        if self.next < now {
            self.next = now;
            self.failsafe = now;
        }
    }

    /// The clock stepped back by `step`: what was to leave leaves that much earlier.
    pub(super) fn step_back(&mut self, step: Duration) {
        self.next = self.next - step;
        self.failsafe = self.failsafe - step;
    }

    /// Charges a packet that weighs `len`.
    pub(super) fn advance(&mut self, len: u32, dropped: bool) {
        let Some(pace) = self.pace else { return };
        let time = pace.time(len);
        self.next += Duration::from_nanos(time);
        if !dropped {
            self.failsafe += Duration::from_nanos(time + (time >> 1));
        }
    }
}

/// The clock of one tin, which says whether the tin is below its share. It holds nothing back.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    pub(super) pace: Option<Pace>,
    pub(super) next: Instant,
}

impl Clock {
    /// The first packet after a time without any.
    pub(super) fn restart(&mut self, now: Instant) {
        self.next = self.next.max(now);
    }

    /// The clock stepped back by `step`.
    pub(super) fn step_back(&mut self, step: Duration) {
        self.next = self.next - step;
    }

    /// Charges a packet that weighs `len`. A tin that was served above its share owes no more than
    /// that one packet.
    pub(super) fn advance(&mut self, len: u32, now: Instant) {
        let time = Duration::from_nanos(self.pace.map_or(0, |pace| pace.time(len)));
        self.next = if self.next < now {
            self.next + time
        } else {
            self.next.max(now + time)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    /// A full frame takes 121.12 µs at 100 Mbit/s.
    #[test]
    fn the_link_is_closed_for_as_long_as_the_packet_takes() {
        let mut shaper = Shaper::default();
        shaper.set_rate(Rate::mbit(100));
        shaper.restart(us(1000));
        assert!(!shaper.is_closed(us(1000)));
        shaper.advance(1514, false);
        assert_eq!(shaper.opens_at(), Instant::from_nanos(1_121_120));
        assert!(shaper.is_closed(us(1121)) && !shaper.is_closed(us(1122)));
        shaper.restart(us(1100));
        assert_eq!(
            shaper.opens_at(),
            Instant::from_nanos(1_121_120),
            "a clock ahead of time goes on"
        );
        shaper.set_rate(Rate::ZERO);
        shaper.advance(1514, false);
        assert!(!shaper.is_limited() && shaper.opens_at() == Instant::from_nanos(1_121_120));
    }

    /// With dropped packets charged, two thirds of the rate remain for the delivered ones.
    #[test]
    fn the_failsafe_keeps_two_thirds() {
        let mut shaper = Shaper::default();
        shaper.set_rate(Rate::mbit(100));
        shaper.restart(us(1000));
        let (mut delivered, mut now) = (0, us(1000));
        while now < us(1_001_000) {
            while shaper.is_closed(now) {
                now += Duration::from_micros(1);
            }
            for _ in 0..10 {
                shaper.advance(1514, true);
            }
            shaper.advance(1514, false);
            delivered += 1;
        }
        assert!((5502..=5506).contains(&delivered), "{delivered} of 8256");
    }

    #[test]
    fn a_tin_owes_one_packet_at_most() {
        let mut clock = Clock {
            pace: Pace::new(Rate::mbit(100)),
            next: us(0),
        };
        clock.restart(us(1000));
        assert_eq!(clock.next, us(1000));
        for _ in 0..5 {
            clock.advance(1514, us(1000));
            assert_eq!(clock.next, Instant::from_nanos(1_121_120));
        }
        clock.advance(1514, us(1200));
        assert_eq!(
            clock.next,
            Instant::from_nanos(1_242_240),
            "behind, it catches up"
        );
        let mut free = Clock::default();
        free.advance(1514, us(5));
        assert_eq!(free.next, us(0));
        free.advance(1514, us(0));
        assert_eq!(free.next, us(0));
    }

    #[test]
    fn the_end_of_time_is_survived() {
        let mut shaper = Shaper::default();
        shaper.set_rate(Rate::bytes_per_sec(1));
        shaper.restart(Instant::from_nanos(u64::MAX - 1));
        shaper.advance(u32::MAX, false);
        assert_eq!(shaper.opens_at(), Instant::from_nanos(u64::MAX));
    }
}
