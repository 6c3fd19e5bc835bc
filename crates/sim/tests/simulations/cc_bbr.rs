//! BBR and BBR-n have the effects they are there for: the bandwidth is found in a logarithm of
//! round trips, the queue stays short, random loss costs nothing, pauses measure the path, flows
//! share.
//!
//! Each mechanism is taken away by its parameter, and then the effect is gone.

use std::time::Duration;

use crate::common::{MSS, ms, percent};
use crate::contest::{Contestant, Snapshot, contest, goodput, mean_queue};
use tautline_base::Rate;
use tautline_cc::bbr::{CYCLE, Gain, Params};
use tautline_cc::{Algorithm, Bbr, Factory};
use tautline_sim::{Buffer, Impairments, LinkConfig};

/// A bottleneck of `mbit` with `products` bandwidth-delay products of buffer.
fn path(mbit: u64, rtt: Duration, products: u64) -> [LinkConfig; 2] {
    let rate = Rate::mbit(mbit);
    let queue = Buffer::TailDrop {
        packets: usize::MAX,
        bytes: rate * rtt * products,
    };
    let there = LinkConfig {
        rate,
        delay: rtt / 2,
        queue,
        ..LinkConfig::default()
    };
    [
        there,
        LinkConfig {
            delay: rtt / 2,
            ..LinkConfig::default()
        },
    ]
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// BBR with other numbers.
fn bbr_with(params: Params) -> Factory {
    Factory::new(move |config| Box::new(Bbr::with(params, config).expect("numbers that work")))
}

fn alone(links: &[LinkConfig; 2], congestion: impl Into<Factory>, time: Duration) -> Vec<Snapshot> {
    contest(links, &[Contestant::new(congestion)], time, 1)
}

/// When the flow first delivered nine tenths of `mbit` in 100 ms, payload over headers included.
fn up_to_speed(samples: &[Snapshot], mbit: f64) -> Duration {
    let reached = samples.iter().find(|sample| {
        sample.at > ms(100) && goodput(samples, 0, sample.at - ms(100), sample.at) > 0.9 * mbit
    });
    reached.map_or(Duration::MAX, |sample| sample.at)
}

#[test]
fn startup_finds_the_bandwidth_in_a_logarithm_of_round_trips() {
    let links = path(40, ms(50), 4);
    let linux = up_to_speed(&alone(&links, Algorithm::Bbr, secs(3)), 38.0);
    // Handshake and log2(173 / 10) = 4.1 doublings, measured over two round trips more.
    assert!(linux < ms(50) * 10, "{linux:?}");
    let timid = Params {
        startup_gain: Gain::percent(110),
        drain_gain: Gain::percent(90),
        ..Params::default()
    };
    let without = up_to_speed(&alone(&links, bbr_with(timid), secs(3)), 38.0);
    assert!(
        without > linux * 2,
        "{without:?} against {linux:?}: the gain of STARTUP did nothing"
    );
}

/// Times at which at most four segments were in flight, each the first of its pause.
fn dips(samples: &[Snapshot]) -> Vec<Duration> {
    let small = |sample: &Snapshot| sample.flows[0].in_flight.get() <= 4 * MSS;
    samples
        .windows(2)
        .filter(|pair| pair[1].at > secs(1) && small(&pair[1]) && !small(&pair[0]))
        .map(|pair| pair[1].at)
        .collect()
}

#[test]
fn a_pause_every_ten_seconds_shows_in_what_is_in_flight() {
    let links = path(5, ms(40), 2);
    let seen = dips(&alone(&links, Algorithm::Bbr, secs(33)));
    assert_eq!(seen.len(), 3, "{seen:?}");
    for pair in seen.windows(2) {
        assert!(
            (secs(10)..ms(10_600)).contains(&(pair[1] - pair[0])),
            "{seen:?}"
        );
    }
    let never = Params {
        min_rtt_window: secs(3600),
        ..Params::default()
    };
    assert_eq!(dips(&alone(&links, bbr_with(never), secs(13))), []);
}

#[test]
fn one_percent_of_random_loss_costs_little_where_cubic_collapses() {
    let [there, back] = path(20, ms(40), 2);
    let there = LinkConfig {
        impair: Impairments {
            loss: percent(1.0),
            ..Impairments::default()
        },
        ..there
    };
    let links = [there, back];
    let rate =
        |congestion: Algorithm| goodput(&alone(&links, congestion, secs(12)), 0, secs(2), secs(12));
    let (bbr, cubic) = (rate(Algorithm::Bbr), rate(Algorithm::Cubic));
    println!("bbr {bbr:.2} Mbit/s, cubic {cubic:.2} Mbit/s");
    // 19.1 Mbit/s of payload fit on the link, less the hundredth that is lost.
    assert!(bbr > 17.2, "{bbr} of 19.1 Mbit/s");
    assert!(cubic < 7.0, "{cubic}: the loss is not heavy enough to tell");
}

#[test]
fn the_queue_stays_short_where_cubic_fills_the_buffer() {
    let links = path(20, ms(40), 4);
    let (bbr, cubic) = (
        alone(&links, Algorithm::Bbr, secs(9)),
        alone(&links, Algorithm::Cubic, secs(9)),
    );
    let queues = [&bbr, &cubic].map(|samples| mean_queue(samples, secs(2)) / 100_000.0);
    let rates = [&bbr, &cubic].map(|samples| goodput(samples, 0, secs(2), secs(9)));
    println!("queues in products: {queues:.2?}, goodput {rates:.2?}");
    assert!(queues[0] < 0.25 && queues[1] > 2.0, "{queues:?} products");
    assert!(
        rates.iter().all(|rate| *rate > 18.7),
        "{rates:?} of 19.1 Mbit/s"
    );
    // If nothing drained what the probes leave, data in flight would climb to two products.
    let blind = Params {
        cycle: [Gain::percent(125); CYCLE],
        ..Params::default()
    };
    let without = mean_queue(&alone(&links, bbr_with(blind), secs(9)), secs(2)) / 100_000.0;
    assert!(
        without > 0.8,
        "{without} products: the draining phase did nothing"
    );
}

/// BBR-n's probes are not drained, and it does not yield to drops: a queue of a product or more
/// stands. Fair queueing keeps it from everybody else, which is why BBR-n goes with CAKE and
/// FQ-CoDel.
#[test]
fn bbrn_stands_in_a_queue_of_its_own_making_and_fair_queueing_keeps_it_from_others() {
    let links = path(20, ms(40), 4);
    let [there, back] = links.clone();
    let queue: Buffer = "fq_codel".parse().expect("a discipline");
    let fair = [LinkConfig { queue, ..there }, back];
    // Two segments now and then, beside it: the receiver acknowledges them at once.
    let sparse = Contestant::new(Algorithm::Cubic).bursts(2 * MSS as usize, ms(100));
    let round_trip = |links, algorithm: Algorithm| {
        let samples = contest(
            links,
            &[Contestant::new(algorithm), sparse.clone()],
            secs(8),
            1,
        );
        samples.last().expect("the contest was looked at").flows[1].srtt
    };
    // Twenty milliseconds more than the path: BBR measures the whole link, and the other flow comes
    // on top.
    let linux = round_trip(&links, Algorithm::Bbr);
    println!("bbr: a round trip beside it takes {linux:?}");
    assert!(linux < ms(65), "{linux:?}");
    for algorithm in [Algorithm::BbrnAqm, Algorithm::Bbrn2023] {
        let (fifo, fair) = (round_trip(&links, algorithm), round_trip(&fair, algorithm));
        println!("{algorithm}: a round trip beside it takes {fifo:?}, with fq_codel {fair:?}");
        assert!(fifo > ms(80), "{algorithm}: {fifo:?}");
        assert!(fair < ms(45), "{algorithm}: {fair:?}");
    }
}

/// Flow 0's part of what both delivered between `from` and `to`.
fn share(samples: &[Snapshot], from: Duration, to: Duration) -> f64 {
    let [first, second] = [0, 1].map(|number| goodput(samples, number, from, to));
    first / (first + second)
}

#[test]
fn two_flows_converge() {
    let links = path(10, ms(40), 2);
    let both = |congestion: Factory| {
        let contestants = [
            Contestant::new(congestion.clone()),
            Contestant::new(congestion).starting_at(secs(4)),
        ];
        let samples = contest(&links, &contestants, secs(36), 3);
        let late = share(&samples, secs(20), secs(36));
        let total =
            goodput(&samples, 0, secs(20), secs(36)) + goodput(&samples, 1, secs(20), secs(36));
        println!("the first flow's share {late:.2}, {total:.2} Mbit/s in all");
        (late, total)
    };
    let (late, total) = both(Algorithm::Bbr.factory());
    assert!((0.35..0.65).contains(&late), "{late}");
    assert!(total > 9.0, "{total}");
    // Neither probes for what the other leaves.
    let (_, without) = both(bbr_with(Params {
        cycle: [Gain::UNIT; CYCLE],
        ..Params::default()
    }));
    assert!(without < 8.0, "{without}: the probing phase did nothing");
}

/// Ware, Mukerjee, Seshan and Sherry (IMC 2019) model what a loss-based flow keeps beside BBR with
/// a buffer of X products: 1/2 − 1/(2X) and less, so next to nothing at one product and at most
/// 0.38 at four; Hock, Bless and Zitterbart (ICNP 2017) and Scholz and others (IFIP Networking
/// 2018) measure BBR far ahead below one and a half products, and CUBIC level with or somewhat
/// ahead of it from three on. So BBR's share is to be above 0.7 at one product, and between 0.3 and
/// 0.7 at four.
#[test]
fn beside_cubic_it_takes_most_of_a_short_buffer_and_about_half_of_a_long_one() {
    for (products, expected) in [(1, 0.7..0.97), (4, 0.3..0.7)] {
        let contestants = [
            Contestant::new(Algorithm::Bbr),
            Contestant::new(Algorithm::Cubic),
        ];
        let samples = contest(&path(10, ms(40), products), &contestants, secs(45), 1);
        let bbr = share(&samples, secs(15), secs(45));
        println!("{products} products of buffer: bbr's share {bbr:.2}");
        assert!(
            expected.contains(&bbr),
            "{products} products of buffer: {bbr}"
        );
    }
}

/// The round trip it knows is stale by then, yet it does not pause to measure it: idling has
/// drained the queue.
#[test]
fn after_idling_it_goes_on_at_the_bandwidth() {
    let links = path(20, ms(40), 2);
    let times = |congestion: Algorithm| {
        let every = secs(11);
        let samples = contest(
            &links,
            &[Contestant::new(congestion).bursts(1_000_000, every)],
            secs(46),
            1,
        );
        [2, 3, 4].map(|count: u32| {
            let enough = |sample: &&Snapshot| {
                sample
                    .flows
                    .first()
                    .is_some_and(|info| info.bytes_acked >= u64::from(count) * 1_000_000)
            };
            samples
                .iter()
                .find(enough)
                .map(|sample| sample.at - every * (count - 1))
                .expect("the burst went through")
        })
    };
    let (bbr, cubic) = (times(Algorithm::Bbr), times(Algorithm::Cubic));
    println!("bbr {bbr:?}, cubic {cubic:?}");
    // A megabyte takes 418 ms on the link, its acknowledgment 40 ms.
    assert!(bbr.iter().all(|time| *time < ms(530)), "{bbr:?}");
    assert!(
        cubic.iter().all(|time| *time > ms(550)),
        "{cubic:?}: it begins anew"
    );
}
