//! Hosts over IP packets without a link header: no neighbors, any destination at the far end.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tautline_base::Medium;
use tautline_stack::{ConnectError, Event, TcpConfig, UdpConfig, UdpRecv};

use crate::pair::{DELAY, PORT, Pair, address, address_v6};
use crate::{connect_to, data};

fn over_ip() -> Pair {
    let mut pair = Pair::over(Medium::Ip, 7, |config| config);
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    pair
}

/// The first frame is the SYN of a connection: nobody asks for a hardware address. Every frame is an
/// IP packet and says its own length.
#[test]
fn streams_of_both_families_arrive_both_ways_without_neighbors() {
    let mut pair = over_ip();
    pair.filter = Box::new(|_, frame| {
        let len = match frame[0] >> 4 {
            4 => u16::from_be_bytes([frame[2], frame[3]]).into(),
            6 => 40 + usize::from(u16::from_be_bytes([frame[4], frame[5]])),
            version => panic!("IP version {version}"),
        };
        assert_eq!(len, frame.len());
        true
    });
    let started = pair.now;
    for remote in [IpAddr::from(address(1)), address_v6(1).into()] {
        let (client, server) = connect_to(&mut pair, remote, TcpConfig::default());
        let sent = data(300_000);
        assert!(pair.transfer(0, client, server, &sent, Duration::from_secs(10)) == sent);
        assert!(pair.transfer(1, server, client, &sent, Duration::from_secs(10)) == sent);
        let mss = pair.hosts[0].info(client).expect("open").mss.get();
        assert_eq!(mss, if remote.is_ipv4() { 1448 } else { 1428 });
    }
    assert!(pair.now - started < Duration::from_secs(5));
    for host in &pair.hosts {
        assert_eq!((host.stats().malformed, host.stats().not_for_us), (0, 0));
    }
}

#[test]
fn datagrams_and_echo_requests_need_no_neighbors() {
    let mut pair = over_ip();
    let [here, there] = [0, 1].map(|side| {
        let local = SocketAddr::from((address(side), 99));
        pair.hosts[side]
            .udp()
            .bind(local, UdpConfig::default())
            .expect("the port is free")
    });
    let now = pair.now;
    pair.hosts[0]
        .udp()
        .send_to(here, b"hello", Some((address(1), 99).into()))
        .expect("it has a route");
    pair.hosts[0]
        .ping(address_v6(1), (1, 2), b"ping", now)
        .expect("it has a route");
    pair.run_for(DELAY * 4);
    let mut buffer = [0; 9];
    let received = pair.hosts[1].udp().recv_from(there, &mut buffer);
    assert!(
        matches!(received, Ok(UdpRecv::Datagram(datagram)) if datagram.len == 5),
        "{received:?}"
    );
    let is_pong = |event: &Event| matches!(event, Event::Pong { sequence: 2, .. });
    assert!(pair.events[0].iter().any(is_pong), "{:?}", pair.events);
}

/// Over IP a destination beyond our prefix needs no route; a family that we have no address of cannot
/// be spoken.
#[test]
fn every_destination_of_a_spoken_family_is_at_the_far_end() {
    let mut pair = Pair::over(Medium::Ip, 7, |mut config| {
        config.addresses.truncate(1);
        config
    });
    let now = pair.now;
    let mut connect = |remote: &str| {
        let remote: SocketAddr = remote.parse().expect("an address");
        pair.hosts[0].connect(remote, TcpConfig::default(), now)
    };
    assert!(connect("192.0.2.1:80").is_ok());
    let refused = connect("[2001:db8::1]:80");
    assert!(
        matches!(refused, Err(ConnectError::NoRoute(_))),
        "{refused:?}"
    );
}
