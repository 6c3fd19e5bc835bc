//! Replacing a host's qdisc: queued packets are neither dropped, reordered, nor reported as
//! dropped.

use std::net::{Ipv4Addr, SocketAddr};

use tautline_base::{HeapFrame, Instant, Packet, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace, Replaced, UdpConfig};
use tautline_tc::{DynQdisc, build};

use tautline_testkit::MemoryDevice;

type Any = Box<dyn DynQdisc<Packet<HeapFrame>>>;

fn qdisc(words: &str) -> Any {
    build(words).expect("good words")
}

/// A host with `count` broadcasts queued in its qdisc, the number of each in its last byte.
fn waiting(words: &str, count: u8) -> (Host<Any, MemoryDevice>, Instant) {
    let config =
        HostConfig::new([2, 0, 0, 0, 0, 1], 1).address(Cidr::new(Ipv4Addr::new(10, 7, 0, 1), 24));
    let port = Port::new(
        qdisc(words),
        Ring::new(MemoryDevice::default(), Dql::default()),
    );
    let mut host = Host::new(
        config,
        port,
        Pool::new((0..256).map(|_| HeapFrame::new()).collect()),
        NoTrace,
    );
    let udp = UdpConfig {
        broadcast: true,
        ..UdpConfig::default()
    };
    let socket = host
        .udp()
        .bind("0.0.0.0:9".parse::<SocketAddr>().expect("an address"), udp)
        .expect("free");
    let now = Instant::from_secs(100);
    host.device_mut().ring = 0;
    for number in 0..count {
        let data = [vec![0; 900], vec![number]].concat();
        host.udp()
            .send_to(
                socket,
                &data,
                Some("10.7.0.255:9".parse().expect("an address")),
            )
            .expect("taken");
    }
    let _ = host.poll(now);
    let _ = host.poll(now);
    assert_eq!(host.port().backlog().packets, usize::from(count));
    (host, now)
}

/// The numbers of what the device sends from now on.
fn sent(host: &mut Host<Any, MemoryDevice>, mut now: Instant) -> Vec<u8> {
    host.device_mut().ring = 64;
    for _ in 0..10_000 {
        match host.poll(now) {
            Some(wake) => now = now.max(wake.at),
            None => break,
        }
    }
    assert_eq!(host.outstanding(), 0);
    host.device_mut()
        .sent
        .iter()
        .map(|frame| *frame.last().expect("not empty"))
        .collect()
}

#[test]
fn what_waits_moves_over_in_order() {
    let kinds = [
        "pfifo",
        "fq_codel",
        "fq",
        "cake bandwidth 1mbit",
        "tbf rate 100kbit burst 2kb latency 100s; codel",
        "sfq",
        "pie",
    ];
    for old in kinds {
        for new in kinds {
            let (mut host, now) = waiting(old, 40);
            let Replaced { moved, dropped } = host
                .set_qdisc(qdisc(new), now)
                .expect("it gives its packets up");
            assert_eq!(
                (moved + dropped, host.stats().dropped),
                (40, dropped as u64),
                "{old} to {new}"
            );
            // An AQM behind a slow shaper drops, as it would have while they left one by one.
            let shaped = old.contains("bandwidth") || old.contains("tbf");
            assert!(
                dropped == 0 || shaped && dropped < 20,
                "{old} to {new}: {dropped}"
            );
            assert_eq!(
                host.port().qdisc().report().kind,
                new.split(' ').next().expect("a word")
            );
            let sent = sent(&mut host, now);
            assert!(
                sent.is_sorted() && sent.len() > 10,
                "{old} to {new}: {sent:?}"
            );
        }
    }
}

#[test]
fn what_finds_no_room_is_said() {
    let (mut host, now) = waiting("pfifo limit 100", 40);
    assert_eq!(
        host.set_qdisc(qdisc("pfifo limit 10"), now),
        Ok(Replaced {
            moved: 10,
            dropped: 30
        })
    );
    assert_eq!(host.stats().dropped, 30);
    assert_eq!(sent(&mut host, now), (0..10).collect::<Vec<_>>());
}
