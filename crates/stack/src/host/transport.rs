//! [`Transport`]: the sockets of a host and their queues, without packets and devices: lifecycle,
//! deadlines, events.

pub(super) mod addresses;
mod listeners;
mod memory;
mod requests;

pub(super) use self::listeners::SynAction;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tautline_base::{DropReason, Frame, Instant, Owner, Packet, Settled, SocketId};

use self::memory::Memory;
use self::requests::Requests;
use super::demux::Demux;
use crate::addressing::Addressing;
use crate::attribution::Attribution;
use crate::config::{LocalDropReporting, TcpConfig};
use crate::fast_open::Servers;
use crate::keyed::Key;
use crate::link_mtu::LinkMtu;
use crate::proven::ProvenPeers;
use crate::queues::{RunQueue, TimeQueue};
use crate::socket::{Event, ListenAt, Recv, SocketError};
use crate::sockets::{Socket, Sockets};
use crate::stats::HostStats;
use crate::tcp::{AppData, Boundary, Connection, Handshake, Opening, Reading, State, Tuple};
use crate::time_wait::TimeWaits;
use crate::udp::socket::UdpSocket;
use crate::udp::{BindError, UdpConfig};
use crate::wire::Segment;
use crate::wire::icmp::IcmpError;

/// Local ports of active opens (Linux `ip_local_port_range`).
const EPHEMERAL: std::ops::Range<u32> = 32_768..61_000;
/// Stands for all addresses of the host in the table of datagram ports.
pub(super) const ALL: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
/// Sums of times saturate here.
const END_OF_TIME: Instant = Instant::from_nanos(u64::MAX);

/// Stage at which a packet was dropped; decides whether its connection is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropStage {
    /// In the call that enqueued a packet of this owner.
    Enqueue(Option<SocketId>),
    /// At dequeue, or by a reset.
    Later,
}

/// Sockets, the tables that find them, and the queues that run them.
pub(super) struct Transport {
    key: Key,
    /// MTU of new connections.
    pub(super) mtu: LinkMtu,
    pub(super) sockets: Sockets,
    pub(super) demux: Demux,
    pub(super) time_waits: TimeWaits,
    listeners: HashMap<ListenAt, SocketId, Key>,
    /// Fast Open cookies this host was given.
    pub(super) servers: Servers,
    /// Peers that answered a SYN-ACK.
    pub(super) proven: ProvenPeers,
    /// Datagram sockets by address and port.
    udp_ports: HashMap<(IpAddr, u16), SocketId, Key>,
    next_port: u32,
    pub(super) memory: Memory,
    pub(super) requests: Requests,
    pub(super) runnable: RunQueue,
    pub(super) deadlines: TimeQueue,
    pub(super) paced: TimeQueue,
    /// Connections that keep buffers for data to come.
    pub(super) idling: TimeQueue,
    /// Sockets that found the frame pool empty.
    pub(super) starved: VecDeque<SocketId>,
    pub(super) events: VecDeque<Event>,
    /// Whether any connection keeps latency attribution.
    pub(super) attributing: bool,
    /// The counters of this layer; the interface counts the others.
    pub(super) stats: HostStats,
}

impl Transport {
    pub(super) fn new(key: Key, mtu: LinkMtu) -> Self {
        Self {
            key,
            mtu,
            sockets: Sockets::default(),
            demux: Demux::new(key),
            time_waits: TimeWaits::new(key),
            listeners: HashMap::with_hasher(key),
            servers: Servers::new(key),
            proven: ProvenPeers::new(key),
            udp_ports: HashMap::with_hasher(key),
            next_port: 0,
            memory: Memory::default(),
            requests: Requests::new(key),
            runnable: RunQueue::default(),
            deadlines: TimeQueue::default(),
            paced: TimeQueue::default(),
            idling: TimeQueue::default(),
            starved: VecDeque::new(),
            events: VecDeque::new(),
            attributing: false,
            stats: HostStats::default(),
        }
    }

    /// Counts what another layer has not: the counters of connections and listeners.
    pub(super) fn add_to(&self, stats: HostStats) -> HostStats {
        HostStats {
            backlog_full: self.stats.backlog_full,
            backlog_refused: self.stats.backlog_refused,
            fast_opened: self.stats.fast_opened,
            fast_open_full: self.stats.fast_open_full,
            accept_queue_full: self.stats.accept_queue_full,
            too_many_of_peer: self.stats.too_many_of_peer,
            time_wait_full: self.stats.time_wait_full,
            too_many_orphans: self.stats.too_many_orphans,
            out_of_memory: self.stats.out_of_memory,
            ..stats
        }
    }

    /// Runs `change` on a connection and lets it run.
    pub(super) fn with_connection(
        &mut self,
        id: SocketId,
        change: impl FnOnce(&mut Connection),
    ) -> Result<(), SocketError> {
        let connection = self.sockets.connection_mut(id);
        change(connection.ok_or(SocketError::NoSuchSocket)?);
        self.mark_runnable(id);
        Ok(())
    }

    /// The application writes to a connection. Returns how many bytes were taken.
    pub(super) fn write(
        &mut self,
        id: SocketId,
        data: AppData<'_>,
        then: Boundary,
        now: Instant,
    ) -> Result<usize, SocketError> {
        let connection = self.sockets.connection_mut(id);
        let connection = connection.ok_or(SocketError::NoSuchSocket)?;
        let taken = connection.write(data, then, now)?;
        self.runnable.push(connection);
        self.charge_if_changed(id);
        Ok(taken)
    }

    /// The application reads from a connection.
    pub(super) fn read(
        &mut self,
        id: SocketId,
        how: Reading<'_>,
        now: Instant,
    ) -> Result<Recv, SocketError> {
        let connection = self.sockets.connection_mut(id);
        let connection = connection.ok_or(SocketError::NoSuchSocket)?;
        let read = connection.read(how, now)?;
        if read == Recv::Data(0) {
            return Ok(read);
        }
        // Reading may have opened the window.
        self.runnable.push(connection);
        self.charge_if_changed(id);
        Ok(read)
    }

    /// Ends a connection in TIME-WAIT, still held by the application, if `segment` opens its
    /// successor. Returns the successor's initial sequence number if it must be chosen. The
    /// application can still read received data; only the address pair is freed.
    #[inline]
    pub(super) fn replace(
        &mut self,
        id: SocketId,
        tuple: &Tuple,
        segment: &Segment<'_>,
    ) -> Option<Option<u32>> {
        let connection = self.sockets.connection_mut(id)?;
        let isn = connection.end_for(segment)?;
        self.demux.remove(tuple, id);
        self.mark_runnable(id);
        Some(isn)
    }

    /// Adds a connection between the ends of `tuple`, built by `build`.
    pub(super) fn insert_connection(
        &mut self,
        tuple: Tuple,
        build: impl FnOnce(SocketId) -> Connection,
    ) -> SocketId {
        let make = |id| Socket::Connection(Box::new(build(id)));
        let id = self.sockets.insert(make);
        self.demux.insert(&tuple, id, &self.sockets);
        id
    }

    /// The parameters of a new connection; its initial sequence number may be given.
    pub(super) fn opening(
        &self,
        tuple: Tuple,
        next_hop: IpAddr,
        isn: Option<u32>,
        now: Instant,
    ) -> impl FnOnce(SocketId) -> Opening + use<> {
        let isn = isn.unwrap_or_else(|| self.key.initial_sequence(&tuple, now));
        let timestamp_offset = self.key.timestamp_offset(&tuple);
        let (hashes, flow_label) = (self.key.flow(&tuple), self.key.flow_label(&tuple));
        let mtu = self.mtu.of(tuple.remote);
        move |id| Opening {
            id,
            tuple,
            next_hop,
            flow_label,
            isn,
            timestamp_offset,
            hashes,
            mtu,
            now,
        }
    }

    /// Ends with a free local port toward `remote`; the search begins at a keyed port (RFC 6056
    /// §3.3.3).
    pub(super) fn free_tuple(&mut self, local: IpAddr, remote: SocketAddr) -> Option<Tuple> {
        let count = EPHEMERAL.end - EPHEMERAL.start;
        let offset = self.key.port_offset(remote);
        (0..count).find_map(|_| {
            let local_port = (EPHEMERAL.start + offset.wrapping_add(self.next_port) % count) as u16;
            self.next_port = self.next_port.wrapping_add(1);
            let tuple = Tuple {
                local,
                remote: remote.ip(),
                local_port,
                remote_port: remote.port(),
            };
            (!self.is_taken(&tuple)).then_some(tuple)
        })
    }

    /// Whether a connection between these ends exists, or one that was closed lately.
    pub(super) fn is_taken(&self, tuple: &Tuple) -> bool {
        self.demux.get(tuple, &self.sockets).is_some() || self.time_waits.contains(tuple)
    }

    /// A datagram socket on `local`; port 0 stands for any free port.
    ///
    /// # Errors
    /// [`BindError`]: not an address of the host, or in use.
    pub(super) fn bind_udp(
        &mut self,
        mut local: SocketAddr,
        config: UdpConfig,
        addressing: &Addressing,
    ) -> Result<SocketId, BindError> {
        local.set_ip(local.ip().to_canonical());
        if !local.ip().is_unspecified() && !addressing.is_own(local.ip()) {
            return Err(BindError::NotOurs(local));
        }
        if local.port() == 0 {
            let port = self.free_udp_port(local, addressing);
            local.set_port(port.ok_or(BindError::NoPort)?);
        } else if self.is_udp_in_use(local, addressing) {
            return Err(BindError::InUse(local));
        }
        let make = |id| Socket::Udp(Box::new(UdpSocket::new(id, local, config)));
        let id = self.sockets.insert(make);
        self.udp_ports.insert(udp_key(local), id);
        Ok(id)
    }

    /// A datagram socket for every address and port that no other has.
    ///
    /// # Errors
    /// [`BindError::InUse`]: there is one.
    pub(super) fn bind_udp_everywhere(&mut self, config: UdpConfig) -> Result<SocketId, BindError> {
        let local = SocketAddr::new(ALL, 0);
        if self.udp_ports.contains_key(&udp_key(local)) {
            return Err(BindError::InUse(local));
        }
        let make = |id| Socket::Udp(Box::new(UdpSocket::new(id, local, config)));
        let id = self.sockets.insert(make);
        self.udp_ports.insert(udp_key(local), id);
        Ok(id)
    }

    /// A free port, at random: an attacker that has seen those of other sockets must not know where
    /// this one expects answers (RFC 6056 §3.3.1, RFC 5452 §4.5).
    fn free_udp_port(&mut self, local: SocketAddr, addressing: &Addressing) -> Option<u16> {
        let count = EPHEMERAL.end - EPHEMERAL.start;
        self.next_port = self.next_port.wrapping_add(1);
        let offset = self.key.datagram_port(self.next_port) % count;
        (0..count).find_map(|step| {
            let port = (EPHEMERAL.start + (offset + step) % count) as u16;
            let local = SocketAddr::new(local.ip(), port);
            (!self.is_udp_in_use(local, addressing)).then_some(port)
        })
    }

    /// A socket on all addresses and one on a single address cannot share a port.
    fn is_udp_in_use(&self, local: SocketAddr, addressing: &Addressing) -> bool {
        let taken = |address: IpAddr| self.udp_ports.contains_key(&(address, local.port()));
        taken(ALL)
            || if local.ip().is_unspecified() {
                addressing.own().any(taken)
            } else {
                taken(local.ip())
            }
    }

    /// The datagram socket at `port` of `address`, or of all addresses, or that of every port.
    pub(super) fn udp_at(&self, address: IpAddr, port: u16) -> Option<SocketId> {
        let mut places = [(address, port), (ALL, port), (ALL, 0)].into_iter();
        places.find_map(|place| self.udp_ports.get(&place).copied())
    }

    /// Releases a datagram socket: its port becomes free, and queued datagrams are still sent.
    pub(super) fn release_udp(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.udp_mut(id) else {
            return;
        };
        socket.orphan = true;
        let at = udp_key(socket.local);
        if socket.finished() {
            self.sockets.remove(id);
        }
        if self.udp_ports.get(&at) == Some(&id) {
            self.udp_ports.remove(&at);
        }
    }

    /// Handles an ICMP error about a datagram. Only a connected socket learns of it: it alone knows
    /// its peer (RFC 1122 §4.1.3.3). False if no socket can have caused it.
    pub(super) fn on_udp_error(&mut self, error: &IcmpError) -> bool {
        let (local, remote) = error.ports();
        let Some(id) = self.udp_at(error.source, local) else {
            return false;
        };
        let Some(socket) = self.sockets.udp_mut(id) else {
            return false;
        };
        if socket.remote() != Some(SocketAddr::new(error.destination, remote)) {
            return false;
        }
        socket.fail(error.problem.into());
        self.notify_udp(id);
        true
    }

    /// Handles an ICMP error about a segment. False if no connection has it in flight.
    pub(super) fn on_tcp_error(&mut self, error: &IcmpError) -> bool {
        let (local_port, remote_port) = error.ports();
        let tuple = Tuple {
            local: error.source,
            remote: error.destination,
            local_port,
            remote_port,
        };
        let Some(id) = self.demux.get(&tuple, &self.sockets) else {
            return false;
        };
        let connection = self.sockets.connection_mut(id);
        let is_plausible = connection
            .is_some_and(|connection| connection.on_icmp_error(error.problem, error.seq()));
        if is_plausible {
            self.mark_runnable(id);
        }
        is_plausible
    }

    /// Queues the events of a datagram socket for its application.
    pub(super) fn notify_udp(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.udp_mut(id) else {
            return;
        };
        let pending = std::mem::take(&mut socket.pending);
        if !socket.orphan {
            let events = [
                pending.readable.then_some(Event::Readable(id)),
                pending.writable.then_some(Event::Writable(id)),
            ];
            self.events.extend(events.into_iter().flatten());
        }
    }

    /// The next socket to run: with frames in the pool, one that waited for a frame, else one from
    /// the run queue.
    pub(super) fn next_runnable(&mut self, has_frames: bool) -> Option<SocketId> {
        let starved = if has_frames {
            self.starved.pop_front()
        } else {
            None
        };
        let id = starved.or_else(|| self.runnable.pop())?;
        if let Some((is_queued, is_starved)) = self.sockets.flags(id) {
            *(if starved.is_some() {
                is_starved
            } else {
                is_queued
            }) = false;
        }
        Some(id)
    }

    /// Puts a socket back on the run queue.
    pub(super) fn requeue(&mut self, id: SocketId) {
        if let Some((is_queued, _)) = self.sockets.flags(id) {
            self.runnable.add(id, is_queued);
        }
    }

    /// Lets a socket wait for a free frame.
    pub(super) fn wait_for_frame(&mut self, id: SocketId) {
        if let Some((_, is_starved)) = self.sockets.flags(id)
            && !std::mem::replace(is_starved, true)
        {
            self.starved.push_back(id);
        }
    }

    /// Runs the timers that have expired at `now`.
    pub(super) fn on_deadlines(&mut self, now: Instant) {
        while let Some((at, id)) = self.deadlines.pop_due(now) {
            let Some(connection) = self.sockets.connection_mut(id) else {
                continue;
            };
            if connection.links.armed != Some(at) {
                continue;
            }
            connection.links.armed = None;
            if connection.next_deadline().is_some_and(|at| at <= now) {
                connection.on_deadline(now);
            }
            self.mark_runnable(id);
        }
        while let Some((_, id)) = self.paced.pop_due(now) {
            if let Some(connection) = self.sockets.connection_mut(id) {
                connection.links.paced = false;
                self.runnable.push(connection);
            }
        }
        while let Some((_, id)) = self.idling.pop_due(now) {
            if let Some(connection) = self.sockets.connection_mut(id) {
                connection.links.idling = false;
                connection.release_memory(now);
                self.charge(id);
                self.arm_memory_release(id);
            }
        }
        self.shed_stalled(now);
        self.time_waits.on_deadline(now);
        self.expire_requests(now);
    }

    /// Arms the release of an idle connection's buffers. An arrival only defers it, so one entry is
    /// enough.
    fn arm_memory_release(&mut self, id: SocketId) {
        if let Some(connection) = self.sockets.connection_mut(id)
            && !connection.links.idling
            && let Some(at) = connection.release_at().filter(|at| *at < END_OF_TIME)
        {
            connection.links.idling = true;
            self.idling.push(at, id);
        }
    }

    /// Lets a socket run, and [reconciles](Self::reconcile) a connection.
    pub(super) fn mark_runnable(&mut self, id: SocketId) {
        if let Some(connection) = self.sockets.connection_mut(id) {
            self.runnable.push(connection);
            self.reconcile(id);
        } else if let Some(socket) = self.sockets.udp_mut(id) {
            socket.try_again();
            self.runnable.add(id, &mut socket.links.queued);
        }
    }

    /// Brings the host in line with a connection's state: events, memory, the armed deadline; frees
    /// a finished one.
    pub(super) fn reconcile(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        // Of an open connection only events and memory change: no listener counts it any more.
        let is_steady = connection.links.handshake == Handshake::Uncounted
            && !connection.state().is_over()
            && !connection.fast_open.is_used();
        if !is_steady {
            if !self.notify_owner(id) {
                return;
            }
        } else if connection.pending.anything() {
            queue_events(&mut self.events, connection);
            self.charge(id);
        } else if !self.memory.is_charged(connection) {
            self.charge(id);
        }
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        let is_idling = connection.links.idling;
        // A saturated deadline would fire on every poll; do not arm it.
        if let Some(at) = connection.next_deadline()
            && at < END_OF_TIME
            && connection.links.armed.is_none_or(|armed| at < armed)
        {
            connection.links.armed = Some(at);
            self.deadlines.push(at, id);
            let sockets = &self.sockets;
            self.deadlines.sweep(sockets.len(), |at, id| {
                let connection = sockets.connection(id);
                connection.is_some_and(|connection| connection.links.armed == Some(at))
            });
        }
        if !is_idling {
            self.arm_memory_release(id);
        }
    }

    /// Passes a connection's change on to its listener, its application and the memory account.
    /// False if the connection is gone.
    fn notify_owner(&mut self, id: SocketId) -> bool {
        self.leave_backlog(id);
        self.learn(id);
        let Some(connection) = self.sockets.connection_mut(id) else {
            return false;
        };
        queue_events(&mut self.events, connection);
        if connection.finished() && connection.orphan {
            self.remove(id);
            return false;
        }
        if connection.state() == State::TimeWait && self.retire(id) {
            return false;
        }
        self.charge(id);
        true
    }

    /// Remembers what a connection that opened, or failed to, taught about Fast Open.
    fn learn(&mut self, id: SocketId) {
        if let Some(connection) = self.sockets.connection_mut(id)
            && connection.state() != State::SynSent
            && let Some(lesson) = connection.fast_open.take_lesson()
        {
            let server = connection.tuple.remote;
            self.servers.learn(server, &lesson);
        }
    }

    /// Notifies the connection that sent `packet` of its drop inside the host, if its profile says so.
    pub(super) fn report_drop<F: Frame>(
        &mut self,
        packet: &Packet<F>,
        stage: DropStage,
        reason: DropReason,
        now: Instant,
    ) {
        let Some(owner) = packet.owner() else { return };
        let Some(connection) = self.sockets.connection_mut(owner.socket) else {
            return;
        };
        let is_reported = match connection.config.local_drop_reporting {
            LocalDropReporting::Nothing => false,
            // Linux's return code reaches only the socket whose packet was being enqueued.
            LocalDropReporting::Enqueue => stage == DropStage::Enqueue(Some(owner.socket)),
            LocalDropReporting::Everything => true,
        };
        if is_reported || reason == DropReason::Reset {
            connection.on_local_drop(packet, reason, now);
            self.runnable.push(connection);
        }
    }

    /// Releases the credit of a packet that left the host, sent or dropped.
    pub(super) fn on_settled(&mut self, settled: &Settled, is_sent: bool) {
        let Some(owner) = settled.owner else { return };
        if let Some(connection) = self.sockets.connection_mut(owner.socket) {
            let was_refused = connection.left_host(owner.segment, settled.segments, is_sent);
            let credit = settled.credit.as_ref();
            let was_throttled = credit.is_some_and(|credit| connection.tsq.release(credit));
            if was_refused || was_throttled {
                self.runnable.push(connection);
            }
        } else if let Some((socket, credit)) = self
            .sockets
            .udp_mut(owner.socket)
            .zip(settled.credit.as_ref())
        {
            if socket.release(credit, is_sent) {
                self.runnable.add(owner.socket, &mut socket.links.queued);
            }
            self.notify_udp(owner.socket);
        }
    }

    /// The latency attribution of the connection that sent a packet, if the packet carries sequence
    /// space and the connection keeps attribution.
    pub(super) fn attribution_of(&mut self, owner: Option<Owner>) -> Option<&mut Attribution> {
        if !self.attributing {
            return None;
        }
        let owner = owner.filter(|owner| owner.segment.is_some())?;
        let connection = self.sockets.connection_mut(owner.socket)?;
        connection.attribution.as_deref_mut()
    }

    /// Starts attribution if `config` enables it.
    pub(super) fn note_attribution(&mut self, config: &TcpConfig) {
        self.attributing |= config.attribution;
    }
}

/// Queues a connection's events for its application, unless the application released it.
fn queue_events(events: &mut VecDeque<Event>, connection: &mut Connection) {
    let (id, pending) = (connection.id, std::mem::take(&mut connection.pending));
    if !connection.orphan {
        let each = [
            pending.established.then_some(Event::Connected(id)),
            pending.readable.then_some(Event::Readable(id)),
            pending.writable.then_some(Event::Writable(id)),
            pending.closed.map(|why| Event::Closed { socket: id, why }),
        ];
        events.extend(each.into_iter().flatten());
    }
}

/// A datagram socket's key in the table of ports.
fn udp_key(local: SocketAddr) -> (IpAddr, u16) {
    let address = if local.ip().is_unspecified() {
        ALL
    } else {
        local.ip()
    };
    (address, local.port())
}
