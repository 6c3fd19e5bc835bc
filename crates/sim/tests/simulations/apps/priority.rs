//! Effect of a TOS byte on the applications that set it, at a host whose bottleneck is its own
//! `pfifo_fast`.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_sim::app::{
    DatagramSinkConfig, DatagramsConfig, MessagesConfig, PingConfig, Sample, SinkConfig, Traffic,
    UploadConfig,
};
use tautline_stack::{TcpConfig, TsqLimit, UdpConfig};

use super::{at, bottleneck, measured, ms, network, port, programs, run_before, secs, server};

/// `pfifo_fast`'s first band.
const AF42: u8 = 36 << 2;

fn median(samples: &[Sample]) -> Duration {
    let mut took: Vec<_> = samples.iter().map(|sample| sample.took).collect();
    took.sort();
    took[took.len() / 2]
}

/// Median of a ping's round trip, of a datagram's way and of a TCP message's, all with this TOS
/// byte, behind an upload that fills 500 packets at 20 Mbit/s: 303 ms.
fn medians(tos: u8) -> [Duration; 3] {
    let (mut client, mut server_side) = (programs(), programs());
    let tcp = TcpConfig {
        tsq: TsqLimit::Off,
        ..TcpConfig::default()
    }
    .into();
    client
        .upload(UploadConfig {
            tcp,
            ..UploadConfig::new("upload", port(5001))
        })
        .expect("valid");
    client
        .ping(PingConfig {
            tos,
            interval: ms(20),
            ..PingConfig::new("ping", server())
        })
        .expect("valid");
    let traffic = Traffic {
        size: Bytes::new(200),
        ..Traffic::new(Rate::kbit(100))
    };
    let udp = UdpConfig {
        tos,
        ..UdpConfig::default()
    };
    client
        .datagrams(DatagramsConfig {
            udp,
            ..DatagramsConfig::new("udp", port(7000), traffic.clone())
        })
        .expect("valid");
    let tcp = TcpConfig {
        tos,
        nagle: false,
        ..TcpConfig::default()
    }
    .into();
    client
        .messages(MessagesConfig {
            tcp,
            ..MessagesConfig::new("small", port(6000), traffic)
        })
        .expect("valid");
    server_side
        .sink(SinkConfig::new("upload", 5001))
        .expect("valid");
    server_side
        .datagram_sink(DatagramSinkConfig::new("udp", 7000))
        .expect("valid");
    server_side
        .message_sink(SinkConfig::new("small", 6000))
        .expect("valid");
    let qdisc = "tbf rate 20mbit burst 5kb latency 1s; pfifo_fast limit 500";
    let mut network = network(
        1,
        bottleneck(Rate::mbit(100), ms(5)),
        qdisc,
        [client, server_side],
    );
    run_before(&mut network, at(secs(3)));
    [
        median(&measured(&network, 0, "ping").round_trips),
        median(&measured(&network, 1, "udp").one_way),
        median(&measured(&network, 1, "small").one_way),
    ]
}

#[test]
fn who_asks_for_it_overtakes_the_upload_and_who_does_not_waits() {
    let (plain, urgent) = (medians(0), medians(AF42));
    assert!(
        plain.iter().all(|time| *time > ms(100)),
        "without: {plain:?}"
    );
    assert!(
        urgent.iter().all(|time| *time < ms(20)),
        "with priority: {urgent:?}"
    );
}
