//! All kinds of applications at once: the account is right, and the same seed gives the same run.

use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Rate};
use tautline_sim::app::{
    DatagramSinkConfig, DatagramsConfig, MessagesConfig, Page, Period, PingConfig, RequestsConfig,
    ResponderConfig, SinkConfig, Traffic, UploadConfig, WebConfig, WebServerConfig, When,
};
use tautline_sim::{Applications, Flow, Impairments, LinkConfig, Probability};

use super::{Pair, bottleneck, measured, ms, network, port, programs, run_before, secs, server};

/// Until when things begin.
const END: Instant = Instant::from_secs(3);

fn both(uploads: u32, rate: Rate) -> [Applications<'static>; 2] {
    let (mut client, mut server_side) = (programs(), programs());
    let when = When {
        start: ms(100),
        stop: Some(END - Instant::ZERO),
    };
    for number in 1..=uploads {
        let (flow, at) = (Flow::numbered("upload", number), 5000 + number as u16);
        let bytes = (number == 1).then_some(Bytes::new(300_000));
        client
            .upload(UploadConfig {
                bytes,
                when,
                ..UploadConfig::new(flow.clone(), port(at))
            })
            .expect("valid");
        server_side.sink(SinkConfig::new(flow, at)).expect("valid");
    }
    let bursts = Traffic::on_off(
        rate,
        Period::Exponential(ms(40)),
        Period::Exponential(ms(60)),
    );
    let small = Traffic {
        size: Bytes::new(200),
        ..Traffic::new(Rate::kbit(400))
    };
    client
        .ping(PingConfig {
            when,
            interval: ms(20),
            ..PingConfig::new("ping", server())
        })
        .expect("valid");
    client
        .datagrams(DatagramsConfig {
            when,
            ..DatagramsConfig::new("udp", port(7000), bursts)
        })
        .expect("valid");
    client
        .requests(RequestsConfig {
            when,
            timeout: secs(1),
            ..RequestsConfig::new("dns", port(53))
        })
        .expect("valid");
    client
        .messages(MessagesConfig {
            when,
            ..MessagesConfig::new("small", port(6000), small)
        })
        .expect("valid");
    let page = Page::falling(5, Bytes::new(50_000));
    client
        .web(WebConfig {
            when,
            page,
            pause: ms(200),
            ..WebConfig::new("web", port(80))
        })
        .expect("valid");
    server_side
        .datagram_sink(DatagramSinkConfig::new("udp", 7000))
        .expect("valid");
    server_side
        .responder(ResponderConfig::new("dns", 53))
        .expect("valid");
    server_side
        .message_sink(SinkConfig::new("small", 6000))
        .expect("valid");
    server_side
        .web_server(WebServerConfig::new("web", 80))
        .expect("valid");
    [client, server_side]
}

/// A lossy path, until everything has come to its end.
fn run(seed: u64, uploads: u32, rate: Rate, percent: f64) -> Pair {
    let [there, back] = bottleneck(Rate::mbit(10), ms(10));
    let chance = Probability::percent(percent).expect("valid");
    let impair = Impairments {
        loss: chance,
        reorder: chance,
        ..Impairments::default()
    };
    let links = [
        LinkConfig { impair, ..there },
        LinkConfig { impair, ..back },
    ];
    let mut network = network(seed, links, "fq_codel", both(uploads, rate));
    run_before(&mut network, END);
    network
        .run_dry(secs(1000))
        .unwrap_or_else(|error| panic!("{error}"));
    network
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let summary = |seed| {
        let network = run(seed, 2, Rate::mbit(2), 1.0);
        let meters = [0, 1].map(|number| format!("{:?}", network.endpoint(number).apps.meter()));
        (network.recorder().value(), meters)
    };
    let first = summary(1);
    assert_eq!(first, summary(1));
    assert_ne!(first.0, summary(2).0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 20, ..ProptestConfig::default() })]

    /// The received bytes of a meter equal the sum of its parts and the count of the stack, and do
    /// not exceed those that the other end sent.
    #[test]
    fn the_account_is_right(seed: u64, uploads in 1u32..4, mbit in 1u64..20, percent in 0f64..4.0) {
        let network = run(seed, uploads, Rate::mbit(mbit), percent);
        prop_assert!(network.endpoint(0).apps.is_done(), "all came to an end");
        prop_assert_eq!(network.outstanding(), 0);
        for here in [0, 1] {
            for one in network.endpoint(here).apps.meter().flows() {
                let name = one.flow.to_string();
                let binned: u64 = one.received_by_interval(network.now()).map(|(_, bytes)| bytes.get()).sum();
                prop_assert_eq!(binned, one.received.bytes, "{}", &name);
                if &*one.flow.name == "ping" {
                    prop_assert_eq!(one.round_trips.len() as u64 + one.lost, one.sent.messages);
                    continue;
                }
                let other = measured(&network, 1 - here, one.flow.clone());
                prop_assert!(one.received.bytes <= other.sent.bytes, "{}: {:?} of {:?}", &name, one.received, other.sent);
                prop_assert!(one.one_way.len() as u64 <= other.sent.messages, "{}", &name);
                // Streams arrive whole, unless something failed and was told.
                if matches!(&*one.flow.name, "upload" | "small") && here == 1 && other.failed == 0 {
                    prop_assert_eq!(one.received.bytes, other.sent.bytes, "{}", &name);
                    let stack = one.last_info.as_ref().map_or(0, |info| info.bytes_received);
                    // The end of the stream takes a number.
                    prop_assert!(stack == one.received.bytes || stack == one.received.bytes + 1, "{}: {}", &name, stack);
                }
            }
        }
    }
}
