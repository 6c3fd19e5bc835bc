//! With explicit congestion notification a bottleneck says "slow down" by marking what it would
//! have dropped: the same goodput and the same queue, and nothing to send again. Controllers that
//! answer to the share of marks hold the queue far shorter still.

use std::time::Duration;

use crate::common::{long_wire, ms, path, run_recorded};
use tautline_base::{Ecn, Instant, Rate};
use tautline_cc::Algorithm;
use tautline_sim::{LinkEvent, LinkEventKind, NicConfig, Outcome, Record, Transfer};
use tautline_stack::{EcnMode, EcnState, TcpConfig, TsqLimit};

/// How long data frames stayed in the queue of the link there, once the start was over.
struct Sojourns {
    after: Instant,
    times: Vec<Duration>,
    codepoints: Vec<Ecn>,
}

impl Sojourns {
    fn since(start: Duration) -> Self {
        Self {
            after: Instant::ZERO + start,
            times: Vec::new(),
            codepoints: Vec::new(),
        }
    }

    fn percentile(&mut self, percent: usize) -> Duration {
        self.times.sort();
        self.times[self.times.len() * percent / 100]
    }

    fn mean(&self) -> Duration {
        self.times.iter().sum::<Duration>() / self.times.len() as u32
    }

    fn carried(&self, codepoint: Ecn) -> bool {
        self.codepoints.contains(&codepoint)
    }
}

impl Record for Sojourns {
    fn on_link(&mut self, link: usize, event: &LinkEvent, frame: &[u8]) {
        if let LinkEventKind::Serialized { sojourn } = event.kind
            && link == 0
            && event.at > self.after
            && frame.len() > 1000
        {
            self.times.push(sojourn);
            let codepoint = Ecn::of_tos(frame[15]);
            if !self.carried(codepoint) {
                self.codepoints.push(codepoint);
            }
        }
    }
}

/// `bytes` through a router of `mbit` with `queue` over `rtt`, both ends in `mode`.
fn at_router(
    cc: Algorithm,
    mode: EcnMode,
    queue: &str,
    mbit: u64,
    rtt: Duration,
    bytes: u64,
) -> (Outcome, Sojourns) {
    let [mut there, back] = path(mbit, rtt);
    there.queue = queue.parse().expect("valid");
    let tcp = TcpConfig {
        ecn: mode,
        ..TcpConfig::default()
    };
    let sender = TcpConfig {
        congestion: cc.factory(),
        ..tcp.clone()
    };
    let transfer = Transfer {
        bytes,
        links: [there, back],
        sender,
        receiver: tcp,
        ..Transfer::default()
    };
    run_recorded(&transfer, Sojourns::since(ms(1500)))
}

/// RFC 3168 and RFC 9768 with CUBIC: what CoDel dropped it marks now.
#[test]
fn marks_take_the_place_of_losses() {
    for queue in ["codel limit 400 ecn", "fq_codel limit 400 ecn"] {
        let run = |mode| at_router(Algorithm::Cubic, mode, queue, 10, ms(20), 8 << 20);
        let (without, mut lossy) = run(EcnMode::Off);
        let dropped = without.links[0].drops();
        assert!(
            dropped > 0 && without.sender.retransmits >= dropped,
            "{queue}: {dropped} drops without ECN"
        );
        assert_eq!(
            (without.links[0].marked, without.sender.ecn),
            (0, EcnState::Off)
        );
        for (mode, state) in [
            (EcnMode::Request, EcnState::Classic),
            (EcnMode::AccEcn, EcnState::AccEcn),
        ] {
            let (with, mut marked) = run(mode);
            let marks = with.links[0].marked;
            println!(
                "{queue}, {mode:?}: {marks} marks, {} reductions, {:?}, {}; without: {dropped} drops, {:?}, {}",
                with.sender.ce_reductions,
                marked.percentile(50),
                with.goodput,
                lossy.percentile(50),
                without.goodput
            );
            assert_eq!(with.sender.ecn, state);
            assert_eq!(
                (
                    with.links[0].drops(),
                    with.sender.retransmits,
                    with.sender.timeouts
                ),
                (0, 0, 0),
                "{queue}, {mode:?}"
            );
            assert!(
                marks > 0 && with.sender.ce_reductions > 0,
                "{queue}, {mode:?}: {marks} marks"
            );
            assert!(
                with.goodput >= without.goodput.percent(98),
                "{queue}: {} and {}",
                with.goodput,
                without.goodput
            );
            assert!(
                marked.percentile(50) < lossy.percentile(50) + ms(5),
                "{queue}: the queue is as short"
            );
            assert!(
                marked.carried(Ecn::Ect0) && marked.carried(Ecn::Ce) && !marked.carried(Ecn::Ect1)
            );
        }
    }
}

/// The host's own qdisc marks too: the packet carries the mark out, and the peer echoes it.
#[test]
fn the_hosts_own_discipline_marks() {
    let run = |mode| {
        let nic = NicConfig {
            rate: Rate::mbit(10),
            ..NicConfig::default()
        };
        let tcp = TcpConfig {
            ecn: mode,
            ..TcpConfig::default()
        };
        let sender = TcpConfig {
            tsq: TsqLimit::Off,
            ..tcp.clone()
        };
        let qdisc = "fq_codel limit 400 ecn".parse().expect("valid");
        let links = long_wire(ms(20));
        let transfer = Transfer {
            bytes: 8 << 20,
            links,
            nic,
            qdisc,
            sender,
            receiver: tcp,
            ..Transfer::default()
        };
        run_recorded(&transfer, ()).0
    };
    let (without, with) = (run(EcnMode::Off), run(EcnMode::Request));
    assert!(without.hosts[0].dropped > 0 && without.sender.retransmits > 0);
    assert_eq!((with.hosts[0].dropped, with.sender.retransmits), (0, 0));
    assert!(with.sender.delivered_ce > 0 && with.sender.ce_reductions > 0);
    assert!(
        with.goodput >= without.goodput.percent(98),
        "{} and {}",
        with.goodput,
        without.goodput
    );
}

/// A path that takes everybody's marks away, and a queue that then has to drop: no worse than
/// without ECN.
#[test]
fn a_queue_that_does_not_mark_is_answered_by_losses_as_ever() {
    let run = |mode| {
        at_router(
            Algorithm::Cubic,
            mode,
            "codel limit 400 noecn",
            10,
            ms(20),
            4 << 20,
        )
        .0
    };
    let (without, with) = (run(EcnMode::Off), run(EcnMode::Request));
    assert_eq!(with.links[0].drops(), without.links[0].drops());
    assert_eq!(with.duration, without.duration, "packet by packet the same");
}

/// RFC 9331 and RFC 9332: Prague in DualPI2's low-latency queue waits less than a millisecond, at
/// the goodput that CUBIC has in the classic queue with its fifteen.
#[test]
fn prague_keeps_the_low_latency_queue_of_dualpi2_below_a_millisecond() {
    let run = |cc, mode| at_router(cc, mode, "dualpi2", 40, ms(10), 24 << 20);
    let (scalable, mut low) = run(Algorithm::Prague, EcnMode::AccEcn);
    let (classic, high) = run(Algorithm::Cubic, EcnMode::AccEcn);
    let (low_mean, low_95, high_mean) = (low.mean(), low.percentile(95), high.mean());
    println!(
        "prague: mean {low_mean:?}, 95 % {low_95:?}, {}, {} marks, {} retransmits; cubic: mean {high_mean:?}, {}",
        scalable.goodput, scalable.links[0].marked, scalable.sender.retransmits, classic.goodput
    );
    assert_eq!(scalable.sender.ecn, EcnState::AccEcn);
    assert!(low.carried(Ecn::Ect1) && !low.carried(Ecn::Ect0) && !low.carried(Ecn::NotEct));
    assert!(high.carried(Ecn::Ect0) && !high.carried(Ecn::Ect1));
    assert_eq!(
        (scalable.sender.retransmits, scalable.links[0].drops()),
        (0, 0)
    );
    assert!(low_mean < ms(1), "mean {low_mean:?}");
    assert!(
        high_mean > 3 * low_mean,
        "the classic queue stands at {high_mean:?}"
    );
    assert!(
        scalable.goodput >= classic.goodput.percent(90),
        "{} and {}",
        scalable.goodput,
        classic.goodput
    );
    // Without AccECN at the other end it may not enter that queue, and does not.
    let (alone, there) = run(Algorithm::Prague, EcnMode::Accept);
    assert_eq!(alone.sender.ecn, EcnState::Classic);
    assert_eq!(there.codepoints, [Ecn::NotEct]);
}

/// RFC 8257: a queue that marks whatever waits longer than a threshold stays near it, and the link
/// stays busy; who halves its window for every mark empties the queue each time.
#[test]
fn dctcp_keeps_a_step_marking_queue_near_its_threshold() {
    let queue = "codel limit 1000 target 100ms interval 1s ce_threshold 2ms ecn";
    let run = |cc| at_router(cc, EcnMode::Request, queue, 40, ms(10), 24 << 20);
    let (with, mut near) = run(Algorithm::Dctcp);
    let (without, mut swinging) = run(Algorithm::Reno);
    let (median, high, low) = (
        near.percentile(50),
        near.percentile(95),
        near.percentile(10),
    );
    println!(
        "dctcp: 10/50/95 % {low:?} {median:?} {high:?}, {}, {} marks, {} reductions; reno: 10/50/95 % {:?} {:?} {:?}, {}, {} marks",
        with.goodput,
        with.links[0].marked,
        with.sender.ce_reductions,
        swinging.percentile(10),
        swinging.percentile(50),
        swinging.percentile(95),
        without.goodput,
        without.links[0].marked
    );
    assert_eq!((with.sender.retransmits, with.links[0].drops()), (0, 0));
    // One flow with a window of 40 packets swings by half of √80 packets, 1.4 ms, below the
    // threshold (RFC 8257's references).
    assert!(
        (ms(1)..ms(3)).contains(&high),
        "{high:?}: the threshold is 2 ms"
    );
    assert!(median > high / 4, "{median:?}: a swing, not a collapse");
    assert!(
        low > swinging.percentile(10),
        "{low:?}: it does not swing as far"
    );
    assert!(
        with.links[0].marked > without.links[0].marked,
        "many small answers, not few large ones"
    );
    assert!(
        with.goodput >= without.goodput.percent(120),
        "{} and {}",
        with.goodput,
        without.goodput
    );
}
