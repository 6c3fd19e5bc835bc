//! Transfers that do not reach their end: each side learns of it within its limits, and every frame
//! comes to rest.

use std::time::Duration;

use crate::common::{ms, path, percent};
use tautline_base::Instant;
use tautline_sim::transfer::{RECEIVER, SENDER, TransferNetwork};
use tautline_sim::{Impairments, NicConfig, Pattern, Transfer};
use tautline_stack::TcpConfig;

type Watched = TransferNetwork<'static, ()>;

/// A long transfer, stopped in its middle.
fn midway(seed: u64) -> Watched {
    // Few retries, so that timing out is a matter of seconds.
    let tcp = TcpConfig {
        retries: 5,
        ..TcpConfig::default()
    };
    let (links, receiver) = (path(20, ms(20)), tcp.clone());
    let transfer = Transfer {
        seed,
        links,
        sender: tcp,
        receiver,
        nic: NicConfig::default(),
        ..Transfer::default()
    };
    let data = Pattern::new(rand_pcg::Pcg32::new(seed, 0), 1 << 30);
    let mut network = transfer.network(data, |_: &[u8]| (), ()).expect("valid");
    let middle = Instant::from_millis(500 + seed);
    network
        .run_until(ms(10_000), |network| network.now() >= middle)
        .expect("it runs");
    assert!(
        network.outstanding() > 0,
        "stopped while frames are on the way"
    );
    network
}

/// The failure of the application on host `number`.
fn failure(network: &Watched, number: usize) -> String {
    network
        .endpoint(number)
        .apps
        .failure()
        .map_or_else(String::new, ToString::to_string)
}

/// Loses `loss` percent of the frames from now on, each way.
fn lose(network: &mut Watched, loss: f64) {
    for number in [SENDER, RECEIVER] {
        network.link_mut(number).set_impairments(Impairments {
            loss: percent(loss),
            ..Impairments::default()
        });
    }
}

fn comes_to_rest(mut network: Watched, within: Duration) -> [String; 2] {
    let began = network.now();
    network
        .run_dry(Duration::from_secs(3600))
        .unwrap_or_else(|stall| panic!("{stall}"));
    assert_eq!(network.outstanding(), 0);
    assert!(
        network.now() - began < within,
        "{:?}",
        network.now() - began
    );
    [failure(&network, SENDER), failure(&network, RECEIVER)]
}

#[test]
fn an_abort_resets_the_peer() {
    for (number, seed) in [(SENDER, 1), (RECEIVER, 2), (SENDER, 3), (RECEIVER, 4)] {
        let mut network = midway(seed);
        let end = network.endpoint_mut(number);
        let (_, socket) = end.apps.sockets().next().expect("midway");
        end.host.abort(socket).expect("it exists");
        network.mark_runnable(number);
        let failures = comes_to_rest(network, Duration::from_secs(2));
        assert!(
            failures[number].contains("aborted"),
            "SEED={seed}: {failures:?}"
        );
        assert!(
            failures[1 - number].contains("reset"),
            "SEED={seed}: {failures:?}"
        );
    }
}

/// The cable is cut: neither side can notify the other, both time out.
#[test]
fn a_cut_cable_ends_in_a_timeout() {
    for seed in 1..=2 {
        let mut network = midway(seed);
        lose(&mut network, 100.0);
        let [sender, _] = comes_to_rest(network, Duration::from_secs(120));
        assert!(
            sender.contains("stopped answering"),
            "SEED={seed}: {sender}"
        );
    }
}

/// The cable is cut for a while: the transfer goes on where it was.
#[test]
fn an_outage_is_survived() {
    for seed in 1..=2 {
        let mut network = midway(seed);
        let (cut, before) = (network.now(), received(&network));
        let until = |network: &mut Watched, loss, time: Duration| {
            lose(network, loss);
            network
                .run_until(ms(60_000), |network| network.now() >= cut + time)
                .unwrap_or_else(|stall| panic!("{stall}"));
        };
        until(&mut network, 100.0, ms(1_000));
        let during = received(&network);
        // What was in flight when the cable was cut still arrived.
        assert!(during - before < 1 << 20, "SEED={seed}: {during}");
        until(&mut network, 0.0, ms(6_000));
        // 20 Mbit/s for the time that is left after the backed-off timeout.
        assert!(
            received(&network) - during > 2_500_000,
            "SEED={seed}: {} after the outage",
            received(&network) - during
        );
    }
}

fn received(network: &Watched) -> u64 {
    let meter = network.endpoint(RECEIVER).apps.meter();
    meter.flows()[0].received.bytes
}
