//! [`Message`]: what a client says to servers, and how it travels (RFC 2131 §4.1 and table 5).

use std::net::Ipv4Addr;
use std::time::Duration;

use smoltcp::wire::{DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress};
use tautline_base::{Instant, Medium, Offload};

use super::{CLIENT_PORT, Client, ROUTER, SERVER_PORT, State};
use crate::wire::{self, Addresses, Mac, Parsed, udp};

/// Least length of a message that every BOOTP server and relay takes (RFC 951 §3).
pub(super) const LEAST_LEN: usize = 300;
/// Option code of the client identifier.
pub(super) const CLIENT_IDENTIFIER: u8 = 61;
/// Subnet mask, router, DNS servers, lease time, T1, T2.
const WANTED: [u8; 6] = [1, ROUTER, 6, 51, 58, 59];
/// Hop limit of a message: servers are on the link, or behind a relay that is.
const HOP_LIMIT: u8 = 64;

/// A message for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The datagram's payload.
    pub payload: Vec<u8>,
    /// Source; unspecified while there is no lease.
    pub from: Ipv4Addr,
    /// Destination: a server, or every host of the link.
    pub to: Ipv4Addr,
}

impl Message {
    /// The Ethernet frame that carries the message to every host of the link.
    pub fn to_frame(&self, mac: [u8; 6]) -> Vec<u8> {
        let addresses = Addresses {
            medium: Medium::Ethernet,
            source_mac: EthernetAddress(mac),
            destination_mac: Mac::BROADCAST,
            source: self.from.into(),
            destination: self.to.into(),
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            tos: 0,
            vlan: None,
        };
        let len = addresses.headers_len() + udp::UDP_HEADER + self.payload.len();
        let mut frame = vec![0; len];
        let ports = (CLIENT_PORT, SERVER_PORT);
        udp::write_udp(&mut frame, &addresses, ports, (&self.payload, &[]));
        frame
    }
}

/// The message for clients in an Ethernet frame, if it carries one.
pub fn message_in(frame: &[u8], offload: Offload) -> Option<&[u8]> {
    match wire::parse_over(Medium::Ethernet, frame, None, offload) {
        Ok(Parsed::Udp { datagram, .. })
            if (datagram.source_port, datagram.destination_port) == (SERVER_PORT, CLIENT_PORT) =>
        {
            Some(datagram.payload)
        }
        _ => None,
    }
}

impl Client {
    /// The message of the present state.
    pub(super) fn message(&self, now: Instant) -> Message {
        let (none, all) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        let (offer, from, to) = match &self.state {
            State::Selecting(_) | State::Probing(_) => (None, none, all),
            State::Requesting(offer, _) | State::Declining(offer, _) => (Some(offer), none, all),
            State::Bound(held) if held.is_rebinding(now) => (None, held.lease.address, all),
            State::Bound(held) => (None, held.lease.address, held.lease.server),
        };
        let (kind, transaction, elapsed) = self.transaction(now);
        let asks = kind != DhcpMessageType::Decline;
        let identifier = [DhcpOption {
            kind: CLIENT_IDENTIFIER,
            data: &self.identifier,
        }];
        let message = DhcpRepr {
            message_type: kind,
            transaction_id: transaction,
            secs: u16::try_from(elapsed.as_secs()).unwrap_or(u16::MAX),
            client_hardware_address: EthernetAddress(self.mac),
            client_ip: from,
            your_ip: none,
            server_ip: none,
            router: None,
            subnet_mask: None,
            relay_agent_ip: none,
            // An address that is not configured yet receives no unicast.
            broadcast: from.is_unspecified() && asks,
            requested_ip: offer.map(|offer| offer.address),
            client_identifier: None,
            server_identifier: offer.map(|offer| offer.server),
            parameter_request_list: asks.then_some(&WANTED[..]),
            dns_servers: None,
            max_size: None,
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &identifier,
        };
        let mut payload = vec![0; message.buffer_len().max(LEAST_LEN)];
        message
            .emit(&mut DhcpPacket::new_unchecked(&mut payload[..]))
            .expect("the buffer has the length that the message wants");
        Message { payload, from, to }
    }

    /// Type, transaction, and the time since the client began it.
    fn transaction(&self, now: Instant) -> (DhcpMessageType, u32, Duration) {
        match &self.state {
            State::Selecting(attempt) => (
                DhcpMessageType::Discover,
                attempt.transaction,
                now - attempt.since,
            ),
            // Relays forward the request to the server of the offer if the field stays the same (RFC
            // 2131 §3.1 step 3).
            State::Requesting(_, attempt) => (
                DhcpMessageType::Request,
                attempt.transaction,
                attempt.discovered - attempt.since,
            ),
            State::Declining(_, attempt) => (
                DhcpMessageType::Decline,
                attempt.transaction,
                Duration::ZERO,
            ),
            // Servers are told nothing meanwhile.
            State::Probing(_) => (DhcpMessageType::Discover, 0, Duration::ZERO),
            State::Bound(held) => {
                let (since, transaction) = held.renewal.unwrap_or((now, 0));
                (DhcpMessageType::Request, transaction, now - since)
            }
        }
    }
}
