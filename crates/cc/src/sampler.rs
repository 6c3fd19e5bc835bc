//! Delivery-rate sampling (draft-cheng-iccrg-delivery-rate-estimation; `tcp_rate.c` behaviour).
//!
//! Every segment carries away a copy of the connection's delivery state; when it is delivered, the difference between then
//! and now is a measurement: so much was delivered in so long. The interval is the longer of the time the flight took to
//! leave and the time its acknowledgements took to come, so bunched acknowledgements do not inflate the rate.

use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

/// One delivery-rate sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Delivered over the interval.
    pub delivered: Bytes,
    /// The interval: the longer of the send and the acknowledgement phase.
    pub interval: Duration,
    /// `delivered / interval`.
    pub rate: Rate,
    /// The flight was limited by the application: the path may carry more.
    pub app_limited: bool,
    /// Total delivered when the newest acknowledged segment was sent (round counting).
    pub prior_delivered: Bytes,
}

/// What the sampler wants remembered per segment; rides in the transport's segment record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRate {
    /// Total delivered at transmission.
    pub delivered: Bytes,
    /// When that total was reached.
    pub delivered_at: Instant,
    /// When the first segment of the flight was sent.
    pub first_sent_at: Instant,
    /// Departure of this segment.
    pub sent_at: Instant,
    /// The connection was limited by the application at that time.
    pub app_limited: bool,
}

/// The connection's side of the sampler.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    delivered: Bytes,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Total at which the flight that the application limited will have been delivered.
    app_limited_until: Option<Bytes>,
    /// Of the segments the current acknowledgement delivered, the one sent last.
    newest: Option<SentRate>,
}

impl Sampler {
    /// A segment is transmitted, or transmitted again, to depart at `departure` (the pacer's stamp, not the time of the
    /// call). `nothing_in_flight`: no segment is unacknowledged. Returns what the segment record must keep.
    pub fn on_send(&mut self, departure: Instant, nothing_in_flight: bool) -> SentRate {
        if nothing_in_flight {
            self.first_sent_at = departure;
            self.delivered_at = departure;
        }
        SentRate {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            sent_at: departure,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// A segment of `bytes` bytes was acknowledged or selectively acknowledged for the first time. Call once per segment, in
    /// sequence order, before [`on_ack`](Self::on_ack).
    pub fn on_delivered(&mut self, sent: &SentRate, bytes: Bytes, now: Instant) {
        self.delivered += bytes;
        self.delivered_at = now;
        if self
            .newest
            .is_none_or(|newest| sent.sent_at >= newest.sent_at)
        {
            self.newest = Some(*sent);
            self.first_sent_at = sent.sent_at;
        }
    }

    /// Every segment of one acknowledgement has been reported: the sample it gives. `None` if it delivered nothing, or if the
    /// interval is shorter than `min_rtt`, which only an acknowledgement of an earlier copy can cause.
    pub fn on_ack(&mut self, now: Instant, min_rtt: Duration) -> Option<RateSample> {
        if self
            .app_limited_until
            .is_some_and(|end| self.delivered > end)
        {
            self.app_limited_until = None;
        }
        let sent = self.newest.take()?;
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
        })
    }

    /// The application has nothing more to send and nothing of the connection waits in the host: what is sent until the
    /// present flight is delivered says nothing about the path's capacity.
    pub fn mark_app_limited(&mut self, in_flight: Bytes) {
        self.app_limited_until = Some(self.delivered + in_flight);
    }

    /// Total delivered so far.
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }
}
