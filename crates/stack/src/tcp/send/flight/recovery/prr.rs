//! Proportional rate reduction (RFC 9937, and Linux's after RFC 6937): sends
//! in proportion to what is delivered, so that the flight shrinks to `ssthresh` smoothly.

use tautline_base::Bytes;

/// One recovery's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Delivered since it began (`prr_delivered`).
    pub delivered: Bytes,
    /// Sent since, new or again (`prr_out`).
    pub out: Bytes,
    /// Divisor of deliveries (`RecoverFS`).
    pub divisor: Bytes,
}

/// Input of an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct PrrAck {
    /// Delivered by this acknowledgment.
    pub(in crate::tcp) delivered: Bytes,
    /// In flight after it.
    pub(in crate::tcp) in_flight: Bytes,
    /// Target window.
    pub(in crate::tcp) ssthresh: Bytes,
    /// The acknowledgment advanced SND.UNA and revealed no further loss.
    pub(in crate::tcp) safe: bool,
    pub(in crate::tcp) mss: Bytes,
}

impl Reduction {
    /// Begins a recovery in which `divisor` is delivered by the time the flight is to have shrunk
    /// to `ssthresh`.
    pub(super) fn new(divisor: Bytes) -> Self {
        Self {
            delivered: Bytes::ZERO,
            out: Bytes::ZERO,
            divisor: divisor.max(Bytes::new(1)),
        }
    }

    /// An acknowledgment; the answer is the window.
    pub(super) fn on_ack(&mut self, ack: PrrAck) -> Bytes {
        let PrrAck {
            delivered,
            in_flight,
            ssthresh,
            safe,
            mss,
        } = ack;
        self.delivered += delivered;
        let mut send = if in_flight > ssthresh {
            let product = u128::from(self.delivered.get()) * u128::from(ssthresh.get());
            let proportional =
                u64::try_from(product.div_ceil(u128::from(self.divisor.get()))).unwrap_or(u64::MAX);
            // Only whole segments leave, so the fraction that is due is rounded up to one.
            (mss * proportional.div_ceil(mss.get())).saturating_sub(self.out)
        } else {
            let conservative = self.delivered.saturating_sub(self.out).max(delivered);
            let grown = if safe {
                conservative + mss
            } else {
                conservative
            };
            grown.min(ssthresh.saturating_sub(in_flight))
        };
        if self.out == Bytes::ZERO {
            // The first retransmission always leaves.
            send = send.max(mss);
        }
        in_flight + send
    }

    /// Bytes were sent, new or again.
    pub(super) fn on_sent(&mut self, bytes: Bytes) {
        self.out += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Runs a recovery of `flight` segments of which the first `lost` are lost; one SACK per
    /// acknowledgment, two of them before the episode, no limited transmit. Returns the segments
    /// sent per acknowledgment, and the flight at the end.
    fn recovery(flight: u64, lost: u64, ssthresh: u64, divisor: u64) -> (Vec<u64>, u64) {
        let mut reduction = Reduction::new(Bytes::new(divisor * MSS));
        let mut in_flight = (flight - lost - 3) * MSS;
        let mut sent = Vec::new();
        for _ in 0..flight - lost - 2 {
            let cwnd = reduction.on_ack(PrrAck {
                delivered: Bytes::new(MSS),
                in_flight: Bytes::new(in_flight),
                ssthresh: Bytes::new(ssthresh * MSS),
                safe: false,
                mss: Bytes::new(MSS),
            });
            let allowed = (cwnd.get() - in_flight) / MSS;
            reduction.on_sent(Bytes::new(allowed * MSS));
            sent.push(allowed);
            in_flight = (in_flight + allowed * MSS).saturating_sub(MSS);
        }
        (sent, in_flight / MSS + 1)
    }

    #[test]
    fn example_b_of_the_spec() {
        // By hand after RFC 9937 §6, example B: 20 out, the head lost, ssthresh 10; divisor 18, or
        // 20 in Linux.
        let (sent, flight) = recovery(20, 1, 10, 18);
        assert_eq!(sent, [1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1]);
        assert_eq!(flight, 10);
        let (sent, flight) = recovery(20, 1, 10, 20);
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1]);
        assert_eq!(flight, 10);
    }

    #[test]
    fn example_a_of_the_spec_pins_the_window() {
        // By hand after RFC 9937 §6, example A: 10 out, the head lost, ssthresh 7: the first
        // retransmission, then one per SACK.
        for divisor in [8, 10] {
            let (sent, flight) = recovery(10, 1, 7, divisor);
            assert_eq!((&sent[..], flight), (&[1; 7][..], 7), "divisor {divisor}");
        }
    }

    #[test]
    fn example_c_of_the_spec_sends_one_per_delivery_without_burst() {
        // By hand after RFC 9937 §6, example C: 20 out, 15 lost: below ssthresh at once, one
        // retransmission per SACK.
        for divisor in [18, 20] {
            let (sent, _) = recovery(20, 15, 10, divisor);
            assert_eq!(sent, [1, 1, 1]);
        }
    }

    #[test]
    fn arithmetic_does_not_wrap() {
        // Figures of ns-3's PRR test: 50 000 delivered and nothing sent, towards 100 000 from 50
        // 000.
        let mut reduction = Reduction::new(Bytes::ZERO);
        let ack = |in_flight, delivered| PrrAck {
            delivered: Bytes::new(delivered),
            in_flight: Bytes::new(in_flight),
            ssthresh: Bytes::new(100_000),
            safe: false,
            mss: Bytes::new(1000),
        };
        assert_eq!(reduction.on_ack(ack(50_000, 1_000)), Bytes::new(51_000));
        reduction.on_sent(Bytes::new(u64::MAX / 2));
        assert_eq!(reduction.on_ack(ack(200_000, 50_000)), Bytes::new(200_000));
    }
}
