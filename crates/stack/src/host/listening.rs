//! SYNs and what a listener makes of them: half-open connections, SYN cookies, the queue of those
//! the application has not taken, and limits of each (`spec/tcp.md` §1.4, RFC 4987).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tautline_base::{Device, Ecn, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;

use super::Host;
use crate::config::{EcnMode, SynCookies};
use crate::cookies;
use crate::socket::Event;
use crate::sockets::{Listener, Socket};
use crate::tcp::{Connection, State, Tuple};
use crate::trace::Tracer;
use crate::wire::{EcnFlags, Flags, Mac, SACK_BLOCKS, Segment, TcpHeader};

/// What becomes of a SYN.
enum Fate {
    Open,
    Cookie,
    Ignored,
}

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// A SYN for a port somebody may listen on. The number of one that follows a connection in
    /// TIME-WAIT is given, and the queue's length does not stop it.
    pub(super) fn on_syn(
        &mut self,
        tuple: Tuple,
        segment: &Segment<'_>,
        source_mac: Mac,
        isn: Option<u32>,
        now: Instant,
    ) {
        let listening = self.listener_for(&tuple);
        let Some(id) = listening else {
            self.stats.no_socket += 1;
            return self.reset(&tuple, source_mac, segment, now);
        };
        let Some(next_hop) = self.addressing.next_hop(tuple.remote) else {
            // There is no way back to the peer.
            self.stats.not_for_us += 1;
            return;
        };
        match self.fate(id, &tuple, isn.is_some()) {
            Fate::Open => {}
            Fate::Cookie => return self.send_cookie(id, &tuple, segment, source_mac, now),
            Fate::Ignored => return,
        }
        let Some(listener) = self.sockets.listener_mut(id) else {
            return;
        };
        listener.pending += 1;
        let config = listener.config.clone();
        let opening = self.opening(tuple, next_hop, isn, now);
        let connection = self.sockets.insert(|new| {
            Socket::Connection(Box::new(Connection::accept(opening(new), config, id)))
        });
        self.demux.insert(tuple, connection);
        self.count_in(connection, id);
        self.on_segment(connection, segment, source_mac, now);
    }

    /// Who listens for connections to the local end of `tuple`: at its very address, at all of the
    /// family, at all.
    fn listener_for(&self, tuple: &Tuple) -> Option<SocketId> {
        let family = match tuple.local {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut places = [tuple.local, family, Ipv6Addr::UNSPECIFIED.into()].into_iter();
        places.find_map(|address| {
            self.listeners
                .get(&(address, tuple.local_port).into())
                .copied()
        })
    }

    fn fate(&mut self, id: SocketId, tuple: &Tuple, follows: bool) -> Fate {
        let Some(listener) = self.sockets.listener(id) else {
            return Fate::Ignored;
        };
        if listener.has_enough_of(tuple.remote) {
            self.stats.too_many_of_peer += 1;
            return Fate::Ignored;
        }
        if listener.is_crowded() {
            self.stats.accept_queue_full += 1;
            return Fate::Ignored;
        }
        let full = listener.pending >= listener.config.backlog && !follows;
        self.stats.backlog_full += u64::from(full);
        match listener.config.syn_cookies {
            SynCookies::Always => Fate::Cookie,
            SynCookies::WhenFull if full => Fate::Cookie,
            SynCookies::Never if full => Fate::Ignored,
            _ => Fate::Open,
        }
    }

    /// Answers a SYN and forgets it. What must be remembered is in the answer.
    fn send_cookie(
        &mut self,
        id: SocketId,
        tuple: &Tuple,
        syn: &Segment<'_>,
        source_mac: Mac,
        now: Instant,
    ) {
        if !source_mac.is_unicast() || !self.has_frames_to_spare() {
            return;
        }
        let Some(listener) = self.sockets.listener_mut(id) else {
            return;
        };
        listener.cookies_at = Some(now);
        let ecn = listener.config.ecn != EcnMode::Off && syn.ecn_flags.cwr() && syn.ecn_flags.ece();
        let own_scale = Connection::scale_for(&listener.config);
        let window = listener
            .config
            .receive_buffer
            .get()
            .min(u64::from(u16::MAX)) as u16;
        // Without timestamps there is nowhere to remember options.
        let options = syn
            .timestamp
            .map_or_else(cookies::Options::default, |_| cookies::Options {
                scale: syn.window_scale.map(|scale| scale.min(14)),
                sack: syn.sack_permitted,
                ecn: ecn && syn.codepoint == Ecn::NotEct,
            });
        let clock = (now.as_millis() as u32).wrapping_add(self.key.timestamp_offset(tuple));
        let addresses = self.addresses_of(tuple, source_mac);
        let header = TcpHeader {
            source_port: tuple.local_port,
            destination_port: tuple.remote_port,
            seq: cookies::issue(
                &self.key,
                tuple,
                syn.seq,
                syn.mss.unwrap_or_else(|| tuple.default_mss()),
                now,
            ),
            ack: Some(syn.seq.wrapping_add(1)),
            flags: Flags::Syn,
            window,
            window_scale: options.scale.map(|_| own_scale),
            mss: Some((self.mtu - tuple.headers_len()).min(usize::from(u16::MAX)) as u16),
            sack_permitted: options.sack,
            sack: [None; SACK_BLOCKS],
            timestamp: syn
                .timestamp
                .map(|(value, _)| (cookies::stamp(clock, options), value)),
            ecn_flags: if options.ecn {
                EcnFlags::ECE
            } else {
                EcnFlags::NONE
            },
            echoed_bytes: None,
            codepoint: Ecn::NotEct,
        };
        self.stats.cookies_sent += 1;
        self.answer_with(&addresses, &header, now);
    }

    /// An acknowledgement that belongs to no connection may bring a cookie back: then there is one
    /// now. True if the segment needs no other answer.
    pub(super) fn on_stray(
        &mut self,
        tuple: Tuple,
        segment: &Segment<'_>,
        source_mac: Mac,
        now: Instant,
    ) -> bool {
        let Some(ack) = segment.ack.filter(|_| !segment.syn && !segment.rst) else {
            return false;
        };
        let Some(id) = self.listener_for(&tuple) else {
            return false;
        };
        let lately = |listener: &Listener| {
            listener
                .cookies_at
                .is_some_and(|at| now - at < cookies::VALIDITY)
        };
        if !self.sockets.listener(id).is_some_and(lately) {
            return false;
        }
        let (cookie, peer_isn) = (ack.wrapping_sub(1), segment.seq.wrapping_sub(1));
        let Some(mss) = cookies::redeem(&self.key, &tuple, peer_isn, cookie, now) else {
            return false;
        };
        let Some(next_hop) = self.addressing.next_hop(tuple.remote) else {
            return true;
        };
        // The peer comes again with its data.
        if !matches!(self.fate(id, &tuple, true), Fate::Open | Fate::Cookie) {
            return true;
        }
        let Some(listener) = self.sockets.listener(id) else {
            return true;
        };
        let config = listener.config.clone();
        let options = segment
            .timestamp
            .map_or_else(cookies::Options::default, |(_, echo)| {
                cookies::options(echo)
            });
        let syn = Segment {
            seq: peer_isn,
            ack: None,
            syn: true,
            fin: false,
            mss: Some(mss),
            window_scale: options.scale,
            sack_permitted: options.sack,
            sack: [None; SACK_BLOCKS],
            ecn_flags: if options.ecn {
                EcnFlags::CLASSIC_SETUP
            } else {
                EcnFlags::NONE
            },
            echoed_bytes: None,
            codepoint: Ecn::NotEct,
            payload: &[],
            ..*segment
        };
        let opening = self.opening(tuple, next_hop, Some(cookie), now);
        let connection = self.sockets.insert(|new| {
            Socket::Connection(Box::new(Connection::from_cookie(
                opening(new),
                config,
                id,
                &syn,
                now,
            )))
        });
        self.demux.insert(tuple, connection);
        self.count_in(connection, id);
        self.stats.cookies_redeemed += 1;
        self.on_segment(connection, segment, source_mac, now);
        true
    }

    /// The last acknowledgement of a handshake waits while its listener's application leaves too
    /// many connections waiting: the SYN-ACK will be sent again.
    pub(super) fn must_wait(&mut self, id: SocketId, segment: &Segment<'_>) -> bool {
        let Some(connection) = self.sockets.connection(id) else {
            return false;
        };
        let State::SynReceived {
            listener: Some(listener),
        } = connection.state()
        else {
            return false;
        };
        let waits = segment.ack.is_some()
            && !segment.syn
            && !segment.rst
            && self
                .sockets
                .listener(listener)
                .is_some_and(Listener::is_crowded);
        self.stats.accept_queue_full += u64::from(waits);
        waits
    }

    /// Gives an opened connection to its listener's application; if the listener is gone, nobody
    /// will ever serve the peer.
    pub(super) fn hand_over(&mut self, id: SocketId, listener: SocketId) {
        if let Some(waiting) = self
            .sockets
            .listener_mut(listener)
            .map(|listener| &mut listener.waiting)
        {
            *waiting += 1;
            self.events.push_back(Event::Accepted {
                listener,
                socket: id,
            });
        } else if let Some(connection) = self.sockets.connection_mut(id) {
            connection.orphan = true;
            connection.abort();
        }
    }

    /// The next event, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Accepted { listener, .. } = event
            && let Some(listener) = self.sockets.listener_mut(listener)
        {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
        Some(event)
    }

    /// A connection counts among those of its peer at this listener.
    fn count_in(&mut self, id: SocketId, at: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        connection.links.counted_at = Some(at);
        let peer = connection.tuple.remote;
        if let Some(listener) = self.sockets.listener_mut(at) {
            listener.count_in(peer);
        }
    }
}
