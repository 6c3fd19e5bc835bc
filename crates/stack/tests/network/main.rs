//! The layers below TCP: both families, neighbors, pings, VLANs, and path MTU.

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;

mod arp;
mod extension_headers;
mod families;
mod frames;
mod listening;
mod odd_values;
mod over_ip;
mod path_mtu;
mod pings;
mod tos;
mod vlan;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tautline_base::SocketId;
use tautline_stack::{Event, TcpConfig};

use crate::pair::{PORT, Pair};

/// Connects side 0 to `to` on side 1, which listens already. Returns the sockets of both.
fn connect_to(pair: &mut Pair, to: impl Into<IpAddr>, config: TcpConfig) -> (SocketId, SocketId) {
    let before = pair.events[1].len();
    let client = pair.hosts[0]
        .connect(SocketAddr::new(to.into(), PORT), config, pair.now)
        .expect("the address is good");
    pair.run_for(Duration::from_millis(40));
    assert!(
        pair.events[0].contains(&Event::Connected(client)),
        "{:?}",
        pair.events
    );
    let accepted = pair.events[1][before..]
        .iter()
        .find_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        });
    (client, accepted.expect("accepted"))
}

fn data(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}
