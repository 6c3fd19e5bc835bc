//! Effects of changed addresses and routes on open sockets. They scan all connections, at most once a
//! second.

use std::net::IpAddr;

use super::Transport;
use crate::addressing::Addressing;
use crate::socket::{CloseReason, Event};
use crate::tcp::icmp_errors::on_link_mtu;

/// The host no longer has `address`: its connections end, without a segment from it.
pub(in crate::host) fn abandon(transport: &mut Transport, address: IpAddr) {
    let mut ended = Vec::new();
    for connection in transport.sockets.connections_mut() {
        if connection.tuple.local == address {
            connection.end(CloseReason::AddressLost);
            ended.push(connection.id);
        }
    }
    for id in ended {
        transport.mark_runnable(id);
    }
}

/// Open connections look up their next hop and the link's MTU again. Those that waited for the hop
/// before may send, and so may datagrams. Rounds of requests without an answer still count: of two
/// routers that are gone, each gives way to the other.
pub(in crate::host) fn reroute(transport: &mut Transport, addressing: &Addressing) {
    let Transport {
        sockets,
        runnable,
        mtu,
        ..
    } = transport;
    for connection in sockets.connections_mut() {
        on_link_mtu(connection, mtu.of(connection.tuple.remote));
        if let Some(next_hop) = addressing.next_hop(connection.tuple.remote)
            && next_hop != connection.next_hop
        {
            connection.next_hop = next_hop;
            runnable.push(connection);
        }
    }
    for socket in sockets.udp_sockets_mut().filter(|one| one.has_aside()) {
        socket.try_again();
        runnable.add(socket.id, &mut socket.links.queued);
    }
}

/// Notifies the application, once until it has taken the event.
pub(in crate::host) fn announce(transport: &mut Transport) {
    if !transport.events.contains(&Event::AddressesChanged) {
        transport.events.push_back(Event::AddressesChanged);
    }
}
