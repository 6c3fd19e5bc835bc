//! The sending half of a connection (RFC 9293 §3.8): stream and window, retransmission queue, loss
//! recovery, congestion control, pacing, and the size of segments and packets.

mod ack;
mod acknowledge;
mod buffer;
mod congestion;
mod cwnd_validation;
mod duplicates;
mod info;
mod path_mtu;
mod plan;
mod planning;
mod recovery;
mod repair;
mod rtt;
mod segmentation;
mod segments;
mod space;
mod tail_probe;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::Sampler;

pub(super) use self::ack::{AckInput, AckSummary};
pub(super) use self::buffer::SendBuffer;
use self::congestion::Congestion;
use self::path_mtu::PathMtu;
pub(super) use self::plan::Kind;
pub(crate) use self::plan::{Blocked, Plan};
pub(super) use self::planning::SendContext;
use self::recovery::Phase;
pub use self::recovery::Reduction;
use self::repair::Repair;
pub(super) use self::rtt::MAX_RTO;
use self::rtt::RttEstimator;
use self::segments::Segments;
use self::timers::SendTimers;
pub(super) use self::timers::sooner;
use crate::config::{Pacing, TcpConfig};
use crate::pacer::Pacer;
use crate::seq;
use crate::tcp::Tuple;
use crate::wire::{Payload, TIMESTAMP_OPTION};

/// Our numbers on the wire, random per connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// Initial sequence number (RFC 6528).
    pub(super) isn: u32,
    /// Added to the clock to form timestamps (RFC 7323 §5.4).
    pub(super) timestamp_offset: u32,
}

impl Numbers {
    /// Our timestamp clock, in milliseconds.
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.timestamp_offset)
    }
}

/// The window the peer offers (RFC 9293 §3.8.6).
#[derive(Debug)]
struct PeerWindow {
    /// Right edge: we may send up to here.
    edge: u64,
    /// The largest offer so far.
    largest: u64,
    /// Sequence and acknowledgement offsets of the segment that last updated it.
    updated_by: (u64, u64),
    /// The latest segment moved the edge.
    moved: bool,
}

/// State of the current flight.
#[derive(Debug, Default)]
struct Flight {
    /// The window, not the application, stopped the sender before this offset.
    window_limited_until: Option<u64>,
    /// Most bytes in flight in this round.
    largest: u64,
    /// Most bytes in flight since the window last limited the sender, or since its use was last
    /// judged.
    used: u64,
    /// When its use was last judged.
    judged: Instant,
    /// Delivered total at which the next round begins.
    round_end: Bytes,
    /// End of the last segment sent that was shorter than full (Minshall's rule).
    small_end: u64,
    /// Since when nothing has been in flight.
    idle_since: Option<Instant>,
    /// The peer's window, not the congestion window, stopped the sender last.
    peer_limited: bool,
    /// Timeouts since the peer last acknowledged anything new.
    timeouts: u32,
    /// The qdisc refused a segment. Nothing is sent until it may have room again: a completion of
    /// ours, an acknowledgement or a timeout.
    refused: bool,
    /// The window was reduced: with classic ECN the next new data says so (RFC 3168 §6.1.2).
    cwr_due: bool,
}

/// Totals for `info()`.
#[derive(Debug, Default)]
pub(super) struct SendTotals {
    pub(super) bytes_acked: u64,
    pub(super) segments_out: u64,
    pub(super) retransmits: u64,
    pub(super) timeouts: u64,
    pub(super) local_drops: u64,
    pub(super) spurious: u64,
    /// Segments with payload sent, and the payload of those sent again.
    pub(super) data_segments_out: u64,
    pub(super) bytes_retransmitted: u64,
    /// Segments the peer has reported, cumulatively or selectively.
    pub(super) delivered: u64,
    /// When payload last left, if any has.
    pub(super) data_sent_at: Instant,
    /// The latest delivery rate, and whether the application limited it.
    pub(super) delivery_rate: Option<(Rate, bool)>,
}

/// The sending half of a connection.
pub(super) struct SendHalf {
    /// The connection's configuration.
    config: Arc<TcpConfig>,
    numbers: Numbers,
    /// The peer reports what arrives out of order.
    sack: bool,
    /// Most payload in a segment on the path as it is known.
    mss: u64,
    /// SND.UNA and SND.NXT as stream offsets.
    una: u64,
    nxt: u64,
    /// Offset of our FIN once the application has closed its half.
    fin: Option<u64>,
    buffer: SendBuffer,
    peer: PeerWindow,
    segments: Segments,
    rtt: RttEstimator,
    sampler: Sampler,
    congestion: Congestion,
    pacer: Pacer,
    phase: Phase,
    repair: Repair,
    flight: Flight,
    timers: SendTimers,
    path: PathMtu,
    totals: SendTotals,
}

/// Result of the handshake for the sending half.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendOptions {
    pub(super) sack: bool,
    /// Most payload bytes that both ends' links carry in a segment.
    pub(super) most: u64,
    /// Network and TCP headers of a data segment, options included.
    pub(super) headers: usize,
}

impl SendHalf {
    /// Nothing is sent. `link`: MTU of this host's link.
    pub(super) fn new(
        numbers: Numbers,
        tuple: &Tuple,
        link: usize,
        config: Arc<TcpConfig>,
    ) -> Self {
        let first = (link - tuple.headers_len() - TIMESTAMP_OPTION) as u64;
        Self {
            numbers,
            sack: false,
            mss: tuple.default_mss().into(),
            una: 0,
            nxt: 0,
            fin: None,
            buffer: SendBuffer::new(&config),
            // Before the peer speaks, only the SYN may leave.
            peer: PeerWindow {
                edge: 1,
                largest: 0,
                updated_by: (0, 0),
                moved: false,
            },
            segments: Segments::default(),
            rtt: RttEstimator::default(),
            sampler: Sampler::default(),
            congestion: Congestion::new(&config.congestion, &numbers.controller(first, &config)),
            pacer: Pacer::new(config.pacer),
            phase: Phase::Open,
            repair: Repair::default(),
            flight: Flight::default(),
            timers: SendTimers::default(),
            path: PathMtu::new(link, tuple),
            totals: SendTotals::default(),
            config,
        }
    }

    /// Takes over the result of the handshake and starts the controller with the real segment size.
    pub(super) fn open(&mut self, options: SendOptions, memory_pressure: bool) {
        self.sack = options.sack;
        self.path.open(options.most, options.headers);
        self.mss = options.most;
        self.start_controller();
        self.expand_buffer(memory_pressure);
    }

    /// A path on which opening took more than one repetition is entered with one segment (RFC 6928
    /// §2, Linux).
    fn start_controller(&mut self) {
        let mut with = self.numbers.controller(self.mss, &self.config);
        if self.una == 0 && self.flight.timeouts > 1 {
            with.initial_window = with.mss;
        }
        self.congestion = Congestion::new(&self.config.congestion, &with);
    }

    /// The configuration changed.
    pub(super) fn configure(&mut self, config: Arc<TcpConfig>) {
        self.config = config;
    }

    /// The handshake is complete. Timeouts of the SYN-ACK say nothing about the window for data.
    pub(super) fn opened(&mut self) {
        if self.flight.timeouts > 0 {
            self.start_controller();
        }
    }

    /// The SYN-ACK left as a cookie: nothing is recorded of it.
    pub(super) fn syn_ack_left(&mut self) {
        self.nxt = 1;
    }

    /// Replaces the controller; the new one begins with the window of the one before (Linux
    /// `TCP_CONGESTION`).
    pub(super) fn set_congestion(&mut self) {
        let before = *self.congestion.verdict();
        self.start_controller();
        self.congestion
            .update(|controller| controller.adopt(&before));
    }

    /// Our initial sequence number and timestamp clock.
    pub(super) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// SND.UNA as a stream offset.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// SND.NXT as a stream offset.
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Most payload in a segment.
    pub(super) fn mss(&self) -> u64 {
        self.mss
    }

    /// The stream offset nearest to SND.UNA that `wire` names.
    pub(super) fn offset(&self, wire: u32) -> Option<u64> {
        seq::from_wire(self.numbers.isn, self.una, wire)
    }

    /// The kind of ECN feedback that the controller needs.
    pub(super) fn needed_ecn(&self) -> tautline_cc::Ecn {
        self.congestion.controller().ecn()
    }

    /// The peer's window is known to be `window` bytes from SND.UNA.
    pub(super) fn offers(&self, window: u64) -> bool {
        self.una + window == self.peer.edge
    }

    /// Network and TCP headers of a data segment.
    pub(super) fn headers(&self) -> usize {
        self.path.headers()
    }

    /// MTU of this host's link.
    pub(super) fn link_mtu(&self) -> usize {
        self.path.link()
    }

    /// The pacing rate, and whether at most one segment is unacknowledged.
    pub(super) fn load(&self) -> (Rate, bool) {
        let rate = self.congestion.verdict().pacing_rate;
        (rate, self.segments.len() <= 1)
    }

    /// A lost segment waits to be sent again.
    pub(super) fn any_lost(&self) -> bool {
        self.segments.any_lost()
    }

    /// The window was reduced, and with classic ECN the next new data says so.
    pub(super) fn cwr_due(&self) -> bool {
        self.flight.cwr_due
    }

    /// Everything sent is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// A FIN follows the data that is written by now.
    pub(super) fn finish(&mut self) {
        self.fin.get_or_insert_with(|| self.buffer.end());
    }

    /// The application has closed this half.
    pub(super) fn is_finished(&self) -> bool {
        self.fin.is_some()
    }

    /// The peer has acknowledged our FIN.
    pub(super) fn fin_acked(&self) -> bool {
        self.fin.is_some_and(|fin| self.una > fin)
    }

    /// Data that the application wrote and the peer has not acknowledged.
    pub(super) fn buffer(&self) -> &SendBuffer {
        &self.buffer
    }

    /// The payload at stream offsets `range`.
    pub(super) fn payload(&self, range: std::ops::Range<u64>) -> Payload<'_> {
        if range.is_empty() {
            Payload::EMPTY
        } else {
            self.buffer.payload(range)
        }
    }

    /// Bytes of memory in the buffer.
    pub(super) fn memory(&self) -> usize {
        self.buffer.memory()
    }

    /// Records of segments hold memory although no segment is outstanding.
    pub(super) fn idles_with_memory(&self) -> bool {
        self.segments.idles_with_memory()
    }

    /// Frees the memory of records while no segment is outstanding.
    pub(super) fn release_memory(&mut self) {
        self.segments.release_memory();
    }

    /// Drops what is not acknowledged.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
    }

    /// The congestion window in force.
    fn cwnd(&self) -> Bytes {
        match self.phase {
            Phase::Recovery(_) if self.congestion.uses_prr() => self.repair.window,
            _ => self.congestion.verdict().cwnd,
        }
    }

    /// A retransmission timeout after `at`.
    #[inline]
    fn rto_after(&self, at: Instant) -> Instant {
        at.after_nanos(self.rtt.rto_nanos())
    }

    /// The retransmission timeout.
    pub(super) fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// The smoothed RTT; zero before a sample.
    pub(super) fn srtt(&self) -> Duration {
        self.rtt.srtt()
    }
}

impl Numbers {
    /// Parameters of a controller for segments of `segment` bytes.
    fn controller(&self, segment: u64, config: &TcpConfig) -> tautline_cc::Config {
        let seed = u64::from(self.isn) << 32 | u64::from(self.timestamp_offset);
        tautline_cc::Config {
            seed,
            paced: config.pacing != Pacing::Off,
            ..tautline_cc::Config::new(Bytes::new(segment))
        }
    }
}
