//! CUBIC as in Linux 6.1 to 6.12 (`net/ipv4/tcp_cubic.c`), for comparisons with Linux senders.
//!
//! Differences from RFC 9438 and [`Cubic`](crate::Cubic):
//!
//! | here | RFC 9438 |
//! |---|---|
//! | whole packets, 717/1024, a growth law in integers and clock ticks | §4.2 to §4.7 in real numbers |
//! | [`Hystart`] leaves slow start at once, and again after every timeout | HyStart++, initial slow start only |
//! | a mark leaves two packets | one |
//! | an undo restores window and threshold, not the curve | the whole state |
//! | time counts while the application limits; only pauses do not | counts while the window limits |

use core::time::Duration;

use tautline_base::Instant;

use crate::config::Config;
use crate::controller::{Ack, Idle, Model, Signal, Verdict};
use crate::episode::Episode;
use crate::hystart_classic::Hystart;
use crate::packets::PacketWindow;
use crate::slow_start::{SlowStart, Step};
use crate::window_controller::{CongestionWindow, WindowController, WindowLaw};

mod growth;

use growth::Growth;

/// Linux's CUBIC for one connection.
pub type CubicLinux = WindowController<CubicLinuxLaw>;

/// The law of [`CubicLinux`].
#[derive(Clone, Debug)]
pub struct CubicLinuxLaw {
    config: Config,
    window: PacketWindow,
    growth: Growth,
    /// `None` once HyStart has left slow start, until a timeout.
    hystart: Option<Hystart>,
    /// Send time of the latest segment known to be delivered.
    last_sent: Instant,
}

impl CubicLinux {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let law = CubicLinuxLaw {
            config: *config,
            window: PacketWindow::new(config),
            growth: Growth::new(config.tick),
            hystart: Some(Hystart::new(config)),
            last_sent: Instant::ZERO,
        };
        Self::with_law(law, config)
    }
}

impl WindowLaw for CubicLinuxLaw {
    const NAME: &'static str = "cubic-linux";
    type Window = PacketWindow;

    #[inline]
    fn window(&self) -> &PacketWindow {
        &self.window
    }

    fn window_mut(&mut self) -> &mut PacketWindow {
        &mut self.window
    }

    /// `cubictcp_acked`: ignores the round trips of the first second after a reduction.
    #[inline]
    fn observe(&mut self, ack: &Ack, before: impl FnOnce() -> Verdict) {
        let Some(rtt) = ack.rtt else { return };
        self.last_sent = ack.now - rtt;
        if !self.growth.on_rtt(rtt, ack.now) || !self.window.in_slow_start() {
            return;
        }
        if let Some(hystart) = &mut self.hystart
            && hystart.on_ack(ack, before) == Step::Leave
        {
            self.hystart = None;
            self.window.ssthresh = Some(self.window.cwnd);
        }
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, episode: &mut Episode, _before: impl FnOnce() -> Verdict) {
        let mut packets = self.window.packets(ack.acked);
        if !episode.on_ack(ack) || !ack.cwnd_limited {
            return;
        }
        if self.window.in_slow_start() {
            packets = self.window.slow_start(packets);
            if packets == 0 {
                return;
            }
        }
        let cwnd = self.window.cwnd;
        let per = self.growth.packets_per_growth(cwnd, packets, ack.now);
        self.window.avoid(packets, per);
    }

    fn reduce(&mut self, _signal: Signal) {
        let reduced = self.growth.reduce(self.window.cwnd);
        self.window.cut(reduced);
    }

    fn on_timeout(&mut self) {
        self.growth = Growth::new(self.config.tick);
        self.hystart = Some(Hystart::new(&self.config));
    }

    fn adopt(&mut self, before: &Verdict) {
        self.window.adopt(before);
        self.growth.clear_curve();
    }

    fn undo(&mut self, before: Self) {
        self.window.undo(&before.window);
    }

    /// Linux counts from the last transmission, a round trip before the flight was empty.
    fn idle_time(&self, idle: &Idle, srtt: Duration) -> Duration {
        (idle.now - self.last_sent).min(idle.idle.saturating_add(srtt))
    }

    fn resume(&mut self, now: Instant, idle: Duration) {
        self.growth.pause(idle, now);
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
