//! Datagram sockets between two hosts in virtual time, over both families.

#[path = "../pair/mod.rs"]
#[expect(dead_code, reason = "shared with tests of connections")]
mod pair;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use pair::{Pair, address, address_v6};
use tautline_base::{Bytes, Ecn, SocketId};
use tautline_stack::socket::PathError;
use tautline_stack::udp::Datagram;
use tautline_stack::{BindError, Event, SendError, SendOptions, UdpConfig, UdpRecv};

const PORT: u16 = 4433;
/// Bytes of an Ethernet and an IPv4 header.
const HEADERS_V4: usize = 14 + 20;

fn families() -> [[IpAddr; 2]; 2] {
    [
        [address(0).into(), address(1).into()],
        [address_v6(0).into(), address_v6(1).into()],
    ]
}

fn any() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
}

/// A pair with a socket on each side, the second one on `PORT` of all addresses.
fn sockets(config: UdpConfig) -> (Pair, SocketId, SocketId) {
    let mut pair = Pair::new(7);
    let near = pair.hosts[0]
        .udp()
        .bind("[::]:0".parse::<SocketAddr>().expect("an address"), config)
        .expect("free");
    let far = pair.hosts[1]
        .udp()
        .bind(
            SocketAddr::new("::".parse().expect("an address"), PORT),
            config,
        )
        .expect("free");
    (pair, near, far)
}

fn receive(pair: &mut Pair, side: usize, socket: SocketId) -> Option<(Vec<u8>, SocketAddr)> {
    let mut out = [0; 2000];
    match pair.hosts[side]
        .udp()
        .recv_from(socket, &mut out)
        .expect("open")
    {
        UdpRecv::Datagram(Datagram { len, from, .. }) => Some((out[..len].to_vec(), from)),
        UdpRecv::Empty => None,
        UdpRecv::Failed(why) => panic!("{why}"),
    }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn datagrams_go_there_and_back_in_both_families() {
    for [ours, theirs] in families() {
        let (mut pair, near, far) = sockets(UdpConfig::default());
        let local = pair.hosts[0].udp().local(near).expect("bound").port();
        for size in [0, 1, 1000] {
            let data: Vec<u8> = (0..size).map(|at| at as u8).collect();
            pair.hosts[0]
                .udp()
                .send_to(near, &data, Some(SocketAddr::new(theirs, PORT)))
                .expect("taken");
            pair.run_for(millis(30));
            let (question, from) = receive(&mut pair, 1, far).expect("arrived");
            assert_eq!(
                (question, from),
                (data.clone(), SocketAddr::new(ours, local))
            );
            pair.hosts[1]
                .udp()
                .send_to(far, &data, Some(from))
                .expect("taken");
            pair.run_for(millis(30));
            assert_eq!(
                receive(&mut pair, 0, near),
                Some((data, SocketAddr::new(theirs, PORT)))
            );
            assert_eq!(
                (receive(&mut pair, 0, near), receive(&mut pair, 1, far)),
                (None, None)
            );
        }
        assert!(pair.events[1].contains(&Event::Readable(far)));
        for (side, socket) in [(0, near), (1, far)] {
            let info = pair.hosts[side].udp().info(socket).expect("open");
            assert_eq!(
                (info.sent, info.received, info.sending, info.below),
                (3, 3, Bytes::ZERO, Bytes::ZERO)
            );
            assert_eq!(pair.hosts[side].outstanding(), 0);
        }
    }
}

#[test]
fn the_ecn_field_of_each_datagram_arrives_beside_the_sockets_dscp() {
    const DSCP: u8 = 0xb8;
    let config = UdpConfig {
        // Its ECN bits are not the datagrams'.
        tos: DSCP | 0b11,
        ..UdpConfig::default()
    };
    for [_, theirs] in families() {
        let (mut pair, near, far) = sockets(config);
        let to = Some(SocketAddr::new(theirs, PORT));
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let options = SendOptions {
                to,
                ecn,
                ..SendOptions::default()
            };
            let mut udp = pair.hosts[0].udp();
            udp.send_with(near, b"marked", options).expect("taken");
            udp.send_to(near, b"plain", to).expect("taken");
            pair.run_for(millis(30));
            let mut out = [0; 100];
            for expected in [ecn, Ecn::NotEct] {
                let received = pair.hosts[1].udp().recv_from(far, &mut out);
                let Ok(UdpRecv::Datagram(datagram)) = received else {
                    panic!("{received:?}")
                };
                assert_eq!(datagram.ecn, expected);
            }
        }
    }
}

#[test]
fn a_connected_socket_hears_its_peer_only() {
    let (mut pair, near, far) = sockets(UdpConfig::default());
    let other = pair.hosts[0]
        .udp()
        .bind(any(), UdpConfig::default())
        .expect("free");
    assert_eq!(
        pair.hosts[0].udp().send_to(near, b"x", None),
        Err(SendError::NotConnected)
    );
    let near_at = SocketAddr::new(
        address(0).into(),
        pair.hosts[0].udp().local(near).expect("bound").port(),
    );
    pair.hosts[1]
        .udp()
        .connect(far, near_at)
        .expect("a good address");
    let far_at = SocketAddr::new(address(1).into(), PORT);
    pair.hosts[0]
        .udp()
        .send_to(other, b"stranger", Some(far_at))
        .expect("taken");
    pair.hosts[0]
        .udp()
        .send_to(near, b"friend", Some(far_at))
        .expect("taken");
    pair.run_for(millis(30));
    assert_eq!(
        receive(&mut pair, 1, far),
        Some((b"friend".to_vec(), near_at))
    );
    assert_eq!(receive(&mut pair, 1, far), None);
    // For another sender, the port is closed.
    assert_eq!(pair.hosts[1].stats().no_socket, 1);
    pair.hosts[1]
        .udp()
        .send_to(far, b"hello", None)
        .expect("taken");
    pair.run_for(millis(30));
    assert_eq!(
        receive(&mut pair, 0, near),
        Some((b"hello".to_vec(), far_at))
    );
}

#[test]
fn the_receive_queue_is_bounded_both_ways_and_counts_what_it_drops() {
    for (config, size, fit) in [
        (
            UdpConfig {
                receive_datagrams: 5,
                ..UdpConfig::default()
            },
            10,
            5,
        ),
        (
            UdpConfig {
                receive_buffer: Bytes::new(2500),
                ..UdpConfig::default()
            },
            1000,
            2,
        ),
    ] {
        let (mut pair, near, far) = sockets(config);
        for number in 0..9 {
            let to = SocketAddr::new(address(1).into(), PORT);
            pair.hosts[0]
                .udp()
                .send_to(near, &vec![number; size], Some(to))
                .expect("taken");
        }
        pair.run_for(millis(50));
        let info = pair.hosts[1].udp().info(far).expect("open");
        assert_eq!((info.received, info.overflowed), (fit, 9 - fit));
        assert_eq!(info.unread, Bytes::new(fit * size as u64));
        for number in 0..fit {
            assert_eq!(
                receive(&mut pair, 1, far).expect("there").0[0],
                number as u8
            );
        }
        assert_eq!(receive(&mut pair, 1, far), None);
    }
}

#[test]
fn what_does_not_fit_the_readers_buffer_is_cut_off() {
    let (mut pair, near, far) = sockets(UdpConfig::default());
    let to = Some(SocketAddr::new(address(1).into(), PORT));
    for data in [&b"longer"[..], b"next"] {
        pair.hosts[0].udp().send_to(near, data, to).expect("taken");
    }
    pair.run_for(millis(30));
    let mut out = [0; 4];
    for (whole, text) in [(6, b"long"), (4, b"next")] {
        let UdpRecv::Datagram(datagram) =
            pair.hosts[1].udp().recv_from(far, &mut out).expect("open")
        else {
            panic!("nothing")
        };
        assert_eq!((datagram.len, datagram.whole, &out), (4, whole, text));
    }
}

#[test]
fn a_full_socket_takes_no_more_until_its_packets_have_left() {
    let config = UdpConfig {
        send_buffer: Bytes::new(5000),
        ..UdpConfig::default()
    };
    let (mut pair, near, _) = sockets(config);
    let to = Some(SocketAddr::new(address(1).into(), PORT));
    // Resolve the neighbor first; afterwards no packet completes.
    pair.hosts[0].udp().send_to(near, b"", to).expect("taken");
    pair.run_for(millis(30));
    pair.hosts[0].device_mut().stuck = true;
    for _ in 0..4 {
        pair.hosts[0]
            .udp()
            .send_to(near, &[0; 1000], to)
            .expect("taken");
    }
    assert_eq!(
        pair.hosts[0].udp().send_to(near, &[0; 1000], to),
        Err(SendError::Full)
    );
    pair.run_for(millis(10));
    assert_eq!(
        pair.hosts[0].udp().info(near).expect("open").below,
        Bytes::new(4 * 1028),
        "all wait for their completion"
    );
    assert_eq!(
        pair.hosts[0].udp().send_to(near, &[0; 1000], to),
        Err(SendError::Full)
    );
    assert!(!pair.events[0].contains(&Event::Writable(near)));
    pair.hosts[0].device_mut().stuck = false;
    pair.run_for(millis(10));
    assert!(pair.events[0].contains(&Event::Writable(near)));
    assert_eq!(
        pair.hosts[0].udp().info(near).expect("open").sending,
        Bytes::ZERO
    );
    assert!(pair.hosts[0].udp().send_to(near, &[0; 1000], to).is_ok());
}

/// Bytes below the socket when nothing completes.
fn below(limit: Option<Bytes>) -> (Bytes, u64) {
    let (mut pair, near, _) = sockets(UdpConfig {
        below: limit,
        ..UdpConfig::default()
    });
    let to = Some(SocketAddr::new(address(1).into(), PORT));
    pair.hosts[0].udp().send_to(near, b"", to).expect("taken");
    pair.run_for(millis(30));
    pair.hosts[0].device_mut().stuck = true;
    for _ in 0..40 {
        pair.hosts[0]
            .udp()
            .send_to(near, &[0; 972], to)
            .expect("taken");
    }
    pair.run_for(millis(30));
    let info = pair.hosts[0].udp().info(near).expect("open");
    pair.hosts[0].device_mut().stuck = false;
    pair.run_for(millis(30));
    let after = pair.hosts[0].udp().info(near).expect("open");
    assert_eq!(
        (after.sent, after.sending),
        (41, Bytes::ZERO),
        "what waited was sent when there was room"
    );
    (info.below, info.throttles)
}

#[test]
fn a_limit_keeps_the_rest_in_the_socket() {
    assert_eq!(below(None), (Bytes::new(40_000), 0));
    // The test precedes the charge: the datagram that reaches the limit is the last that passes it.
    assert_eq!(below(Some(Bytes::new(4000))), (Bytes::new(5000), 1));
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let (mut pair, near, _) = sockets(UdpConfig::default());
    let host = &mut pair.hosts[0];
    let v4_only = host.udp().bind(any(), UdpConfig::default()).expect("free");
    let send = |host: &mut pair::Stack, socket, to: &str, len| {
        host.udp()
            .send_to(socket, &vec![0; len], Some(to.parse().expect("an address")))
    };
    assert_eq!(send(host, near, "10.7.0.2:9", 1472), Ok(()));
    assert_eq!(
        send(host, near, "10.7.0.2:9", 1473),
        Err(SendError::TooLong {
            len: 1473,
            most: 1472
        })
    );
    assert_eq!(
        send(host, near, "[fd07::2]:9", 1453),
        Err(SendError::TooLong {
            len: 1453,
            most: 1452
        })
    );
    let bad = |to: &str| Err(SendError::BadAddress(to.parse().expect("an address")));
    for to in ["10.7.0.2:0", "10.7.0.1:9", "224.0.0.1:9", "0.0.0.0:9"] {
        assert_eq!(send(host, near, to, 1), bad(to), "{to}");
    }
    assert_eq!(
        send(host, near, "192.0.2.1:9", 1),
        Err(SendError::NoRoute(
            "192.0.2.1:9".parse().expect("an address")
        ))
    );
    assert_eq!(
        send(host, v4_only, "[fd07::2]:9", 1),
        Err(SendError::NoRoute(
            "[fd07::2]:9".parse().expect("an address")
        ))
    );
    for to in ["255.255.255.255:9", "10.7.0.255:9"] {
        assert_eq!(
            send(host, near, to, 1),
            Err(SendError::Broadcast(to.parse().expect("an address")))
        );
    }
}

#[test]
fn broadcasts_are_for_those_who_asked() {
    for to in ["255.255.255.255", "10.7.0.255"] {
        let config = UdpConfig {
            broadcast: true,
            ..UdpConfig::default()
        };
        let (mut pair, near, far) = sockets(config);
        let deaf = pair.hosts[1]
            .udp()
            .bind(SocketAddr::new(any().ip(), 9), UdpConfig::default())
            .expect("free");
        let to: IpAddr = to.parse().expect("an address");
        for port in [PORT, 9] {
            pair.hosts[0]
                .udp()
                .send_to(near, b"all", Some(SocketAddr::new(to, port)))
                .expect("taken");
        }
        let before = pair.carried;
        pair.run_for(millis(30));
        assert_eq!(
            pair.carried - before,
            2,
            "no neighbor is requested, and no error is sent"
        );
        let (data, from) = receive(&mut pair, 1, far).expect("heard");
        assert_eq!((data, from.ip()), (b"all".to_vec(), address(0).into()));
        assert_eq!(receive(&mut pair, 1, deaf), None);
    }
}

#[test]
fn a_port_without_socket_is_told_to_who_is_connected() {
    for [_, theirs] in families() {
        let (mut pair, near, _) = sockets(UdpConfig::default());
        let loose = pair.hosts[0]
            .udp()
            .bind(
                "[::]:0".parse::<SocketAddr>().expect("an address"),
                UdpConfig::default(),
            )
            .expect("free");
        let closed = SocketAddr::new(theirs, 9);
        pair.hosts[0]
            .udp()
            .connect(near, closed)
            .expect("a good address");
        pair.hosts[0]
            .udp()
            .send_to(near, b"anybody?", None)
            .expect("taken");
        pair.hosts[0]
            .udp()
            .send_to(loose, b"anybody?", Some(closed))
            .expect("taken");
        pair.run_for(millis(60));
        assert_eq!(pair.hosts[1].stats().no_socket, 2);
        let mut out = [0; 10];
        assert_eq!(
            pair.hosts[0].udp().recv_from(near, &mut out),
            Ok(UdpRecv::Failed(PathError::PortUnreachable))
        );
        assert_eq!(
            pair.hosts[0].udp().recv_from(near, &mut out),
            Ok(UdpRecv::Empty)
        );
        assert_eq!(
            pair.hosts[0].udp().recv_from(loose, &mut out),
            Ok(UdpRecv::Empty)
        );
        pair.hosts[0]
            .udp()
            .send_to(near, b"again", None)
            .expect("taken");
        pair.run_for(millis(60));
        assert_eq!(
            pair.hosts[0].udp().send_to(near, b"again", None),
            Err(SendError::Path(PathError::PortUnreachable))
        );
        assert_eq!(pair.hosts[0].udp().send_to(near, b"again", None), Ok(()));
    }
}

#[test]
fn checksums_are_looked_at() {
    // Offsets of the UDP checksum behind the Ethernet header.
    for ([_, theirs], checksum, zero_arrives) in [
        (families()[0], 20 + 6, true),
        (families()[1], 40 + 6, false),
    ] {
        for (arrives, change) in [
            (true, None),
            (zero_arrives, Some([0, 0])),
            (false, Some([0x12, 0x34])),
        ] {
            let (mut pair, near, far) = sockets(UdpConfig::default());
            pair.mangle = Box::new(move |side, frame| {
                let udp = frame[14 + checksum - 6 - 20 + 9] == 17 || frame[14 + 6] == 17;
                if side == 0
                    && udp
                    && let Some(sum) = change
                {
                    frame[14 + checksum..][..2].copy_from_slice(&sum);
                }
            });
            pair.hosts[0]
                .udp()
                .send_to(near, b"summed", Some(SocketAddr::new(theirs, PORT)))
                .expect("taken");
            pair.run_for(millis(60));
            assert_eq!(
                receive(&mut pair, 1, far).is_some(),
                arrives,
                "{theirs} {change:?}"
            );
            assert_eq!(pair.hosts[1].stats().bad_checksum, u64::from(!arrives));
        }
    }
}

#[test]
fn a_silent_neighbor_blocks_no_other_datagram() {
    let (mut pair, near, far) = sockets(UdpConfig::default());
    let connected = pair.hosts[0]
        .udp()
        .bind(any(), UdpConfig::default())
        .expect("free");
    pair.hosts[0]
        .udp()
        .connect(
            connected,
            SocketAddr::new(Ipv4Addr::new(10, 7, 0, 77).into(), 9),
        )
        .expect("a good address");
    pair.hosts[0]
        .udp()
        .send_to(connected, b"lost", None)
        .expect("taken");
    for last in 50..150 {
        let silent = SocketAddr::new(Ipv4Addr::new(10, 7, 0, last).into(), 9);
        pair.hosts[0]
            .udp()
            .send_to(near, b"lost", Some(silent))
            .expect("taken");
    }
    pair.hosts[0]
        .udp()
        .send_to(
            near,
            b"arrives",
            Some(SocketAddr::new(address(1).into(), PORT)),
        )
        .expect("taken");
    pair.run_for(millis(100));
    assert_eq!(receive(&mut pair, 1, far).expect("arrived").0, b"arrives");
    let info = pair.hosts[0].udp().info(near).expect("open");
    assert_eq!(
        (info.sent, info.unresolved),
        (1, 101 - 64),
        "64 waited, the latest"
    );
    pair.run_for(Duration::from_secs(5));
    let info = pair.hosts[0].udp().info(near).expect("open");
    assert_eq!((info.unresolved, info.sending), (100, Bytes::ZERO));
    let mut out = [0; 10];
    assert_eq!(
        pair.hosts[0].udp().recv_from(connected, &mut out),
        Ok(UdpRecv::Failed(PathError::HostUnreachable))
    );
    assert_eq!(
        pair.hosts[0].udp().recv_from(near, &mut out),
        Ok(UdpRecv::Empty)
    );
}

/// A neighbor that does not answer discards what is for it, not datagrams that wait for another one.
#[test]
fn a_neighbor_that_fails_discards_no_datagram_for_another() {
    for (silent, [_, theirs]) in ["10.7.0.77", "fd07::77"].into_iter().zip(families()) {
        let (mut pair, near, far) = sockets(UdpConfig::default());
        pair.filter = Box::new(|side, _| side == 0);
        let silent = SocketAddr::new(silent.parse().expect("an address"), PORT);
        let send = |pair: &mut Pair, to| {
            let sent = pair.hosts[0].udp().send_to(near, b"waits", Some(to));
            sent.expect("taken");
        };
        send(&mut pair, silent);
        pair.run_for(millis(1500));
        send(&mut pair, SocketAddr::new(theirs, PORT));
        // Three requests go unanswered; the third one for the other neighbor does not.
        pair.run_for(millis(1700));
        pair.filter = Box::new(|_, _| true);
        pair.run_for(millis(1000));
        let received = receive(&mut pair, 1, far).map(|(data, _)| data);
        assert_eq!(received.as_deref(), Some(&b"waits"[..]));
        let info = pair.hosts[0].udp().info(near).expect("open");
        assert_eq!((info.sent, info.unresolved), (1, 1));
        assert_eq!(info.sending, Bytes::ZERO);
    }
}

#[test]
fn ports_belong_to_one_socket() {
    let mut pair = Pair::new(1);
    let host = &mut pair.hosts[0];
    let mut bind = |at: &str| {
        host.udp().bind(
            at.parse::<SocketAddr>().expect("an address"),
            UdpConfig::default(),
        )
    };
    let in_use = |at: &str| Err(BindError::InUse(at.parse().expect("an address")));
    assert!(
        bind("10.7.0.1:53").is_ok() && bind("[fd07::1]:53").is_ok() && bind("0.0.0.0:54").is_ok()
    );
    for at in [
        "10.7.0.1:53",
        "0.0.0.0:53",
        "[::]:53",
        "10.7.0.1:54",
        "[::]:54",
    ] {
        assert_eq!(bind(at), in_use(at), "{at}");
    }
    assert_eq!(
        bind("10.7.0.2:55"),
        Err(BindError::NotOurs(
            "10.7.0.2:55".parse().expect("an address")
        ))
    );
    let ports: Vec<_> = (0..100).map(|_| bind("0.0.0.0:0").expect("free")).collect();
    let mut numbers: Vec<_> = ports
        .iter()
        .map(|id| host.udp().local(*id).expect("bound").port())
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 100);
    assert!(numbers.iter().all(|port| (32_768..61_000).contains(port)));
}

/// RFC 6056 §3.3.1: the ports of some sockets tell nothing about the next one's, where an answer could be
/// forged.
#[test]
fn chosen_ports_are_unrelated() {
    let ports = |seed| -> Vec<u16> {
        let mut pair = Pair::new(seed);
        let mut udp = pair.hosts[0].udp();
        let mut bind = || {
            let socket = udp.bind(any(), UdpConfig::default()).expect("one is free");
            udp.local(socket).expect("it is bound").port()
        };
        (0..200).map(|_| bind()).collect()
    };
    let [ours, others] = [1, 2].map(ports);
    let near = |(one, other): (&u16, &u16)| one.abs_diff(*other) < 16;
    let neighbors = ours.iter().zip(&ours[1..]).filter(|pair| near(*pair));
    assert!(neighbors.count() < 5, "{ours:?}");
    let alike = ours.iter().zip(&others).filter(|pair| near(*pair));
    assert!(alike.count() < 5, "{ours:?}, {others:?}");
}

#[test]
fn a_closed_socket_frees_its_port_and_sends_what_it_was_given() {
    let (mut pair, near, far) = sockets(UdpConfig::default());
    let at = pair.hosts[0].udp().local(near).expect("bound");
    for number in 0..3 {
        pair.hosts[0]
            .udp()
            .send_to(
                near,
                &[number],
                Some(SocketAddr::new(address(1).into(), PORT)),
            )
            .expect("taken");
    }
    let now = pair.now;
    pair.hosts[0].close(near, now);
    assert!(pair.hosts[0].udp().bind(at, UdpConfig::default()).is_ok());
    pair.run_for(millis(60));
    for number in 0..3 {
        assert_eq!(receive(&mut pair, 1, far).expect("arrived").0, [number]);
    }
    assert_eq!(
        (pair.hosts[0].socket_count(), pair.hosts[0].outstanding()),
        (1, 0)
    );
    assert!(pair.hosts[0].udp().info(near).is_none());
}

/// Any bytes behind the headers are survived, and every frame is counted.
#[test]
fn nonsense_is_counted() {
    let (mut pair, near, far) = sockets(UdpConfig::default());
    pair.hosts[0]
        .udp()
        .send_to(
            near,
            b"12345678",
            Some(SocketAddr::new(address(1).into(), PORT)),
        )
        .expect("taken");
    let mut frames = Vec::new();
    pair.run_for(millis(30));
    drop(receive(&mut pair, 1, far));
    // A datagram written by hand: checksum 0, so every change but that of the lengths is
    // well-formed.
    let mut frame = vec![
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 7,
        0, 1, 10, 7, 0, 2,
    ];
    let sum: u32 = frame[14..]
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0, 7]);
    frame.extend(PORT.to_be_bytes());
    frame.extend([0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    for len in 0..=20u8 {
        let mut changed = frame.clone();
        changed[HEADERS_V4 + 5] = len;
        frames.push((changed, (8..=16).contains(&len)));
    }
    for (frame, fits) in frames {
        let before = pair.hosts[1].stats();
        pair.inject(1, &frame);
        let after = pair.hosts[1].stats();
        assert_eq!(
            after.malformed - before.malformed,
            u64::from(!fits),
            "length {}",
            frame[HEADERS_V4 + 5]
        );
        assert_eq!(receive(&mut pair, 1, far).is_some(), fits);
    }
}
