//! Echo requests of ours (RFC 792, RFC 4443 §4.1).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tautline_stack::{Event, PathError, PingError, UdpConfig};

use crate::pair::{Pair, address, address_v6};

#[test]
fn both_families_answer_a_ping_in_a_round_trip() {
    let mut pair = Pair::new(7);
    for to in [IpAddr::V4(address(1)), address_v6(1).into()] {
        // The first waits for the hardware address.
        for sequence in 0..2 {
            pair.hosts[0]
                .ping(to, (9, sequence), b"data", pair.now)
                .expect("the address is good");
            pair.run_for(Duration::from_millis(50));
            let Some(Event::Pong {
                from,
                identifier: 9,
                sequence: number,
                rtt,
            }) = pair.events[0].pop()
            else {
                panic!()
            };
            assert_eq!((from, number), (to, sequence));
            assert!(
                rtt > Duration::from_millis(1) && rtt < Duration::from_millis(25),
                "{rtt:?}"
            );
        }
    }
}

#[test]
fn nobody_there_is_told_after_three_questions() {
    let mut pair = Pair::new(7);
    for (sequence, to) in ["10.7.0.99", "fd07::99"].iter().enumerate() {
        let to: IpAddr = to.parse().expect("an address");
        pair.hosts[0]
            .ping(to, (1, sequence as u16), &[], pair.now)
            .expect("the address is good");
    }
    pair.run_for(Duration::from_secs(4));
    let failed: Vec<_> = pair.events[0]
        .iter()
        .map(|event| {
            matches!(
                event,
                Event::PingFailed {
                    why: PathError::HostUnreachable,
                    ..
                }
            )
        })
        .collect();
    assert_eq!(failed, [true, true], "{:?}", pair.events[0]);
}

#[test]
fn a_bad_ping_is_refused_in_words() {
    let mut pair = Pair::new(7);
    let mut ping = |to: &str, len: usize| {
        pair.hosts[0].ping(
            to.parse::<IpAddr>().expect("an address"),
            (1, 1),
            &vec![0; len],
            pair.now,
        )
    };
    assert_eq!(
        ping("10.7.0.1", 0),
        Err(PingError::BadAddress(
            "10.7.0.1".parse().expect("an address")
        ))
    );
    assert_eq!(
        ping("8.8.8.8", 0),
        Err(PingError::NoRoute("8.8.8.8".parse().expect("an address")))
    );
    assert_eq!(ping("10.7.0.2", 70_000), Err(PingError::TooLong(70_000)));
    assert_eq!(ping("fd07::2", 8), Ok(()));
}

/// While too many neighbors are asked for, an echo request waits for its turn; it is answered in the end.
#[test]
fn a_ping_among_many_that_nobody_answers_is_sent_in_the_end() {
    let mut pair = Pair::new(7);
    let here = SocketAddr::new(address_v6(0).into(), 9);
    let socket = pair.hosts[0].udp().bind(here, UdpConfig::default());
    let socket = socket.expect("the port is free");
    for absent in 0..600u16 {
        let to = Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 1, absent);
        let to = Some(SocketAddr::new(to.into(), 9));
        let mut udp = pair.hosts[0].udp();
        udp.send_to(socket, b"", to).expect("it fits");
        let _ = pair.hosts[0].poll(pair.now);
    }
    pair.hosts[0]
        .ping(address_v6(1), (9, 1), b"data", pair.now)
        .expect("the address is good");
    pair.run_for(Duration::from_secs(10));
    let answered = |event: &Event| matches!(event, Event::Pong { .. });
    assert!(pair.events[0].iter().any(answered), "{:?}", pair.events[0]);
}
