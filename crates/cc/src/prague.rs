//! Prague (draft-briscoe-iccrg-prague-congestion-control, with the constants of the reference
//! implementation, L4STeam/linux `tcp_prague.c`): DCTCP made safe for the Internet, the scalable
//! controller of L4S (RFC 9330, RFC 9331).
//!
//! Additions to DCTCP:
//!
//! - Feedback is exact (AccECN), data carries ECT(1), and the share of marks has twenty bits.
//! - Unmarked bytes open the window at all times, also in the round after a reduction; marked bytes
//!   never do.
//! - A mark does not reduce the window while a loss is being repaired: the loss has halved it, and
//!   `tcp_enter_cwr`, which the reference relies on, does nothing in recovery. The share of marks is
//!   measured on.
//! - Once a connection is 500 round trips old, one with a short path grows and yields as if its
//!   path were 25 ms long. Otherwise it would starve connections with long paths.
//! - It is paced without surplus, and a late pacer may catch up by a quarter of a millisecond only,
//!   because the queues it aims for are that short.

use core::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::config::Config;
use crate::controller::{Ack, CongestionState, Ecn, Model, Recovery, Signal, Verdict};
use crate::episode::Episode;
use crate::mark_share::MarkShare;
use crate::pacing::{NOMINAL_RTT, PacingRatios};
use crate::rounds::Round;
use crate::window::Window;
use crate::window_controller::{WindowController, WindowLaw};

/// Round trip that a shorter path is treated as having ...
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// ... once this many round trips have passed.
const ROUNDS_BEFORE_VIRTUAL: u32 = 500;
/// Pacing gain in congestion avoidance, in percent.
const AVOIDANCE_PERCENT: u32 = 100;
/// A burst lasts 1/4096 s at most.
const BURST_TIME: Duration = Duration::from_nanos(1_000_000_000 / 4096);
/// Growth below a byte is kept in units of 2⁻²⁰ bytes.
const FRACTION_BITS: u32 = 20;

/// Prague for one connection.
pub type Prague = WindowController<PragueLaw>;

/// The law of [`Prague`].
#[derive(Clone, Debug)]
pub struct PragueLaw {
    window: Window,
    /// Growth too small for a whole byte, in 2⁻²⁰ bytes.
    fraction: u64,
    marks: Marks,
    clock: Clock,
}

/// The history of congestion marks.
#[derive(Clone, Copy, Debug)]
struct Marks {
    alpha: MarkShare<20>,
    /// A mark was seen; until then `alpha` is one.
    seen: bool,
    /// A mark was signaled that no acknowledgment has accounted for yet.
    signaled: bool,
    /// The present acknowledgment has accounted for a signaled mark.
    began: bool,
    /// The observation window.
    observed: Option<Period>,
    /// The window after a reduction, which allows no other reduction.
    reduced: Option<Period>,
}

/// Counts round trips and determines their (virtual) length.
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
    fn starting_at(ack: &Ack) -> Self {
        Self {
            round: Round::starting_at(ack),
            since: ack.now,
        }
    }

    fn is_over(&self, ack: &Ack, virtual_rtt: Duration) -> bool {
        self.round.is_over(ack) && ack.now - self.since >= virtual_rtt
    }
}

impl Clock {
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.srtt.is_zero() {
            self.srtt = ack.srtt;
        }
        if self.round.is_none_or(|round| round.is_over(ack)) {
            self.rounds = self.rounds.saturating_add(1);
            self.round = Some(Round::starting_at(ack));
        }
    }

    /// The connection is old enough and its path short enough for the virtual round trip.
    fn is_virtual(&self) -> bool {
        self.rounds > ROUNDS_BEFORE_VIRTUAL && self.srtt < VIRTUAL_RTT
    }

    #[inline]
    fn virtual_rtt(&self) -> Duration {
        if self.is_virtual() {
            VIRTUAL_RTT
        } else {
            self.srtt
        }
    }

    /// Factor of the additive increase in 2⁻²⁰: `(rtt / 25 ms)²` gives the growth per second of a
    /// path of 25 ms.
    #[inline]
    fn increase_scale(&self) -> u128 {
        if !self.is_virtual() {
            return 1 << FRACTION_BITS;
        }
        let ratio = (self.srtt.as_nanos() << FRACTION_BITS) / VIRTUAL_RTT.as_nanos();
        (ratio * ratio) >> FRACTION_BITS
    }
}

impl Marks {
    /// True when `ack` makes a reduction due.
    #[inline]
    fn on_ack(&mut self, ack: &Ack, virtual_rtt: Duration) -> bool {
        if self
            .reduced
            .is_some_and(|period| period.is_over(ack, virtual_rtt))
        {
            self.reduced = None;
        }
        self.began = core::mem::take(&mut self.signaled);
        let marked = self.began || ack.marked.get() > 0;
        let repairing = matches!(ack.state, CongestionState::Recovery | CongestionState::Loss);
        let due = marked && self.reduced.is_none() && !repairing;
        if due {
            self.reduced = Some(Period::starting_at(ack));
        }
        self.seen |= marked;
        due
    }

    /// Counts `ack`, and updates the average at the end of a window.
    #[inline]
    fn observe(&mut self, ack: &Ack, virtual_rtt: Duration) {
        self.alpha.count(ack);
        match self.observed {
            Some(period) if !period.is_over(ack, virtual_rtt) => return,
            Some(_) if self.seen => self.alpha.advance(),
            _ => self.alpha.clear(),
        }
        self.observed = Some(Period::starting_at(ack));
    }
}

impl Prague {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let law = PragueLaw {
            window: Window::new(config),
            fraction: 0,
            marks: Marks {
                alpha: MarkShare::new(),
                seen: false,
                signaled: false,
                began: false,
                observed: None,
                reduced: None,
            },
            clock: Clock {
                round: None,
                rounds: 0,
                srtt: NOMINAL_RTT,
            },
        };
        let pacing = PacingRatios {
            avoidance: AVOIDANCE_PERCENT,
            ..config.pacing
        };
        Self::with_law(law, &Config { pacing, ..*config })
    }
}

impl PragueLaw {
    /// Sets window and threshold to `to`, at least two segments.
    fn cut(&mut self, to: Bytes) {
        self.window.cut(to, 2);
        self.fraction = 0;
    }

    /// Opens the window for `unmarked` bytes.
    #[inline]
    fn grow(&mut self, unmarked: Bytes) {
        let left = self.window.slow_start(unmarked);
        let cwnd = u128::from(self.window.cwnd.get());
        let mss = u128::from(self.window.mss.get());
        let step = u128::from(left.get()).min(cwnd) * mss * self.clock.increase_scale() / cwnd;
        // One segment at most, in 2⁻²⁰ bytes.
        let grown = u128::from(self.fraction) + step;
        self.fraction = (grown & ((1 << FRACTION_BITS) - 1)) as u64;
        self.window
            .grow(Bytes::new((grown >> FRACTION_BITS) as u64));
    }
}

impl WindowLaw for PragueLaw {
    const NAME: &'static str = "prague";
    const ECN: Ecn = Ecn::L4s;
    type Window = Window;

    #[inline]
    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, _before: impl FnOnce() -> Verdict) {
        self.clock.on_ack(ack);
        let virtual_rtt = self.clock.virtual_rtt();
        if self.marks.on_ack(ack, virtual_rtt) {
            let cwnd = self.window.cwnd;
            self.cut(cwnd.saturating_sub(Bytes::new(self.marks.alpha.half_of(cwnd.get()))));
            // After a timeout the window is below the least that a mark cuts to.
            self.window.cwnd = self.window.cwnd.min(cwnd);
        }
        self.marks.observe(ack, virtual_rtt);
    }

    #[inline]
    fn answers_marks(&self, episode: Episode) -> bool {
        episode == Episode::Open
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, episode: &mut Episode, _before: impl FnOnce() -> Verdict) {
        let is_cwr = ack.state == CongestionState::Cwr;
        // The acknowledgment that ended the repair of a loss has begun the answer to a mark.
        if self.marks.began && is_cwr && matches!(episode, Episode::Reduced { .. }) {
            *episode = Episode::Open;
        }
        let marks_only = is_cwr && self.answers_marks(*episode);
        if (episode.on_ack(ack) || marks_only) && ack.cwnd_limited {
            self.grow(ack.acked.saturating_sub(ack.marked));
        }
    }

    /// Leaves marks to [`observe`](Self::observe), outside of any episode.
    fn on_signal(&mut self, signal: Signal, _episode: &mut Episode) -> bool {
        self.marks.signaled |= signal == Signal::Ce;
        signal != Signal::Ce
    }

    /// The answer to a loss, in the network or in this host.
    fn reduce(&mut self, _signal: Signal) {
        self.cut(self.window.cwnd / 2);
    }

    fn undo(&mut self, before: Self) {
        self.window.undo(&before.window);
    }

    fn model(&self) -> Model {
        let state = if self.clock.is_virtual() {
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

    /// The window itself answers marks; PRR spreads the answer to a loss.
    fn recovery(&self, episode: Episode) -> Recovery {
        match episode {
            Episode::Reduced { .. } => Recovery::Prr,
            Episode::Open | Episode::TimedOut { .. } => Recovery::Controller,
        }
    }

    #[inline]
    fn bound_burst(&self, verdict: &mut Verdict) {
        let short = verdict.pacing_rate * BURST_TIME;
        verdict.burst = short.min(verdict.burst).max(self.window.mss);
    }

    /// `prague_tso_segs`: a burst is short whatever the path.
    fn packet_segments(&self, _autosized: u64, verdict: impl FnOnce() -> Verdict) -> u64 {
        (verdict().burst.get() / self.window.mss.get()).max(1)
    }
}
