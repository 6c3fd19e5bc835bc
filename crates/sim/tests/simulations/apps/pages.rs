//! Pages of many objects.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_sim::app::{
    Applications, Page, ResponderConfig, UploadConfig, WebConfig, WebServerConfig, When,
};
use tautline_sim::{AppError, LinkConfig};
use tautline_stack::CloseReason;

use super::{Pair, at, measured, ms, network, port, programs, run, run_before, secs, wires};

const PORT: u16 = 80;

fn web() -> WebConfig {
    WebConfig {
        count: Some(1),
        ..WebConfig::new("web", port(PORT))
    }
}

fn server() -> Applications<'static> {
    let mut server = programs();
    server
        .web_server(WebServerConfig::new("web", PORT))
        .expect("valid");
    server
}

/// Plenty to the server, `rate` from it, `delay` each way.
fn download(rate: Rate, delay: Duration) -> [LinkConfig; 2] {
    let [there, back] = super::bottleneck(rate, delay);
    [back, there]
}

fn fetch(config: WebConfig, links: [LinkConfig; 2], time: Duration) -> Pair {
    let mut client = programs();
    client.web(config).expect("valid");
    run(links, [client, server()], time)
}

#[test]
fn a_page_of_21_objects_takes_what_rate_and_round_trips_say() {
    let network = fetch(web(), download(Rate::mbit(20), ms(10)), secs(10));
    let (client, server) = (measured(&network, 0, "web"), measured(&network, 1, "web"));
    assert_eq!(
        (client.received.bytes, server.sent.bytes),
        (4_300_000, 4_300_000)
    );
    assert_eq!(
        (
            server.received.bytes,
            client.sent.messages,
            client.connections,
            client.lost
        ),
        (21 * 400, 21, 6, 0)
    );
    let [page] = client.completions[..] else {
        panic!("{:?}", client.completions)
    };
    // 1448 of 1514 bytes are payload: 4.5 MB at 2.5 MB/s are 1.798 s; hardware address and
    // handshake before the first request, and slow start, come on top.
    assert!(
        page.took > ms(1798 + 60) && page.took < ms(2600),
        "{page:?}"
    );
    assert!(network.endpoint(0).apps.is_done() && client.failed + server.failed == 0);
}

#[test]
fn few_bytes_take_round_trips_only_and_fewer_over_more_connections() {
    // Ten objects that fit one segment each, 50 ms away.
    let page = Page {
        objects: vec![Bytes::new(1000); 10],
    };
    let time = |connections: usize| {
        let network = fetch(
            WebConfig {
                page: page.clone(),
                connections,
                count: Some(3),
                ..web()
            },
            wires(ms(25)),
            secs(9),
        );
        let completions = &measured(&network, 0, "web").completions;
        // The page itself and one object more on the first, so never more than nine.
        let opened = measured(&network, 0, "web").connections;
        assert_eq!(
            (completions.len(), opened),
            (3, 3 * connections.min(9) as u64)
        );
        // The hardware address is known by then.
        completions[2].took.as_millis()
    };
    // A handshake and ten requests in turn.
    assert_eq!(time(1), 11 * 50);
    // A handshake, the page itself; one object while the others shake hands, then 3, 3 and 2.
    assert_eq!(time(3), 6 * 50);
    // A handshake, the page itself; one object while the others shake hands, then 8.
    assert_eq!(time(20), 4 * 50);
}

#[test]
fn a_look_up_takes_one_round_trip_more() {
    let page = Page {
        objects: vec![Bytes::new(1000)],
    };
    let took = |look_up| {
        let (mut client, mut server) = (programs(), server());
        client
            .web(WebConfig {
                look_up,
                page: page.clone(),
                count: Some(2),
                ..web()
            })
            .expect("valid");
        server
            .responder(ResponderConfig::new("dns", 53))
            .expect("valid");
        let network = run(wires(ms(25)), [client, server], secs(5));
        measured(&network, 0, "web").completions[1].took.as_millis()
    };
    assert_eq!((took(None), took(Some(port(53)))), (100, 150));
}

#[test]
fn pages_follow_each_other_after_a_pause() {
    let page = Page {
        objects: vec![Bytes::new(1000)],
    };
    let when = When {
        start: ms(500),
        stop: Some(secs(5)),
    };
    let config = WebConfig {
        page,
        pause: ms(900),
        count: None,
        when,
        ..web()
    };
    let network = fetch(config, wires(ms(25)), secs(6));
    let completions = &measured(&network, 0, "web").completions;
    // At 0.5 s with the hardware address, then every 100 + 900 ms.
    assert_eq!(completions.len(), 5, "{completions:?}");
    assert_eq!((completions[1].at - at(ms(0))).as_millis(), 500 + 150 + 900);
    assert!(network.endpoint(0).apps.is_done());
}

#[test]
fn what_is_under_way_at_the_end_is_given_up() {
    let config = WebConfig {
        page: Page::large(),
        when: When {
            stop: Some(secs(1)),
            ..When::default()
        },
        ..web()
    };
    let mut client = programs();
    client.web(config).expect("valid");
    let mut network = network(
        1,
        download(Rate::mbit(10), ms(10)),
        "fq_codel",
        [client, server()],
    );
    run_before(&mut network, at(secs(3)));
    let client = measured(&network, 0, "web");
    assert!(
        client.completions.is_empty() && client.received.bytes < 1_250_000,
        "{:?}",
        client.received
    );
    assert!(network.endpoint(0).apps.is_done() && client.lost == 0);
    network
        .run_dry(secs(100))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (
            network.endpoint(0).host.socket_count(),
            network.endpoint(1).host.socket_count()
        ),
        (0, 1),
        "the listener"
    );
}

#[test]
fn a_page_that_takes_too_long_or_is_refused_is_lost() {
    let config = WebConfig {
        page: Page::large(),
        timeout: ms(500),
        pause: ms(500),
        count: Some(2),
        ..web()
    };
    let network = fetch(config, download(Rate::mbit(10), ms(10)), secs(5));
    let client = measured(&network, 0, "web");
    assert_eq!(
        (client.lost, client.completions.len(), client.failed),
        (2, 0, 0)
    );

    let network = fetch(
        WebConfig {
            remote: port(81),
            pause: ms(500),
            count: Some(3),
            ..web()
        },
        wires(ms(10)),
        secs(5),
    );
    let client = measured(&network, 0, "web");
    assert_eq!((client.lost, client.failed), (3, 3));
    assert!(matches!(
        *client.failures[2].why,
        AppError::Closed(CloseReason::Refused)
    ));
    assert!(network.endpoint(0).apps.is_done());
}

#[test]
fn downloads_beside_it_make_a_page_slower() {
    let took = |downloads: usize| {
        let (mut client, mut server) = (programs(), server());
        client
            .web(WebConfig {
                when: When {
                    start: secs(2),
                    ..When::default()
                },
                ..web()
            })
            .expect("valid");
        server
            .web_server(WebServerConfig::new("other", 8080))
            .expect("valid");
        for _ in 0..downloads {
            let page = Page {
                objects: vec![Bytes::mib(100)],
            };
            client
                .web(WebConfig {
                    page,
                    ..WebConfig::new("bulk", port(8080))
                })
                .expect("valid");
        }
        let network = run(download(Rate::mbit(20), ms(10)), [client, server], secs(12));
        measured(&network, 0, "web").completions[0].took
    };
    let (alone, beside) = (took(0), took(4));
    assert!(
        beside > alone * 13 / 10,
        "{alone:?} alone, {beside:?} beside four downloads"
    );
}

#[test]
fn nonsense_is_refused_and_strangers_are_told() {
    let empty = Page {
        objects: Vec::new(),
    };
    let nothing = Page {
        objects: vec![Bytes::new(1), Bytes::ZERO],
    };
    for config in [
        WebConfig {
            page: empty,
            ..web()
        },
        WebConfig {
            page: nothing,
            ..web()
        },
        WebConfig {
            connections: 0,
            ..web()
        },
        WebConfig {
            request: Bytes::new(15),
            ..web()
        },
        WebConfig {
            timeout: Duration::ZERO,
            ..web()
        },
    ] {
        assert!(programs().web(config.clone()).is_err(), "{config:?}");
    }
    let mut client = programs();
    client
        .upload(UploadConfig::new("bulk", port(PORT)))
        .expect("valid");
    let network = run(wires(ms(1)), [client, server()], secs(1));
    let server = measured(&network, 1, "web");
    assert_eq!(
        server.failures[0].why.to_string(),
        "the peer does not keep to the protocol: a message is shorter than its header"
    );
}
