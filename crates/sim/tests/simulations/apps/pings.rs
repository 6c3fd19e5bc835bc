//! ICMP echo.

use std::time::Duration;

use tautline_base::Bytes;
use tautline_sim::app::{PingConfig, When};
use tautline_sim::{Impairments, LinkConfig, Probability};

use super::{at, measured, ms, network, programs, run, run_before, secs, server, wires};

fn ping() -> PingConfig {
    PingConfig {
        interval: ms(100),
        ..PingConfig::new("ping", server())
    }
}

#[test]
fn ten_milliseconds_each_way_are_twenty() {
    let mut client = programs();
    let when = When {
        start: ms(50),
        stop: Some(ms(1000)),
    };
    client.ping(PingConfig { when, ..ping() }).expect("valid");
    let network = run(wires(ms(10)), [client, programs()], secs(2));
    let measured = measured(&network, 0, "ping");
    // At 50, 150 ... 950 ms.
    assert_eq!(
        (
            measured.round_trips.len(),
            measured.lost,
            measured.sent.messages
        ),
        (10, 0, 10)
    );
    assert_eq!(measured.round_trips[3].at, at(ms(350)));
    for sample in &measured.round_trips {
        // 98 bytes and framing take 1 µs at each NIC; the echoing host answers when its receive
        // interrupt comes.
        assert!(
            sample.took >= ms(20) && sample.took < ms(20) + Duration::from_micros(50),
            "{sample:?}"
        );
    }
    assert!(network.endpoint(0).apps.is_done());
}

#[test]
fn what_does_not_come_back_in_time_is_lost() {
    let half = Impairments {
        loss: Probability::percent(50.0).expect("valid"),
        ..Impairments::default()
    };
    let [there, back] = wires(ms(10));
    let mut client = programs();
    client
        .ping(PingConfig {
            count: Some(200),
            interval: ms(10),
            timeout: ms(500),
            ..ping()
        })
        .expect("valid");
    let mut network = network(
        3,
        [
            LinkConfig {
                impair: half,
                ..there
            },
            back,
        ],
        "fq_codel",
        [client, programs()],
    );
    run_before(&mut network, at(secs(5)));
    let measured = measured(&network, 0, "ping");
    assert_eq!(measured.round_trips.len() as u64 + measured.lost, 200);
    assert!((70..130).contains(&measured.lost), "{}", measured.lost);
    assert!(network.endpoint(0).apps.is_done());
}

#[test]
fn a_reply_after_the_timeout_does_not_count() {
    let mut client = programs();
    client
        .ping(PingConfig {
            timeout: ms(15),
            count: Some(3),
            ..ping()
        })
        .expect("valid");
    let network = run(wires(ms(10)), [client, programs()], secs(1));
    let measured = measured(&network, 0, "ping");
    assert_eq!((measured.round_trips.len(), measured.lost), (0, 3));
}

#[test]
fn several_pings_do_not_mix() {
    let mut client = programs();
    client
        .ping(PingConfig {
            count: Some(4),
            ..ping()
        })
        .expect("valid");
    client
        .ping(PingConfig {
            count: Some(7),
            ..PingConfig {
                flow: "other".into(),
                ..ping()
            }
        })
        .expect("valid");
    let network = run(wires(ms(10)), [client, programs()], secs(2));
    let counts = ["ping", "other"].map(|flow| measured(&network, 0, flow).round_trips.len());
    assert_eq!(counts, [4, 7]);
}

#[test]
fn nobody_there_is_told_and_counted() {
    let mut client = programs();
    let nobody = "10.7.0.77".parse().expect("an address");
    client
        .ping(PingConfig {
            count: Some(3),
            ..PingConfig::new("ping", nobody)
        })
        .expect("valid");
    client
        .ping(PingConfig {
            count: Some(3),
            ..PingConfig::new("off-link", "8.8.8.8".parse().expect("an address"))
        })
        .expect("valid");
    let network = run(wires(ms(1)), [client, programs()], secs(12));
    let measured_ping = measured(&network, 0, "ping");
    assert_eq!(
        (measured_ping.lost, measured_ping.failed),
        (3, 3),
        "{:?}",
        measured_ping.failures
    );
    let off_link = measured(&network, 0, "off-link");
    assert!(
        off_link.failures[0].why.to_string().contains("no route"),
        "{:?}",
        off_link.failures
    );
    assert!(network.endpoint(0).apps.is_done());
}

#[test]
fn nonsense_is_refused() {
    assert!(
        programs()
            .ping(PingConfig {
                interval: Duration::ZERO,
                ..ping()
            })
            .is_err()
    );
    assert!(
        programs()
            .ping(PingConfig {
                timeout: Duration::ZERO,
                ..ping()
            })
            .is_err()
    );
    assert!(
        programs()
            .ping(PingConfig {
                size: Bytes::mib(1),
                ..ping()
            })
            .is_err()
    );
}
