//! The TOS byte, or traffic class, of outgoing packets (RFC 1349 as in Linux's `IP_TOS`, RFC 8200
//! §7).

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tautline_stack::{Event, SocketOption, TcpConfig, UdpConfig};

use crate::connect_to;
use crate::pair::{Pair, address, address_v6};

const AF42: u8 = 36 << 2;
/// The lowest two bits are not the application's.
const ASKED: u8 = AF42 | 0b11;

type Seen = Rc<RefCell<Vec<(usize, u8, u8)>>>;

/// A pair, and what it carries: the side a packet comes from, its protocol, its TOS byte.
fn watched() -> (Pair, Seen) {
    let (mut pair, seen) = (Pair::new(7), Seen::default());
    let log = seen.clone();
    pair.filter = Box::new(move |side, frame| {
        match frame[12..14] {
            [0x08, 0x00] => log.borrow_mut().push((side, frame[23], frame[15])),
            [0x86, 0xdd] => {
                log.borrow_mut()
                    .push((side, frame[20], frame[14] << 4 | frame[15] >> 4))
            }
            _ => {}
        }
        true
    });
    (pair, seen)
}

fn families() -> [IpAddr; 2] {
    [address(1).into(), address_v6(1).into()]
}

#[test]
fn segments_of_both_ends_carry_it() {
    for to in families() {
        let (mut pair, seen) = watched();
        let config = TcpConfig {
            tos: ASKED,
            ..TcpConfig::default()
        };
        pair.hosts[1]
            .listen(crate::pair::PORT, config.clone())
            .expect("free");
        let (client, server) = connect_to(&mut pair, to, config);
        assert_eq!(
            pair.transfer(0, client, server, &[1; 5000], Duration::from_secs(1))
                .len(),
            5000
        );
        let seen = seen.borrow();
        let segments: Vec<_> = seen
            .iter()
            .filter(|(_, protocol, _)| *protocol == 6)
            .collect();
        assert!(
            segments.len() > 6 && segments.iter().all(|(.., tos)| *tos == AF42),
            "{segments:?}"
        );
    }
}

#[test]
fn datagrams_carry_their_sockets_own() {
    for to in families() {
        let (mut pair, seen) = watched();
        for tos in [0, ASKED] {
            let any = SocketAddr::new("::".parse().expect("an address"), 0);
            let socket = pair.hosts[0]
                .udp()
                .bind(
                    any,
                    UdpConfig {
                        tos,
                        ..UdpConfig::default()
                    },
                )
                .expect("free");
            pair.hosts[0]
                .udp()
                .send_to(socket, b"x", Some(SocketAddr::new(to, 9)))
                .expect("taken");
            pair.run_for(Duration::from_millis(30));
        }
        let seen = seen.borrow();
        let sent: Vec<_> = seen
            .iter()
            .filter(|(_, protocol, _)| *protocol == 17)
            .map(|(.., tos)| *tos)
            .collect();
        assert_eq!(sent, [0, AF42]);
    }
}

#[test]
fn an_echo_reply_has_the_tos_of_its_request() {
    for (to, icmp) in families().into_iter().zip([1, 58]) {
        let (mut pair, seen) = watched();
        pair.hosts[0]
            .ping(to, (1, 0), b"data", pair.now)
            .expect("the address is good");
        pair.run_for(Duration::from_millis(50));
        seen.borrow_mut().clear();
        for (sequence, tos) in [(1, ASKED), (2, 0)] {
            pair.hosts[0]
                .ping_with_tos(to, tos, (1, sequence), b"data", pair.now)
                .expect("the address is good");
            pair.run_for(Duration::from_millis(30));
        }
        assert_eq!(
            *seen.borrow(),
            [(0, icmp, AF42), (1, icmp, AF42), (0, icmp, 0), (1, icmp, 0)]
        );
        assert_eq!(
            pair.events[0]
                .iter()
                .filter(|event| matches!(event, Event::Pong { .. }))
                .count(),
            3
        );
    }
}

/// `IP_TOS` on an open connection: what leaves afterwards carries it.
#[test]
fn an_open_connection_changes_it() {
    for to in families() {
        let (mut pair, seen) = watched();
        pair.hosts[1]
            .listen(crate::pair::PORT, TcpConfig::default())
            .expect("free");
        let (client, server) = connect_to(&mut pair, to, TcpConfig::default());
        seen.borrow_mut().clear();
        pair.hosts[0]
            .set_option(client, SocketOption::Tos(ASKED))
            .expect("open");
        let received = pair.transfer(0, client, server, &[1; 5000], Duration::from_secs(1));
        assert_eq!(received.len(), 5000);
        for (side, _, tos) in seen.borrow().iter().filter(|packet| packet.1 == 6) {
            let expected = if *side == 0 { AF42 } else { 0 };
            assert_eq!(tos & !0b11, expected, "side {side}, to {to}");
        }
    }
}
