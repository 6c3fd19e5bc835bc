//! Arriving frames: parse, demultiplex, deliver. Malformed, foreign and unsolicited frames are
//! counted and dropped.

use tautline_base::{Device, Instant, Medium, Offload, Packet, Qdisc, Received, SocketId};
use tautline_bql::Limit;

use super::Host;
use super::transport::DropStage;
use crate::kept_bytes::KeptBytes;
use crate::tcp::{Reply, Tuple};
use crate::time_wait::Answer;
use crate::trace::Tracer;
use crate::wire::{self, Ends, Mac, Malformed, Parsed, Segment};

/// Most frames taken from the device in one call.
const RECEIVE_BUDGET: usize = 64;
/// Bytes of a packet from which it is kept.
const LEAST_KEPT: u32 = 8 << 10;

/// Receives a frame from the device, or a large packet in memory to keep: its payload then needs no copy.
fn receive_one<Q, D, T, L>(host: &mut Host<Q, D, T, L>, received: Received<D::Frame>, now: Instant)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let offload = received.offload;
    let is_large = received.len >= LEAST_KEPT && !offload.zeros;
    let received = if is_large && host.interface.config.keeps_packets {
        host.device_mut().keep(received)
    } else {
        Err(received)
    };
    match received {
        Ok(kept) => {
            let kept = KeptBytes::of(kept);
            host.receive_frame(&kept.bytes, (offload, Some(&kept)), now);
        }
        Err(received) => {
            host.receive_frame(received.bytes(), (offload, None), now);
            host.device_mut().recycle(received.frame);
        }
    }
}

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Receives up to 64 frames from the device; returns their number. After 64 there may be more.
    #[must_use = "after 64 frames the device may hold more"]
    pub fn receive(&mut self, now: Instant) -> usize {
        let now = self.advance_clock(now);
        self.interface.stateless_syns = 0;
        for taken in 0..RECEIVE_BUDGET {
            let Some(received) = self.device_mut().receive(now) else {
                return taken;
            };
            receive_one(self, received, now);
        }
        RECEIVE_BUDGET
    }

    /// Whether SYNs flood the host: half of the latest 64 frames were SYNs that listeners keep no
    /// state for. Its driver then empties the device before each poll: to shed a SYN costs less than to
    /// answer it, and the device, which drops at random once it is full, drops nothing.
    pub fn is_flooded(&self) -> bool {
        self.interface.stateless_syns >= RECEIVE_BUDGET / 2
    }

    /// Receives one frame from memory, in the format of the device's [medium](Device::medium).
    pub fn deliver(&mut self, frame: &[u8], now: Instant) {
        self.receive_frame(frame, (Offload::default(), None), now);
    }

    /// Receives one frame, or several that the device merged; their memory, if it may be kept.
    fn receive_frame(
        &mut self,
        frame: &[u8],
        (offload, kept): (Offload, Option<&KeptBytes>),
        now: Instant,
    ) {
        let now = self.advance_clock(now);
        self.interface.stats.frames_in += 1;
        self.interface.trace_received(now, frame);
        let (medium, vlan) = (self.interface.medium, self.interface.config.vlan);
        let plain = match medium {
            Medium::Ethernet => wire::parse_plain(frame, vlan, offload),
            Medium::Ip => wire::parse_plain_ip(frame, offload),
        };
        if let Some((ends, mut segment)) = plain {
            segment.offer_memory(kept);
            self.on_tcp(&ends, &segment, frame, now);
        } else {
            match wire::parse_over(medium, frame, vlan, offload) {
                Ok(mut parsed) => {
                    if let Parsed::Tcp { segment, .. } = &mut parsed {
                        segment.offer_memory(kept);
                    }
                    self.dispatch(frame, parsed, now);
                }
                Err(Malformed::Header) => self.interface.stats.malformed += 1,
                Err(Malformed::Checksum) => self.interface.stats.bad_checksum += 1,
            }
        }
        self.settle_drops(DropStage::Later, now);
    }

    fn dispatch(&mut self, frame: &[u8], parsed: Parsed<'_>, now: Instant) {
        match parsed {
            Parsed::Arp {
                request,
                sender_mac,
                sender,
                target,
            } => self.on_arp(request, sender_mac, sender, target, now),
            Parsed::Tcp { ends, segment } => self.on_tcp(&ends, &segment, frame, now),
            Parsed::Udp {
                ends,
                datagram,
                packet,
            } => self.on_datagram(frame, &ends, &datagram, packet, now),
            Parsed::Icmp { ends, message } => self.on_icmp(frame, &ends, message, now),
            Parsed::Transport {
                ends,
                protocol,
                packet,
            } => self.interface.refuse(frame, &ends, protocol, packet, now),
            Parsed::Refused {
                ends,
                problem,
                packet,
            } => self
                .interface
                .refuse_header(frame, &ends, problem, packet, now),
            Parsed::Fragment => self.interface.stats.fragments += 1,
            Parsed::Other => self.interface.stats.not_for_us += 1,
        }
    }

    fn on_tcp(&mut self, ends: &Ends, segment: &Segment<'_>, frame: &[u8], now: Instant) {
        let tuple = Tuple {
            local: ends.destination,
            remote: ends.source,
            local_port: segment.destination_port,
            remote_port: segment.source_port,
        };
        let source_mac = self.interface.sender_of(frame);
        let mut isn = None;
        if let Some(id) = self.transport.demux.find(&tuple, &self.transport.sockets) {
            // The addresses of a connection were checked when it was opened.
            if !self.interface.is_to_our_mac(frame) {
                self.interface.stats.not_for_us += 1;
                return;
            }
            match self.transport.replace(id, &tuple, segment) {
                Some(successor) => isn = successor,
                None => return self.on_segment(id, segment, source_mac, now),
            }
        } else if !self.interface.is_for_us(frame, ends) {
            return;
        }
        match self.transport.time_waits.on_segment(&tuple, segment, now) {
            Some(Answer::Nothing) => return,
            Some(Answer::Acknowledge(header)) => {
                return self
                    .interface
                    .send_segment(&tuple, source_mac, &header, now);
            }
            Some(Answer::Open { isn: successor }) => isn = Some(successor),
            None => {}
        }
        if segment.syn && segment.ack.is_none() && !segment.rst {
            self.on_syn(tuple, segment, frame, isn, now);
        } else if !self.on_cookie(tuple, segment, source_mac, now) {
            self.interface.stats.no_socket += 1;
            // In LISTEN only a segment with ACK is answered with a reset (RFC 9293 §3.10.7.2).
            if segment.ack.is_none() && self.transport.listener_for(&tuple).is_some() {
                return;
            }
            self.interface.reset(&tuple, source_mac, segment, now);
        }
    }

    pub(super) fn on_segment(
        &mut self,
        id: SocketId,
        segment: &Segment<'_>,
        source_mac: Mac,
        now: Instant,
    ) {
        if self.transport.must_wait(id, segment) {
            return;
        }
        let Some(connection) = self.transport.sockets.connection_mut(id) else {
            return;
        };
        match connection.on_segment(segment, now) {
            // Pressure on memory reaches a connection with its next change.
            Reply::Unchanged if !self.transport.memory.is_full() => {
                return self.transport.runnable.push(connection);
            }
            Reply::None | Reply::Unchanged => {}
            Reply::Reset => {
                let tuple = connection.tuple;
                self.interface.reset(&tuple, source_mac, segment, now);
            }
            Reply::Accepted(listener) => self.transport.hand_over(id, listener),
        }
        self.transport.mark_runnable(id);
    }
}
