//! [`AckSchedule`]: when to acknowledge (RFC 9293 §3.8.6.3, RFC 5681 §4.2; Linux
//! `__tcp_ack_snd_check`).

use std::time::Duration;

use tautline_base::Instant;

use super::ack_delay::{AckDelay, Bounds, Wait};

/// Most segments acknowledged at once at the start of a connection and after a duplicate, so that the
/// peer's slow start is not held back (Linux `TCP_MAX_QUICKACKS`).
pub(super) const QUICK_ACKS: u8 = 16;
/// The same where the window offers less than two segments (Linux `tcp_incr_quickack`).
pub(super) const LEAST_QUICK_ACKS: u8 = 2;
/// Pure acknowledgments that one arrival, one timer or one read may cause, whatever the state of
/// the connection: one reports the ECN codepoint of the SYN-ACK, one the current state.
const ANSWERS: u8 = 2;
/// Pushed segments after which even a connection that answers acknowledges what is read (Linux
/// `ICSK_ACK_PUSHED2`).
const PUSHES: u8 = 2;
/// Acknowledgments of segments beyond a hole that are never compressed: they trigger fast retransmit
/// (RFC 5681 §3.2).
const REPEATED: u8 = 3;

/// Acknowledgment that is owed to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Acknowledgment {
    /// Nothing.
    None,
    /// An acknowledgment by then at the latest.
    By(Instant),
    /// An acknowledgment now.
    Now,
}

/// Bounds for compressing the acknowledgments of segments out of order.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Compression {
    /// Most acknowledgments compressed into one.
    pub(in crate::tcp) most: u8,
    /// Deadline of the next acknowledgment.
    pub(in crate::tcp) by: Instant,
}

/// The acknowledgment owed, and how soon the next segments are acknowledged.
#[derive(Debug)]
pub(in crate::tcp) struct AckSchedule {
    owed: Acknowledgment,
    /// Number of segments still to be acknowledged at once.
    pub(super) quick: u8,
    /// Acknowledgments of segments beyond the present hole, up to [`REPEATED`].
    repeated: u8,
    /// Acknowledgments compressed since one left.
    compressed: u8,
    /// Pushed segments that came since an acknowledgment left, up to [`PUSHES`].
    pushed: u8,
    /// Data is answered soon, and the answer acknowledges it (Linux `inet_csk_in_pingpong_mode`).
    is_pingpong: bool,
    /// The acknowledgment owed leaves out the SACK block that the last segment began.
    pub(super) omits_last: bool,
    /// Pure acknowledgments that may leave before the next arrival, timer or read.
    answers: u8,
    delay: AckDelay,
}

impl Default for AckSchedule {
    fn default() -> Self {
        Self {
            owed: Acknowledgment::None,
            quick: QUICK_ACKS,
            repeated: 0,
            compressed: 0,
            pushed: 0,
            is_pingpong: false,
            omits_last: false,
            answers: ANSWERS,
            delay: AckDelay::default(),
        }
    }
}

impl AckSchedule {
    /// The acknowledgment owed.
    pub(in crate::tcp) fn owed(&self) -> Acknowledgment {
        self.owed
    }

    /// An acknowledgment is owed now. Only for callers that handle an event which [allows
    /// answers](Self::allow_answers): no timer sends an acknowledgment that may not leave.
    pub(in crate::tcp) fn owe_now(&mut self) {
        self.owed = Acknowledgment::Now;
    }

    /// A segment is acknowledged `at_once` or may `wait`, not longer than the one before it. If the
    /// time of that one comes soon, both are acknowledged now.
    pub(super) fn owe(&mut self, at_once: bool, wait: Wait) {
        self.owed = match self.owed {
            _ if at_once || self.is_quick() => Acknowledgment::Now,
            Acknowledgment::By(earlier) if earlier <= wait.soon && self.compressed == 0 => {
                Acknowledgment::Now
            }
            Acknowledgment::By(earlier) => Acknowledgment::By(earlier.min(wait.deadline)),
            Acknowledgment::None => Acknowledgment::By(wait.deadline),
            Acknowledgment::Now => Acknowledgment::Now,
        };
    }

    /// Segments are acknowledged at once.
    #[inline]
    fn is_quick(&self) -> bool {
        self.quick > 0 && !self.is_pingpong
    }

    /// Compresses the acknowledgment of a segment beyond a hole with others. Returns false if it
    /// leaves at once: one of the first three of the hole, which reveal the loss, or one in quick
    /// mode.
    pub(super) fn compress(&mut self, compression: Option<Compression>) -> bool {
        let Some(Compression { most, by }) = compression.filter(|_| !self.is_quick()) else {
            return false;
        };
        if self.repeated < REPEATED {
            self.repeated += 1;
            return false;
        }
        if self.compressed >= most || self.owed == Acknowledgment::Now {
            return false;
        }
        self.compressed += 1;
        self.owed = match self.owed {
            Acknowledgment::By(deadline) => Acknowledgment::By(deadline.min(by)),
            _ => Acknowledgment::By(by),
        };
        true
    }

    /// A segment that came in order is pushed.
    #[inline]
    pub(super) fn note_push(&mut self, is_pushed: bool) {
        self.pushed = (self.pushed + u8::from(is_pushed)).min(PUSHES);
    }

    /// The acknowledgment of a pushed segment is delayed, though no answer will carry it.
    pub(super) fn delays_push(&self) -> bool {
        let most = if self.is_pingpong { PUSHES - 1 } else { 0 };
        self.pushed > most && matches!(self.owed, Acknowledgment::By(_))
    }

    /// Data leaves at `now`: it is an answer if data has come within the delay of an acknowledgment (Linux
    /// `tcp_event_data_sent`).
    pub(in crate::tcp) fn sent_data(&mut self, bounds: Bounds, now: Instant) {
        self.is_pingpong |= self.delay.is_recent(bounds, now);
    }

    /// The peer needs acknowledgments before an answer (Linux `tcp_enter_quickack_mode`).
    pub(in crate::tcp) fn end_pingpong(&mut self) {
        self.is_pingpong = false;
    }

    /// A hole is filled: the acknowledgments beyond the next one count from zero.
    pub(super) fn on_progress(&mut self) {
        self.repeated = 0;
    }

    /// Compressed acknowledgments wait to be sent: they report SACK blocks, which no data carries.
    pub(in crate::tcp) fn has_compressed(&self) -> bool {
        self.compressed > 0
    }

    /// The next `segments` segments are acknowledged at once.
    pub(in crate::tcp) fn acknowledge_quickly(&mut self, segments: u8) {
        self.quick = self.quick.max(segments);
    }

    /// The next segment is acknowledged at once.
    pub(super) fn acknowledge_next(&mut self) {
        self.quick |= 1;
    }

    /// Something happened that pure acknowledgments may answer.
    pub(in crate::tcp) fn allow_answers(&mut self) {
        self.answers = ANSWERS;
    }

    /// A pure acknowledgment may leave.
    pub(in crate::tcp) fn may_answer(&self) -> bool {
        self.answers > 0
    }

    /// A pure acknowledgment is owed now and may leave: it need not wait for data.
    pub(in crate::tcp) fn is_due(&self) -> bool {
        self.owed == Acknowledgment::Now && self.may_answer()
    }

    /// A pure acknowledgment leaves.
    pub(in crate::tcp) fn spend_answer(&mut self) {
        self.answers = self.answers.saturating_sub(1);
    }

    /// A segment with our current acknowledgment number left.
    pub(super) fn sent(&mut self) {
        self.owed = Acknowledgment::None;
        self.omits_last = false;
        self.compressed = 0;
        self.pushed = 0;
        self.quick = self.quick.saturating_sub(1);
    }

    /// An acknowledgment whose delay has expired is owed now. Unless it was compressed, no data
    /// carried it in time, so the delay adapts.
    pub(in crate::tcp) fn on_deadline(&mut self, bounds: Bounds, now: Instant) {
        if matches!(self.owed, Acknowledgment::By(deadline) if deadline <= now) {
            self.allow_answers();
            self.owe_now();
            if std::mem::take(&mut self.is_pingpong) {
                self.delay.restart(bounds);
            } else if self.compressed == 0 {
                self.delay.expired(bounds);
            }
        }
    }

    /// Delay for the acknowledgment of a segment that arrives now.
    #[inline]
    pub(in crate::tcp) fn delay_of_arrival(
        &mut self,
        payload: bool,
        bounds: Bounds,
        now: Instant,
    ) -> Duration {
        if payload {
            self.delay.arrived(now, bounds);
        }
        self.delay.delay(bounds)
    }

    /// The current delay of acknowledgments.
    pub(in crate::tcp) fn delay(&self, bounds: Bounds) -> Duration {
        self.delay.delay(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const BOUNDS: Bounds = Bounds {
        least: ms(40),
        most: ms(200),
        srtt: ms(100),
        rto: ms(300),
        tick: Duration::ZERO,
        silence: None,
    };

    /// Data arrives at `now`, in order. Returns what is owed then.
    fn arrive(acks: &mut AckSchedule, is_pushed: bool, now: Instant) -> Acknowledgment {
        let delay = acks.delay_of_arrival(true, BOUNDS, now);
        acks.note_push(is_pushed);
        acks.owe(false, BOUNDS.wait(now, delay));
        acks.owed()
    }

    /// Linux `tcp_event_data_sent`, `tcp_delack_timer_handler`: an answer within 40 ms delays the next
    /// acknowledgments, until one has waited in vain.
    #[test]
    fn a_connection_that_answers_delays_acknowledgments_until_one_waits_in_vain() {
        for (answered_after, is_delayed) in [(0, true), (39, true), (40, false)] {
            let (mut acks, begin) = (AckSchedule::default(), Instant::from_secs(1));
            // Nothing has come yet: no answer.
            acks.sent_data(BOUNDS, begin);
            assert_eq!(arrive(&mut acks, true, begin), Acknowledgment::Now);
            acks.sent();
            acks.sent_data(BOUNDS, begin + ms(answered_after));
            let next = begin + ms(100);
            let owed = arrive(&mut acks, true, next);
            if !is_delayed {
                assert_eq!(owed, Acknowledgment::Now, "after {answered_after} ms");
                continue;
            }
            let deadline = next + ms(40);
            assert_eq!(
                owed,
                Acknowledgment::By(deadline),
                "after {answered_after} ms"
            );
            acks.on_deadline(BOUNDS, deadline);
            assert_eq!(acks.delay(BOUNDS), ms(40), "it is not doubled");
            acks.sent();
            assert_eq!(arrive(&mut acks, true, deadline), Acknowledgment::Now);
        }
    }

    /// Linux `tcp_send_delayed_ack`: a gap of 28 ms makes the delay 48 ms, whose quarter reaches the end of the first.
    #[test]
    fn an_acknowledgment_whose_time_comes_soon_leaves_with_the_next_segment() {
        for (gap, is_soon) in [(27, false), (28, true), (39, true)] {
            let mut acks = AckSchedule {
                quick: 0,
                ..AckSchedule::default()
            };
            let begin = Instant::from_secs(1);
            let first = arrive(&mut acks, true, begin);
            assert_eq!(first, Acknowledgment::By(begin + ms(40)));
            let owed = arrive(&mut acks, true, begin + ms(gap));
            let expected = if is_soon { Acknowledgment::Now } else { first };
            assert_eq!(owed, expected, "after {gap} ms");
        }
    }

    /// The same in ticks of 10 ms: the delay of 40 ms ends with the fifth tick, and a quarter of it is one.
    #[test]
    fn the_time_that_comes_soon_is_counted_in_ticks() {
        let bounds = Bounds {
            tick: ms(10),
            ..BOUNDS
        };
        let begin = Instant::from_millis(1007);
        for (after, is_soon) in [(22, false), (23, true)] {
            let mut acks = AckSchedule {
                quick: 0,
                ..AckSchedule::default()
            };
            acks.owe(false, bounds.wait(begin, ms(40)));
            assert_eq!(acks.owed(), Acknowledgment::By(Instant::from_millis(1050)));
            acks.owe(false, bounds.wait(begin + ms(after), ms(40)));
            assert_eq!(
                acks.owed() == Acknowledgment::Now,
                is_soon,
                "after {after} ms"
            );
        }
    }

    #[test]
    fn a_shorter_delay_brings_the_acknowledgment_forward_and_a_compressed_one_is_not_hurried() {
        let begin = Instant::from_secs(1);
        let mut acks = AckSchedule {
            quick: 0,
            ..AckSchedule::default()
        };
        acks.owe(false, BOUNDS.wait(begin, ms(200)));
        acks.owe(false, BOUNDS.wait(begin, ms(40)));
        assert_eq!(acks.owed(), Acknowledgment::By(begin + ms(40)));
        acks.compressed = 1;
        acks.owe(false, BOUNDS.wait(begin + ms(39), ms(40)));
        assert_eq!(acks.owed(), Acknowledgment::By(begin + ms(40)));
    }

    /// Linux `tcp_cleanup_rbuf`, `tcp_enter_quickack_mode`.
    #[test]
    fn a_connection_that_answers_acknowledges_a_second_push_and_a_duplicate() {
        let (mut acks, now) = (AckSchedule::default(), Instant::from_secs(1));
        arrive(&mut acks, false, now);
        acks.sent();
        acks.sent_data(BOUNDS, now);
        arrive(&mut acks, true, now);
        assert!(!acks.delays_push(), "an answer may carry it");
        arrive(&mut acks, true, now);
        assert!(acks.delays_push());
        acks.sent();
        acks.end_pingpong();
        assert_eq!(arrive(&mut acks, false, now), Acknowledgment::Now);
    }

    /// The first acknowledgments beyond a hole leave at once, those beyond the next hole too.
    #[test]
    fn each_hole_has_its_own_first_acknowledgments() {
        let mut acks = AckSchedule {
            quick: 0,
            ..AckSchedule::default()
        };
        let rule = || {
            Some(Compression {
                most: 44,
                by: Instant::from_secs(1),
            })
        };
        let mut compressed = || -> Vec<bool> { (0..4).map(|_| acks.compress(rule())).collect() };
        let first = compressed();
        assert_eq!(first, [false, false, false, true]);
        assert_eq!(compressed(), [true; 4]);
        acks.sent();
        acks.on_progress();
        let next: Vec<bool> = (0..4).map(|_| acks.compress(rule())).collect();
        assert_eq!(next, first);
    }
}
