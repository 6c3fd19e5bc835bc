//! How long a packet the path carries: told by routers (RFC 1191, RFC 8201), or found out (RFC
//! 4821).

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tautline_base::{Bytes, SocketId};
use tautline_stack::{Event, MtuProbing, PathError, TcpConfig, TcpInfo, UdpConfig, UdpRecv};

use crate::connect_to;
use crate::frames::{packet_len, payload_len, too_big};
use crate::pair::{PORT, Pair, address, address_v6};

/// A connection through a link of less than the hosts' own MTU, and what becomes of what is longer.
struct Narrow {
    pair: Pair,
    client: SocketId,
    server: SocketId,
    /// Longest packet the link carries.
    mtu: Rc<Cell<usize>>,
    /// Frames of side 0 that were too long, in order.
    lost: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Narrow {
    fn new(to: IpAddr, mtu_probing: MtuProbing) -> Self {
        let config = TcpConfig {
            mtu_probing,
            ..TcpConfig::default()
        };
        let mut pair = Pair::new(7);
        pair.hosts[1]
            .listen(PORT, config.clone())
            .expect("the port is free");
        let (client, server) = connect_to(&mut pair, to, config);
        let (mtu, lost) = (
            Rc::new(Cell::new(usize::MAX)),
            Rc::new(RefCell::new(Vec::new())),
        );
        let (limit, keep) = (mtu.clone(), lost.clone());
        pair.filter = Box::new(move |side, frame| {
            let passes = packet_len(frame) <= limit.get();
            if !passes && side == 0 {
                keep.borrow_mut().push(frame.to_vec());
            }
            passes
        });
        Self {
            pair,
            client,
            server,
            mtu,
            lost,
        }
    }

    fn info(&self) -> TcpInfo {
        self.pair.hosts[0].info(self.client).expect("open")
    }

    /// Transfers while a router says of every packet that was too long that its link carries
    /// `says`.
    fn transfer(&mut self, data: &[u8], says: Option<(IpAddr, u32)>, limit: Duration) -> Vec<u8> {
        let (mut sent, mut received) = (0, Vec::new());
        let end = self.pair.now + limit;
        while received.len() < data.len() && self.pair.now < end {
            sent += self.pair.hosts[0]
                .send(self.client, &data[sent..])
                .expect("open");
            self.pair.run_for(Duration::from_millis(1));
            for frame in self.lost.take() {
                if let Some((router, mtu)) = says {
                    self.pair.inject(0, &too_big(&frame, router, mtu));
                }
                self.lost.borrow_mut().clear();
            }
            received.extend(self.pair.read(1, self.server).0);
        }
        received
    }
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 3 % 251) as u8).collect()
}

const ROUTERS: [&str; 2] = ["10.7.0.2", "fd07::fe"];

fn both() -> [(IpAddr, IpAddr); 2] {
    [
        (address(1).into(), ROUTERS[0].parse().expect("an address")),
        (
            address_v6(1).into(),
            ROUTERS[1].parse().expect("an address"),
        ),
    ]
}

#[test]
fn a_router_that_tells_costs_neither_a_timeout_nor_the_window() {
    for (to, router) in both() {
        let mut path = Narrow::new(to, MtuProbing::Off);
        path.mtu.set(1300);
        let data = data(300_000);
        assert!(path.transfer(&data, Some((router, 1300)), Duration::from_secs(20)) == data);
        let info = path.info();
        assert_eq!(
            (info.path_mtu, info.timeouts, info.ce_reductions),
            (Bytes::new(1300), 0, 0),
            "{info:?}"
        );
        let headers = if to.is_ipv4() { 40 } else { 60 };
        assert_eq!(info.mss, Bytes::new(1300 - headers - 12));
        // The window was never cut: slow start went on.
        assert_eq!(info.ssthresh, Bytes::MAX);
    }
}

/// RFC 1191 §3: a link may carry as little as a serial line does, and a router from before that RFC
/// names no size (§5). RFC 8201 §4: no link of IPv6 carries less than 1280 bytes.
#[test]
fn a_path_of_little_is_used_if_the_family_allows_it() {
    let [v4, v6] = both();
    for ((to, router), carries, says, arrives) in [
        (v4, 400, 400, true),
        (v4, 296, 296, true),
        (v4, 1006, 0, true),
        (v4, 300, 0, true),
        (v6, 1280, 1280, true),
        (v6, 1000, 1000, false),
    ] {
        let mut path = Narrow::new(to, MtuProbing::Off);
        path.mtu.set(carries);
        let data = data(20_000);
        let received = path.transfer(&data, Some((router, says)), Duration::from_secs(20));
        assert_eq!(received == data, arrives, "{carries} to {to}");
        assert!(!arrives || path.info().timeouts == 0, "{:?}", path.info());
    }
}

/// RFC 1191 §6.3, RFC 8201 §4: a report is believed for ten minutes, whether or not the path widens.
#[test]
fn what_a_router_told_is_tried_again_after_ten_minutes() {
    for widens in [true, false] {
        for (to, router) in both() {
            let mut path = Narrow::new(to, MtuProbing::Off);
            path.mtu.set(1300);
            let says = Some((router, 1300));
            let data = data(50_000);
            let limit = Duration::from_secs(20);
            assert!(path.transfer(&data, says, limit) == data);
            path.pair.run_for(Duration::from_secs(500));
            assert!(path.transfer(&data, says, limit) == data);
            assert_eq!(path.info().path_mtu, Bytes::new(1300), "it is fresh");
            if widens {
                path.mtu.set(usize::MAX);
            }
            path.pair.run_for(Duration::from_secs(101));
            assert!(path.transfer(&data, says, limit) == data);
            let info = path.info();
            let carries = if widens { 1500 } else { 1300 };
            assert_eq!((info.path_mtu, info.timeouts), (Bytes::new(carries), 0));
        }
    }
}

#[test]
fn without_a_word_and_without_probing_long_packets_vanish_for_ever() {
    let mut path = Narrow::new(address(1).into(), MtuProbing::Off);
    path.mtu.set(1300);
    let data = data(100_000);
    assert!(path.transfer(&data, None, Duration::from_secs(60)).len() < data.len());
}

#[test]
fn a_black_hole_is_found_out_by_timeouts_and_its_edge_by_probes() {
    for (to, _) in both() {
        let mut path = Narrow::new(to, MtuProbing::BlackHole);
        path.mtu.set(1300);
        let data = data(3_000_000);
        let received = path.transfer(&data, None, Duration::from_secs(120));
        assert!(received == data, "{} {:?}", received.len(), path.info());
        let info = path.info();
        assert!((1300 - 8..=1300).contains(&info.path_mtu.get()), "{info:?}");
        assert!(info.timeouts <= 4, "{info:?}");
    }
}

#[test]
fn from_the_beginning_the_search_needs_no_timeout() {
    let mut path = Narrow::new(address(1).into(), MtuProbing::Always);
    path.mtu.set(1400);
    let data = data(3_000_000);
    assert!(path.transfer(&data, None, Duration::from_secs(60)) == data);
    let info = path.info();
    assert!((1400 - 8..=1400).contains(&info.path_mtu.get()), "{info:?}");
    // A probe that is lost is no congestion: nothing was cut, and slow start goes on.
    assert_eq!((info.timeouts, info.ssthresh), (0, Bytes::MAX), "{info:?}");
}

#[test]
fn the_search_begins_low() {
    let mut path = Narrow::new(address(1).into(), MtuProbing::Always);
    let longest: Rc<Cell<usize>> = Rc::default();
    let keep = longest.clone();
    path.pair.filter = Box::new(move |side, frame| {
        if side == 0 {
            keep.set(keep.get().max(payload_len(frame).unwrap_or(0)));
        }
        true
    });
    assert_eq!(
        path.transfer(&data(5_000), None, Duration::from_secs(5))
            .len(),
        5_000
    );
    assert_eq!(longest.get(), 1024);
}

#[test]
fn a_path_that_widens_is_noticed_after_ten_minutes() {
    let mut path = Narrow::new(address(1).into(), MtuProbing::Always);
    path.mtu.set(1300);
    let data = data(3_000_000);
    assert!(path.transfer(&data, None, Duration::from_secs(60)) == data);
    let before = path.info().path_mtu.get();
    path.mtu.set(usize::MAX);
    assert!(path.transfer(&data, None, Duration::from_secs(60)) == data);
    assert_eq!(path.info().path_mtu.get(), before);
    path.pair.run_for(Duration::from_secs(601));
    assert!(path.transfer(&data, None, Duration::from_secs(60)) == data);
    assert!(
        path.info().path_mtu.get() > before + 150,
        "{:?}",
        path.info()
    );
}

#[test]
fn the_text_of_the_error_says_how_much_may_be_sent() {
    let text = |mtu| PathError::TooBig { mtu }.to_string();
    assert!(text(Some(1300)).contains("at most 1300 bytes"));
    assert!(text(None).ends_with("send less at a time"));
}

/// Datagrams and echo requests are not cut to what the path carries: their sender has to be told how
/// much that is.
#[test]
fn what_was_too_long_fails_with_the_mtu_that_the_router_names() {
    for (to, router) in both() {
        // An IPv4 router that names no MTU, and MTUs that no link has.
        let least = if to.is_ipv4() { 67 } else { 1279 };
        let unknown = if to.is_ipv4() { 0 } else { 1280 };
        let named = (unknown > 0).then_some(1280);
        for (says, believed) in [
            (1300, Some(Some(1300))),
            (unknown, Some(named)),
            (least, None),
        ] {
            let mut pair = Pair::new(7);
            let lost: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
            let keep = lost.clone();
            pair.filter = Box::new(move |_, frame| {
                let passes = packet_len(frame) <= 1300;
                if !passes {
                    keep.borrow_mut().push(frame.to_vec());
                }
                passes
            });
            let any: SocketAddr = "[::]:0".parse().expect("an address");
            let mut udp = pair.hosts[0].udp();
            let socket = udp.bind(any, UdpConfig::default()).expect("free");
            let remote = SocketAddr::new(to, 9);
            udp.connect(socket, remote).expect("a good address");
            udp.send_to(socket, &[0; 1400], None).expect("taken");
            let ping = pair.hosts[0].ping(to, (1, 1), &[0; 1400], pair.now);
            ping.expect("a good address");
            pair.run_for(Duration::from_millis(40));
            for frame in lost.take() {
                pair.inject(0, &too_big(&frame, router, says));
            }
            let error = believed.map(|mtu| PathError::TooBig { mtu });
            let received = pair.hosts[0].udp().recv_from(socket, &mut [0; 10]);
            assert_eq!(received, Ok(error.map_or(UdpRecv::Empty, UdpRecv::Failed)));
            pair.run_for(Duration::from_millis(1));
            let failed = pair.events[0].iter().find_map(|event| match event {
                Event::PingFailed { why, .. } => Some(*why),
                _ => None,
            });
            assert_eq!(failed, error);
        }
    }
}
