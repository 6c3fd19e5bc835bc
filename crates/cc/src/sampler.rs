//! Delivery-rate sampling (draft-cheng-iccrg-delivery-rate-estimation; Linux `net/ipv4/tcp_rate.c`).
//!
//! Every segment carries a copy of the connection's delivery state at its transmission. When it is
//! delivered, the difference to the present state is a sample: bytes delivered over an interval. The
//! interval is the longer of the flight's send time and its acknowledgment time, so aggregated
//! acknowledgments do not inflate the rate.

use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

use crate::controller::Loss;

/// One delivery-rate sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Delivered over the interval.
    pub delivered: Bytes,
    /// The interval: the longer of the send and the acknowledgment phase.
    pub interval: Duration,
    /// `delivered / interval`.
    pub rate: Rate,
    /// The flight was limited by the application: the path may carry more.
    pub app_limited: bool,
    /// Total delivered when the newest acknowledged segment was sent (round counting).
    pub prior_delivered: Bytes,
    /// In flight when that segment was sent, itself included.
    pub sent_in_flight: Bytes,
    /// Lost between its transmission and now.
    pub lost: Bytes,
}

/// State per segment, kept in the transport's segment record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRate {
    /// Total delivered at transmission.
    pub delivered: Bytes,
    /// Time at which that total was reached.
    pub delivered_at: Instant,
    /// Departure of the first segment of the flight.
    pub first_sent_at: Instant,
    /// Departure of this segment.
    pub sent_at: Instant,
    /// In flight after it was sent, itself included.
    pub in_flight: Bytes,
    /// Total lost at transmission.
    pub lost: Bytes,
    /// The application limited the connection at that time.
    pub app_limited: bool,
}

impl SentRate {
    /// The same, with no time later than `now`: the segment departed before its stamp.
    #[must_use]
    pub fn departed_by(mut self, now: Instant) -> Self {
        for at in [
            &mut self.delivered_at,
            &mut self.first_sent_at,
            &mut self.sent_at,
        ] {
            *at = now.min(*at);
        }
        self
    }
}

/// State per connection.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    delivered: Bytes,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Total delivered at the end of the flight that the application limited.
    app_limited_until: Option<Bytes>,
    lost: Bytes,
}

/// The last-sent segment among those that one acknowledgment delivers. Each acknowledgment begins
/// with an empty one.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewestDelivered(Option<SentRate>);

impl Sampler {
    /// A segment is sent or retransmitted, to depart at `departure` (the pacer's time stamp, not the
    /// time of the call); `in_flight` includes it. `first`: no other segment is unacknowledged.
    /// Returns the state for the segment record.
    pub fn on_send(&mut self, departure: Instant, in_flight: Bytes, first: bool) -> SentRate {
        if first {
            self.first_sent_at = departure;
            self.delivered_at = departure;
        }
        SentRate {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            sent_at: departure,
            in_flight,
            lost: self.lost,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// No segment departs later than `now`, whatever its stamp said; the transport treats those in its
    /// records likewise ([`SentRate::departed_by`]).
    pub fn depart_by(&mut self, now: Instant) {
        self.first_sent_at = self.first_sent_at.min(now);
        self.delivered_at = self.delivered_at.min(now);
    }

    /// A segment of `bytes` bytes was acknowledged or selectively acknowledged for the first time.
    /// Call once per segment, in sequence order, before [`on_ack`](Self::on_ack).
    pub fn on_delivered(
        &mut self,
        newest: &mut NewestDelivered,
        sent: &SentRate,
        bytes: Bytes,
        now: Instant,
    ) {
        self.delivered += bytes;
        self.delivered_at = now;
        if newest.0.is_none_or(|newest| sent.sent_at >= newest.sent_at) {
            newest.0 = Some(*sent);
            self.first_sent_at = sent.sent_at;
        }
    }

    /// A segment of `bytes` bytes was found lost. Returns the argument of
    /// [`Controller::on_lost`](crate::Controller::on_lost).
    pub fn on_lost(&mut self, sent: &SentRate, bytes: Bytes, now: Instant) -> Loss {
        self.lost += bytes;
        Loss {
            now,
            bytes,
            sent_in_flight: sent.in_flight,
            lost_since: self.lost.saturating_sub(sent.lost),
            prior_delivered: sent.delivered,
            app_limited: sent.app_limited,
        }
    }

    /// Returns the sample of an acknowledgment, after all its segments were reported. `None` if it
    /// delivered nothing, or if the interval is shorter than `min_rtt`, which only an
    /// acknowledgment of an earlier copy can cause.
    pub fn on_ack(
        &mut self,
        newest: NewestDelivered,
        now: Instant,
        min_rtt: Duration,
    ) -> Option<RateSample> {
        if self
            .app_limited_until
            .is_some_and(|end| self.delivered > end)
        {
            self.app_limited_until = None;
        }
        let sent = newest.0?;
        let send_phase = sent.sent_at - sent.first_sent_at;
        let ack_phase = now - sent.delivered_at;
        let interval = send_phase.max(ack_phase);
        if interval.is_zero() || interval < min_rtt {
            return None;
        }
        let delivered = self.delivered.saturating_sub(sent.delivered);
        Some(RateSample {
            delivered,
            interval,
            rate: Rate::from_amount(delivered, interval),
            app_limited: sent.app_limited,
            prior_delivered: sent.delivered,
            sent_in_flight: sent.in_flight,
            lost: self.lost.saturating_sub(sent.lost),
        })
    }

    /// Marks samples as app-limited until the present flight is delivered. Call when the application
    /// has no more data and the host holds no data of the connection.
    pub fn mark_app_limited(&mut self, in_flight: Bytes) {
        self.app_limited_until = Some(self.delivered + in_flight);
    }

    /// Total delivered so far.
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// The application limits the connection now.
    pub fn app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use core::mem::take;

    use super::*;
    use alloc::vec::Vec;

    const SEGMENT: Bytes = Bytes::new(1000);
    const RTT: Duration = Duration::from_millis(10);

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Ten segments, one per millisecond from `start`.
    fn flight(sampler: &mut Sampler, start: u64) -> Vec<SentRate> {
        (0..10)
            .map(|i| sampler.on_send(ms(start + i), SEGMENT, i == 0 && start == 0))
            .collect()
    }

    #[test]
    fn steady_delivery_measures_the_rate() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        let first = flight(&mut sampler, 0);
        let mut second = Vec::new();
        for (i, sent) in (0..).zip(&first) {
            sampler.on_delivered(&mut newest, sent, SEGMENT, ms(10 + i));
            sampler.on_ack(take(&mut newest), ms(10 + i), RTT);
            second.push(sampler.on_send(ms(10 + i), SEGMENT, false));
        }
        // Segment 10 left when one segment was delivered, at 10 ms, and arrives when ten are, plus
        // itself.
        sampler.on_delivered(&mut newest, &second[0], SEGMENT, ms(20));
        let sample = sampler.on_ack(take(&mut newest), ms(20), RTT).unwrap();
        assert_eq!(sample.delivered, SEGMENT * 10);
        assert_eq!(sample.interval, Duration::from_millis(10));
        assert_eq!(sample.rate, Rate::bytes_per_sec(1_000_000));
        assert_eq!(sample.prior_delivered, SEGMENT);
        assert!(!sample.app_limited);
    }

    #[test]
    fn bunched_acknowledgments_do_not_exceed_the_send_rate() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        let sent = flight(&mut sampler, 0);
        // The first acknowledgment restarts both clocks, the other nine come at once.
        sampler.on_delivered(&mut newest, &sent[0], SEGMENT, ms(19));
        sampler.on_ack(take(&mut newest), ms(19), RTT);
        for segment in &sent[1..] {
            sampler.on_delivered(&mut newest, segment, SEGMENT, ms(19));
        }
        let sample = sampler.on_ack(take(&mut newest), ms(19), RTT).unwrap();
        assert_eq!(sample.delivered, SEGMENT * 10);
        assert_eq!(
            sample.interval,
            Duration::from_millis(19),
            "acknowledgment phase since the flight began"
        );
    }

    #[test]
    fn the_send_phase_counts_when_it_is_the_longer_one() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        let first = sampler.on_send(ms(0), SEGMENT, true);
        sampler.on_delivered(&mut newest, &first, SEGMENT, ms(10));
        sampler.on_ack(take(&mut newest), ms(10), RTT);
        // Paced far apart, while the acknowledgment clock stood at 10 ms.
        let late = sampler.on_send(ms(60), SEGMENT, false);
        let mut sampler = Sampler {
            delivered_at: ms(60),
            ..sampler
        };
        sampler.on_delivered(&mut newest, &late, SEGMENT, ms(61));
        let sample = sampler.on_ack(take(&mut newest), ms(61), RTT).unwrap();
        assert_eq!(sample.interval, Duration::from_millis(60));
    }

    #[test]
    fn an_interval_below_the_lowest_rtt_gives_no_sample() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        let sent = sampler.on_send(ms(0), SEGMENT, true);
        sampler.on_delivered(&mut newest, &sent, SEGMENT, ms(9));
        assert_eq!(sampler.on_ack(take(&mut newest), ms(9), RTT), None);
        assert_eq!(
            sampler.delivered(),
            SEGMENT,
            "delivered counts all the same"
        );
    }

    #[test]
    fn an_acknowledgment_of_nothing_gives_no_sample() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        sampler.on_send(ms(0), SEGMENT, true);
        assert_eq!(sampler.on_ack(take(&mut newest), ms(50), RTT), None);
    }

    #[test]
    fn the_newest_segment_of_an_acknowledgment_gives_the_sample() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        let old = sampler.on_send(ms(0), SEGMENT, true);
        let lost = sampler.on_send(ms(1), SEGMENT, false);
        sampler.on_delivered(&mut newest, &old, SEGMENT, ms(10));
        sampler.on_ack(take(&mut newest), ms(10), RTT);
        let again = sampler.on_send(ms(30), SEGMENT, false);
        sampler.on_delivered(&mut newest, &again, SEGMENT, ms(40));
        sampler.on_delivered(&mut newest, &lost, SEGMENT, ms(40));
        assert_eq!(
            sampler
                .on_ack(take(&mut newest), ms(40), RTT)
                .unwrap()
                .prior_delivered,
            SEGMENT
        );
    }

    #[test]
    fn a_flight_limited_by_the_application_is_marked_and_no_later_one() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        let before = sampler.on_send(ms(0), SEGMENT, true);
        sampler.mark_app_limited(SEGMENT);
        let limited = sampler.on_send(ms(1), SEGMENT, false);
        for (sent, at, app_limited) in [(before, 10, false), (limited, 20, true)] {
            sampler.on_delivered(&mut newest, &sent, SEGMENT, ms(at));
            assert_eq!(
                sampler
                    .on_ack(take(&mut newest), ms(at), RTT)
                    .unwrap()
                    .app_limited,
                app_limited
            );
        }
        assert!(
            !sampler.on_send(ms(21), SEGMENT, true).app_limited,
            "the marked flight is delivered"
        );
    }

    #[test]
    fn idle_time_does_not_lengthen_the_interval() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        let first = sampler.on_send(ms(0), SEGMENT, true);
        sampler.on_delivered(&mut newest, &first, SEGMENT, ms(10));
        sampler.on_ack(take(&mut newest), ms(10), RTT);
        let after = sampler.on_send(ms(60_000), SEGMENT, true);
        sampler.on_delivered(&mut newest, &after, SEGMENT, ms(60_010));
        assert_eq!(
            sampler
                .on_ack(take(&mut newest), ms(60_010), RTT)
                .unwrap()
                .interval,
            RTT
        );
    }

    #[test]
    fn a_loss_and_a_sample_count_losses_since_their_segment_was_sent() {
        let (mut sampler, mut newest) = (Sampler::default(), NewestDelivered::default());
        let sent: Vec<_> = (0..4)
            .map(|i| sampler.on_send(ms(i), SEGMENT * (i + 1), i == 0))
            .collect();
        let first = sampler.on_lost(&sent[0], SEGMENT, ms(10));
        assert_eq!((first.lost_since, first.sent_in_flight), (SEGMENT, SEGMENT));
        let second = sampler.on_lost(&sent[1], SEGMENT, ms(10));
        assert_eq!(
            (second.lost_since, second.sent_in_flight),
            (SEGMENT * 2, SEGMENT * 2)
        );
        let after = sampler.on_send(ms(11), SEGMENT * 3, false);
        assert_eq!(
            sampler.on_lost(&after, SEGMENT, ms(30)).lost_since,
            SEGMENT,
            "earlier losses are not its concern"
        );
        sampler.on_delivered(&mut newest, &sent[3], SEGMENT, ms(31));
        let sample = sampler.on_ack(take(&mut newest), ms(31), RTT).unwrap();
        assert_eq!(
            (sample.lost, sample.sent_in_flight),
            (SEGMENT * 3, SEGMENT * 4)
        );
    }
}
