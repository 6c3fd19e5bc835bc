//! TCP streams and their sinks.

use tautline_base::{Bytes, Rate};
use tautline_sim::app::{Ending, Sample, SinkConfig, UploadConfig, When};
use tautline_sim::{AppError, Flow};
use tautline_stack::{CloseReason, TcpConfig};

use super::{at, bottleneck, measured, ms, network, port, programs, run, run_before, secs, wires};

const PORT: u16 = 5001;

fn upload() -> UploadConfig {
    UploadConfig::new("upload", port(PORT))
}

fn sink() -> SinkConfig {
    SinkConfig::new("upload", PORT)
}

#[test]
fn a_stream_of_a_given_length_arrives_and_both_ends_close() {
    let (mut client, mut server) = (programs(), programs());
    client
        .upload(UploadConfig {
            bytes: Some(Bytes::new(1_000_000)),
            ..upload()
        })
        .expect("valid");
    server.sink(sink()).expect("valid");
    let mut network = network(
        1,
        bottleneck(Rate::mbit(8), ms(5)),
        "fq_codel",
        [client, server],
    );
    network
        .run_until(secs(10), |_| false)
        .unwrap_or_else(|error| panic!("{error}"));
    let (sent, received) = (
        measured(&network, 0, "upload"),
        measured(&network, 1, "upload"),
    );
    assert_eq!(
        (sent.sent.bytes, received.received.bytes),
        (1_000_000, 1_000_000)
    );
    // 691 segments with 66 bytes of headers make 1 045 606 bytes: 1.046 s at 1 MB/s; handshake,
    // slow start and closing come on top.
    let [Sample { took, .. }] = sent.completions[..] else {
        panic!("{:?}", sent.completions)
    };
    assert!(took > ms(1046) && took < ms(1200), "{took:?}");
    assert_eq!(
        (
            sent.connections,
            received.connections,
            sent.failed + received.failed
        ),
        (1, 1, 0)
    );
    assert!(
        sent.last_info
            .as_ref()
            .is_some_and(|info| info.bytes_acked >= 1_000_000)
    );
    network
        .run_dry(secs(100))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (
            network.outstanding(),
            network.endpoint(0).host.socket_count()
        ),
        (0, 0)
    );
}

#[test]
fn it_sends_from_start_to_stop_at_the_rate_of_the_bottleneck() {
    let (mut client, mut server) = (programs(), programs());
    let when = When {
        start: secs(1),
        stop: Some(secs(4)),
    };
    let tcp = TcpConfig {
        send_buffer: Bytes::kib(64),
        ..TcpConfig::default()
    }
    .into();
    client
        .upload(UploadConfig {
            when,
            tcp,
            ..upload()
        })
        .expect("valid");
    server.sink(sink()).expect("valid");
    let network = run(bottleneck(Rate::mbit(10), ms(5)), [client, server], secs(6));
    assert!(network.endpoint(0).apps.is_done());
    let received = measured(&network, 1, "upload");
    let goodput: Vec<f64> = received
        .received_by_interval(at(secs(6)))
        .map(|(_, bytes)| bytes.get() as f64 * 8e-6 / 0.1)
        .collect();
    assert!(goodput[..10].iter().all(|mbit| *mbit == 0.0), "{goodput:?}");
    // 1448 of 1514 bytes are payload: 9.56 Mbit/s.
    let steady = received.received_between(at(ms(1500)), at(secs(4))).get() as f64 * 8e-6 / 2.5;
    assert!((9.3..9.6).contains(&steady), "{steady}");
    // 64 KiB more were written: 53 ms.
    assert!(goodput[42..].iter().all(|mbit| *mbit == 0.0), "{goodput:?}");
    assert_eq!(
        measured(&network, 0, "upload").sent.bytes,
        received.received.bytes
    );
}

#[test]
fn a_reset_ends_it_at_once_and_the_sink_tells() {
    let (mut client, mut server) = (programs(), programs());
    let when = When {
        stop: Some(ms(500)),
        ..When::default()
    };
    client
        .upload(UploadConfig {
            when,
            ending: Ending::Reset,
            ..upload()
        })
        .expect("valid");
    server.sink(sink()).expect("valid");
    let network = run(bottleneck(Rate::mbit(10), ms(5)), [client, server], secs(1));
    let (sent, received) = (
        measured(&network, 0, "upload"),
        measured(&network, 1, "upload"),
    );
    assert!(
        received.received.bytes < sent.sent.bytes && received.received.bytes > 400_000,
        "{:?}",
        received.received
    );
    assert!(network.endpoint(0).apps.is_done() && sent.failed == 0);
    assert!(
        matches!(
            *received.failures[0].why,
            AppError::Closed(CloseReason::Reset)
        ),
        "{:?}",
        received.failures
    );
}

#[test]
fn several_streams_are_told_apart_and_looked_into_while_they_last() {
    let (mut client, mut server) = (programs(), programs());
    for number in 1..=4 {
        let flow = Flow::numbered("upload", number);
        let config = UploadConfig::new(flow.clone(), port(PORT + number as u16));
        client.upload(config).expect("valid");
        server
            .sink(SinkConfig::new(flow, PORT + number as u16))
            .expect("valid");
    }
    let mut network = network(
        1,
        bottleneck(Rate::mbit(40), ms(5)),
        "fq_codel",
        [client, server],
    );
    run_before(&mut network, at(secs(2)));
    let end = network.endpoint(0);
    let connections: Vec<_> = end
        .apps
        .connections(&end.host)
        .map(|(flow, info)| (flow.to_string(), info))
        .collect();
    let names: Vec<_> = connections.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["upload-1", "upload-2", "upload-3", "upload-4"]);
    for (name, info) in &connections {
        assert!(
            info.latest_rtt >= ms(10) && info.srtt >= ms(10) && info.cwnd > Bytes::ZERO,
            "{name}: {info:?}"
        );
    }
    let rates: Vec<u64> = (1..=4)
        .map(|n| {
            measured(&network, 1, Flow::numbered("upload", n))
                .received
                .bytes
        })
        .collect();
    let total: u64 = rates.iter().sum();
    assert!(
        (8_000_000..9_560_000).contains(&total),
        "2 s at 38.2 Mbit/s make 9.56 MB: {rates:?}"
    );
    assert!(rates.iter().all(|bytes| *bytes > total / 8), "{rates:?}");
}

#[test]
fn messages_are_the_writes() {
    let (mut client, mut server) = (programs(), programs());
    let tcp = TcpConfig {
        nagle: false,
        ..TcpConfig::default()
    };
    let config = UploadConfig {
        message: Bytes::new(700),
        bytes: Some(Bytes::new(2_000)),
        tcp: tcp.into(),
        ..upload()
    };
    client.upload(config).expect("valid");
    server.sink(sink()).expect("valid");
    let network = run(wires(ms(5)), [client, server], secs(1));
    // 700, 700 and 600 bytes.
    let sent = measured(&network, 0, "upload");
    assert_eq!((sent.sent.messages, sent.sent.bytes), (3, 2_000));
    assert!(
        upload().message.get() == 65_536
            && programs()
                .upload(UploadConfig {
                    message: Bytes::ZERO,
                    ..upload()
                })
                .is_err()
    );
}

#[test]
fn nobody_listening_is_one_flows_failure_unless_the_run_is_strict() {
    let client = || {
        let mut client = programs();
        client
            .upload(UploadConfig::new("lost", port(9)))
            .expect("valid");
        client.upload(upload()).expect("valid");
        client
    };
    let server = || {
        let mut server = programs();
        server.sink(sink()).expect("valid");
        server
    };
    let network = run(
        bottleneck(Rate::mbit(10), ms(5)),
        [client(), server()],
        secs(1),
    );
    let lost = measured(&network, 0, "lost");
    assert!(
        matches!(
            *lost.failures[0].why,
            AppError::Closed(CloseReason::Refused)
        ),
        "{:?}",
        lost.failures
    );
    assert!(
        lost.failures[0].at >= at(ms(10)) && lost.failures[0].at < at(ms(31)),
        "two questions, at most: {:?}",
        lost.failures
    );
    assert!(measured(&network, 1, "upload").received.bytes > 1_000_000);
    assert_eq!(
        network.endpoint(0).host.socket_count(),
        1,
        "the refused one is gone"
    );

    let mut network = super::network(
        1,
        bottleneck(Rate::mbit(10), ms(5)),
        "fq_codel",
        [client().strict(), server()],
    );
    let stall = network.run_until(secs(1), |_| false).expect_err("refused");
    let why = stall.why.expect("told");
    assert!(
        why.starts_with("lost: ") && why.contains("nothing listens on that port"),
        "{why}"
    );
}

#[test]
fn a_port_in_use_is_told_with_its_flow() {
    let mut server = programs();
    server
        .sink(sink())
        .expect("valid")
        .sink(SinkConfig::new("second", PORT))
        .expect("valid");
    let network = run(wires(ms(5)), [programs(), server], ms(10));
    let second = measured(&network, 1, "second");
    assert_eq!(
        second.failures[0].why.to_string(),
        "port 5001 is in use by another listener of this host"
    );
}
