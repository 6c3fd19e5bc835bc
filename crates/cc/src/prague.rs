//! Prague (draft-briscoe-iccrg-prague-congestion-control, with the constants of the reference
//! implementation; `spec/tcp.md` §2.7): DCTCP made fit for the Internet, the scalable controller of
//! L4S (RFC 9330, RFC 9331).
//!
//! What it adds to DCTCP:
//!
//! - Feedback is exact (AccECN), data carries ECT(1), and the share of marks has twenty bits.
//! - Marked bytes do not open the window; the others do, all the time, also in the round after a
//!   reduction.
//! - Once a connection is 500 round trips old, one with a short path grows and yields as if its
//!   path were 25 ms long, or it would starve those with long ones.
//! - It is paced without surplus, and a late pacer may catch up by a quarter of a millisecond only:
//!   the queues it aims at are that short.

use core::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::config::Config;
use crate::controller::{
    Ack, Congestion, Controller, Ecn, Idle, Model, Phase, Recovery, Signal, Underuse, Verdict,
};
use crate::episode::Episode;
use crate::mark_share::MarkShare;
use crate::pacing::{PacingRatios, WindowPacing};
use crate::round::Round;
use crate::window::Window;

/// The path a connection with a shorter one is taken to have ...
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// ... when so many round trips have passed.
const ROUNDS_BEFORE_VIRTUAL: u32 = 500;
/// Pacing gain in congestion avoidance, in percent.
const AVOIDANCE_PERCENT: u32 = 100;
/// A burst lasts 1/4096 s at most.
const BURST_TIME: Duration = Duration::from_nanos(1_000_000_000 / 4096);
/// Growth below a byte is kept in units of 2⁻²⁰ bytes.
const FRACTION_BITS: u32 = 20;

/// Prague of one connection.
#[derive(Clone, Debug)]
pub struct Prague {
    config: Config,
    pacing: WindowPacing,
    /// The answer to losses and timeouts; marks are answered apart from it.
    episode: Episode,
    window: Window,
    /// Growth too small for a whole byte, in 2⁻²⁰ bytes.
    fraction: u64,
    /// The window before the last reduction that may prove spurious.
    before: Option<Window>,
    marks: Marks,
    clock: Clock,
    verdict: Verdict,
}

/// What is known of congestion marks.
#[derive(Clone, Copy, Debug)]
struct Marks {
    alpha: MarkShare<20>,
    /// A mark was seen; until then `alpha` stands at one.
    seen: bool,
    /// A mark was signalled that no acknowledgement has accounted for.
    signalled: bool,
    /// The observation window.
    observed: Option<Period>,
    /// The window after a reduction, in which no other is due.
    reduced: Option<Period>,
}

/// Round trips, real and virtual.
#[derive(Clone, Copy, Debug)]
struct Clock {
    round: Option<Round>,
    rounds: u32,
    srtt: Duration,
}

/// At least one round trip, real and virtual.
#[derive(Clone, Copy, Debug)]
struct Period {
    round: Round,
    since: Instant,
}

impl Period {
    fn after(ack: &Ack) -> Self {
        Self {
            round: Round::after(ack),
            since: ack.now,
        }
    }

    fn is_over(&self, ack: &Ack, virtual_rtt: Duration) -> bool {
        self.round.is_over(ack) && ack.now - self.since >= virtual_rtt
    }
}

impl Clock {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.srtt > Duration::ZERO {
            self.srtt = ack.srtt;
        }
        if self.round.is_none_or(|round| round.is_over(ack)) {
            self.rounds = self.rounds.saturating_add(1);
            self.round = Some(Round::after(ack));
        }
    }

    /// The connection is old enough and its path short enough to be taken for longer.
    fn pretends(&self) -> bool {
        self.rounds > ROUNDS_BEFORE_VIRTUAL && self.srtt < VIRTUAL_RTT
    }

    fn virtual_rtt(&self) -> Duration {
        if self.pretends() {
            VIRTUAL_RTT
        } else {
            self.srtt
        }
    }

    /// What additive increase is scaled by, in 2⁻²⁰: `(rtt / 25 ms)²` gives the growth per second
    /// of a path of 25 ms.
    fn increase_scale(&self) -> u128 {
        if !self.pretends() {
            return 1 << FRACTION_BITS;
        }
        let ratio = (self.srtt.as_nanos() << FRACTION_BITS) / VIRTUAL_RTT.as_nanos();
        (ratio * ratio) >> FRACTION_BITS
    }
}

impl Marks {
    /// Takes an acknowledgement in; true when a reduction is due.
    fn on_ack(&mut self, ack: &Ack, virtual_rtt: Duration) -> bool {
        if self
            .reduced
            .is_some_and(|period| period.is_over(ack, virtual_rtt))
        {
            self.reduced = None;
        }
        let marked = core::mem::take(&mut self.signalled) || ack.marked.get() > 0;
        let due = marked && self.reduced.is_none();
        if due {
            self.reduced = Some(Period::after(ack));
        }
        self.seen |= marked;
        due
    }

    /// Counts the acknowledgement; averages at the end of a window.
    fn observe(&mut self, ack: &Ack, virtual_rtt: Duration) {
        self.alpha.count(ack);
        match self.observed {
            Some(period) if !period.is_over(ack, virtual_rtt) => return,
            Some(_) if self.seen => self.alpha.advance(),
            _ => self.alpha.forget(),
        }
        self.observed = Some(Period::after(ack));
    }
}

impl Prague {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let window = Window::new(config);
        let ratios = PacingRatios {
            avoidance: AVOIDANCE_PERCENT,
            ..config.pacing
        };
        let pacing = WindowPacing::new(ratios, window.mss);
        let marks = Marks {
            alpha: MarkShare::new(),
            seen: false,
            signalled: false,
            observed: None,
            reduced: None,
        };
        let clock = Clock {
            round: None,
            rounds: 0,
            srtt: pacing.srtt(),
        };
        let verdict = pacing.verdict(window.cwnd, window.ssthresh);
        let episode = Episode::Open;
        let mut prague = Self {
            config: *config,
            pacing,
            episode,
            window,
            fraction: 0,
            before: None,
            marks,
            clock,
            verdict,
        };
        prague.conclude();
        prague
    }

    fn conclude(&mut self) {
        let Window {
            mss,
            cwnd,
            ssthresh,
        } = self.window;
        let verdict = self.pacing.verdict(cwnd, ssthresh);
        self.verdict = Verdict {
            burst: (verdict.pacing_rate * BURST_TIME)
                .min(verdict.burst)
                .max(mss),
            ..verdict
        };
    }

    /// Window and threshold become `to`, at least two segments.
    fn cut(&mut self, to: Bytes) {
        self.window.cut(to, 2);
        self.fraction = 0;
    }

    /// A loss, found in the network or in this host.
    fn halve(&mut self) {
        self.before = Some(self.window);
        self.cut(self.window.cwnd / 2);
    }

    /// Opens the window for what arrived without a mark.
    fn grow(&mut self, unmarked: Bytes) {
        let left = if self.window.in_slow_start() {
            self.window.slow_start(unmarked)
        } else {
            unmarked
        };
        let (cwnd, mss) = (
            u128::from(self.window.cwnd.get()),
            u128::from(self.window.mss.get()),
        );
        let step = u128::from(left.get()).min(cwnd) * mss * self.clock.increase_scale() / cwnd;
        // One segment at most, in 2⁻²⁰ bytes.
        let grown = u128::from(self.fraction) + step;
        self.fraction = (grown & ((1 << FRACTION_BITS) - 1)) as u64;
        self.window
            .grow(Bytes::new((grown >> FRACTION_BITS) as u64));
    }
}

impl Controller for Prague {
    fn name(&self) -> &'static str {
        "prague"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.pacing.on_ack(ack);
        self.clock.on_ack(ack);
        let virtual_rtt = self.clock.virtual_rtt();
        if self.marks.on_ack(ack, virtual_rtt) {
            let cwnd = self.window.cwnd;
            self.cut(cwnd.saturating_sub(Bytes::new(self.marks.alpha.half_of(cwnd.get()))));
        }
        self.marks.observe(ack, virtual_rtt);
        // While marks are answered the transport begins no recovery for a loss.
        if ack.phase == Phase::Cwr && ack.lost.get() > 0 && self.episode == Episode::Open {
            self.episode = Episode::Reduced { by: Signal::Loss };
            self.halve();
        }
        let answering_marks = ack.phase == Phase::Cwr && self.episode == Episode::Open;
        if (self.episode.on_ack(ack) || answering_marks) && ack.cwnd_limited {
            self.grow(ack.acked.saturating_sub(ack.marked));
        }
        self.conclude();
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.pacing.on_congestion(congestion.in_flight);
        if congestion.signal == Signal::Ce {
            self.marks.signalled = true;
            return;
        }
        if self.episode.on_signal(congestion.signal) {
            self.halve();
        }
        match congestion.signal {
            Signal::Timeout => self.window.restart(congestion.in_flight),
            // A local drop is no guess: there is nothing to undo.
            Signal::LocalDrop => self.before = None,
            Signal::Ce | Signal::Loss => {}
        }
        self.conclude();
    }

    fn on_undo(&mut self, _now: Instant) {
        self.episode = Episode::Open;
        if let Some(before) = self.before.take() {
            self.window.cwnd = self.window.cwnd.max(before.cwnd);
            self.window.ssthresh = self.window.ssthresh.max(before.ssthresh);
        }
        self.conclude();
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.pacing.on_idle();
        if self.config.slow_start_after_idle {
            self.window
                .decay(idle.idle, idle.rto, self.config.initial_window);
        }
        self.conclude();
    }

    fn on_underuse(&mut self, underuse: &Underuse) {
        if self.config.slow_start_after_idle {
            self.window
                .shrink_to_use(underuse.used, self.config.initial_window);
        }
        self.conclude();
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }

    fn adopt(&mut self, before: &Verdict) {
        self.window.adopt(before);
        self.conclude();
    }

    fn model(&self) -> Model {
        let state = if self.clock.pretends() {
            "rtt-independent"
        } else {
            ""
        };
        Model {
            state,
            alpha: Some(self.marks.alpha.fraction()),
            ..Model::default()
        }
    }

    fn ecn(&self) -> Ecn {
        Ecn::L4s
    }

    /// Marks are answered by the window itself; PRR spreads the answer to a loss.
    fn recovery(&self) -> Recovery {
        match self.episode {
            Episode::Reduced { .. } => Recovery::Prr,
            Episode::Open | Episode::TimedOut { .. } => Recovery::Controller,
        }
    }

    /// A burst is short whatever the path (Prague's own `tso_segs`).
    fn packet_segments(&self, _autosized: u64) -> u64 {
        (self.verdict.burst.get() / self.window.mss.get()).max(1)
    }
}
