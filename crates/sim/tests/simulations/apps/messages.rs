//! TCP messages at intervals.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_sim::app::{MessagesConfig, SinkConfig, Traffic, UploadConfig, When};
use tautline_stack::TcpConfig;

use super::{at, bottleneck, measured, ms, network, port, programs, run, run_before, secs, wires};

const PORT: u16 = 6000;

/// The thesis' small flows: 500 kbit/s; here a message of 500 bytes every 8 ms.
fn small() -> Traffic {
    Traffic {
        size: Bytes::new(500),
        ..Traffic::new(Rate::kbit(500))
    }
}

#[test]
fn each_takes_the_way_and_no_longer() {
    let (mut client, mut server) = (programs(), programs());
    let when = When {
        start: ms(100),
        stop: Some(ms(8100)),
    };
    client
        .messages(MessagesConfig {
            when,
            ..MessagesConfig::new("small", port(PORT), small())
        })
        .expect("valid");
    server
        .message_sink(SinkConfig::new("small", PORT))
        .expect("valid");
    let network = run(wires(ms(10)), [client, server], secs(9));
    let (sent, received) = (
        measured(&network, 0, "small"),
        measured(&network, 1, "small"),
    );
    assert_eq!(
        (sent.sent.messages, sent.sent.bytes, sent.refused),
        (1000, 500_000, 0)
    );
    assert_eq!(
        (received.received.bytes, received.one_way.len()),
        (500_000, 1000)
    );
    assert_eq!(received.one_way[500].at, at(ms(4100)));
    // The first ones wait for the hardware address and the handshake.
    assert!(
        received.one_way[0].took > ms(50),
        "{:?}",
        received.one_way[0]
    );
    let late = received.one_way[20..]
        .iter()
        .filter(|sample| sample.took > ms(10) + Duration::from_micros(50))
        .count();
    assert_eq!(late, 0, "{:?}", &received.one_way[20..40]);
    assert!(network.endpoint(0).apps.is_done());
    assert_eq!(network.endpoint(1).host.socket_count(), 1, "the listener");
}

#[test]
fn behind_a_stream_in_one_fifo_they_wait() {
    let (mut client, mut server) = (programs(), programs());
    client
        .messages(MessagesConfig::new("small", port(PORT), small()))
        .expect("valid");
    client
        .upload(UploadConfig::new("bulk", port(5001)))
        .expect("valid");
    server
        .message_sink(SinkConfig::new("small", PORT))
        .expect("valid");
    server.sink(SinkConfig::new("bulk", 5001)).expect("valid");
    let [there, back] = bottleneck(Rate::mbit(10), ms(5));
    let deep = tautline_sim::LinkConfig {
        queue: "pfifo limit 100".parse().expect("a queue"),
        ..there
    };
    let mut network = network(1, [deep, back], "fq_codel", [client, server]);
    run_before(&mut network, at(secs(5)));
    let received = measured(&network, 1, "small");
    let mut took: Vec<_> = received.one_way.iter().map(|sample| sample.took).collect();
    took.sort();
    let median = took[took.len() / 2];
    // 100 frames of 1.2 ms.
    assert!(median > ms(50) && median < ms(300), "{median:?}");
    let sent = measured(&network, 0, "small");
    assert!(sent.sent.messages > 500 && received.received.bytes <= sent.sent.bytes);
}

#[test]
fn a_message_that_finds_no_room_is_refused() {
    let (mut client, mut server) = (programs(), programs());
    let tcp = TcpConfig {
        send_buffer: Bytes::new(4000),
        nagle: false,
        ..TcpConfig::default()
    }
    .into();
    let traffic = Traffic {
        count: Some(2000),
        ..Traffic::new(Rate::mbit(20))
    };
    client
        .messages(MessagesConfig {
            tcp,
            ..MessagesConfig::new("small", port(PORT), traffic)
        })
        .expect("valid");
    server
        .message_sink(SinkConfig::new("small", PORT))
        .expect("valid");
    let network = run(bottleneck(Rate::mbit(5), ms(5)), [client, server], secs(3));
    let (sent, received) = (
        measured(&network, 0, "small"),
        measured(&network, 1, "small"),
    );
    assert_eq!(sent.sent.messages + sent.refused, 2000);
    assert_eq!(
        received.one_way.len() as u64,
        sent.sent.messages,
        "what is taken arrives"
    );
    assert!(sent.refused > 1000, "{}", sent.refused);
    assert!(network.endpoint(0).apps.is_done());
}

/// The way of a bulk flow's own bytes, as the thesis has it.
#[test]
fn a_stamped_stream_tells_how_long_its_bytes_took() {
    let median = |notsent_lowat| {
        let (mut client, mut server) = (programs(), programs());
        let tcp = TcpConfig {
            notsent_lowat,
            ..TcpConfig::default()
        }
        .into();
        let upload = UploadConfig::new("bulk", port(PORT));
        let (message, bytes) = (Bytes::new(1448), Some(Bytes::new(1448 * 2000)));
        client
            .upload(UploadConfig {
                message,
                bytes,
                stamped: true,
                tcp,
                ..upload
            })
            .expect("valid");
        server
            .message_sink(SinkConfig::new("bulk", PORT))
            .expect("valid");
        let network = run(bottleneck(Rate::mbit(10), ms(5)), [client, server], secs(6));
        let (sent, received) = (measured(&network, 0, "bulk"), measured(&network, 1, "bulk"));
        assert_eq!(
            (
                received.one_way.len(),
                received.received.bytes,
                sent.sent.bytes
            ),
            (2000, 2_896_000, 2_896_000)
        );
        assert_eq!(sent.completions.len(), 1);
        let mut took: Vec<_> = received.one_way.iter().map(|sample| sample.took).collect();
        took.sort();
        took[1000]
    };
    // All is written at once and leaves in 2.4 s.
    let with_buffer = median(None);
    assert!(with_buffer > secs(1), "{with_buffer:?}");
    // 5 ms of way, up to 12 of queue, up to 13 for 16 KiB not sent, and now and then a
    // retransmission.
    let network_only = median(Some(Bytes::kib(16)));
    assert!(
        network_only > ms(8) && network_only < ms(40),
        "{network_only:?}"
    );
    let odd = UploadConfig {
        stamped: true,
        bytes: Some(Bytes::new(70_000)),
        ..UploadConfig::new("bulk", port(PORT))
    };
    assert!(programs().upload(odd.clone()).is_err());
    assert!(
        programs()
            .upload(UploadConfig {
                bytes: None,
                message: Bytes::new(15),
                ..odd
            })
            .is_err()
    );
}

#[test]
fn what_is_no_message_ends_its_connection_only() {
    let (mut client, mut server) = (programs(), programs());
    client
        .upload(UploadConfig::new("bulk", port(PORT)))
        .expect("valid");
    client
        .messages(MessagesConfig::new("small", port(PORT), small()))
        .expect("valid");
    server
        .message_sink(SinkConfig::new("small", PORT))
        .expect("valid");
    let network = run(wires(ms(1)), [client, server], secs(1));
    let received = measured(&network, 1, "small");
    assert_eq!(
        received.failures[0].why.to_string(),
        "the peer does not keep to the protocol: a message is shorter than its header"
    );
    assert!(received.one_way.len() > 100, "{}", received.one_way.len());
    assert_eq!(measured(&network, 0, "bulk").failed, 1, "reset");
}
