//! [`Negotiated`]: what the two SYNs agreed on, and the peer's timestamps, which protect against
//! segments of the past (RFC 7323 §5).

use std::time::Duration;

use tautline_base::Instant;

use crate::config::TcpConfig;
use crate::seq;
use crate::wire::{MAX_WINDOW_SCALE, Segment};

/// Time for which a timestamp protects against older segments (Linux; RFC 7323 §5.5 allows 24
/// days). Afterwards it may have wrapped.
const TIMESTAMP_VALIDITY: Duration = Duration::from_secs(2147);

/// The result of the handshake.
#[derive(Debug)]
pub(super) struct Negotiated {
    /// The peer's initial sequence number.
    pub(super) irs: u32,
    /// Shift of the windows we receive.
    pub(super) peer_scale: u8,
    /// Shift of the windows we send.
    pub(super) own_scale: u8,
    /// Both SYNs carry the window scale option, if only with a shift of 0.
    pub(super) scaling: bool,
    pub(super) sack: bool,
    pub(super) timestamps: Timestamps,
}

/// The peer's timestamps.
#[derive(Debug)]
pub(super) struct Timestamps {
    /// The value to echo: that of the segment that last moved the left edge of the window (RFC 7323
    /// §4.3). `None` unless both SYNs carry the option; then every segment must (§3.2).
    pub(super) recent: Option<u32>,
    /// Its arrival time.
    at: Instant,
}

/// Comparison of a segment's timestamp with earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Not older, or not to be compared.
    Fresh,
    /// Older.
    Old,
    /// It has none although every segment must.
    Missing,
}

impl Negotiated {
    /// The peer's SYN is `syn`; ours has the options of `config`, and the scale `own_scale`.
    pub(super) fn new(syn: &Segment<'_>, config: &TcpConfig, own_scale: u8, now: Instant) -> Self {
        let ours = config.negotiation;
        let peer_scale = syn.offers.window_scale.filter(|_| ours.window_scaling);
        let timestamp = syn.timestamp.filter(|_| ours.timestamps);
        let scaling = peer_scale.is_some();
        Self {
            irs: syn.seq,
            peer_scale: peer_scale.unwrap_or(0).min(MAX_WINDOW_SCALE),
            own_scale: if scaling { own_scale } else { 0 },
            scaling,
            sack: syn.offers.sack_permitted && ours.sack,
            timestamps: Timestamps {
                recent: timestamp.map(|(value, _)| value),
                at: now,
            },
        }
    }

    /// Bytes of window in a segment after the handshake.
    pub(super) fn window_of(&self, segment: &Segment<'_>) -> u64 {
        u64::from(segment.window) << self.peer_scale
    }

    /// The timestamp of ours that the segment echoes. Without agreement in the SYNs the option is
    /// ignored (RFC 7323 §3.2).
    pub(super) fn echo_in(&self, segment: &Segment<'_>) -> Option<u32> {
        self.timestamps.recent?;
        segment.timestamp.map(|(_, echo)| echo)
    }
}

impl Timestamps {
    /// One tick of tolerance is for peers whose processors disagree (Linux).
    pub(super) fn age(&self, segment: &Segment<'_>, now: Instant) -> Age {
        let Some(recent) = self.recent else {
            return Age::Fresh;
        };
        let known = recent != 0 && now - self.at < TIMESTAMP_VALIDITY;
        match segment.timestamp {
            None => Age::Missing,
            Some((value, _)) if known && recent.wrapping_sub(value) as i32 > 1 => Age::Old,
            Some(_) => Age::Fresh,
        }
    }

    /// An acceptable segment moves the left edge.
    pub(super) fn note(&mut self, segment: &Segment<'_>, now: Instant) {
        if let (Some(recent), Some((value, _))) = (self.recent, segment.timestamp)
            && (!seq::older(value, recent) || now - self.at >= TIMESTAMP_VALIDITY)
        {
            (self.recent, self.at) = (Some(value), now);
        }
    }
}
