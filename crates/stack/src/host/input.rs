//! Arriving frames: parse, demultiplex, let the socket take it. Malformed, foreign and unsolicited
//! frames are counted and dropped.

use tautline_base::{Device, Ecn, Frame, Instant, Offload, Packet, Received, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;

use super::Host;
use crate::tcp::{Reply, Tuple};
use crate::time_wait::Answer;
use crate::trace::{Tracer, What};
use crate::wire::{
    self, Addresses, EcnFlags, Ends, Flags, Mac, Malformed, Parsed, Payload, SACK_BLOCKS, Segment,
    TcpHeader,
};

/// Most frames taken from the device in one call.
const RECEIVE_BUDGET: usize = 64;

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Takes up to 64 received frames from the device; returns how many. A full 64 means there may
    /// be more.
    pub fn receive(&mut self, now: Instant) -> usize {
        for taken in 0..RECEIVE_BUDGET {
            let Some(received) = self.device_mut().receive(now) else {
                return taken;
            };
            self.take_in(received.bytes(), received.offload, now);
            let Received { frame, .. } = received;
            self.device_mut().recycle(frame);
        }
        RECEIVE_BUDGET
    }

    /// Takes one Ethernet frame.
    pub fn deliver(&mut self, frame: &[u8], now: Instant) {
        self.take_in(frame, Offload::default(), now);
    }

    /// Takes one Ethernet frame, or several as one.
    fn take_in(&mut self, frame: &[u8], offload: Offload, now: Instant) {
        let now = self.advance_clock(now);
        self.stats.frames_in += 1;
        Self::trace(&mut self.tracer, now, What::Received, None, frame);
        if let Some((ends, segment)) = wire::parse_plain(frame, self.config.vlan, offload) {
            return self.on_tcp(&ends, &segment, frame, now);
        }
        match wire::parse(frame, self.config.vlan, offload) {
            Err(Malformed::Header) => self.stats.malformed += 1,
            Err(Malformed::Checksum) => self.stats.bad_checksum += 1,
            Ok(Parsed::Arp {
                request,
                sender_mac,
                sender,
                target,
            }) => {
                self.on_arp(request, sender_mac, sender, target, now);
            }
            Ok(Parsed::Tcp { ends, segment }) => self.on_tcp(&ends, &segment, frame, now),
            Ok(Parsed::Udp {
                ends,
                datagram,
                packet,
            }) => self.on_datagram(frame, &ends, &datagram, packet, now),
            Ok(Parsed::Icmp { ends, message }) => self.on_icmp(frame, &ends, message, now),
            Ok(Parsed::Transport {
                ends,
                protocol,
                packet,
            }) => self.refuse(frame, &ends, protocol, packet, now),
            Ok(Parsed::Fragment) => self.stats.fragments += 1,
            Ok(Parsed::Other) => self.stats.not_for_us += 1,
        }
    }

    /// Addressed to us, by a host that can be answered.
    pub(super) fn concerns_us(&mut self, frame: &[u8], ends: &Ends) -> bool {
        let ours = self.is_to_our_mac(frame)
            && self.addressing.is_own(ends.destination)
            && self.addressing.is_peer(ends.source);
        if !ours {
            self.stats.not_for_us += 1;
        }
        ours
    }

    fn is_to_our_mac(&self, frame: &[u8]) -> bool {
        frame.first_chunk::<6>() == Some(&self.config.mac)
    }

    fn on_tcp(&mut self, ends: &Ends, segment: &Segment<'_>, frame: &[u8], now: Instant) {
        let tuple = Tuple {
            local: ends.destination,
            remote: ends.source,
            local_port: segment.destination_port,
            remote_port: segment.source_port,
        };
        let (mut found, mut isn) = (self.demux.find(&tuple), None);
        // The ends of a connection were looked at when it was opened.
        let concerns_us = if found.is_some() {
            self.is_to_our_mac(frame)
        } else {
            self.concerns_us(frame, ends)
        };
        if !concerns_us {
            self.stats.not_for_us += u64::from(found.is_some());
            return;
        }
        if let Some(id) = found
            && let Some(old) = self
                .sockets
                .connection_mut(id)
                .filter(|old| old.is_replaced_by(segment))
        {
            // What the application still holds can still be read; only the peer's address is given
            // away.
            isn = old.successor_isn();
            old.replace();
            self.demux.remove(&tuple);
            self.touch(id);
            found = None;
        }
        let source_mac = Mac::from_bytes(&frame[6..12]);
        if found.is_none()
            && let Some(answer) = self.time_waits.on_segment(&tuple, segment, now)
        {
            match answer {
                Answer::Nothing => return,
                Answer::Acknowledge(header) => {
                    return self.answer_in_time_wait(&tuple, source_mac, &header, now);
                }
                Answer::Open { isn: after } => isn = Some(after),
            }
        }
        match found {
            Some(id) => self.on_segment(id, segment, source_mac, now),
            None if segment.syn && segment.ack.is_none() && !segment.rst => {
                self.on_syn(tuple, segment, source_mac, isn, now);
            }
            None if self.on_stray(tuple, segment, source_mac, now) => {}
            None => {
                self.stats.no_socket += 1;
                self.reset(&tuple, source_mac, segment, now);
            }
        }
    }

    pub(super) fn on_segment(
        &mut self,
        id: SocketId,
        segment: &Segment<'_>,
        source_mac: Mac,
        now: Instant,
    ) {
        if self.must_wait(id, segment) {
            return;
        }
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        match connection.on_segment(segment, now) {
            Reply::None => {}
            Reply::Reset => {
                let tuple = connection.tuple;
                self.reset(&tuple, source_mac, segment, now);
            }
            Reply::Accepted(listener) => self.hand_over(id, listener),
        }
        self.touch(id);
    }

    /// Answers a segment that no connection wants (RFC 9293 §3.10.7.1). A reset is never answered.
    pub(super) fn reset(
        &mut self,
        tuple: &Tuple,
        destination_mac: Mac,
        segment: &Segment<'_>,
        now: Instant,
    ) {
        if segment.rst || !destination_mac.is_unicast() || !self.has_frames_to_spare() {
            return;
        }
        let len = segment.payload.len() as u32 + u32::from(segment.syn) + u32::from(segment.fin);
        let (seq, ack) = match segment.ack {
            Some(ack) => (ack, None),
            None => (0, Some(segment.seq.wrapping_add(len))),
        };
        let header = TcpHeader {
            source_port: segment.destination_port,
            destination_port: segment.source_port,
            seq,
            ack,
            flags: Flags::Rst,
            window: 0,
            window_scale: None,
            mss: None,
            sack_permitted: false,
            sack: [None; SACK_BLOCKS],
            timestamp: None,
            ecn_flags: EcnFlags::NONE,
            echoed_bytes: None,
            codepoint: Ecn::NotEct,
        };
        let addresses = self.addresses_of(tuple, destination_mac);
        self.answer_with(&addresses, &header, now);
    }

    fn answer_in_time_wait(
        &mut self,
        tuple: &Tuple,
        destination_mac: Mac,
        header: &TcpHeader,
        now: Instant,
    ) {
        if destination_mac.is_unicast() && self.has_frames_to_spare() {
            let addresses = self.addresses_of(tuple, destination_mac);
            self.answer_with(&addresses, header, now);
        }
    }

    /// Writes a segment without data that no connection owns.
    pub(super) fn answer_with(&mut self, addresses: &Addresses, header: &TcpHeader, now: Instant) {
        self.answer(now, |frame| {
            Some(wire::write_tcp(frame, addresses, header, Payload::EMPTY))
        });
    }

    /// Strangers are answered only from plenty: a flood of them must not take the frames that
    /// connections need.
    pub(super) fn has_frames_to_spare(&mut self) -> bool {
        let spare = self.pool.free() > self.pool.capacity() / 4;
        self.stats.no_frame += u64::from(!spare);
        spare
    }

    /// Writes a packet that no connection owns and hands it to the discipline as an urgent one.
    pub(super) fn answer(&mut self, now: Instant, write: impl FnOnce(&mut [u8]) -> Option<usize>) {
        self.answer_as(now, |packet| packet.with_tos(0, CONTROL_PRIORITY), write);
    }

    /// Writes a packet that no connection owns and hands it to the discipline with what it must
    /// know of it.
    pub(super) fn answer_as(
        &mut self,
        now: Instant,
        describe: impl FnOnce(Packet<D::Frame>) -> Packet<D::Frame>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) {
        let Some(mut frame) = self.pool.take() else {
            self.stats.no_frame += 1;
            return;
        };
        match write(frame.bytes_mut()) {
            Some(len) => {
                self.enqueue(describe(Packet::new(frame, len as u32)), now);
            }
            None => self.pool.put_back(frame),
        }
    }
}

/// Linux's `TC_PRIO_CONTROL`: pfifo_fast's first band.
const CONTROL_PRIORITY: u8 = 7;
