//! Recovery states and proportional rate reduction (RFC 9937; `spec/tcp.md` §1.10).

use tautline_base::Bytes;
use tautline_cc::Signal;

/// Where the sender stands with losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No loss known.
    Open,
    /// Fast recovery (or a reduction for marks or a local drop) until everything sent before it is acknowledged.
    Recovery(Episode),
    /// After a timeout, until everything sent before it is acknowledged. The controller grows the window from the bottom.
    Loss { high: u64 },
}

impl Phase {
    /// What a controller is told of it.
    pub(super) fn report(&self) -> tautline_cc::Phase {
        match self {
            Self::Open => tautline_cc::Phase::Open,
            Self::Recovery(episode) if episode.is_cwr() => tautline_cc::Phase::Cwr,
            Self::Recovery(_) => tautline_cc::Phase::Recovery,
            Self::Loss { .. } => tautline_cc::Phase::Loss,
        }
    }
}

/// One fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Episode {
    /// SND.NXT at its beginning; acknowledged up to here, it ends.
    pub(super) high: u64,
    /// What began it.
    signal: Signal,
    prr: Prr,
    /// Our timestamp when the first retransmission left, to recognise a spurious recovery (RFC 3522).
    pub(super) first_retransmission: Option<u32>,
    /// The reduction may prove needless. False once a mark has told that it was not.
    pub(super) undoable: bool,
}

impl Episode {
    /// Begins a recovery. `outstanding` is what this episode can still report delivered: SND.NXT − SND.UNA less what was SACKed
    /// before the acknowledgement that started it.
    pub(super) fn new(signal: Signal, high: u64, outstanding: Bytes) -> Self {
        let prr = Prr { recover_fs: outstanding.max(Bytes::new(1)), ..Prr::default() };
        Self { high, signal, prr, first_retransmission: None, undoable: signal == Signal::Loss }
    }

    /// Nothing was lost in the network so far: marks, or drops inside this host, reduced the window.
    pub(super) fn is_cwr(&self) -> bool {
        matches!(self.signal, Signal::Ce | Signal::LocalDrop)
    }

    /// A loss in the network was found meanwhile: the episode lasts until what is sent by now is acknowledged. The window shrinks
    /// once, not twice.
    pub(super) fn lose(&mut self, high: u64) {
        self.signal = Signal::Loss;
        self.high = high;
    }

    /// An acknowledgement during the episode; the answer is the window.
    pub(super) fn on_ack(&mut self, ack: PrrAck) -> Bytes {
        self.prr.on_ack(ack)
    }

    /// Bytes were sent, new or again.
    pub(super) fn on_sent(&mut self, bytes: Bytes) {
        self.prr.out += bytes;
    }
}

/// Proportional rate reduction: sends in proportion to what is delivered, so that the flight shrinks to `ssthresh` smoothly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Prr {
    delivered: Bytes,
    out: Bytes,
    recover_fs: Bytes,
}

/// What PRR looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrrAck {
    /// Delivered by this acknowledgement.
    pub(super) delivered: Bytes,
    /// In flight after it.
    pub(super) in_flight: Bytes,
    /// Where the window is to end.
    pub(super) ssthresh: Bytes,
    /// The acknowledgement advanced SND.UNA and revealed no further loss.
    pub(super) safe: bool,
    pub(super) mss: Bytes,
}

impl Prr {
    fn on_ack(&mut self, ack: PrrAck) -> Bytes {
        let PrrAck { delivered, in_flight, ssthresh, safe, mss } = ack;
        self.delivered += delivered;
        let mut send = if in_flight > ssthresh {
            let product = u128::from(self.delivered.get()) * u128::from(ssthresh.get());
            let proportional = u64::try_from(product.div_ceil(u128::from(self.recover_fs.get()))).unwrap_or(u64::MAX);
            // Only whole segments leave, so the fraction that is due is rounded up to one.
            (mss * proportional.div_ceil(mss.get())).saturating_sub(self.out)
        } else {
            let conservative = self.delivered.saturating_sub(self.out).max(delivered);
            let grown = if safe { conservative + mss } else { conservative };
            grown.min(ssthresh.saturating_sub(in_flight))
        };
        if self.out == Bytes::ZERO {
            // The first retransmission always leaves.
            send = send.max(mss);
        }
        in_flight + send
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Runs a recovery of `flight` segments of which the first `lost` are lost; one SACK per acknowledgement, two of them before
    /// the episode, no limited transmit. Returns the segments sent per acknowledgement.
    fn recovery(flight: u64, lost: u64, ssthresh: u64) -> (Vec<u64>, u64) {
        let mut episode = Episode::new(Signal::Loss, 0, Bytes::new((flight - 2) * MSS));
        let mut in_flight = (flight - lost - 3) * MSS;
        let mut sent = Vec::new();
        for _ in 0..flight - lost - 2 {
            let cwnd = episode.on_ack(PrrAck {
                delivered: Bytes::new(MSS),
                in_flight: Bytes::new(in_flight),
                ssthresh: Bytes::new(ssthresh * MSS),
                safe: false,
                mss: Bytes::new(MSS),
            });
            let allowed = (cwnd.get() - in_flight) / MSS;
            episode.on_sent(Bytes::new(allowed * MSS));
            sent.push(allowed);
            in_flight = (in_flight + allowed * MSS).saturating_sub(MSS);
        }
        (sent, in_flight / MSS + 1)
    }

    #[test]
    fn example_b_of_the_spec() {
        // spec/tcp.md §1.10 example B: 20 out, the head lost, ssthresh 10, divisor 18.
        let (sent, flight) = recovery(20, 1, 10);
        assert_eq!(sent, [1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1]);
        assert_eq!(flight, 10);
    }

    #[test]
    fn example_c_of_the_spec_sends_one_per_delivery_without_burst() {
        // spec/tcp.md §1.10 example C: 20 out, 15 lost: below ssthresh at once, one retransmission per SACK.
        let (sent, _) = recovery(20, 15, 10);
        assert_eq!(sent, [1, 1, 1]);
    }

    #[test]
    fn arithmetic_does_not_wrap() {
        // Figures of ns-3's PRR test: 50 000 delivered and nothing sent, towards 100 000 from 50 000.
        let mut prr = Prr { recover_fs: Bytes::new(1), ..Prr::default() };
        let ack = |in_flight, delivered| PrrAck {
            delivered: Bytes::new(delivered),
            in_flight: Bytes::new(in_flight),
            ssthresh: Bytes::new(100_000),
            safe: false,
            mss: Bytes::new(1000),
        };
        assert_eq!(prr.on_ack(ack(50_000, 1_000)), Bytes::new(51_000));
        prr.out = Bytes::new(u64::MAX / 2);
        assert_eq!(prr.on_ack(ack(200_000, 50_000)), Bytes::new(200_000));
    }
}
