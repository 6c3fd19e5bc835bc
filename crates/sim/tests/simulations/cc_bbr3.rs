//! BBRv3 in the whole stack: what it finds, what it costs, how it shares.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{MSS, ms, path, percent, run};
use crate::contest::{Contestant, Share, contest, shares};
use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::bbr3::Config as Params;
use tautline_cc::{
    Ack, Algorithm, Bbr3, Congestion, Controller, Factory, Idle, Loss, Recovery, Verdict,
};
use tautline_sim::{Impairments, LinkConfig, Transfer};
use tautline_stack::TcpConfig;

/// The controller after an acknowledgment.
#[derive(Clone, Copy, Debug)]
struct AckSample {
    at: Instant,
    round: u64,
    state: &'static str,
    max_bw: Rate,
    in_flight: Bytes,
}

type Samples = Arc<Mutex<Vec<AckSample>>>;

/// BBRv3 that is sampled.
struct Watched {
    bbr: Bbr3,
    samples: Samples,
}

impl Controller for Watched {
    fn name(&self) -> &'static str {
        self.bbr.name()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.bbr.on_ack(ack);
        let (round, state) = (self.bbr.round_count(), self.bbr.model().state);
        let sample = AckSample {
            at: ack.now,
            round,
            state,
            max_bw: self.bbr.max_bw(),
            in_flight: ack.in_flight,
        };
        self.samples.lock().expect("one thread").push(sample);
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.bbr.on_congestion(congestion);
    }

    fn on_undo(&mut self, now: Instant) {
        self.bbr.on_undo(now);
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.bbr.on_idle(idle);
    }

    fn on_lost(&mut self, loss: &Loss) {
        self.bbr.on_lost(loss);
    }

    fn verdict(&self) -> Verdict {
        self.bbr.verdict()
    }

    fn recovery(&self) -> Recovery {
        self.bbr.recovery()
    }
}

fn with(params: Params) -> Factory {
    Factory::new(move |config| Box::new(Bbr3::with(config, params).expect("valid")))
}

fn watch(params: Params, links: [LinkConfig; 2], bytes: u64) -> Vec<AckSample> {
    let samples = Samples::default();
    let seen = samples.clone();
    let build = move |config: &_| -> Box<dyn Controller> {
        Box::new(Watched {
            bbr: Bbr3::with(config, params).expect("valid"),
            samples: seen.clone(),
        })
    };
    let sender = TcpConfig {
        congestion: Factory::new(build),
        ..TcpConfig::default()
    };
    run(&Transfer {
        bytes,
        links,
        sender,
        ..Transfer::default()
    });
    let samples = samples.lock().expect("one thread");
    samples.clone()
}

#[test]
fn startup_finds_the_bandwidth_in_log_bdp_rounds() {
    let rounds = |params, mbit: u64| {
        let samples = watch(params, path(mbit, ms(40)), (mbit * 1_000_000 / 8) / 2);
        let end = samples
            .iter()
            .find(|sample| sample.state != "Startup")
            .expect("the pipe was full");
        let share = end.max_bw.as_bits_per_sec() as f64 / (mbit * 1_000_000) as f64;
        assert!(
            (0.9..1.02).contains(&share),
            "{mbit} Mbit/s: {}",
            end.max_bw
        );
        end.round
    };
    let wanted = |mbit: u64| {
        let bdp = mbit * 1_000_000 / 8 / 25 / MSS;
        // Beyond the doublings: the handshake, the first window, what samples lag behind, three of
        // plateau.
        u64::from((bdp / 10).next_power_of_two().ilog2()) + 7
    };
    for mbit in [5, 50, 100] {
        assert!(
            rounds(Params::default(), mbit) <= wanted(mbit),
            "{mbit} Mbit/s"
        );
    }
    // Without the gain the search takes its time.
    let timid = Params {
        startup_pacing_gain: 1.25,
        cwnd_gain: 1.25,
        full_bw_growth: 1.02,
        ..Params::default()
    };
    assert!(rounds(timid, 50) > wanted(50));
}

#[test]
fn probe_rtt_comes_every_five_seconds_with_half_the_flight() {
    let [there, back] = path(10, ms(40));
    let probes = |interval| {
        let params = Params {
            probe_rtt_interval: Some(Duration::from_secs(interval)),
            ..Params::default()
        };
        let samples = watch(params, [there.clone(), back.clone()], 19 << 20);
        let begins = samples
            .windows(2)
            .filter(|two| two[0].state != "ProbeRTT" && two[1].state == "ProbeRTT");
        let begins: Vec<f64> = begins.map(|two| two[1].at.as_secs_f64()).collect();
        let least = samples
            .iter()
            .filter(|sample| sample.state == "ProbeRTT")
            .map(|sample| sample.in_flight)
            .min();
        (begins, least)
    };
    let (begins, least) = probes(5);
    assert!(begins.len() >= 2, "{begins:?}");
    assert!(
        begins
            .windows(2)
            .all(|two| (5.0..5.6).contains(&(two[1] - two[0]))),
        "{begins:?}"
    );
    assert!(
        least.expect("there was one") <= Bytes::new(25_000 + MSS),
        "half of 50 kB: {least:?}"
    );
    assert_eq!(probes(60), (vec![], None));
}

/// Goodput in Mbit/s over 50 Mbit/s and 200 ms, with `loss` percent of the packets lost on the way
/// there.
fn goodput(congestion: Factory, loss: f64, bytes: u64) -> f64 {
    let [there, back] = path(50, ms(200));
    let there = LinkConfig {
        impair: Impairments {
            loss: percent(loss),
            ..Impairments::default()
        },
        ..there
    };
    let sender = TcpConfig {
        congestion,
        ..TcpConfig::default()
    };
    let outcome = run(&Transfer {
        bytes,
        links: [there, back],
        sender,
        ..Transfer::default()
    });
    outcome.goodput.as_bits_per_sec() as f64 / 1e6
}

/// A dozen rounds fit between two probes on this path. On shorter ones, where there are up to 63,
/// more is given up.
#[test]
fn one_percent_of_random_loss_costs_less_than_a_tenth_where_cubic_collapses() {
    let bbr = |params, loss| goodput(with(params), loss, 64 << 20);
    let (clean, lossy) = (bbr(Params::default(), 0.0), bbr(Params::default(), 1.0));
    let cubic = goodput(Algorithm::Cubic.factory(), 1.0, 1 << 20);
    // Any loss bounds a probe, and bounds have no floor.
    let touchy = bbr(
        Params {
            loss_threshold: 0.0,
            beta: 0.0,
            ..Params::default()
        },
        1.0,
    );
    println!("{clean} without loss, {lossy} with 1 %; CUBIC {cubic}; touchy {touchy} Mbit/s");
    assert!(lossy > clean * 0.9, "{lossy} of {clean} Mbit/s");
    assert!(cubic < clean * 0.1, "CUBIC: {cubic} Mbit/s");
    assert!(touchy < clean * 0.9, "touchy: {touchy} Mbit/s");
}

/// 20 Mbit/s and 40 ms with a buffer of `bdp` bandwidth-delay products.
fn buffered(bdp: f64) -> [LinkConfig; 2] {
    let [_, back] = path(20, ms(40));
    [
        LinkConfig::bottleneck(Rate::mbit(20), ms(20), ms((40.0 * bdp) as u64)),
        back,
    ]
}

fn stream(congestion: Factory, begins: u64) -> Contestant {
    Contestant::new(congestion).starting_at(ms(begins))
}

/// Goodput of each of `streams` achieved over `links` between `from` and `end`.
fn compete(
    links: &[LinkConfig; 2],
    streams: &[Contestant],
    from: Duration,
    end: Duration,
) -> Vec<Share> {
    shares(&contest(links, streams, end, 1), from)
}

/// Share of the first stream in the goodput of both.
fn share_of_first(shares: &[Share]) -> f64 {
    let [first, second] =
        [0, 1].map(|number: usize| shares[number].goodput.as_bits_per_sec() as f64);
    assert!(first + second > 16e6, "{shares:?}: the path is idle");
    first / (first + second)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn two_flows_converge() {
    let share = |params| {
        let flows = [stream(with(params), 0), stream(with(params), 3_000)];
        share_of_first(&compete(&buffered(1.0), &flows, SECOND * 15, SECOND * 35))
    };
    // Without a probe that asks for more and a phase that gives way, what the first one took
    // remains.
    let rigid = Params {
        up_pacing_gain: 1.0,
        down_pacing_gain: 1.0,
        headroom: 0.0,
        ..Params::default()
    };
    let (converged, kept) = (share(Params::default()), share(rigid));
    println!("{converged}, rigid {kept}");
    assert!((0.35..0.65).contains(&converged), "{converged}");
    assert!(kept > 0.65 && kept > converged + 0.05, "{kept}");
}

#[test]
fn cubic_and_bbr_leave_each_other_room() {
    let share = |params, bdp| {
        let flows = [
            stream(with(params), 0),
            stream(Algorithm::Cubic.factory(), 0),
        ];
        share_of_first(&compete(&buffered(bdp), &flows, SECOND * 5, SECOND * 35))
    };
    let deaf = Params {
        loss_threshold: 1.0,
        beta: 1.0,
        ..Params::default()
    };
    let shares = [1.0, 4.0].map(|bdp| share(Params::default(), bdp));
    let without = share(deaf, 1.0);
    println!("{shares:?}; deaf {without}");
    assert!((0.3..0.7).contains(&shares[0]), "{shares:?}");
    assert!((0.2..0.6).contains(&shares[1]), "{shares:?}");
    assert!(without > shares[0] + 0.1);
}

#[test]
fn losses_in_a_shallow_buffer_stay_few() {
    let retransmitted = |congestion: Factory| {
        let flows = [stream(congestion.clone(), 0), stream(congestion, 100)];
        let shares = compete(&buffered(0.2), &flows, SECOND * 3, SECOND * 18);
        share_of_first(&shares);
        (shares[0].retransmitted + shares[1].retransmitted) / 2.0
    };
    let deaf = Params {
        loss_threshold: 1.0,
        beta: 1.0,
        ..Params::default()
    };
    let (v3, v1, without) = (
        with(Params::default()),
        Algorithm::Bbr.factory(),
        with(deaf),
    );
    let [v3, v1, without] = [v3, v1, without].map(retransmitted);
    println!("v3 {v3}, v1 {v1}, deaf {without}");
    assert!(v3 < 0.02, "{v3}");
    assert!(v1 > v3 * 3.0, "v1 {v1}, v3 {v3}");
    assert!(without > 0.1, "{without}");
}
