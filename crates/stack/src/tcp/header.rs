//! Headers of our segments (RFC 9293 §3.1), built from what the parts of a connection say.

use tautline_base::Instant;

use super::connection::Connection;
use super::ecn::{EcnFields, SegmentClass};
use super::fast_open::FastOpen;
use super::negotiated::Negotiated;
use super::receiver::Receiver;
use super::send::{Kind, Plan, SendHalf};
use super::state::State;
use super::tuple::Tuple;
use crate::config::TcpConfig;
use crate::seq;
use crate::wire::{
    EchoedBytes, Flags, OPTION_SPACE, SACK_BLOCK, SACK_BLOCKS, TIMESTAMP_OPTION, TcpHeader,
};

/// Kind and length of a SACK option, padding included.
const SACK_HEADER: usize = 4;

impl Connection {
    /// The header of `plan`. Fixes the window it advertises.
    pub(crate) fn header(&mut self, plan: &Plan, now: Instant) -> TcpHeader {
        let own_scale = self
            .negotiated
            .as_ref()
            .map_or(self.receiver.offered_scale, |agreed| agreed.own_scale);
        // Windows in SYNs are never scaled (RFC 7323 §2.2).
        let scale = if plan.syn() { 0 } else { own_scale };
        let window = self.receiver.advertise(scale, self.host_memory.share);
        let class = self.class(plan);
        HeaderBuilder {
            tuple: &self.tuple,
            negotiated: self.negotiated.as_ref(),
            own_scale,
            config: &self.config,
            send: &self.send,
            receiver: &self.receiver,
            fast_open: &self.fast_open,
            ecn: self.ecn.fields(class, self.send.flight.cwr_due),
            echoed_bytes: self.echoed_bytes(plan, class),
            sack_space: self.sack_space(plan, class),
        }
        .build(plan, window, now)
    }

    /// Space for SACK blocks in the packet: what options may take of an acknowledgment, what the
    /// payload leaves of a data segment (RFC 2018 §4 asks for blocks on both).
    #[inline]
    fn sack_space(&self, plan: &Plan, class: SegmentClass) -> usize {
        match class {
            _ if !self.receiver.has_reports() => 0,
            // An acknowledgment that reports the codepoint of the SYN-ACK carries no blocks.
            SegmentClass::PureAck { .. } if self.ecn.owes_reflection() => 0,
            SegmentClass::PureAck { .. } => OPTION_SPACE,
            SegmentClass::NewData | SegmentClass::Retransmission => {
                space_beside_data(&self.send, plan)
            }
            _ => 0,
        }
    }

    /// The AccECN option of `plan`. Data carries it where it fits, unless SACK blocks wait for the
    /// same space: they go first (RFC 9768 §3.2.3.3).
    #[inline]
    pub(super) fn echoed_bytes(&self, plan: &Plan, class: SegmentClass) -> Option<EchoedBytes> {
        let option = self.ecn.option(class)?;
        let fits = match class {
            SegmentClass::NewData | SegmentClass::Retransmission => {
                !self.receiver.has_reports()
                    && option.padded_len() <= space_beside_data(&self.send, plan)
            }
            _ => true,
        };
        fits.then_some(option)
    }

    /// ECN's class of `plan`.
    #[inline]
    pub(super) fn class(&self, plan: &Plan) -> SegmentClass {
        match plan.kind {
            Kind::Reset => SegmentClass::Reset,
            Kind::EarlierAck(earlier) => SegmentClass::EarlierAck(earlier),
            Kind::Ack => SegmentClass::PureAck {
                bare: self.ecn.owes_reflection() || !self.receiver.has_reports(),
            },
            _ if plan.syn() && self.state == State::SynSent => SegmentClass::Syn,
            _ if plan.syn() => SegmentClass::SynAck,
            Kind::New if !plan.payload().is_empty() => SegmentClass::NewData,
            Kind::New | Kind::Retransmit(_) => SegmentClass::Retransmission,
            Kind::Probe => SegmentClass::Probe,
        }
    }
}

/// Space that the payload leaves for options not every segment has; none in a packet of several
/// segments, which the device gives the same options.
fn space_beside_data(send: &SendHalf, plan: &Plan) -> usize {
    if plan.segments != 1 {
        return 0;
    }
    let payload = plan.payload();
    let left = send.flight.mss() + payload.start;
    left.saturating_sub(payload.end) as usize
}

/// The parts of a connection that a header speaks of.
struct HeaderBuilder<'a> {
    tuple: &'a Tuple,
    /// `None` before the peer's SYN: the options of `config` are offered.
    negotiated: Option<&'a Negotiated>,
    own_scale: u8,
    config: &'a TcpConfig,
    send: &'a SendHalf,
    receiver: &'a Receiver,
    fast_open: &'a FastOpen,
    ecn: EcnFields,
    /// The AccECN option.
    echoed_bytes: Option<EchoedBytes>,
    /// Bytes that SACK blocks may fill, their option's header included.
    sack_space: usize,
}

impl HeaderBuilder<'_> {
    #[inline]
    fn build(self, plan: &Plan, window: u16, now: Instant) -> TcpHeader {
        let syn = plan.syn();
        let flight = &self.send.flight;
        let offset = match plan.kind {
            Kind::New | Kind::Retransmit(_) => plan.range.start,
            Kind::Ack | Kind::EarlierAck(_) | Kind::Reset => self.bare_offset(),
            // One below what is acknowledged: out of the window, so the peer must answer with its
            // own.
            Kind::Probe => flight.una().saturating_sub(1),
        };
        let next = match plan.kind {
            Kind::EarlierAck(earlier) => earlier.next,
            _ => self.receiver.next(),
        };
        let agreed = self.negotiated;
        // Not again: a middlebox may have dropped the first for it (RFC 7413 §4.1.3.1).
        let fast_open = if syn && plan.kind == Kind::New {
            self.fast_open.option()
        } else {
            None
        };
        let offers = self.config.negotiation;
        TcpHeader {
            source_port: self.tuple.local_port,
            destination_port: self.tuple.remote_port,
            seq: seq::to_wire(flight.numbers().isn, offset),
            ack: agreed.map(|agreed| seq::to_wire(agreed.irs, next)),
            flags: self.flags(plan, syn),
            window,
            window_scale: (syn && agreed.map_or(offers.window_scaling, |agreed| agreed.scaling))
                .then_some(self.own_scale),
            mss: syn.then(|| self.tuple.own_mss(flight.path.link(), self.config)),
            sack_permitted: syn && agreed.map_or(offers.sack, |agreed| agreed.sack),
            sack: match agreed {
                Some(agreed) if self.sack_space > 0 && agreed.sack => self.sack_blocks(agreed),
                _ => [None; SACK_BLOCKS],
            },
            timestamp: self.timestamp(syn, now),
            ecn_flags: self.ecn.flags,
            // Beside the cookie a SYN-ACK has no room for it, and it is optional (RFC 9768 §3.2.3).
            echoed_bytes: self.echoed_bytes.filter(|_| fast_open.is_none()),
            fast_open,
            codepoint: self.ecn.codepoint,
        }
    }

    /// The number of a segment without data: the next one, or the end of the peer's window if the peer
    /// has taken that back, since it ignores what lies beyond (Linux `tcp_acceptable_seq`). The rounding
    /// of a scaled window is no sign of that.
    fn bare_offset(&self) -> u64 {
        let (flight, stream) = (&self.send.flight, &self.send.stream);
        let (edge, nxt) = (stream.window.edge().max(flight.una()), flight.nxt());
        let rounding = (1 << self.negotiated.map_or(0, |agreed| agreed.peer_scale)) - 1;
        if nxt <= edge + rounding { nxt } else { edge }
    }

    fn flags(&self, plan: &Plan, syn: bool) -> Flags {
        match plan.kind {
            Kind::Reset => Flags::Rst,
            _ if syn => Flags::Syn,
            _ if plan.fin && plan.payload().is_empty() => Flags::Fin,
            // The FIN ends the queued data: it is pushed (RFC 9293 §3.9.1.2).
            _ if plan.fin => Flags::PshFin,
            Kind::New | Kind::Retransmit(_)
                if self
                    .send
                    .stream
                    .is_pushed(&plan.range, self.config.push_writes) =>
            {
                Flags::Psh
            }
            _ => Flags::None,
        }
    }

    fn timestamp(&self, syn: bool, now: Instant) -> Option<(u32, u32)> {
        let echo = match self.negotiated {
            None => (syn && self.config.negotiation.timestamps).then_some(0),
            Some(agreed) => agreed.timestamps.recent,
        };
        echo.map(|echo| (self.send.flight.numbers().timestamp(now), echo))
    }

    /// Beside an AccECN option two blocks fit (RFC 9768 §3.2.3.3).
    fn sack_blocks(&self, agreed: &Negotiated) -> [Option<(u32, u32)>; SACK_BLOCKS] {
        // Not even an acknowledgment may be longer than the MTU.
        let link = self.send.flight.path.link();
        let space = link
            .saturating_sub(self.tuple.headers_len())
            .min(OPTION_SPACE);
        // Kind and length of the SACK option replace the padding of the timestamp, if there is one.
        let (timestamp, header) = match agreed.timestamps.recent {
            Some(_) => (TIMESTAMP_OPTION, 0),
            None => (0, SACK_HEADER),
        };
        let echoed = self.echoed_bytes.map_or(0, |bytes| bytes.padded_len());
        let room = space
            .saturating_sub(timestamp + echoed)
            .min(self.sack_space)
            .saturating_sub(header);
        let mut blocks = [None; SACK_BLOCKS];
        for (slot, block) in blocks
            .iter_mut()
            .zip(self.receiver.reports().take(room / SACK_BLOCK))
        {
            *slot = Some((
                seq::to_wire(agreed.irs, block.start),
                seq::to_wire(agreed.irs, block.end),
            ));
        }
        blocks
    }
}
