//! One TCP connection: its state, its two halves, and what the application does to it (RFC 9293
//! §3.10.1–3.10.6).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Frame, Instant, Item, Packet, SegmentId, SocketId};
use tautline_qdisc::DropReason;

use super::ecn::Ecn;
use super::fast_open::FastOpen;
use super::liveness::Liveness;
use super::negotiated::Negotiated;
use super::receiver::{ReceiveShare, Receiver};
use super::send::{AppData, Boundary, Numbers, SendHalf, SendOptions};
use super::state::State;
use super::tuple::Tuple;
use crate::attribution::Attribution;
use crate::config::{Pacing, TcpConfig};
use crate::kept_bytes::KeptBytes;
use crate::socket::{CloseReason, PathError, Recv, SocketError, SocketOption};
use crate::tsq::Tsq;
use crate::wire::TIMESTAMP_OPTION;

/// Smallest MSS we obey: below it a peer could make us send mostly headers (CVE-2019-11479).
const MIN_MSS: u64 = 64;

/// Origin of a connection.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) id: SocketId,
    pub(crate) tuple: Tuple,
    /// Next hop of its packets.
    pub(crate) next_hop: IpAddr,
    /// Its name to IPv6 routers.
    pub(crate) flow_label: u32,
    /// Initial sequence number (RFC 6528).
    pub(crate) isn: u32,
    /// Added to the clock to form timestamps, random per connection.
    pub(crate) timestamp_offset: u32,
    pub(crate) hashes: (u64, u32, u32),
    /// Largest IP packet the device carries.
    pub(crate) mtu: usize,
    pub(crate) now: Instant,
}

/// Changes to report to the application.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    pub(crate) established: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) closed: Option<CloseReason>,
}

impl PendingEvents {
    /// There are changes to report.
    pub(crate) fn anything(&self) -> bool {
        self.established || self.readable || self.writable || self.closed.is_some()
    }
}

/// A connection's links to the host's queues and accounts.
#[derive(Debug, Default)]
pub(crate) struct QueueLinks {
    /// On the run queue.
    pub(crate) queued: bool,
    /// In the pacing queue.
    pub(crate) paced: bool,
    /// In the queue of connections with memory to release.
    pub(crate) idling: bool,
    /// Among those that wait for a free frame.
    pub(crate) starved: bool,
    /// The earliest of its entries in the timer queue.
    pub(crate) armed: Option<Instant>,
    /// Counted among its peer's connections to this listener.
    pub(crate) counted_at: Option<SocketId>,
    /// Where that listener counts it until the handshake is complete.
    pub(crate) handshake: Handshake,
    /// Counted among the orphans.
    pub(crate) counted_orphan: bool,
    /// In the queue of connections to reset when memory is short.
    pub(crate) suspect: bool,
    /// Bytes of buffers it was last charged for.
    pub(crate) charged: u64,
    /// Consecutive unanswered rounds of requests for the hardware address of its next hop.
    pub(crate) unresolved: u8,
}

/// The count of half-open connections, at their listener, that includes a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// None: the handshake is complete, or the application has accepted the connection.
    #[default]
    Uncounted,
    /// The backlog.
    InBacklog,
    /// Those that rest on a Fast Open cookie.
    Unconfirmed,
}

/// How the application reads.
pub(crate) enum Reading<'a> {
    /// Into a buffer; `stays`: the data can be read again.
    Copied { out: &'a mut [u8], stays: bool },
    /// In place. Returns how many bytes are consumed.
    Lent(&'a mut dyn FnMut(&[u8]) -> usize),
    /// A packet with the memory that it arrived in, if it is kept. Returns whether it is consumed.
    Kept(&'a mut dyn FnMut(&KeptBytes) -> bool),
}

/// Limits that the host's memory puts on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostMemory {
    /// The host is short of memory.
    pub(crate) pressure: bool,
    /// Most bytes that the receive window may offer, if the host's memory limits it.
    pub(crate) share: Option<ReceiveShare>,
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) id: SocketId,
    pub(crate) tuple: Tuple,
    /// Next hop of its packets.
    pub(crate) next_hop: IpAddr,
    /// Its name to IPv6 routers.
    pub(crate) flow_label: u32,
    /// Shared with the listener and its other connections until it is changed.
    pub(crate) config: Arc<TcpConfig>,
    pub(crate) hashes: (u64, u32, u32),
    pub(crate) links: QueueLinks,
    pub(crate) pending: PendingEvents,
    pub(crate) tsq: Tsq,
    /// Attribution of waiting time, if configured.
    pub(crate) attribution: Option<Box<Attribution>>,
    /// The application has closed the socket: no events, and the slot is freed when the connection
    /// ends.
    pub(crate) orphan: bool,
    pub(crate) host_memory: HostMemory,
    pub(super) state: State,
    pub(super) negotiated: Option<Negotiated>,
    pub(super) send: SendHalf,
    pub(super) receiver: Receiver,
    pub(super) ecn: Ecn,
    pub(crate) liveness: Liveness,
    /// The latest ICMP error about a segment in flight.
    pub(super) path_error: Option<PathError>,
    pub(crate) fast_open: FastOpen,
}

impl Connection {
    /// A passive open: a SYN arrived at `listener`, or was accepted by the application if `None`. The
    /// caller passes that SYN to `on_segment`.
    pub(crate) fn accept(
        opening: Opening,
        config: Arc<TcpConfig>,
        listener: Option<SocketId>,
    ) -> Self {
        let mut connection = Self::new(opening, config, State::SynReceived { listener });
        if listener.is_some() {
            connection.links.handshake = Handshake::InBacklog;
        }
        connection
    }

    /// In SYN-SENT, an active open, the SYN is the first thing it wants to send.
    pub(crate) fn new(opening: Opening, config: Arc<TcpConfig>, state: State) -> Self {
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
        let numbers = Numbers {
            isn,
            timestamp_offset,
        };
        let send = SendHalf::new(numbers, &tuple, mtu, config.clone());
        Self {
            id,
            tuple,
            next_hop,
            flow_label,
            hashes,
            links: QueueLinks::default(),
            pending: PendingEvents::default(),
            tsq: Tsq::default(),
            attribution: config.attribution.then(|| Box::new(Attribution::new(now))),
            orphan: false,
            host_memory: HostMemory::default(),
            state,
            negotiated: None,
            receiver: Receiver::new(config.receive_start.get(), config.receive_buffer.get())
                .charging(config.receive_charge, config.receive_overhead)
                .offering(config.window_scale())
                .following_reads(config.acks_follow_reads)
                .sizing_on_read(config.size_on_read),
            ecn: Ecn::new(config.ecn, send.flight.congestion.controller().ecn()),
            liveness: Liveness::new(send.flight.numbers().seed()),
            send,
            path_error: None,
            fast_open: FastOpen::default(),
            config,
        }
    }

    /// Takes over what the peer's SYN agrees to, and starts the controller with the real segment size.
    pub(super) fn agree(&mut self, syn: &crate::wire::Segment<'_>, now: Instant) {
        let negotiated = Negotiated::new(syn, &self.config, self.receiver.offered_scale, now);
        let sack = negotiated.sack;
        let timestamps = negotiated.timestamps.recent.is_some();
        let scale = negotiated.own_scale;
        self.negotiated = Some(negotiated);
        let headers = self.tuple.headers_len();
        let own = self
            .tuple
            .own_mss(self.send.flight.path.link(), &self.config);
        let peer =
            u64::from(syn.offers.mss.unwrap_or_else(|| self.tuple.default_mss())).max(MIN_MSS);
        let options = if timestamps { TIMESTAMP_OPTION } else { 0 };
        self.receiver
            .agreed(scale, u32::from(own).saturating_sub(options as u32));
        self.receiver.synchronized();
        self.send.stream.window.update_from_syn(1, syn.window);
        let options = SendOptions {
            sack,
            most: u64::from(own).min(peer) - options as u64,
            headers: headers + options,
        };
        self.send.open(options, self.host_memory.pressure);
    }

    /// Changes an option of an open connection.
    pub(crate) fn set_option(&mut self, option: SocketOption, now: Instant) {
        let is_congestion = matches!(option, SocketOption::Congestion(_));
        let config = Arc::make_mut(&mut self.config);
        match option {
            SocketOption::Congestion(factory) => config.congestion = factory,
            SocketOption::Cork(is_on) => {
                self.send.stream.corked = is_on;
                self.send.stream.more &= is_on;
            }
            SocketOption::Keepalive(keepalive) => {
                config.keepalive = keepalive;
                self.liveness.restart_keepalive(now);
            }
            SocketOption::Linger(time) => config.linger = time,
            SocketOption::MaxPacingRate(rate) => {
                config.max_pacing_rate = rate;
                if rate.is_some() && config.pacing == Pacing::Off {
                    config.pacing = Pacing::Internal;
                }
            }
            SocketOption::MaxSegment(most) => {
                config.max_segment = Some(most);
                self.send.flight.clamp_mss(most, &self.tuple);
            }
            SocketOption::Nodelay(is_on) => config.nagle = !is_on,
            SocketOption::NotsentLowat(lowat) => config.notsent_lowat = lowat,
            SocketOption::Pacing(place) => {
                config.pacing = place;
                self.send.flight.depart_by(now);
            }
            SocketOption::ReceiveBuffer(size) => {
                (config.receive_buffer, config.receive_start) = (size, size);
                self.receiver.set_capacity(size.get());
                // Our SYN has told the peer what its windows mean.
                if self.send.flight.nxt() == 0 {
                    self.receiver.offered_scale = config.window_scale();
                }
            }
            SocketOption::SendBuffer(size) => {
                (config.send_buffer, config.send_start) = (size, None);
                self.send.stream.buffer.set_capacity(size.as_usize());
            }
            SocketOption::Tos(tos) => config.tos = tos,
            SocketOption::UserTimeout(limit) => config.user_timeout = limit,
        }
        self.send.flight.configure(self.config.clone());
        if is_congestion {
            self.send.flight.set_congestion();
        }
        self.pending.writable |= self.send.has_room_again(self.host_memory.pressure);
    }

    /// The state.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Takes data from the application: how much was taken; 0 means the buffer is full and a
    /// `Writable` event will follow. What does not fill a segment waits for more, if that is announced;
    /// a record ends if all of it was taken.
    pub(crate) fn write(
        &mut self,
        data: AppData<'_>,
        then: Boundary,
        now: Instant,
    ) -> Result<usize, SocketError> {
        if self.send.stream.fin().is_some() {
            return Err(SocketError::Shutdown);
        }
        if self.state.is_over() {
            return Err(SocketError::Closed);
        }
        let end = self.send.stream.buffer.end();
        self.send
            .flight
            .note_application_limited(end, self.tsq.charged());
        let taken = self.send.write(data, self.host_memory.pressure);
        let (nxt, stream) = (self.send.flight.nxt(), &mut self.send.stream);
        stream.more = then == Boundary::More;
        if then == Boundary::Record && !stream.buffer.wants_room() {
            stream.end_record(nxt);
        }
        if self.config.push_writes && then != Boundary::More {
            stream.end_write(taken, self.send.flight.mss());
        }
        if let Some(attribution) = &mut self.attribution {
            attribution.written(self.send.stream.buffer.end(), now);
        }
        Ok(taken)
    }

    /// Gives received data to the application.
    pub(crate) fn read(&mut self, how: Reading<'_>, now: Instant) -> Result<Recv, SocketError> {
        let (count, stays) = match how {
            Reading::Copied { out, stays } => {
                let count = self.receiver.peek(out);
                ((count > 0 || out.is_empty()).then_some(count), stays)
            }
            Reading::Lent(read) => {
                let lent = self.receiver.readable_bytes();
                let count = (!lent.is_empty()).then(|| read(lent).min(lent.len()));
                (count, false)
            }
            Reading::Kept(take) => {
                let kept = self.receiver.kept_bytes().filter(|kept| take(kept));
                let count = kept.map_or(0, |kept| kept.bytes.len());
                (Some(count), count == 0)
            }
        };
        let Some(count) = count else {
            self.receiver.wait_for_data();
            return match self.state {
                _ if self.receiver.finished() || self.receiver.is_shut() => Ok(Recv::EndOfStream),
                state if state.is_over() => Err(SocketError::Closed),
                _ => Ok(Recv::Empty),
            };
        };
        if !stays {
            self.receiver.consume(count, now);
            let negotiated = self.negotiated.as_ref();
            let scale = negotiated.map_or(0, |agreed| agreed.own_scale);
            self.receiver.announce_window(scale, self.host_memory.share);
        }
        Ok(Recv::Data(count))
    }

    /// The application closes its sending half: a FIN follows the queued data, after the handshake.
    pub(crate) fn shutdown(&mut self) {
        if !self.state.is_over() {
            self.send.stream.finish();
        }
    }

    /// The application closes its receiving half: a reader that waits sees the end.
    pub(crate) fn shutdown_receive(&mut self) {
        self.receiver.shut();
        self.pending.readable = true;
    }

    /// The application lets go. Unread data means the peer must learn that it was not read: a reset
    /// (RFC 9293 §3.10.4).
    pub(crate) fn release(&mut self, now: Instant) {
        self.orphan = true;
        let at_once = self.config.linger == Some(Duration::ZERO) && self.state != State::TimeWait;
        if self.receiver.readable() > 0 || at_once {
            self.abort(CloseReason::Aborted);
        } else if self.state == State::SynSent && self.send.stream.buffer.len() == 0 {
            self.end(CloseReason::Local);
        } else {
            self.shutdown();
            match self.state {
                State::FinWait2 => self.liveness.close = Some(now + self.config.fin_wait),
                State::TimeWait | State::Closed => {}
                // It has this long to deliver what was written, if its linger time is limited.
                _ => self.liveness.close = self.config.linger.map(|time| now + time),
            }
        }
    }

    /// Aborts the connection with a reset.
    pub(crate) fn abort(&mut self, why: CloseReason) {
        // Pending work stays pending: an aborted connection may be let go before its reset has
        // left.
        self.send.reset_due |= self.state != State::SynSent && !self.state.is_over();
        self.end(why);
    }

    /// The connection is over.
    pub(crate) fn end(&mut self, why: CloseReason) {
        // Also of a connection that was over before.
        if why == CloseReason::OutOfMemory {
            self.receiver.clear();
        }
        if self.state != State::Closed {
            self.state = State::Closed;
            self.send.stop_timers();
            // Nobody will have what was written; the application may keep the socket for long.
            self.send.discard();
            if why == CloseReason::AddressLost {
                // Nothing leaves from an address that may be another host's.
                self.send.reset_due = false;
            }
            self.liveness.close = None;
            self.pending.closed = Some(why);
        }
    }

    /// No request of a round for the next hop's hardware address was answered: a soft error (RFC
    /// 1122 §4.2.3.9). A connection keeps requesting the address while it has something to send: one
    /// that is being opened for as many rounds as its SYN has retries. A half-open connection ends,
    /// since its peer will send the SYN again. To any other what could not leave is what was lost on
    /// the way: its timeouts and probes are limited.
    pub(crate) fn on_unresolved_next_hop(&mut self, now: Instant) {
        self.path_error = Some(PathError::HostUnreachable);
        self.links.unresolved = self.links.unresolved.saturating_add(1);
        let limit = match self.state {
            State::Closed => {
                self.send.reset_due = false;
                return;
            }
            State::SynSent | State::SynReceived { listener: None } => {
                self.liveness.wait(now);
                self.config.syn_retries
            }
            State::SynReceived { .. } => 0,
            _ => {
                self.liveness.probed(now);
                if self.send.on_unresolved_next_hop(now) {
                    self.liveness.wait(now);
                }
                return;
            }
        };
        if u32::from(self.links.unresolved) > limit.min(254) {
            self.end(CloseReason::Unreachable);
        }
    }

    /// A packet of this connection, of `count` segments, has left the host, sent or dropped. True
    /// when that lets it send again.
    pub(crate) fn left_host(&mut self, segment: Option<SegmentId>, count: u16, sent: bool) -> bool {
        self.send.flight.left_host(segment, count, sent) || self.send.flight.segments.any_lost()
    }

    /// `packet` of this connection was dropped in this host, and it is notified.
    pub(crate) fn on_local_drop<F: Frame>(
        &mut self,
        packet: &Packet<F>,
        reason: DropReason,
        now: Instant,
    ) {
        let opening = self.state.is_opening();
        let flight = &mut self.send.flight;
        if reason == DropReason::Horizon {
            flight.congestion.withdraw_departure(packet.departure());
        }
        let segment = packet.owner().and_then(|owner| owner.segment);
        flight.on_local_drop(segment, packet.segments(), reason, (opening, now));
    }

    /// Nothing remains to be done for this connection.
    pub(crate) fn finished(&self) -> bool {
        self.state == State::Closed && !self.send.reset_due
    }
}
