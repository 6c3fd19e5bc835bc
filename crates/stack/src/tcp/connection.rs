//! One TCP connection: its state, its two halves, and what the application does to it (RFC 9293
//! §3.10.1–3.10.6).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate, SocketId};
use tautline_cc::{Controller, Factory, Sampler, Verdict};

use super::ack_delay::{AckDelay, Bounds};
use super::ecn::Ecn;
use super::liveness::Liveness;
use super::path_mtu::PathMtu;
use super::receiver::Receiver;
use super::recovery::Phase;
use super::repair::Repair;
use super::rtt::RttEstimator;
use super::segments::Segments;
use super::send_buffer::SendBuffer;
use super::timers::Timers;
use super::tuple::Tuple;
use crate::attribution::Attribution;
use crate::config::{Pacing, TcpConfig};
use crate::pacer::Pacer;
use crate::socket::{CloseReason, PathError, Recv, SocketError};
use crate::tsq::Tsq;
use crate::wire::{ETHERNET_HEADER, TIMESTAMP_OPTION};

/// Smallest MSS we obey: below it a peer could make us send mostly headers (CVE-2019-11479).
const MIN_MSS: u64 = 64;
/// Largest window scale (RFC 7323 §2.3).
const MAX_SCALE: u8 = 14;

/// States of RFC 9293 §3.3.2 that a connection object can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    SynSent,
    /// `listener` is who gets the connection; `None` after a simultaneous open.
    SynReceived {
        listener: Option<SocketId>,
    },
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

/// How a connection comes to be.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) id: SocketId,
    pub(crate) tuple: Tuple,
    /// The neighbour its packets go to.
    pub(crate) next_hop: IpAddr,
    /// Its name to IPv6 routers.
    pub(crate) flow_label: u32,
    /// Initial sequence number (RFC 6528).
    pub(crate) isn: u32,
    /// Added to the clock to form timestamps, random per connection.
    pub(crate) timestamp_offset: u32,
    /// Keyed hashes: flow, source host, destination host.
    pub(crate) hashes: (u64, u32, u32),
    /// Largest IP packet the device carries.
    pub(crate) mtu: usize,
    pub(crate) now: Instant,
}

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
    /// The peer's latest timestamp, if both ends use them.
    pub(super) peer_timestamp: Option<u32>,
    /// When it came.
    pub(super) peer_timestamp_at: Instant,
    /// Bytes of TCP options in a data segment.
    pub(super) options: usize,
    /// Most payload bytes that both ends' links carry in a segment.
    pub(super) most: u64,
    /// Most payload bytes in a segment on the path as it is known.
    pub(super) segment: u64,
}

/// The window the peer offers (RFC 9293 §3.8.6).
#[derive(Debug, Default)]
pub(super) struct PeerWindow {
    /// Right edge: we may send up to here.
    pub(super) edge: u64,
    /// The largest offer so far.
    pub(super) largest: u64,
    /// Sequence and acknowledgement offsets of the segment that last updated it.
    pub(super) updated_by: (u64, u64),
    /// The latest segment moved the edge.
    pub(super) moved: bool,
}

/// Changes the host tells the application about.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    pub(crate) established: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) closed: Option<CloseReason>,
}

impl PendingEvents {
    /// There is something to tell.
    pub(crate) fn anything(&self) -> bool {
        self.established || self.readable || self.writable || self.closed.is_some()
    }
}

/// Totals for `info()`.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) bytes_acked: u64,
    pub(super) bytes_received: u64,
    pub(super) segments_out: u64,
    pub(super) segments_in: u64,
    pub(super) retransmits: u64,
    pub(super) timeouts: u64,
    pub(super) local_drops: u64,
    pub(super) spurious: u64,
    /// Segments with payload that left, the payload of those sent again, and segments with payload
    /// that arrived.
    pub(super) data_segments_out: u64,
    pub(super) bytes_retransmitted: u64,
    pub(super) data_segments_in: u64,
    /// Segments the peer has reported, cumulatively or selectively.
    pub(super) delivered: u64,
    /// When payload last left, and last arrived, if any has.
    pub(super) data_sent_at: Instant,
    pub(super) data_received_at: Instant,
    /// The latest delivery rate, and whether the application limited it.
    pub(super) delivery_rate: Option<(Rate, bool)>,
}

/// What the host keeps about a connection's place in its queues.
#[derive(Debug, Default)]
pub(crate) struct QueueLinks {
    /// On the run queue.
    pub(crate) queued: bool,
    /// In the pacing queue.
    pub(crate) paced: bool,
    /// In the queue of those whose memory goes when nothing arrives.
    pub(crate) idling: bool,
    /// Among those that wait for a free frame.
    pub(crate) starved: bool,
    /// The earliest of its entries in the timer queue.
    pub(crate) armed: Option<Instant>,
    /// Counted among its peer's connections to this listener.
    pub(crate) counted_at: Option<SocketId>,
    /// Counted in that listener's backlog.
    pub(crate) half_open: bool,
    /// Counted among the orphans.
    pub(crate) counted_orphan: bool,
    /// In the queue of those to reset when memory is short.
    pub(crate) suspect: bool,
    /// Bytes of buffers it was last charged for.
    pub(crate) charged: u64,
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) id: SocketId,
    pub(crate) tuple: Tuple,
    /// The neighbour its packets go to.
    pub(crate) next_hop: IpAddr,
    /// Its name to IPv6 routers.
    pub(crate) flow_label: u32,
    /// Shared with the listener and its other connections until it is changed.
    pub(crate) config: Arc<TcpConfig>,
    pub(crate) hashes: (u64, u32, u32),
    pub(crate) links: QueueLinks,
    pub(crate) pending: PendingEvents,
    pub(crate) tsq: Tsq,
    pub(crate) pacer: Pacer,
    /// What the bytes waited for, if that is kept.
    pub(super) attribution: Option<Box<Attribution>>,
    /// The application has let go: no events, and the slot is freed when the connection ends.
    pub(crate) orphan: bool,
    /// The host is short of memory.
    pub(crate) pressed: bool,
    pub(super) state: State,
    pub(super) isn: u32,
    pub(super) timestamp_offset: u32,
    pub(super) negotiated: Option<Negotiated>,
    /// SND.UNA and SND.NXT as stream offsets.
    pub(super) una: u64,
    pub(super) nxt: u64,
    pub(super) buffer: SendBuffer,
    /// Offset of our FIN once the application has closed its half.
    pub(super) fin: Option<u64>,
    pub(super) peer: PeerWindow,
    pub(super) segments: Segments,
    pub(super) rtt: RttEstimator,
    pub(super) sampler: Sampler,
    pub(super) controller: Box<dyn Controller>,
    pub(super) verdict: Verdict,
    pub(super) phase: Phase,
    pub(super) repair: Repair,
    /// The window while PRR owns it.
    pub(super) recovery_window: Bytes,
    pub(super) flight: Flight,
    pub(super) receiver: Receiver,
    pub(super) ack_delay: AckDelay,
    pub(super) ecn: Ecn,
    pub(super) timers: Timers,
    pub(super) liveness: Liveness,
    pub(super) path_mtu: PathMtu,
    /// The latest that ICMP said of a segment in flight.
    pub(super) path_error: Option<PathError>,
    /// A reset is to be sent.
    pub(super) reset_due: bool,
    pub(super) totals: Totals,
    /// The application wrote less than it wanted and waits for room.
    pub(super) wants_room: bool,
    /// The application read everything and waits for more.
    pub(super) wants_data: bool,
}

/// What the sender remembers of the current flight.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// The window, not the application, stopped the sender before this offset.
    pub(super) window_limited_until: Option<u64>,
    /// Most bytes in flight in this round.
    pub(super) largest: u64,
    /// Most bytes in flight since the window last limited the sender, or since its use was last
    /// judged.
    pub(super) used: u64,
    /// When that was.
    pub(super) judged: Instant,
    /// Delivered total at which the next round begins.
    pub(super) round_end: Bytes,
    /// End of the last segment sent that was shorter than full (Minshall's rule).
    pub(super) small_end: u64,
    /// Since when nothing has been in flight.
    pub(super) idle_since: Option<Instant>,
    /// The peer's window, not the congestion window, stopped the sender last.
    pub(super) peer_limited: bool,
    /// Timeouts since the peer last acknowledged anything new.
    pub(super) timeouts: u32,
    /// This host's own discipline refused a segment. Nothing is sent until it may have room again:
    /// a completion of ours, an acknowledgement or a timeout. Trying again at once would only be
    /// refused again.
    pub(super) refused: bool,
}

impl Connection {
    /// An active open: the SYN is the first thing it wants to send.
    pub(crate) fn connect(opening: Opening, config: Arc<TcpConfig>) -> Self {
        Self::new(opening, config, State::SynSent)
    }

    /// A passive open: a SYN arrived at `listener`; `input` will be told of it.
    pub(crate) fn accept(opening: Opening, config: Arc<TcpConfig>, listener: SocketId) -> Self {
        let mut connection = Self::new(
            opening,
            config,
            State::SynReceived {
                listener: Some(listener),
            },
        );
        connection.links.half_open = true;
        connection
    }

    pub(super) fn new(opening: Opening, config: Arc<TcpConfig>, state: State) -> Self {
        let Opening {
            id,
            tuple,
            next_hop,
            flow_label,
            isn,
            timestamp_offset,
            hashes,
            mtu,
            now,
        } = opening;
        let segment = (mtu - tuple.headers_len() - TIMESTAMP_OPTION) as u64;
        let controller = config.congestion.build(&controller_config(
            segment,
            config.pacing,
            isn,
            timestamp_offset,
        ));
        Self {
            id,
            tuple,
            next_hop,
            flow_label,
            hashes,
            links: QueueLinks::default(),
            pending: PendingEvents::default(),
            tsq: Tsq::default(),
            pacer: Pacer::new(config.pacer),
            attribution: config.attribution.then(|| Box::new(Attribution::new(now))),
            orphan: false,
            pressed: false,
            state,
            isn,
            timestamp_offset,
            negotiated: None,
            una: 0,
            nxt: 0,
            buffer: SendBuffer::new(
                config
                    .send_start
                    .unwrap_or(Bytes::MAX)
                    .min(config.send_buffer)
                    .as_usize(),
            ),
            fin: None,
            // Before the peer speaks, only the SYN may leave.
            peer: PeerWindow {
                edge: 1,
                ..PeerWindow::default()
            },
            segments: Segments::default(),
            rtt: RttEstimator::default(),
            sampler: Sampler::default(),
            verdict: controller.verdict(),
            phase: Phase::Open,
            repair: Repair::default(),
            recovery_window: Bytes::ZERO,
            flight: Flight::default(),
            ack_delay: AckDelay::default(),
            receiver: Receiver::new(config.receive_start.get(), config.receive_buffer.get()),
            ecn: Ecn::new(config.ecn, controller.ecn()),
            timers: Timers::default(),
            liveness: Liveness::default(),
            path_mtu: PathMtu::new(mtu),
            path_error: None,
            reset_due: false,
            totals: Totals::default(),
            wants_room: false,
            wants_data: true,
            controller,
            config,
        }
    }

    /// Takes over the result of the handshake and starts the controller with the real segment size.
    pub(super) fn agree(&mut self, syn: &crate::wire::Segment<'_>, now: Instant) {
        let timestamps = syn.timestamp.is_some();
        let own = (self.path_mtu.link() - self.tuple.headers_len()) as u64;
        let peer = u64::from(syn.mss.unwrap_or_else(|| self.tuple.default_mss())).max(MIN_MSS);
        let segment = own.min(peer)
            - if timestamps {
                TIMESTAMP_OPTION as u64
            } else {
                0
            };
        let scaling = syn.window_scale.is_some();
        self.negotiated = Some(Negotiated {
            irs: syn.seq,
            peer_scale: syn.window_scale.unwrap_or(0).min(MAX_SCALE),
            own_scale: if scaling { self.own_scale() } else { 0 },
            scaling,
            sack: syn.sack_permitted,
            peer_timestamp: syn.timestamp.map(|(value, _)| value),
            peer_timestamp_at: now,
            options: if timestamps { TIMESTAMP_OPTION } else { 0 },
            most: segment,
            segment,
        });
        self.receiver.synchronised();
        self.start_controller(segment);
        self.expand_send_buffer();
    }

    /// From now on another algorithm has the say; it begins with the window of the one before
    /// (Linux `TCP_CONGESTION`).
    pub(crate) fn set_congestion(&mut self, congestion: Factory) {
        let before = self.verdict;
        Arc::make_mut(&mut self.config).congestion = congestion;
        self.start_controller(self.segment_size());
        self.controller.adopt(&before);
        self.verdict = self.controller.verdict();
    }

    /// A path on which opening took more than one repetition is entered with one segment (RFC 6928
    /// §2, Linux).
    pub(super) fn start_controller(&mut self, segment: u64) {
        let mut config =
            controller_config(segment, self.config.pacing, self.isn, self.timestamp_offset);
        if self.una == 0 && self.flight.timeouts > 1 {
            config.initial_window = config.mss;
        }
        self.controller = self.config.congestion.build(&config);
        self.verdict = self.controller.verdict();
    }

    /// The shift of our windows.
    pub(super) fn own_scale(&self) -> u8 {
        Self::scale_for(&self.config)
    }

    /// The shift that lets 16 bits express the whole buffer of `config`.
    pub(crate) fn scale_for(config: &TcpConfig) -> u8 {
        let buffer = config.receive_buffer.get();
        (0..MAX_SCALE)
            .find(|scale| buffer >> scale <= u64::from(u16::MAX))
            .unwrap_or(MAX_SCALE)
    }

    /// The state.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Our timestamp clock: milliseconds, offset per connection (RFC 7323 §5.4).
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.timestamp_offset)
    }

    /// Most payload in a segment.
    pub(crate) fn segment_size(&self) -> u64 {
        self.negotiated.as_ref().map_or_else(
            || self.tuple.default_mss().into(),
            |negotiated| negotiated.segment,
        )
    }

    /// A full segment's length on the wire.
    pub(crate) fn full_frame(&self) -> Bytes {
        let options = if self
            .negotiated
            .as_ref()
            .is_some_and(|a| a.peer_timestamp.is_some())
        {
            TIMESTAMP_OPTION
        } else {
            0
        };
        Bytes::new(
            self.segment_size() + (ETHERNET_HEADER + self.tuple.headers_len() + options) as u64,
        )
    }

    /// Takes data from the application: how much was taken; 0 means the buffer is full and a
    /// `Writable` event will follow.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<usize, SocketError> {
        self.take(data.len(), |buffer, most| buffer.write(&data[..most]))
    }

    /// The same with `count` zeros.
    pub(crate) fn write_zeros(&mut self, count: usize) -> Result<usize, SocketError> {
        self.take(count, SendBuffer::write_zeros)
    }

    fn take(
        &mut self,
        wanted: usize,
        write: impl FnOnce(&mut SendBuffer, usize) -> usize,
    ) -> Result<usize, SocketError> {
        if self.fin.is_some() {
            return Err(SocketError::Shutdown);
        }
        match self.state {
            State::Closed | State::TimeWait => Err(SocketError::Closed),
            _ => {
                self.note_application_limited();
                let most = self.may_write(wanted);
                let taken = write(&mut self.buffer, most);
                self.wants_room = taken < wanted;
                Ok(taken)
            }
        }
    }

    /// Gives received data to the application.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<Recv, SocketError> {
        let count = self.receiver.read(out);
        if count == 0 && !out.is_empty() {
            self.wants_data = true;
            return match self.state {
                _ if self.receiver.finished() => Ok(Recv::EndOfStream),
                State::Closed | State::TimeWait => Err(SocketError::Closed),
                _ => Ok(Recv::Empty),
            };
        }
        let scale = self
            .negotiated
            .as_ref()
            .map_or(0, |negotiated| negotiated.own_scale);
        if self.receiver.window_reopened(scale) && !self.receiver.finished() {
            self.receiver.owe_now();
        }
        Ok(Recv::Data(count))
    }

    /// The application closes its sending half: a FIN follows the queued data, and the handshake if
    /// that is still under way.
    pub(crate) fn shutdown(&mut self) {
        if self.fin.is_none() && !matches!(self.state, State::Closed | State::TimeWait) {
            self.fin = Some(self.buffer.end());
        }
    }

    /// The application lets go. Unread data means the peer must learn that it was not read: a reset
    /// (RFC 9293 §3.10.4).
    pub(crate) fn release(&mut self, now: Instant) {
        self.orphan = true;
        let at_once = self.config.linger == Some(Duration::ZERO) && self.state != State::TimeWait;
        if self.receiver.readable() > 0 || at_once {
            self.abort();
        } else if self.state == State::SynSent && self.buffer.len() == 0 {
            self.end(CloseReason::Local);
        } else {
            self.shutdown();
            match self.state {
                State::FinWait2 => self.timers.close = Some(now + self.config.fin_wait),
                State::TimeWait | State::Closed => {}
                _ => self.timers.close = self.linger_deadline(now),
            }
        }
    }

    /// Ends the connection at once and tells the peer.
    pub(crate) fn abort(&mut self) {
        // What is due stays due: an aborted connection may be let go before its reset has left.
        self.reset_due |= !matches!(self.state, State::SynSent | State::TimeWait | State::Closed);
        self.end(CloseReason::Aborted);
    }

    /// The connection is over.
    pub(super) fn end(&mut self, why: CloseReason) {
        if self.state != State::Closed {
            self.state = State::Closed;
            self.timers = Timers::default();
            self.pending.closed = Some(why);
        }
    }

    /// Nobody answers for the next hop. A connection with something outstanding outlives that until
    /// its retries run out; one that is being opened, or only has a last word to say, has no
    /// retries: nothing of it could leave.
    pub(crate) fn on_silent_neighbour(&mut self) {
        match self.state {
            State::SynSent | State::SynReceived { .. } => self.end(CloseReason::Unreachable),
            State::Closed => self.reset_due = false,
            _ if self.orphan && self.segments.is_empty() => self.end(CloseReason::Unreachable),
            _ => {}
        }
    }

    /// A lost segment waits to be sent again.
    pub(crate) fn wants_retransmission(&self) -> bool {
        self.segments.any_lost()
    }

    /// Nothing remains to be done for this connection.
    pub(crate) fn finished(&self) -> bool {
        self.state == State::Closed && !self.reset_due
    }

    /// The congestion window in force.
    pub(super) fn cwnd(&self) -> Bytes {
        match self.phase {
            Phase::Recovery(_) if self.controller.recovery() == tautline_cc::Recovery::Prr => {
                self.recovery_window
            }
            _ => self.verdict.cwnd,
        }
    }

    /// The delay of acknowledgements follows the path. The bounds of one that does not are not
    /// worth their computation.
    pub(super) fn ack_delay_varies(&self) -> bool {
        self.config.delayed_ack_max > self.config.delayed_ack
    }

    /// Within what an acknowledgement is delayed.
    pub(super) fn ack_bounds(&self) -> Bounds {
        let (least, most) = (self.config.delayed_ack, self.config.delayed_ack_max);
        Bounds {
            least,
            most,
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
        }
    }

    /// A retransmission timeout after `at`.
    #[inline]
    pub(super) fn rto_after(&self, at: Instant) -> Instant {
        at.after_nanos(self.rtt.rto_nanos())
    }

    /// The retransmission timeout.
    pub(super) fn rto(&self) -> Duration {
        self.rtt.rto()
    }
}

/// What a controller for segments of `segment` bytes is built from. Both numbers are random per
/// connection, and so is its seed.
fn controller_config(
    segment: u64,
    pacing: Pacing,
    isn: u32,
    timestamp_offset: u32,
) -> tautline_cc::Config {
    let seed = u64::from(isn) << 32 | u64::from(timestamp_offset);
    tautline_cc::Config {
        seed,
        paced: pacing != Pacing::Off,
        ..tautline_cc::Config::new(Bytes::new(segment))
    }
}
