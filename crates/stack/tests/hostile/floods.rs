//! SYNs and acknowledgments without end (RFC 4987): memory stays bounded, the
//! host answers little, and others still connect.

use std::net::Ipv4Addr;
use std::time::Duration;

use tautline_base::{Bytes, HeapFrame, Instant, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{
    Cidr, EcnMode, EcnState, Event, Host, HostConfig, NoTrace, Recv, SynCookies, TcpConfig,
};

use crate::pair::{PORT, address};
use crate::peer::*;

const BACKLOG: usize = 8;

fn small() -> TcpConfig {
    TcpConfig {
        backlog: BACKLOG,
        ..TcpConfig::default()
    }
}

/// A SYN from `port` of the peer.
fn syn(peer: &Peer, port: u16, options: Vec<u8>) -> Segment {
    Segment {
        source_port: port,
        flags: SYN,
        seq: ISN,
        ack: 0,
        options,
        ..peer.ack()
    }
}

/// A host whose backlog is full of half-open connections that will stay.
fn full(config: TcpConfig) -> Peer {
    let mut peer = Peer::stranger(config);
    for port in 0..BACKLOG as u16 {
        peer.send(&syn(&peer, 1000 + port, Vec::new()));
    }
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1 + BACKLOG);
    peer
}

/// The host's answer to a SYN from [`PEER_PORT`]: a cookie, and the peer is ready to bring it back.
fn cookie(peer: &mut Peer, options: Vec<u8>) -> Segment {
    let syn = syn(peer, PEER_PORT, options);
    let answers = peer.send(&syn);
    let answers: Vec<_> = answers
        .into_iter()
        .filter(|answer| answer.destination_port == PEER_PORT)
        .collect();
    let [answer] = &answers[..] else {
        panic!("one SYN-ACK, not {answers:?}")
    };
    assert_eq!(
        (answer.flags & (SYN | ACK), answer.ack),
        (SYN | ACK, ISN.wrapping_add(1))
    );
    peer.host_isn = answer.seq;
    answer.clone()
}

fn echo_of(answer: &Segment) -> u32 {
    answer
        .option(8)
        .map(|v| u32::from_be_bytes([v[0], v[1], v[2], v[3]]))
        .expect("timestamps")
}

#[test]
fn a_flood_takes_no_memory_and_gets_an_answer_each_at_most() {
    let mut peer = Peer::stranger(small());
    let mut answers = 0;
    const FLOOD: u32 = 30_000;
    for number in 0..FLOOD {
        let [a, b] = (number as u16).to_be_bytes();
        let segment = syn(&peer, number as u16 | 1, mss(1460));
        // A third of them from ports of one neighbor, the rest from addresses that may not exist.
        let frame = match number % 3 {
            0 => segment.to_frame(),
            _ => from_address(Ipv4Addr::new(10, 7, a | 2, b | 4), &segment),
        };
        peer.pair.inject(HOST, &frame);
        if number % 64 == 0 {
            answers += peer.run_for(Duration::from_micros(100)).len();
            assert!(
                peer.pair.hosts[HOST].socket_count() <= 1 + BACKLOG,
                "half-open connections are bounded"
            );
        }
    }
    assert!(answers as u32 <= FLOOD + FLOOD / 10, "{answers} answers");
    // Somebody honest comes in the middle of it.
    cookie(&mut peer, mss(1000));
    peer.send(&peer.ack());
    peer.socket = peer.accepted().expect("the cookie came back");
    peer.still_works_at(0);
    let stats = peer.pair.hosts[HOST].stats();
    assert!(
        stats.cookies_sent > 9_000 && stats.cookies_redeemed == 1,
        "{stats:?}"
    );
    // The rest is forgotten in the end.
    peer.run_for(Duration::from_secs(200));
    assert_eq!(
        peer.pair.hosts[HOST].socket_count(),
        2,
        "listener and connection"
    );
}

#[test]
fn without_cookies_a_full_backlog_is_silent() {
    let mut peer = full(TcpConfig {
        syn_cookies: SynCookies::Never,
        ..small()
    });
    let syn = syn(&peer, PEER_PORT, mss(1000));
    assert_eq!(peer.send(&syn), []);
    assert_eq!(peer.pair.hosts[HOST].stats().backlog_full, 1);
}

/// Window scale, SACK and ECN travel in the timestamp, and are used.
#[test]
fn a_cookie_keeps_the_options_of_a_peer_with_timestamps() {
    let config = TcpConfig {
        nagle: false,
        ..small()
    };
    for (shift, sacks, ecn) in [
        (Some(7), true, true),
        (Some(0), false, false),
        (None, true, false),
        (Some(14), true, true),
    ] {
        let mut peer = full(config.clone());
        let mut options = [mss(1440), timestamp(77, 0)].concat();
        options.extend(shift.map(scale).unwrap_or_default());
        options.extend(if sacks { sack_permitted() } else { Vec::new() });
        let asks = if ecn { ECE | CWR } else { 0 };
        let segment = Segment {
            flags: SYN | asks,
            ..syn(&peer, PEER_PORT, options)
        };
        let answers = peer.send(&segment);
        let answer = answers
            .iter()
            .find(|answer| answer.destination_port == PEER_PORT)
            .expect("a cookie")
            .clone();
        assert_eq!(answer.option(3).is_some(), shift.is_some());
        assert_eq!(answer.option(4).is_some(), sacks);
        assert_eq!(answer.flags & ECE != 0, ecn);
        peer.host_isn = answer.seq;
        peer.send(&Segment {
            options: timestamp(78, echo_of(&answer)),
            window: 500,
            ..peer.ack()
        });
        peer.socket = peer.accepted().expect("open");
        let info = peer.info();
        assert_eq!(info.mss, Bytes::new(1440 - 12));
        assert_eq!(
            info.peer_window,
            Bytes::new(500 << shift.unwrap_or(0)),
            "{shift:?}"
        );
        assert_eq!(
            info.ecn,
            if ecn {
                EcnState::Classic
            } else {
                EcnState::Off
            }
        );
        // Its clock goes on from where the cookie's stood.
        let sent = peer.host_writes(100);
        assert!(echo_of(&sent[0]).wrapping_sub(echo_of(&answer)) < 1_000);
        // SACK blocks are sent, or not.
        let far = Segment {
            options: timestamp(79, 0),
            ..peer.data(50, b"far")
        };
        let answers = peer.send(&far);
        assert_eq!(answers[0].option(5).is_some(), sacks);
    }
}

#[test]
fn a_cookie_for_a_peer_without_timestamps_remembers_its_segment_size_alone() {
    for (named, used) in [
        (None, 536),
        (Some(536), 536),
        (Some(1400), 1300),
        (Some(1460), 1460),
        (Some(9000), 1460),
    ] {
        let mut peer = full(small());
        let options = [named.map_or(Vec::new(), mss), scale(7), sack_permitted()].concat();
        let answer = cookie(&mut peer, options);
        assert!(
            answer.option(3).is_none() && answer.option(4).is_none() && answer.option(8).is_none(),
            "{answer:?}"
        );
        peer.send(&peer.ack());
        peer.socket = peer.accepted().expect("open");
        assert_eq!(peer.info().mss, Bytes::new(used), "MSS {named:?}");
        assert_eq!(
            peer.info().peer_window,
            Bytes::new(u64::from(WINDOW)),
            "no scale"
        );
        peer.still_works_at(0);
    }
}

/// The acknowledgment may be lost: the first data brings the cookie as well.
#[test]
fn data_redeems_a_cookie() {
    let mut peer = full(small());
    cookie(&mut peer, mss(1000));
    let answers = peer.send(&peer.data(0, b"hello"));
    assert_eq!(answers.last().map(|answer| answer.ack), Some(peer.at(5)));
    peer.socket = peer.accepted().expect("open");
    assert_eq!(peer.host_reads(), (b"hello".to_vec(), Recv::Empty));
}

#[test]
fn guessed_cookies_are_refused_at_constant_cost() {
    let mut peer = full(small());
    let real = cookie(&mut peer, mss(1000)).seq;
    for guess in 1..20_000u32 {
        let ack = real
            .wrapping_add(1)
            .wrapping_add(guess.wrapping_mul(2_654_435_761));
        peer.pair
            .inject(HOST, &Segment { ack, ..peer.ack() }.to_frame());
        if guess % 64 == 0 {
            peer.run_for(Duration::from_micros(10));
        }
    }
    assert_eq!(
        (
            peer.accepted(),
            peer.pair.hosts[HOST].stats().cookies_redeemed
        ),
        (None, 0)
    );
    // The limit on resets recovers.
    peer.run_for(Duration::from_millis(100));
    let strays = peer.pair.hosts[HOST].stats().no_socket;
    assert!(strays > 10_000, "they belong to no connection: {strays}");
    // Another port, or another number of the peer's, does not fit the cookie either.
    for wrong in [
        Segment {
            source_port: 9,
            ..peer.ack()
        },
        Segment {
            seq: peer.at(1),
            ..peer.ack()
        },
    ] {
        assert_eq!(
            peer.send(&wrong)
                .iter()
                .map(|answer| answer.flags)
                .collect::<Vec<_>>(),
            [RST]
        );
    }
    peer.send(&peer.ack());
    assert!(peer.accepted().is_some(), "the real one still counts");
}

#[test]
fn a_cookie_is_stale_after_two_minutes() {
    for (wait, opens) in [(1, true), (59, true), (121, false), (500, false)] {
        let mut peer = full(small());
        cookie(&mut peer, mss(1000));
        peer.run_for(Duration::from_secs(wait));
        peer.send(&peer.ack());
        assert_eq!(peer.accepted().is_some(), opens, "after {wait} s");
    }
}

/// A cookie that comes back twice finds its connection; after that has ended, a cookie of its time
/// must not open it repeatedly.
#[test]
fn a_cookie_that_comes_twice_opens_one_connection() {
    let mut peer = full(small());
    cookie(&mut peer, mss(1000));
    for _ in 0..5 {
        peer.send(&peer.ack());
    }
    let accepted = peer.pair.events[HOST]
        .iter()
        .filter(|event| matches!(event, Event::Accepted { .. }))
        .count();
    assert_eq!(accepted, 1);
}

#[test]
fn every_connection_can_be_a_cookies() {
    let config = TcpConfig {
        syn_cookies: SynCookies::Always,
        ecn: EcnMode::AccEcn,
        ..TcpConfig::default()
    };
    let mut peer = Peer::connected(config, [mss(1300), sack_permitted()].concat());
    assert_eq!(peer.pair.hosts[HOST].stats().cookies_redeemed, 1);
    peer.still_works_at(0);
    assert_eq!(peer.host_writes(5_200).len(), 4);
}

/// An application that does not take its connections: SYNs and last acknowledgments wait, and
/// nothing is lost.
#[test]
fn a_full_accept_queue_lets_handshakes_wait() {
    let mut peer = Peer::stranger(TcpConfig {
        accept_queue: 3,
        ..TcpConfig::default()
    });
    peer.pair.deaf[HOST] = true;
    for port in 1..=6 {
        let answers = peer.send(&syn(&peer, port, mss(1000)));
        let Some(answer) = answers
            .iter()
            .find(|answer| answer.destination_port == port)
        else {
            assert!(port > 3, "port {port} found no answer");
            continue;
        };
        assert!(port <= 3, "port {port} is one too many");
        let ack = Segment {
            source_port: port,
            ack: answer.seq.wrapping_add(1),
            ..peer.ack()
        };
        peer.send(&ack);
    }
    assert_eq!(peer.pair.hosts[HOST].stats().accept_queue_full, 3);
    // Half open when the queue fills: its acknowledgment is ignored, not refused.
    let mut peer = Peer::stranger(TcpConfig {
        accept_queue: 1,
        ..TcpConfig::default()
    });
    peer.pair.deaf[HOST] = true;
    let acks = [1, 2].map(|port| {
        let answers = peer.send(&syn(&peer, port, mss(1000)));
        let answer = answers
            .iter()
            .find(|answer| answer.destination_port == port)
            .expect("a SYN-ACK");
        Segment {
            source_port: port,
            ack: answer.seq.wrapping_add(1),
            ..peer.ack()
        }
    });
    for ack in &acks {
        assert_eq!(peer.send(ack), []);
    }
    // The application wakes up; the SYN-ACK comes again and is acknowledged again.
    peer.pair.deaf[HOST] = false;
    let again = peer.run_for(Duration::from_secs(2));
    assert!(
        again
            .iter()
            .any(|segment| segment.flags == SYN | ACK && segment.destination_port == 2),
        "{again:?}"
    );
    peer.send(&acks[1]);
    let accepted = peer.pair.events[HOST]
        .iter()
        .filter(|event| matches!(event, Event::Accepted { .. }))
        .count();
    assert_eq!(accepted, 2);
}

#[test]
fn one_peer_gets_no_more_than_its_share() {
    let mut peer = Peer::stranger(TcpConfig {
        per_peer: Some(3),
        ..TcpConfig::default()
    });
    for port in 1..=10 {
        peer.send(&syn(&peer, port, mss(1000)));
    }
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1 + 3);
    assert_eq!(peer.pair.hosts[HOST].stats().too_many_of_peer, 7);
    // Another address has its own.
    let other = from_address(Ipv4Addr::new(10, 7, 0, 99), &syn(&peer, 1, mss(1000)));
    peer.send_frame(&other);
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1 + 4);
    // What has ended makes room.
    peer.send(&Segment {
        flags: RST,
        source_port: 1,
        ..peer.ack()
    });
    peer.send(&syn(&peer, 20, mss(1000)));
    assert_eq!(peer.pair.hosts[HOST].socket_count(), 1 + 4);
    assert_eq!(peer.pair.hosts[HOST].stats().too_many_of_peer, 7);
}

/// One SYN is worth one SYN-ACK and five more over a minute: no amplifier.
#[test]
fn a_syn_is_answered_six_times_at_most() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let first = peer.send(&syn(&peer, PEER_PORT, mss(1000))).len();
    let again = peer.run_for(Duration::from_secs(1_000)).len();
    assert_eq!((first, again), (1, 5));
    // A cookie is answered once.
    let mut peer = Peer::stranger(TcpConfig {
        syn_cookies: SynCookies::Always,
        ..TcpConfig::default()
    });
    let first = peer.send(&syn(&peer, PEER_PORT, mss(1000))).len();
    assert_eq!(
        (first, peer.run_for(Duration::from_secs(1_000)).len()),
        (1, 0)
    );
}

/// A flood for a closed port is not reflected (16.15).
#[test]
fn a_flood_for_a_closed_port_draws_a_bounded_number_of_resets_16_15() {
    let mut peer = Peer::stranger(TcpConfig::default());
    let mut resets = 0;
    for port in 0..1000 {
        let stray = Segment {
            destination_port: 9,
            ..syn(&peer, 1000 + port, Vec::new())
        };
        peer.pair.inject(HOST, &stray.to_frame());
        resets += peer.run_for(Duration::from_micros(10)).len();
    }
    resets += peer.run_for(Duration::from_millis(9)).len();
    let limited = peer.pair.hosts[HOST].stats().resets_limited;
    assert_eq!(resets as u64 + limited, 1000);
    assert!(resets <= 100, "{resets} resets");
}

/// A flood that comes faster than answers leave: no standing queue of cookies, and peers that have
/// completed a handshake are answered all the same.
#[test]
fn a_flood_faster_than_the_line_is_shed_but_for_proven_peers() {
    const BURST: u64 = 5000;
    let mut peer = full(small());
    let flood = |peer: &mut Peer, from: u64| {
        let before = peer.pair.hosts[HOST].stats();
        for number in from..from + BURST {
            let source = Ipv4Addr::new(10, 7, 0, 100 + (number % 100) as u8);
            let segment = syn(peer, 2000 + number as u16, mss(1460));
            let frame = from_address(source, &segment);
            peer.pair.inject(HOST, &frame);
        }
        let after = peer.pair.hosts[HOST].stats();
        let [sent, shed] = [
            after.cookies_sent - before.cookies_sent,
            after.syns_shed - before.syns_shed,
        ];
        assert_eq!(sent + shed, BURST);
        // Half of the frames.
        assert!((240..=256).contains(&sent), "{sent} cookies wait to leave");
    };
    let honest = |peer: &mut Peer| {
        let before = peer.pair.hosts[HOST].stats().cookies_sent;
        let frame = syn(peer, PEER_PORT, mss(1460)).to_frame();
        peer.pair.inject(HOST, &frame);
        peer.pair.hosts[HOST].stats().cookies_sent - before
    };
    flood(&mut peer, 0);
    assert_eq!(honest(&mut peer), 0, "a stranger among strangers");
    peer.run_for(Duration::from_secs(1));
    cookie(&mut peer, mss(1460));
    peer.send(&peer.ack());
    peer.socket = peer.accepted().expect("the cookie came back");
    flood(&mut peer, BURST);
    let syn = syn(&peer, PEER_PORT + 1, mss(1460)).to_frame();
    let before = peer.pair.hosts[HOST].stats().cookies_sent;
    for _ in 0..1000 {
        peer.pair.inject(HOST, &syn);
    }
    let answered = peer.pair.hosts[HOST].stats().cookies_sent - before;
    assert!(
        (100..=128).contains(&answered),
        "{answered}: a quarter of the frames"
    );
    let stats = peer.pair.hosts[HOST].stats();
    assert_eq!(stats.refused() + stats.accepted(), stats.frames_in);
    peer.still_works_at(0);
}

/// A reset is of its segment's flow, so it follows what that has queued; the cookies of a flood are one
/// flow together, so fair queueing gives it the turn of one.
#[test]
fn resets_are_of_their_flows_and_all_cookies_of_one() {
    const SEGMENTS: u16 = 20;
    let config = fq_codel::Config {
        perturbation: Some(0),
        ..fq_codel::Config::default()
    };
    let qdisc = FqCodel::new(config).expect("valid");
    let port = Port::new(qdisc, Ring::new(MemoryDevice::default(), Dql::default()));
    let pool = Pool::new((0..256).map(|_| HeapFrame::new()).collect());
    let config = HostConfig::new(mac(HOST), 1).address(Cidr::new(address(HOST), 24));
    let mut host = Host::new(config, port, pool, NoTrace);
    let listening = TcpConfig {
        syn_cookies: SynCookies::Always,
        ..TcpConfig::default()
    };
    host.listen(PORT, listening).expect("the port is free");
    let mut flows = |flags, destination_port| {
        let count = |host: &Host<FqCodel<_>, _>| host.port().qdisc().queues().new_flow_count;
        let before = count(&host);
        for source_port in 1000..1000 + SEGMENTS {
            let segment = Segment {
                source_port,
                destination_port,
                flags,
                ..Segment::default()
            };
            host.deliver(&segment.to_frame(), Instant::from_secs(1));
        }
        assert_eq!(host.outstanding(), usize::from(SEGMENTS), "an answer each");
        let flows = count(&host) - before;
        while host.outstanding() > 0 {
            let _ = host.poll(Instant::from_secs(1));
        }
        flows
    };
    assert_eq!(flows(ACK, PORT + 1), u64::from(SEGMENTS));
    assert_eq!(flows(SYN, PORT), 1);
}

/// A window that was offered is not taken back: the cookie offers what the connection begins with.
#[test]
fn a_cookie_offers_the_window_that_its_connection_has() {
    for syn_cookies in [SynCookies::Never, SynCookies::Always] {
        let config = TcpConfig {
            syn_cookies,
            receive_start: Bytes::kib(4),
            ..TcpConfig::default()
        };
        let mut peer = Peer::stranger(config);
        let answers = peer.send(&syn(&peer, PEER_PORT, mss(1000)));
        let [answer] = &answers[..] else {
            panic!("one SYN-ACK, not {answers:?}")
        };
        peer.host_isn = answer.seq;
        let window = usize::from(answer.window);
        peer.send(&peer.ack());
        peer.socket = peer.accepted().expect("the handshake is complete");
        for at in (0..window).step_by(1000) {
            peer.send(&peer.data(at as u32, &vec![7; 1000.min(window - at)]));
        }
        assert_eq!(peer.host_reads().0.len(), window, "{syn_cookies:?}");
    }
}
