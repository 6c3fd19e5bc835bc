//! Window-based controllers at work: their window is compared with bytes in flight, their rate with
//! departures, CUBIC follows its curve, and HyStart leaves slow start before the path overflows.
//! Each beside the same run without the mechanism.

use std::time::Duration;

use crate::common::{FRAME, MSS, ms, path, run, run_watched, sender_info, wide};
use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::hystart::HystartPlusPlus;
use tautline_cc::hystart_classic::Hystart;
use tautline_cc::slow_start::{SlowStart, Step};
use tautline_cc::{
    Ack, Algorithm, Config, Congestion, Controller, Cubic, Factory, Idle, Recovery, Verdict,
};
use tautline_sim::{LinkConfig, Transfer};
use tautline_stack::{Pacing, TcpConfig, TcpInfo, TsqLimit};

const WINDOW_BASED: [Algorithm; 5] = [
    Algorithm::Reno,
    Algorithm::Cubic,
    Algorithm::CubicLinux,
    Algorithm::Dctcp,
    Algorithm::Prague,
];

fn factory<C: Controller + 'static>(
    build: impl Fn(&Config) -> C + Send + Sync + 'static,
) -> Factory {
    Factory::new(move |config| Box::new(build(config)))
}

/// Runs `transfer` and shows the sending connection at every step.
fn watch_sender(transfer: &Transfer, mut watch: impl FnMut(Instant, &TcpInfo)) {
    run_watched(transfer, |network| {
        if let Some(info) = sender_info(network) {
            watch(network.now(), &info);
        }
    });
}

/// A window of fifty segments that falls to five after a thousand acknowledgments.
#[derive(Clone, Copy)]
struct Shrinking {
    acks: u32,
}

impl Controller for Shrinking {
    fn name(&self) -> &'static str {
        "shrinking"
    }

    fn on_ack(&mut self, _ack: &Ack) {
        self.acks += 1;
    }

    fn on_congestion(&mut self, _congestion: &Congestion) {}

    fn on_undo(&mut self, _now: Instant) {}

    fn on_idle(&mut self, _idle: &Idle) {}

    fn verdict(&self) -> Verdict {
        let cwnd = Bytes::new(MSS * if self.acks < 1000 { 50 } else { 5 });
        Verdict {
            cwnd,
            ssthresh: Bytes::MAX,
            pacing_rate: Rate::MAX,
            burst: Bytes::new(2 * FRAME),
        }
    }

    fn recovery(&self) -> Recovery {
        Recovery::Controller
    }
}

/// Two well-known stacks compare the window with what they are about to send: every segment fits,
/// and nothing bounds the flight.
#[test]
fn the_window_is_compared_with_bytes_in_flight_not_with_the_next_send() {
    let sender = TcpConfig {
        congestion: factory(|_| Shrinking { acks: 0 }),
        pacing: Pacing::Off,
        tsq: TsqLimit::Off,
        ..TcpConfig::default()
    };
    let transfer = Transfer {
        bytes: 3 << 20,
        links: path(50, ms(40)),
        sender,
        ..Transfer::default()
    };
    let (mut before, mut above, mut narrow) = (Bytes::ZERO, 0_u32, 0_u32);
    watch_sender(&transfer, |now, info| {
        assert!(
            info.in_flight <= info.cwnd.max(before),
            "at {now}: {info:?}"
        );
        above += u32::from(info.in_flight > info.cwnd);
        narrow += u32::from(info.cwnd == Bytes::new(5 * MSS) && info.in_flight == info.cwnd);
        before = info.in_flight;
    });
    assert!(
        above > 10,
        "the flight was above the window at {above} steps, in which nothing may leave"
    );
    assert!(
        narrow > 100,
        "the small window was full at {narrow} steps only"
    );
}

/// How far departures ever were ahead of the pacing rate in force, in bytes; and the allowance of
/// the last verdict.
fn ahead_of_the_rate(algorithm: Algorithm, pacing: Pacing) -> (u64, u64) {
    let sender = TcpConfig {
        congestion: algorithm.factory(),
        pacing,
        ..TcpConfig::default()
    };
    let transfer = Transfer {
        bytes: 6 << 20,
        links: path(50, ms(20)),
        sender,
        receiver: wide(),
        ..Transfer::default()
    };
    let mut last: Option<(Instant, Rate, u64)> = None;
    let (mut level, mut worst, mut allowance) = (0_u64, 0_u64, 0_u64);
    watch_sender(&transfer, |now, info| {
        if let Some((then, rate, sent)) = last {
            // The rate counts payload, and may have changed within the step.
            let drained = (rate.max(info.pacing_rate) * (now - then)).get();
            level = level.saturating_sub(drained) + (info.segments_out - sent) * MSS;
            allowance =
                allowance.max(tautline_cc::burst(rate.max(info.pacing_rate), info.mss).get());
            worst = worst.max(level);
        }
        last = Some((now, info.pacing_rate, info.segments_out));
    });
    (worst, allowance)
}

#[test]
fn the_pacing_rate_of_every_controller_bounds_its_departures() {
    for algorithm in WINDOW_BASED {
        let (worst, allowance) = ahead_of_the_rate(algorithm, Pacing::Internal);
        // The burst, the segment that is due, and one born in the step in which the rate fell.
        assert!(
            worst <= allowance + 3 * FRAME,
            "{algorithm}: {worst} bytes ahead, a burst is {allowance}"
        );
    }
    let (unpaced, allowance) = ahead_of_the_rate(Algorithm::Cubic, Pacing::Off);
    assert!(
        unpaced > allowance + 10 * FRAME,
        "{unpaced} bytes ahead without pacing, a burst is {allowance}"
    );
}

/// One epoch of congestion avoidance as RFC 9438 §4.2 has it.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    since: Instant,
    plateau: f64,
    k: f64,
}

impl Epoch {
    fn window(&self, t: Duration) -> f64 {
        0.4 * (t.as_secs_f64() - self.k).powi(3) + self.plateau
    }
}

#[test]
fn cubic_follows_its_curve_from_loss_to_loss() {
    let sender = TcpConfig {
        congestion: Algorithm::Cubic.factory(),
        ..TcpConfig::default()
    };
    let transfer = Transfer {
        bytes: 48 << 20,
        links: path(20, ms(100)),
        sender,
        ..Transfer::default()
    };
    let (mut before_loss, mut plateau, mut epoch) = (0.0, f64::MAX, None::<Epoch>);
    let (mut recovering, mut compared, mut epochs, mut worst) = (false, 0_u32, 0_u32, 0.0_f64);
    watch_sender(&transfer, |now, info| {
        let cwnd = info.cwnd.get() as f64 / info.mss.get() as f64;
        if info.recovering && !recovering {
            // Fast convergence: a window below the last plateau lowers the next one.
            plateau = if before_loss < plateau && epoch.is_some() {
                before_loss * 0.85
            } else {
                before_loss
            };
            epoch = None;
        }
        if !info.recovering && recovering {
            let k = ((plateau - cwnd) / 0.4).cbrt();
            epoch = Some(Epoch {
                since: now,
                plateau,
                k,
            });
            epochs += 1;
        }
        if let Some(epoch) = epoch {
            // The window reaches, within a round trip, where the curve will be a round trip ahead.
            let age = now - epoch.since;
            if age > 3 * info.srtt {
                let (low, high) = (epoch.window(age - info.srtt), epoch.window(age + info.srtt));
                let off = (low - cwnd).max(cwnd - high).max(0.0) / cwnd;
                worst = worst.max(off);
                compared += 1;
            }
        }
        recovering = info.recovering;
        before_loss = if info.recovering { before_loss } else { cwnd };
    });
    assert!(
        epochs >= 2 && compared > 5_000,
        "{epochs} epochs, {compared} comparisons"
    );
    assert!(worst < 0.02, "off the curve by {:.1} %", worst * 100.0);
}

/// RFC 5681: no way out of slow start but loss.
#[derive(Clone)]
struct Plain;

impl SlowStart for Plain {
    fn on_ack(&mut self, ack: &Ack, _before: impl FnOnce() -> Verdict) -> Step {
        Step::Grow(ack.acked)
    }
}

#[test]
fn both_hystarts_leave_slow_start_with_fewer_drops_than_none() {
    // HyStart++ compares rounds: where the first round with a queue overflows the buffer already,
    // it comes late.
    for (buffer, at_most) in [(ms(50), 0.8), (ms(200), 0.5)] {
        let drops = |congestion: Factory| {
            let sender = TcpConfig {
                congestion,
                ..TcpConfig::default()
            };
            let [_, back] = path(40, ms(50));
            let there = LinkConfig::bottleneck(Rate::mbit(40), ms(25), buffer);
            run(&Transfer {
                bytes: 4 << 20,
                links: [there, back],
                sender,
                receiver: wide(),
                ..Transfer::default()
            })
            .links[0]
                .drops() as f64
        };
        let plain = drops(factory(|config| Cubic::with_slow_start(config, Plain)));
        assert!(plain > 100.0, "{plain} drops: the path hardly overflowed");
        let exits = [
            (
                "HyStart++",
                drops(factory(|config| {
                    Cubic::with_slow_start(config, HystartPlusPlus::new())
                })),
            ),
            (
                "HyStart",
                drops(factory(|config| {
                    Cubic::with_slow_start(config, Hystart::new(config))
                })),
            ),
            ("Linux", drops(Algorithm::CubicLinux.factory())),
        ];
        for (name, drops) in exits {
            assert!(
                drops <= at_most * plain,
                "{name}: {drops} drops, {plain} without, a buffer of {buffer:?}"
            );
        }
    }
}

/// Linux's HyStart takes a train half as long for a full path when the sender does not pace; the
/// transport tells it.
#[test]
fn hystart_is_told_whether_the_sender_paces() {
    for (pacing, paced) in [
        (Pacing::Internal, true),
        (Pacing::Qdisc, true),
        (Pacing::Off, false),
    ] {
        let congestion = Factory::new(move |config| {
            assert_eq!(config.paced, paced, "{pacing:?}");
            Algorithm::CubicLinux.build(config)
        });
        run(&Transfer {
            sender: TcpConfig {
                congestion,
                pacing,
                ..TcpConfig::default()
            },
            ..Transfer::default()
        });
    }
}
