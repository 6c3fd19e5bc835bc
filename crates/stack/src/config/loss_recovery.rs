//! [`LossRecovery`]: how a connection finds and repairs losses.

use std::time::Duration;

/// Mechanisms of loss detection and recovery. The default is Linux's, with the standard's
/// proportional rate reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRecovery {
    /// Probes the tail of a flight when no acknowledgment comes, two round trips after the last
    /// one (RFC 8985 §7). Default on (Linux `tcp_early_retrans` = 3).
    pub tail_loss_probe: bool,
    /// Longest a peer may hold back its acknowledgment of a lone segment: that much longer the
    /// probe of one waits. Default 200 ms (Linux `TCP_RTO_MIN`; RFC 8985 §7.2 `WCDelAckT`).
    pub max_ack_delay: Duration,
    /// Reordering window: time by which a segment may arrive after one sent later, before it counts
    /// as lost. Default [`Reordering::Adaptive`] (Linux `tcp_recovery` = 1).
    pub reordering: Reordering,
    /// After a timeout, sends new data to find out whether it was spurious (RFC 5682). Default on
    /// (Linux `tcp_frto` = 2).
    pub frto: bool,
    /// Divisor of fast recovery's deliveries. Default [`Prr::Rfc9937`].
    pub prr: Prr,
    /// Round trip that the reordering window begins with. Default [`RackRtt::Newest`].
    pub rack_rtt: RackRtt,
    /// Where the end of the reordering window begins a recovery, the window admits as much as if a
    /// segment had been delivered, as in Linux (`tcp_rack_reo_timeout`). Default false.
    pub prr_credit_on_timer: bool,
    /// When losses of a later flight that a recovery leaves behind begin the next one. Default
    /// [`Successive::AtNextLoss`].
    pub successive: Successive,
}

impl LossRecovery {
    /// As Linux does it, but for [`rack_rtt`](Self::rack_rtt) and
    /// [`prr_credit_on_timer`](Self::prr_credit_on_timer): recorded simulations do without.
    pub fn linux() -> Self {
        Self {
            prr: Prr::Linux,
            successive: Successive::AtOnce,
            ..Self::default()
        }
    }
}

impl Default for LossRecovery {
    fn default() -> Self {
        Self {
            tail_loss_probe: true,
            max_ack_delay: Duration::from_millis(200),
            reordering: Reordering::Adaptive,
            frto: true,
            prr: Prr::Rfc9937,
            rack_rtt: RackRtt::Newest,
            prr_credit_on_timer: false,
            successive: Successive::AtNextLoss,
        }
    }
}

/// RACK's reordering window (RFC 8985 §6.2 step 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reordering {
    /// A quarter of the lowest RTT, and a quarter more for every round trip in which the peer
    /// reports a duplicate; at most the smoothed RTT.
    #[default]
    Adaptive,
    /// Always a quarter of the lowest RTT (Linux `tcp_recovery` = 3).
    Static,
    /// None: what is overtaken is lost. For experiments.
    Ignored,
}

/// The flavour of proportional rate reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Prr {
    /// Divides by what the recovery can still report delivered (RFC 9937's `RecoverFS`).
    #[default]
    Rfc9937,
    /// Divides by the congestion window before the recovery (Linux, after RFC 6937).
    Linux,
}

/// The segment whose round trip RACK adds its window to, among those that one acknowledgment
/// delivers (RFC 8985 §6.2 step 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RackRtt {
    /// The one that left last: the order in which segments are taken in does not matter.
    #[default]
    Newest,
    /// The one that is taken in last, as in the RFC's pseudocode and in Linux (`tcp_rack_advance`):
    /// the highest that is acknowledged cumulatively, or else selectively.
    LastTaken,
}

/// Reaction to a recovery that ends while segments sent after its beginning are known to be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Successive {
    /// They are repaired, and the next loss that is found begins the next recovery: their losses
    /// were found while the window was being reduced, and are answered (RFC 6675 §5).
    #[default]
    AtNextLoss,
    /// The next recovery begins with the same acknowledgment, and reduces the window again
    /// (Linux).
    AtOnce,
}
