//! [`Bounds`] that congestion sets: [`ShortTerm`] until the next probe, and a long-term one on the
//! flight.
//!
//! draft-ietf-ccwg-bbr "Updating the Model Upon Packet Loss". `None` is the draft's infinity.

use tautline_base::{Bytes, Rate};

use super::params::Config;
use super::{scale, scale_rate};

/// All bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Most bytes that a probe has shown to be safe in flight; `None` until one found a limit.
    pub(super) longterm: Option<Bytes>,
    pub(super) shortterm: ShortTerm,
}

/// Bounds by the latest congestion, until the next probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShortTerm {
    pub(super) bw: Option<Rate>,
    pub(super) inflight: Option<Bytes>,
}

impl ShortTerm {
    /// Cuts the bounds to the deliveries of a round with losses, but by no more than beta.
    pub(super) fn cut(
        &mut self,
        latest: (Rate, Bytes),
        max_bw: Rate,
        cwnd: Bytes,
        config: &Config,
    ) {
        let (bw, inflight) = (self.bw.unwrap_or(max_bw), self.inflight.unwrap_or(cwnd));
        self.bw = Some(latest.0.max(scale_rate(bw, config.beta)));
        self.inflight = Some(latest.1.max(scale(inflight, config.beta)));
    }
}

/// Looser of two bounds.
pub(super) fn looser<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    Some(one?.max(other?))
}

/// `value` within `bound`.
pub(super) fn bounded<T: Ord>(value: T, bound: Option<T>) -> T {
    match bound {
        Some(bound) => value.min(bound),
        None => value,
    }
}

/// Tighter of two bounds.
pub(super) fn tighter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match one {
        Some(one) => Some(bounded(one, other)),
        None => other,
    }
}

/// Flight below the long-term bound that leaves headroom for other flows.
pub(super) fn with_headroom(longterm: Bytes, mss: Bytes, least: Bytes, config: &Config) -> Bytes {
    let headroom = scale(longterm, config.headroom).max(mss);
    longterm.saturating_sub(headroom).max(least)
}

/// Flight at which losses crossed the threshold, within or before a lost segment of `bytes` bytes.
/// `sent_in_flight` and `lost` include the segment.
pub(super) fn inflight_at_loss(
    bytes: Bytes,
    sent_in_flight: Bytes,
    lost: Bytes,
    threshold: f64,
) -> Bytes {
    let before = sent_in_flight.saturating_sub(bytes);
    let lost_before = lost.saturating_sub(bytes);
    let prefix = (threshold * before.get() as f64 - lost_before.get() as f64) / (1.0 - threshold);
    before + Bytes::new(prefix.max(0.0) as u64)
}
