//! UDP questions and answers.

use std::time::Duration;

use tautline_base::Bytes;
use tautline_sim::app::{Pace, RequestsConfig, ResponderConfig, When};
use tautline_sim::{Impairments, LinkConfig, Probability};

use super::{measured, ms, port, programs, run, secs, wires};

const PORT: u16 = 53;

fn requests() -> RequestsConfig {
    RequestsConfig::new("dns", port(PORT))
}

#[test]
fn one_every_100_ms_takes_a_round_trip() {
    let (mut client, mut server) = (programs(), programs());
    let when = When {
        start: ms(50),
        stop: Some(ms(1049)),
    };
    client
        .requests(RequestsConfig {
            when,
            pace: Pace::Every(ms(100)),
            ..requests()
        })
        .expect("valid");
    server
        .responder(ResponderConfig {
            reply: Some(Bytes::new(200)),
            ..ResponderConfig::new("dns", PORT)
        })
        .expect("valid");
    let network = run(wires(ms(10)), [client, server], secs(2));
    let (asked, answered) = (measured(&network, 0, "dns"), measured(&network, 1, "dns"));
    assert_eq!(
        (
            asked.sent.messages,
            asked.sent.bytes,
            asked.round_trips.len(),
            asked.lost
        ),
        (10, 320, 10, 0)
    );
    assert_eq!(
        (
            asked.received.bytes,
            answered.received.bytes,
            answered.sent.bytes
        ),
        (2000, 320, 2000)
    );
    assert!(
        asked.round_trips[1..]
            .iter()
            .all(|sample| sample.took >= ms(20) && sample.took < ms(20) + ms(1) / 10)
    );
    assert!(network.endpoint(0).apps.is_done());
    assert_eq!(network.endpoint(0).host.socket_count(), 0);
}

#[test]
fn one_after_the_other_is_one_a_round_trip() {
    let (mut client, mut server) = (programs(), programs());
    client
        .requests(RequestsConfig {
            pace: Pace::AfterReply,
            count: Some(40),
            ..requests()
        })
        .expect("valid");
    server
        .responder(ResponderConfig::new("dns", PORT))
        .expect("valid");
    let network = run(wires(ms(10)), [client, server], ms(40 + 39 * 20 + 20));
    let asked = measured(&network, 0, "dns");
    // The first takes two round trips, with the hardware address.
    assert_eq!((asked.round_trips.len(), asked.sent.messages), (40, 40));
    assert!(
        asked.round_trips[0].took > ms(40) && asked.round_trips[39].took < ms(21),
        "{:?}",
        asked.round_trips
    );
}

#[test]
fn what_is_lost_is_counted_and_the_next_is_asked() {
    for pace in [Pace::AfterReply, Pace::Every(ms(50))] {
        let (mut client, mut server) = (programs(), programs());
        client
            .requests(RequestsConfig {
                pace,
                count: Some(100),
                timeout: ms(200),
                ..requests()
            })
            .expect("valid");
        server
            .responder(ResponderConfig::new("dns", PORT))
            .expect("valid");
        let [there, back] = wires(ms(10));
        let impair = Impairments {
            loss: Probability::percent(30.0).expect("valid"),
            ..Impairments::default()
        };
        let network = run(
            [LinkConfig { impair, ..there }, back],
            [client, server],
            secs(20),
        );
        let asked = measured(&network, 0, "dns");
        assert_eq!(asked.round_trips.len() as u64 + asked.lost, 100);
        assert!((15..50).contains(&asked.lost), "{}", asked.lost);
        assert!(network.endpoint(0).apps.is_done());
    }
}

#[test]
fn a_responder_that_is_not_there_is_silence() {
    let mut client = programs();
    client
        .requests(RequestsConfig {
            count: Some(3),
            timeout: ms(500),
            ..requests()
        })
        .expect("valid");
    let network = run(wires(ms(10)), [client, programs()], secs(3));
    let asked = measured(&network, 0, "dns");
    assert_eq!((asked.lost, asked.failed), (3, 0));
}

#[test]
fn nonsense_is_refused() {
    let refused = [
        RequestsConfig {
            size: Bytes::new(15),
            ..requests()
        },
        RequestsConfig {
            size: Bytes::kib(64),
            ..requests()
        },
        RequestsConfig {
            pace: Pace::Every(Duration::ZERO),
            ..requests()
        },
        RequestsConfig {
            timeout: Duration::ZERO,
            ..requests()
        },
    ];
    for config in refused {
        assert!(programs().requests(config.clone()).is_err(), "{config:?}");
    }
    let short = ResponderConfig {
        reply: Some(Bytes::new(1)),
        ..ResponderConfig::new("dns", PORT)
    };
    assert!(programs().responder(short).is_err());
}
