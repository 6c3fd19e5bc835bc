//! UDP at constant rates, on and off, and its sinks.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_sim::LinkConfig;
use tautline_sim::app::{DatagramSinkConfig, DatagramsConfig, Measured, Period, Traffic, When};
use tautline_stack::UdpConfig;

use super::{Pair, at, bottleneck, measured, ms, port, programs, run, secs, wires};

const PORT: u16 = 7000;

/// `traffic` over `links` for `when`, seen for `time`.
fn send(links: [LinkConfig; 2], traffic: Traffic, when: When, time: Duration) -> Pair {
    let (mut client, mut server) = (programs(), programs());
    // ns-3's: what the application sends goes to the device, whatever waits there.
    let udp = UdpConfig {
        send_buffer: Bytes::mib(64),
        ..UdpConfig::default()
    };
    client
        .datagrams(DatagramsConfig {
            when,
            udp,
            ..DatagramsConfig::new("udp", port(PORT), traffic)
        })
        .expect("valid");
    server
        .datagram_sink(DatagramSinkConfig::new("udp", PORT))
        .expect("valid");
    run(links, [client, server], time)
}

fn ends(network: &Pair) -> [&Measured; 2] {
    [0, 1].map(|number| measured(network, number, "udp"))
}

#[test]
fn a_megabit_for_ten_seconds_is_1_250_000_bytes() {
    let when = When {
        start: secs(1),
        stop: Some(secs(11)),
    };
    let network = send(wires(ms(10)), Traffic::new(Rate::mbit(1)), when, secs(12));
    let [sent, received] = ends(&network);
    assert_eq!(
        (sent.sent.bytes, sent.sent.messages, received.received.bytes),
        (1_250_000, 1250, 1_250_000)
    );
    assert!(network.endpoint(0).apps.is_done());
    // In every second 125 000 bytes, 12 or 13 datagrams in 100 ms.
    assert_eq!(
        received.received_between(at(secs(3)), at(secs(4))),
        Bytes::new(125_000)
    );
    let bins = received.received_by_interval(at(secs(12)));
    assert!(
        bins.skip(11)
            .take(90)
            .all(|(_, bytes)| (12_000..=13_000).contains(&bytes.get()))
    );
    // 1042 bytes and 24 of framing take 8.5 µs at 1 Gbit/s. The first waits for the hardware
    // address, 20 ms more.
    let delay = ms(10) + Duration::from_nanos(8528)..ms(10) + Duration::from_nanos(8530);
    assert!(
        received.one_way[0].took > ms(30),
        "{:?}",
        received.one_way[0]
    );
    assert!(
        received.one_way[10..]
            .iter()
            .all(|sample| delay.contains(&sample.took)),
        "{:?}",
        received.one_way[10]
    );
    assert_eq!(received.one_way[10].at, at(ms(1080)));
}

#[test]
fn more_than_the_link_carries_waits_a_full_buffer_and_is_dropped() {
    let traffic = Traffic {
        size: Bytes::new(1472),
        ..Traffic::new(Rate::mbit(20))
    };
    // Frames of 1514 bytes, a buffer of 12 500 bytes at 10 Mbit/s.
    let links = bottleneck(Rate::mbit(10), ms(5));
    let network = send(links, traffic, When::default(), secs(5));
    let [sent, received] = ends(&network);
    assert_eq!(sent.refused, 0);
    let goodput = received.received_between(at(secs(1)), at(secs(5))).get() as f64 * 8e-6 / 4.0;
    // 1472 of 1514 bytes are payload.
    assert!((9.70..9.73).contains(&goodput), "{goodput}");
    let last = received.one_way.last().expect("many").took;
    // Ten frames of 1.2 ms wait before one's own, or nine and a part.
    assert!(last > ms(5 + 11) && last < ms(5 + 15), "{last:?}");
    let lost = sent.sent.messages - received.received.messages;
    assert_eq!(
        lost - network.link(0).stats().drops(),
        network.link(0).outstanding() as u64
    );
}

#[test]
fn a_full_socket_refuses_and_nothing_waits_in_the_application() {
    let (mut client, mut server) = (programs(), programs());
    let udp = UdpConfig {
        send_buffer: Bytes::kib(16),
        below: Some(Bytes::new(3000)),
        ..UdpConfig::default()
    };
    let traffic = Traffic::new(Rate::gbit(2));
    client
        .datagrams(DatagramsConfig {
            udp,
            ..DatagramsConfig::new("udp", port(PORT), traffic)
        })
        .expect("valid");
    server
        .datagram_sink(DatagramSinkConfig::new("udp", PORT))
        .expect("valid");
    let network = run(wires(ms(1)), [client, server], ms(100));
    let [sent, received] = ends(&network);
    assert_eq!(sent.sent.messages + sent.refused, 25_000);
    assert!(
        sent.refused > 10_000 && received.received.messages > 9_500,
        "{} refused",
        sent.refused
    );
}

#[test]
fn on_off_sends_its_share_of_the_time() {
    let traffic = Traffic::on_off(
        Rate::mbit(8),
        Period::Fixed(ms(100)),
        Period::Fixed(ms(300)),
    );
    let network = send(
        wires(ms(10)),
        traffic,
        When {
            stop: Some(secs(20)),
            ..When::default()
        },
        secs(21),
    );
    let [sent, received] = ends(&network);
    // 50 bursts of 100 ms at 1 MB/s.
    assert_eq!(
        (sent.sent.bytes, received.received.bytes),
        (5_000_000, 5_000_000)
    );
    // Seen 10 ms later: bursts in intervals 0 and 1, 4 and 5, ...
    let bins: Vec<u64> = received
        .received_by_interval(at(secs(19)))
        .map(|(_, bytes)| bytes.get())
        .collect();
    assert!(
        bins.chunks(4)
            .take(40)
            .all(|bins| bins[2] + bins[3] == 0 && bins[0] + bins[1] == 100_000),
        "{bins:?}"
    );
}

#[test]
fn random_bursts_repeat_by_seed() {
    let run = |seed| {
        let (on, off) = (Period::Exponential(ms(50)), Period::Exponential(ms(50)));
        let traffic = Traffic {
            seed,
            ..Traffic::on_off(Rate::mbit(8), on, off)
        };
        let network = send(
            wires(ms(10)),
            traffic,
            When {
                stop: Some(secs(10)),
                ..When::default()
            },
            secs(11),
        );
        let hash = network.recorder().value();
        (ends(&network)[1].received.bytes, hash)
    };
    let (bytes, hash) = run(1);
    // Half of 10 MB; 100 cycles: a standard deviation of 7 %.
    assert!((3_900_000..6_100_000).contains(&bytes), "{bytes}");
    assert_eq!(run(1), (bytes, hash));
    assert_ne!(run(2).1, hash);
}

#[test]
fn datagrams_longer_than_a_packet_are_the_flows_failure() {
    let traffic = Traffic {
        size: Bytes::new(9000),
        ..Traffic::new(Rate::mbit(1))
    };
    let network = send(wires(ms(10)), traffic, When::default(), secs(1));
    let [sent, _] = ends(&network);
    assert!(
        sent.failures[0].why.to_string().contains("at most 1472"),
        "{:?}",
        sent.failures
    );
    assert!(network.endpoint(0).apps.is_done() && network.endpoint(0).host.socket_count() == 0);
}
