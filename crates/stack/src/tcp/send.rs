//! The sending half of a connection (RFC 9293 §3.8): the stream and the peer's window, what is in
//! flight, and the choice of the next segment.

mod ack;
mod buffer;
mod flight;
mod info;
mod persist;
mod plan;
mod planning;
mod segmentation;
mod space;
mod stream;

use std::sync::Arc;

use tautline_base::{Bytes, Instant};

use self::ack::Offer;
pub(super) use self::ack::{AckInput, AckSummary};
use self::flight::Flight;
pub use self::flight::recovery::Reduction;
pub(super) use self::flight::{MAX_RTO, Numbers, RttEstimator, SendOptions, on_link_mtu, sooner};
use self::persist::Persist;
pub(super) use self::plan::Kind;
pub(crate) use self::plan::{Blocked, Plan};
pub(super) use self::planning::SendContext;
pub(in crate::tcp) use self::space::segment_memory;
pub(crate) use self::space::{AppData, Boundary};
use self::stream::Stream;
use crate::config::TcpConfig;
use crate::tcp::Tuple;
use crate::tcp::ecn::Marks;

/// Totals for `info()`.
#[derive(Debug, Default)]
struct SendTotals {
    segments_out: u64,
    /// Segments with payload sent, and the payload of those sent again.
    data_segments_out: u64,
    bytes_retransmitted: u64,
    /// Time at which payload last left, if ever.
    data_sent_at: Instant,
}

/// The sending half of a connection.
pub(super) struct SendHalf {
    pub(super) stream: Stream,
    pub(super) flight: Flight,
    /// A reset is to be sent.
    pub(super) reset_due: bool,
    /// Probing of the peer's closed window.
    persist: Option<Persist>,
    /// The peer's window, not the congestion window, stopped the sender last.
    peer_limited: bool,
    /// End of the last segment sent that was shorter than full (Minshall's rule).
    small_end: u64,
    totals: SendTotals,
}

impl SendHalf {
    /// Nothing is sent. `link`: MTU of this host's link.
    pub(super) fn new(
        numbers: Numbers,
        tuple: &Tuple,
        link: usize,
        config: Arc<TcpConfig>,
    ) -> Self {
        Self {
            stream: Stream::new(&config),
            flight: Flight::new(numbers, tuple, link, config),
            reset_due: false,
            persist: None,
            peer_limited: false,
            small_end: 0,
            totals: SendTotals::default(),
        }
    }

    /// Takes over the result of the handshake.
    pub(super) fn open(&mut self, options: SendOptions, memory_pressure: bool) {
        self.flight.open(options);
        self.expand_buffer(memory_pressure);
    }

    /// The peer has acknowledged our FIN.
    pub(super) fn fin_acked(&self) -> bool {
        self.stream.fin().is_some_and(|fin| self.flight.una() > fin)
    }

    /// Takes an acknowledgment. `None`: nothing is outstanding, and no more is to be done.
    pub(super) fn on_ack(&mut self, input: &AckInput) -> Option<AckSummary> {
        let offer = Offer {
            moved: self.stream.window.moved(),
            largest: self.stream.window.largest(),
            more: self.flight.nxt() < self.stream.sendable_end(),
        };
        let summary = self.flight.on_ack(input, offer)?;
        self.stream.acknowledged(self.flight.una());
        Some(summary)
    }

    /// Everything that follows from an acknowledgment that reports `marks`.
    pub(super) fn react(&mut self, summary: &AckSummary, marks: Marks) {
        self.flight.react(summary, marks);
        if summary.advanced && self.flight.segments.is_empty() {
            self.stream.buffer.shrink_if_idle();
        }
    }

    /// An acknowledgment up to `ack` in the segment at `offset` offers `window` bytes. True if the
    /// peer's closed window opened.
    pub(super) fn update_window(&mut self, offset: u64, ack: u64, window: u64) -> bool {
        let (una, nxt) = (self.flight.una(), self.flight.nxt());
        if !self.stream.window.update(una, offset, ack, window) {
            return false;
        }
        // A window too small to be worth a segment leaves the timer alone, which overrides it.
        let room = self.stream.window.edge().saturating_sub(nxt);
        let worthwhile = room >= self.flight.mss()
            || room >= self.stream.window.largest() / 2
            || self.stream.window.edge() >= self.stream.buffer.end();
        room > 0 && worthwhile && self.persist.take().is_some()
    }

    /// The peer answers. While its window is closed neither probes nor retransmissions into it
    /// count against it, unless the connection is an `orphan`: no application waits for the window
    /// to open.
    pub(super) fn on_peer_alive(&mut self, orphan: bool) {
        if let Some(persist) = &mut self.persist {
            persist.unanswered = 0;
        }
        if self.stream.window.edge() <= self.flight.una() && !orphan {
            self.flight.forgive_timeouts();
        }
    }

    /// The SYN-ACK acknowledges the SYN's data, up to `ack`, and offers `window` bytes after it.
    pub(super) fn on_syn_data_ack(&mut self, ack: u64, window: u16) {
        self.stream.syn_data_acked = true;
        self.stream.sent(ack);
        self.stream.window.update_from_syn(ack, window);
        let Flight {
            segments,
            congestion,
            ..
        } = &mut self.flight;
        if let Some(departure) = segments.head_sent_at() {
            let in_flight = Bytes::new(segments.in_flight() + ack - 1);
            let sent = congestion.sampler.on_send(departure, in_flight, false);
            let id = segments.push(1..ack, false, sent);
            segments.left_host(id, 1);
        }
    }

    /// Nothing is outstanding, and no loss or window is being judged: an acknowledgment of nothing
    /// new has only its window to report.
    #[inline]
    pub(super) fn expects_nothing(&self) -> bool {
        self.is_quiet() && self.flight.recovery.is_undisturbed()
    }

    /// A segment at `offset` acknowledges nothing new, up to `ack`, and offers `window` bytes, while
    /// [nothing is expected](Self::expects_nothing).
    #[inline]
    pub(super) fn on_nothing_new(&mut self, offset: u64, ack: u64, window: u64) {
        self.update_window(offset, ack, window);
        self.on_peer_alive(false);
        self.flight.refused = false;
        self.flight.timers.cancel_reorder();
    }

    /// The stream offset that acknowledgment number `ack` names, if RFC 5961 §5.2 accepts it.
    pub(super) fn acceptable_ack(&self, ack: u32) -> Option<u64> {
        let una = self.flight.una();
        let lowest = una
            .saturating_sub(self.stream.window.largest())
            .max(una.min(1));
        self.flight
            .offset(ack)
            .filter(|ack| (lowest..=self.flight.nxt()).contains(ack))
    }

    /// The earliest deadline.
    #[inline]
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let persist = self.persist.as_ref().and_then(|persist| persist.deadline());
        sooner(self.flight.timers.next(), persist)
    }

    /// Drops all data, sent or not.
    pub(super) fn discard(&mut self) {
        self.stream.buffer.clear();
        flight::discard_records(&mut self.flight.segments);
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.stream.buffer.memory() + flight::record_memory(&self.flight.segments)
    }

    /// Stops all timers.
    pub(super) fn stop_timers(&mut self) {
        self.flight.timers.stop();
        self.persist = None;
    }

    /// Window probes sent without an answer, and in all, if the next one is due.
    pub(super) fn persist_expired(&self, now: Instant) -> Option<(u32, u32)> {
        let persist = self.persist.as_ref()?;
        persist
            .has_expired(now)
            .then_some((persist.unanswered, persist.sent))
    }

    /// The next window probe is to be sent.
    pub(super) fn probe_window(&mut self) {
        if let Some(persist) = &mut self.persist {
            persist.due = true;
        }
    }

    /// Nothing is outstanding, nor is a closed window probed.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.flight.segments.is_empty() && self.persist.is_none()
    }

    /// Data waits beyond the peer's window, which is probed. The timer of the probes runs for what a
    /// cork holds back, too.
    pub(super) fn is_probing_window(&self) -> bool {
        self.persist.is_some() && self.stream.window.edge() < self.stream.buffer.end()
    }
}
