//! Deferred accept: a SYN waits until the application has answered it.

use tautline_base::{Device, Instant, Medium, Offload, Packet, Qdisc, SocketId};
use tautline_bql::Limit;

use super::Host;
use super::transport::DropStage;
use crate::addressing::Addressing;
use crate::socket::{Rejection, SocketError};
use crate::sockets::Request;
use crate::tcp::Connection;
use crate::trace::Tracer;
use crate::wire::icmp::Refusal;
use crate::wire::{self, Ends, Parsed, Segment};

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Answers a [`Requested`](crate::Event::Requested) SYN by a SYN-ACK. The result is the
    /// connection's socket: as after [`connect`](Self::connect), a `Connected` or `Closed` event
    /// reports the outcome, and data may be sent at once and waits.
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`]: the request was answered, it expired, its listener was closed, or
    /// its address is not the host's any more.
    pub fn accept(&mut self, request: SocketId, now: Instant) -> Result<SocketId, SocketError> {
        let now = self.advance_clock(now);
        let request = self.transport.take_request(request);
        let request = request.filter(|request| request.is_ours(&self.interface.addressing));
        let request = request.ok_or(SocketError::NoSuchSocket)?;
        let next_hop = self.interface.addressing.next_hop(request.tuple.remote);
        let listener = self.transport.sockets.listener(request.listener);
        let (next_hop, listener) = next_hop.zip(listener).ok_or(SocketError::NoSuchSocket)?;
        let config = listener.config.clone();
        let (_, segment, _) = request.read(self.interface.medium, self.interface.config.vlan)?;
        let source_mac = self.interface.sender_of(&request.frame);
        let opening = self
            .transport
            .opening(request.tuple, next_hop, request.isn, now);
        let build = |id| Connection::accept(opening(id), config, None);
        let connection = self.transport.insert_connection(request.tuple, build);
        self.transport.count_at(connection, request.listener);
        self.on_segment(connection, &segment, source_mac, now);
        self.settle_drops(DropStage::Later, now);
        Ok(connection)
    }

    /// Answers a [`Requested`](crate::Event::Requested) SYN by a refusal.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn reject(
        &mut self,
        request: SocketId,
        how: Rejection,
        now: Instant,
    ) -> Result<(), SocketError> {
        let now = self.advance_clock(now);
        let request = self.transport.take_request(request);
        let request = request.filter(|request| request.is_ours(&self.interface.addressing));
        let request = request.ok_or(SocketError::NoSuchSocket)?;
        let (ends, segment, packet) =
            request.read(self.interface.medium, self.interface.config.vlan)?;
        let refusal = match how {
            Rejection::Silence => return Ok(()),
            Rejection::Reset => {
                let mac = self.interface.sender_of(&request.frame);
                self.interface.reset(&request.tuple, mac, &segment, now);
                return Ok(());
            }
            Rejection::HostUnreachable => Refusal::Host,
            Rejection::PortUnreachable => Refusal::Port,
            Rejection::Prohibited => Refusal::Prohibited,
        };
        self.interface
            .send_refusal(&request.frame, &ends, refusal, packet, now);
        self.settle_drops(DropStage::Later, now);
        Ok(())
    }
}

impl Request {
    /// Whether its address has not ended while it waited.
    fn is_ours(&self, addressing: &Addressing) -> bool {
        addressing.is_own(self.tuple.local)
    }

    /// Its SYN, whose checksum was verified when it arrived, and the IP packet.
    fn read(
        &self,
        medium: Medium,
        vlan: Option<u16>,
    ) -> Result<(Ends, Segment<'_>, &[u8]), SocketError> {
        let offload = Offload {
            checksum_known: true,
            ..Offload::default()
        };
        let network = medium.network_offset(&self.frame);
        match wire::parse_over(medium, &self.frame, vlan, offload) {
            Ok(Parsed::Tcp { ends, segment }) => Ok((ends, segment, &self.frame[network..])),
            _ => Err(SocketError::NoSuchSocket),
        }
    }
}
