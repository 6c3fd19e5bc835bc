//! [`ReceiveWindow`]: the window we advertise (RFC 9293 §3.8.6.2; Linux `__tcp_select_window`).

use std::num::NonZeroU8;
use std::time::Duration;

use tautline_base::Instant;

use super::right_sizing::RightSizing;

/// Most bytes that a receive window may offer while the host's memory is scarce: one byte in each
/// connection, an exponent and three bits of mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveShare(NonZeroU8);

impl ReceiveShare {
    /// 64 KiB, the initial window.
    const LEAST: u64 = 64 << 10;
    /// The largest that the byte can hold.
    const MOST: u64 = 15 << 30;

    /// A share of `bytes`, less an eighth at most, and 64 KiB at least.
    pub(crate) fn new(bytes: u64) -> Self {
        let bytes = bytes.clamp(Self::LEAST, Self::MOST);
        let exponent = bytes.ilog2() - 3;
        let mantissa = (bytes >> exponent) as u8 & 7;
        let code = (exponent as u8 + 1) << 3 | mantissa;
        Self(NonZeroU8::new(code).unwrap_or(NonZeroU8::MIN))
    }

    pub(crate) fn bytes(self) -> u64 {
        let code = self.0.get();
        match code >> 3 {
            0 => code.into(),
            exponent => u64::from(8 | code & 7) << (exponent - 1),
        }
    }
}

/// The memory of unread data, which comes off the window as in Linux: the window then lies above the next byte expected, and is a
/// whole number of units, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    /// The part of the buffer that data which the application has not read takes off the window.
    pub(super) bytes: u64,
    /// Shift of the windows that are advertised.
    pub(super) scale: u8,
}

impl Charge {
    /// `bytes` in whole units, rounded up.
    fn align(self, bytes: u64) -> u64 {
        bytes.saturating_add((1 << self.scale) - 1) >> self.scale << self.scale
    }
}

/// The advertised window.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// Right edge that was advertised last.
    edge: u64,
    /// Bytes beyond what the application has read: at most `capacity`, which follows what it reads;
    /// they open by what arrives.
    pub(super) size: u64,
    pub(super) capacity: u64,
    /// `None` while the connection is quiet.
    pub(super) sizing: Option<Box<RightSizing>>,
    /// Largest segment the peer has sent: the unit in which it fills the window.
    pub(super) peer_segment: u32,
    /// Bytes of the first capacity beyond the largest window: one segment in Linux
    /// (`tcp_init_buffer_space`).
    reserve: u32,
}

impl ReceiveWindow {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            edge: 0,
            size: capacity,
            capacity,
            sizing: None,
            peer_segment: 536,
            reserve: 0,
        }
    }

    /// Largest segment the peer has sent.
    #[inline]
    pub(super) fn peer_segment(&self) -> u64 {
        self.peer_segment.into()
    }

    /// A segment of `size` bytes came from the peer.
    #[inline]
    pub(super) fn note_segment(&mut self, size: u64) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.peer_segment = self.peer_segment.max(size);
    }

    /// Keeps `bytes` of the capacity from the window until the capacity grows.
    pub(super) fn reserve(&mut self, bytes: u32) {
        self.reserve = bytes;
        self.size = self.size.min(self.most());
    }

    /// The largest window.
    fn most(&self) -> u64 {
        self.capacity.saturating_sub(self.reserve.into())
    }

    /// Right edge of the advertised window.
    pub(super) fn edge(&self) -> u64 {
        self.edge
    }

    /// A window beyond the buffer shrinks to it, as far as nothing is taken back that was offered
    /// (RFC 9293 §3.8.6). The application has read up to `read`.
    pub(super) fn shrink(&mut self, read: u64) {
        if self.size > self.capacity {
            self.size = self.capacity.max(self.edge.saturating_sub(read));
        }
    }

    /// Bytes that may be offered now: no more than `share`, if the host's memory is scarce, nor than
    /// what `charge` leaves of the buffer.
    pub(super) fn offer(&self, share: Option<ReceiveShare>, charge: Option<Charge>) -> u64 {
        let free = charge.map_or(self.size, |charge| {
            let left = self.left(charge);
            let is_little = left < self.capacity >> 4 || left < self.peer_segment();
            let offered = match self.is_crowded(charge) {
                true if is_little => 0,
                true => left >> charge.scale << charge.scale,
                false => left,
            };
            charge.align(offered.min(self.size))
        });
        share.map_or(free, |share| free.min(share.bytes()))
    }

    /// Bytes that `charge` leaves of the buffer.
    fn left(&self, charge: Charge) -> u64 {
        self.capacity.saturating_sub(charge.bytes)
    }

    /// `charge` leaves less than half of the buffer.
    #[inline]
    pub(super) fn is_crowded(&self, charge: Charge) -> bool {
        self.left(charge) < self.capacity >> 1
    }

    /// The round trip as the receiver sees it; `None` before it is known.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.sizing.as_ref().and_then(|sizing| sizing.rtt())
    }

    /// The window to advertise, in units of `1 << scale` bytes, when it lies above `read`, up to which
    /// the application has read, and everything below `next` has arrived; `charge` is taken off.
    ///
    /// The right edge must not move left (RFC 9293 §3.8.6.2.1), so the value is rounded up where
    /// rounding down would, but never past the first unit beyond the buffer: else it would creep
    /// with every byte that arrives. Whatever was promised once is accepted, so memory is bounded
    /// by the buffer and one unit. Nor does the edge move right by little: a segment, or half the
    /// buffer, must have become free (RFC 9293 §3.8.6.2.2). Linux keeps every promise and moves the edge
    /// by any step, rounded up, where windows are scaled (`__tcp_select_window`).
    pub(super) fn advertise(
        &mut self,
        (read, next): (u64, u64),
        scale: u8,
        (share, charge): (Option<ReceiveShare>, Option<Charge>),
    ) -> u16 {
        // In units, rounded up.
        let ceil = |bytes: u64| (bytes >> scale) + u64::from(bytes & ((1 << scale) - 1) != 0);
        let kept = match charge {
            None => self.edge.min(read.saturating_add(self.size)),
            Some(_) => self.edge,
        };
        let offer = self.offer(share, charge);
        let end = read.saturating_add(offer).max(next).max(kept);
        let promised = self.edge.max(next);
        let step = end.saturating_sub(promised);
        let moves = charge.is_some() || step >= self.peer_segment().min(self.size / 2);
        let offered = if moves { (end - next) >> scale } else { 0 };
        let units = offered.max(ceil(promised - next)).min(ceil(end - next));
        let units = units.min(u64::from(u16::MAX));
        self.edge = self.edge.max(next + (units << scale));
        units as u16
    }

    /// Reading, which left `unread` bytes below `next`, has opened the window so much that the peer
    /// should know: it at least doubled, by two segments or half the buffer (silly-window avoidance,
    /// RFC 9293 §3.8.6.2.2).
    pub(super) fn has_reopened(
        &self,
        (unread, next): (u64, u64),
        scale: u8,
        (share, charge): (Option<ReceiveShare>, Option<Charge>),
    ) -> bool {
        let expressible = u64::from(u16::MAX) << scale;
        let offer = self.offer(share, charge);
        let free = offer.saturating_sub(unread).min(expressible);
        let usable = self.edge.saturating_sub(next);
        let gain = free.saturating_sub(usable);
        gain >= (2 * self.peer_segment()).min(self.size / 2).max(1) && free >= 2 * usable
    }

    /// `len` bytes arrive. True if the window opens: then the peer is in slow
    /// start, and needs each step at once (Linux `tcp_grow_window`). `charge` is taken off the buffer.
    pub(super) fn open_by(&mut self, len: u64, charge: Option<Charge>) -> bool {
        let segment = self.peer_segment();
        if len * 2 <= segment {
            return false;
        }
        // A division is dear, and one segment is the rule.
        let segments = if len < 2 * segment { 1 } else { len / segment };
        let before = self.size;
        let room = charge.map_or(self.capacity, |charge| self.left(charge));
        let wider = before.saturating_add(2 * segment * segments);
        let wider = wider.min(room.min(self.most()));
        self.size = before.max(wider);
        self.size > before
    }

    /// `len` bytes arrive: once a round trip, the capacity follows what the application reads of the
    /// peer's segments of `mss` bytes, up to `most`. `on_read`: it is sized as in Linux, when the
    /// application reads, for memory that a segment takes beside its payload. `echo`: our timestamp
    /// that they echo, sent so long ago. `queued` bytes wait from `read` on, and everything below
    /// `next` has arrived.
    pub(super) fn right_size(
        &mut self,
        (most, on_read): (u64, Option<u64>),
        (read, queued, next): (u64, u64, u64),
        (len, mss): (u64, u64),
        echo: Option<(u32, Duration)>,
        now: Instant,
    ) {
        // Ten segments are expected in a round trip: the peer's first flight.
        let expected = self.capacity.min(10 * mss);
        // Linux's first round trip begins when the connection opens (`tcp_init_buffer_space`), about when its
        // first data arrives. After a quiet time, and where the window is sized on arrival, the first sample
        // ends one at once.
        let since = match on_read {
            Some(_) if next == 1 => now,
            _ => Instant::ZERO,
        };
        let is_full = len >= self.peer_segment();
        let sizing = self
            .sizing
            .get_or_insert_with(|| Box::new(RightSizing::new(since, read, expected)));
        // A read that is over knew no sample of the data that arrives now.
        let mut window = None;
        if let Some(beside) = on_read {
            window = sizing
                .on_arrival_after_read(read, mss)
                .map(|window| (window / mss.max(1)).saturating_mul(window_of_segment(mss, beside)));
        }
        if let Some((echo, rtt)) = echo.filter(|_| is_full) {
            sizing.sample(echo, rtt);
        }
        sizing.on_progress(now, next, self.size);
        if on_read.is_none() {
            window = sizing.on_arrival(now, read, queued, mss);
        }
        if let Some(window) = window.map(|window| window.min(most))
            && window > self.capacity
        {
            (self.capacity, self.reserve) = (window, 0);
        }
    }
}

/// The window that Linux offers for the memory of one segment of `mss` bytes, half of what that takes with
/// `beside`: its buffers are sized in whole segments, each of them large enough to offer one (`rcvmem`
/// in `tcp_rcv_space_adjust`, in steps of 128 bytes).
fn window_of_segment(mss: u64, beside: u64) -> u64 {
    let least = mss.saturating_add(beside);
    let more = (2 * mss).saturating_sub(least).next_multiple_of(128);
    least.saturating_add(more) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SKB_TRUESIZE(1448 + MAX_TCP_HEADER)` of User-Mode Linux is 2280 bytes; five steps make 2920.
    #[test]
    fn a_segment_s_memory_offers_a_segment_at_least() {
        assert_eq!(window_of_segment(1448, 832), 1460);
        assert_eq!(window_of_segment(500, 832), 666);
    }

    #[test]
    fn a_share_loses_an_eighth_at_most_and_is_never_more() {
        for shift in 0..34 {
            for extra in [0, 1, (1 << shift) / 7, (1 << shift) - 1] {
                let bytes = (1_u64 << shift) + extra;
                let share = ReceiveShare::new(bytes).bytes();
                let least = bytes.max(ReceiveShare::LEAST);
                assert!(
                    share <= least && share > least / 8 * 7 - 8,
                    "{bytes}: {share}"
                );
            }
        }
        let most = ReceiveShare::new(u64::MAX);
        assert_eq!(most.bytes(), ReceiveShare::MOST);
    }

    /// Every small window, with and without a share of scarce memory: the right edge never moves left,
    /// what was promised and fits the buffer is promised again, and nothing beyond the first unit past
    /// the buffer, or past the share, is.
    #[test]
    fn every_small_window_keeps_its_promises() {
        let shares = [0, 2, 4, 8].map(|bytes| NonZeroU8::new(bytes).map(ReceiveShare));
        let mut cases = 0;
        for (scale, peer_segment) in [0, 1, 2]
            .into_iter()
            .flat_map(|scale| [1, 3, 8].map(|segment| (scale, segment)))
        {
            for (size, unread, promised) in (0..=12)
                .flat_map(|size| (0..=12).map(move |unread| (size, unread)))
                .flat_map(|(size, unread)| (0..=16).map(move |more| (size, unread, more)))
            {
                for share in shares {
                    cases += u64::from(keeps_its_promises(
                        (scale, peer_segment),
                        (size, unread, promised),
                        share,
                    ));
                }
            }
        }
        assert!(cases > 60_000, "{cases}");
    }

    /// One case; false if it cannot be reached.
    fn keeps_its_promises(
        (scale, peer_segment): (u8, u32),
        (size, unread, promised): (u64, u64, u64),
        share: Option<ReceiveShare>,
    ) -> bool {
        const READ: u64 = 5;
        let unit = 1 << scale;
        let (next, edge) = (READ + unread, READ + promised);
        let end = (READ + size).max(next);
        // No edge is further than a unit beyond the buffer.
        if edge >= end + unit {
            return false;
        }
        let mut window = ReceiveWindow {
            edge,
            peer_segment,
            ..ReceiveWindow::new(size)
        };
        let offered =
            next + (u64::from(window.advertise((READ, next), scale, (share, None))) << scale);
        let shared = share.map_or(size, |share| size.min(share.bytes()));
        let most = (READ + shared).max(next).max(edge.min(end));
        let what = format!("scale {scale}, size {size}, {share:?}, unread {unread}, edge {edge}");
        assert!(window.edge() >= edge, "{what}");
        assert_eq!(window.edge(), edge.max(offered), "{what}");
        assert!(offered >= edge.min(end), "{what}: {offered}");
        assert!(offered < most + unit, "{what}: {offered}");
        true
    }

    #[test]
    fn a_window_shrinks_to_its_buffer_but_not_below_what_was_offered() {
        for (edge, read, size) in [(0, 0, 400), (700, 0, 700), (700, 500, 400)] {
            let mut window = ReceiveWindow {
                edge,
                ..ReceiveWindow::new(1000)
            };
            window.capacity = 400;
            window.shrink(read);
            assert_eq!(window.size, size, "edge {edge}, read {read}");
            window.capacity = 2000;
            window.shrink(read);
            assert_eq!(window.size, size, "a larger buffer shrinks nothing");
        }
    }

    /// Two segments wider for each that arrives; for what was merged, as many times.
    #[test]
    fn merged_segments_open_the_window_as_often_as_single_ones() {
        for (len, wider) in [(1000, 2000), (1999, 2000), (2000, 4000), (4500, 8000)] {
            let mut window = ReceiveWindow::new(1 << 20);
            window.peer_segment = 1000;
            window.size = 10_000;
            assert!(window.open_by(len, None));
            assert_eq!(window.size, 10_000 + wider, "{len} bytes");
        }
        let mut window = ReceiveWindow::new(1 << 20);
        window.peer_segment = 1000;
        window.size = 10_000;
        assert!(!window.open_by(500, None), "half a segment opens nothing");
    }
}
