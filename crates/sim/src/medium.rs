//! [`Medium`]: a radio channel, which decides when the NICs on it may send.
//!
//! A medium carries no frames: [`Network`](crate::Network) stays a tree of cables with their delays
//! and impairments. The NICs on a medium are *granted* ([`SimNic::attach_to_medium`]): frames leave
//! their rings when the medium takes them. TSQ and queue limits above such a NIC see completions
//! when they happen on a real one, and the medium deals with time alone.
//!
//! A cell of `n` stations has `2n` NICs: number `2i` is that of station `i`, number `2i + 1` that
//! of the access point or base station towards it. The latter is the NIC of a
//! [`Link`](crate::Link), one for each station, because both kinds of base have a queue per
//! station: mac80211 since its own queues, LTE in RLC.

#[cfg(test)]
mod bench;
pub mod lte;
pub mod wifi;

use tautline_base::Instant;

use crate::nic::SimNic;

pub use lte::{Lte, LteConfig};
pub use wifi::{Wifi, WifiConfig};

/// The NICs on a medium, by number.
pub trait Nics {
    /// NIC `number`.
    fn nic(&self, number: usize) -> &SimNic;

    /// NIC `number`, to be served.
    fn nic_mut(&mut self, number: usize) -> &mut SimNic;
}

impl Nics for [SimNic] {
    fn nic(&self, number: usize) -> &SimNic {
        &self[number]
    }

    fn nic_mut(&mut self, number: usize) -> &mut SimNic {
        &mut self[number]
    }
}

/// A radio channel.
#[derive(Debug)]
pub enum Medium {
    /// A cell of IEEE 802.11n or ac.
    Wifi(Box<Wifi>),
    /// A cell of LTE.
    Lte(Lte),
}

impl Medium {
    /// Ends the transmissions that are over at `now` and begins those that can. Call it before the
    /// NICs advance, and at every [`next_event`](Self::next_event).
    pub fn advance(&mut self, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        match self {
            Self::Wifi(wifi) => wifi.advance(now, nics),
            Self::Lte(lte) => lte.advance(now, nics),
        }
    }

    /// When [`advance`](Self::advance) next has something to do. A time in the past means at once.
    pub fn next_event(&self, nics: &(impl Nics + ?Sized)) -> Option<Instant> {
        match self {
            Self::Wifi(wifi) => wifi.next_event(nics),
            Self::Lte(lte) => lte.next_event(nics),
        }
    }

    /// Number of NICs on it: two for each station.
    pub fn nic_count(&self) -> usize {
        match self {
            Self::Wifi(wifi) => wifi.nic_count(),
            Self::Lte(lte) => lte.nic_count(),
        }
    }

    /// Makes `nic`, which must be idle, NIC `number` of this medium.
    pub fn attach(&self, number: usize, nic: &mut SimNic) {
        nic.attach_to_medium(match self {
            Self::Wifi(wifi) => wifi.driver_queue(number),
            Self::Lte(_) => None,
        });
    }
}

impl From<Wifi> for Medium {
    fn from(wifi: Wifi) -> Self {
        Self::Wifi(Box::new(wifi))
    }
}

impl From<Lte> for Medium {
    fn from(lte: Lte) -> Self {
        Self::Lte(lte)
    }
}
