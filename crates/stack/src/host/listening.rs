//! SYNs for listeners and SYN cookies (RFC 9293 §3.10.7.2, RFC 4987; Linux `tcp_conn_request`).

use tautline_base::{Device, Ecn, Instant, Packet, Qdisc};
use tautline_bql::Limit;

use super::Host;
use super::interface::Interface;
use super::transport::SynAction;
use crate::config::{EcnMode, TcpConfig};
use crate::cookies;
use crate::sockets::Listener;
use crate::tcp::{Connection, Tuple};
use crate::trace::Tracer;
use crate::wire::{
    self, EcnFlags, Flags, Mac, Payload, SACK_BLOCKS, Segment, SynOffers, TcpHeader,
};

/// Packets without a connection in qdisc and ring, from which on a SYN is shed rather than answered
/// with a cookie: 2 ms of a flood of 250 000 a second. More would be a standing queue, which delays
/// each answer, and which CoDel drops from.
pub(super) const MOST_ANSWERS: usize = 512;

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Handles a SYN without a connection. With `isn` it follows a connection in TIME-WAIT, and a
    /// full backlog does not stop it.
    pub(super) fn on_syn(
        &mut self,
        tuple: Tuple,
        segment: &Segment<'_>,
        frame: &[u8],
        isn: Option<u32>,
        now: Instant,
    ) {
        let source_mac = self.interface.sender_of(frame);
        let Some(listener) = self.transport.listener_for(&tuple) else {
            self.interface.stats.no_socket += 1;
            return self.interface.reset(&tuple, source_mac, segment, now);
        };
        let Some(next_hop) = self.interface.addressing.next_hop(tuple.remote) else {
            // No route back to the peer.
            self.interface.stats.not_for_us += 1;
            return;
        };
        match self.transport.syn_action(listener, &tuple, isn.is_some()) {
            SynAction::Open => {
                let fast_open = self
                    .transport
                    .answer_fast_open(listener, &tuple, segment, now);
                let accepted = self
                    .transport
                    .accept(listener, tuple, next_hop, isn, fast_open, now);
                if let Some(connection) = accepted {
                    self.on_segment(connection, segment, source_mac, now);
                }
            }
            SynAction::SendCookie => {
                self.interface.stateless_syns += 1;
                let most = MOST_ANSWERS.min(self.interface.pool.capacity() / 2);
                let is_crowded = self.interface.unowned >= most;
                if is_crowded && !self.transport.proven.admits(tuple.remote, now) {
                    self.interface.stats.syns_shed += 1;
                    return;
                }
                if let Some(listener) = self.transport.sockets.listener_mut(listener) {
                    self.interface
                        .send_cookie(listener, &tuple, segment, source_mac, now);
                }
            }
            SynAction::Hold => self.transport.hold(listener, tuple, frame, isn, now),
            SynAction::Drop => {}
        }
    }

    /// Opens a connection if a segment without one acknowledges a SYN cookie. True if the segment
    /// needs no other answer.
    pub(super) fn on_cookie(
        &mut self,
        tuple: Tuple,
        segment: &Segment<'_>,
        source_mac: Mac,
        now: Instant,
    ) -> bool {
        let Some(ack) = segment.ack.filter(|_| !segment.syn && !segment.rst) else {
            return false;
        };
        let Some(listener) = self.transport.listener_for(&tuple) else {
            return false;
        };
        let sent_at = self.transport.sockets.listener(listener);
        let sent_at = sent_at.and_then(|listener| listener.cookies_at);
        if sent_at.is_none_or(|at| now - at >= cookies::VALIDITY) {
            return false;
        }
        let (cookie, peer_isn) = (ack.wrapping_sub(1), segment.seq.wrapping_sub(1));
        let key = &self.interface.key;
        let Some(mss) = cookies::redeem(key, &tuple, peer_isn, cookie, now) else {
            return false;
        };
        let Some(next_hop) = self.interface.addressing.next_hop(tuple.remote) else {
            return true;
        };
        // The peer will send its data again.
        if self.transport.syn_action(listener, &tuple, true) == SynAction::Drop {
            return true;
        }
        let syn = redeemed_syn(segment, mss);
        let opening = self.transport.opening(tuple, next_hop, Some(cookie), now);
        let Some(at) = self.transport.sockets.listener(listener) else {
            return true;
        };
        let config = at.config.clone();
        let build = |id| Connection::from_cookie(opening(id), config, listener, &syn, now);
        let connection = self.transport.insert_connection(tuple, build);
        self.transport.count_at(connection, listener);
        self.transport.proven.add(tuple.remote);
        self.interface.stats.cookies_redeemed += 1;
        self.on_segment(connection, segment, source_mac, now);
        true
    }
}

impl<Q, D, T, L> Interface<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Answers a SYN statelessly: the SYN-ACK's sequence number and timestamp encode what the
    /// connection needs.
    fn send_cookie(
        &mut self,
        listener: &mut Listener,
        tuple: &Tuple,
        syn: &Segment<'_>,
        source_mac: Mac,
        now: Instant,
    ) {
        if !source_mac.is_unicast() || !self.has_frames_to_spare() {
            return;
        }
        listener.cookies_at = Some(now);
        let key = self.key;
        let clock = (now.as_millis() as u32).wrapping_add(key.timestamp_offset(tuple));
        let options = cookie_options(&listener.config, syn);
        // What the connection accepts once the cookie has come back.
        let (start, most) = (
            listener.config.receive_start,
            listener.config.receive_buffer,
        );
        let window = start.min(most).get();
        let peer_mss = syn.offers.mss.unwrap_or_else(|| tuple.default_mss());
        let header = TcpHeader {
            source_port: tuple.local_port,
            destination_port: tuple.remote_port,
            seq: cookies::issue(&key, tuple, syn.seq, peer_mss, now),
            ack: Some(syn.seq.wrapping_add(1)),
            flags: Flags::Syn,
            window: window.min(u64::from(u16::MAX)) as u16,
            window_scale: options.scale.map(|_| listener.config.window_scale()),
            mss: Some(tuple.own_mss(self.mtu.of(tuple.remote), &listener.config)),
            sack_permitted: options.sack,
            sack: [None; SACK_BLOCKS],
            timestamp: syn
                .timestamp
                .filter(|_| listener.config.negotiation.timestamps)
                .map(|(value, _)| (cookies::stamp(clock, options), value)),
            ecn_flags: if options.ecn {
                EcnFlags::ECE
            } else {
                EcnFlags::NONE
            },
            echoed_bytes: None,
            fast_open: None,
            codepoint: Ecn::NotEct,
        };
        self.stats.cookies_sent += 1;
        let addresses = self.addresses_of(tuple, source_mac);
        self.send_control(now, |frame| {
            Some(wire::write_tcp(frame, &addresses, &header, Payload::EMPTY))
        });
    }
}

/// The options of a SYN that a cookie's timestamp encodes; none without timestamps.
fn cookie_options(config: &TcpConfig, syn: &Segment<'_>) -> cookies::Options {
    let ours = config.negotiation;
    if syn.timestamp.is_none() || !ours.timestamps {
        return cookies::Options::default();
    }
    let asks_ecn = syn.ecn_flags.cwr() && syn.ecn_flags.ece() && syn.codepoint == Ecn::NotEct;
    cookies::Options {
        scale: syn
            .offers
            .window_scale
            .filter(|_| ours.window_scaling)
            .map(|scale| scale.min(14)),
        sack: syn.offers.sack_permitted && ours.sack,
        ecn: config.ecn != EcnMode::Off && asks_ecn,
    }
}

/// The SYN reconstructed from the acknowledgment of a cookie.
fn redeemed_syn(segment: &Segment<'_>, mss: u16) -> Segment<'static> {
    let options = segment
        .timestamp
        .map_or_else(cookies::Options::default, |(_, echo)| {
            cookies::options(echo)
        });
    Segment {
        seq: segment.seq.wrapping_sub(1),
        ack: None,
        syn: true,
        fin: false,
        offers: SynOffers {
            mss: Some(mss),
            window_scale: options.scale,
            sack_permitted: options.sack,
        },
        sack: [None; SACK_BLOCKS],
        ecn_flags: if options.ecn {
            EcnFlags::CLASSIC_SETUP
        } else {
            EcnFlags::NONE
        },
        echoed_bytes: None,
        fast_open: None,
        codepoint: Ecn::NotEct,
        payload: &[],
        kept: None,
        ..*segment
    }
}
