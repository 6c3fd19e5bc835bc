//! CUBIC as Linux 6.1 to 6.12 has it, for comparisons with Linux senders (`spec/tcp.md` §2.3).
//!
//! Where it departs from RFC 9438, and [`Cubic`](crate::Cubic) with it:
//!
//! | here | RFC 9438 |
//! |---|---|
//! | whole packets, 717/1024, a growth law in integers and clock ticks | §4.2 to §4.7 in real numbers |
//! | [`Hystart`] leaves slow start at once, and again after every timeout | HyStart++, initial slow start only |
//! | a mark leaves two packets | one |
//! | an undo gives window and threshold back, not the curve | the whole state |
//! | time goes on while the application limits; only pauses are left out | counts while the window limits |

use tautline_base::Instant;

use crate::config::Config;
use crate::controller::{Ack, Congestion, Controller, Idle, Model, Signal, Underuse, Verdict};
use crate::episode::Episode;
use crate::hystart_classic::Hystart;
use crate::pacing::WindowPacing;
use crate::packets::PacketWindow;
use crate::slow_start::{SlowStart, Step};

mod growth;

use growth::Growth;

/// Linux's CUBIC of one connection.
#[derive(Clone, Debug)]
pub struct CubicLinux {
    config: Config,
    pacing: WindowPacing,
    episode: Episode,
    window: PacketWindow,
    growth: Growth,
    /// `None` once it found the way out, until a timeout.
    hystart: Option<Hystart>,
    /// When the latest segment known to be delivered was sent.
    last_sent: Instant,
    /// The window before the last reduction that may prove spurious.
    before: Option<PacketWindow>,
    verdict: Verdict,
}

impl CubicLinux {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let window = PacketWindow::new(config);
        let pacing = WindowPacing::new(config.pacing, window.mss());
        let (cwnd, ssthresh) = window.in_bytes();
        Self {
            config: *config,
            pacing,
            episode: Episode::Open,
            window,
            growth: Growth::new(config.tick),
            hystart: Some(Hystart::new(config)),
            last_sent: Instant::ZERO,
            before: None,
            verdict: pacing.verdict(cwnd, ssthresh),
        }
    }

    fn conclude(&mut self) {
        let (cwnd, ssthresh) = self.window.in_bytes();
        self.verdict = self.pacing.verdict(cwnd, ssthresh);
    }

    /// A round trip was measured. Those of the first second after a reduction count for nothing.
    fn take_rtt(&mut self, ack: &Ack) {
        let Some(rtt) = ack.rtt else { return };
        self.last_sent = ack.now - rtt;
        if !self.growth.take_rtt(rtt, ack.now) || !self.window.in_slow_start() {
            return;
        }
        if let Some(hystart) = &mut self.hystart
            && hystart.on_ack(ack, &self.verdict) == Step::Leave
        {
            self.hystart = None;
            self.window.ssthresh = Some(self.window.cwnd);
        }
    }

    fn grow(&mut self, mut packets: u64, now: Instant) {
        if self.window.in_slow_start() {
            packets = self.window.slow_start(packets);
            if packets == 0 {
                return;
            }
        }
        let per = self
            .growth
            .packets_per_growth(self.window.cwnd, packets, now);
        self.window.avoid(packets, per);
    }
}

impl Controller for CubicLinux {
    fn name(&self) -> &'static str {
        "cubic-linux"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.pacing.on_ack(ack);
        self.take_rtt(ack);
        let packets = self.window.packets(ack.acked);
        if self.episode.on_ack(ack) && ack.cwnd_limited {
            self.grow(packets, ack.now);
        }
        self.conclude();
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.pacing.on_congestion(congestion.in_flight);
        if self.episode.on_signal(congestion.signal) {
            self.before = Some(self.window);
            let reduced = self.growth.reduce(self.window.cwnd);
            self.window.cut(reduced);
        }
        match congestion.signal {
            Signal::Timeout => {
                self.window.restart(congestion.in_flight);
                self.growth = Growth::new(self.config.tick);
                self.hystart = Some(Hystart::new(&self.config));
            }
            // Marks and local drops are no guesses: there is nothing to undo.
            Signal::Ce | Signal::LocalDrop => self.before = None,
            Signal::Loss => {}
        }
        self.conclude();
    }

    fn on_undo(&mut self, _now: Instant) {
        self.episode = Episode::Open;
        if let Some(before) = self.before.take() {
            self.window.undo(&before);
        }
        self.conclude();
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.pacing.on_idle();
        // Linux counts from the last transmission, which is a round trip before nothing was in
        // flight.
        let since_sent =
            (idle.now - self.last_sent).min(idle.idle.saturating_add(self.pacing.srtt()));
        if self.config.slow_start_after_idle {
            self.window
                .decay(since_sent, idle.rto, self.config.initial_window);
        }
        self.growth.pause(since_sent, idle.now);
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
        let state = if self.window.in_slow_start() {
            "slow-start"
        } else {
            "avoidance"
        };
        Model {
            state,
            min_rtt: self.growth.delay_min(),
            ..Model::default()
        }
    }
}
