//! Recovery phases (RFC 6675, RFC 5682, RFC 3522; Linux `tcp_ca_state`), and the evidence that a
//! reduction was needless.

mod prr;

use tautline_base::Bytes;
use tautline_cc::Signal;

pub(in crate::tcp) use self::prr::PrrAck;
pub use self::prr::Reduction;
use crate::seq;
use crate::tcp::info::TcpInfo;

/// Loss recovery.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Recovery {
    pub(super) phase: Phase,
    /// Evidence that would prove the latest reduction needless.
    pub(super) undo: Option<Box<Undo>>,
    pub(super) tail: TailProbe,
    /// The congestion window while PRR owns it.
    pub(super) window: Bytes,
    pub(super) counts: Counts,
    spare: Spare,
}

/// Allocations kept for the next loss until the connection is idle: a path that loses goes on to.
#[derive(Debug, Default)]
struct Spare {
    episode: Option<Box<Episode>>,
    undo: Option<Box<Undo>>,
}

/// `value` in the allocation in `spare`, or in a new one.
fn boxed<T>(spare: &mut Option<Box<T>>, value: T) -> Box<T> {
    match spare.take() {
        Some(mut memory) => {
            *memory = value;
            memory
        }
        None => Box::new(value),
    }
}

/// Totals for `info()`.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Counts {
    /// Fast recoveries.
    pub(in crate::tcp) recoveries: u32,
    /// Probes of the tail.
    pub(in crate::tcp) tail_probes: u32,
    /// Losses that only a probe of the tail repaired.
    pub(in crate::tcp) tail_losses: u32,
    /// Segments that the peer reports as duplicates.
    pub(in crate::tcp) duplicates: u32,
    /// Timeouts that proved spurious.
    pub(in crate::tcp) spurious_timeouts: u32,
    /// Reductions of the window for congestion marks.
    pub(in crate::tcp) ce_reductions: u32,
}

impl Recovery {
    pub(super) fn set_phase(&mut self, phase: Phase) {
        if let Phase::Recovery(episode) = std::mem::replace(&mut self.phase, phase) {
            self.spare.episode = Some(episode);
        }
    }

    /// Fast recovery begins.
    pub(super) fn enter(&mut self, episode: Episode) {
        self.set_phase(Phase::Open);
        self.phase = Phase::Recovery(boxed(&mut self.spare.episode, episode));
    }

    /// Nothing can prove the latest reduction needless any more. Returns the evidence so far.
    pub(super) fn take_undo(&mut self) -> Option<Undo> {
        let undo = self.undo.take()?;
        let evidence = *undo;
        self.spare.undo = Some(undo);
        Some(evidence)
    }

    /// True if there are spare allocations.
    pub(in crate::tcp) fn has_spare(&self) -> bool {
        self.spare.episode.is_some() || self.spare.undo.is_some()
    }

    /// Releases the spare allocations.
    pub(in crate::tcp) fn release_spare(&mut self) {
        self.spare = Spare::default();
    }

    /// A reduction without loss ends when a segment is acknowledged that was sent after it and
    /// carried its announcement, or when nothing is left that could report older marks (`empty`).
    pub(super) fn leave_cwr(&mut self, una: u64, empty: bool) {
        if let Phase::Recovery(episode) = &self.phase
            && episode.is_cwr()
            && (una > episode.high || empty)
        {
            self.set_phase(Phase::Open);
        }
    }

    /// A reduction begins at SND.UNA that may prove needless.
    pub(super) fn begin_undo(&mut self, una: u64, restores: bool) {
        let probe = match self.tail {
            TailProbe::Sent { again, .. } => again,
            TailProbe::None | TailProbe::Due => None,
        };
        self.take_undo();
        let undo = Undo::new(una, probe, restores);
        self.undo = Some(boxed(&mut self.spare.undo, undo));
    }

    /// A reduction that losses began was due in any case.
    pub(super) fn make_reduction_final(&mut self) {
        if let Some(undo) = &mut self.undo {
            undo.restores = false;
        }
    }

    /// Everything that was sent again had arrived before.
    pub(super) fn all_duplicated(&self) -> bool {
        self.undo.as_ref().is_some_and(|undo| undo.all_duplicated())
    }

    /// An acknowledgment proves that what it acknowledges only came late.
    pub(super) fn is_late(&self, proof: Proof) -> bool {
        self.undo.as_ref().is_some_and(|undo| undo.is_late(proof))
    }

    /// No loss is known.
    #[inline]
    pub(in crate::tcp::send) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// No loss is known, suspected or being judged.
    #[inline]
    pub(in crate::tcp::send) fn is_undisturbed(&self) -> bool {
        self.is_open() && self.undo.is_none() && self.tail == TailProbe::None
    }

    /// Retransmissions wait while forward RTO recovery tries new data.
    pub(in crate::tcp::send) fn is_trying_new_data(&self) -> bool {
        matches!(
            self.phase,
            Phase::Loss {
                frto: Frto::TryingNew,
                ..
            }
        )
    }

    /// Forward RTO recovery finds no new data to send beyond `nxt`: unless some has left,
    /// retransmissions go on.
    pub(in crate::tcp::send) fn end_trial(&mut self, nxt: u64) {
        if let Phase::Loss { high, frto } = &mut self.phase
            && *frto == Frto::TryingNew
            && nxt == *high
        {
            *frto = Frto::Off;
        }
    }

    /// Bytes were sent, new or again.
    pub(in crate::tcp::send) fn on_sent(&mut self, bytes: Bytes) {
        if let Phase::Recovery(episode) = &mut self.phase {
            episode.on_sent(bytes);
        }
    }

    /// Bytes were delivered. Without SACK an acknowledgment that revealed the `next_hole` lets the
    /// segment there leave in any case (RFC 6582 §3.2 step 3).
    pub(super) fn on_delivered(&mut self, ack: PrrAck, next_hole: bool) {
        if let Phase::Recovery(episode) = &mut self.phase {
            self.window = episode.on_ack(ack);
            if next_hole {
                self.window = self.window.max(ack.in_flight + ack.mss);
            }
        }
    }

    pub(in crate::tcp::send) fn is_tail_probe_due(&self) -> bool {
        self.tail == TailProbe::Due
    }

    /// No probe of the tail that is due can be sent.
    pub(in crate::tcp::send) fn cancel_tail_probe(&mut self) {
        if self.tail == TailProbe::Due {
            self.tail = TailProbe::None;
        }
    }

    pub(super) fn fill(&self, info: &mut TcpInfo) {
        let counts = &self.counts;
        info.recovering = !self.is_open();
        info.phase = self.phase.report();
        info.reduction = match &self.phase {
            Phase::Recovery(episode) => Some(episode.reduction()),
            Phase::Open | Phase::Loss { .. } => None,
        };
        info.fast_recoveries = counts.recoveries.into();
        info.tail_probes = counts.tail_probes.into();
        info.tail_losses = counts.tail_losses.into();
        info.spurious_timeouts = counts.spurious_timeouts.into();
        info.duplicates = counts.duplicates.into();
        info.ce_reductions = counts.ce_reductions.into();
    }
}

/// State of the tail loss probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) enum TailProbe {
    /// None was needed.
    #[default]
    None,
    /// One is to be sent.
    Due,
    /// One was sent, and its fate is open.
    Sent {
        /// SND.NXT then.
        high: u64,
        /// Our timestamp in it, if it repeated the last segment.
        again: Option<u32>,
    },
}

/// Loss recovery state of the sender.
#[derive(Debug, Default)]
pub(in crate::tcp) enum Phase {
    /// No loss known.
    #[default]
    Open,
    /// Fast recovery (or a reduction for marks or a local drop) until everything sent before it is
    /// acknowledged. Boxed: an idle connection has none.
    Recovery(Box<Episode>),
    /// After a timeout, until everything sent before it is acknowledged. The controller grows the
    /// window from the bottom.
    Loss {
        /// Acknowledged up to here, it ends.
        high: u64,
        frto: Frto,
    },
}

impl Phase {
    /// The state as controllers see it.
    pub(in crate::tcp) fn report(&self) -> tautline_cc::CongestionState {
        match self {
            Self::Open => tautline_cc::CongestionState::Open,
            Self::Recovery(episode) if episode.is_cwr() => tautline_cc::CongestionState::Cwr,
            Self::Recovery(_) => tautline_cc::CongestionState::Recovery,
            Self::Loss { .. } => tautline_cc::CongestionState::Loss,
        }
    }

    /// Losses are being repaired.
    pub(in crate::tcp) fn repairs(&self) -> bool {
        matches!(
            self.report(),
            tautline_cc::CongestionState::Recovery | tautline_cc::CongestionState::Loss
        )
    }
}

/// Forward RTO recovery: finding out whether a timeout was spurious (RFC 5682 §3.1, with SACK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Frto {
    /// Its fate is known, or it was not sent.
    Off,
    /// The head was sent again; the next acknowledgment may show it (step 2).
    Listening,
    /// The head arrived. New data is sent instead of retransmissions, to see whose acknowledgment
    /// comes (step 3).
    TryingNew,
}

/// One fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Episode {
    /// SND.NXT at its beginning; acknowledged up to here, it ends.
    pub(in crate::tcp) high: u64,
    /// Cause of the episode.
    signal: Signal,
    reduction: Reduction,
}

impl Episode {
    /// Begins a recovery. `divisor` comes from [`config::Prr`](crate::config::Prr).
    pub(in crate::tcp) fn new(signal: Signal, high: u64, divisor: Bytes) -> Self {
        Self {
            high,
            signal,
            reduction: Reduction::new(divisor),
        }
    }

    /// The account of its rate reduction.
    pub(in crate::tcp) fn reduction(&self) -> Reduction {
        self.reduction
    }

    /// Nothing was lost in the network so far: marks, or drops inside this host, reduced the
    /// window.
    pub(in crate::tcp) fn is_cwr(&self) -> bool {
        matches!(self.signal, Signal::Ce | Signal::LocalDrop)
    }

    /// A loss in the network has been found since: the episode lasts until what is sent by now is
    /// acknowledged. The window shrinks once, not twice.
    pub(in crate::tcp) fn lose(&mut self, high: u64) {
        self.signal = Signal::Loss;
        self.high = high;
    }

    /// An acknowledgment during the episode; the answer is the window.
    pub(in crate::tcp) fn on_ack(&mut self, ack: PrrAck) -> Bytes {
        self.reduction.on_ack(ack)
    }

    /// Bytes were sent, new or again.
    pub(in crate::tcp) fn on_sent(&mut self, bytes: Bytes) {
        self.reduction.on_sent(bytes);
    }
}

/// Evidence that would prove the latest reduction needless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Undo {
    /// SND.UNA when it began.
    marker: u64,
    /// Segments sent again since and not reported as duplicates; `None` before the first.
    unexplained: Option<u32>,
    /// Our timestamp in the first of them.
    first: Option<u32>,
    /// The window may be restored. False once a mark has shown that the reduction was due in any
    /// case.
    pub(in crate::tcp) restores: bool,
}

impl Undo {
    /// A reduction begins at SND.UNA `marker`. `probe`: our timestamp in a probe of the tail whose
    /// fate is open.
    pub(in crate::tcp) fn new(marker: u64, probe: Option<u32>, restores: bool) -> Self {
        Self {
            marker,
            unexplained: probe.map(|_| 1),
            first: probe,
            restores,
        }
    }

    /// A segment was sent again with our timestamp `stamp`.
    pub(in crate::tcp) fn on_retransmit(&mut self, stamp: u32) {
        self.unexplained = Some(self.unexplained.unwrap_or(0).saturating_add(1));
        self.first.get_or_insert(stamp);
    }

    /// The peer received `segments` segments up to offset `end` twice (RFC 2883).
    pub(in crate::tcp) fn on_duplicate(&mut self, end: u64, segments: u32) {
        if end > self.marker {
            self.unexplained = self.unexplained.map(|left| left.saturating_sub(segments));
        }
    }

    /// Everything that was sent again had arrived before (RFC 3708).
    pub(in crate::tcp) fn all_duplicated(&self) -> bool {
        self.unexplained == Some(0)
    }

    /// Data marked lost is acknowledged without a retransmission: the acknowledgment echoes a
    /// timestamp older than our first one (Eifel detection, RFC 3522), or nothing was sent again.
    pub(in crate::tcp) fn is_late(&self, proof: Proof) -> bool {
        match self.first {
            None => proof.believed_lost,
            // A segment that an earlier episode sent again is acknowledged with an older echo
            // although nothing was spurious.
            Some(first) => {
                proof
                    .retransmission
                    .is_some_and(|stamp| !seq::older(stamp, first))
                    && proof.echo.is_some_and(|echo| seq::older(echo, first))
            }
        }
    }

    /// Start of the range marked lost.
    pub(in crate::tcp) fn marker(&self) -> u64 {
        self.marker
    }
}

/// Evidence of spurious retransmissions in an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Proof {
    /// It delivered a segment that was marked lost and not retransmitted.
    pub(in crate::tcp) believed_lost: bool,
    /// The earliest timestamp of ours among the acknowledged retransmissions.
    pub(in crate::tcp) retransmission: Option<u32>,
    /// The timestamp of ours that it echoes.
    pub(in crate::tcp) echo: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of either must go when the connection is idle, whether or not there is the other.
    #[test]
    fn each_spare_allocation_counts_until_it_is_released() {
        let mut recovery = Recovery::default();
        assert!(!recovery.has_spare());
        recovery.begin_undo(1, true);
        assert!(recovery.take_undo().is_some() && recovery.has_spare());
        recovery.release_spare();
        assert!(!recovery.has_spare());
        recovery.enter(Episode::new(Signal::Loss, 1, Bytes::new(1)));
        recovery.set_phase(Phase::Open);
        assert!(recovery.has_spare());
    }

    #[test]
    fn a_reduction_is_needless_when_every_retransmission_came_twice() {
        let mut undo = Undo::new(5000, None, true);
        assert!(!undo.all_duplicated(), "nothing was sent again");
        undo.on_duplicate(6000, 1);
        undo.on_retransmit(100);
        undo.on_retransmit(101);
        undo.on_duplicate(5000, 9);
        assert!(
            !undo.all_duplicated(),
            "a duplicate from before the reduction"
        );
        undo.on_duplicate(6000, 1);
        assert!(!undo.all_duplicated());
        undo.on_duplicate(7000, 1);
        assert!(undo.all_duplicated());
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_proves_it() {
        let mut undo = Undo::new(5000, None, true);
        let proof = |echo| Proof {
            believed_lost: false,
            retransmission: Some(101),
            echo: Some(echo),
        };
        assert!(!undo.is_late(proof(50)), "nothing lost was acknowledged");
        assert!(undo.is_late(Proof {
            believed_lost: true,
            ..proof(50)
        }));
        undo.on_retransmit(100);
        undo.on_retransmit(101);
        assert!(undo.is_late(proof(99)) && !undo.is_late(proof(100)));
        assert!(
            !undo.is_late(Proof {
                retransmission: Some(99),
                ..proof(98)
            }),
            "sent again in an earlier episode"
        );
        assert!(!undo.is_late(Proof {
            echo: None,
            ..proof(98)
        }));
    }

    #[test]
    fn a_probe_of_the_tail_counts_as_sent_again() {
        let mut undo = Undo::new(5000, Some(90), true);
        assert!(undo.is_late(Proof {
            believed_lost: false,
            retransmission: Some(90),
            echo: Some(89)
        }));
        undo.on_duplicate(9000, 1);
        assert!(undo.all_duplicated());
    }
}
