//! A host that owns every address: connections to any destination, answered when the application
//! has decided; datagrams and echo requests to any, connections from any.

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tautline_base::{Bytes, Medium, SocketId};
use tautline_stack::{
    Cidr, CloseReason, ConnectError, Event, Limits, ListenAt, Rejection, SendError, TcpConfig,
    UdpConfig, UdpRecv,
};
use tautline_testkit::{ACK, FIN, Ip, PSH, RST, SYN, Segment, TCP};

use crate::pair::{DELAY, Pair, address, address_v6};

const CLIENT: usize = 0;
/// Owns every address.
const OWNER: usize = 1;
const ANYWHERE: [&str; 2] = ["192.0.2.77:8080", "[2001:db8::77]:443"];

fn pair() -> Pair {
    Pair::over(Medium::Ip, 7, |config| {
        if config.addresses[0].address() == address(OWNER) {
            config.owns(Cidr::ALL_IPV4).owns(Cidr::ALL_IPV6)
        } else {
            config
        }
    })
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn every_port() -> ListenAt {
    ListenAt::every_port(std::net::Ipv6Addr::UNSPECIFIED)
}

/// A pair whose owner listens for everything and decides on each SYN.
fn deferred() -> Pair {
    let mut pair = pair();
    pair.hosts[OWNER]
        .listen(
            every_port(),
            TcpConfig {
                deferred_accept: true,
                ..TcpConfig::default()
            },
        )
        .expect("nobody listens yet");
    pair
}

fn connect(pair: &mut Pair, to: SocketAddr) -> SocketId {
    let now = pair.now;
    pair.hosts[CLIENT]
        .connect(to, TcpConfig::default(), now)
        .expect("everything is at the far end")
}

/// The requests reported to the owner since `from`.
fn requests(pair: &Pair, from: usize) -> Vec<SocketId> {
    let events = pair.events[OWNER][from..].iter();
    let requests = events.filter_map(|event| match event {
        Event::Requested { request, .. } => Some(*request),
        _ => None,
    });
    requests.collect()
}

/// Connects the client to `to` and returns its socket and the request at the owner.
fn request(pair: &mut Pair, to: SocketAddr) -> (SocketId, SocketId) {
    let before = pair.events[OWNER].len();
    let client = connect(pair, to);
    pair.run_for(DELAY * 2);
    let [request] = requests(pair, before)[..] else {
        panic!("one request, not {:?}", pair.events[OWNER])
    };
    (client, request)
}

#[test]
fn a_listener_on_every_port_hands_out_the_destination_that_the_peer_wanted() {
    let mut pair = pair();
    pair.hosts[OWNER]
        .listen(every_port(), TcpConfig::default())
        .expect("nobody listens yet");
    for to in ANYWHERE.map(at) {
        let before = pair.events[OWNER].len();
        let client = connect(&mut pair, to);
        pair.run_for(DELAY * 4);
        let accepted = pair.events[OWNER][before..].iter().find_map(|event| {
            let Event::Accepted { socket, .. } = event else {
                return None;
            };
            Some(*socket)
        });
        let server = accepted.expect("accepted");
        assert_eq!(pair.hosts[OWNER].local(server), Some(to));
        assert_eq!(
            pair.hosts[OWNER].peer(server),
            pair.hosts[CLIENT].local(client)
        );
        let data: Vec<u8> = (0..100_000u32).map(|at| (at >> 3) as u8).collect();
        let limit = Duration::from_secs(9);
        assert!(pair.transfer(CLIENT, client, server, &data, limit) == data);
        assert!(pair.transfer(OWNER, server, client, &data, limit) == data);
    }
}

#[test]
fn a_listener_of_one_port_comes_before_that_of_every_port() {
    let mut pair = pair();
    let mut listen = |at: ListenAt| pair.hosts[OWNER].listen(at, TcpConfig::default());
    let (every, one) = (listen(every_port()), listen(8080.into()));
    listen(every_port()).expect_err("it is taken");
    for (to, listener) in [("192.0.2.1:8080", one), ("192.0.2.1:8081", every)] {
        let before = pair.events[OWNER].len();
        connect(&mut pair, at(to));
        pair.run_for(DELAY * 4);
        let is_its = |event: &Event| matches!(event, Event::Accepted { listener: by, .. } if Ok(*by) == listener);
        assert!(pair.events[OWNER][before..].iter().any(is_its), "{to}");
    }
}

/// No SYN-ACK leaves before the application accepts; then the connection is as any other.
#[test]
fn a_syn_waits_until_the_application_accepts() {
    for to in ANYWHERE.map(at) {
        let mut pair = deferred();
        let (client, request) = request(&mut pair, to);
        assert_eq!(pair.hosts[OWNER].local(request), Some(to));
        let carried = pair.carried;
        // The client's second SYN, after a second, is the same request.
        pair.run_for(Duration::from_millis(1500));
        assert_eq!(
            (pair.carried, requests(&pair, 0).len()),
            (carried + 1, 1),
            "only the SYN again"
        );
        assert_eq!(pair.state(CLIENT, client), Some("SYN-SENT"));
        let now = pair.now;
        let server = pair.hosts[OWNER].accept(request, now).expect("it waits");
        // What is written before the handshake ends waits for it.
        pair.hosts[OWNER].send(server, b"banner").expect("open");
        pair.run_for(DELAY * 4);
        assert!(pair.events[CLIENT].contains(&Event::Connected(client)));
        assert!(pair.events[OWNER].contains(&Event::Connected(server)));
        assert_eq!(pair.read(CLIENT, client).0, b"banner");
        assert_eq!(pair.hosts[OWNER].local(server), Some(to));
        let again = pair.hosts[OWNER].accept(request, now);
        again.expect_err("a request is answered once");
    }
}

#[test]
fn the_client_sees_the_refusal_that_the_application_chose() {
    for (how, why) in [
        (Rejection::Reset, Some(CloseReason::Refused)),
        (Rejection::HostUnreachable, Some(CloseReason::Unreachable)),
        (Rejection::PortUnreachable, Some(CloseReason::Refused)),
        (Rejection::Prohibited, Some(CloseReason::Prohibited)),
        (Rejection::Silence, None),
    ] {
        for to in ANYWHERE.map(at) {
            let mut pair = deferred();
            let (_, request) = request(&mut pair, to);
            let now = pair.now;
            pair.hosts[OWNER]
                .reject(request, how, now)
                .expect("it waits");
            pair.run_for(DELAY * 3);
            assert_eq!(pair.closed(CLIENT), why, "{how:?}");
            assert_eq!(pair.hosts[OWNER].socket_count(), 1, "only the listener");
        }
    }
}

#[test]
fn a_forbidden_connection_does_not_send_its_user_to_the_cables() {
    let forbidden = CloseReason::Prohibited.to_string();
    assert!(forbidden.contains("firewall") && !forbidden.contains("cabling"));
}

/// The application never answers: the request expires, and the client's next SYN asks again. A
/// listener that is closed takes its requests along.
#[test]
fn a_request_expires_and_ends_with_its_listener() {
    let mut pair = deferred();
    pair.hosts[OWNER].set_limits(Limits {
        request_deadline: Duration::from_secs(5),
        ..Limits::default()
    });
    let (_, first) = request(&mut pair, at(ANYWHERE[0]));
    // SYNs after 1, 3 and 7 s.
    pair.run_for(Duration::from_secs(8));
    let now = pair.now;
    let expired = pair.hosts[OWNER].accept(first, now);
    expired.expect_err("it has expired");
    assert_eq!(requests(&pair, 0).len(), 2);
    let listener = pair.events[OWNER].iter().find_map(|event| match event {
        Event::Requested { listener, .. } => Some(*listener),
        _ => None,
    });
    pair.hosts[OWNER].close(listener.expect("requested"), now);
    assert_eq!(pair.hosts[OWNER].socket_count(), 0);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.closed(CLIENT), Some(CloseReason::Refused));
}

/// A peer that vanished after its SYN: the connection ends with an event.
#[test]
fn an_accepted_peer_that_does_not_answer_is_a_closed_connection() {
    let mut pair = deferred();
    let (_, request) = request(&mut pair, at(ANYWHERE[0]));
    pair.filter = Box::new(|side, _| side == OWNER);
    let now = pair.now;
    let server = pair.hosts[OWNER].accept(request, now).expect("it waits");
    pair.run_for(Duration::from_secs(200));
    let why = CloseReason::TimedOut;
    let closed = Event::Closed {
        socket: server,
        why,
    };
    assert!(
        pair.events[OWNER].contains(&closed),
        "{:?}",
        pair.events[OWNER]
    );
}

#[test]
fn datagrams_arrive_for_any_destination_and_are_answered_from_it() {
    let mut pair = pair();
    let socket = pair.hosts[OWNER]
        .udp()
        .bind_everywhere(UdpConfig::default());
    let socket = socket.expect("the first");
    let one = SocketAddr::from((address_v6(CLIENT), 99));
    for (number, to) in ANYWHERE.map(at).into_iter().enumerate() {
        let local = SocketAddr::new(
            if to.is_ipv4() {
                address(CLIENT).into()
            } else {
                one.ip()
            },
            99,
        );
        let client = pair.hosts[CLIENT].udp().bind(local, UdpConfig::default());
        let client = client.expect("a free port");
        let sent = pair.hosts[CLIENT]
            .udp()
            .send_to(client, &[number as u8; 700], Some(to));
        sent.expect("room");
        pair.run_for(DELAY * 2);
        let mut out = [0; 1500];
        let received = pair.hosts[OWNER].udp().recv_from(socket, &mut out);
        let Ok(UdpRecv::Datagram(datagram)) = received else {
            panic!("{received:?}")
        };
        assert_eq!((datagram.len, datagram.from, datagram.to), (700, local, to));
        let answer = pair.hosts[OWNER]
            .udp()
            .send_from(socket, b"answer", Some(to), Some(local));
        answer.expect("room");
        pair.run_for(DELAY * 2);
        let received = pair.hosts[CLIENT].udp().recv_from(client, &mut out);
        let Ok(UdpRecv::Datagram(datagram)) = received else {
            panic!("{received:?}")
        };
        assert_eq!((datagram.from, &out[..datagram.len]), (to, &b"answer"[..]));
    }
    let mut send = |from: Option<&str>| {
        let from = from.map(at);
        pair.hosts[OWNER]
            .udp()
            .send_from(socket, b"", from, Some(one))
    };
    for from in [None, Some("[2001:db8::1]:0"), Some("[ff02::1]:9")] {
        assert!(
            matches!(send(from), Err(SendError::BadSource(_))),
            "{from:?}"
        );
    }
}

#[test]
fn echo_requests_to_any_owned_address_are_answered_from_it() {
    let mut pair = pair();
    for to in ANYWHERE.map(|text| at(text).ip()) {
        let now = pair.now;
        pair.hosts[CLIENT]
            .ping(to, (1, 2), b"data", now)
            .expect("everything is at the far end");
        pair.run_for(DELAY * 3);
        let is_pong = |event: &Event| matches!(event, Event::Pong { from, .. } if *from == to);
        assert!(pair.events[CLIENT].iter().any(is_pong), "{to}");
    }
}

#[test]
fn a_connection_may_come_from_any_owned_address() {
    let mut pair = pair();
    pair.hosts[CLIENT]
        .listen(80, TcpConfig::default())
        .expect("a free port");
    let now = pair.now;
    let mut connect = |from: &str, to: IpAddr| {
        let to = SocketAddr::new(to, 80);
        pair.hosts[OWNER].connect_from(Some(at(from)), to, TcpConfig::default(), now)
    };
    let v4 = connect("198.51.100.9:5555", address(CLIENT).into()).expect("owned");
    let v6 = connect("[2001:db8::9]:0", address_v6(CLIENT).into()).expect("owned");
    let taken = connect("198.51.100.9:5555", address(CLIENT).into());
    assert!(matches!(taken, Err(ConnectError::InUse(..))), "{taken:?}");
    let mixed = connect("198.51.100.9:5555", address_v6(CLIENT).into());
    assert!(matches!(mixed, Err(ConnectError::NoRoute(_))), "{mixed:?}");
    let group = connect("224.0.0.1:1", address(CLIENT).into());
    assert!(matches!(group, Err(ConnectError::NotOurs(_))), "{group:?}");
    pair.run_for(DELAY * 4);
    for socket in [v4, v6] {
        assert!(pair.events[OWNER].contains(&Event::Connected(socket)));
    }
    assert_eq!(pair.hosts[OWNER].local(v4), Some(at("198.51.100.9:5555")));
}

/// 65 535 ports of a thousand addresses, of a peer that never answers: each address by a 997th of its
/// ports, and each port of some address.
#[test]
fn a_port_scan_takes_bounded_memory() {
    const MOST: usize = 256;
    for defers in [true, false] {
        let mut pair = if defers { deferred() } else { pair() };
        if !defers {
            let listening = pair.hosts[OWNER].listen(every_port(), TcpConfig::default());
            listening.expect("nobody listens yet");
        }
        pair.hosts[OWNER].set_limits(Limits {
            requests: MOST,
            ..Limits::default()
        });
        pair.filter = Box::new(|_, _| false);
        let source = IpAddr::from(address(CLIENT));
        let ports = |host| (997 - host % 997..=u32::from(u16::MAX)).step_by(997);
        let destinations = (0..1000).flat_map(|host| ports(host).map(move |port| (host, port)));
        for (number, (host, port)) in destinations.enumerate() {
            let destination = Ipv4Addr::from_bits(0xc633_6400 + host);
            let syn = Segment {
                source_port: 4000,
                destination_port: port as u16,
                flags: SYN,
                seq: 1,
                ack: 0,
                window: 1000,
                ..Segment::default()
            };
            let packet = Ip::new(source, IpAddr::from(destination), TCP).packet(&syn.to_bytes());
            pair.inject(OWNER, &packet);
            if number % 512 == 0 {
                // The application refuses every second request.
                let before = pair.events[OWNER].len();
                pair.run_for(Duration::from_micros(10));
                for request in requests(&pair, before).into_iter().step_by(2) {
                    let now = pair.now;
                    let refused = pair.hosts[OWNER].reject(request, Rejection::Reset, now);
                    refused.expect("it waits");
                }
                pair.events[OWNER].clear();
                let sockets = pair.hosts[OWNER].socket_count();
                assert!(sockets <= 1 + MOST, "{sockets} sockets");
                assert_eq!(pair.hosts[OWNER].buffer_memory(), 0);
            }
        }
        pair.run_for(Duration::from_secs(200));
        assert_eq!(pair.hosts[OWNER].socket_count(), 1, "only the listener");
        // Whoever comes then is served.
        pair.filter = Box::new(|_, _| true);
        if defers {
            let (client, request) = request(&mut pair, at(ANYWHERE[0]));
            let now = pair.now;
            pair.hosts[OWNER].accept(request, now).expect("it waits");
            pair.run_for(DELAY * 4);
            assert!(pair.events[CLIENT].contains(&Event::Connected(client)));
        }
    }
}

/// Bytes that each of `count` unanswered SYNs takes at the owner, which has as many already.
fn bytes_per_syn(mut pair: Pair, count: u64) -> u64 {
    pair.filter = Box::new(|_, _| false);
    let mut port = 0;
    let mut inject = |pair: &mut Pair| {
        for _ in 0..count {
            port += 1;
            let syn = Segment {
                source_port: 4000,
                destination_port: port,
                flags: SYN,
                seq: 1,
                window: 1000,
                options: vec![2, 4, 5, 180, 4, 2, 3, 3, 7],
                ..Segment::default()
            };
            let destination = Ipv4Addr::new(198, 51, 100, 7);
            let packet = Ip::new(address(CLIENT), destination, TCP).packet(&syn.to_bytes());
            pair.inject(OWNER, &packet);
            pair.run_for(Duration::from_micros(1));
            pair.events[OWNER].clear();
        }
    };
    inject(&mut pair);
    let held = allocation_counter::measure(|| inject(&mut pair));
    assert_eq!(pair.hosts[OWNER].socket_count() as u64, 1 + 2 * count);
    held.bytes_current as u64 / count
}

#[test]
fn an_unanswered_syn_takes_little_memory() {
    let mut answering = pair();
    let listening = answering.hosts[OWNER].listen(every_port(), TcpConfig::default());
    listening.expect("nobody listens yet");
    // A listener that answers holds 128; further ones get cookies, which take nothing.
    let (waiting, answering) = (
        bytes_per_syn(deferred(), 2048),
        bytes_per_syn(answering, 64),
    );
    println!("{waiting} bytes wait for the application, {answering} for the peer");
    assert!(waiting <= 320, "{waiting} bytes wait for the application");
    // A connection with a SYN-ACK to repeat.
    assert!(answering <= 2048, "{answering} bytes wait for the peer");
}

/// Packets with a SYN and data to every port from `first` on.
fn syns_with_data(first: u16, data: usize) -> impl Iterator<Item = Vec<u8>> {
    (first..).map(move |port| {
        let syn = Segment {
            source_port: 4000,
            destination_port: port,
            flags: SYN,
            window: 1000,
            payload: vec![7; data],
            ..Segment::default()
        };
        let destination = Ipv4Addr::new(198, 51, 100, 7);
        Ip::new(address(CLIENT), destination, TCP).packet(&syn.to_bytes())
    })
}

/// SYNs with data take no more than twice what bare ones take, and not the place of bare ones.
#[test]
fn syns_with_data_wait_within_a_bound_of_their_own() {
    const MOST: usize = 256;
    let mut pair = deferred();
    pair.hosts[OWNER].set_limits(Limits {
        requests: MOST,
        ..Limits::default()
    });
    pair.filter = Box::new(|_, _| false);
    let held = allocation_counter::measure(|| {
        for packet in syns_with_data(1, 1400).take(MOST) {
            pair.inject(OWNER, &packet);
        }
        // Repeated without data they take the place of those before.
        for packet in syns_with_data(1, 0).take(4) {
            pair.inject(OWNER, &packet);
        }
    });
    let waiting = |pair: &Pair| pair.hosts[OWNER].socket_count() - 1;
    let with_data = waiting(&pair);
    // As many as fit in 118 bytes for each of the requests, headers included.
    assert_eq!(with_data, MOST * 118 / 1440);
    assert!(
        held.bytes_current < 64 << 10,
        "{} bytes",
        held.bytes_current
    );
    let refused = pair.hosts[OWNER].stats().backlog_refused;
    assert_eq!(refused, (MOST - with_data) as u64);
    for packet in syns_with_data(1000, 0).take(MOST) {
        pair.inject(OWNER, &packet);
    }
    assert_eq!(waiting(&pair), MOST, "bare ones up to their number");
    // What was repeated or is answered makes room.
    pair.run_for(Duration::from_micros(1));
    let now = pair.now;
    for request in requests(&pair, 0) {
        let refused = pair.hosts[OWNER].reject(request, Rejection::Silence, now);
        refused.expect("it waits");
    }
    for packet in syns_with_data(2000, 1400).take(MOST) {
        pair.inject(OWNER, &packet);
    }
    assert_eq!(waiting(&pair), with_data, "room for as many");
}

/// The largest numbers mean no limit.
#[test]
fn requests_without_a_bound_take_any_syn() {
    let mut pair = deferred();
    pair.hosts[OWNER].set_limits(Limits {
        time_wait: usize::MAX,
        orphans: usize::MAX,
        memory: Bytes::MAX,
        requests: usize::MAX,
        request_deadline: Duration::MAX,
    });
    pair.filter = Box::new(|_, _| false);
    for packet in syns_with_data(1, 1400).take(10) {
        pair.inject(OWNER, &packet);
    }
    assert_eq!(pair.hosts[OWNER].socket_count(), 1 + 10);
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Nothing,
    /// A SYN waits for the application's decision.
    Requested,
    /// The application can read a datagram.
    Datagram,
    Reset,
    /// Type and code.
    Icmp(u8, u8),
}

/// Hands `packet` to the owner.
fn outcome(pair: &mut Pair, socket: Option<SocketId>, packet: &[u8]) -> Outcome {
    let (answers, sent) = std::sync::mpsc::channel();
    pair.filter = Box::new(move |side, packet| {
        if side == OWNER {
            // The receiver lives until the end of this function.
            let _ = answers.send(packet.to_vec());
        }
        false
    });
    let before = pair.events[OWNER].len();
    pair.inject(OWNER, packet);
    pair.run_for(Duration::from_micros(1));
    let mut outcomes: Vec<_> = sent
        .try_iter()
        .map(|answer| {
            let (protocol, body) = match answer[0] >> 4 {
                4 => (answer[9], &answer[20..]),
                _ => (answer[6], &answer[40..]),
            };
            if protocol == TCP {
                assert_ne!(u16::from(body[13]) & RST, 0, "{answer:?}");
                Outcome::Reset
            } else {
                Outcome::Icmp(body[0], body[1])
            }
        })
        .collect();
    outcomes.extend(requests(pair, before).iter().map(|_| Outcome::Requested));
    if let Some(socket) = socket {
        let received = pair.hosts[OWNER].udp().recv_from(socket, &mut [0; 2000]);
        if let Ok(UdpRecv::Datagram(_)) = received {
            outcomes.push(Outcome::Datagram);
        }
    }
    assert!(outcomes.len() <= 1, "{outcomes:?}");
    outcomes.pop().unwrap_or(Outcome::Nothing)
}

/// A segment with `flags`.
fn segment(flags: u16) -> Vec<u8> {
    let segment = Segment {
        source_port: 4000,
        destination_port: 443,
        flags,
        seq: 1,
        ack: 7,
        window: 1000,
        ..Segment::default()
    };
    segment.to_bytes()
}

/// A client and a destination of one family.
#[derive(Clone, Copy)]
struct Ends {
    here: IpAddr,
    there: IpAddr,
}

impl Ends {
    const FOUR: Self = Self {
        here: IpAddr::V4(Ipv4Addr::new(10, 7, 0, 9)),
        there: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
    };
    const SIX: Self = Self {
        here: IpAddr::V6(Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 9)),
        there: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7)),
    };

    /// The packet with `payload` from here.
    fn packet(self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        Ip::new(self.here, self.there, protocol).packet(payload)
    }

    fn echo_request(self) -> Vec<u8> {
        let (protocol, kind) = if self.here.is_ipv4() {
            (1, 8)
        } else {
            (58, 128)
        };
        self.packet(protocol, &[kind, 0, 0, 0, 0, 1, 0, 1])
    }

    /// Echo reply, port unreachable, and protocol unreachable, which in IPv6 is a parameter problem (RFC
    /// 4443 §3.4).
    fn answers(self) -> [Outcome; 3] {
        let answers = if self.here.is_ipv4() {
            [(0, 0), (3, 3), (3, 2)]
        } else {
            [(129, 0), (1, 4), (4, 1)]
        };
        answers.map(|(kind, code)| Outcome::Icmp(kind, code))
    }

    /// The SYN and the datagram from and to addresses that no host has, and from the destination itself.
    fn martians(self) -> Vec<Vec<u8>> {
        let martians: &[&str] = match self.here {
            IpAddr::V4(_) => &["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"],
            IpAddr::V6(_) => &["::", "::1", "ff02::1", "::ffff:192.0.2.1"],
        };
        let martians = martians
            .iter()
            .map(|text| text.parse().expect("an address"));
        let pairs = martians.flat_map(|ip| [(ip, self.there), (self.here, ip)]);
        let pairs = pairs.chain([(self.there, self.there)]);
        let packets = pairs.flat_map(|(from, to)| {
            PAYLOADS.map(|(protocol, payload)| Ip::new(from, to, protocol).packet(&payload()))
        });
        packets.collect()
    }

    /// The SYN and the datagram as the first and as the last fragment.
    fn fragments(self) -> Vec<Vec<u8>> {
        let kinds = [(true, 0), (false, 185)];
        let fragment = |(has_more, offset): (bool, u16), (protocol, payload): Payload| {
            if self.here.is_ipv4() {
                let mut ip = Ip::new(self.here, self.there, protocol);
                ip.fragment = u32::from(has_more) << 13 | u32::from(offset);
                return ip.packet(&payload());
            }
            let [high, low] = (offset << 3 | u16::from(has_more)).to_be_bytes();
            let header = [protocol, 0, high, low, 0, 0, 0, 7];
            self.packet(44, &[&header[..], &payload()].concat())
        };
        let both = kinds.map(|kind| PAYLOADS.map(|payload| fragment(kind, payload)));
        both.into_iter().flatten().collect()
    }

    /// The SYN and the datagram cut short anywhere, and with a wrong checksum.
    fn damaged(self) -> Vec<Vec<u8>> {
        let damaged = PAYLOADS.map(|(protocol, payload)| {
            let whole = self.packet(protocol, &payload());
            let mut changed = whole.clone();
            *changed.last_mut().expect("not empty") ^= 1;
            let cut = (0..whole.len()).map(|len| whole[..len].to_vec());
            cut.chain([changed]).collect::<Vec<_>>()
        });
        damaged.concat()
    }

    /// An ICMP error about a segment that nobody has sent.
    fn false_error(self) -> Vec<u8> {
        let quoted = Ip::new(self.there, self.here, TCP).packet(&segment(ACK));
        let (protocol, kind, code) = if self.here.is_ipv4() {
            (1, 3, 3)
        } else {
            (58, 1, 4)
        };
        self.packet(
            protocol,
            &[&[kind, code, 0, 0, 0, 0, 0, 0], &quoted[..]].concat(),
        )
    }
}

const UDP: u8 = 17;
/// A protocol and the payload of a packet.
type Payload = (u8, fn() -> Vec<u8>);
/// A SYN and a datagram.
const PAYLOADS: [Payload; 2] = [(TCP, || segment(SYN)), (UDP, datagram)];

fn datagram() -> Vec<u8> {
    [&[15, 160, 1, 187, 0, 12, 0, 0][..], b"data"].concat()
}

/// The tables of the netstack's README, for both families: with and without listeners of everything.
#[test]
fn every_kind_of_packet_has_the_documented_outcome() {
    const SCTP: u8 = 132;
    const URG: u16 = 32;
    let (mut serving, mut silent) = (deferred(), pair());
    let mut udp = serving.hosts[OWNER].udp();
    let socket = udp.bind_everywhere(UdpConfig::default());
    let socket = Some(socket.expect("the first"));
    for ends in [Ends::FOUR, Ends::SIX] {
        let tcp = |flags| ends.packet(TCP, &segment(flags));
        let [reply, port, protocol] = ends.answers();
        for (packet, served, refused) in [
            (tcp(SYN), Outcome::Requested, Outcome::Reset),
            (ends.packet(UDP, &datagram()), Outcome::Datagram, port),
            (tcp(ACK), Outcome::Reset, Outcome::Reset),
            (tcp(SYN | ACK), Outcome::Reset, Outcome::Reset),
            (tcp(FIN), Outcome::Nothing, Outcome::Reset),
            (tcp(FIN | PSH | URG), Outcome::Nothing, Outcome::Reset),
            (tcp(0), Outcome::Nothing, Outcome::Reset),
            (tcp(RST), Outcome::Nothing, Outcome::Nothing),
            (ends.echo_request(), reply, reply),
            (ends.packet(SCTP, &[0; 12]), protocol, protocol),
        ] {
            assert_eq!(outcome(&mut serving, socket, &packet), served, "{packet:?}");
            assert_eq!(outcome(&mut silent, None, &packet), refused, "{packet:?}");
        }
    }
    // A SYN of each family waits.
    let held = serving.hosts[OWNER].socket_count();
    assert_eq!((held, serving.hosts[OWNER].buffer_memory()), (4, 0));
}

#[test]
fn what_cannot_be_meant_is_dropped_and_counted() {
    let mut pair = deferred();
    let socket = pair.hosts[OWNER]
        .udp()
        .bind_everywhere(UdpConfig::default());
    let socket = Some(socket.expect("the first"));
    for ends in [Ends::FOUR, Ends::SIX] {
        let before = pair.hosts[OWNER].stats().refused();
        let packets = [
            ends.martians(),
            ends.fragments(),
            ends.damaged(),
            vec![ends.false_error()],
        ];
        let packets = packets.concat();
        for packet in &packets {
            assert_eq!(
                outcome(&mut pair, socket, packet),
                Outcome::Nothing,
                "{packet:?}"
            );
        }
        let refused = pair.hosts[OWNER].stats().refused() - before;
        assert_eq!(refused, packets.len() as u64, "each is counted");
    }
    assert_eq!(pair.hosts[OWNER].socket_count(), 2, "the listeners");
}
