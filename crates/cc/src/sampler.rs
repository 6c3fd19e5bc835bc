//! Delivery-rate sampling (draft-cheng-iccrg-delivery-rate-estimation; `tcp_rate.c` behaviour).

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
    app_limited_until: Option<Bytes>,
    newest: Option<SentRate>,
    newly_delivered_from: Bytes,
}
